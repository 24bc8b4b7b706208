//! The `rlx` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    quiet_drivers();
    group_of_cards();
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

/// What NCCL, by which several cards exchange tensors, has to find in the environment.
fn group_of_cards() {
    for (name, value) in rlx_cuda::driver::cuda::ranks::ENVIRONMENT {
        if std::env::var_os(name).is_none() {
            // SAFETY: as above.
            #[allow(unsafe_code)]
            unsafe {
                std::env::set_var(name, value);
            }
        }
    }
}
