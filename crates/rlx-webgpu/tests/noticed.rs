//! What small defects went through every other test: found by `npm run mutants`, noticed here.

use crate::common;
use common::*;
use rlx_core::formats::activations::encode_q8_0;
use rlx_core::ir::lir::{Slice, Space, Step};
use rlx_core::ops::{
    Attention, AttentionJoin, AttentionSplit, Binary, MatMul, Op, QuantizeRows, Sample, Zip,
};
use rlx_core::reference::{self, View};
use rlx_core::sample::{Control, SampleParams, params};
use rlx_core::types::{BlockFormat, DType, Shape, Type};

const Q8_0: DType = DType::Block(BlockFormat::Q8_0);

fn truth(op: &Op, operands: &[Operand]) -> Vec<Vec<u8>> {
    let views: Vec<View<'_>> = operands.iter().map(|o| View::new(&o.ty, &o.bytes)).collect();
    reference::run(op, &views).expect("the reference runs this")
}

fn f64s(bytes: &[u8]) -> Vec<f64> {
    floats(bytes).into_iter().map(f64::from).collect()
}

#[test]
fn the_last_positions_belong_to_a_split_where_they_are_no_whole_number_for_each() {
    let (e, splits, d) = (64u64, 2usize, device());
    let mut rng = Rng(31);
    // 129 positions: 65 for each split, of whole 32.
    for past in [128u32, 192, 256] {
        let mut cache = || {
            let xs = rng.floats((2 * 512 * e) as usize);
            state(DType::F32, &[2, 512, e], f32_bytes(&xs))
        };
        let (k, v) = (cache(), cache());
        let q = input(&[1, 4 * e], &rng.floats(4 * e as usize));
        let operands = [q, k, v, control(past, 1, 0)];
        let whole = Attention::causal(e as usize, 0.3);
        let want = f64s(&truth(&Op::from(whole.clone()), &operands)[0]);
        let op = AttentionSplit { whole, splits, least: 32 };
        let types: Vec<&Type> = operands.iter().map(|o| &o.ty).collect();
        let types = Op::from(op.clone()).infer(&types).expect("one row");
        let halves: Vec<Operand> = run_op(&d, op, &operands)
            .iter()
            .zip(types)
            .map(|(bytes, ty)| input(&ty.shape.static_dims().expect("static"), &floats(bytes)))
            .collect();
        let got = run_op(&d, AttentionJoin { splits, sinks: false }, &halves);
        assert_close(&format!("{} positions", past + 1), &floats(&got[0]), &want, 1e-5);
    }
}

#[test]
fn splits_join_where_the_largest_score_comes_last() {
    let d = device();
    let mut rng = Rng(32);
    // More splits than are read at a time, each with a larger score than all before it.
    for (e, splits) in [(256u64, 11usize), (64, 40), (320, 20)] {
        let acc = input(&[splits as u64, e], &rng.floats(splits * e as usize));
        let stats: Vec<f32> = (0..splits).flat_map(|j| [0.4 * j as f32, 3.0 + j as f32]).collect();
        let operands = [acc, input(&[splits as u64, 2], &stats)];
        let op = Op::from(AttentionJoin { splits, sinks: false });
        let want = f64s(&truth(&op, &operands)[0]);
        let got = run_op(&d, op, &operands);
        assert_close(&format!("{splits} splits of {e}"), &floats(&got[0]), &want, 1e-5);
    }
}

#[test]
fn blocks_are_the_references_where_nothing_rounds() {
    let d = device();
    // A scale of 1: halves are exact, and go away from zero.
    let mut halves = [0.0f32; 64];
    for (i, x) in halves.iter_mut().enumerate() {
        *x = (i as f32 - 32.0) + 0.5;
    }
    (halves[3], halves[60]) = (127.0, -127.0);
    let operands = [input(&[1, halves.len() as u64], &halves)];
    let op = Op::from(QuantizeRows::to(BlockFormat::Q8_0));
    assert_eq!(run_op(&d, op.clone(), &operands), truth(&op, &operands));
}

