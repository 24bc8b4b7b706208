//! The three stages: HIR (blocks), MIR (operators), LIR (a planned program).

pub mod hir;
pub mod lir;
pub mod mir;
mod module;
#[cfg(feature = "parse")]
pub mod parse;
mod print;
mod print_lir;
pub mod recipe;
pub mod verify;

pub use module::{GraphModule, Stage};
