//! Several rows of x: a panel is unpacked once, and tiles of rows go over it.

use super::rows::Rows;
use super::steps;
use crate::formats::{Format, Visitor};
use crate::panel::ROWS;
use crate::simd::{Lanes, Level, Simd, Task, dispatch};
use crate::written_out::each;
use core::marker::PhantomData;

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
    // As `multiply` has.
    const {
        let most = if F::RUN == 8 {
            31
        } else if F::LEAST {
            15
        } else {
            63
        };
        assert!(F::SIGNED && !F::LEAST || !F::SIGNED && F::LARGEST <= most);
        assert!(!F::LEAST || F::ZERO == 0);
    };
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
    match x.parts {
        #[cfg(not(target_arch = "wasm32"))]
        2 => multiply_parts::<2>(level, w, x, m, y),
        _ => multiply_parts::<1>(level, w, x, m, y),
    }
}

fn multiply_parts<const PARTS: usize>(
    level: Level,
    w: &Unpacked,
    x: &Rows,
    m: usize,
    y: &mut [f32],
) {
    match (w.run, w.largest, w.has_least) {
        (8, 0, _) => dispatch(level, Multiply::<8, 0, false, PARTS> { w, x, m, y }),
        (8, 1..=15, true) => dispatch(level, Multiply::<8, 15, true, PARTS> { w, x, m, y }),
        (8, 1..=15, false) => dispatch(level, Multiply::<8, 15, false, PARTS> { w, x, m, y }),
        (8, _, true) => dispatch(level, Multiply::<8, 31, true, PARTS> { w, x, m, y }),
        (8, _, false) => dispatch(level, Multiply::<8, 31, false, PARTS> { w, x, m, y }),
        (_, 0, _) => dispatch(level, Multiply::<4, 0, false, PARTS> { w, x, m, y }),
        (_, _, true) => dispatch(level, Multiply::<4, 15, true, PARTS> { w, x, m, y }),
        (_, 1..=15, false) => dispatch(level, Multiply::<4, 15, false, PARTS> { w, x, m, y }),
        (_, _, false) => dispatch(level, Multiply::<4, 63, false, PARTS> { w, x, m, y }),
    }
}

/// `LARGEST` is that of [`Unpacked`] or more, 0 for signed bytes. With `LEAST` bytes are their values.
struct Multiply<'a, const RUN: usize, const LARGEST: i32, const LEAST: bool, const PARTS: usize> {
    w: &'a Unpacked,
    x: &'a Rows,
    m: usize,
    y: &'a mut [f32],
}

impl<const RUN: usize, const LARGEST: i32, const LEAST: bool, const PARTS: usize> Task
    for Multiply<'_, RUN, LARGEST, LEAST, PARTS>
{
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
                8 => eight_rows::<S, RUN, LARGEST, LEAST, PARTS>(s, self.w, self.x, at, y),
                4 => four_rows::<S, RUN, LARGEST, LEAST, PARTS>(s, self.w, self.x, at, y),
                _ => one_row::<S, RUN, LARGEST, LEAST, PARTS>(s, self.w, self.x, at, y),
            }
            rest = more;
            at += tile;
        }
    }
}

