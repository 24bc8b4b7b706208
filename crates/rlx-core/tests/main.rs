//! Every integration test of the core in one binary: one link, and tests beside each other.

#[path = "../../../tests/support/begun.rs"]
mod begun;
#[path = "../../../tests/support/bless.rs"]
mod bless;
#[path = "../../../tests/support/blocks.rs"]
mod blocks;
mod choice;
mod common;
mod control_flow;
mod dispatch;
mod facts;
mod fuzz;
mod gated_delta_net;
mod generate;
mod gguf_metadata;
mod graph_device;
mod graphs;
#[path = "../../../tests/support/gunzip.rs"]
mod gunzip;
#[path = "../../../tests/support/held.rs"]
mod held;
mod hir;
mod image;
mod image_sam;
#[path = "../../../tests/support/language.rs"]
mod language;
#[path = "../../../tests/support/load.rs"]
mod load;
mod models;
mod moe;
#[path = "../../../tests/support/moves.rs"]
mod moves;
mod noticed;
mod operators;
mod parallel;
mod passes;
mod plan;
mod precision;
mod readers;
#[path = "../../../tests/support/recorded.rs"]
mod recorded;
mod reference;
mod sample;
#[path = "../../../tests/support/session.rs"]
mod session;
#[path = "../../../tests/support/skip.rs"]
mod skip;
mod sound;
mod target_rows;
#[path = "support/targets.rs"]
mod targets;
mod templates;
mod text;
#[path = "../../../tests/support/texts.rs"]
mod texts;
mod tidy;
mod trial;
mod window;

#[test]
fn sessions_of_the_reference_answer_for_every_size() {
    let device = rlx_core::reference::device::ReferenceDevice::new();
    session::entries_answer_for_every_size(std::sync::Arc::new(device));
}

#[test]
fn texts_give_the_references_logits() {
    let device = rlx_core::reference::device::ReferenceDevice::new();
    texts::a_text_gives_the_logits_behind_each_of_its_ids(std::sync::Arc::new(device));
}

#[test]
fn outputs_of_the_reference_stay_on_the_device() {
    let device = rlx_core::reference::device::ReferenceDevice::new();
    session::outputs_stay_on_the_device(std::sync::Arc::new(device));
}

#[test]
fn the_references_tensors_stay_and_are_copied_and_read() {
    let device = rlx_core::reference::device::ReferenceDevice::new();
    moves::tensors_stay_on_the_device_and_are_copied_and_read(&device);
}

#[test]
fn held_answers_of_the_reference_are_those_of_whole_steps() {
    let device = rlx_core::reference::device::ReferenceDevice::new();
    held::answers_are_those_of_whole_steps(std::sync::Arc::new(device));
}

#[test]
fn programs_of_the_reference_run_in_two_parts() {
    let device = rlx_core::reference::device::ReferenceDevice::new();
    assert!(!begun::programs_run_in_two_parts(&device), "all of it runs with the rest");
}

#[test]
fn ids_outside_of_a_table_are_refused_by_sessions_of_the_reference() {
    let device = rlx_core::reference::device::ReferenceDevice::new();
    session::ids_outside_of_their_table_are_refused(std::sync::Arc::new(device));
}

#[test]
fn vectors_of_halves_are_widened_by_no_step() {
    let device = rlx_core::reference::device::ReferenceDevice::new();
    session::vectors_of_halves_are_widened_by_no_step(std::sync::Arc::new(device));
}

#[test]
fn blocks_are_filled_as_recorded() {
    let device: std::sync::Arc<dyn rlx_core::runtime::device::Device> =
        std::sync::Arc::new(rlx_core::reference::device::ReferenceDevice::new());
    blocks::passes_place_the_recorded_tokens(&device);
    blocks::sampled_blocks_depend_on_the_seed(&device);
    blocks::answers_go_on_from_whole_blocks(&device);
    blocks::blocks_that_do_not_fit_are_refused(&device);
}
