//! Products of f32, f16 and bfloat16 weights with f32 rows of x, panel by panel.
//!
//! A panel of a scalar type is `[k][16]`: one vector is one element of 16 rows.
//!
//! numerics f32 sums in order of k; four of them for one row of x

use crate::panel::ROWS;
use crate::simd::{Lanes, Level, Simd, Task, dispatch};
use core::array::from_fn;
use core::marker::PhantomData;

/// A scalar type.
pub(crate) trait Scalar {
    /// Bytes of 16 elements.
    const STEP: usize;
    /// An element of each row.
    fn load<S: Lanes>(s: S, x: &[u8]) -> S::G;
}

macro_rules! scalar {
    ($name:ident, $step:literal, $load:ident) => {
        /// The type.
        pub(crate) struct $name;
        impl Scalar for $name {
            const STEP: usize = $step;
            #[inline(always)]
            fn load<S: Lanes>(s: S, x: &[u8]) -> S::G {
                s.$load(x)
            }
        }
    };
}
scalar!(F32, 64, take_f32);
scalar!(F16, 32, take_f16);
scalar!(Bf16, 32, take_bf16);

/// `y[i][0..16]` for rows `i` of `x`, each of `k` elements.
pub(crate) fn multiply<T: Scalar>(level: Level, panel: &[u8], x: &[f32], k: usize, y: &mut [f32]) {
    dispatch(level, Multiply::<T> { panel, x, k, y, fast: true, of: PhantomData });
}

/// The same with one sum in order of k for every row, so that a row's results do not depend on how many
/// there are.
#[cfg(feature = "graphs")]
pub(crate) fn multiply_each<T: Scalar>(
    level: Level,
    panel: &[u8],
    x: &[f32],
    k: usize,
    y: &mut [f32],
) {
    dispatch(level, Multiply::<T> { panel, x, k, y, fast: false, of: PhantomData });
}

struct Multiply<'a, T> {
    panel: &'a [u8],
    x: &'a [f32],
    k: usize,
    y: &'a mut [f32],
    /// Whether a row of its own may have four sums.
    fast: bool,
    of: PhantomData<T>,
}

impl<T: Scalar> Task for Multiply<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Multiply { panel, x, k, y, fast, .. } = self;
        let (mut x, mut y) = (x, y);
        while y.len() >= ROWS {
            let rows = y.len() / ROWS;
            let tile = match rows {
                8.. if S::TILE >= 8 => 8,
                4.. => 4,
                2.. if !fast => 2,
                _ => 1,
            };
            let (now, later) = y.split_at_mut(tile * ROWS);
            match tile {
                8 => tiles::<S, T, 8>(s, panel, x, k, now),
                4 => tiles::<S, T, 4>(s, panel, x, k, now),
                2 => tiles::<S, T, 2>(s, panel, x, k, now),
                _ if fast => one::<S, T>(s, panel, x, k, now),
                _ => tiles::<S, T, 1>(s, panel, x, k, now),
            }
            (x, y) = (&x[tile * k..], later);
        }
    }
}

/// Elements of k whose bounds are looked at once.
const STRIP: usize = 16;

/// `M` rows: as many vectors of the panel's rows at once as keep enough sums in flight, and in registers.
#[inline(always)]
fn tiles<S: Lanes, T: Scalar, const M: usize>(s: S, w: &[u8], x: &[f32], k: usize, y: &mut [f32]) {
    if S::VECTORS == 1 || S::LANES == ROWS {
        tile::<S, T, M, 1>(s, w, x, k, y)
    } else {
        tile::<S, T, M, 2>(s, w, x, k, y)
    }
}

#[inline(always)]
fn tile<S: Lanes, T: Scalar, const M: usize, const V: usize>(
    s: S,
    w: &[u8],
    x: &[f32],
    k: usize,
    y: &mut [f32],
) {
    let x: [&[f32]; M] = from_fn(|m| &x[m * k..][..k]);
    let strips = k / STRIP;
    let size = T::STEP / ROWS;
    for h in 0..ROWS / (V * S::LANES) {
        let lane = h * V * S::LANES;
        let mut acc = [[s.all(0.0); V]; M];
        for i in 0..strips {
            let xs: [&[f32; STRIP]; M] =
                from_fn(|m| x[m].as_chunks().0.get(i).unwrap_or(const { &[0.0; STRIP] }));
            let w = &w[i * STRIP * T::STEP..][..STRIP * T::STEP];
            for j in 0..STRIP {
                let mut ws = [s.all(0.0); V];
                for v in 0..V {
                    ws[v] = T::load(s, &w[j * T::STEP + (lane + v * S::LANES) * size..]);
                }
                for m in 0..M {
                    let x = s.all(xs[m][j]);
                    for v in 0..V {
                        acc[m][v] = s.add_product(ws[v], x, acc[m][v]);
                    }
                }
            }
        }
        for j in strips * STRIP..k {
            for v in 0..V {
                let w = T::load(s, &w[j * T::STEP + (lane + v * S::LANES) * size..]);
                for m in 0..M {
                    acc[m][v] = s.add_product(w, s.all(x[m][j]), acc[m][v]);
                }
            }
        }
        for m in 0..M {
            for v in 0..V {
                s.put(acc[m][v], &mut y[ROWS * m + lane + v * S::LANES..]);
            }
        }
    }
}

/// One row: four sums in flight.
#[inline(always)]
fn one<S: Lanes, T: Scalar>(s: S, w: &[u8], x: &[f32], k: usize, y: &mut [f32]) {
    let (xs, tail) = x[..k].as_chunks::<4>();
    let rest = w.get(xs.len() * 4 * T::STEP..).unwrap_or(&[]);
    for h in 0..ROWS / S::LANES {
        let lane = h * S::LANES * (T::STEP / ROWS);
        let mut a = s.all(0.0);
        let (mut b, mut c, mut d) = (a, a, a);
        for (w, x) in w.chunks_exact(4 * T::STEP).zip(xs) {
            a = s.add_product(T::load(s, &w[lane..]), s.all(x[0]), a);
            b = s.add_product(T::load(s, &w[T::STEP + lane..]), s.all(x[1]), b);
            c = s.add_product(T::load(s, &w[2 * T::STEP + lane..]), s.all(x[2]), c);
            d = s.add_product(T::load(s, &w[3 * T::STEP + lane..]), s.all(x[3]), d);
        }
        for (w, x) in rest.chunks_exact(T::STEP).zip(tail) {
            a = s.add_product(T::load(s, &w[lane..]), s.all(*x), a);
        }
        let one = s.all(1.0);
        let sum = s.add_product(s.add_product(a, one, b), one, s.add_product(c, one, d));
        s.put(sum, &mut y[h * S::LANES..]);
    }
}
