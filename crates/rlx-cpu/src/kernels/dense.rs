//! Products of f32, f16 and bfloat16 weights with f32 rows of x, panel by panel.
//!
//! A panel of a scalar type is `[k][16]`: one vector is one element of 16 rows.
//!
//! numerics f32 sums in order of k; four of them for one row of x

use crate::panel::ROWS;
use crate::simd::{Lanes, Level, Simd, Task, dispatch};
use core::array::from_fn;
use core::marker::PhantomData;
#[cfg(feature = "graphs")]
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

/// Number of panels that a tile of this level multiplies at once. A caller with several panels passes so many together.
pub(crate) fn panels_at_once(level: Level) -> usize {
    dispatch(level, PanelsAtOnce)
}

struct PanelsAtOnce;

impl Task for PanelsAtOnce {
    type Output = usize;
    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> usize {
        at_once::<S>()
    }
}

/// Two panels where a panel is one vector: a single panel would have too few sums in flight.
const fn at_once<S: Lanes>() -> usize {
    if S::LANES == ROWS { 2 } else { 1 }
}

/// Products of panels with the `m` rows of `x`, each of `k` elements: `y[panel][m][16]`.
pub(crate) fn multiply<T: Scalar>(
    level: Level,
    panels: Panels<'_>,
    x: &[f32],
    m: usize,
    k: usize,
    y: &mut [f32],
) {
    dispatch(level, Multiply::<T> { panels, x, m, k, y, fast: true, of: PhantomData });
}

/// The same with one sum in order of k for every row, so that a row's results do not depend on how many
/// there are.
#[cfg(feature = "graphs")]
pub(crate) fn multiply_each<T: Scalar>(
    level: Level,
    panels: Panels<'_>,
    x: &[f32],
    m: usize,
    k: usize,
    y: &mut [f32],
) {
    dispatch(level, Multiply::<T> { panels, x, m, k, y, fast: false, of: PhantomData });
}

/// The same with elements `k` of rows that are `row` elements long: `panels` has those alone. Sums go on from what `y`
/// has, but where `k` begins at 0.
#[cfg(feature = "graphs")]
pub(crate) fn multiply_part<T: Scalar>(
    level: Level,
    panels: Panels<'_>,
    x: &[f32],
    row: usize,
    k: Range<usize>,
    m: usize,
    y: &mut [f32],
) {
    dispatch(level, Part::<T> { panels, x, row, k, m, y, of: PhantomData });
}

#[cfg(feature = "graphs")]
struct Part<'a, T> {
    panels: Panels<'a>,
    x: &'a [f32],
    row: usize,
    k: Range<usize>,
    m: usize,
    y: &'a mut [f32],
    of: PhantomData<T>,
}

#[cfg(feature = "graphs")]
impl<T: Scalar> Task for Part<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Part { panels, x, row, k, m, y, .. } = self;
        let panel = |i: usize| &panels.bytes[i * panels.step..][..k.len() * T::STEP];
        let (sums, several) = ((m * ROWS).max(1), at_once::<S>());
        for (y, i) in y.chunks_mut(several * sums).zip((0..).step_by(several)) {
            let n = y.len() / sums;
            let panels = [panel(i), panel(i + n - 1)];
            let block = Block { panels, n, start: k.start, end: k.end, k: row, m };
            block.rows::<S, T>(s, x, y);
        }
    }
}

struct Multiply<'a, T> {
    panels: Panels<'a>,
    x: &'a [f32],
    m: usize,
    k: usize,
    y: &'a mut [f32],
    /// Whether a row of its own may have four sums.
    fast: bool,
    of: PhantomData<T>,
}

/// Elements of k in a block of two panels: both blocks fit a core's first cache.
const BLOCK: usize = 256;

/// Elements of k that share one bounds check.
const STRIP: usize = 16;

impl<T: Scalar> Task for Multiply<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Multiply { panels, x, m, k, y, fast, .. } = self;
        let panel = |i: usize| &panels.bytes[i * panels.step..][..k * T::STEP];
        if fast && m == 1 {
            for (i, y) in y.chunks_exact_mut(ROWS).enumerate() {
                one::<S, T>(s, panel(i), x, k, y);
            }
            return;
        }
        // Sums of one panel.
        let sums = (m * ROWS).max(1);
        let several = at_once::<S>();
        for (y, i) in y.chunks_mut(several * sums).zip((0..).step_by(several)) {
            let n = y.len() / sums;
            by_blocks::<S, T>(s, [panel(i), panel(i + n - 1)], n, x, m, k, y);
        }
    }
}

