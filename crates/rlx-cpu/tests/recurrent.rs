//! Recurrences: linear attention with a gated delta rule, and convolutions that go on from step to step.

use crate::common::*;
use rlx_core::ops::{CausalConv1d, DeltaNet, GatedDeltaNet, GatedRmsNorm, Unary};
use rlx_core::types::DType;

/// Operands of a gated delta net whose gates and keys are of the size that a model has.
fn delta_net(r: &mut Random, [s, kh, h, n, v]: [u64; 5], ctl: Value) -> Vec<Value> {
    let mut some = |dims: &[u64], f: &dyn Fn(f32) -> f32| {
        let x: Vec<f32> = r.floats(dims.iter().product::<u64>() as usize);
        f32s(dims, &x.into_iter().map(f).collect::<Vec<_>>())
    };
    let part = 1.0 / (n as f32).sqrt();
    vec![
        some(&[s, kh, n], &|x| x * part),
        some(&[s, kh, n], &|x| x * part),
        some(&[s, h, v], &|x| x),
        some(&[s, h], &|x| -x.abs()),
        some(&[s, h], &|x| x.abs().min(1.0)),
        state(some(&[h, n, v], &|x| x)),
        ctl,
    ]
}

#[test]
fn gated_delta_nets_of_one_row_and_of_many() {
    let mut r = Random(31);
    for [s, kh, h, n, v] in
        [[1, 1, 1, 8, 8], [1, 2, 4, 16, 32], [5, 2, 4, 16, 32], [9, 3, 3, 5, 16]]
    {
        for tiled in [false, true] {
            for len in [s, 1] {
                let op = GatedDeltaNet { state_size: n as usize, carry: true, tiled };
                let operands = delta_net(&mut r, [s, kh, h, n, v], control(3, len as u32, 0));
                check(op, &operands, 2e-6, &format!("{s} rows, {len} real, tiled {tiled}"));
            }
        }
    }
}

#[test]
fn a_delta_net_in_two_steps_is_one_in_one() {
    let mut r = Random(32);
    let sizes = [6, 2, 4, 8, 16];
    let whole = delta_net(&mut r, sizes, control(0, 6, 0));
    let op = GatedDeltaNet { state_size: 8, carry: true, tiled: false }.into();
    for device in devices() {
        let at_once = run_op(&device, &op, &whole);
        let part = |from: u64, rows: u64, m: &Value| -> Vec<Value> {
            let mut operands: Vec<Value> = whole[..5]
                .iter()
                .map(|x| {
                    let row = x.bytes.len() / 6;
                    let mut dims = x.ty.shape.static_dims().unwrap();
                    dims[0] = rows;
                    let bytes = &x.bytes[from as usize * row..][..rows as usize * row];
                    floats_as(DType::F32, &dims, &to_f32s(bytes))
                })
                .collect();
            operands.extend([m.clone(), control(from as u32, rows as u32, 0)]);
            operands
        };
        let first = run_op(&device, &op, &part(0, 4, &whole[5]));
        let m = state(f32s(&[4, 8, 16], &to_f32s(&first[1])));
        let second = run_op(&device, &op, &part(4, 2, &m));
        assert_eq!([first[0].clone(), second[0].clone()].concat(), at_once[0]);
        assert_eq!(second[1], at_once[1]);
    }
}

/// Rows at both sides of a chunk's end, keys of which the last do not fill a vector or four rows, and values of
/// an odd number of vectors.
const CHUNKS: [[u64; 5]; 7] = [
    [15, 2, 4, 64, 64],
    [16, 1, 2, 128, 128],
    [17, 2, 4, 64, 24],
    [63, 3, 3, 5, 16],
    [64, 1, 2, 34, 8],
    [65, 1, 1, 128, 40],
    [200, 2, 4, 16, 16],
];

