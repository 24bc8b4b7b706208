//! Errors in the form that JavaScript reads.

use crate::answer::Object;
use rlx_core::Error;
use rlx_core::error::Details;
use wasm_bindgen::JsValue;

/// An error to be thrown, as text.
pub(crate) fn throw(e: &Error) -> JsValue {
    JsValue::from_str(&error(e).text())
}

/// `{"code", "what", "at", "hint", "details"?}`.
pub(crate) fn error(e: &Error) -> Object {
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
        _ => return value,
    };
    value.set("details", &details);
    value
}
