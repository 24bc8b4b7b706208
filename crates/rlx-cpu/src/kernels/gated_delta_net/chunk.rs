//! chunk       M = s M + K^T D with D = (I + A)^-1 beta (V - s K M), y = s Q M + B D, 16 rows of one head at once
//!             arXiv:2412.06464
//! bytes       the state twice a chunk and head: 8 n v, 16 columns of it at a time, which fit in the nearest cache
//! operations  6 n v a row and head, and 2 * 16 (n + v) for A, B and what they are multiplied by
//! numerics    f32; A and B are products of two rows' keys, and of query and key, times all decays between them: a
//!             decay of zero is one factor, and nothing is divided

use crate::simd::{LANES, Simd, Task};

/// Rows of a chunk.
pub(super) const CHUNK: usize = 16;

/// Vectors of a strip of columns.
const WIDE: usize = 2;

type Eight = [f32; LANES];

/// What a chunk is made of, and room to work in.
#[derive(Default)]
pub(super) struct Room {
    /// Keys, then queries, as the rule reads them: of their final length.
    pub(super) rows: Vec<f32>,
    /// Values.
    pub(super) values: Vec<f32>,
    /// What the matrix fades by before a row, and how strongly the row writes.
    pub(super) gates: [[f32; 2]; CHUNK],
    /// The results.
    pub(super) y: Vec<f32>,
    between: Between,
    strip: Strip,
}

impl Room {
    /// Room for rows of keys of `n` numbers and values of `width`.
    pub(super) fn resize(&mut self, n: usize, width: usize) {
        self.rows.resize(2 * CHUNK * n, 0.0);
        self.values.resize(CHUNK * width, 0.0);
        self.y.resize(CHUNK * width, 0.0);
        self.strip.m.resize(n * WIDE, [0.0; LANES]);
    }
}

/// What holds for all columns.
#[derive(Default)]
struct Between {
    /// What is left of the matrix at a row.
    start: [f32; CHUNK],
    /// What a row's key and an earlier row's give, times what is left of that one's change.
    keys: [[f32; CHUNK]; CHUNK],
    /// The same of its query; of the row itself, too.
    queries: [[f32; CHUNK]; CHUNK],
    /// What is left of a row's change behind the chunk.
    remains: [f32; CHUNK],
}

/// Some columns of everything.
#[derive(Default)]
struct Strip {
    m: Vec<Eight>,
    /// Values, which become changes.
    changes: [[Eight; WIDE]; CHUNK],
    /// Keys, then queries, times the matrix; those of queries become results.
    products: [[[Eight; WIDE]; CHUNK]; 2],
}

/// A chunk of one head.
pub(super) struct Chunk<'a> {
    /// The head's matrix, n rows of `width`, a whole number of vectors.
    pub(super) m: &'a mut [f32],
    pub(super) n: usize,
    pub(super) width: usize,
    pub(super) room: &'a mut Room,
}

impl Task for Chunk<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Chunk { m, n, width, room } = self;
        let Room { rows, values, gates, y, between, strip } = room;
        between.fill(s, rows, n, gates);
        let m = m.as_chunks_mut::<LANES>().0;
        let (values, y) = (values.as_chunks::<LANES>().0, y.as_chunks_mut::<LANES>().0);
        let vectors = width / LANES;
        for at in (0..vectors).step_by(WIDE) {
            // Of an odd number of vectors the last strip has one, and does nothing of use beside it.
            let wide = WIDE.min(vectors - at);
            for (own, m) in strip.m.chunks_exact_mut(WIDE).zip(m.chunks_exact(vectors)) {
                own[..wide].copy_from_slice(&m[at..][..wide]);
            }
            for (own, values) in strip.changes.iter_mut().zip(values.chunks_exact(vectors)) {
                own[..wide].copy_from_slice(&values[at..][..wide]);
            }
            strip.go(s, rows, n, gates, between);
            for (own, m) in strip.m.chunks_exact(WIDE).zip(m.chunks_exact_mut(vectors)) {
                m[at..][..wide].copy_from_slice(&own[..wide]);
            }
            for (own, y) in strip.products[1].iter().zip(y.chunks_exact_mut(vectors)) {
                y[at..][..wide].copy_from_slice(&own[..wide]);
            }
        }
    }
}

/// `a b`, of any length.
#[inline(always)]
fn dot<S: Simd>(s: S, a: &[f32], b: &[f32]) -> f32 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    let mut sum = s.splat(0.0);
    for (a, b) in a.iter().zip(b) {
        sum = s.fma(s.load(a), s.load(b), sum);
    }
    let mut sum = s.sum(sum);
    for (a, b) in a_rest.iter().zip(b_rest) {
        sum += a * b;
    }
    sum
}

