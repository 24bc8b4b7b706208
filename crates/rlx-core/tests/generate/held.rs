//! Answers that a constraint holds: on a device that runs first parts at once, the body of a step comes before its
//! mask is made, and nothing of what an answer is depends on it.

use super::*;
use rlx_core::runtime::generate::constraint::Constraint;

/// Allows the token that a case's answer has at each step.
pub(super) struct Answer {
    pub(super) case: Case,
    pub(super) told: usize,
    pub(super) log: Arc<Lock<Vec<&'static str>>>,
}

impl Constraint for Answer {
    fn next(&mut self, sampled: &[u32], allowed: &mut [u32]) -> Result<bool> {
        for &id in sampled {
            assert_eq!(id, self.case.token(self.told));
            self.told += 1;
        }
        allowed[0] = 1 << self.case.token(self.told);
        self.log.lock().push("mask");
        Ok(true)
    }
}

/// Runs an answer, each ticket released as soon as the engine waits; gives what was asked for in which order.
fn log(case: &Case, parts: bool) -> Vec<&'static str> {
    let (compiled, tokenizer) = world();
    let (mut engine, fake) = engine(&compiled, &tokenizer, case);
    fake.inner.lock().parts = parts;
    let mut generation = start(&mut engine, &fake, case);
    let mut text = String::new();
    let reason = loop {
        match poll(&mut generation, &mut engine) {
            Poll::Ready(Some(Progress::Text(t))) => {
                fake.inner.lock().log.lock().push("text");
                text += &t;
            }
            Poll::Ready(Some(Progress::Done(reason))) => break reason,
            Poll::Ready(Some(Progress::Prompt(..))) => {}
            Poll::Ready(Some(Progress::Control(_)) | None) => panic!("no Done"),
            Poll::Pending => {
                let held = fake.inner.lock().held();
                let prompt = text.is_empty();
                assert!(prompt || held.len() == 1, "one step is in flight behind the prompt");
                held.into_iter().for_each(|t| fake.inner.lock().release(t, false));
            }
        }
    };
    let (_, want, want_reason) = case.sequential();
    assert_eq!((text, reason), (want, want_reason));
    let inner = fake.inner.lock();
    inner.log.lock().clone()
}

#[test]
fn the_body_of_a_step_is_submitted_before_its_mask_is_made_and_its_token_is_read() {
    let case = case(&[0, 1, 2], &[0, 1, 2, EOS], None, &[], 4).held();
    // The prompt: a chunk, and the last one, with the first mask. Behind it the body of the first step, before its
    // mask; the step before is shown when the next one is on its way.
    let step = ["mask", "rest", "body", "text"];
    let mut want = vec!["whole", "mask", "whole", "body"];
    (0..3).for_each(|_| want.extend(step));
    assert_eq!(log(&case, true), want);
    // Without parts a step waits as a whole, and is submitted as soon.
    want.retain(|&what| what != "body");
    assert_eq!(log(&case, false), want);
}

#[test]
fn no_body_runs_for_a_step_that_cannot_come() {
    // Three tokens at most: two steps behind the prompt. And a context with room for three.
    for case in [case(&[0], &[0, 1, 2], Some(3), &[], 4), case(&[0; 10], &[0, 1], None, &[], 4)] {
        let log = log(&case.held(), true);
        let count = |what| log.iter().filter(|&&l| l == what).count();
        assert_eq!((count("mask"), count("body"), count("rest")), (3, 2, 2), "{log:?}");
    }
}

#[test]
fn held_answers_in_every_order_with_two_faults() {
    // An end token, the most tokens, a stop string, a full context.
    for (case, specials) in [
        (case(&[0, 1, 2], &[0, 1, 1, EOS], None, &[], 3), 2),
        (case(&[0, 1], &[3, 4, 2], Some(4), &["é!"], 3), 2),
        (case(&[0], &[0, 1, 2, 0, 1], None, &["bc", "bb"], 3), 2),
        (case(&[0; 10], &[0, 1], None, &[], 3), 1),
    ] {
        let runs = every_order(case.held(), specials);
        println!("{runs} orders");
        assert!(runs > 30);
    }
}

#[test]
fn a_grammar_that_allows_nothing_fails_behind_the_text_before_it() {
    struct Two(usize);
    impl Constraint for Two {
        fn next(&mut self, sampled: &[u32], allowed: &mut [u32]) -> Result<bool> {
            self.0 += sampled.len();
            allowed[0] = if self.0 < 2 { 1 << self.0 } else { 0 };
            Ok(true)
        }
    }
    let (compiled, tokenizer) = world();
    let case = case(&[0], &[0, 1, 2], None, &[], 4);
    let (mut engine, fake) = engine(&compiled, &tokenizer, &case);
    let mut generation = engine.start(case.prompt.clone(), &options(&case)).unwrap();
    generation.constrain(&engine, Box::new(Two(0))).unwrap();
    let mut text = String::new();
    let reason = loop {
        match poll(&mut generation, &mut engine) {
            Poll::Ready(Some(Progress::Text(t))) => text += &t,
            Poll::Ready(Some(Progress::Done(reason))) => break reason,
            Poll::Ready(_) => {}
            Poll::Pending => {
                let held = fake.inner.lock().held();
                held.into_iter().for_each(|t| fake.inner.lock().release(t, false));
            }
        }
    };
    assert_eq!(text, "ab");
    assert!(matches!(reason, Reason::Failed(e) if e.code == Code::Usage));
}
