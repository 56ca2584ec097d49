// SPDX-License-Identifier: GPL-2.0-only
//! The one function the pure C files expect from their world.

use std::ffi::c_void;

/// The CRC-32C of what `crc` is the CRC-32C of, followed by `bytes` bytes at `data`.
///
/// # Safety
/// `data` points to `bytes` readable bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn fusion_crc32c_append(crc: u32, data: *const c_void, bytes: usize) -> u32 {
    // SAFETY: the caller's promise.
    crc32c::crc32c_append(crc, unsafe {
        std::slice::from_raw_parts(data.cast::<u8>(), bytes)
    })
}
