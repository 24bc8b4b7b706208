//! Errors in the form that JavaScript reads.

use crate::answer::Object;
use rlx_core::Error;
use rlx_core::error::Details;
use wasm_bindgen::JsValue;

/// `{"code", "what", "at", "hint", "details"?}`, to be thrown.
pub(crate) fn throw(e: &Error) -> JsValue {
    let mut value = Object::new()
        .with("code", &e.code.name())
        .with("what", &e.what)
        .with("at", &e.at)
        .with("hint", &e.hint);
    let details = match e.details.as_deref() {
        Some(Details::Memory { needed, available, context }) => Object::new()
            .with("needed", needed)
            .with("available", available)
            .with("contextLength", context),
        Some(Details::Tensor { input, given, wanted }) => {
            Object::new().with("input", input).with("given", given).with("wanted", wanted)
        }
        _ => return JsValue::from_str(&value.text()),
    };
    value.set("details", &details);
    JsValue::from_str(&value.text())
}