/// `y[n][m][16]` of the first `n` panels. Two panels are multiplied in blocks of k: a block of both stays in the
/// nearest cache while all rows of x are multiplied with it.
#[inline(always)]
fn by_blocks<S: Simd, T: Scalar>(
    s: S,
    panels: [&[u8]; 2],
    n: usize,
    x: &[f32],
    m: usize,
    k: usize,
    y: &mut [f32],
) {
    let mut start = 0;
    loop {
        // One panel is read as fast from the next cache, where a row is one stream of its own.
        let end = if n < 2 || k - start < 2 * BLOCK { k } else { start + BLOCK };
        let block = Block {
            panels: panels.map(|p| &p[start * T::STEP..end * T::STEP]),
            n,
            start,
            end,
            k,
            m,
        };
        block.rows::<S, T>(s, x, y);
        start = end;
        if start >= k {
            break;
        }
    }
}

/// Elements `start..end` of k.
struct Block<'a> {
    panels: [&'a [u8]; 2],
    /// How many of the two panels there are.
    n: usize,
    start: usize,
    end: usize,
    k: usize,
    m: usize,
}

impl Block<'_> {
    /// All rows of x.
    #[inline(always)]
    fn rows<S: Simd, T: Scalar>(&self, s: S, x: &[f32], y: &mut [f32]) {
        let mut row = 0;
        while row < self.m {
            row += match self.m - row {
                8.. if S::TILE >= 8 => self.tiles::<S, T, 8>(s, x, row, y),
                4.. => self.tiles::<S, T, 4>(s, x, row, y),
                2.. => self.tiles::<S, T, 2>(s, x, row, y),
                _ => self.tiles::<S, T, 1>(s, x, row, y),
            };
        }
    }

    /// `M` rows from `row` on: as many vectors at once as keep enough sums in flight, and in registers.
    #[inline(always)]
    fn tiles<S: Lanes, T: Scalar, const M: usize>(
        &self,
        s: S,
        x: &[f32],
        row: usize,
        y: &mut [f32],
    ) -> usize {
        let of_panel = ROWS / S::LANES;
        let x: [&[f32]; M] = from_fn(|i| &x[(row + i) * self.k..][self.start..self.end]);
        // A vector's panel, its first row in it, and where its sums of the first row of x stand.
        let vector = |v: usize| {
            let (panel, lane) = (v / of_panel, v % of_panel * S::LANES);
            Rows { panel: self.panels[panel % 2], lane, sums: (panel * self.m + row) * ROWS + lane }
        };
        let vectors = self.n * of_panel;
        if vectors == 1 || S::VECTORS == 1 {
            for v in 0..vectors {
                tile::<S, T, M, 1>(s, [vector(v)], x, self.start == 0, y);
            }
        } else {
            for v in (0..vectors).step_by(2) {
                tile::<S, T, M, 2>(s, [vector(v), vector(v + 1)], x, self.start == 0, y);
            }
        }
        M
    }
}

/// Rows of a weight that are the lanes of a vector.
#[derive(Clone, Copy)]
struct Rows<'a> {
    panel: &'a [u8],
    /// The first of them.
    lane: usize,
    /// Where their sums with the tile's first row of x stand.
    sums: usize,
}

/// Sums of `M` rows by `V` vectors, from zero or on top of what `y` has.
#[inline(always)]
fn tile<S: Lanes, T: Scalar, const M: usize, const V: usize>(
    s: S,
    rows: [Rows<'_>; V],
    x: [&[f32]; M],
    begins: bool,
    y: &mut [f32],
) {
    let mut acc = [[s.all(0.0); V]; M];
    if !begins {
        for m in 0..M {
            for v in 0..V {
                acc[m][v] = s.take_f32(bytemuck::cast_slice(&y[rows[v].sums + m * ROWS..]));
            }
        }
    }
    let (k, size) = (x[0].len(), T::STEP / ROWS);
    let strips = k / STRIP;
    let xs: [&[[f32; STRIP]]; M] = from_fn(|m| &x[m].as_chunks().0[..strips]);
    for i in 0..strips {
        let ws: [&[u8]; V] = from_fn(|v| &rows[v].panel[i * STRIP * T::STEP..][..STRIP * T::STEP]);
        for j in 0..STRIP {
            let w: [S::G; V] = from_fn(|v| T::load(s, &ws[v][j * T::STEP + rows[v].lane * size..]));
            for m in 0..M {
                let x = s.all(xs[m][i][j]);
                for v in 0..V {
                    acc[m][v] = s.add_product(w[v], x, acc[m][v]);
                }
            }
        }
    }
    for j in strips * STRIP..k {
        for v in 0..V {
            let w = T::load(s, &rows[v].panel[j * T::STEP + rows[v].lane * size..]);
            for m in 0..M {
                acc[m][v] = s.add_product(w, s.all(x[m][j]), acc[m][v]);
            }
        }
    }
    for m in 0..M {
        for v in 0..V {
            s.put(acc[m][v], &mut y[rows[v].sums + m * ROWS..]);
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
