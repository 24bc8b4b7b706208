//! The three stages: HIR (blocks), MIR (operators), LIR (a planned program).

pub mod lir;
pub mod mir;
mod print;
pub mod verify;
