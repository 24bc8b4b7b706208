//! Errors as JavaScript reads them.

use rlx_core::Error;
use serde_json::json;
use wasm_bindgen::JsValue;

/// `{"code", "what", "at", "hint"}`, to be thrown.
pub(crate) fn throw(e: &Error) -> JsValue {
    let value = json!({ "code": e.code.name(), "what": e.what, "at": e.at, "hint": e.hint });
    JsValue::from_str(&value.to_string())
}
