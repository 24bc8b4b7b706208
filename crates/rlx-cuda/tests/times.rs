//! Times of launches, and that timed programs compute the same.

use crate::common::{TestDevice, device};
use crate::language::{block, generate, load};
use rlx_core::runtime::device::{Device, TimedSubmission};
use rlx_core::runtime::generate::engine::Engine;
use rlx_core::runtime::model::ModelOptions;
use rlx_core::types::DType;
use std::collections::BTreeSet;
use std::sync::Arc;

const PROMPT: [u32; 6] = [1, 5, 9, 2, 7, 3];

fn times(device: &dyn Device) -> Vec<TimedSubmission> {
    block(|cx| device.poll_times(cx)).unwrap()
}

/// A model's answer is timed, and is what it is without; gives the kernels that were timed.
pub fn answers_are_timed(device: &Arc<TestDevice>) -> BTreeSet<&'static str> {
    // As the tests of greedy tokens have it, so that kernels are theirs.
    let mut options = ModelOptions::chat(7);
    options.compile.kv = DType::F16;
    options.context = Some(256);
    let mut engine: Engine = load(device.clone(), "rustdoc-2m/rustdoc-2m-q4_k_m.gguf", &options);
    let want = generate(&mut engine, PROMPT.into(), 4, false).0;
    assert!(times(&**device).is_empty(), "nobody has asked");
    device.time_launches(true).unwrap();
    let got = generate(&mut engine, PROMPT.into(), 4, false).0;
    device.time_launches(false).unwrap();
    assert_eq!(got, want);
    let timed = times(&**device);
    assert!(timed.len() >= 4, "a prompt, and a step for each token behind the first: {timed:?}");
    let (mut before, mut names) = (0, BTreeSet::new());
    for submission in &timed {
        let program = engine.program(submission.program).expect("a program of the engine");
        let steps: Vec<u32> = submission.launches.iter().map(|l| l.step).collect();
        assert!(steps.is_sorted() && steps[0] == 0, "{steps:?}");
        for launch in &submission.launches {
            assert!(program.steps.len() > launch.step as usize, "{launch:?}");
            let [begin, end] = launch.ns;
            assert!(before <= begin && begin <= end, "{launch:?} behind {before}");
            before = end;
            names.insert(launch.kernel);
        }
        // The last step, sampling, is one kernel.
        let last = submission.launches.last().unwrap();
        let op = program.steps[last.step as usize].op.name();
        assert_eq!(last.kernel == "sample", op == "sample", "{last:?} of {op}");
        let has_sampling = program.steps.iter().any(|step| step.op.name() == "sample");
        assert_eq!(has_sampling, op == "sample");
    }
    assert!(timed.iter().flat_map(|s| &s.launches).any(|l| l.ns[1] > l.ns[0]), "time passes");
    assert!(times(&**device).is_empty(), "times are told once");
    assert_eq!(generate(&mut engine, PROMPT.into(), 4, false).0, want);
    assert!(times(&**device).is_empty(), "nobody asks any more");
    names
}

#[test]
fn every_launch_of_an_answer_has_its_time() {
    let names = answers_are_timed(&device());
    for kernel in ["attention_one", "matmul_one", "sample"] {
        assert!(names.contains(kernel), "{kernel} in {names:?}");
    }
}
