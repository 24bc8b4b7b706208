//! Every integration test of this executor in one binary: one link, and tests beside each other.

mod attention_rows;
mod attention_split;
#[path = "../../../tests/support/banks.rs"]
mod banks;
#[path = "../../../tests/support/begun.rs"]
mod begun;
#[path = "../../../tests/support/bless.rs"]
mod bless;
#[path = "../../../tests/support/blocks.rs"]
mod blocks;
mod common;
mod delta_chunks;
mod device;
mod experts;
mod fit;
mod functions;
mod graph_blocks;
mod graph_refusals;
#[path = "../../../tests/support/graphs/mod.rs"]
mod graphs;
#[path = "../../../tests/support/held.rs"]
mod held;
mod kv_blocks;
mod lanes;
#[path = "../../../tests/support/language.rs"]
mod language;
#[path = "../../../tests/support/load.rs"]
mod load;
mod matmul;
mod matmul_half;
mod matmul_rows;
mod model;
#[path = "../../../tests/support/moves.rs"]
mod moves;
mod noticed;
mod operators;
#[path = "../../../tests/support/packed_rows.rs"]
mod packed_rows;
mod parts;
mod recurrent;
mod regions;
mod robust;
mod sample_wgsl;
mod selftest;
#[cfg(feature = "graphs")]
#[path = "../../../tests/support/session.rs"]
mod session;
#[path = "../../../tests/support/step.rs"]
mod step;
#[cfg(feature = "graphs")]
#[path = "../../../tests/support/texts.rs"]
mod texts;
mod tiles;
mod tune;
mod wgsl;
#[path = "../../../tests/support/wide.rs"]
mod wide;

#[cfg(feature = "graphs")]
#[test]
fn sessions_answer_for_every_size() {
    session::entries_answer_for_every_size(common::device());
}

#[cfg(feature = "graphs")]
#[test]
fn texts_give_the_references_logits() {
    texts::a_text_gives_the_logits_behind_each_of_its_ids(common::device());
}

#[cfg(feature = "graphs")]
#[test]
fn outputs_stay_on_the_device() {
    session::outputs_stay_on_the_device(common::device());
}

#[test]
fn held_answers_are_those_of_whole_steps() {
    held::answers_are_those_of_whole_steps(common::device());
}

#[test]
fn programs_run_in_two_parts() {
    let device = common::device();
    assert!(begun::programs_run_in_two_parts(&*device), "the first part runs at once");
}

#[test]
fn a_loss_between_the_parts_of_a_program_is_told() {
    let device = common::device();
    begun::a_loss_between_the_parts_is_told(&*device, || device.gpu().inner().lose());
}

#[test]
fn tensors_stay_and_are_copied_and_read() {
    moves::tensors_stay_on_the_device_and_are_copied_and_read(&*common::device());
}

#[cfg(feature = "graphs")]
#[test]
fn ids_outside_of_their_table_are_refused() {
    session::ids_outside_of_their_table_are_refused(common::device());
}

#[cfg(feature = "graphs")]
#[test]
fn vectors_of_halves_are_widened_by_no_step() {
    session::vectors_of_halves_are_widened_by_no_step(common::device());
}

#[test]
fn blocks_are_filled_as_recorded() {
    let device: std::sync::Arc<dyn rlx_core::runtime::device::Device> = common::device();
    blocks::passes_place_the_recorded_tokens(&device);
    blocks::sampled_blocks_depend_on_the_seed(&device);
    blocks::answers_go_on_from_whole_blocks(&device);
}