/// A tile of rows `at + m` of x. Conditions on a form's constants are `const` blocks, so that the compiler drops the
/// other branch before it optimises: over all 72 forms those branches were a fifth of the crate's code.
macro_rules! tile {
    ($name:ident, $($m:literal)*) => {
        #[inline(always)]
        fn $name<S: Lanes, const RUN: usize, const LARGEST: i32, const LEAST: bool, const PARTS: usize>(
            s: S,
            w: &Unpacked,
            x: &Rows,
            at: usize,
            y: &mut [f32],
        ) {
            // A tile begins where a group does, and a single row is of one.
            let lows = [x.low(at), x.low(at + [$($m),*].len() - 1)];
            let x = [$(x.row(at + $m)),*];
            let runs = 8 / RUN;
            for h in 0..ROWS / S::LANES {
                let lane = h * S::LANES;
                let mut acc = [$({ let _ = $m; s.all(0.0) }),*];
                for b in 0..x[0].d.len() {
                    // Of the short runs of a block of x before its scale.
                    let mut inner = [$({ let _ = $m; s.all(0.0) }),*];
                    // Low parts that are zero are not multiplied: the integers are the same.
                    let low = const { PARTS == 2 } && lows.iter().any(|low| low.get(b) != Some(&false));
                    for r in 0..runs {
                        let run = b * runs + r;
                        let words = &w.q[4 * ROWS * RUN * run..][..4 * ROWS * RUN];
                        let words: &[[u8; 4 * ROWS]; RUN] =
                            words.as_chunks().0.as_array().unwrap_or(const { &[[0; 4 * ROWS]; RUN] });
                        let sums = [$({
                            let sums = if const { RUN == 8 } { x[$m].whole32 } else { x[$m].whole16 };
                            sums[run]
                        }),*];
                        let mut totals = [$({ let _ = $m; s.set(0) }),*];
                        each!(P in 0 1 => if const { P < PARTS } && (P == 0 || low) {
                            // The last part's sums take back what all have more than products. A high part alone has
                            // a 128th of them.
                            let more = |m: usize| match (P, PARTS) {
                                (0, 2) if low => 0,
                                (0, 2) => sums[m] >> 7,
                                _ => sums[m],
                            };
                            let xb: [&[u8]; _] = [$(&x[$m].q[P][run * (RUN * S::X)..][..RUN * S::X]),*];
                            let mut u = [$(s.start(if LEAST { 0 } else { -w.zero * more($m) })),*];
                            let mut v = [$(s.zero_signed(more($m))),*];
                            each!(I in 0 1 2 3 4 5 6 7 => if const { I < RUN } {
                                let q = s.words(&words[I][4 * lane..]);
                                each!(M in $($m)* => {
                                    let x = &xb[M][I * S::X..][..S::X];
                                    if const { LARGEST == 0 } {
                                        v[M] = s.dot_signed(v[M], q, x);
                                    } else {
                                        if const { I > 0 && I % steps::<S>(LARGEST) == 0 } {
                                            u[M] = s.settle(u[M]);
                                        }
                                        u[M] = s.dot(u[M], q, x);
                                    }
                                });
                            });
                            each!(M in $($m)* => {
                                let total = if const { LARGEST == 0 } {
                                    s.total_signed(v[M])
                                } else {
                                    s.total(u[M])
                                };
                                totals[M] = if const { P == 0 } {
                                    total
                                } else {
                                    s.plus(s.left(totals[M], 7), total)
                                };
                            });
                        });
                        if const { PARTS == 2 } && !low {
                            each!(M in $($m)* => totals[M] = s.left(totals[M], 7));
                        }
                        let scale = s.take(&w.scale[ROWS * run + lane..]);
                        each!(M in $($m)* => {
                            let total = s.floats(totals[M]);
                            if const { RUN == 8 } {
                                // The scales first: one may be so large that the sum is not finite without the other.
                                let factor = s.product(scale, s.all(x[M].d[b]));
                                acc[M] = s.add_product(total, factor, acc[M]);
                            } else if r == 0 {
                                inner[M] = s.product(total, scale);
                            } else {
                                inner[M] = s.add_product(total, scale, inner[M]);
                            }
                        });
                        if const { LEAST } {
                            let least = s.take(&w.least[ROWS * run + lane..]);
                            each!(M in $($m)* => {
                                let sums = if const { RUN == 8 } { x[M].sums32 } else { x[M].sums16 };
                                acc[M] = s.add_product(least, s.all(sums[run]), acc[M]);
                            });
                        }
                    }
                    if const { RUN == 4 } {
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
