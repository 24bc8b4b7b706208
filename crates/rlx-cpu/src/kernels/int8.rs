//! Products of packed weights with int8 rows of x, panel by panel.
//!
//! ```text
//! y[row] = sum over blocks of dx (d sum over runs of scale (q - ZERO) . x - m sum over runs of least sum(x))
//! ```
//!
//! One row of x meets the packed words as they are unpacked, in registers. For several the panel is
//! unpacked once to bytes, scales and minima ([`Unpacked`]), and tiles of up to [`Lanes::TILE`] rows of x
//! go over that.
//!
//! bytes    a weight once; x from cache, once a panel
//! numerics integer sums within a run, f32 sums over runs in order; the same for any number of threads

use crate::formats::{Format, Visitor};
use crate::panel::ROWS;
use crate::simd::{Lanes, Level, Simd, Task, dispatch, f16_to_f32};
use crate::written_out::each;
use core::marker::PhantomData;
use rlx_core::types::BlockFormat as B;

/// Int8 rows of x, taken apart once for all panels.
#[derive(Default)]
pub(crate) struct Rows {
    k: usize,
    /// Elements of a block of x: 32 or 256.
    block: usize,
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

    fn row(&self, m: usize) -> Row<'_> {
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
        let Rows { k, block, q, word, d, sums16, sums32, whole16, whole32 } = self.rows;
        let _ = k;
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
struct Row<'a> {
    q: &'a [u8],
    d: &'a [f32],
    sums16: &'a [f32],
    sums32: &'a [f32],
    whole16: &'a [i32],
    whole32: &'a [i32],
}

/// `y[i] = w[i] . x[row]` for every row of whole panels: `16 row_bytes` bytes and 16 elements of y each.
pub(crate) fn mat_vec<F: Format>(
    level: Level,
    panels: &[u8],
    row_bytes: usize,
    x: &Rows,
    row: usize,
    y: &mut [f32],
) {
    dispatch(level, MatVec::<F> { panels, row_bytes, x: x.row(row), y, of: PhantomData });
}

/// How far ahead weights are fetched, to the second cache: the first one's few misses in flight do not
/// cover memory's latency. Of 0 to 16 KiB and each cache this was the best (`benches/kernels`).
const AHEAD: usize = 8192;

struct MatVec<'a, F> {
    panels: &'a [u8],
    row_bytes: usize,
    x: Row<'a>,
    y: &'a mut [f32],
    of: PhantomData<F>,
}

impl<F: Format> Task for MatVec<'_, F> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let panels = self.panels.chunks_exact(ROWS * self.row_bytes);
        for (panel, y) in panels.zip(self.y.as_chunks_mut::<ROWS>().0) {
            let mut acc = [s.all(0.0); ROWS];
            for (b, block) in F::blocks(panel).enumerate() {
                let ahead = block.words().wrapping_add(AHEAD);
                for (h, acc) in acc[..ROWS / S::LANES].iter_mut().enumerate() {
                    let mut dot = Dot::<S, F>::new(s, &self.x, b, *acc, ahead);
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

/// A block's products with a block of x.
struct Dot<'a, S: Lanes, F> {
    s: S,
    x: &'a [u8],
    /// Scales of 32 elements of x each, or one of 256.
    dx: &'a [f32],
    sums16: &'a [f32],
    sums32: &'a [f32],
    whole16: &'a [i32],
    whole32: &'a [i32],
    /// Of this block before its scales, if x's block is as long; else everything so far.
    acc: S::G,
    /// Minima of this block before their scale, if x's block is as long.
    low: S::G,
    before: S::G,
    /// The block's scales.
    d: S::G,
    m: S::G,
    /// What is fetched meanwhile, a part with each run.
    ahead: *const u8,
    of: PhantomData<F>,
}

impl<'a, S: Lanes, F: Format> Dot<'a, S, F> {
    const WHOLE: bool = F::ELEMENTS == 256;

    #[inline(always)]
    fn new(s: S, x: &Row<'a>, b: usize, acc: S::G, ahead: *const u8) -> Self {
        let n16 = F::ELEMENTS / 16;
        let n32 = F::ELEMENTS / 32;
        let n = if Self::WHOLE { 1 } else { n32 };
        Dot {
            s,
            x: part(x.q, b, F::ELEMENTS / 4 * S::X),
            dx: part(x.d, b, n),
            sums16: part(x.sums16, b, n16),
            sums32: part(x.sums32, b, n32),
            whole16: part(x.whole16, b, n16),
            whole32: part(x.whole32, b, n32),
            acc: if Self::WHOLE { s.all(0.0) } else { acc },
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
        let s = self.s;
        match self.dx.first() {
            Some(&dx) if Self::WHOLE => {
                let acc = s.product(self.d, self.acc);
                let acc = if F::LEAST { s.add_product(self.m, self.low, acc) } else { acc };
                s.add_product(acc, s.all(dx), self.before)
            }
            _ => self.acc,
        }
    }

    /// Asks for run `r`'s part of what is ahead. Where words need no unpacking, the processor's own
    /// prefetching keeps up.
    #[inline(always)]
    fn fetch(&self, r: usize) {
        let lines = const { (size_of::<F::Words>() * 4 * F::RUN / F::ELEMENTS).div_ceil(64) };
        if lines < F::RUN {
            for i in 0..lines {
                self.s.fetch(self.ahead.wrapping_add(64 * (r * lines + i)));
            }
        }
    }

    #[inline(always)]
    fn add(&mut self, d: f32, sum: f32, total: S::V, scale: S::G, least: S::G) {
        let s = self.s;
        let factor = if Self::WHOLE { scale } else { s.product(scale, s.all(d)) };
        self.acc = s.add_product(s.floats(total), factor, self.acc);
        if F::LEAST {
            let low = if Self::WHOLE { &mut self.low } else { &mut self.acc };
            *low = s.add_product(least, s.all(sum), *low);
        }
    }
}

/// Words of a run after which sums settle: before a lane is full. Signed bytes never are.
const fn steps<S: Lanes>(largest: i32) -> usize {
    let steps = S::MOST / (2 * 127 * if largest == 0 { 1 } else { largest });
    assert!(steps > 0, "a lane has room for one word's products");
    steps as usize
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
                if I > 0 && I % const { steps::<S>(F::LARGEST) } == 0 {
                    acc = $s.settle(acc);
                }
                acc = $s.dot(acc, $q[I], &$x[I * S::X..]);
            });
            $s.total(acc)
        }
    };
}

