// SPDX-License-Identifier: GPL-2.0-only

fn main() -> std::process::ExitCode {
    fusion::run()
}
