//! An answer under way, held to a form.

use crate::{Grammar, Vocabulary};
use rlx_core::runtime::generate::constraint::Constraint;
use rlx_core::{Error, Result};
use std::sync::{Mutex, PoisonError};

/// Says after each token of an answer which ones may follow.
pub struct Matcher {
    /// It changes while it looks, and a generation's parts may be shared between threads.
    inner: Mutex<llguidance::Matcher>,
}

/// The part of llguidance's message that a user can act on. A regular expression's fault stands some lines below the
/// first.
fn says(error: &impl ToString) -> String {
    let text = error.to_string();
    let mut lines = text.lines().map(str::trim);
    let first = lines.next().unwrap_or_default();
    match lines.find_map(|line| line.strip_prefix("error: ")) {
        Some(what) if first.ends_with(':') => format!("{first} {what}"),
        _ => first.to_string(),
    }
}

impl Matcher {
    /// The start of an answer of this form.
    ///
    /// # Errors
    /// `Usage` for a grammar that is none, asks for what is not known, or is too complex.
    pub fn new(vocabulary: &Vocabulary, grammar: Grammar<'_>) -> Result<Self> {
        let refused = |said: String| {
            // Other grammars become Lark, whose lines the user has not written.
            let place = said.strip_prefix("at ").and_then(|rest| rest.split_once("): "));
            let said = match place {
                Some((_, what)) if !matches!(grammar, Grammar::Lark(_)) => what,
                _ => &said,
            };
            Error::usage(format!("the grammar cannot be used: {said}")).at("grammar")
        };
        let parser = vocabulary.factory().create_parser(grammar.top_level()?);
        let matcher = llguidance::Matcher::new(Ok(parser.map_err(|e| refused(says(&e)))?));
        if let Some(error) = matcher.get_error() {
            return Err(refused(says(&error)));
        }
        Ok(Matcher { inner: Mutex::new(matcher) })
    }

    /// Takes the tokens that were sampled since the last call, and sets the bits of those that may follow.
    ///
    /// # Errors
    /// `Usage` if the grammar has become too complex to follow, or a sampled token was not allowed.
    pub fn step(&mut self, sampled: &[u32], allowed: &mut [u32]) -> Result<()> {
        let matcher = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mask = matcher
            .consume_tokens(sampled)
            .and_then(|()| matcher.compute_mask_or_eos())
            .map_err(|e| Error::usage(format!("the grammar cannot be followed: {}", says(&e))))?;
        let words = mask.as_slice();
        for (to, from) in allowed.iter_mut().zip(words) {
            *to = *from;
        }
        Ok(())
    }

    /// Whether nothing may follow but the answer's end.
    pub fn is_over(&self) -> bool {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).is_stopped()
    }
}

impl Constraint for Matcher {
    fn next(&mut self, sampled: &[u32], allowed: &mut [u32]) -> Result<bool> {
        self.step(sampled, allowed)?;
        Ok(true)
    }
}
