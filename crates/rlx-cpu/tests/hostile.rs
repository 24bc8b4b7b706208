//! Products at every SIMD level where numbers are not finite, or as small as they come: in the scales of
//! weights, in rows of x, in blocks of x. And weights that begin at any byte.
//!
//! With f32 x every element meets its number as in the reference: what is NaN there is NaN here, and
//! infinities have the same signs. With int8 x a run's elements are summed as integers before they meet
//! their scale, once: an infinite scale gives an infinity of the sum's sign, where element by element
//! infinities of both signs, or zeros, would have given NaN. What is finite is the same everywhere.

use crate::common;
use common::*;
use rlx_core::formats::decode_row;
use rlx_core::ops::*;
use rlx_core::types::{BlockFormat as B, DType};

/// Half-precision numbers that a scale may be in a damaged file, or in a model trained to the edge.
const HALVES: [u16; 11] = [
    0x7c00, 0xfc00, // infinities
    0x7e00, 0x7c01, 0xfe00, // NaN: quiet, signalling, with a sign
    0x0000, 0x8000, // zeros
    0x0001, 0x83ff, // subnormal: the smallest, the largest
    0x7bff, 0xfbff, // the largest
];

/// What was put into a row of weights.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Planted {
    Finite,
    Infinity,
    Nan,
}

/// A number for one of a format's scales: f16 bits of [`HALVES`], or a byte where scales are bytes.
#[derive(Clone, Copy)]
struct Plant {
    /// Which of the block's scales.
    scale: usize,
    bits: u16,
    kind: Planted,
}

fn plants(format: B) -> Vec<Plant> {
    let kind = |bits: u16| match (bits & 0x7c00, bits & 0x03ff) {
        (0x7c00, 0) => Planted::Infinity,
        (0x7c00, _) => Planted::Nan,
        _ => Planted::Finite,
    };
    let bytes: &[u16] = match format {
        // From 253 on elements are infinite in f32, whose sums the int8 kernels do not see.
        B::Mxfp4 => &[0, 1, 2, 3, 240],
        B::Nvfp4 => &[0, 1, 7, 8, 0x7e, 0x7f, 0x80, 0xfe, 0xff],
        _ => &[],
    };
    if !bytes.is_empty() {
        let plant = |bits: &u16| Plant { scale: 0, bits: *bits, kind: Planted::Finite };
        return bytes.iter().map(plant).collect();
    }
    (0..scale_bytes(format).len().max(1))
        .flat_map(|scale| HALVES.map(|bits| Plant { scale, bits, kind: kind(bits) }))
        .collect()
}

fn put(format: B, block: &mut [u8], Plant { scale, bits, .. }: Plant) {
    match format {
        B::Mxfp4 => block[0] = bits as u8,
        B::Nvfp4 => block[..4].fill(bits as u8),
        // In the top nibbles of the last four words.
        B::Iq1M => (0..4).for_each(|i| {
            let high = &mut block[49 + 2 * i];
            *high = *high & 15 | ((bits >> (4 * i)) as u8 & 15) << 4;
        }),
        _ => block[scale_bytes(format)[scale]..][..2].copy_from_slice(&bits.to_le_bytes()),
    }
}

/// Every second row has a plant in one of its blocks, in turn.
fn planted_weight(random: &mut Random, format: B, [n, k]: [u64; 2]) -> (Value, Vec<Planted>) {
    let mut w = random.packed(DType::Block(format), [n, k]);
    let blocks = k as usize / format.elements();
    let mut plants = plants(format).into_iter().cycle();
    let mut kinds = vec![Planted::Finite; n as usize];
    let rows = w.bytes.chunks_exact_mut(blocks * format.bytes());
    for (r, row) in rows.enumerate().filter(|(r, _)| r % 2 == 0) {
        let plant = plants.next().unwrap();
        put(format, &mut row[r / 2 % blocks * format.bytes()..][..format.bytes()], plant);
        kinds[r] = plant.kind;
    }
    (w, kinds)
}

fn decoded(v: &Value) -> Vec<f32> {
    let mut y = vec![0.0; v.ty.shape.elements().unwrap() as usize];
    decode_row(v.ty.dtype, &v.bytes, &mut y).unwrap();
    y
}

