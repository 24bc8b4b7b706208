//! `sdpa` of many queries with few keys, such as the places of an image that ask a prompt's tokens: lanes are
//! queries.
//!
//! Where keys are lanes, 8 keys fill half of a panel of 16, and every query has a maximum, a sum and a scale of its
//! own. Here 16 queries are a panel `[e][16]` that the keys meet as rows, as a weight's rows meet x; the softmax runs
//! over lanes; and the weights `[keys][16]` are the panel of the second product, whose rows are the values' columns.
//!
//! operations  b heads s_q s_k (e + v) multiply-adds, and b heads s_q s_k exponentials
//! numerics    sums in order of keys; a query of NaN gives NaN

use super::super::convert;
use super::super::dense::{self, F32, Panels, Rows, Sums};
use super::super::product::{Interleave, grown};
use super::super::rows::Scale;
use super::{Attend, Cap, Scratch};
use crate::panel::ROWS;
use crate::simd::{LANES, Simd, Task, dispatch};
use crate::view::Cx;
use core::ops::Range;
use rlx_core::ops::{HeadLayout, Mask};

/// Most keys that are few.
const FEW: usize = 16;

impl Attend {
    /// Whether queries are lanes.
    pub(super) fn is_for_few(&self) -> bool {
        self.op.mask == Mask::None && (1..=FEW).contains(&self.s_k) && self.s_q >= ROWS
    }

    /// Queries `i` of a head.
    pub(super) fn few(
        &self,
        cx: &mut Cx<'_>,
        scratch: &mut Scratch,
        b: usize,
        [h, kv]: [usize; 2],
        i: Range<usize>,
    ) {
        let (level, size, s_k, of_h) =
            (cx.level, self.dtype.block_bytes(), self.s_k, self.op.kv_heads);
        let (e, v) = (self.op.head_dim, self.op.v_head_dim);
        let wide = v.next_multiple_of(ROWS);
        let Scratch { keys, values, room, q, scores, out, bias: lines, .. } = scratch;
        let (keys, columns) = (grown(keys, s_k * e), grown(values, wide * s_k));
        columns.fill(0.0);
        let row = grown(room, v);
        for s in 0..s_k {
            let at = self.place([b, s, kv], s_k, of_h, e) * size;
            let key = &mut keys[s * e..][..e];
            convert::read(level, self.dtype, &cx.bytes(1)[at..at + e * size], key);
            let at = self.place([b, s, kv], s_k, of_h, v) * size;
            convert::read(level, self.dtype, &cx.bytes(2)[at..at + v * size], row);
            row.iter().enumerate().for_each(|(c, x)| columns[c * s_k + s] = *x);
        }
        dispatch(level, Scale { y: keys, by: self.scale });
        let keys = Rows { x: keys, apart: e, k: e, n: s_k };
        let columns = Rows { x: columns, apart: s_k, k: s_k, n: wide };
        let (lines, q) = (grown(lines, ROWS * e), grown(q, ROWS * e));
        let (p, out) = (grown(scores, s_k * ROWS), grown(out, 2 * wide * ROWS));
        let (out, rows) = out.split_at_mut(wide * ROWS);
        for start in i.clone().step_by(ROWS) {
            let tile = start..(start + ROWS).min(i.end);
            // Lines of a tile that is not whole are an earlier one's, and not looked at.
            for (line, s) in lines.chunks_exact_mut(e.max(1)).zip(tile.clone()) {
                let at = self.place([b, s, h], self.s_q, self.op.heads, e) * size;
                convert::read(level, self.dtype, &cx.bytes(0)[at..at + e * size], line);
            }
            dispatch(level, Interleave { lines, k: e, panel: q });
            let panel = Panels::dense::<F32>(bytemuck::cast_slice(q), e);
            dense::add::<F32>(level, panel, keys, Sums::new(p, s_k));
            if let Some(softcap) = self.op.softcap {
                dispatch(level, Cap { softcap, scores: p });
            }
            dispatch(level, Softmax(p));
            let panel = Panels::dense::<F32>(bytemuck::cast_slice(p), s_k);
            dense::add::<F32>(level, panel, columns, Sums::new(out, wide));
            // 16 columns of 16 queries each become 16 rows.
            let squares = out.chunks_exact(ROWS * ROWS).zip(rows.chunks_exact_mut(ROWS * ROWS));
            for (c, (lines, panel)) in squares.enumerate() {
                dispatch(level, Interleave { lines, k: ROWS, panel });
                let n = ROWS.min(v - c * ROWS);
                for (y, s) in panel.chunks_exact(ROWS).zip(tile.clone()) {
                    let (row, at) = match self.op.layout {
                        HeadLayout::Bhsd => ((b * self.op.heads + h) * self.s_q + s, 0),
                        HeadLayout::Bshd => {
                            (b * self.s_q + s, h * v * size - cx.result(0).columns::<u8>().start)
                        }
                    };
                    let to = &mut cx.result(0).row::<u8>(row)[at + c * ROWS * size..][..n * size];
                    convert::write(level, self.dtype, &y[..n], to);
                }
            }
        }
    }
}

/// The softmax over rows of 16 lanes, each lane for itself; zeros where all of its scores are minus infinity.
struct Softmax<'a>(&'a mut [f32]);

impl Task for Softmax<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let rows = self.0.as_chunks_mut::<LANES>().0;
        for first in 0..ROWS / LANES {
            let n = rows.len();
            let each = || (first..n).step_by(ROWS / LANES);
            let mut most = s.splat(f32::MIN);
            for i in each() {
                most = s.max(s.load(&rows[i]), most);
            }
            let mut sum = s.splat(0.0);
            for i in each() {
                let x = s.exp(s.sub(s.load(&rows[i]), most));
                s.store(x, &mut rows[i]);
                sum = s.add(sum, x);
            }
            // The largest score weighs 1, so a sum below that is of none.
            let inverse = s.div(s.splat(1.0), s.max(s.splat(1.0), sum));
            for i in each() {
                s.store(s.mul(s.load(&rows[i]), inverse), &mut rows[i]);
            }
        }
    }
}
