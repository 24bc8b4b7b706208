//! Products of f32, f16 and bfloat16 weights with f32 rows of x, panel by panel.
//!
//! A panel of a scalar type is `[k][16]`: one vector is one element of 16 rows.
//!
//! numerics f32 sums in order of k; four of them for one row of x

use crate::panel::ROWS;
use crate::simd::{Lanes, Level, Simd, Task, dispatch};
use core::marker::PhantomData;
use core::ops::Range;

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

/// Panels, each `step` bytes behind the one before.
#[derive(Clone, Copy)]
pub(crate) struct Panels<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) step: usize,
}

impl<'a> Panels<'a> {
    /// Panels of `k` elements that stand one behind the other.
    pub(crate) fn dense<T: Scalar>(bytes: &'a [u8], k: usize) -> Self {
        Panels { bytes, step: k * T::STEP }
    }
}

/// Panels that a caller passes together: the rows of a block of x come from memory once for them.
pub(crate) const TOGETHER: usize = 8;

/// Rows of x that are whole tiles at every level.
pub(crate) const WHOLE: usize = 24;

/// Panels that a tile meets: two where a panel is one vector, since one would have too few sums in flight.
const fn at_once<S: Lanes>() -> usize {
    if S::LANES == ROWS { 2 } else { 1 }
}

/// Rows of x.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a> {
    pub(crate) x: &'a [f32],
    /// Elements from one row to the next.
    pub(crate) apart: usize,
    /// Elements of a row that are multiplied.
    pub(crate) k: usize,
    /// How many rows there are.
    pub(crate) n: usize,
}

/// Sums `[row of x][panel][16]`.
pub(crate) struct Sums<'a> {
    y: &'a mut [[f32; ROWS]],
    panels: usize,
    /// Sixteens from one row's to the next one's.
    apart: usize,
    /// Whether products are added to what is there.
    more: bool,
}

impl<'a> Sums<'a> {
    /// Of `m` rows of x, from zero.
    pub(crate) fn new(y: &'a mut [f32], m: usize) -> Self {
        let y = y.as_chunks_mut().0;
        let panels = y.len() / m.max(1);
        Sums { y, panels, apart: panels, more: false }
    }

    /// The same on top of what is there, if `more`.
    #[cfg(feature = "graphs")]
    pub(crate) fn more(self, more: bool) -> Self {
        Sums { more, ..self }
    }

    /// Those of some panels.
    pub(crate) fn of(self, panels: Range<usize>) -> Self {
        Sums { y: &mut self.y[panels.start..], panels: panels.len(), ..self }
    }
}

/// Products of panels with rows of x. A row of its own may have four sums.
pub(crate) fn multiply<T: Scalar>(level: Level, panels: Panels<'_>, x: Rows<'_>, sums: Sums<'_>) {
    if x.n == 1 {
        dispatch(level, One::<T> { panels, x, sums, of: PhantomData });
    } else {
        add::<T>(level, panels, x, sums);
    }
}

/// Products of panels with rows of x. One sum of each row in order of k, so that a row's results do not depend on how
/// many there are; products in several calls go on from what `sums` has.
pub(crate) fn add<T: Scalar>(level: Level, panels: Panels<'_>, x: Rows<'_>, sums: Sums<'_>) {
    dispatch(level, Add::<T> { panels, x, sums, of: PhantomData });
}

/// Elements of k that share one bounds check: a loop that is written out natively. In wasm it must stay one, or the
/// compiler puts all products of a sum one behind the other, with far more values alive than there are registers.
const STRIP: usize = if cfg!(target_family = "wasm") { 32 } else { 8 };

struct Add<'a, T> {
    panels: Panels<'a>,
    x: Rows<'a>,
    sums: Sums<'a>,
    of: PhantomData<T>,
}

impl<T: Scalar> Task for Add<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Add { panels, x, mut sums, .. } = self;
        for first in (0..sums.panels).step_by(at_once::<S>()) {
            let n = at_once::<S>().min(sums.panels - first);
            let bytes = |i: usize| &panels.bytes[i * panels.step..][..x.k * T::STEP];
            let block = Block { panels: [bytes(first), bytes(first + n - 1)], first, n };
            match S::FLOATS {
                12 => block.rows::<S, T, 12, 6>(s, x, &mut sums),
                8 => block.rows::<S, T, 8, 4>(s, x, &mut sums),
                4 => block.rows::<S, T, 4, 2>(s, x, &mut sums),
                _ => block.rows::<S, T, 6, 3>(s, x, &mut sums),
            }
        }
    }
}

/// One panel or two, which meet all rows of x. A panel is a stream from the second cache, and so is a row: in blocks
/// of k, which the first cache would hold, rows are too short for the processor to fetch them ahead.
struct Block<'a> {
    panels: [&'a [u8]; 2],
    /// The first one's number, and how many of the two there are.
    first: usize,
    n: usize,
}

