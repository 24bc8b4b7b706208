//! Int8 rows of x as kernels read them.

use crate::simd::{Lanes, Level, Simd, Task, dispatch, f16_to_f32};
use rlx_core::types::BlockFormat as B;

/// Int8 rows of x, taken apart once for all panels.
#[derive(Default)]
pub(crate) struct Rows {
    k: usize,
    /// Elements of a block of x: 32 or 256.
    pub(super) block: usize,
    /// Words of four elements, each as the level reads it.
    q: Vec<u8>,
    /// Bytes of such a word.
    word: usize,
    /// Scales of blocks.
    d: Vec<f32>,
    /// Minus the sums of 16 and of 32 elements; times the scale, where blocks have 32 elements.
    sums16: Vec<f32>,
    sums32: Vec<f32>,
    /// The sums as they are.
    whole16: Vec<i32>,
    whole32: Vec<i32>,
}

impl Rows {
    /// Takes rows of `q8_0` or `q8_k` blocks apart, each of `k` elements.
    pub(crate) fn fill(&mut self, level: Level, format: B, k: usize, x: &[u8]) {
        let elements = x.len() / format.bytes() * format.elements();
        (self.k, self.block) = (k, format.elements());
        self.d.resize(elements / self.block, 0.0);
        self.sums16.resize(elements / 16, 0.0);
        self.whole16.resize(elements / 16, 0);
        self.sums32.resize(elements / 32, 0.0);
        self.whole32.resize(elements / 32, 0);
        dispatch(level, Fill { x, rows: self });
    }

    /// Takes some rows of others, in this order.
    pub(crate) fn take(&mut self, from: &Rows, rows: impl Iterator<Item = usize>) {
        (self.k, self.block, self.word) = (from.k, from.block, from.word);
        self.q.clear();
        [&mut self.d, &mut self.sums16, &mut self.sums32].into_iter().for_each(Vec::clear);
        [&mut self.whole16, &mut self.whole32].into_iter().for_each(Vec::clear);
        for row in rows.map(|m| from.row(m)) {
            self.q.extend_from_slice(row.q);
            self.d.extend_from_slice(row.d);
            self.sums16.extend_from_slice(row.sums16);
            self.sums32.extend_from_slice(row.sums32);
            self.whole16.extend_from_slice(row.whole16);
            self.whole32.extend_from_slice(row.whole32);
        }
    }

    pub(super) fn row(&self, m: usize) -> Row<'_> {
        let part = |elements: usize| m * (self.k / elements)..(m + 1) * (self.k / elements);
        Row {
            q: &self.q[m * (self.k / 4) * self.word..(m + 1) * (self.k / 4) * self.word],
            d: &self.d[part(self.block)],
            sums16: &self.sums16[part(16)],
            sums32: &self.sums32[part(32)],
            whole16: &self.whole16[part(16)],
            whole32: &self.whole32[part(32)],
        }
    }
}

/// Plain loops: they become vectors because `dispatch` compiles them for the level's features.
struct Fill<'a> {
    x: &'a [u8],
    rows: &'a mut Rows,
}

impl Task for Fill<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Rows { block, q, word, d, sums16, sums32, whole16, whole32, .. } = self.rows;
        *word = S::X;
        q.resize(d.len() * *block / 4 * S::X, 0);
        if *block == 32 {
            let blocks = self.x.as_chunks::<34>().0.iter().zip(q.chunks_exact_mut(8 * S::X));
            let sums = whole16.as_chunks_mut::<2>().0.iter_mut();
            for (((x, q), sums), d) in blocks.zip(sums).zip(d.iter_mut()) {
                *d = f16_to_f32(u16::from_le_bytes([x[0], x[1]]));
                put::<S>(&x[2..], q);
                *sums = [sum(&x[2..18]), sum(&x[18..])];
            }
        } else {
            let blocks = self.x.as_chunks::<292>().0.iter().zip(q.chunks_exact_mut(64 * S::X));
            let sums = whole16.as_chunks_mut::<16>().0.iter_mut();
            for (((x, q), sums), d) in blocks.zip(sums).zip(d.iter_mut()) {
                *d = f32::from_le_bytes([x[0], x[1], x[2], x[3]]);
                put::<S>(&x[4..260], q);
                for (sum, s) in sums.iter_mut().zip(x[260..].as_chunks::<2>().0) {
                    *sum = i16::from_le_bytes(*s).into();
                }
            }
        }
        for (whole, [a, b]) in whole32.iter_mut().zip(whole16.as_chunks::<2>().0) {
            *whole = a + b;
        }
        for (sum, whole) in sums16.iter_mut().zip(whole16) {
            *sum = -(*whole as f32);
        }
        for (sum, whole) in sums32.iter_mut().zip(whole32) {
            *sum = -(*whole as f32);
        }
        if *block == 32 {
            for ((sums, sum), d) in sums16.as_chunks_mut::<2>().0.iter_mut().zip(sums32).zip(d) {
                sums.iter_mut().for_each(|s| *s *= *d);
                *sum *= *d;
            }
        }
    }
}

#[inline(always)]
fn put<S: Lanes>(x: &[u8], out: &mut [u8]) {
    for (x, out) in x.as_chunks().0.iter().zip(out.chunks_exact_mut(S::X)) {
        S::put_x(*x, out);
    }
}

#[inline(always)]
fn sum(q: &[u8]) -> i32 {
    q.iter().map(|&q| i32::from(q as i8)).sum()
}

#[derive(Clone, Copy)]
pub(super) struct Row<'a> {
    pub(super) q: &'a [u8],
    pub(super) d: &'a [f32],
    pub(super) sums16: &'a [f32],
    pub(super) sums32: &'a [f32],
    pub(super) whole16: &'a [i32],
    pub(super) whole32: &'a [i32],
}
