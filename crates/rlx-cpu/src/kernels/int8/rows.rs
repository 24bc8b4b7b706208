//! Integer rows of x as kernels read them.

use crate::simd::{Lanes, Level, Simd, Task, dispatch, f16_to_f32};
use rlx_core::types::BlockFormat as B;

/// Rows of x whose low parts are multiplied together: the least tile.
pub(super) const GROUP: usize = 4;

/// Integer rows of x, taken apart once for all panels: `d q`, or `d (128 q + q')` with two parts.
#[derive(Default)]
pub(crate) struct Rows {
    k: usize,
    /// Parts of an element: 1 or 2.
    pub(super) parts: usize,
    /// Words of four elements of each part, as the level reads them; the high part is first.
    q: [Vec<u8>; 2],
    /// Bytes of such a word.
    word: usize,
    /// Of two parts, whether a row's block of 32 elements has a low one that is not zero.
    low: Vec<bool>,
    /// The same of [`GROUP`] rows together: whether any of theirs has.
    low_of_group: Vec<bool>,
    /// Scales of 32 elements.
    d: Vec<f32>,
    /// Minus the sums of 16 and of 32 elements, times their scale.
    sums16: Vec<f32>,
    sums32: Vec<f32>,
    /// The sums in integers.
    whole16: Vec<i32>,
    whole32: Vec<i32>,
}

impl Rows {
    /// Takes rows of `q8_0` or `q15_0` blocks apart, each of `k` elements.
    pub(crate) fn fill(&mut self, level: Level, format: B, k: usize, x: &[u8]) {
        let elements = x.len() / format.bytes() * format.elements();
        (self.k, self.parts) = (k, if format == B::Q15_0 { 2 } else { 1 });
        self.d.resize(elements / 32, 0.0);
        self.sums16.resize(elements / 16, 0.0);
        self.whole16.resize(elements / 16, 0);
        self.sums32.resize(elements / 32, 0.0);
        self.whole32.resize(elements / 32, 0);
        dispatch(level, Fill { x, rows: self });
        self.group();
    }

    /// Which blocks of groups of rows have low parts.
    fn group(&mut self) {
        let blocks = self.k / 32;
        self.low_of_group.clear();
        for rows in self.low.chunks((GROUP * blocks).max(1)) {
            let start = self.low_of_group.len();
            self.low_of_group.resize(start + blocks, false);
            for row in rows.chunks_exact(blocks) {
                self.low_of_group[start..].iter_mut().zip(row).for_each(|(any, low)| *any |= low);
            }
        }
    }

    /// Of the group that row `m` is in, which blocks of 32 elements have low parts; nothing where there is one part.
    pub(super) fn low(&self, m: usize) -> &[bool] {
        let blocks = self.k / 32;
        self.low_of_group.get(m / GROUP * blocks..).and_then(|low| low.get(..blocks)).unwrap_or(&[])
    }

    /// Takes some rows of others, in this order.
    pub(crate) fn take(&mut self, from: &Rows, rows: impl Iterator<Item = usize>) {
        (self.k, self.parts, self.word) = (from.k, from.parts, from.word);
        self.q.iter_mut().for_each(Vec::clear);
        [&mut self.d, &mut self.sums16, &mut self.sums32].into_iter().for_each(Vec::clear);
        [&mut self.whole16, &mut self.whole32].into_iter().for_each(Vec::clear);
        self.low.clear();
        for row in rows.map(|m| from.row(m)) {
            self.q.iter_mut().zip(row.q).for_each(|(q, from)| q.extend_from_slice(from));
            self.d.extend_from_slice(row.d);
            self.low.extend_from_slice(row.low);
            self.sums16.extend_from_slice(row.sums16);
            self.sums32.extend_from_slice(row.sums32);
            self.whole16.extend_from_slice(row.whole16);
            self.whole32.extend_from_slice(row.whole32);
        }
        self.group();
    }

    pub(super) fn row(&self, m: usize) -> Row<'_> {
        let part = |elements: usize| m * (self.k / elements)..(m + 1) * (self.k / elements);
        let words = m * (self.k / 4) * self.word..(m + 1) * (self.k / 4) * self.word;
        let (low, blocks) = if self.parts == 2 { (words.clone(), part(32)) } else { (0..0, 0..0) };
        Row {
            q: [&self.q[0][words], &self.q[1][low]],
            low: &self.low[blocks],
            d: &self.d[part(32)],
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
        let Rows { parts, q, word, low: has_low, d, sums16, sums32, whole16, whole32, .. } =
            self.rows;
        *word = S::X;
        let [q, low] = q;
        has_low.clear();
        q.resize(d.len() * 8 * S::X, 0);
        let q = q.chunks_exact_mut(8 * S::X);
        let blocks = q.zip(whole16.as_chunks_mut::<2>().0).zip(d.iter_mut());
        if *parts == 1 {
            for (((q, sums), d), x) in blocks.zip(self.x.as_chunks::<34>().0) {
                *d = f16_to_f32(u16::from_le_bytes([x[0], x[1]]));
                let q8 = |i: usize| i16::from(x[2 + i] as i8);
                put::<S>(&x[2..], q8, q);
                *sums = [sum(&x[2..18]), sum(&x[18..])];
            }
        } else {
            has_low.extend(self.x.as_chunks::<68>().0.iter().map(|x| x[36..] != [0; 32]));
            low.resize(self.x.len() / 68 * 8 * S::X, 0);
            let low = low.chunks_exact_mut(8 * S::X);
            for ((((q, sums), d), low), x) in blocks.zip(low).zip(self.x.as_chunks::<68>().0) {
                *d = f32::from_le_bytes([x[0], x[1], x[2], x[3]]);
                let q15 = |i: usize| 128 * i16::from(x[4 + i] as i8) + i16::from(x[36 + i] as i8);
                put::<S>(&x[4..36], q15, q);
                put::<S>(&x[36..], q15, low);
                let whole = |i: usize| 128 * sum(&x[4 + i..20 + i]) + sum(&x[36 + i..52 + i]);
                *sums = [whole(0), whole(16)];
            }
        }
        for (whole, [a, b]) in whole32.iter_mut().zip(whole16.as_chunks::<2>().0) {
            *whole = a + b;
        }
        for ((sum, whole), d) in sums32.iter_mut().zip(whole32.iter()).zip(d.iter()) {
            *sum = -(*whole as f32) * d;
        }
        let halves = sums16.as_chunks_mut::<2>().0.iter_mut().zip(whole16.as_chunks::<2>().0);
        for ((sums, [a, b]), d) in halves.zip(d.iter()) {
            *sums = [-(*a as f32) * d, -(*b as f32) * d];
        }
    }
}

#[inline(always)]
fn put<S: Lanes>(x: &[u8], whole: impl Fn(usize) -> i16, out: &mut [u8]) {
    for (i, (x, out)) in x.as_chunks().0.iter().zip(out.chunks_exact_mut(S::X)).enumerate() {
        let whole = [whole(4 * i), whole(4 * i + 1), whole(4 * i + 2), whole(4 * i + 3)];
        S::put_x(*x, whole, out);
    }
}

#[inline(always)]
fn sum(q: &[u8]) -> i32 {
    q.iter().map(|&q| i32::from(q as i8)).sum()
}

#[derive(Clone, Copy)]
pub(super) struct Row<'a> {
    pub(super) q: [&'a [u8]; 2],
    low: &'a [bool],
    pub(super) d: &'a [f32],
    pub(super) sums16: &'a [f32],
    pub(super) sums32: &'a [f32],
    pub(super) whole16: &'a [i32],
    pub(super) whole32: &'a [i32],
}
