//! Recurrences that go on from step to step: delta nets and convolutions, against the reference.

use crate::banks::noise;
use crate::common::*;
use rlx_core::ops::{CausalConv1d, DeltaNet, GatedDeltaNet, GatedRmsNorm, Op, Unary};
use rlx_core::types::DType;

fn memory(rng: &mut Rng, dims: &[u64]) -> Operand {
    state(DType::F32, dims, noise(rng, dims).bytes)
}

/// Operands of a layer's delta net: rows, key heads, heads, and rows and columns of a head's matrix.
fn layer(rng: &mut Rng, [s, kh, h, n, v]: [u64; 5], ctl: Operand) -> Vec<Operand> {
    let decay: Vec<f32> = (0..h).map(|i| -0.25 * i as f32).collect();
    vec![
        noise(rng, &[s, 2 * kh * n + h * v]),
        noise(rng, &[s, h]),
        noise(rng, &[s, h]),
        weight(DType::F32, &[h], f32_bytes(&decay)),
        weight(DType::F32, &[h], noise(rng, &[h]).bytes),
        memory(rng, &[h, n, v]),
        ctl,
    ]
}

#[test]
fn delta_nets_walk_their_rows_and_keep_their_matrices() {
    let mut rng = Rng(35);
    for [s, kh, h, n, v] in [
        [1u64, 1, 1, 8, 8],
        [1, 2, 4, 16, 32],
        [7, 2, 4, 64, 40],
        [9, 3, 3, 5, 16],
        [3, 1, 2, 128, 33],
    ] {
        for (len, tiled) in [(s, false), (s, true), (1, false), (0, false)] {
            let op = DeltaNet { key_heads: kh as usize, state_size: n as usize, eps: 1e-6, tiled };
            let operands = layer(&mut rng, [s, kh, h, n, v], control(3, len as u32, 0));
            let op = Op::from(op);
            let (got, want) =
                (run_op(&plain_device(), op.clone(), &operands), truth(&op, &operands));
            let what = format!("{s} rows, {len} real, {kh} of {h} heads, {n} x {v}, tiled {tiled}");
            assert_close(&what, &floats(&got[0]), &f64s(&want[0]), 4e-6);
            assert_close(&format!("{what}: the state"), &floats(&got[1]), &f64s(&want[1]), 4e-6);
        }
    }
}

/// Operands of the rule alone: sequences, rows, key heads, heads, and rows and columns of a head's matrix.
fn rule(rng: &mut Rng, [b, s, kh, h, n, v]: [u64; 6], wide: bool) -> Vec<Operand> {
    let part = 1.0 / (n as f32).sqrt();
    let mut with = |dims: &[u64], f: &dyn Fn(f32) -> f32| {
        let x = rng.floats(dims.iter().product::<u64>() as usize);
        input(dims, &x.into_iter().map(f).collect::<Vec<_>>())
    };
    let gates = if wide { vec![b, s, h, n] } else { vec![b, s, h] };
    vec![
        with(&[b, s, kh, n], &|x| x * part),
        with(&[b, s, kh, n], &|x| x * part),
        with(&[b, s, h, v], &|x| x),
        with(&gates, &|x| -x.abs()),
        with(&[b, s, h], &|x| x.abs()),
    ]
}

#[test]
fn the_rule_of_a_delta_net_takes_sequences_gates_and_states() {
    let mut rng = Rng(37);
    for sizes in [[1u64, 1, 1, 1, 8, 8], [2, 5, 2, 4, 16, 40], [3, 4, 3, 3, 5, 3]] {
        let [b, s, _, h, n, v] = sizes;
        for (wide, carry, len, done) in [
            (false, false, None, 0),
            (true, false, None, 0),
            (true, true, None, 0),
            (false, true, Some(s), 0),
            (false, true, Some(1), 0),
            (false, true, Some(0), 0),
            (true, true, Some(s), 1),
        ] {
            let mut operands = rule(&mut rng, sizes, wide);
            if carry {
                operands.push(memory(&mut rng, &[b, h, n, v]));
            }
            operands.extend(len.map(|len| control(3, len as u32, done)));
            let op = Op::from(GatedDeltaNet { state_size: n as usize, carry, tiled: b == 2 });
            let (got, want) =
                (run_op(&plain_device(), op.clone(), &operands), truth(&op, &operands));
            let what = format!("{sizes:?}, wide {wide}, carry {carry}, {len:?} rows, done {done}");
            assert_eq!(got.len(), want.len(), "{what}");
            assert_close(&what, &floats(&got[0]), &f64s(&want[0]), 4e-6);
            if carry {
                let (got, want) = (floats(&got[1]), f64s(&want[1]));
                assert_close(&format!("{what}: the state"), &got, &want, 4e-6);
            }
        }
    }
}

#[test]
fn convolutions_go_on_from_their_state_with_gates_and_without() {
    let mut rng = Rng(33);
    for (rows, len, channels, taps) in [
        (1u64, 1u64, 8u64, 2u64),
        (1, 1, 140, 4),
        (7, 7, 33, 4),
        (7, 3, 96, 3),
        (2, 1, 5, 9),
        (130, 129, 6, 4),
    ] {
        for (act, gated) in [(None, false), (Some(Unary::Silu), false), (None, true)] {
            let parts = if gated { 3 } else { 1 };
            let operands = [
                noise(&mut rng, &[rows, parts * channels]),
                weight(DType::F32, &[channels, taps], noise(&mut rng, &[channels, taps]).bytes),
                memory(&mut rng, &[taps - 1, channels]),
                control(2, len as u32, 0),
            ];
            let op = Op::from(CausalConv1d { act, gated });
            let (got, want) =
                (run_op(&plain_device(), op.clone(), &operands), truth(&op, &operands));
            let what = format!("{rows} rows, {len} real, {channels} channels, {taps} taps {gated}");
            // Rows from `len` on are whatever was there.
            let real = (4 * len * channels) as usize;
            assert_close(&what, &floats(&got[0][..real]), &f64s(&want[0][..real]), 2e-6);
            let want = f64s(&want[1]);
            assert_close(&format!("{what}: the state"), &floats(&got[1]), &want, 1e-7);
        }
    }
}

#[test]
fn a_control_block_that_is_done_keeps_the_states() {
    let mut rng = Rng(34);
    let net = DeltaNet { key_heads: 1, state_size: 8, eps: 1e-6, tiled: false };
    let operands = layer(&mut rng, [2, 1, 2, 8, 8], control(0, 2, 1));
    assert_eq!(run_op(&plain_device(), net, &operands)[1], operands[5].bytes);
    let operands = [
        noise(&mut rng, &[2, 4]),
        weight(DType::F32, &[4, 3], noise(&mut rng, &[4, 3]).bytes),
        memory(&mut rng, &[2, 4]),
        control(0, 2, 1),
    ];
    let op = CausalConv1d::default();
    assert_eq!(run_op(&plain_device(), op, &operands)[1], operands[2].bytes);
}

#[test]
fn a_norm_has_a_gate() {
    let mut rng = Rng(36);
    for dims in [[1u64, 1, 8], [3, 4, 33], [5, 1, 300]] {
        let w = weight(DType::F32, &dims[2..], noise(&mut rng, &dims[2..]).bytes);
        let operands = [noise(&mut rng, &dims), w, noise(&mut rng, &dims)];
        agrees(GatedRmsNorm { eps: 1e-5, act: Unary::Silu }, &operands, 2e-6);
    }
}
