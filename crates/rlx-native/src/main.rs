//! The `rlx` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    rlx_native::cli::main()
}
