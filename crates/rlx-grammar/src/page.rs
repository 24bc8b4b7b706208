//! The module of a page: `js/src/openai/grammar.ts` loads it when a call asks for a form.

use crate::vocabulary::Token;
use crate::{Grammar, Matcher, Vocabulary};
use rlx_core::Error;
use wasm_bindgen::prelude::*;

/// An error as the package reads it.
fn throw(e: &Error) -> JsValue {
    let json =
        serde_json::json!({"code": e.code.name(), "what": e.what, "at": e.at, "hint": e.hint});
    JsValue::from_str(&json.to_string())
}

/// The tokens of a model.
#[wasm_bindgen]
pub struct RlxVocabulary {
    vocabulary: Vocabulary,
}

#[wasm_bindgen]
impl RlxVocabulary {
    /// The tokens as `RlxEngine.vocabulary` gives them: of each its kind (0 text, 1 control, 2 end of an answer), the
    /// length of its bytes in four bytes, the lowest first, and its bytes.
    #[wasm_bindgen(constructor)]
    pub fn new(bytes: &[u8]) -> Result<RlxVocabulary, JsValue> {
        let mut rest = bytes;
        let tokens = core::iter::from_fn(|| {
            let (&[kind, a, b, c, d], after) = rest.split_first_chunk()?;
            let (text, after) = after.split_at_checked(u32::from_le_bytes([a, b, c, d]) as usize)?;
            rest = after;
            Some(match kind {
                0 => Token::Text(text),
                1 => Token::Control(text),
                _ => Token::End(text),
            })
        });
        let vocabulary = Vocabulary::of_tokens(tokens).map_err(|e| throw(&e))?;
        Ok(RlxVocabulary { vocabulary })
    }

    /// The start of an answer of a form: its kind and its text.
    pub fn matcher(&self, kind: &str, text: &str) -> Result<RlxMatcher, JsValue> {
        let grammar = Grammar::named(kind, text).map_err(|e| throw(&e))?;
        let matcher = Matcher::new(&self.vocabulary, grammar).map_err(|e| throw(&e))?;
        Ok(RlxMatcher { matcher, allowed: vec![0; self.vocabulary.words()] })
    }
}

/// An answer under way.
#[wasm_bindgen]
pub struct RlxMatcher {
    matcher: Matcher,
    allowed: Vec<u32>,
}

#[wasm_bindgen]
impl RlxMatcher {
    /// Takes the tokens that were sampled since the last call, and gives the bits of those that may follow.
    pub fn step(&mut self, sampled: &[u32]) -> Result<Vec<u32>, JsValue> {
        self.allowed.fill(0);
        self.matcher.step(sampled, &mut self.allowed).map_err(|e| throw(&e))?;
        Ok(self.allowed.clone())
    }

    /// Whether nothing may follow but the answer's end.
    pub fn over(&self) -> bool {
        self.matcher.is_over()
    }
}
