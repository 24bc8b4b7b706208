//! Every integration test of this executor in one binary: one link, and tests beside each other.

mod caches;
mod common;
mod elementwise;
mod functions;
mod hostile;
mod levels;
mod loops;
mod model;
mod noticed;
mod operators;
mod rows;
#[path = "../../../tests/support/skip.rs"]
mod skip;
mod splits;
