//! Attention without a cache.

use super::*;
use crate::common::device;
use rlx_core::ops::{HeadLayout, Mask, Sdpa};

/// Shapes of q, k and v.
fn shapes(op: &Sdpa, b: u64, s_q: u64, s_k: u64) -> [Vec<u64>; 3] {
    let one = |s: u64, heads: usize, width: usize| match op.layout {
        HeadLayout::Bshd => vec![b, s, heads as u64, width as u64],
        HeadLayout::Bhsd => vec![b, heads as u64, s, width as u64],
    };
    [
        one(s_q, op.heads, op.head_dim),
        one(s_k, op.kv_heads, op.head_dim),
        one(s_k, op.kv_heads, op.v_head_dim),
    ]
}

fn forms() -> Vec<Sdpa> {
    let plain = Sdpa::new(4, 6);
    vec![
        plain.clone(),
        Sdpa { kv_heads: 2, layout: HeadLayout::Bhsd, ..plain.clone() },
        Sdpa { v_head_dim: 10, scale: Some(0.7), softcap: Some(2.0), ..plain },
        Sdpa { head_dim: 40, v_head_dim: 66, heads: 2, kv_heads: 1, ..Sdpa::default() },
        // Whole fours, of which the last chunk of a head is not full.
        Sdpa { head_dim: 92, v_head_dim: 64, heads: 2, kv_heads: 1, ..Sdpa::default() },
        // Wider than a workgroup makes of it at a time.
        Sdpa { v_head_dim: 132, layout: HeadLayout::Bhsd, ..Sdpa::new(1, 8) },
    ]
}

#[test]
fn every_mask_layout_and_size() {
    let (d, mut rng) = (device(), Rng(81));
    for form in forms() {
        for (b, s_q, s_k) in [(2, 5, 5), (1, 1, 70), (1, 35, 67), (2, 17, 17), (8, 65, 66)] {
            for mask in [Mask::None, Mask::Causal, Mask::Window(3), Mask::Window(1 << 40)] {
                let op = Sdpa { mask, ..form.clone() };
                let operands = shapes(&op, b, s_q, s_k).map(|dims| floats(&mut rng, &dims));
                check(&d, op, &operands, 5e-6);
            }
            let op = Sdpa { mask: Mask::Custom, ..form.clone() };
            let [q, k, v] = shapes(&op, b, s_q, s_k).map(|dims| floats(&mut rng, &dims));
            // The first sequence sees nothing at all.
            let mut seen: Vec<f64> = (0..b * s_k).map(|i| f64::from((i % 3 != 0) as u8)).collect();
            seen[..s_k as usize].fill(0.0);
            for scalar in [Scalar::Bool, Scalar::F32] {
                let mask = tensor(scalar, &[b, s_k], &seen);
                let operands = [q.clone(), k.clone(), v.clone(), mask];
                if b > 1 {
                    check(&d, op.clone(), &operands, 5e-6);
                }
            }
        }
    }
}

#[test]
fn a_bias_repeats_and_hides_keys() {
    let (d, mut rng) = (device(), Rng(82));
    for form in forms() {
        let op = Sdpa { mask: Mask::Bias, ..form };
        hides(&d, &mut rng, op.clone(), 2);
        // As many workgroups as a tile of queries asks for.
        hides(&d, &mut rng, op, 33);
    }
}

fn hides(d: &Arc<TestDevice>, rng: &mut Rng, op: Sdpa, b: u64) {
    let [q, k, v] = shapes(&op, b, 9, 37).map(|dims| floats(rng, &dims));
    let heads = op.heads as u64;
    for dims in [[b, heads, 9, 37], [1, 1, 9, 37], [b, 1, 1, 37], [1, heads, 9, 1]] {
        let mut bias = floats(rng, &dims);
        let n = bias.bytes.len() / 4;
        // Minus infinity hides; the largest negative number leaves shares to others.
        for (i, hidden) in [(0, f32::NEG_INFINITY), (n / 2, f32::NEG_INFINITY), (n - 1, f32::MIN)] {
            if dims[3] > 1 {
                bias.bytes[4 * i..4 * i + 4].copy_from_slice(&hidden.to_le_bytes());
            }
        }
        check(d, op.clone(), &[q.clone(), k.clone(), v.clone(), bias], 5e-6);
    }
}

