//! What form a model's answers have.

use crate::load::Model;
use rlx_core::Result;
use rlx_core::runtime::generate::constraint::Constraint;
use rlx_grammar::{Grammar, Matcher, Vocabulary};

/// A form that every answer of a model has: a JSON schema, a grammar, a regular expression.
pub struct Form {
    vocabulary: Vocabulary,
    kind: &'static str,
    text: String,
}

impl Form {
    /// A form for answers of this model; `kind` is a name of [`Grammar::named`].
    ///
    /// # Errors
    /// As [`Matcher::new`] and [`Vocabulary::new`].
    pub fn new(model: &Model, kind: &'static str, text: String) -> Result<Self> {
        let form = Form { vocabulary: Vocabulary::new(model.engine.tokenizer())?, kind, text };
        form.matcher()?; // what is wrong with it is said before the first answer
        Ok(form)
    }

    fn matcher(&self) -> Result<Matcher> {
        Matcher::new(&self.vocabulary, Grammar::named(self.kind, &self.text)?)
    }

    /// What holds one answer to it.
    ///
    /// # Errors
    /// As [`Matcher::new`].
    pub fn constraint(&self) -> Result<Box<dyn Constraint>> {
        Ok(Box::new(self.matcher()?))
    }
}
