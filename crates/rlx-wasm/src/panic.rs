//! Keeps the message of a panic: JavaScript itself sees only `unreachable`.

use std::panic::PanicHookInfo;
use wasm_bindgen::prelude::*;

#[wasm_bindgen]
extern "C" {
    /// Keeps the message until the trap arrives, in the page or in the worker that this runs in. It is no
    /// function of the page: scripts/lib/glue.mjs makes it a parameter of the glue.
    fn panicked(message: &str);
}

/// From now on panics tell JavaScript what happened and where.
pub(crate) fn tell_panics() {
    std::panic::set_hook(Box::new(tell));
}

fn tell(info: &PanicHookInfo<'_>) {
    let what = info.payload_as_str().unwrap_or("a panic");
    match info.location() {
        Some(at) => panicked(&format!("{what} ({}:{})", at.file(), at.line())),
        None => panicked(what),
    }
}
