//! The inside of a matmul: up to [`ROWS`] rows of a weight times up to [`COLS`] rows of x.
//!
//! bytes    a weight row is read once for all rows of x; x comes from cache.
//! numerics 8 partial sums a product (32 elements apart in blocks); integer sums within a block.

use super::packed::{Bf16, F16, F32, Packed, Q4_0, Q4K, Q5K, Q6K, Q8_0, Weight};
use crate::simd::{LANES, Level, Simd, Task, dispatch};
use core::array::from_fn;
use rlx_core::types::{BlockFormat as B, DType, Scalar};

/// Weight rows of a tile.
pub(crate) const ROWS: usize = 16;
/// Rows of x of a tile.
pub(crate) const COLS: usize = 4;

/// Products: `[x row][weight row]`.
pub(crate) type Tile = [[f32; ROWS]; COLS];

/// Rows of x, as f32 or as the bytes of int8 blocks.
#[derive(Clone, Copy)]
pub(crate) enum X<'a> {
    /// f32.
    F32([&'a [f32]; COLS]),
    /// `q8_0` or `q8_k`, as the weight's type asks.
    Int8([&'a [u8]; COLS]),
}

/// Whether `x` blocks of this format meet weights of that type in integers.
pub(crate) fn matches(weight: DType, x: B) -> bool {
    match weight {
        DType::Block(B::Q4_0 | B::Q8_0) => x == B::Q8_0,
        DType::Block(B::Q4K | B::Q5K | B::Q6K) => x == B::Q8K,
        _ => false,
    }
}

/// Whether there are kernels for weights of this type.
pub(crate) fn reads(weight: DType) -> bool {
    use DType::{Block, Scalar as S};
    matches!(
        weight,
        S(Scalar::F32 | Scalar::F16 | Scalar::Bf16)
            | Block(B::Q4_0 | B::Q8_0 | B::Q4K | B::Q5K | B::Q6K)
    )
}

macro_rules! by_type {
    ($dtype:expr, $task:ident { $($field:ident),* }, $level:expr) => {
        match $dtype {
            DType::Scalar(Scalar::F32) => dispatch($level, $task::<F32> { $($field,)* of: core::marker::PhantomData }),
            DType::Scalar(Scalar::F16) => dispatch($level, $task::<F16> { $($field,)* of: core::marker::PhantomData }),
            DType::Scalar(Scalar::Bf16) => {
                dispatch($level, $task::<Bf16> { $($field,)* of: core::marker::PhantomData })
            }
            other => by_type!(packed other, $task { $($field),* }, $level),
        }
    };
    (packed $dtype:expr, $task:ident { $($field:ident),* }, $level:expr) => {
        match $dtype {
            DType::Block(B::Q4_0) => dispatch($level, $task::<Q4_0> { $($field,)* of: core::marker::PhantomData }),
            DType::Block(B::Q8_0) => dispatch($level, $task::<Q8_0> { $($field,)* of: core::marker::PhantomData }),
            DType::Block(B::Q4K) => dispatch($level, $task::<Q4K> { $($field,)* of: core::marker::PhantomData }),
            DType::Block(B::Q5K) => dispatch($level, $task::<Q5K> { $($field,)* of: core::marker::PhantomData }),
            DType::Block(B::Q6K) => dispatch($level, $task::<Q6K> { $($field,)* of: core::marker::PhantomData }),
            _ => debug_assert!(false, "programs are built only with types that `reads` accepts"),
        }
    };
}

/// Multiplies `w.len() / row_bytes` rows of a weight by the first `cols` rows of `x`.
pub(crate) fn multiply(
    level: Level,
    dtype: DType,
    w: &[u8],
    row_bytes: usize,
    x: X<'_>,
    cols: usize,
    out: &mut Tile,
) {
    match x {
        X::F32(x) if dtype == DType::F32 && bytemuck::try_cast_slice::<u8, f32>(w).is_ok() => {
            // The cast was just tried.
            let w = bytemuck::try_cast_slice(w).unwrap_or(&[]);
            dispatch(level, Dense { w, k: row_bytes / 4, x, cols, out });
        }
        X::F32(x) => by_type!(dtype, Float { w, row_bytes, x, cols, out }, level),
        X::Int8(x) => by_type!(packed dtype, Int8 { w, row_bytes, x, cols, out }, level),
    }
}

/// Decodes whole rows: `y` has as many elements as `w` has.
pub(crate) fn decode(level: Level, dtype: DType, w: &[u8], y: &mut [f32]) {
    by_type!(dtype, Decode { w, y }, level);
}

struct Int8<'a, P> {
    w: &'a [u8],
    row_bytes: usize,
    x: [&'a [u8]; COLS],
    cols: usize,
    out: &'a mut Tile,
    of: core::marker::PhantomData<P>,
}

impl<P: Packed> Task for Int8<'_, P> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        for (n, w) in self.w.chunks_exact(self.row_bytes).take(ROWS).enumerate() {
            let w = P::blocks(w);
            if self.cols == 1 {
                self.out[0][n] = int8_row::<P, S, 1>(s, w, [self.x[0]])[0];
            } else {
                let y = int8_row::<P, S, COLS>(s, w, self.x);
                (0..COLS).for_each(|r| self.out[r][n] = y[r]);
            }
        }
    }
}

