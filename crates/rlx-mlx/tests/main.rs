//! Every integration test of this executor in one binary, on MLX's CPU: `scripts/mlx.sh` fetches it.

#[path = "../../../tests/support/begun.rs"]
mod begun;
#[path = "../../../tests/support/blocks.rs"]
mod blocks;
mod common;
#[path = "../../../tests/support/decoder.rs"]
mod decoder;
#[path = "../../../tests/support/graphs/mod.rs"]
mod graphs;
#[path = "../../../tests/support/language.rs"]
mod language;
#[path = "../../../tests/support/load.rs"]
mod load;
mod model;
#[path = "../../../tests/support/moves.rs"]
mod moves;
mod operators;
#[path = "../../../tests/support/recorded.rs"]
mod recorded;
#[path = "../../../tests/support/session.rs"]
mod session;
#[path = "../../../tests/support/skip.rs"]
mod skip;
#[path = "../../../tests/support/step.rs"]
mod step;

#[test]
fn tensors_stay_and_are_copied_and_read() {
    moves::tensors_stay_on_the_device_and_are_copied_and_read(&*common::own_device());
}

#[test]
fn programs_run_in_two_parts() {
    // Nothing runs before the rest: a graph is one run.
    assert!(!begun::programs_run_in_two_parts(&*common::own_device()));
}

#[test]
fn sessions_answer_for_every_size() {
    session::entries_answer_for_every_size(common::own_device());
}

#[test]
fn outputs_stay_on_the_device() {
    session::outputs_stay_on_the_device(common::own_device());
}

#[test]
fn ids_outside_of_their_table_are_refused() {
    session::ids_outside_of_their_table_are_refused(common::own_device());
}

#[test]
fn blocks_are_filled_as_recorded() {
    let device: std::sync::Arc<dyn rlx_core::runtime::device::Device> = common::own_device();
    blocks::passes_place_the_recorded_tokens(&device);
    blocks::sampled_blocks_depend_on_the_seed(&device);
    blocks::answers_go_on_from_whole_blocks(&device);
}

#[test]
fn vectors_of_halves_are_widened_by_no_step() {
    session::vectors_of_halves_are_widened_by_no_step(common::own_device());
}