impl<S: Lanes, F: Format> Visitor<S> for Dot<'_, S, F> {
    #[inline(always)]
    fn block(&mut self, d: S::G, m: S::G) {
        (self.d, self.m) = (d, m);
    }

    #[inline(always)]
    fn run32(&mut self, r: usize, q: [S::V; 8], scale: S::G, least: S::G) {
        self.fetch(r);
        let x = &self.x[8 * S::X * r..][..8 * S::X];
        let total = products!(self.s, q, x, self.whole32[r], 0 1 2 3 4 5 6 7);
        let d = if Self::WHOLE { 1.0 } else { self.dx[r] };
        self.add(d, self.sums32[r], total, scale, least);
    }

    #[inline(always)]
    fn run16(&mut self, r: usize, q: [S::V; 4], scale: S::G, least: S::G) {
        self.fetch(r);
        let x = &self.x[4 * S::X * r..][..4 * S::X];
        let total = products!(self.s, q, x, self.whole16[r], 0 1 2 3);
        let d = if Self::WHOLE { 1.0 } else { self.dx[r / 2] };
        self.add(d, self.sums16[r], total, scale, least);
    }
}

/// A panel's elements as bytes, with scales and minima of their runs.
#[derive(Default)]
pub(crate) struct Unpacked {
    /// Words of 16 rows: `[k / 4][16]`.
    q: Vec<u8>,
    /// `[runs][16]`.
    scale: Vec<f32>,
    /// `[runs][16]`.
    least: Vec<f32>,
    /// Words of a run.
    run: usize,
    /// The largest byte of a run; 0 where they are signed.
    largest: i32,
    /// What every byte stands above its value.
    zero: i32,
    has_least: bool,
}

/// Unpacks one panel.
pub(crate) fn unpack<F: Format>(level: Level, panel: &[u8], k: usize, out: &mut Unpacked) {
    const { assert!(F::SIGNED || F::LARGEST <= if F::RUN == 8 { 31 } else { 63 }) }; // as `multiply` has
    out.q.resize(ROWS * k, 0);
    out.scale.resize(ROWS * (k / (4 * F::RUN)), 0.0);
    out.least.resize(ROWS * (k / (4 * F::RUN)), 0.0);
    (out.run, out.zero) = (F::RUN, F::ZERO);
    out.largest = if F::SIGNED { 0 } else { F::LARGEST };
    dispatch(level, Unpack::<F> { panel, out, of: PhantomData });
}

struct Unpack<'a, F> {
    panel: &'a [u8],
    out: &'a mut Unpacked,
    of: PhantomData<F>,
}

impl<F: Format> Task for Unpack<'_, F> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        self.out.has_least = F::LEAST;
        let runs = ROWS * (F::ELEMENTS / (4 * F::RUN));
        let q = self.out.q.chunks_exact_mut(ROWS * F::ELEMENTS);
        let scale = self.out.scale.chunks_exact_mut(runs);
        let least = self.out.least.chunks_exact_mut(runs);
        for (((block, q), scale), least) in F::blocks(self.panel).zip(q).zip(scale).zip(least) {
            for h in 0..ROWS / S::LANES {
                let (d, m) = (s.all(1.0), s.all(1.0));
                let mut put = Put::<S, F> { s, h, d, m, q, scale, least, of: PhantomData };
                F::visit(s, block, h, &mut put);
            }
        }
    }
}