/// What an element is beside its value: levels must agree on it.
fn class(y: f32) -> &'static str {
    match y {
        y if y.is_nan() => "NaN",
        f32::INFINITY => "+inf",
        f32::NEG_INFINITY => "-inf",
        _ => "finite",
    }
}

/// Multiplies at every level. `wrong` says of a result, what the reference has and the most that the
/// two may differ, whether it is wrong.
fn check(x: &Value, w: &Value, what: &str, wrong: impl Fn(usize, usize, f32, f32, f32) -> bool) {
    let op = Op::from(MatMul::plain());
    let operands = [x.clone(), w.clone()];
    let expected = to_f32s(&oracle(&op, &operands)[0]);
    let (xs, ws) = (decoded(x), decoded(w));
    let k = *x.ty.shape.static_dims().unwrap().last().unwrap() as usize;
    let n = ws.len() / k;
    let mut first: Option<Vec<&str>> = None;
    for device in devices() {
        let level = device.info().adapter;
        let got = to_f32s(&run_op(&device, &op, &operands)[0]);
        for (i, (&got, &expected)) in got.iter().zip(&expected).enumerate() {
            let (m, n) = (i / n, i % n);
            let terms = xs[m * k..][..k].iter().zip(&ws[n * k..][..k]);
            let size: f64 = terms.map(|(x, w)| f64::from(x * w).abs()).sum();
            // Minima are taken away in f32 from sums that may be larger than what is left.
            let most = (1e-4 * size) as f32 + f32::MIN_POSITIVE;
            assert!(
                !wrong(m, n, got, expected, most),
                "{what}, {level}: row {m} of x, row {n} of w: {got}, the reference has {expected}"
            );
        }
        let classes: Vec<&str> = got.iter().map(|y| class(*y)).collect();
        let first = first.get_or_insert_with(|| classes.clone());
        assert_eq!(*first, classes, "{what}: {level} and the plain loops");
    }
}

fn exact(_: usize, _: usize, got: f32, expected: f32, most: f32) -> bool {
    match class(expected) {
        "finite" => !got.is_finite() || (got - expected).abs() > most,
        other => class(got) != other,
    }
}

/// Rows of x: noise, zeros, noise with zeros, in turn.
fn rows(random: &mut Random, m: u64, k: u64) -> Vec<f32> {
    let mut x = random.floats((m * k) as usize);
    for (r, row) in x.chunks_exact_mut(k as usize).enumerate() {
        match r % 3 {
            1 => row.fill(0.0),
            2 => row.iter_mut().step_by(3).for_each(|x| *x = 0.0),
            _ => {}
        }
    }
    x
}

fn blocks() -> Vec<B> {
    let of = |dtype| if let DType::Block(b) = dtype { Some(b) } else { None };
    weight_types().into_iter().filter_map(of).collect()
}

/// Rows of x: one, a tile of four and one, a tile of eight and one.
const MS: &[u64] = &[1, 5, 9];
/// Rows of a weight: panels, and some that are none.
const N: u64 = 53;

#[test]
fn hostile_scales_give_what_the_reference_gives_with_f32_rows() {
    let mut random = Random(21);
    for format in blocks() {
        let k = 2 * format.elements().max(64) as u64;
        let (w, _) = planted_weight(&mut random, format, [N, k]);
        for &m in MS {
            let x = f32s(&[m, k], &rows(&mut random, m, k));
            check(&x, &w, format.name(), exact);
        }
    }
}

#[test]
fn elements_that_overflow_are_infinite_with_f32_rows() {
    // ggml's own: the three largest exponents of MXFP4.
    let mut random = Random(22);
    let mut w = random.packed(DType::Block(B::Mxfp4), [N, 64]);
    for (i, block) in w.bytes.chunks_exact_mut(B::Mxfp4.bytes()).enumerate() {
        block[0] = [253, 120, 254, 255, 0, 121, 122][i % 7];
    }
    for &m in MS {
        // So small that no sum of finite elements overflows.
        let x: Vec<f32> = random.floats(64 * m as usize).iter().map(|x| x * 1e-6).collect();
        check(&f32s(&[m, 64], &x), &w, "mxfp4", exact);
    }
}

