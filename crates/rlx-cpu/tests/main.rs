//! Every integration test of this executor in one binary: one link, and tests beside each other.

mod caches;
mod common;
mod elementwise;
mod functions;
mod graphs;
mod hostile;
mod levels;
mod loops;
mod model;
mod movement;
mod noticed;
mod operators;
mod products;
mod rows;
#[path = "../../../tests/support/skip.rs"]
mod skip;
mod splits;
