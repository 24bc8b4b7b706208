//! The cases: every order of events where they are few, random ones where they are many.

use super::*;

#[test]
fn a_stop_token_in_every_order_with_two_faults() {
    // Two chunks, four sampled tokens, steps ahead of the stop.
    let runs = every_order(case(&[0, 1, 2], &[0, 1, 1, EOS], None, &[], 3), 2);
    println!("{runs} orders");
    assert!(runs > 1000);
}

#[test]
fn every_end_token_of_the_model_ends_an_answer() {
    // The device stops by the ids that the engine writes: beyond them it would sample on.
    for end in [EOS, EOT] {
        let runs = every_order(case(&[0, 1, 2], &[0, 1, end], None, &[], 3), 0);
        assert!(runs > 1);
    }
    let (compiled, tokenizer) = world();
    let case = case(&[0], &[0, 1], Some(2), &[], 1);
    let stop_ids = |ignore_stops: bool, own: &[u32]| {
        let (mut engine, fake) = engine(&compiled, &tokenizer, &case);
        let params = SampleParams { stop_ids: own.to_vec(), ..SampleParams::default() };
        let options = GenerateOptions { params, ignore_stops, ..options(&case) };
        let mut generation = engine.start(case.prompt.clone(), &options).unwrap();
        assert!(poll(&mut generation, &mut engine).is_pending());
        let inner = fake.inner.lock();
        inner.stop_ids.clone()
    };
    assert_eq!(stop_ids(false, &[]), [EOS, EOT]);
    assert_eq!(stop_ids(false, &[2, EOT]), [2, EOT, EOS]);
    assert_eq!(stop_ids(true, &[2]), Vec::<u32>::new());
}

#[test]
fn penalties_know_which_tokens_the_prompt_has() {
    let (compiled, tokenizer) = world();
    let case = case(&[0, 2, 0], &[1, 1], Some(2), &[], 1);
    let counts = |params: SampleParams| {
        let (mut engine, fake) = engine(&compiled, &tokenizer, &case);
        let options = GenerateOptions { params, ..options(&case) };
        let mut generation = engine.start(case.prompt.clone(), &options).unwrap();
        assert!(poll(&mut generation, &mut engine).is_pending());
        let inner = fake.inner.lock();
        inner.counts.clone()
    };
    assert_eq!(counts(SampleParams::default()), None, "without penalties nobody counts");
    let expected = [IN_PROMPT, 0, IN_PROMPT, 0, 0, 0, 0, 0];
    for params in [
        SampleParams { repetition_penalty: 1.1, ..SampleParams::default() },
        SampleParams { frequency_penalty: 0.5, ..SampleParams::default() },
        SampleParams { presence_penalty: -0.5, ..SampleParams::default() },
    ] {
        assert_eq!(counts(params).as_deref(), Some(&expected[..]));
    }
    let logit_bias = vec![(0, -100.0), (3, 5.0), (3, 1.5)];
    let expected = [0x9c00_0000 | IN_PROMPT, 0, IN_PROMPT, 0x0180_0000, 0, 0, 0, 0];
    let biased = counts(SampleParams { logit_bias, ..SampleParams::default() });
    assert_eq!(biased.as_deref(), Some(&expected[..]), "the last bias of an id counts");
}

#[test]
fn a_stop_string_in_every_order_with_a_fault() {
    // `bc` is found two tokens after it could begin; the device runs on past it.
    let runs = every_order(case(&[0], &[0, 1, 2, 0, 1], None, &["bc", "bb"], 3), 1);
    println!("{runs} orders");
    assert!(runs > 200);
}

#[test]
fn the_most_tokens_in_every_order_with_two_faults() {
    let runs = every_order(case(&[0, 1], &[3, 4, 2], Some(4), &["é!"], 3), 2);
    println!("{runs} orders");
    assert!(runs > 500);
}

#[test]
fn a_full_context_in_every_order_with_a_fault() {
    // Ten of twelve rows are the prompt: three tokens are sampled.
    let runs = every_order(case(&[0, 1, 2, 0, 1, 2, 0, 1, 2, 0], &[0, 1, 2], None, &[], 2), 1);
    println!("{runs} orders");
    assert!(runs > 100);
    // The prompt fills the context: one token.
    every_order(case(&[0; CAPACITY], &[1], None, &[], 4), 1);
}

