//! Every integration test of this executor in one binary: one link, and tests beside each other.

#[path = "../../../tests/support/begun.rs"]
mod begun;
#[path = "../../../tests/support/blocks.rs"]
mod blocks;
mod caches;
mod common;
mod elementwise;
mod experts;
mod functions;
mod graphs;
#[path = "../../../tests/support/gunzip.rs"]
mod gunzip;
#[path = "../../../tests/support/held.rs"]
mod held;
mod hostile;
mod internals;
// The levels of the processor are read from Linux.
#[cfg(target_os = "linux")]
mod levels;
#[path = "../../../tests/support/load.rs"]
mod load;
mod loops;
mod model;
mod movement;
#[path = "../../../tests/support/moves.rs"]
mod moves;
mod noticed;
mod operators;
mod order;
mod products;
mod recurrent;
mod rows;
#[path = "../../../tests/support/session.rs"]
mod session;
#[path = "../../../tests/support/skip.rs"]
mod skip;
mod splits;
#[cfg(feature = "graphs")]
#[path = "../../../tests/support/texts.rs"]
mod texts;
mod windows;

#[cfg(feature = "graphs")]
#[test]
fn sessions_answer_for_every_size() {
    for device in common::devices() {
        session::entries_answer_for_every_size(device);
    }
}

#[cfg(all(feature = "graphs", feature = "reference"))]
#[test]
fn texts_give_the_references_logits() {
    for device in common::devices() {
        texts::a_text_gives_the_logits_behind_each_of_its_ids(device);
    }
}

#[cfg(feature = "graphs")]
#[test]
fn outputs_stay_on_the_device() {
    for device in common::devices() {
        session::outputs_stay_on_the_device(device);
    }
}

#[cfg(feature = "graphs")]
#[test]
fn programs_are_built_right_behind_runs_of_several_threads() {
    let options = rlx_cpu::CpuOptions { threads: Some(4), ..rlx_cpu::CpuOptions::default() };
    let device = rlx_cpu::CpuDevice::new(options).unwrap();
    session::programs_are_built_right_behind_runs(std::sync::Arc::new(device));
}

#[test]
fn held_answers_are_those_of_whole_steps() {
    // The level that is fastest here, with several threads.
    let device = common::devices().pop().unwrap();
    held::answers_are_those_of_whole_steps(device);
}

#[test]
fn programs_run_in_two_parts() {
    for device in common::devices() {
        assert!(!begun::programs_run_in_two_parts(&*device), "all of it runs with the rest");
    }
}

#[test]
fn tensors_stay_and_are_copied_and_read() {
    for device in common::devices() {
        moves::tensors_stay_on_the_device_and_are_copied_and_read(&*device);
    }
}

#[cfg(feature = "graphs")]
#[test]
fn ids_outside_of_their_table_are_refused() {
    for device in common::devices() {
        session::ids_outside_of_their_table_are_refused(device);
    }
}

#[cfg(feature = "graphs")]
#[test]
fn vectors_of_halves_are_widened_by_no_step() {
    for device in common::devices() {
        session::vectors_of_halves_are_widened_by_no_step(device);
    }
}

#[test]
fn blocks_are_filled_as_recorded() {
    let devices = common::devices();
    devices.iter().for_each(blocks::passes_place_the_recorded_tokens);
    let device = devices.last().unwrap();
    blocks::sampled_blocks_depend_on_the_seed(device);
    blocks::answers_go_on_from_whole_blocks(device);
}