#[test]
fn a_grid_adds_what_rows_and_columns_have() {
    let (d, mut rng) = (device(), Rng(85));
    // Columns that are whole fours, and others; more keys than a tile has; few workgroups, and many.
    for (form, b, [r, c]) in [
        (Sdpa::new(2, 6), 1, [3, 3]),
        (Sdpa { layout: HeadLayout::Bhsd, ..Sdpa::new(4, 8) }, 2, [5, 14]),
        (Sdpa { kv_heads: 1, layout: HeadLayout::Bhsd, ..Sdpa::new(2, 64) }, 1, [9, 8]),
        (Sdpa { softcap: Some(3.0), ..Sdpa::new(4, 8) }, 33, [2, 12]),
    ] {
        let op = Sdpa { mask: Mask::Grid, ..form };
        let [q, k, v] = shapes(&op, b, 7, r * c).map(|dims| floats(&mut rng, &dims));
        let axis = |rng: &mut Rng, n| floats(rng, &[b, op.heads as u64, 7, n]);
        let (mut rows, columns) = (axis(&mut rng, r), axis(&mut rng, c));
        rows.bytes[..4].copy_from_slice(&f32::NEG_INFINITY.to_le_bytes());
        check(&d, op, &[q, k, v, rows, columns], 5e-6);
    }
}

#[test]
fn halves_are_read_and_written_as_they_are() {
    let (d, mut rng) = (device(), Rng(83));
    for scalar in [Scalar::F16, Scalar::Bf16] {
        let op = Sdpa { mask: Mask::Causal, ..Sdpa::new(2, 6) };
        for b in [2, 33] {
            let operands = shapes(&op, b, 5, 9).map(|dims| some(&mut rng, scalar, &dims));
            check(&d, op.clone(), &operands, 1e-2);
        }
    }
}

#[test]
fn heads_in_one_axis_are_the_same() {
    let (d, mut rng) = (device(), Rng(84));
    let op = Sdpa { kv_heads: 1, ..Sdpa::new(3, 4) };
    let operands =
        [floats(&mut rng, &[2, 5, 12]), floats(&mut rng, &[2, 7, 4]), floats(&mut rng, &[2, 7, 4])];
    check(&d, op, &operands, 5e-6);
}

/// Heads that tensor cores have in whole steps: every mask, layout and type, more keys than a step has, odd ends.
#[test]
fn whole_heads_come_in_tiles() {
    let (d, mut rng) = (device(), Rng(86));
    let plain = Sdpa::new(2, 16);
    for (form, b, s_q, s_k) in [
        (plain.clone(), 2, 16, 70),
        (Sdpa { kv_heads: 1, layout: HeadLayout::Bhsd, ..Sdpa::new(2, 64) }, 1, 65, 131),
        (Sdpa { v_head_dim: 128, softcap: Some(2.0), ..Sdpa::new(1, 96) }, 1, 33, 67),
        (Sdpa { v_head_dim: 24, scale: Some(0.7), ..Sdpa::new(3, 8) }, 1, 130, 130),
    ] {
        for mask in [Mask::None, Mask::Causal, Mask::Window(20)] {
            let op = Sdpa { mask, ..form.clone() };
            let operands = shapes(&op, b, s_q, s_k).map(|dims| floats(&mut rng, &dims));
            check(&d, op, &operands, 5e-6);
        }
        let [q, k, v] = shapes(&form, b, s_q, s_k).map(|dims| floats(&mut rng, &dims));
        // Scores that only -3.4e38 is added to share their values; minus infinity alone gives zeros.
        let mut bias = floats(&mut rng, &[b, 1, s_q, s_k]);
        let row = 4 * s_k as usize;
        for (i, hidden) in [(0, f32::MIN), (1, f32::NEG_INFINITY)] {
            for x in bias.bytes[i * row..(i + 1) * row].chunks_exact_mut(4) {
                x.copy_from_slice(&hidden.to_le_bytes());
            }
        }
        let op = Sdpa { mask: Mask::Bias, ..form.clone() };
        check(&d, op, &[q.clone(), k.clone(), v.clone(), bias], 5e-6);
        let mut seen: Vec<f64> = (0..b * s_k).map(|i| f64::from((i % 3 != 0) as u8)).collect();
        seen[s_k as usize / 2..s_k as usize].fill(0.0);
        let mask = tensor(Scalar::Bool, &[b, s_k], &seen);
        check(&d, Sdpa { mask: Mask::Custom, ..form }, &[q, k, v, mask], 5e-6);
    }
    let wide = Sdpa { kv_heads: 1, v_head_dim: 128, layout: HeadLayout::Bhsd, ..Sdpa::new(2, 64) };
    for scalar in [Scalar::F16, Scalar::Bf16] {
        for (form, b, s_q, s_k) in [(Sdpa::new(2, 16), 1, 40, 70), (wide.clone(), 2, 65, 131)] {
            let op = Sdpa { mask: Mask::Causal, ..form.clone() };
            let operands = shapes(&op, b, s_q, s_k).map(|dims| some(&mut rng, scalar, &dims));
            check(&d, op, &operands, 1e-2);
            let [q, k, v] = operands;
            let bias = some(&mut rng, scalar, &[b, 1, s_q, s_k]);
            check(&d, Sdpa { mask: Mask::Bias, ..form }, &[q, k, v, bias], 1e-2);
        }
    }
}
