//! What must leave nothing behind: loads and disposals, several engines on one device, loads that
//! find no memory, many short answers.

use crate::common;
use common::model::{block, generate, load, try_load};
use common::{TestDevice, device};
use rlx_core::Code;
use rlx_core::runtime::device::Device;
use rlx_core::runtime::generate::engine::{Engine, GenerateOptions, Generation, Progress};
use rlx_core::runtime::model::ModelOptions;
use std::task::{Context, Waker};

const MODEL: &str = "rustdoc-2m/rustdoc-2m-q4_k_m.gguf";

fn options() -> ModelOptions {
    let mut options = ModelOptions::chat(16);
    options.context = Some(64);
    options
}

/// Bytes alive by the device's ledger and as counted around it.
fn live(device: &TestDevice) -> (u64, u64) {
    (device.counters().live_bytes, device.gpu().counts().live_bytes)
}

#[test]
fn twenty_cycles_of_load_and_dispose_leave_no_byte() {
    let device = device();
    let prompt = vec![2044, 2045, 100];
    let (mut answers, mut held) = (Vec::new(), Vec::new());
    for cycle in 0..20 {
        let mut engine = load(device.clone(), MODEL, &options());
        // Some are disposed of before they have answered anything.
        if cycle % 4 == 0 {
            answers.push(generate(&mut engine, prompt.clone(), 4, false).0);
            held.push(live(&device));
        }
        drop(engine);
        assert_eq!(live(&device), (0, 0), "cycle {cycle}");
    }
    let counts = device.gpu().counts();
    assert_eq!((counts.bind_groups, counts.lists), (0, 0));
    assert!(answers.iter().all(|a| *a == answers[0]), "{answers:?}");
    assert!(held.iter().all(|h| *h == held[0] && h.0 == h.1 && h.0 > 0), "{held:?}");
}

/// One poll of an answer; true when it has ended.
fn step(generation: &mut Generation, engine: &mut Engine) -> bool {
    let mut cx = Context::from_waker(Waker::noop());
    match generation.poll_next(engine, &mut cx) {
        std::task::Poll::Ready(Some(Progress::Done(reason))) => {
            assert!(reason.finish().is_some(), "{reason:?}");
            true
        }
        _ => false,
    }
}

#[test]
fn two_engines_on_one_device_answer_in_turns_as_they_do_alone() {
    let device = device();
    let other = "rustdoc-2m/rustdoc-2m-q8_0.gguf";
    let prompts = [vec![2044, 2045, 100, 7], vec![2044, 2045, 9, 300, 301]];
    let ask =
        GenerateOptions { max_tokens: Some(16), ignore_stops: true, ..GenerateOptions::default() };
    let alone = [MODEL, other].map(|path| {
        let mut engine = load(device.clone(), path, &options());
        let answers = prompts.clone().map(|prompt| {
            let mut generation = engine.start(prompt, &ask).unwrap();
            while block(|cx| generation.poll_next(&mut engine, cx)).is_some() {}
            generation.tokens().to_vec()
        });
        drop(engine);
        answers
    });
    assert_ne!(alone[0], alone[1]);

    let mut first = load(device.clone(), MODEL, &options());
    let one = live(&device);
    let mut second = load(device.clone(), other, &options());
    for (i, prompt) in prompts.iter().enumerate() {
        let mut a = first.start(prompt.clone(), &ask).unwrap();
        let mut b = second.start(prompt.clone(), &ask).unwrap();
        let mut done = (false, false);
        while done != (true, true) {
            done = (done.0 || step(&mut a, &mut first), done.1 || step(&mut b, &mut second));
        }
        assert_eq!(a.tokens(), alone[0][i]);
        assert_eq!(b.tokens(), alone[1][i]);
    }
    // One goes; the other answers on.
    drop(second);
    assert!(live(&device) >= one);
    assert_eq!(generate(&mut first, prompts[0].clone(), 4, false).0, alone[0][0][..4]);
    drop(first);
    assert_eq!(live(&device), (0, 0));
}

#[test]
fn a_load_without_memory_for_any_one_buffer_says_so_and_leaves_no_byte() {
    let device = device();
    let mut engine = load(device.clone(), MODEL, &options());
    let buffers = device.gpu().counts().buffers;
    let want = generate(&mut engine, vec![2044, 2045, 100], 4, false).0;
    drop(engine);
    assert!(buffers > 10, "{buffers} buffers");
    for n in 0..buffers {
        device.gpu().refuse_buffer(n);
        let refused = try_load(device.clone(), MODEL, &options());
        let e = refused.err().unwrap_or_else(|| panic!("buffer {n} was not refused"));
        assert_eq!(e.code, Code::OutOfMemory, "buffer {n}: {e}");
        assert_eq!(live(&device), (0, 0), "buffer {n}: {e}");
    }
    let mut engine = load(device.clone(), MODEL, &options());
    assert_eq!(generate(&mut engine, vec![2044, 2045, 100], 4, false).0, want);
    drop(engine);
    assert_eq!(live(&device), (0, 0));
}

#[test]
#[ignore = "minutes on a GPU in software: npm test -- --only wide"]
fn a_thousand_short_answers_leave_memory_as_ten_do() {
    let device = device();
    let mut engine = load(device.clone(), "gguf/llama.gguf", &options());
    let mut after_ten = None;
    for i in 1..=1000u32 {
        // Some share nothing with the prompt before, some all but the end; some take two chunks.
        let mut prompt = vec![1 + i % 7, 5, 9];
        prompt.extend((0..i * 5 % 19).map(|k| 30 + k));
        let (tokens, _) = generate(&mut engine, prompt, 1 + (i % 3) as usize, false);
        assert!(!tokens.is_empty());
        let counts = device.gpu().counts();
        let seen =
            (live(&device), counts.bind_groups, counts.lists, counts.buffers, counts.pipelines);
        match i {
            10 => after_ten = Some(seen),
            1000 => assert_eq!(Some(seen), after_ten),
            _ => {}
        }
    }
    drop(engine);
    let counts = device.gpu().counts();
    assert_eq!((live(&device), counts.bind_groups, counts.lists), ((0, 0), 0, 0));
}
