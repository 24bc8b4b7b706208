//! quantize    x f32[.., k] -> q8_0 (34 bytes per 32), q15_0 (68 bytes per 32) or q8_k (292 bytes per 256)
//! bytes       4 in, 1.1 or 2.1 out, per element
//! shares      columns, in whole blocks
//! numerics    the reference encoder's, bit for bit: q8_0 rounds halves away from zero, the others to even

use super::{Kernel, Planned, claim, rows_of};
use crate::place::Split;
use crate::simd::{Level, Simd, Task, dispatch};
use crate::target::INT16;
use crate::view::Cx;
use half::f16;
use rlx_core::Result;
use rlx_core::formats::activations::{Q15_MOST, clear_small, large_above};
use rlx_core::ir::lir::Step;
use rlx_core::ops::QuantizeRows;
use rlx_core::target::Target;
use rlx_core::types::{BlockFormat, Type};

struct Quantize {
    format: BlockFormat,
    only_large: bool,
    k: usize,
}

pub(super) fn takes(op: &QuantizeRows, operands: &[&Type], _: &Target) -> Result<(), String> {
    if op.format == BlockFormat::Q15_0 && !INT16 {
        return Err("its kernel makes no q15_0 here".into());
    }
    claim::floats(operands)
}

pub(super) fn plan(op: &QuantizeRows, step: &Step) -> Result<Planned> {
    let (m, k) = rows_of(&step.operands[0])?;
    let split = Split::Columns(op.format.bytes());
    let QuantizeRows { format, only_large } = *op;
    Ok(Planned::new(Quantize { format, only_large, k }, &[split], m * k))
}

impl Kernel for Quantize {
    fn run(&self, cx: &mut Cx<'_>) {
        let (level, x) = (cx.level, cx.slice::<f32>(0));
        let (columns, rows) = (cx.result(0).columns::<u8>(), cx.result(0).rows.end);
        let (bytes, elements) = (self.format.bytes(), self.format.elements());
        let start = columns.start / bytes * elements;
        let len = columns.len() / bytes * elements;
        for r in 0..cx.real(rows) {
            let row = &x[r * self.k..][..self.k];
            encode(level, self.format, &row[start..][..len], cx.result(0).row(r));
            if INT16 && self.only_large {
                let bound = dispatch(level, LargeAbove { x: row });
                clear_small(cx.result(0).row(r), bound);
            }
        }
    }
}

/// Whole blocks.
pub(super) fn encode(level: Level, format: BlockFormat, x: &[f32], y: &mut [u8]) {
    match format {
        BlockFormat::Q8_0 => dispatch(level, ToQ8_0 { x, y }),
        #[cfg(not(target_arch = "wasm32"))]
        BlockFormat::Q4_0 => dispatch(level, ToQ4_0 { x, y }),
        #[cfg(not(target_arch = "wasm32"))]
        BlockFormat::Q15_0 => dispatch(level, ToQ15_0 { x, y }),
        _ => dispatch(level, ToQ8K { x, y }),
    }
}

/// The largest magnitude. NaN is passed over.
#[inline(always)]
fn largest(x: &[f32]) -> f32 {
    let mut most = [0.0f32; 8];
    for x in x.as_chunks::<8>().0 {
        for i in 0..8 {
            let v = x[i].abs();
            most[i] = if v > most[i] { v } else { most[i] };
        }
    }
    most.into_iter().fold(0.0, f32::max)
}

/// Plain loops: they become vectors because `dispatch` compiles them for the level's features.
struct ToQ8_0<'a> {
    x: &'a [f32],
    y: &'a mut [u8],
}

impl Task for ToQ8_0<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        for (x, y) in self.x.as_chunks::<32>().0.iter().zip(self.y.as_chunks_mut::<34>().0) {
            let d = largest(x) / 127.0;
            let inverse = if d != 0.0 { 1.0 / d } else { 0.0 };
            [y[0], y[1]] = f16::from_f32(d).to_le_bytes();
            for (y, x) in y[2..].iter_mut().zip(x) {
                // `v - trunc(v)` is exact: halves go away from zero, and nothing else moves.
                let v = x * inverse;
                let whole = v.trunc();
                let up = if (v - whole).abs() >= 0.5 { 1.0f32.copysign(v) } else { 0.0 };
                *y = (whole + up) as i8 as u8;
            }
        }
    }
}

