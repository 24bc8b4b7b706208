//! Answers of a language model: the engine over its session, the machine that says what to submit next, and how
//! many steps are in flight.

pub mod engine;
pub mod machine;
pub mod pacing;
pub mod restore;
pub mod window;
