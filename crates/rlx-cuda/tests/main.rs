//! Every integration test of this executor in one binary: kernels run in the emulator.

#[path = "../../../tests/support/banks.rs"]
mod banks;
#[path = "../../../tests/support/begun.rs"]
mod begun;
#[path = "../../../tests/support/blocks.rs"]
mod blocks;
mod common;
#[path = "../../../tests/support/decoder.rs"]
mod decoder;
mod emulator;
mod experts;
mod fake;
#[path = "../../../tests/support/graphs/mod.rs"]
mod graphs;
mod group;
mod hip;
mod kernels;
#[path = "../../../tests/support/language.rs"]
mod language;
#[path = "../../../tests/support/load.rs"]
mod load;
mod model;
#[path = "../../../tests/support/moves.rs"]
mod moves;
mod narrow;
mod networks;
mod nvrtc;
mod operators;
#[path = "../../../tests/support/packed_rows.rs"]
mod packed_rows;
#[path = "../../../tests/support/recorded.rs"]
mod recorded;
mod recorder;
mod recurrent;
mod rocm;
mod rocm_matrix;
mod rocm_products;
#[path = "../../../tests/support/session.rs"]
mod session;
#[path = "../../../tests/support/skip.rs"]
mod skip;
#[path = "../../../tests/support/step.rs"]
mod step;
mod times;
mod wide_elements;

#[test]
fn tensors_stay_and_are_copied_and_read() {
    moves::tensors_stay_on_the_device_and_are_copied_and_read(&*common::device());
}

#[test]
fn programs_run_in_two_parts() {
    assert!(begun::programs_run_in_two_parts(&*common::device()), "the first part runs at once");
}

#[test]
fn sessions_answer_for_every_size() {
    session::entries_answer_for_every_size(common::device());
}

#[test]
fn outputs_stay_on_the_device() {
    session::outputs_stay_on_the_device(common::device());
}

#[test]
fn ids_outside_of_their_table_are_refused() {
    session::ids_outside_of_their_table_are_refused(common::device());
}

#[test]
fn blocks_are_filled_as_recorded() {
    let device: std::sync::Arc<dyn rlx_core::runtime::device::Device> = common::device();
    blocks::passes_place_the_recorded_tokens(&device);
    // The emulator takes minutes for these.
    if std::env::var_os("RLX_CUDA").is_some() {
        blocks::sampled_blocks_depend_on_the_seed(&device);
        blocks::answers_go_on_from_whole_blocks(&device);
    }
}

#[test]
fn vectors_of_halves_are_widened_by_no_step() {
    session::vectors_of_halves_are_widened_by_no_step(common::device());
}
