//! Rows of floats: their sums, and what norms and the softmax make of them. Loops are plain where they
//! become vectors because `dispatch` compiles them for the level's features.

use super::convert;
use crate::simd::{LANES, Level, Simd, Task, dispatch};
use rlx_core::types::DType;

/// Memory of a worker that kernels of rows reuse.
#[derive(Default)]
pub(super) struct Scratch {
    pub(super) x: Vec<f32>,
    pub(super) y: Vec<f32>,
    /// Operands that all rows read.
    pub(super) shared: [Vec<f32>; 3],
}

/// Has `fill` make a row of results: in place where they are f32, else in `room`, rounded.
pub(super) fn store(
    level: Level,
    dtype: DType,
    row: &mut [u8],
    room: &mut Vec<f32>,
    fill: impl FnOnce(&mut [f32]),
) {
    if dtype == DType::F32 {
        return fill(bytemuck::cast_slice_mut(row));
    }
    let n = row.len() / dtype.block_bytes();
    if room.len() < n {
        room.resize(n, 0.0);
    }
    fill(&mut room[..n]);
    convert::write(level, dtype, &room[..n], row);
}

/// Sums of this many elements at once.
const WIDE: usize = 16;

/// The sum, in f64.
pub(super) struct Sum<'a>(pub(super) &'a [f32]);

impl Task for Sum<'_> {
    type Output = f64;
    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> f64 {
        let (whole, rest) = self.0.as_chunks::<WIDE>();
        let mut acc = [0.0f64; WIDE];
        for x in whole {
            for i in 0..WIDE {
                acc[i] += f64::from(x[i]);
            }
        }
        acc.iter().sum::<f64>() + rest.iter().map(|x| f64::from(*x)).sum::<f64>()
    }
}

/// The sum of squared distances to a number, in f64.
pub(super) struct Squares<'a> {
    pub(super) x: &'a [f32],
    pub(super) from: f64,
}

impl Task for Squares<'_> {
    type Output = f64;
    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> f64 {
        let (whole, rest) = self.x.as_chunks::<WIDE>();
        let mut acc = [0.0f64; WIDE];
        for x in whole {
            for i in 0..WIDE {
                let d = f64::from(x[i]) - self.from;
                acc[i] += d * d;
            }
        }
        let rest = rest.iter().map(|x| (f64::from(*x) - self.from) * (f64::from(*x) - self.from));
        acc.iter().sum::<f64>() + rest.sum::<f64>()
    }
}

/// Where a run of elements lies and how far it spreads: what a norm takes away, and multiplies with.
#[derive(Clone, Copy)]
pub(super) struct Spread {
    pub(super) mean: f64,
    pub(super) inverse: f64,
}

impl Spread {
    /// Mean and `1 / sqrt(var + eps)`.
    pub(super) fn of(level: Level, x: &[f32], eps: f32) -> Spread {
        let n = x.len() as f64;
        let mean = dispatch(level, Sum(x)) / n;
        let var = dispatch(level, Squares { x, from: mean }) / n;
        Spread { mean, inverse: 1.0 / (var + f64::from(eps)).sqrt() }
    }

    /// No mean, and `1 / sqrt(mean(x^2) + eps)`.
    pub(super) fn of_squares(level: Level, x: &[f32], eps: f32) -> Spread {
        let square = dispatch(level, Squares { x, from: 0.0 }) / x.len() as f64;
        Spread { mean: 0.0, inverse: 1.0 / (square + f64::from(eps)).sqrt() }
    }
}

/// `y = (x - mean) inverse scale + bias`, scale and bias by element.
pub(super) struct Affine<'a> {
    pub(super) x: &'a [f32],
    pub(super) spread: Spread,
    pub(super) scale: &'a [f32],
    pub(super) bias: Option<&'a [f32]>,
    pub(super) y: &'a mut [f32],
}

impl Task for Affine<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Affine { x, spread: Spread { mean, inverse }, scale, bias, y } = self;
        for ((y, x), scale) in y.iter_mut().zip(x).zip(scale) {
            *y = ((f64::from(*x) - mean) * inverse) as f32 * scale;
        }
        if let Some(bias) = bias {
            y.iter_mut().zip(bias).for_each(|(y, b)| *y += b);
        }
    }
}

/// The same with one scale and bias for all.
pub(super) struct AffineRun<'a> {
    pub(super) x: &'a [f32],
    pub(super) spread: Spread,
    pub(super) scale: f32,
    pub(super) bias: f32,
    pub(super) y: &'a mut [f32],
}

impl Task for AffineRun<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let AffineRun { x, spread: Spread { mean, inverse }, scale, bias, y } = self;
        for (y, x) in y.iter_mut().zip(x) {
            *y = ((f64::from(*x) - mean) * inverse) as f32 * scale + bias;
        }
    }
}

/// The largest number; minus infinity of nothing and of NaN.
pub(super) struct Largest<'a>(pub(super) &'a [f32]);

impl Task for Largest<'_> {
    type Output = f32;
    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> f32 {
        let (whole, rest) = self.0.as_chunks::<LANES>();
        let mut most = s.splat(f32::NEG_INFINITY);
        for x in whole {
            most = s.max(s.load(x), most);
        }
        let mut lanes = [0.0; LANES];
        s.store(most, &mut lanes);
        lanes.iter().chain(rest).fold(f32::NEG_INFINITY, |m, x| if *x > m { *x } else { m })
    }
}

/// `y = exp(y - base)` in place, and the sum.
pub(super) struct Exponentials<'a> {
    pub(super) y: &'a mut [f32],
    pub(super) base: f32,
}

impl Task for Exponentials<'_> {
    type Output = f32;
    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> f32 {
        let (whole, rest) = self.y.as_chunks_mut::<LANES>();
        let base = s.splat(self.base);
        let mut total = s.splat(0.0);
        for y in whole {
            let x = s.exp(s.sub(s.load(y), base));
            s.store(x, y);
            total = s.add(total, x);
        }
        if rest.is_empty() {
            return s.sum(total);
        }
        // Lanes behind the end weigh nothing.
        let mut last = [f32::NEG_INFINITY; LANES];
        last[..rest.len()].copy_from_slice(rest);
        let x = s.exp(s.sub(s.load(&last), base));
        s.store(x, &mut last);
        rest.copy_from_slice(&last[..rest.len()]);
        s.sum(total) + last[..rest.len()].iter().sum::<f32>()
    }
}

/// `y *= by`.
pub(super) struct Scale<'a> {
    pub(super) y: &'a mut [f32],
    pub(super) by: f32,
}

impl Task for Scale<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        self.y.iter_mut().for_each(|y| *y *= self.by);
    }
}
