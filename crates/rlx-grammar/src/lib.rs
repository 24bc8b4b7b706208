//! Holds the answers of a language model to a form: a JSON schema, a context-free grammar, a regular expression.
//!
//! [`Vocabulary`] is made of a tokenizer once, [`Matcher`] of a [`Grammar`] for each answer. A matcher says after each
//! token which ones may follow, and the sampler chooses among these (`rlx_core::sample`). The parsing is that of the
//! library [`llguidance`]. Natively a matcher is a
//! [`Constraint`](rlx_core::runtime::generate::constraint::Constraint) of a generation; a page loads this crate as a
//! module of its own (`page.rs`), only when a call asks for a form.

mod gbnf;
mod grammar;
mod matcher;
#[cfg(target_arch = "wasm32")]
mod page;
mod vocabulary;

pub use grammar::Grammar;
pub use matcher::Matcher;
pub use vocabulary::Vocabulary;