#[inline(always)]
fn int8_row<P: Packed, S: Simd, const R: usize>(s: S, w: &[P::Block], x: [&[u8]; R]) -> [f32; R] {
    let x = x.map(P::x_blocks);
    let n = x.iter().fold(w.len(), |n, x| n.min(x.len()));
    let x = x.map(|x| &x[..n]);
    let mut acc = [s.splat(0.0); R];
    for (b, w) in w[..n].iter().enumerate() {
        P::dot(s, w, from_fn(|r| &x[r][b]), &mut acc);
    }
    acc.map(|a| s.sum(a))
}

/// Elements decoded at a time: a block of the largest kind.
const STRIP: usize = 256;

struct Float<'a, W> {
    w: &'a [u8],
    row_bytes: usize,
    x: [&'a [f32]; COLS],
    cols: usize,
    out: &'a mut Tile,
    of: core::marker::PhantomData<W>,
}

impl<W: Weight> Task for Float<'_, W> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        for (n, w) in self.w.chunks_exact(self.row_bytes).take(ROWS).enumerate() {
            if self.cols == 1 {
                self.out[0][n] = float_row::<W, S, 1>(s, w, [self.x[0]])[0];
            } else {
                let y = float_row::<W, S, COLS>(s, w, self.x);
                (0..COLS).for_each(|r| self.out[r][n] = y[r]);
            }
        }
    }
}

#[inline(always)]
fn float_row<W: Weight, S: Simd, const R: usize>(s: S, w: &[u8], x: [&[f32]; R]) -> [f32; R] {
    let mut strip = [0.0f32; STRIP];
    let mut acc = [[s.splat(0.0); 2]; R];
    let mut tail = [0.0; R];
    let blocks = W::blocks(w);
    let mut start = 0;
    for group in blocks.chunks(STRIP / W::ELEMENTS) {
        for (w, y) in group.iter().zip(strip.chunks_exact_mut(W::ELEMENTS)) {
            W::decode(s, w, y);
        }
        let len = group.len() * W::ELEMENTS;
        let x = x.map(|x| x.get(start..start + len).unwrap_or(&[]));
        dot_strip(s, &strip[..len], x, &mut acc);
        start += len;
    }
    // A scalar type's row may end within a vector.
    let rest = &w[size_of_val(blocks)..];
    if !rest.is_empty() {
        let len = decode_tail::<W, S>(s, rest, &mut strip);
        for r in 0..R {
            for (w, x) in strip[..len].iter().zip(&x[r][start..]) {
                tail[r] += w * x;
            }
        }
    }
    from_fn(|r| s.sum(s.add(acc[r][0], acc[r][1])) + tail[r])
}

/// Decodes fewer elements than a scalar type's block has; returns how many.
#[inline(always)]
fn decode_tail<W: Weight, S: Simd>(s: S, rest: &[u8], y: &mut [f32]) -> usize {
    let mut padded = [0u8; 4 * LANES];
    padded[..rest.len()].copy_from_slice(rest);
    if let Some(block) = W::blocks(&padded).first() {
        W::decode(s, block, y);
    }
    rest.len() * W::ELEMENTS / size_of::<W::Block>()
}

