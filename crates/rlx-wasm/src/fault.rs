//! Errors in the form that JavaScript reads.

use rlx_core::Error;
use rlx_core::error::Details;
use serde_json::json;
use wasm_bindgen::JsValue;

/// `{"code", "what", "at", "hint", "details"?}`, to be thrown.
pub(crate) fn throw(e: &Error) -> JsValue {
    let mut value = json!({ "code": e.code.name(), "what": e.what, "at": e.at, "hint": e.hint });
    match e.details.as_deref() {
        Some(Details::Memory { needed, available, context }) => {
            value["details"] =
                json!({ "needed": needed, "available": available, "contextLength": context });
        }
        Some(Details::Tensor { input, given, wanted }) => {
            value["details"] = json!({ "input": input, "given": given, "wanted": wanted });
        }
        _ => {}
    }
    JsValue::from_str(&value.to_string())
}
