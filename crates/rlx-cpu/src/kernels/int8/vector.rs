//! One row of x: its products with the words of a panel as they are unpacked.

use super::rows::{Row, Rows};
use super::steps;
use crate::formats::{Format, Visitor};
use crate::panel::ROWS;
use crate::simd::{Lanes, Level, Simd, Task, dispatch};
use crate::written_out::each;
use core::marker::PhantomData;

/// `y[i] = w[i] . x[row]` for every row of whole panels: `16 row_bytes` bytes and 16 elements of y each.
pub(crate) fn mat_vec<F: Format>(
    level: Level,
    panels: &[u8],
    row_bytes: usize,
    x: &Rows,
    row: usize,
    y: &mut [f32],
) {
    let (parts, x) = (x.parts, x.row(row));
    match parts {
        #[cfg(not(target_arch = "wasm32"))]
        2 => dispatch(level, MatVec::<F, 2> { panels, row_bytes, x, y, of: PhantomData }),
        _ => dispatch(level, MatVec::<F, 1> { panels, row_bytes, x, y, of: PhantomData }),
    }
}

/// How far ahead weights are fetched, to the second cache: the first one's few misses in flight do not
/// cover memory's latency. Of 1 to 16 KiB and each cache this was the best over seven formats.
const AHEAD: usize = 8192;

struct MatVec<'a, F, const PARTS: usize> {
    panels: &'a [u8],
    row_bytes: usize,
    x: Row<'a>,
    y: &'a mut [f32],
    of: PhantomData<F>,
}

impl<F: Format, const PARTS: usize> Task for MatVec<'_, F, PARTS> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let panels = self.panels.chunks_exact(ROWS * self.row_bytes);
        for (panel, y) in panels.zip(self.y.as_chunks_mut::<ROWS>().0) {
            let mut acc = [s.all(0.0); ROWS];
            for (b, block) in F::blocks(panel).enumerate() {
                let ahead = block.words().wrapping_add(AHEAD);
                for (h, acc) in acc[..ROWS / S::LANES].iter_mut().enumerate() {
                    let mut dot = Dot::<S, F, PARTS>::new(s, &self.x, b, *acc, ahead);
                    F::visit(s, block, h, &mut dot);
                    *acc = dot.end();
                }
            }
            for (h, acc) in acc[..ROWS / S::LANES].iter().enumerate() {
                s.put(*acc, &mut y[h * S::LANES..]);
            }
        }
    }
}

/// Part `b` of `n` elements.
#[inline(always)]
fn part<T>(v: &[T], b: usize, n: usize) -> &[T] {
    v.get(b * n..(b + 1) * n).unwrap_or(&[])
}

/// A block's products with as many elements of x.
struct Dot<'a, S: Lanes, F, const PARTS: usize> {
    s: S,
    x: [&'a [u8]; 2],
    /// Scales of 32 elements of x each.
    dx: &'a [f32],
    sums16: &'a [f32],
    sums32: &'a [f32],
    whole16: &'a [i32],
    whole32: &'a [i32],
    /// Of this block before its scales, if it has such; else everything so far.
    acc: S::G,
    /// Minima of this block before their scale, if it has one.
    low: S::G,
    before: S::G,
    /// The block's scales.
    d: S::G,
    m: S::G,
    /// What is fetched meanwhile, a part with each run.
    ahead: *const u8,
    of: PhantomData<F>,
}

impl<'a, S: Lanes, F: Format, const PARTS: usize> Dot<'a, S, F, PARTS> {
    /// Whether the block has scales of scales and of minima.
    const SCALES: bool = F::ELEMENTS == 256;