impl Between {
    #[inline(always)]
    fn fill<S: Simd>(&mut self, s: S, rows: &[f32], n: usize, gates: &[[f32; 2]; CHUNK]) {
        let (keys, queries) = rows.split_at(CHUNK * n);
        let mut start = 1.0;
        for (c, [decay, _]) in gates.iter().enumerate() {
            start *= decay;
            self.start[c] = start;
            for remains in &mut self.remains[..c] {
                *remains *= decay;
            }
            self.remains[c] = 1.0;
            let (key, query) = (&keys[c * n..][..n], &queries[c * n..][..n]);
            for (j, other) in keys.chunks_exact(n).take(c + 1).enumerate() {
                self.keys[c][j] = self.remains[j] * dot(s, key, other);
                self.queries[c][j] = self.remains[j] * dot(s, query, other);
            }
        }
    }
}

impl Strip {
    #[inline(always)]
    fn go<S: Simd>(
        &mut self,
        s: S,
        rows: &[f32],
        n: usize,
        gates: &[[f32; 2]; CHUNK],
        between: &Between,
    ) {
        let Strip { m, changes, products } = self;
        for (rows, out) in
            rows.chunks_exact(4 * n).zip(products.as_flattened_mut().chunks_exact_mut(4))
        {
            multiply(s, rows, n, m, out);
        }
        let [of_keys, y] = products;
        for c in 0..CHUNK {
            let (before, own) = changes.split_at_mut(c);
            let (start, beta) = (s.splat(-between.start[c]), s.splat(gates[c][1]));
            for (v, own) in own[0].iter_mut().enumerate() {
                let mut sum = s.fma(start, s.load(&of_keys[c][v]), s.load(own));
                for (before, share) in before.iter().zip(&between.keys[c]) {
                    sum = s.fma(s.splat(-share), s.load(&before[v]), sum);
                }
                s.store(s.mul(beta, sum), own);
            }
        }
        for c in 0..CHUNK {
            let start = s.splat(between.start[c]);
            for (v, y) in y[c].iter_mut().enumerate() {
                let mut sum = s.mul(start, s.load(y));
                for (change, share) in changes[..=c].iter().zip(&between.queries[c]) {
                    sum = s.fma(s.splat(*share), s.load(&change[v]), sum);
                }
                s.store(sum, y);
            }
        }
        for (change, remains) in changes.iter_mut().zip(&between.remains) {
            for change in change {
                s.store(s.mul(s.splat(*remains), s.load(change)), change);
            }
        }
        let (keys, start) = (&rows[..CHUNK * n], between.start[CHUNK - 1]);
        let mut blocks = m.chunks_exact_mut(4 * WIDE);
        let mut first = 0;
        for m in &mut blocks {
            change::<S, 4>(s, m, start, keys, n, first, changes);
            first += 4;
        }
        for m in blocks.into_remainder().chunks_exact_mut(WIDE) {
            change::<S, 1>(s, m, start, keys, n, first, changes);
            first += 1;
        }
    }
}

/// Four rows times the matrix.
#[inline(always)]
fn multiply<S: Simd>(s: S, rows: &[f32], n: usize, m: &[Eight], out: &mut [[Eight; WIDE]]) {
    let (a, rows) = rows.split_at(n);
    let (b, rows) = rows.split_at(n);
    let (c, d) = rows.split_at(n);
    let mut sums = [[s.splat(0.0); WIDE]; 4];
    for ((((m, a), b), c), d) in m.chunks_exact(WIDE).zip(a).zip(b).zip(c).zip(d) {
        for (sums, x) in sums.iter_mut().zip([*a, *b, *c, *d]) {
            let x = s.splat(x);
            for (sum, m) in sums.iter_mut().zip(m) {
                *sum = s.fma(x, s.load(m), *sum);
            }
        }
    }
    for (out, sums) in out.iter_mut().zip(&sums) {
        for (out, sum) in out.iter_mut().zip(sums) {
            s.store(*sum, out);
        }
    }
}

/// Some rows of the matrix, from the `first` on, fade, and every row of the chunk writes to them.
#[inline(always)]
fn change<S: Simd, const ROWS: usize>(
    s: S,
    m: &mut [Eight],
    start: f32,
    keys: &[f32],
    n: usize,
    first: usize,
    changes: &[[Eight; WIDE]; CHUNK],
) {
    let start = s.splat(start);
    let mut sums = [[start; WIDE]; ROWS];
    for (sum, m) in sums.as_flattened_mut().iter_mut().zip(&*m) {
        *sum = s.mul(start, s.load(m));
    }
    for (keys, change) in keys.chunks_exact(n).zip(changes) {
        for (sums, key) in sums.iter_mut().zip(&keys[first..][..ROWS]) {
            let key = s.splat(*key);
            for (sum, change) in sums.iter_mut().zip(change) {
                *sum = s.fma(key, s.load(change), *sum);
            }
        }
    }
    for (m, sum) in m.iter_mut().zip(sums.as_flattened()) {
        s.store(*sum, m);
    }
}
