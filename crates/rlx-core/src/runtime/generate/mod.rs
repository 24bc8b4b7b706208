//! Answers of a language model: the engine over its session, the machine that decides what to submit next, and
//! the window of steps in flight.

pub mod blocks;
pub mod constraint;
mod conversations;
pub mod engine;
mod generation;
pub mod machine;
mod options;
pub mod pacing;
mod recurrences;
pub mod restore;
mod rings;
mod slide;
pub mod window;