/// A small generator: the seed replays a failure.
struct Rng(u64);

impl Rng {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) as usize) % n
    }
}

#[test]
fn random_cases_in_random_orders() {
    let world = world();
    for seed in 0..4000u64 {
        let mut rng = Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678);
        let n = 1 + rng.below(CAPACITY);
        let prompt: Vec<u32> = (0..n).map(|_| rng.below(5) as u32).collect();
        let mut answer: Vec<u32> = (0..1 + rng.below(9)).map(|_| rng.below(5) as u32).collect();
        if rng.below(2) == 0 {
            answer.push([EOS, EOT][rng.below(2)]);
        }
        let max_tokens = (rng.below(2) == 0).then(|| 1 + rng.below(8));
        let stops: &[&str] =
            [&[][..], &["ab"], &["abc", "cc"], &["é"], &["\u{fffd}a"]][rng.below(5)];
        let case = case(&prompt, &answer, max_tokens, stops, 1 + rng.below(6));
        println!("seed {seed}: {case:?}");
        let faults = rng.below(4);
        run(&world, &case, faults, |may| {
            // Faults are rare among releases, so that they come early and late.
            let i = rng.below(may.len());
            if matches!(may[i], Do::GoOn | Do::Release(_)) || rng.below(4) == 0 { i } else { 0 }
        });
    }
}

#[test]
fn a_generation_that_is_dropped_leaves_the_engine_usable() {
    let (compiled, tokenizer) = world();
    let first = case(&[0, 1, 2], &[0, 1, 2], None, &[], 3);
    let (mut engine, fake) = engine(&compiled, &tokenizer, &first);
    let mut dropped = engine.start(first.prompt.clone(), &options(&first)).unwrap();
    assert!(poll(&mut dropped, &mut engine).is_pending());
    let second = case(&[0, 1, 1], &[2, EOS], None, &[], 3);
    fake.inner.lock().case = second.clone();
    let mut generation = engine.start(second.prompt.clone(), &options(&second)).unwrap();
    // The older one, polled again, submits nothing and ends as cancelled.
    let submitted = fake.inner.lock().next;
    let mut text = String::new();
    for t in 0..40 {
        let held = fake.inner.lock().held();
        held.into_iter().for_each(|t| fake.inner.lock().release(t, false));
        let _ = poll(&mut dropped, &mut engine);
        if t < 10 {
            assert_eq!(fake.inner.lock().next, submitted);
        } else if let Poll::Ready(Some(Progress::Text(t))) = poll(&mut generation, &mut engine) {
            text += &t;
        }
    }
    assert_eq!(text, "c");
    let mut third = second.clone();
    third.prompt = vec![0, 1, 1, 2, 0];
    let generation = engine.start(third.prompt, &options(&second)).unwrap();
    assert_eq!(generation.reused_tokens(), 4, "what the second wrote, not the first");
}

#[test]
fn refusals_at_the_start_say_why() {
    let (compiled, tokenizer) = world();
    let c = case(&[0], &[0], None, &[], 1);
    let (mut engine, _) = engine(&compiled, &tokenizer, &c);
    let mut say = |prompt: &[u32], options: GenerateOptions| {
        let e = engine.start(prompt.to_vec(), &options).err().unwrap();
        (e.code, e.what)
    };
    let (code, what) = say(&[], options(&c));
    assert_eq!((code, what.as_str()), (Code::Usage, "the prompt is empty"));
    let (code, what) = say(&[0; CAPACITY + 1], options(&c));
    assert_eq!(
        (code, what.as_str()),
        (Code::ContextFull, "the prompt has 13 tokens, the context holds 12")
    );
    let (_, what) = say(&[99], options(&c));
    assert_eq!(what, "token 99 is outside the vocabulary");
    let params = SampleParams { logit_bias: vec![(99, 1.0)], ..SampleParams::default() };
    let (_, what) = say(&[0], GenerateOptions { params, ..options(&c) });
    assert_eq!(what, "token 99 is outside the vocabulary");
    let (_, what) = say(&[0], GenerateOptions { max_tokens: Some(0), ..options(&c) });
    assert_eq!(what, "max_tokens is 0, expected 1 or more");
    let (_, what) = say(&[0], GenerateOptions { logits: true, ..options(&c) });
    assert_eq!(what, "the model was compiled without logits");
}