impl Block<'_> {
    /// All rows of x, `M` at once, and `HALF` of that where no more are left.
    #[inline(always)]
    fn rows<S: Lanes, T: Scalar, const M: usize, const HALF: usize>(
        &self,
        s: S,
        x: Rows<'_>,
        sums: &mut Sums<'_>,
    ) {
        for first in (0..x.n).step_by(M) {
            let rows = first..x.n.min(first + M);
            match rows.len() {
                n if n <= HALF => self.tiles::<S, T, HALF>(s, x, rows, sums),
                _ => self.tiles::<S, T, M>(s, x, rows, sums),
            }
        }
    }

    /// At most `M` rows, with as many vectors at once as keep enough sums in flight, and in registers. Where rows are
    /// fewer, the last one is multiplied several times and kept once.
    #[inline(always)]
    fn tiles<S: Lanes, T: Scalar, const M: usize>(
        &self,
        s: S,
        x: Rows<'_>,
        rows: Range<usize>,
        sums: &mut Sums<'_>,
    ) {
        let mut xs = [&x.x[..0]; M];
        for (i, to) in xs.iter_mut().enumerate() {
            let row = (rows.start + i).min(rows.end - 1);
            *to = &x.x[row * x.apart..][..x.k];
        }
        // A vector's weights, and where its sums with the first row of x stand.
        let apart = sums.apart;
        let vector = |v: usize| {
            let (panel, lane) = (v * S::LANES / ROWS, v * S::LANES % ROWS);
            // Of no elements there is no such place.
            let w = self.panels[panel % 2].get(lane * (T::STEP / ROWS)..).unwrap_or_default();
            (w, (self.first + panel + rows.start * apart, lane))
        };
        let vectors = self.n * (ROWS / S::LANES);
        if S::VECTORS == 1 || vectors == 1 {
            for v in 0..vectors {
                let (w, at) = vector(v);
                tile::<S, T, M, 1>(s, [w], xs, rows.len(), [at], sums);
            }
        } else {
            for v in (0..vectors).step_by(2) {
                let ((a, of_a), (b, of_b)) = (vector(v), vector(v + 1));
                tile::<S, T, M, 2>(s, [a, b], xs, rows.len(), [of_a, of_b], sums);
            }
        }
    }
}

/// Sums of `M` rows by `V` vectors, from zero or on top of what is there; those of the first `n` rows are kept.
///
/// `at` says of each vector where its sums with the first row of x stand: which sixteen, and the place in it.
#[inline(always)]
fn tile<S: Lanes, T: Scalar, const M: usize, const V: usize>(
    s: S,
    w: [&[u8]; V],
    x: [&[f32]; M],
    n: usize,
    at: [(usize, usize); V],
    sums: &mut Sums<'_>,
) {
    let mut acc = [[s.all(0.0); V]; M];
    if sums.more {
        for m in 0..M {
            for v in 0..V {
                let (first, lane) = at[v];
                acc[m][v] = s.take(&sums.y[first + m.min(n - 1) * sums.apart][lane..]);
            }
        }
    }
    let (k, lanes) = (x[0].len(), S::LANES * (T::STEP / ROWS));
    let strips = k / STRIP;
    let mut xs: [&[[f32; STRIP]]; M] = [&[]; M];
    for m in 0..M {
        xs[m] = &x[m].as_chunks().0[..strips];
    }
    for i in 0..strips {
        let mut ws = [&w[0][..0]; V];
        for v in 0..V {
            ws[v] = &w[v][i * STRIP * T::STEP..][..(STRIP - 1) * T::STEP + lanes];
        }
        for j in 0..STRIP {
            let mut vectors = [s.all(0.0); V];
            for v in 0..V {
                vectors[v] = T::load(s, &ws[v][j * T::STEP..]);
            }
            for m in 0..M {
                let x = s.all(xs[m][i][j]);
                for v in 0..V {
                    acc[m][v] = s.add_product(vectors[v], x, acc[m][v]);
                }
            }
        }
    }
    for j in strips * STRIP..k {
        for v in 0..V {
            let vector = T::load(s, &w[v][j * T::STEP..][..lanes]);
            for m in 0..M {
                acc[m][v] = s.add_product(vector, s.all(x[m][j]), acc[m][v]);
            }
        }
    }
    for m in 0..M {
        if m < n {
            for v in 0..V {
                let (first, lane) = at[v];
                s.put(acc[m][v], &mut sums.y[first + m * sums.apart][lane..]);
            }
        }
    }
}

struct One<'a, T> {
    panels: Panels<'a>,
    x: Rows<'a>,
    sums: Sums<'a>,
    of: PhantomData<T>,
}

impl<T: Scalar> Task for One<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let One { panels, x, sums, .. } = self;
        for (i, y) in sums.y[..sums.panels].iter_mut().enumerate() {
            let panel = &panels.bytes[i * panels.step..][..x.k * T::STEP];
            one::<S, T>(s, panel, x.x, x.k, y);
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
