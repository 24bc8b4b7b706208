//! Recurrences on the device against the reference: delta nets, and convolutions that go on from step to step.

use crate::common;
use common::*;
use rlx_core::ops::{CausalConv1d, DeltaNet, GatedDeltaNet, GatedRmsNorm, Op, Unary};
use rlx_core::reference::{self, View};
use rlx_core::types::DType;
use std::sync::Arc;

fn truth(op: &Op, operands: &[Operand]) -> Vec<Vec<f64>> {
    let views: Vec<View<'_>> = operands.iter().map(|o| View::new(&o.ty, &o.bytes)).collect();
    let results = reference::run(op, &views).expect("the reference runs this");
    results.iter().map(|r| floats(r).into_iter().map(f64::from).collect()).collect()
}

/// The first `real` elements of the result, and the state.
#[track_caller]
pub(crate) fn agrees(
    d: &Arc<TestDevice>,
    op: impl Into<Op>,
    operands: &[Operand],
    real: usize,
    what: &str,
) {
    let op = op.into();
    let (got, want) = (run_op(d, op.clone(), operands), truth(&op, operands));
    if real > 0 {
        assert_close(what, &floats(&got[0])[..real], &want[0][..real], 4e-6);
    }
    for (got, want) in got.iter().zip(&want).skip(1) {
        assert_close(&format!("{what}: the state"), &floats(got), want, 4e-6);
    }
}

fn some(rng: &mut Rng, dims: &[u64]) -> Operand {
    input(dims, &rng.floats(dims.iter().product::<u64>() as usize))
}

fn matrices(rng: &mut Rng, dims: &[u64]) -> Operand {
    state(DType::F32, dims, some(rng, dims).bytes)
}

/// Operands of the recurrence alone.
pub(crate) fn rule(rng: &mut Rng, [s, kh, h, n, v]: [u64; 5], ctl: Operand) -> Vec<Operand> {
    let part = 1.0 / (n as f32).sqrt();
    let mut with = |dims: &[u64], f: &dyn Fn(f32) -> f32| {
        let x = rng.floats(dims.iter().product::<u64>() as usize);
        input(dims, &x.into_iter().map(f).collect::<Vec<_>>())
    };
    let mut operands = vec![
        with(&[s, kh, n], &|x| x * part),
        with(&[s, kh, n], &|x| x * part),
        with(&[s, h, v], &|x| x),
        with(&[s, h], &|x| -x.abs()),
        with(&[s, h], &|x| x.abs()),
    ];
    operands.extend([matrices(rng, &[h, n, v]), ctl]);
    operands
}

/// Operands of a layer: the last head does not decay, and one decays by more than a float has room for.
pub(crate) fn layer(rng: &mut Rng, [s, kh, h, n, v]: [u64; 5], ctl: Operand) -> Vec<Operand> {
    let decay = (0..h).rev().map(|i| if i == 2 { -1e4 } else { -0.25 * i as f32 });
    let decay: Vec<f32> = decay.collect();
    vec![
        some(rng, &[s, 2 * kh * n + h * v]),
        some(rng, &[s, h]),
        some(rng, &[s, h]),
        weight(DType::F32, &[h], f32_bytes(&decay)),
        weight(DType::F32, &[h], f32_bytes(&rng.floats(h as usize))),
        matrices(rng, &[h, n, v]),
        ctl,
    ]
}

/// Both operators on rows, heads of keys and of values, and their widths, of which `len` rows are real.
#[track_caller]
pub(crate) fn both_agree(
    d: &Arc<TestDevice>,
    rng: &mut Rng,
    sizes: [u64; 5],
    len: u64,
    tiled: bool,
) {
    let [s, kh, h, n, v] = sizes;
    let what = format!("{s} rows, {len} real, {kh} {h} {n} {v}, tiled {tiled}");
    let ctl = control(3, len as u32, 0);
    let op = GatedDeltaNet { state_size: n as usize, carry: true, tiled };
    let operands = rule(rng, sizes, ctl.clone());
    agrees(d, op, &operands, (s * h * v) as usize, &what);
    let op = DeltaNet { key_heads: kh as usize, state_size: n as usize, eps: 1e-6, tiled };
    let operands = layer(rng, sizes, ctl);
    agrees(d, op, &operands, (s * h * v) as usize, &format!("layer, {what}"));
}