    #[inline(always)]
    fn new(s: S, x: &Row<'a>, b: usize, acc: S::G, ahead: *const u8) -> Self {
        let n16 = F::ELEMENTS / 16;
        let n32 = F::ELEMENTS / 32;
        let words = F::ELEMENTS / 4 * S::X;
        Dot {
            s,
            x: [
                part(x.q[0], b, words),
                if const { PARTS == 2 } { part(x.q[1], b, words) } else { &[] },
            ],
            dx: part(x.d, b, n32),
            sums16: part(x.sums16, b, n16),
            sums32: part(x.sums32, b, n32),
            whole16: part(x.whole16, b, n16),
            whole32: part(x.whole32, b, n32),
            acc: if Self::SCALES { s.all(0.0) } else { acc },
            low: s.all(0.0),
            before: acc,
            d: s.all(1.0),
            m: s.all(1.0),
            ahead,
            of: PhantomData,
        }
    }

    #[inline(always)]
    fn end(self) -> S::G {
        if !Self::SCALES {
            return self.acc;
        }
        let acc = self.s.add_product(self.d, self.acc, self.before);
        if F::LEAST { self.s.add_product(self.m, self.low, acc) } else { acc }
    }

    /// Asks for run `r`'s part of what is ahead.
    #[inline(always)]
    fn fetch(&self, r: usize) {
        let bytes = const { size_of::<F::Words>() * 4 * F::RUN / F::ELEMENTS };
        for i in 0..bytes.div_ceil(64) {
            self.s.fetch(self.ahead.wrapping_add(bytes * r + 64 * i));
        }
    }

    #[inline(always)]
    fn add(&mut self, d: f32, sum: f32, total: S::V, scale: S::G, least: S::G) {
        let s = self.s;
        let factor = s.product(scale, s.all(d));
        self.acc = s.add_product(s.floats(total), factor, self.acc);
        if F::LEAST {
            let low = if Self::SCALES { &mut self.low } else { &mut self.acc };
            *low = s.add_product(least, s.all(sum), *low);
        }
    }
}

/// The products of the words of a run with as many of x.
macro_rules! products {
    ($s:expr, $q:expr, $x:expr, $sum:expr, $($n:literal)*) => {
        if F::SIGNED {
            let mut acc = $s.zero_signed($sum);
            each!(I in $($n)* => acc = $s.dot_signed(acc, $q[I], &$x[I * S::X..]));
            $s.total_signed(acc)
        } else {
            let mut acc = $s.start(-F::ZERO * $sum);
            each!(I in $($n)* => {
                if const { I > 0 && I % steps::<S>(F::LARGEST) == 0 } {
                    acc = $s.settle(acc);
                }
                acc = $s.dot(acc, $q[I], &$x[I * S::X..]);
            });
            $s.total(acc)
        }
    };
}

/// The products with all parts of run `r` of x, which has so many bytes. The last part's take back what sums have more.
macro_rules! parts {
    ($dot:expr, $q:expr, $bytes:expr, $r:expr, $sum:expr, $($n:literal)*) => {{
        let s = $dot.s;
        let x = &$dot.x[0][$bytes * $r..][..$bytes];
        if const { PARTS == 1 } {
            products!(s, $q, x, $sum, $($n)*)
        } else {
            let high = products!(s, $q, x, 0, $($n)*);
            let x = &$dot.x[1][$bytes * $r..][..$bytes];
            s.plus(s.left(high, 7), products!(s, $q, x, $sum, $($n)*))
        }
    }};
}

impl<S: Lanes, F: Format, const PARTS: usize> Visitor<S> for Dot<'_, S, F, PARTS> {
    #[inline(always)]
    fn block(&mut self, d: S::G, m: S::G) {
        (self.d, self.m) = (d, m);
    }

    #[inline(always)]
    fn run32(&mut self, r: usize, q: [S::V; 8], scale: S::G, least: S::G) {
        self.fetch(r);
        let total = parts!(self, q, 8 * S::X, r, self.whole32[r], 0 1 2 3 4 5 6 7);
        self.add(self.dx[r], self.sums32[r], total, scale, least);
    }

    #[inline(always)]
    fn run16(&mut self, r: usize, q: [S::V; 4], scale: S::G, least: S::G) {
        self.fetch(r);
        let total = parts!(self, q, 4 * S::X, r, self.whole16[r], 0 1 2 3);
        self.add(self.dx[r / 2], self.sums16[r], total, scale, least);
    }
}
