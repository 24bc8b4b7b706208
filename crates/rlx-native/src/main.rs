//! The `rlx` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    quiet_drivers();
    rlx_native::cli::main()
}

/// GPU drivers look for a window system and complain on stderr where there is none; errors there
/// are ours alone. Any folder makes them content.
fn quiet_drivers() {
    if cfg!(target_os = "linux") && std::env::var_os("XDG_RUNTIME_DIR").is_none() {
        // SAFETY: nothing else runs yet: `main` calls this first, and no thread was started.
        #[allow(unsafe_code)]
        unsafe {
            std::env::set_var("XDG_RUNTIME_DIR", std::env::temp_dir());
        }
    }
}
