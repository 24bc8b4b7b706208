//! Every integration test of this executor in one binary: one link, and tests beside each other.

mod caches;
mod common;
mod functions;
mod hostile;
mod loops;
mod model;
mod operators;
mod splits;
