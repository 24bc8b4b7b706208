//! Integration tests that take minutes, because XLA compiles each of their hundreds of graphs:
//! `cargo test -p rlx-pjrt --test wide`.

#[path = "../../../tests/support/begun.rs"]
mod begun;
#[path = "../../../tests/support/blocks.rs"]
mod blocks;
mod common;
mod families;
#[path = "../../../tests/support/graphs/mod.rs"]
mod graphs;
#[path = "../../../tests/support/language.rs"]
#[allow(dead_code)] // a part of it is for tests in `main.rs`
mod language;
#[path = "../../../tests/support/load.rs"]
mod load;
#[path = "../../../tests/support/recorded.rs"]
mod recorded;
mod recurrent;
#[path = "../../../tests/support/session.rs"]
mod session;
#[path = "../../../tests/support/skip.rs"]
mod skip;
#[path = "../../../tests/support/step.rs"]
mod step;
#[path = "../../../tests/support/texts.rs"]
mod texts;
mod unmasking;

#[test]
fn programs_run_in_two_parts() {
    assert!(
        !begun::programs_run_in_two_parts(&*common::executor()),
        "all of it runs with the rest"
    );
}

#[test]
fn sessions_answer_for_every_size() {
    session::entries_answer_for_every_size(common::executor());
}

#[test]
fn ids_outside_of_their_table_are_refused() {
    session::ids_outside_of_their_table_are_refused(common::executor());
}

#[test]
fn outputs_stay_on_the_device() {
    session::outputs_stay_on_the_device(common::executor());
}

#[test]
fn texts_give_the_references_logits() {
    texts::a_text_gives_the_logits_behind_each_of_its_ids(common::executor());
}

#[test]
fn vectors_of_halves_are_widened_by_no_step() {
    session::vectors_of_halves_are_widened_by_no_step(common::executor());
}

#[test]
fn blocks_are_filled_as_recorded() {
    let device: std::sync::Arc<dyn rlx_core::runtime::device::Device> = common::executor();
    blocks::passes_place_the_recorded_tokens(&device);
    blocks::sampled_blocks_depend_on_the_seed(&device);
    blocks::answers_go_on_from_whole_blocks(&device);
}
