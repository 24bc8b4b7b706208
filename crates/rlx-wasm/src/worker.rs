//! What a web worker calls to be one of the CPU's threads.

use rlx_cpu::page_pool;
use wasm_bindgen::prelude::*;

/// The compiled module, of which a worker makes its own instance.
#[wasm_bindgen(js_name = sharedModule)]
pub fn shared_module() -> JsValue {
    wasm_bindgen::module()
}

/// Works for the page's engines and never returns.
#[wasm_bindgen(js_name = joinPool)]
pub fn join_pool() {
    page_pool::join();
}

/// After a trap in `joinPool`: ends what waits for this worker.
#[wasm_bindgen(js_name = breakUp)]
pub fn break_up() {
    page_pool::break_up();
}