#[inline(always)]
fn dot_strip<S: Simd, const R: usize>(s: S, w: &[f32], x: [&[f32]; R], acc: &mut [[S::F; 2]; R]) {
    let w = w.as_chunks::<LANES>().0;
    let x = x.map(|x| x.as_chunks::<LANES>().0);
    let n = x.iter().fold(w.len(), |n, x| n.min(x.len()));
    let (w, x) = (&w[..n], x.map(|x| &x[..n]));
    for i in (0..n / 2).map(|i| 2 * i) {
        let (w0, w1) = (s.load(&w[i]), s.load(&w[i + 1]));
        for r in 0..R {
            acc[r][0] = s.fma(w0, s.load(&x[r][i]), acc[r][0]);
            acc[r][1] = s.fma(w1, s.load(&x[r][i + 1]), acc[r][1]);
        }
    }
    if n % 2 == 1 {
        for r in 0..R {
            acc[r][0] = s.fma(s.load(&w[n - 1]), s.load(&x[r][n - 1]), acc[r][0]);
        }
    }
}

/// f32 weights, and packed ones that were decoded for many rows of x.
struct Dense<'a> {
    w: &'a [f32],
    k: usize,
    x: [&'a [f32]; COLS],
    cols: usize,
    out: &'a mut Tile,
}

impl Task for Dense<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Dense { w, k, x, cols, out } = self;
        let rows = (w.len() / k.max(1)).min(ROWS);
        let row = |n: usize| &w[n * k..(n + 1) * k];
        let mut n = 0;
        // Rows in pairs, then fours of them for one row of x: eight sums in flight.
        if cols == 1 {
            while n + 4 <= rows {
                let y = dense::<S, 4, 1>(s, [row(n), row(n + 1), row(n + 2), row(n + 3)], [x[0]]);
                (0..4).for_each(|i| out[0][n + i] = y[i][0]);
                n += 4;
            }
        } else {
            while n + 2 <= rows {
                let y = dense::<S, 2, COLS>(s, [row(n), row(n + 1)], x);
                for r in 0..COLS {
                    (out[r][n], out[r][n + 1]) = (y[0][r], y[1][r]);
                }
                n += 2;
            }
        }
        while n < rows {
            let y = dense::<S, 1, COLS>(s, [row(n)], x);
            (0..cols).for_each(|r| out[r][n] = y[0][r]);
            n += 1;
        }
    }
}

#[inline(always)]
fn dense<S: Simd, const N: usize, const R: usize>(
    s: S,
    w: [&[f32]; N],
    x: [&[f32]; R],
) -> [[f32; R]; N] {
    let k = w[0].len();
    let w = w.map(|w| &w[..k]);
    let x = x.map(|x| &x[..k.min(x.len())]);
    let (wv, xv) = (w.map(|w| w.as_chunks::<LANES>().0), x.map(|x| x.as_chunks::<LANES>().0));
    let n = xv.iter().fold(k / LANES, |n, x| n.min(x.len()));
    let (wv, xv) = (wv.map(|w| &w[..n]), xv.map(|x| &x[..n]));
    let mut acc = [[s.splat(0.0); R]; N];
    for i in 0..n {
        let x: [S::F; R] = from_fn(|r| s.load(&xv[r][i]));
        for j in 0..N {
            let w = s.load(&wv[j][i]);
            for r in 0..R {
                acc[j][r] = s.fma(w, x[r], acc[j][r]);
            }
        }
    }
    from_fn(|j| {
        from_fn(|r| {
            let tail: f32 =
                w[j][n * LANES..].iter().zip(&x[r][n * LANES..]).map(|(w, x)| w * x).sum();
            s.sum(acc[j][r]) + tail
        })
    })
}

struct Decode<'a, W> {
    w: &'a [u8],
    y: &'a mut [f32],
    of: core::marker::PhantomData<W>,
}

impl<W: Weight> Task for Decode<'_, W> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let blocks = W::blocks(self.w);
        let mut y = self.y.chunks_exact_mut(W::ELEMENTS);
        for (w, y) in blocks.iter().zip(&mut y) {
            W::decode(s, w, y);
        }
        let rest = &self.w[size_of_val(blocks)..];
        let mut last = [0.0; STRIP];
        if !rest.is_empty() {
            let len = decode_tail::<W, S>(s, rest, &mut last);
            y.into_remainder().iter_mut().zip(&last[..len]).for_each(|(y, x)| *y = *x);
        }
    }
}