#[test]
fn hostile_scales_spoil_their_own_rows_alone_with_int8_rows() {
    let mut random = Random(23);
    for (format, of) in with_integers(blocks()) {
        let k = 2 * format.elements().max(64) as u64;
        let (w, kinds) = planted_weight(&mut random, format, [N, k]);
        for &m in MS {
            let x = quantized(of, [m, k], &rows(&mut random, m, k));
            check(&x, &w, format.name(), |m, n, got, expected, most| match kinds[n] {
                Planted::Finite => exact(m, n, got, expected, most),
                Planted::Nan => !got.is_nan() || !expected.is_nan(),
                Planted::Infinity if expected.is_nan() => got.is_finite(),
                Planted::Infinity => got != expected,
            });
        }
    }
}

#[test]
fn an_infinite_scale_gives_the_infinity_of_its_sums_sign() {
    let mut random = Random(24);
    for format in blocks() {
        if matches!(format, B::Mxfp4 | B::Nvfp4) {
            continue; // their scales are finite
        }
        let k = format.elements();
        for scale in 0..scale_bytes(format).len().max(1) {
            let with = |bits: u16| Plant { scale, bits, kind: Planted::Finite };
            // A payload whose runs all have elements: with the largest scale there, and no other.
            let (payload, signs) = (0..1000)
                .find_map(|_| {
                    let mut block = random.packed(DType::Block(format), [1, k as u64]);
                    let usual = block.bytes.clone();
                    scale_bytes(format).iter().for_each(|at| block.bytes[*at..at + 2].fill(0));
                    put(format, &mut block.bytes, with(0x7bff));
                    let elements = decoded(&block);
                    let full = elements.chunks_exact(16).all(|run| run.iter().any(|w| *w != 0.0));
                    full.then_some((usual, elements))
                })
                .unwrap_or_else(|| panic!("no payload of {} has full runs", format.name()));
            let halves = [0x7c00, 0xfc00, 0x7e00];
            let mut w = random.packed(DType::Block(format), [20, k as u64]);
            for (r, row) in w.bytes.chunks_exact_mut(format.bytes()).enumerate() {
                row.copy_from_slice(&payload);
                if let Some(half) = halves.get(r % 4) {
                    put(format, row, with(*half));
                }
            }
            // x has each element's sign, so no run's sum is zero or negative.
            let row: Vec<f32> = signs.iter().map(|w| if *w < 0.0 { -1.0 } else { 1.0 }).collect();
            let what = format!("{}, scale {scale}", format.name());
            for m in [1, 5] {
                let (x, dims) = (row.repeat(m), [m as u64, k as u64]);
                check(&f32s(&dims, &x), &w, &what, exact);
                for x in INTEGERS.map(|of| quantized(of, dims, &x)) {
                    check(&x, &w, &what, |m, n, got, expected, most| match n % 4 {
                        0 => got != f32::INFINITY,
                        1 => got != f32::NEG_INFINITY,
                        2 => !got.is_nan(),
                        _ => exact(m, n, got, expected, most),
                    });
                }
            }
        }
    }
}

#[test]
fn a_hostile_row_of_x_spoils_its_own_results_alone() {
    let mut random = Random(25);
    for dtype in weight_types() {
        let k = if dtype.is_block() { 256 } else { 83 };
        let w = random.packed(dtype, [N, k as u64]);
        let mut x = random.floats(9 * k);
        x[k + 3] = f32::NAN;
        x[2 * k + 5] = f32::INFINITY;
        x[4 * k..5 * k].fill(f32::NEG_INFINITY);
        x[5 * k + 80] = -f32::NAN;
        x[6 * k..7 * k].iter_mut().for_each(|x| *x *= 1e-39);
        x[7 * k..8 * k].fill(-0.0);
        check(&f32s(&[9, k as u64], &x), &w, dtype.name(), exact);
    }
}