#[test]
fn delta_nets_in_chunks() {
    let mut r = Random(38);
    for [s, kh, h, n, v] in CHUNKS {
        for (len, tiled) in [(s, false), (s - 1, true), (0, false)] {
            let what = format!("{s} rows, {len} real, {kh} {h} {n} {v}, tiled {tiled}");
            let op = GatedDeltaNet { state_size: n as usize, carry: true, tiled };
            let ctl = || control(3, len as u32, 0);
            check(op, &delta_net(&mut r, [s, kh, h, n, v], ctl()), 4e-6, &what);
            let op = DeltaNet { key_heads: kh as usize, state_size: n as usize, eps: 1e-6, tiled };
            let operands = layer(&mut r, [s, kh, h, n, v], ctl());
            check(op, &operands, 4e-6, &format!("layer, {what}"));
        }
    }
}

#[test]
fn chunks_take_every_decay_and_every_strength() {
    let mut r = Random(39);
    for (g, beta) in [
        (&[-0.1, 0.0, -30.0, -0.5, -80.0, -1e4, -0.02][..], &[0.5, 1.0, 0.0, 0.9, 0.1][..]),
        (&[0.0], &[1.0]),
        (&[0.0], &[0.0]),
        (&[-30.0], &[1.0]),
        (&[-80.0], &[0.5]),
        (&[-1e4], &[1.0]),
        (&[f32::NEG_INFINITY, -0.001, 0.0, 0.0, 0.0], &[1.0]),
    ] {
        let mut operands = delta_net(&mut r, [41, 1, 2, 32, 24], control(0, 41, 0));
        for (at, values) in [(3, g), (4, beta)] {
            let all: Vec<f32> = values.iter().copied().cycle().take(82).collect();
            operands[at] = f32s(&[41, 2], &all);
        }
        let op = GatedDeltaNet { state_size: 32, carry: true, tiled: false };
        check(op, &operands, 4e-6, &format!("gates {g:?}, {beta:?}"));
    }
}

#[test]
fn chunks_are_single_rows_one_after_the_other() {
    let mut r = Random(40);
    let rows = 40;
    let whole = delta_net(&mut r, [rows, 2, 4, 64, 32], control(0, rows as u32, 0));
    let op = GatedDeltaNet { state_size: 64, carry: true, tiled: false }.into();
    for device in devices() {
        let at_once = run_op(&device, &op, &whole);
        let (mut y, mut m) = (Vec::new(), whole[5].clone());
        for i in 0..rows {
            let mut operands: Vec<Value> = whole[..5]
                .iter()
                .map(|x| {
                    let mut dims = x.ty.shape.static_dims().unwrap();
                    let row = x.bytes.len() / rows as usize;
                    dims[0] = 1;
                    f32s(&dims, &to_f32s(&x.bytes[i as usize * row..][..row]))
                })
                .collect();
            operands.extend([m, control(i as u32, 1, 0)]);
            let results = run_op(&device, &op, &operands);
            y.extend(to_f32s(&results[0]));
            m = state(f32s(&[4, 64, 32], &to_f32s(&results[1])));
        }
        assert_close(&y, &to_f32s(&at_once[0]), 4e-6, "row by row");
        assert_close(&to_f32s(&m.bytes), &to_f32s(&at_once[1]), 4e-6, "row by row: the state");
    }
}

/// Operands of a layer's delta net.
fn layer(r: &mut Random, [s, kh, h, n, v]: [u64; 5], ctl: Value) -> Vec<Value> {
    let mut some = |dims: &[u64]| f32s(dims, &r.floats(dims.iter().product::<u64>() as usize));
    let decay: Vec<f32> = (0..h).map(|i| -0.25 * i as f32).collect();
    vec![
        some(&[s, 2 * kh * n + h * v]),
        some(&[s, h]),
        some(&[s, h]),
        f32s(&[h], &decay),
        some(&[h]),
        state(some(&[h, n, v])),
        ctl,
    ]
}

