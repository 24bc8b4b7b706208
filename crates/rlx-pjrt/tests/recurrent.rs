//! Recurrences that go on from step to step, and experts, against the reference.

use crate::common::*;
use rlx_core::ir::lir::Space;
use rlx_core::ops::{
    CausalConv1d, GatedDeltaNet, GatedRmsNorm, GroupedEpilogue, GroupedMatMul, RmsNormAdd,
    SelectiveScan, Unary, WeightedSum,
};
use rlx_core::types::{BlockFormat, DType, Shape, Type};

fn noise(rng: &mut Rng, dims: &[u64]) -> Operand {
    input(dims, &rng.floats(dims.iter().product::<u64>() as usize))
}

fn memory(rng: &mut Rng, dims: &[u64]) -> Operand {
    state(DType::F32, dims, noise(rng, dims).bytes)
}

/// Which states a recurrence has: none, one, or one with a control block of so many rows, done or not.
const STATES: [Option<Option<(u32, u32)>>; 5] =
    [None, Some(None), Some(Some((9, 0))), Some(Some((1, 0))), Some(Some((2, 1)))];

fn with_state(
    rng: &mut Rng,
    operands: &mut Vec<Operand>,
    dims: &[u64],
    has: Option<Option<(u32, u32)>>,
) {
    if let Some(block) = has {
        operands.push(memory(rng, dims));
        operands.extend(block.map(|(len, done)| control(3, len, done)));
    }
}

#[test]
fn delta_nets_take_sequences_gates_and_states() {
    let mut rng = Rng(37);
    for [b, s, kh, h, n, v] in [[1u64, 1, 1, 2, 8, 5], [2, 5, 2, 4, 16, 7]] {
        for (i, has) in STATES.into_iter().enumerate() {
            let (wide, tiled) = (i % 2 == 0, b == 2);
            let gates = if wide { vec![b, s, h, n] } else { vec![b, s, h] };
            let part = 1.0 / (n as f32).sqrt();
            let mut with = |dims: &[u64], f: &dyn Fn(f32) -> f32| {
                let x = rng.floats(dims.iter().product::<u64>() as usize);
                input(dims, &x.into_iter().map(f).collect::<Vec<_>>())
            };
            let mut operands = vec![
                with(&[b, s, kh, n], &|x| x * part),
                with(&[b, s, kh, n], &|x| x * part),
                with(&[b, s, h, v], &|x| x),
                with(&gates, &|x| -x.abs()),
                with(&[b, s, h], &|x| x.abs()),
            ];
            with_state(&mut rng, &mut operands, &[b, h, n, v], has);
            let op = GatedDeltaNet { state_size: n as usize, carry: has.is_some(), tiled };
            agrees(op, &operands, 4e-6);
        }
    }
}

#[test]
fn selective_scans_take_sequences_and_states() {
    let mut rng = Rng(38);
    for [b, s, d, n] in [[1u64, 1, 6, 4], [2, 5, 3, 8]] {
        for has in STATES {
            let mut operands = vec![
                noise(&mut rng, &[b, s, d]),
                noise(&mut rng, &[b, s, d]),
                noise(&mut rng, &[d, n]),
                noise(&mut rng, &[b, s, n]),
                noise(&mut rng, &[b, s, n]),
            ];
            with_state(&mut rng, &mut operands, &[b, d, n], has);
            let op = SelectiveScan { state_size: n as usize, carry: has.is_some() };
            agrees(op, &operands, 4e-6);
        }
    }
}

#[test]
fn convolutions_go_on_from_their_state_with_gates_and_without() {
    let mut rng = Rng(33);
    for (rows, len, done, channels, taps) in [
        (1u64, 1u64, 0, 8u64, 2u64),
        (7, 7, 0, 33, 4),
        (7, 3, 0, 6, 3),
        (2, 1, 0, 5, 9),
        (2, 2, 1, 5, 3),
    ] {
        for (act, gated) in [(None, false), (Some(Unary::Silu), false), (None, true)] {
            let parts = if gated { 3 } else { 1 };
            let operands = [
                noise(&mut rng, &[rows, parts * channels]),
                weight(DType::F32, &[channels, taps], noise(&mut rng, &[channels, taps]).bytes),
                memory(&mut rng, &[taps - 1, channels]),
                control(2, len as u32, done),
            ];
            agrees(CausalConv1d { act, gated }, &operands, 2e-6);
        }
    }
}

#[test]
fn norms_have_gates_and_residuals() {
    let mut rng = Rng(36);
    let w = weight(DType::F32, &[33], noise(&mut rng, &[33]).bytes);
    let operands = [noise(&mut rng, &[3, 4, 33]), w, noise(&mut rng, &[3, 4, 33])];
    agrees(GatedRmsNorm { eps: 1e-5, act: Unary::Silu }, &operands, 2e-6);
    agrees(RmsNormAdd { eps: 1e-5 }, &operands, 2e-6);
}

/// Few rows, whose experts are looked up, and so many that each expert multiplies all of them.
#[test]
fn rows_meet_the_weights_of_their_experts() {
    let mut rng = Rng(39);
    let (experts, n, k) = (6u64, 10u64, 64u64);
    for dtype in [DType::F32, DType::F16, DType::Block(BlockFormat::Q8_0)] {
        for (m, top) in [(1u64, 3u64), (5, 2)] {
            let ids: Vec<u32> = (0..m * top).map(|_| rng.next() as u32 % 7).collect();
            let ids = Operand {
                space: Space::Input,
                ty: Type::tensor(DType::U32, Shape::of(&[m, top])),
                bytes: u32_bytes(&ids),
            };
            let mut bank = || {
                weight(
                    dtype,
                    &[experts, n, k],
                    random_weights(&mut rng, dtype, (experts * n) as usize, k as usize),
                )
            };
            let [gate, up] = [bank(), bank()];
            let x = noise(&mut rng, &[m, k]);
            let each = noise(&mut rng, &[m, top, k]);
            let (shares, residual) = (noise(&mut rng, &[m, top]), noise(&mut rng, &[m, n]));
            let glu = GroupedMatMul::glu(Unary::Silu);
            agrees(glu.clone(), &[x.clone(), gate.clone(), up.clone(), ids.clone()], 4e-6);
            let limited =
                GroupedMatMul { epilogue: GroupedEpilogue::LimitedGlu(Unary::Silu, 0.5), ..glu };
            let biases = [0; 2].map(|_| noise(&mut rng, &[experts, n]));
            let limited = GroupedMatMul { bias: true, ..limited };
            let [p, q] = biases;
            agrees(limited, &[x, gate.clone(), up, p, q, ids.clone()], 4e-6);
            let sum = GroupedMatMul { epilogue: GroupedEpilogue::SumAdd, ..GroupedMatMul::sum() };
            agrees(sum, &[each.clone(), gate, ids, shares.clone(), residual], 4e-6);
            agrees(WeightedSum, &[each, shares], 2e-6);
        }
    }
}
