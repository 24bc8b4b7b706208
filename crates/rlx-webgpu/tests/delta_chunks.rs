//! Delta nets in chunks on the device: against the reference, and against the form that goes row by row.

use crate::common;
use crate::recurrent::{agrees, both_agree, layer, rule};
use common::*;
use rlx_core::ops::{DeltaNet, GatedDeltaNet};

/// Logs of decays: none, usual ones, and those behind which nothing or next to nothing is left.
const GATES: [f32; 7] = [-0.1, 0.0, -30.0, -0.5, -80.0, -1e4, -0.02];
const BETAS: [f32; 5] = [0.5, 1.0, 0.0, 0.9, 0.1];

/// Operands of the recurrence whose gates are these, over and over.
fn gated(rng: &mut Rng, sizes: [u64; 5], ctl: Operand, g: &[f32], beta: &[f32]) -> Vec<Operand> {
    let [s, _, h, _, _] = sizes;
    let mut operands = rule(rng, sizes, ctl);
    for (at, values) in [(3, g), (4, beta)] {
        let all: Vec<f32> = values.iter().copied().cycle().take((s * h) as usize).collect();
        operands[at] = input(&[s, h], &all);
    }
    operands
}

fn net(n: u64, tiled: bool) -> GatedDeltaNet {
    GatedDeltaNet { state_size: n as usize, carry: true, tiled }
}

/// Rows at both sides of a chunk's end, and heads of every width: with parts behind the key's end, with
/// columns behind the value's, and just before and behind where a step goes in chunks (15 rows, keys of 130).
const SIZES: [[u64; 5]; 9] = [
    [15, 2, 4, 64, 64],
    [16, 2, 4, 128, 128],
    [17, 1, 2, 64, 128],
    [63, 1, 1, 128, 40],
    [64, 3, 3, 5, 3],
    [65, 1, 2, 33, 17],
    [200, 2, 4, 16, 16],
    [200, 1, 1, 128, 16],
    [17, 1, 1, 130, 16],
];

#[test]
fn chunks_are_the_references() {
    let d = device();
    let mut rng = Rng(91);
    for (i, sizes) in SIZES.into_iter().enumerate() {
        let s = sizes[0];
        for (len, tiled) in [(s, false), (s - 1, true), (9, false), (0, false)] {
            // Both orders of heads of every second size.
            both_agree(&d, &mut rng, sizes, len, tiled && (is_wide() || i % 2 == 0));
        }
    }
}

#[test]
fn chunks_take_every_decay_and_every_strength() {
    let d = device();
    let mut rng = Rng(92);
    for (g, beta) in [
        (&GATES[..], &BETAS[..]),
        (&[0.0], &[1.0]),
        (&[0.0], &[0.0]),
        (&[-30.0], &[1.0]),
        (&[-80.0], &[0.5]),
        (&[-1e4], &[1.0]),
        (&[-1e4, -0.001, 0.0, 0.0, 0.0], &[1.0]),
    ] {
        let sizes = [41, 1, 2, 32, 24];
        let operands = gated(&mut rng, sizes, control(0, 41, 0), g, beta);
        agrees(&d, net(32, false), &operands, 41 * 2 * 24, &format!("gates {g:?}, {beta:?}"));
    }
}

/// A key, and what is added to a length, of nothing: rows behind the last real one have no part in a chunk.
#[test]
fn rows_behind_the_last_one_are_in_no_length() {
    let d = device();
    let op = DeltaNet { key_heads: 1, state_size: 8, eps: 0.0, tiled: false };
    let operands = layer(&mut Rng(93), [20, 1, 2, 8, 8], control(0, 11, 0));
    agrees(&d, op, &operands, 20 * 2 * 8, "no eps");
}

#[test]
fn a_control_block_that_is_done_keeps_the_state() {
    let d = device();
    let operands = rule(&mut Rng(94), [16, 1, 2, 8, 8], control(0, 16, 1));
    assert_eq!(run_op(&d, net(8, false), &operands)[1], operands[5].bytes);
}

/// Rows `from..to` of the operands of a step, that goes on from this state.
fn part(whole: &[Operand], from: usize, to: usize, matrices: &[u8]) -> Vec<Operand> {
    let mut operands: Vec<Operand> = whole[..5]
        .iter()
        .map(|x| {
            let mut dims = x.ty.shape.static_dims().expect("sizes");
            let row = x.bytes.len() / dims[0] as usize;
            dims[0] = (to - from) as u64;
            input(&dims, &floats(&x.bytes[from * row..to * row]))
        })
        .collect();
    let dims = whole[5].ty.shape.static_dims().expect("sizes");
    operands.push(state(whole[5].ty.dtype, &dims, matrices.to_vec()));
    operands.push(control(from as u32, (to - from) as u32, 0));
    operands
}

#[test]
fn chunks_are_single_rows_one_after_the_other_and_go_on_from_them() {
    let d = device();
    let (rows, op) = (40, net(64, false));
    let sizes = [rows as u64, 2, 4, 64, 32];
    let whole =
        gated(&mut Rng(95), sizes, control(0, rows as u32, 0), &[-0.1, -0.02, 0.0], &[0.5, 1.0]);
    let at_once = run_op(&d, op.clone(), &whole);
    // Chunks, then single rows, then chunks: one state goes through them all.
    let steps: Vec<[usize; 2]> =
        [[0, 19]].into_iter().chain((19..24).map(|i| [i, i + 1])).chain([[24, rows]]).collect();
    let (mut y, mut matrices) = (Vec::new(), whole[5].bytes.clone());
    for [from, to] in steps {
        let results = run_op(&d, op.clone(), &part(&whole, from, to, &matrices));
        y.extend(floats(&results[0]));
        matrices = results[1].clone();
    }
    let doubles = |bytes: &[u8]| floats(bytes).into_iter().map(f64::from).collect::<Vec<_>>();
    assert_close("in parts", &y, &doubles(&at_once[0]), 4e-6);
    assert_close("in parts: the state", &floats(&matrices), &doubles(&at_once[1]), 4e-6);
}