struct Put<'a, S: Lanes, F> {
    s: S,
    h: usize,
    /// The block's scales.
    d: S::G,
    m: S::G,
    q: &'a mut [u8],
    scale: &'a mut [f32],
    least: &'a mut [f32],
    of: PhantomData<F>,
}

impl<S: Lanes, F: Format> Put<'_, S, F> {
    /// Word `i` of `n` of run `r`.
    #[inline(always)]
    fn word(&mut self, r: usize, n: usize, i: usize, q: S::V) {
        let at = ROWS * (n * r + i) + self.h * S::LANES;
        self.s.put_words(q, &mut self.q[4 * at..]);
    }

    #[inline(always)]
    fn scales(&mut self, r: usize, scale: S::G, least: S::G) {
        let at = ROWS * r + self.h * S::LANES;
        self.s.put(self.s.product(self.d, scale), &mut self.scale[at..]);
        if F::LEAST {
            self.s.put(self.s.product(self.m, least), &mut self.least[at..]);
        }
    }
}

impl<S: Lanes, F: Format> Visitor<S> for Put<'_, S, F> {
    #[inline(always)]
    fn block(&mut self, d: S::G, m: S::G) {
        (self.d, self.m) = (d, m);
    }

    #[inline(always)]
    fn run32(&mut self, r: usize, q: [S::V; 8], scale: S::G, least: S::G) {
        each!(I in 0 1 2 3 4 5 6 7 => self.word(r, 8, I, q[I]));
        self.scales(r, scale, least);
    }

    #[inline(always)]
    fn run16(&mut self, r: usize, q: [S::V; 4], scale: S::G, least: S::G) {
        each!(I in 0 1 2 3 => self.word(r, 4, I, q[I]));
        self.scales(r, scale, least);
    }
}

/// `y[m][0..16]` for the first `m` rows of x.
pub(crate) fn multiply(level: Level, w: &Unpacked, x: &Rows, m: usize, y: &mut [f32]) {
    match (w.run, x.block, w.largest) {
        (8, 256, 0) => dispatch(level, Multiply::<8, 256, 0> { w, x, m, y }),
        (8, 256, 1..=15) => dispatch(level, Multiply::<8, 256, 15> { w, x, m, y }),
        (8, 256, _) => dispatch(level, Multiply::<8, 256, 31> { w, x, m, y }),
        (8, _, 0) => dispatch(level, Multiply::<8, 32, 0> { w, x, m, y }),
        (8, _, 1..=15) => dispatch(level, Multiply::<8, 32, 15> { w, x, m, y }),
        (8, _, _) => dispatch(level, Multiply::<8, 32, 31> { w, x, m, y }),
        (_, 256, 0) => dispatch(level, Multiply::<4, 256, 0> { w, x, m, y }),
        (_, 256, 1..=15) => dispatch(level, Multiply::<4, 256, 15> { w, x, m, y }),
        (_, 256, _) => dispatch(level, Multiply::<4, 256, 63> { w, x, m, y }),
        (_, _, 0) => dispatch(level, Multiply::<4, 32, 0> { w, x, m, y }),
        (_, _, _) => dispatch(level, Multiply::<4, 32, 63> { w, x, m, y }),
    }
}

/// `LARGEST` is that of [`Unpacked`] or more, 0 for signed bytes.
struct Multiply<'a, const RUN: usize, const X: usize, const LARGEST: i32> {
    w: &'a Unpacked,
    x: &'a Rows,
    m: usize,
    y: &'a mut [f32],
}

impl<const RUN: usize, const X: usize, const LARGEST: i32> Task for Multiply<'_, RUN, X, LARGEST> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let mut at = 0;
        let mut rest = self.y;
        while at < self.m {
            let left = self.m - at;
            let tile = if S::TILE >= 8 && left >= 8 {
                8
            } else if left >= 4 {
                4
            } else {
                1
            };
            let (y, more) = rest.split_at_mut(tile * ROWS);
            match tile {
                8 => eight_rows::<S, RUN, X, LARGEST>(s, self.w, self.x, at, y),
                4 => four_rows::<S, RUN, X, LARGEST>(s, self.w, self.x, at, y),
                _ => one_row::<S, RUN, X, LARGEST>(s, self.w, self.x, at, y),
            }
            rest = more;
            at += tile;
        }
    }
}