/// For caches: no activations are of `q4_0`.
#[cfg(not(target_arch = "wasm32"))]
struct ToQ4_0<'a> {
    x: &'a [f32],
    y: &'a mut [u8],
}

#[cfg(not(target_arch = "wasm32"))]
impl Task for ToQ4_0<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        for (x, y) in self.x.as_chunks::<32>().0.iter().zip(self.y.as_chunks_mut::<18>().0) {
            // The first of the largest magnitude: its sign is the scale's.
            let most = largest(x);
            let first = x.iter().find(|v| v.abs() == most).copied().unwrap_or(0.0);
            let d = if most != 0.0 { first / -8.0 } else { 0.0 };
            let inverse = if d != 0.0 { 1.0 / d } else { 0.0 };
            [y[0], y[1]] = f16::from_f32(d).to_le_bytes();
            let code = |v: f32| ((v * inverse + 8.5) as u8).min(15);
            for (i, y) in y[2..].iter_mut().enumerate() {
                *y = code(x[i]) | (code(x[i + 16]) << 4);
            }
        }
    }
}

#[cfg(not(target_arch = "wasm32"))]
struct ToQ15_0<'a> {
    x: &'a [f32],
    y: &'a mut [u8],
}

#[cfg(not(target_arch = "wasm32"))]
impl Task for ToQ15_0<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        for (x, y) in self.x.as_chunks::<32>().0.iter().zip(self.y.as_chunks_mut::<68>().0) {
            let d = largest(x) / Q15_MOST;
            let inverse = if d != 0.0 { 1.0 / d } else { 0.0 };
            y[..4].copy_from_slice(&d.to_le_bytes());
            let (high, low) = y[4..].split_at_mut(32);
            for ((high, low), x) in high.iter_mut().zip(low).zip(x) {
                let v = x * inverse;
                let v = if v.is_nan() { 0.0 } else { v };
                let q = rounded(v.clamp(-Q15_MOST, Q15_MOST));
                let h = (q + 64) >> 7;
                (*high, *low) = (h as i8 as u8, (q - 128 * h) as i8 as u8);
            }
        }
    }
}

/// The scale that a large block of the row exceeds. Each worker looks at the whole row, of which it makes a share: as
/// many bytes as it reads for that from a cache, and no barrier.
struct LargeAbove<'a> {
    x: &'a [f32],
}

impl Task for LargeAbove<'_> {
    type Output = f64;
    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> f64 {
        large_above(self.x.as_chunks::<32>().0.iter().map(
            #[inline(always)]
            |x| largest(x) / Q15_MOST,
        ))
    }
}

/// A number below 2^22 as an integer, halves to even: adding 1.5 * 2^23 leaves no bits for a fraction.
#[inline(always)]
fn rounded(v: f32) -> i32 {
    const MAGIC: f32 = 12_582_912.0;
    ((v + MAGIC).to_bits() as i32).wrapping_sub(MAGIC.to_bits() as i32)
}

struct ToQ8K<'a> {
    x: &'a [f32],
    y: &'a mut [u8],
}

impl Task for ToQ8K<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        for (x, y) in self.x.as_chunks::<256>().0.iter().zip(self.y.as_chunks_mut::<292>().0) {
            let most = largest(x);
            // The first of the largest magnitude decides the sign.
            let signed = x.iter().find(|v| v.abs() == most).copied().unwrap_or(0.0);
            if signed == 0.0 {
                y.fill(0);
                continue;
            }
            let inverse = -127.0 / signed;
            y[..4].copy_from_slice(&(1.0 / inverse).to_le_bytes());
            let (q, sums) = y[4..].split_at_mut(256);
            for (q, x) in q.iter_mut().zip(x) {
                // The low bits of the sum are the rounded integer. Subnormal blocks, whose inverse
                // is infinite, reach both ends, and their zeros (NaN here) the upper one.
                #[allow(clippy::manual_clamp)] // clamp keeps NaN, min does not
                let v = (inverse * x).min(127.0).max(-128.0);
                *q = rounded(v) as i8 as u8;
            }
            for (slot, q) in sums.as_chunks_mut::<2>().0.iter_mut().zip(q.as_chunks::<16>().0) {
                let sum: i16 = q.iter().map(|&q| i16::from(q as i8)).sum();
                *slot = sum.to_le_bytes();
            }
        }
    }
}
