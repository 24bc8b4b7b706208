//! Predictions for a block and their places, bit for bit the reference's.

use crate::common::*;
use rlx_core::ir::lir::Space;
use rlx_core::ops::{Predict, Unmask};
use rlx_core::sample::{SampleParams, canvas};
use rlx_core::types::{DType, Shape, Type};

const MASK: u32 = 7;
const ROWS: usize = 6;

fn plan(rng: &mut Rng, words: &[(usize, u32)]) -> Operand {
    let mut all = vec![0; canvas::IDS];
    all[canvas::MASK] = MASK;
    all[canvas::STEPS] = 3;
    all[canvas::SPREAD] = ROWS as u32;
    all[canvas::THRESHOLD] = 1 << 30;
    all[canvas::EDITING] = canvas::NO_EDITING;
    all[canvas::START] = 40;
    words.iter().for_each(|&(at, word)| all[at] = word);
    all.extend(
        (0..ROWS).map(|_| if rng.next().is_multiple_of(2) { MASK } else { rng.next() as u32 % 20 }),
    );
    state(DType::U32, &[all.len() as u64], u32_bytes(&all))
}

fn u32s(xs: &[u32]) -> Operand {
    let ty = Type::tensor(DType::U32, Shape::of(&[xs.len() as u64]));
    Operand { space: Space::Input, ty, bytes: u32_bytes(xs) }
}

#[test]
fn tokens_and_their_probabilities_are_the_references() {
    let mut rng = Rng(61);
    let vocab = 70usize;
    let plain = SampleParams::default();
    for params in [
        plain.clone(),
        SampleParams { temperature: 0.9, seed: 5, ..plain.clone() },
        SampleParams { temperature: 1.5, min_p: 0.2, seed: 99 << 32, ..plain },
    ] {
        for pass in [0u32, 3, 2 * ROWS as u32] {
            let mut logits: Vec<f32> =
                rng.floats(ROWS * vocab).iter().map(|x| (x * 40.0).round() / 4.0).collect();
            (logits[3], logits[vocab + 9]) = (f32::NAN, f32::NEG_INFINITY);
            // A row that is best at the mask, and one without a number.
            logits[2 * vocab + MASK as usize] = 50.0;
            logits[4 * vocab..5 * vocab].fill(f32::NEG_INFINITY);
            let operands = [
                input(&[ROWS as u64, vocab as u64], &logits),
                state(DType::U32, &[32], u32_bytes(&params.to_words())),
                plan(&mut rng, &[(canvas::PASS, pass)]),
            ];
            agrees(Predict, &operands, 0.0);
        }
    }
}

#[test]
fn a_canvas_takes_what_its_plan_says() {
    let mut rng = Rng(62);
    for words in [
        vec![],
        vec![(canvas::THRESHOLD, 1 << 29)],
        vec![(canvas::EDITING, 1 << 28), (canvas::POST, 2), (canvas::PROMPT, 2)],
        vec![(canvas::EDITING, 1 << 28), (canvas::PASS, 5), (canvas::AFTER, 1)],
        vec![(canvas::STEPS, 0), (canvas::SPREAD, 1)],
        vec![(canvas::FINISHED, 1)],
    ] {
        for _ in 0..4 {
            let ids: Vec<u32> = (0..ROWS).map(|_| rng.next() as u32 % 20).collect();
            let sure: Vec<u32> = (0..ROWS).map(|_| (rng.next() as u32 % 9) << 28).collect();
            agrees(Unmask, &[u32s(&ids), u32s(&sure), plan(&mut rng, &words)], 0.0);
        }
    }
}
