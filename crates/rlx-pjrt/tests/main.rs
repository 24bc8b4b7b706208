//! Every integration test of this executor in one binary, on XLA's CPU device.

mod common;
#[path = "../../../tests/support/graphs/mod.rs"]
mod graphs;
#[path = "../../../tests/support/language.rs"]
mod language;
#[path = "../../../tests/support/load.rs"]
mod load;
mod model;
mod operators;
#[path = "../../../tests/support/step.rs"]
mod step;
