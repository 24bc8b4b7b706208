//! The function with which a web worker becomes one of the CPU's threads.

use rlx_cpu::page_pool;
use wasm_bindgen::prelude::*;

/// Works for the page's engines and never returns. After a trap the page ends all that share the memory.
#[wasm_bindgen(js_name = joinPool)]
pub fn join_pool() {
    page_pool::join();
}
