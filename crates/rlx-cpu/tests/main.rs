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
#[path = "../../../tests/support/moves.rs"]
mod moves;
mod noticed;
mod operators;
mod products;
mod rows;
#[path = "../../../tests/support/skip.rs"]
mod skip;
mod splits;

#[test]
fn tensors_stay_and_are_copied_and_read() {
    for device in common::devices() {
        moves::tensors_stay_on_the_device_and_are_copied_and_read(&device);
    }
}