#[test]
fn a_hostile_block_of_x_spoils_its_own_row_alone() {
    let mut random = Random(26);
    for (format, of) in with_integers(blocks()) {
        let w = random.packed(DType::Block(format), [N, 512]);
        let mut x = quantized(of, [9, 512], &random.floats(9 * 512));
        let kinds: Vec<Planted> = (0..9)
            .map(|r| {
                let block = &mut x.bytes[(r * 512 / of.elements() + r % 2) * of.bytes()..];
                let (half, single) = match r {
                    1 => (0x7e00, f32::NAN),
                    2 => (0x7c00, f32::INFINITY),
                    4 => (0xfc00, f32::NEG_INFINITY),
                    5 => (0xfc01, -f32::NAN),
                    6 => (0x0001, 1e-40),
                    7 => (0x8000, -0.0),
                    _ => return Planted::Finite,
                };
                match of {
                    B::Q8_0 => block[..2].copy_from_slice(&u16::to_le_bytes(half)),
                    _ => block[..4].copy_from_slice(&f32::to_le_bytes(single)),
                }
                [Planted::Finite, Planted::Infinity, Planted::Nan][match r {
                    1 | 5 => 2,
                    2 | 4 => 1,
                    _ => 0,
                }]
            })
            .collect();
        check(&x, &w, format.name(), |m, n, got, expected, most| match kinds[m] {
            Planted::Finite => exact(m, n, got, expected, most),
            Planted::Nan => !got.is_nan() || !expected.is_nan(),
            // A minimum meets it too, and may be of the other sign.
            Planted::Infinity => got.is_finite() || expected.is_finite(),
        });
    }
}

#[test]
fn hostile_rows_are_quantised_to_the_references_bits() {
    let mut random = Random(27);
    for (format, k) in [(B::Q8_0, 96usize), (B::Q15_0, 96), (B::Q8K, 512)] {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, 1e-45, -f32::NAN] {
            for (from, to) in [(3, 4), (k - 1, k), (0, k), (7, k / 2)] {
                let mut x = random.floats(3 * k);
                x[k + from..k + to].fill(bad);
                let x = f32s(&[3, k as u64], &x);
                let op = Op::from(QuantizeRows::to(format));
                let expected = oracle(&op, core::slice::from_ref(&x));
                for device in devices() {
                    let got = run_op(&device, &op, core::slice::from_ref(&x));
                    let what = format!("{} {bad} {from}..{to}", format.name());
                    assert!(same_blocks(format, &got[0], &expected[0]), "{what}");
                }
            }
        }
    }
}

/// Equal bytes, but that a NaN is a NaN.
fn same_blocks(format: B, a: &[u8], b: &[u8]) -> bool {
    a.chunks_exact(format.bytes()).zip(b.chunks_exact(format.bytes())).all(|(a, b)| {
        let scale = |x: &[u8]| match format {
            B::Q8_0 => half::f16::from_le_bytes([x[0], x[1]]).to_f32(),
            _ => f32::from_le_bytes([x[0], x[1], x[2], x[3]]),
        };
        let head = if format == B::Q8_0 { 2 } else { 4 };
        a == b || (scale(a).is_nan() && scale(b).is_nan() && a[head..] == b[head..])
    })
}

#[test]
fn weights_begin_at_any_byte_of_a_map() {
    let mut random = Random(28);
    for dtype in weight_types() {
        let k = if dtype.is_block() { 256 } else { 83 };
        // Too few rows for a panel are read where they are; others are arranged on the way.
        for n in [5, 37] {
            let w = random.packed(dtype, [n, k]);
            for m in [1, 5] {
                let floats = random.floats((m * k) as usize);
                let mut rows = vec![f32s(&[m, k], &floats)];
                if dtype.is_block() {
                    rows.extend(INTEGERS.map(|of| quantized(of, [m, k], &floats)));
                }
                let mut runs: Vec<(Op, Vec<Value>)> = rows
                    .into_iter()
                    .map(|x| (MatMul::plain().into(), vec![x, w.clone()]))
                    .collect();
                runs.push((Gather::default().into(), vec![w.clone(), u32s(&[3], &[4, 0, 2])]));
                for (op, operands) in runs {
                    for device in devices() {
                        let expected = run_op(&device, &op, &operands);
                        for at in [1, 2, 3, 7, 13] {
                            let got = run_op_mapped(&device, &op, &operands, at);
                            let level = device.info().adapter;
                            assert_eq!(got, expected, "{dtype} {n} {m} at {at}, {level}");
                        }
                    }
                }
            }
        }
    }
}
