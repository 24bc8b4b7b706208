//! Answers that are held to a form: the package's `openai/held.ts` says which tokens may follow.

use js_sys::{Function, Uint32Array};
use rlx_core::runtime::generate::constraint::Constraint;
use rlx_core::runtime::generate::engine::{Engine, Generation};
use rlx_core::text::Tokenizer;
use rlx_core::{Error, Result};
use wasm_bindgen::{JsCast, JsValue};

/// A function of the page: it takes the tokens that were sampled since its last call, and answers with the bits of
/// those that may follow, with nothing if all may, or with a text that says what is wrong.
struct Held(Function);

/// Has the page's function, if one is given, hold an answer to its form.
pub(crate) fn hold(
    generation: &mut Generation,
    engine: &Engine,
    next: Option<Function>,
) -> Result<()> {
    match next {
        Some(next) => generation.constrain(engine, Box::new(Held(next))),
        None => Ok(()),
    }
}

impl Constraint for Held {
    fn next(&mut self, sampled: &[u32], allowed: &mut [u32]) -> Result<bool> {
        let answer = self.0.call1(&JsValue::NULL, &Uint32Array::from(sampled));
        match answer.map(JsCast::dyn_into::<Uint32Array>) {
            Ok(Ok(bits)) if bits.length() as usize <= allowed.len() => {
                bits.copy_to(&mut allowed[..bits.length() as usize]);
            }
            Ok(Err(nothing)) if nothing.is_undefined() => return Ok(false),
            Ok(Err(text)) if text.is_string() => {
                return Err(Error::usage(text.as_string().unwrap_or_default()));
            }
            _ => return Err(Error::internal("the form of an answer was not told")),
        }
        Ok(true)
    }
}

/// Of each token its kind (0 text, 1 control, 2 end of an answer), how many bytes it has, in four bytes, the lowest
/// first, and its bytes.
pub(crate) fn vocabulary(tokenizer: &Tokenizer) -> Vec<u8> {
    let mut out = Vec::new();
    for id in 0..tokenizer.vocab_size() as u32 {
        let piece = tokenizer.piece(id);
        out.push(match (tokenizer.is_eog(id), tokenizer.is_control(id)) {
            (true, _) => 2,
            (false, control) => u8::from(control),
        });
        out.extend_from_slice(&(piece.len() as u32).to_le_bytes());
        out.extend_from_slice(piece);
    }
    out
}
