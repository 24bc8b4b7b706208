//! `rlx-bindgen MODULE.wasm FOLDER`: writes `rlx_wasm.js` and `rlx_wasm_bg.wasm` into FOLDER, made
//! from the module that rustc wrote. `scripts/build.mjs` calls it.

use std::env::args_os;
use std::process::ExitCode;
use wasm_bindgen_cli_support::Bindgen;

fn main() -> ExitCode {
    let [module, folder] = &args_os().skip(1).collect::<Vec<_>>()[..] else {
        eprintln!("usage: rlx-bindgen MODULE.wasm FOLDER");
        return ExitCode::from(2);
    };
    let mut bindgen = Bindgen::new();
    let done = bindgen
        .input_path(module)
        .out_name("rlx_wasm")
        .typescript(false)
        .remove_producers_section(true)
        // The page says where the module is, so that bundlers see it.
        .omit_default_module_path(true)
        .web(true)
        .and_then(|bindgen| bindgen.generate(folder));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rlx-bindgen: {error:#}");
            ExitCode::FAILURE
        }
    }
}