/// A tile of rows `at + m` of x.
macro_rules! tile {
    ($name:ident, $($m:literal)*) => {
        #[inline(always)]
        fn $name<S: Lanes, const RUN: usize, const X: usize, const LARGEST: i32>(
            s: S,
            w: &Unpacked,
            x: &Rows,
            at: usize,
            y: &mut [f32],
        ) {
            let x = [$(x.row(at + $m)),*];
            let blocks = x[0].d.len();
            let runs = X / (4 * RUN);
            for h in 0..ROWS / S::LANES {
                let lane = h * S::LANES;
                let mut acc = [$({ let _ = $m; s.all(0.0) }),*];
                for b in 0..blocks {
                    let xb: [&[u8]; _] = [$(&x[$m].q[b * (X / 4 * S::X)..][..X / 4 * S::X]),*];
                    let mut inner = [$({ let _ = $m; s.all(0.0) }),*];
                    for r in 0..runs {
                        let run = b * runs + r;
                        let words = &w.q[4 * ROWS * RUN * run..][..4 * ROWS * RUN];
                        let words: &[[u8; 4 * ROWS]; RUN] =
                            words.as_chunks().0.as_array().unwrap_or(const { &[[0; 4 * ROWS]; RUN] });
                        let sums = [$({
                            let sums = if RUN == 8 { x[$m].whole32 } else { x[$m].whole16 };
                            sums[run]
                        }),*];
                        let mut u = [$(s.start(-w.zero * sums[$m])),*];
                        let mut v = [$(s.zero_signed(sums[$m])),*];
                        each!(I in 0 1 2 3 4 5 6 7 => if I < RUN {
                            let q = s.words(&words[I][4 * lane..]);
                            each!(M in $($m)* => {
                                let x = &xb[M][(RUN * r + I) * S::X..][..S::X];
                                if LARGEST == 0 {
                                    v[M] = s.dot_signed(v[M], q, x);
                                } else {
                                    if I > 0 && I % const { steps::<S>(LARGEST) } == 0 {
                                        u[M] = s.settle(u[M]);
                                    }
                                    u[M] = s.dot(u[M], q, x);
                                }
                            });
                        });
                        let scale = s.take(&w.scale[ROWS * run + lane..]);
                        each!(M in $($m)* => {
                            let total =
                                if LARGEST == 0 { s.total_signed(v[M]) } else { s.total(u[M]) };
                            let total = s.floats(total);
                            if X == 256 {
                                inner[M] = s.add_product(total, scale, inner[M]);
                            } else {
                                let factor = s.product(scale, s.all(x[M].d[b]));
                                acc[M] = s.add_product(total, factor, acc[M]);
                            }
                        });
                        if w.has_least {
                            let least = s.take(&w.least[ROWS * run + lane..]);
                            each!(M in $($m)* => {
                                let sums = if RUN == 8 { x[M].sums32 } else { x[M].sums16 };
                                let sum = s.all(sums[run]);
                                if X == 256 {
                                    inner[M] = s.add_product(least, sum, inner[M]);
                                } else {
                                    acc[M] = s.add_product(least, sum, acc[M]);
                                }
                            });
                        }
                    }
                    if X == 256 {
                        each!(M in $($m)* => {
                            acc[M] = s.add_product(inner[M], s.all(x[M].d[b]), acc[M])
                        });
                    }
                }
                each!(M in $($m)* => s.put(acc[M], &mut y[ROWS * M + lane..]));
            }
        }
    };
}

tile!(one_row, 0);
tile!(four_rows, 0 1 2 3);
tile!(eight_rows, 0 1 2 3 4 5 6 7);

/// An unpacked panel's elements as f32: `[k][16]`.
pub(crate) fn decode(level: Level, w: &Unpacked, out: &mut [f32]) {
    dispatch(level, Decode { w, out });
}

struct Decode<'a> {
    w: &'a Unpacked,
    out: &'a mut [f32],
}

impl Task for Decode<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Decode { w, out } = self;
        let words = w.q.as_chunks::<{ 4 * ROWS }>().0;
        for (i, (word, out)) in words.iter().zip(out.chunks_exact_mut(4 * ROWS)).enumerate() {
            let run = i / w.run;
            for h in 0..ROWS / S::LANES {
                let lane = h * S::LANES;
                let q = s.words(&word[4 * lane..]);
                let scale = s.take(&w.scale[ROWS * run + lane..]);
                let least = if w.has_least {
                    s.product(s.take(&w.least[ROWS * run + lane..]), s.all(-1.0))
                } else {
                    s.all(0.0)
                };
                for b in 0..4 {
                    let byte = s.left(q, 24 - 8 * b as u32);
                    let byte =
                        if w.largest == 0 { s.signed_right(byte, 24) } else { s.right(byte, 24) };
                    let byte = s.minus(byte, s.set(w.zero as u32));
                    s.put(s.add_product(s.floats(byte), scale, least), &mut out[ROWS * b + lane..]);
                }
            }
        }
    }
}