#[test]
fn a_layers_delta_net_has_queries_and_keys_of_length_1_and_its_own_gates() {
    let mut r = Random(35);
    for [s, kh, h, n, v] in
        [[1, 1, 1, 8, 8], [1, 2, 4, 16, 32], [7, 2, 4, 16, 32], [9, 3, 3, 5, 16]]
    {
        for (len, tiled) in [(s, false), (s, true), (1, false)] {
            let op = DeltaNet { key_heads: kh as usize, state_size: n as usize, eps: 1e-6, tiled };
            let operands = layer(&mut r, [s, kh, h, n, v], control(3, len as u32, 0));
            check(op, &operands, 2e-6, &format!("{s} rows, {len} real, tiled {tiled}"));
        }
    }
}

#[test]
fn a_norm_has_a_gate() {
    let mut r = Random(36);
    for dims in [[1, 1, 8], [3, 4, 33], [5, 1, 128]] {
        let mut some = |dims: &[u64]| f32s(dims, &r.floats(dims.iter().product::<u64>() as usize));
        let operands = [some(&dims), some(&dims[2..]), some(&dims)];
        let op = GatedRmsNorm { eps: 1e-5, act: Unary::Silu };
        check(op, &operands, 2e-6, &format!("{dims:?}"));
    }
}

#[test]
fn gates_stand_before_and_behind_a_convolution() {
    let mut r = Random(37);
    for (rows, len, channels, taps) in [(1, 1, 8, 3), (7, 7, 33, 4), (7, 3, 96, 3), (3, 1, 5, 9)] {
        let mut some = |dims: &[u64; 2]| f32s(dims, &r.floats((dims[0] * dims[1]) as usize));
        let operands = [
            some(&[rows, 3 * channels]),
            some(&[channels, taps]),
            state(some(&[taps - 1, channels])),
            control(2, len as u32, 0),
        ];
        let what = format!("{rows} rows, {len} real, {channels} channels, {taps} taps");
        for device in devices() {
            let op = CausalConv1d { act: None, gated: true }.into();
            let (got, expected) = (run_op(&device, &op, &operands), oracle(&op, &operands));
            let real = (len * channels * 4) as usize;
            let y = [&got[0][..real], &expected[0][..real]].map(to_f32s);
            assert_close(&y[0], &y[1], 2e-6, &what);
            assert_eq!(got[1], expected[1], "{what}: the state");
        }
    }
}

#[test]
fn convolutions_go_on_from_their_state() {
    let mut r = Random(33);
    for (rows, len, channels, taps) in
        [(1, 1, 8, 2), (1, 1, 40, 4), (7, 7, 33, 4), (7, 3, 96, 3), (2, 1, 5, 9)]
    {
        for act in [None, Some(Unary::Silu)] {
            let mut some = |dims: &[u64; 2]| f32s(dims, &r.floats((dims[0] * dims[1]) as usize));
            let operands = [
                some(&[rows, channels]),
                some(&[channels, taps]),
                state(some(&[taps - 1, channels])),
                control(2, len as u32, 0),
            ];
            let what = format!("{rows} rows, {len} real, {channels} channels, {taps} taps");
            for device in devices() {
                let op = CausalConv1d { act, gated: false }.into();
                let (got, expected) = (run_op(&device, &op, &operands), oracle(&op, &operands));
                // Rows from `len` on are whatever was there.
                let real = (len * channels * 4) as usize;
                let y = [&got[0][..real], &expected[0][..real]].map(to_f32s);
                assert_close(&y[0], &y[1], 2e-6, &what);
                assert_eq!(got[1], expected[1], "{what}: the state");
            }
        }
    }
}

#[test]
fn a_control_block_that_is_done_keeps_the_states() {
    let mut r = Random(34);
    let operands = delta_net(&mut r, [2, 1, 2, 8, 8], control(0, 2, 1));
    let net = GatedDeltaNet { state_size: 8, carry: true, tiled: false }.into();
    let past = state(f32s(&[2, 4], &r.floats(8)));
    let conv =
        [f32s(&[2, 4], &r.floats(8)), f32s(&[4, 3], &r.floats(12)), past.clone(), control(0, 2, 1)];
    for device in devices() {
        assert_eq!(run_op(&device, &net, &operands)[1], operands[5].bytes);
        let op = CausalConv1d::default().into();
        assert_eq!(run_op(&device, &op, &conv)[1], past.bytes);
    }
}