/// Rows, heads of keys and of values, and their widths: of one part of a column and of several, of columns
/// that no tile ends at, and of the widest.
const SIZES: [[u64; 5]; 6] = [
    [1, 1, 1, 8, 8],
    [1, 2, 4, 128, 128],
    [5, 2, 4, 16, 32],
    [9, 3, 3, 5, 3],
    [3, 1, 2, 130, 33],
    [2, 1, 1, 256, 40],
];

#[test]
fn delta_nets_of_one_row_and_of_many_are_the_references() {
    let d = device();
    let mut rng = Rng(81);
    for sizes in SIZES {
        let s = sizes[0];
        for (len, tiled) in [(s, false), (s, true), (1, false), (0, false)] {
            // Both orders of heads where there are several of a key's.
            both_agree(&d, &mut rng, sizes, len, tiled && (is_wide() || sizes[1] == 2));
        }
    }
}

#[test]
fn a_control_block_that_is_done_keeps_the_states() {
    let d = device();
    let mut rng = Rng(82);
    let done = || control(0, 2, 1);
    let operands = rule(&mut rng, [2, 1, 2, 8, 8], done());
    let net = GatedDeltaNet { state_size: 8, carry: true, tiled: false };
    assert_eq!(run_op(&d, net, &operands)[1], operands[5].bytes);
    let operands = layer(&mut rng, [2, 1, 2, 8, 8], done());
    let net = DeltaNet { key_heads: 1, state_size: 8, eps: 1e-6, tiled: false };
    assert_eq!(run_op(&d, net, &operands)[1], operands[5].bytes);
    let conv =
        [some(&mut rng, &[2, 4]), some(&mut rng, &[4, 3]), matrices(&mut rng, &[2, 4]), done()];
    assert_eq!(run_op(&d, CausalConv1d::default(), &conv)[1], conv[2].bytes);
}

#[test]
fn convolutions_go_on_from_their_state() {
    let d = device();
    let mut rng = Rng(83);
    // Blocks of 16 rows, the second of which reaches into the first; more taps than a block has rows.
    for (rows, len, channels, taps) in [
        (1, 1, 8, 2),
        (1, 1, 70, 4),
        (7, 3, 96, 3),
        (40, 40, 33, 4),
        (40, 17, 65, 4),
        (2, 0, 5, 3),
        (60, 59, 3, 24),
        (2, 1, 5, 24),
    ] {
        for (act, gated) in [(None, false), (Some(Unary::Silu), false), (None, true)] {
            let width = if gated { 3 * channels } else { channels };
            let operands = [
                some(&mut rng, &[rows, width]),
                weight(DType::F32, &[channels, taps], some(&mut rng, &[channels, taps]).bytes),
                matrices(&mut rng, &[taps - 1, channels]),
                control(2, len as u32, 0),
            ];
            let what = format!("{rows} rows, {len} real, {channels}, {taps} taps, gated {gated}");
            agrees(&d, CausalConv1d { act, gated }, &operands, (len * channels) as usize, &what);
        }
    }
}

#[test]
fn norms_have_a_gate() {
    let d = device();
    let mut rng = Rng(84);
    for dims in [[1, 1, 8], [3, 4, 33], [5, 2, 300]] {
        for (f, name) in [(Unary::Silu, "silu"), (Unary::Sigmoid, "sigmoid")] {
            let x = [some(&mut rng, &dims), some(&mut rng, &dims[2..]), some(&mut rng, &dims)];
            let n = dims.iter().product::<u64>() as usize;
            agrees(&d, GatedRmsNorm { eps: 1e-5, act: f }, &x, n, name);
        }
    }
}
