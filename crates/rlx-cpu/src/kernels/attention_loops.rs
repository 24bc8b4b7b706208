//! The two loops of attention over positions, for 1, 2 and 4 queries: sums stay in registers.

use super::cells::Cells;
use crate::simd::Lanes;
use crate::written_out::{each, list};

/// Positions between two updates of the running maximum.
pub(super) const BLOCK: usize = 32;

/// A weight or score of each query and position of a block.
pub(super) type Scores<const R: usize> = [[f32; BLOCK]; R];

/// The loops for `R` queries.
pub(super) trait Queries<const R: usize> {
    /// `p[r][j] = scale q[r] . k[j]` for every row of `keys`.
    fn scores<S: Lanes, C: Cells>(
        s: S,
        q: &[&[f32]; R],
        keys: &[u8],
        row_bytes: usize,
        scale: f32,
        p: &mut Scores<R>,
    );

    /// `out[r] += p[r][j] v[j]` for every row of `values`; `out` is `[R][e]`.
    fn weigh<S: Lanes, C: Cells>(
        s: S,
        p: &Scores<R>,
        values: &[u8],
        row_bytes: usize,
        out: &mut [f32],
    );
}

/// Who has them.
pub(super) struct Loops;

/// Some vectors of each output, from vector `i` on, all of one block.
macro_rules! columns {
    ($s:ident, $c:ident, ($p:ident, $values:ident, $row_bytes:ident, $i:ident, $out:ident),
     $($r:literal)*; $($n:literal)*) => {
        let e = $out.len() / $p.len();
        let at = |r: usize, n: usize| r * e + ($i + n) * S::LANES;
        let mut acc = list!(R in $($r)* => list!(N in $($n)* => $s.take(&$out[at(R, N)..])));
        for (j, row) in $values.chunks_exact($row_bytes).enumerate().take(BLOCK) {
            let weight = if $c::BLOCK == 0 {
                list!(R in $($r)* => $s.all($p[R][j]))
            } else {
                let d = $c::scale(row, $i * S::LANES / $c::BLOCK);
                list!(R in $($r)* => $s.all($p[R][j] * d))
            };
            each!(N in $($n)* => {
                let v = $c::load($s, row, $i + N);
                each!(R in $($r)* => acc[R][N] = $s.add_product(weight[R], v, acc[R][N]))
            });
        }
        each!(R in $($r)* => each!(N in $($n)* => $s.put(acc[R][N], &mut $out[at(R, N)..])));
    };
}

macro_rules! queries {
    ($count:literal: $($r:literal)*) => {
        impl Queries<$count> for Loops {
            #[inline(always)]
            fn scores<S: Lanes, C: Cells>(
                s: S,
                q: &[&[f32]; $count],
                keys: &[u8],
                row_bytes: usize,
                scale: f32,
                p: &mut Scores<$count>,
            ) {
                let e = q[0].len();
                let q = list!(R in $($r)* => &q[R][..e]);
                let vectors = e / S::LANES;
                for (j, row) in keys.chunks_exact(row_bytes).enumerate().take(BLOCK) {
                    let mut acc = [$({ let _ = $r; s.all(0.0) }),*];
                    if C::BLOCK == 0 {
                        for i in 0..vectors {
                            let k = C::load(s, row, i);
                            each!(R in $($r)* => {
                                acc[R] = s.add_product(s.take(&q[R][i * S::LANES..]), k, acc[R])
                            });
                        }
                        let tail = vectors * S::LANES..e;
                        each!(R in $($r)* => {
                            let tail = tail.clone();
                            let rest: f32 = tail.map(|i| q[R][i] * C::element(row, i)).sum();
                            p[R][j] = (s.across(acc[R]) + rest) * scale
                        });
                        continue;
                    }
                    // Heads are whole blocks, and blocks whole vectors.
                    let per = C::BLOCK / S::LANES;
                    for b in 0..e / C::BLOCK {
                        let mut block = [$({ let _ = $r; s.all(0.0) }),*];
                        for i in b * per..(b + 1) * per {
                            let k = C::load(s, row, i);
                            each!(R in $($r)* => {
                                block[R] =
                                    s.add_product(s.take(&q[R][i * S::LANES..]), k, block[R])
                            });
                        }
                        let d = s.all(C::scale(row, b));
                        each!(R in $($r)* => acc[R] = s.add_product(block[R], d, acc[R]));
                    }
                    each!(R in $($r)* => p[R][j] = s.across(acc[R]) * scale);
                }
            }

            #[inline(always)]
            fn weigh<S: Lanes, C: Cells>(
                s: S,
                p: &Scores<$count>,
                values: &[u8],
                row_bytes: usize,
                out: &mut [f32],
            ) {
                let e = out.len() / $count;
                let vectors = e / S::LANES;
                // Several vectors of a row at once: a row is read in its own order.
                let most = if C::BLOCK == 0 { 4 } else { C::BLOCK / S::LANES };
                let mut i = 0;
                while most >= 4 && i + 4 <= vectors {
                    columns!(s, C, (p, values, row_bytes, i, out), $($r)*; 0 1 2 3);
                    i += 4;
                }
                while i + 2 <= vectors {
                    columns!(s, C, (p, values, row_bytes, i, out), $($r)*; 0 1);
                    i += 2;
                }
                while i < vectors {
                    columns!(s, C, (p, values, row_bytes, i, out), $($r)*; 0);
                    i += 1;
                }
                for i in vectors * S::LANES..e {
                    for (j, row) in values.chunks_exact(row_bytes).enumerate().take(BLOCK) {
                        let v = C::element(row, i);
                        each!(R in $($r)* => out[R * e + i] += p[R][j] * v);
                    }
                }
            }
        }
    };
}

queries!(1: 0);
queries!(2: 0 1);
queries!(4: 0 1 2 3);
