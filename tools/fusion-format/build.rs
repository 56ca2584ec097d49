// SPDX-License-Identifier: GPL-2.0-only
//! Compiles the module's pure C files and generates bindings to its headers, so
//! that the tools and the module share one definition of format and layout.

use std::env;
use std::fs;
use std::path::PathBuf;

const SOURCES: [&str; 6] = [
    "layout.c",
    "pairing.c",
    "codec.c",
    "patch.c",
    "row.c",
    "journal-record.c",
];
const HEADERS: [&str; 8] = [
    "pure.h",
    "layout.h",
    "pairing.h",
    "format.h",
    "codec.h",
    "patch.h",
    "row.h",
    "journal-record.h",
];

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets this"));
    let module = manifest.join("../../dm-fusion");
    let wrappers = out.join("static_fns");

    let header = out.join("fusion.h");
    let includes: String = HEADERS
        .iter()
        .map(|name| format!("#include \"{name}\"\n"))
        .collect();
    fs::write(&header, includes).expect("OUT_DIR can be written");

    bindgen::Builder::default()
        .header(header.display().to_string())
        .clang_arg(format!("-I{}", module.display()))
        .allowlist_item("(fusion|FUSION)_.*")
        .blocklist_function("fusion_crc32c.*")
        .prepend_enum_name(false)
        .wrap_unsafe_ops(true)
        .derive_default(true)
        .layout_tests(true)
        .wrap_static_fns(true)
        .wrap_static_fns_path(&wrappers)
        .generate()
        .expect("the module's headers can be read by libclang")
        .write_to_file(out.join("ffi.rs"))
        .expect("OUT_DIR can be written");

    let mut build = cc::Build::new();
    build
        .std("gnu11")
        .warnings(true)
        .include(&module)
        .file(wrappers.with_extension("c"));
    for name in SOURCES {
        build.file(module.join(name));
        println!("cargo::rerun-if-changed={}", module.join(name).display());
    }
    for name in HEADERS {
        println!("cargo::rerun-if-changed={}", module.join(name).display());
    }
    build.compile("fusion_pure");
}