#[test]
fn rows_of_int8_may_have_an_odd_number_of_chunks() {
    let d = device();
    let mut rng = Rng(33);
    let (m, k, n) = (66usize, 96usize, 70usize);
    let mut bytes = vec![0; m * k / 32 * 34];
    encode_q8_0(&rng.floats(m * k), &mut bytes).unwrap();
    let x = Operand {
        space: Space::Input,
        ty: Type::tensor(Q8_0, Shape::of(&[m as u64, k as u64])),
        bytes,
    };
    for dtype in [Q8_0, DType::Block(BlockFormat::Q4_0)] {
        let w = random_weights(&mut rng, dtype, n, k);
        let (xs, ws) = (decode(Q8_0, &x.bytes), decode(dtype, &w));
        let dot = |i: usize| {
            let (row, column) = (&xs[i / n * k..][..k], &ws[i % n * k..][..k]);
            row.iter().zip(column).map(|(a, b)| a * b).sum::<f64>()
        };
        let want: Vec<f64> = (0..m * n).map(dot).collect();
        let operands = [x.clone(), weight(dtype, &[n as u64, k as u64], w)];
        let got = run_op(&d, MatMul::plain(), &operands);
        assert_close(&format!("{dtype}"), &floats(&got[0]), &want, 5e-6);
    }
}

#[test]
fn a_token_of_exactly_the_least_probability_is_kept() {
    let d = device();
    // Half a step of distance beyond an octave: the weight is exactly half of the best one's.
    let options = SampleParams { temperature: 1.0, min_p: 0.5, seed: 7, ..SampleParams::default() };
    assert_eq!(options.to_words()[params::MIN_P], 1 << 30);
    let mut seen = [false; 4];
    for past in 0..24 {
        let ctl = Control { past, len: 1, limit: 90, capacity: 64, ..Control::default() };
        let operands = [
            input(&[1, 4], &[0.0, -0.693_152, -9.0, -9.0]),
            state(DType::U32, &[33], [u32_bytes(&options.to_words()), vec![0; 4]].concat()),
            state(DType::U32, &[4], vec![0; 16]),
            state(DType::U32, &[16], u32_bytes(&ctl.to_words())),
        ];
        let want = truth(&Op::from(Sample), &operands);
        let got = run(&d, &with_logits_in_arena(case(Sample, &operands, Buffers::One))).unwrap();
        assert_eq!(words(&got[1]), words(&want[1]), "position {past}");
        seen[words(&got[1])[2] as usize] = true;
    }
    assert_eq!(seen, [true, true, false, false]);
}

/// Puts a copying step before the only one, so that its first operand lies in the arena.
fn with_logits_in_arena(mut case: Case) -> Case {
    let step = &mut case.program.steps[0];
    let logits = step.operands[0].clone();
    let bytes = logits.bytes;
    let moved =
        Slice { space: Space::Arena, index: 0, offset: case.program.arena_bytes, ..logits.clone() };
    case.program.arena_bytes += bytes.next_multiple_of(64);
    case.program.arena_segments = vec![case.program.arena_bytes];
    step.operands[0] = moved.clone();
    let zeros = vec![0u8; bytes as usize];
    let zero = Slice { index: case.program.inputs.len() as u32, ..logits.clone() };
    let mut decl = case.program.inputs[0].clone();
    decl.name = "zeros".into();
    case.program.inputs.push(decl);
    case.writes.push(rlx_core::runtime::device::Write {
        to: rlx_core::runtime::device::WriteTo::Input(zero.index),
        offset: 0,
        bytes: zeros,
    });
    let copy = Step {
        op: Zip { f: Binary::Add }.into(),
        operands: vec![logits, zero],
        results: vec![moved],
        ..step.clone()
    };
    case.program.steps.insert(0, copy);
    case
}
