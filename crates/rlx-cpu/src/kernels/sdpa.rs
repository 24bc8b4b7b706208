//! sdpa        y[i, h] = softmax(cap(scale q[i, h] K[h']^T) + mask) V[h']               arXiv:2205.14135
//! shapes      q, y f32|f16|bf16[b, s_q, heads, e|v] or [b, heads, s_q, e|v]   K, V of s_k and kv heads
//! bytes       q and y once; K and V once for each share, packed, then from cache for each 48 queries, or for each
//!             16 where keys are few ([`few`])
//! shares      heads of y where there are several, else rows
//! numerics    online softmax over blocks of 128 keys, f32; exp within 2 ulp; a query that sees no key
//!             gives zeros

mod few;

use super::attention::cap;
use super::convert::{self, FLOATS};
use super::dense::{self, F32, Panels, Rows, Scalar as _, Sums};
use super::product::{Interleave, grown};
use super::rows::{Exponentials, Largest, Scale};
use super::{Kernel, Planned, claim, sizes};
use crate::panel::ROWS;
use crate::place::Split;
use crate::simd::{Simd, Task, dispatch};
use crate::view::Cx;
use core::cell::RefCell;
use core::ops::Range;
use rlx_core::ir::lir::Step;
use rlx_core::ops::{HeadLayout, Mask, Sdpa};
use rlx_core::target::Target;
use rlx_core::types::{DType, Type};
use rlx_core::{Error, Result};

/// Queries of a tile, and keys of a block: their scores are 24 KiB.
const QUERIES: usize = 48;
const KEYS: usize = 128;
/// Heads from which on shares are heads.
const HEADS: usize = 4;

struct Attend {
    op: Sdpa,
    dtype: DType,
    /// Of the mask or bias, or of a grid's rows and columns.
    masks: Vec<(DType, [usize; 4])>,
    s_q: usize,
    s_k: usize,
    scale: f32,
}

pub(super) fn takes(op: &Sdpa, operands: &[&Type], _: &Target) -> Result<(), String> {
    let Sdpa {
        heads: _,
        kv_heads: _,
        head_dim: _,
        v_head_dim: _,
        mask: _,
        scale: _,
        softcap: _,
        layout: _,
    } = op;
    claim::all_of(operands.get(..3).unwrap_or(operands), FLOATS)?;
    for (i, mask) in operands.iter().enumerate().skip(3) {
        if mask.dtype != DType::BOOL && !FLOATS.contains(&mask.dtype) {
            return Err(claim::refused(mask, i));
        }
    }
    Ok(())
}

pub(super) fn plan(op: &Sdpa, step: &Step) -> Result<Planned> {
    let (q, k) = (sizes(&step.operands[0])?, sizes(&step.operands[1])?);
    let (batch, at) = (q[0], if op.layout == HeadLayout::Bshd { 1 } else { 2 });
    let (s_q, s_k) = (q[at], k[at]);
    let masks = step.operands.iter().skip(3).map(|mask| {
        let dims = sizes(mask)?;
        let dims = match (op.mask, dims.as_slice()) {
            (Mask::Custom, &[b, s]) => [b, 1, 1, s],
            (_, &[b, h, i, j]) => [b, h, i, j],
            _ => return Err(Error::internal("sdpa: a mask of other axes")),
        };
        Ok((mask.ty.dtype, dims))
    });
    let masks = masks.collect::<Result<Vec<_>>>()?;
    if masks.len() != op.mask.operands() {
        return Err(Error::internal("sdpa: the operands of another mask"));
    }
    let dtype = step.operands[0].ty.dtype;
    let by_heads = op.layout == HeadLayout::Bshd && op.heads >= HEADS;
    let split = match op.layout {
        _ if by_heads => Split::Grid(batch * s_q, op.v_head_dim * dtype.block_bytes()),
        HeadLayout::Bshd => Split::Runs(batch * s_q),
        HeadLayout::Bhsd => Split::Runs(batch * op.heads * s_q),
    };
    let work = batch * op.heads * s_q * s_k * (op.head_dim + op.v_head_dim);
    let scale = op.score_scale() as f32;
    let kernel = Attend { op: op.clone(), dtype, masks, s_q, s_k, scale };
    Ok(Planned::new(kernel, &[split], work))
}

/// Memory of a worker.
#[derive(Default)]
struct Scratch {
    /// Packed keys and values, and whose they are.
    keys: Vec<f32>,
    values: Vec<f32>,
    packed: Option<(usize, usize)>,
    /// Whether every value is finite.
    finite: bool,
    room: Vec<f32>,
    q: Vec<f32>,
    scores: Vec<f32>,
    out: Vec<f32>,
    bias: Vec<f32>,
}

std::thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Kernel for Attend {
    fn run(&self, cx: &mut Cx<'_>) {
        SCRATCH.with_borrow_mut(|scratch| {
            // What was packed is another step's.
            scratch.packed = None;
            let (heads, s_q) = (self.op.heads, self.s_q);
            let rows = cx.result(0).rows.clone();
            // A head's rows in a range of rows: how many rows of y there are for each of its own.
            let per = |rows: Range<usize>, first: usize| {
                rows.start.clamp(first, first + s_q) - first
                    ..rows.end.clamp(first, first + s_q) - first
            };
            if self.op.layout == HeadLayout::Bhsd {
                for head in rows.start / s_q..rows.end.div_ceil(s_q) {
                    let i = per(rows.clone(), head * s_q);
                    self.head(cx, scratch, head / heads, head % heads, i);
                }
                return;
            }
            let width = self.op.v_head_dim * self.dtype.block_bytes();
            let columns = cx.result(0).columns::<u8>();
            let heads = columns.start / width..columns.end / width;
            for b in rows.start / s_q..rows.end.div_ceil(s_q) {
                for h in heads.clone() {
                    let i = per(rows.clone(), b * s_q);
                    self.head(cx, scratch, b, h, i);
                }
            }
        });
    }
}

impl Attend {
    /// Where row `s` of a head begins, in elements of an operand with `of_s` rows and `of_h` heads.
    fn place(&self, [b, s, h]: [usize; 3], of_s: usize, of_h: usize, width: usize) -> usize {
        width
            * match self.op.layout {
                HeadLayout::Bshd => (b * of_s + s) * of_h + h,
                HeadLayout::Bhsd => (b * of_h + h) * of_s + s,
            }
    }

    /// Packs a head's keys, 16 to a panel `[e][16]`, and its values, 16 columns to a panel `[keys][16]`.
    fn pack(&self, cx: &Cx<'_>, scratch: &mut Scratch, b: usize, kv: usize) {
        if scratch.packed == Some((b, kv)) {
            return;
        }
        scratch.packed = Some((b, kv));
        let (level, size, s_k) = (cx.level, self.dtype.block_bytes(), self.s_k);
        let (e, v, of_h) = (self.op.head_dim, self.op.v_head_dim, self.op.kv_heads);
        let padded = s_k.next_multiple_of(ROWS);
        let Scratch { keys, values, room, finite, .. } = scratch;
        let lines = grown(room, ROWS * e);
        for (p, panel) in grown(keys, padded * e).chunks_exact_mut((ROWS * e).max(1)).enumerate() {
            for (j, line) in lines.chunks_exact_mut(e.max(1)).enumerate() {
                // Keys behind the last one are zeros: their scores are not looked at.
                let Some(s) = Some(p * ROWS + j).filter(|s| *s < s_k) else {
                    line.fill(0.0);
                    continue;
                };
                let at = self.place([b, s, kv], s_k, of_h, e) * size;
                convert::read(level, self.dtype, &cx.bytes(1)[at..at + e * size], line);
            }
            dispatch(level, Interleave { lines, k: e, panel });
        }
        let wide = v.next_multiple_of(ROWS);
        let values = grown(values, padded * wide);
        values.fill(0.0);
        let row = grown(room, v);
        for s in 0..s_k {
            let at = self.place([b, s, kv], s_k, of_h, v) * size;
            convert::read(level, self.dtype, &cx.bytes(2)[at..at + v * size], row);
            for (c, row) in row.chunks(ROWS).enumerate() {
                values[(c * padded + s) * ROWS..][..row.len()].copy_from_slice(row);
            }
        }
        *finite = dispatch(level, Finite(values));
    }

    /// Queries `i` of a head.
    fn head(&self, cx: &mut Cx<'_>, scratch: &mut Scratch, b: usize, h: usize, i: Range<usize>) {
        let kv = h / (self.op.heads / self.op.kv_heads.max(1)).max(1);
        if self.is_for_few() {
            return self.few(cx, scratch, b, [h, kv], i);
        }
        self.pack(cx, scratch, b, kv);
        for start in i.clone().step_by(QUERIES) {
            self.tile(cx, scratch, b, h, start..(start + QUERIES).min(i.end));
        }
    }

    /// Keys that query `i` sees, as far as positions say.
    fn seen(&self, i: usize) -> Range<usize> {
        let p = (self.s_k + i).saturating_sub(self.s_q);
        match self.op.mask {
            Mask::Causal => 0..(p + 1).min(self.s_k),
            Mask::Window(w) => {
                p.saturating_sub(usize::try_from(w).unwrap_or(usize::MAX))..(p + 1).min(self.s_k)
            }
            _ => 0..self.s_k,
        }
    }

    /// A tile of queries.
    fn tile(&self, cx: &mut Cx<'_>, scratch: &mut Scratch, b: usize, h: usize, i: Range<usize>) {
        let (level, size, n) = (cx.level, self.dtype.block_bytes(), i.len());
        let (e, v) = (self.op.head_dim, self.op.v_head_dim);
        let padded = self.s_k.next_multiple_of(ROWS);
        let wide = v.next_multiple_of(ROWS);
        let Scratch { keys, values, finite, q, scores, out, bias, .. } = scratch;
        let q = grown(q, n * e);
        for (q, s) in q.chunks_exact_mut(e.max(1)).zip(i.clone()) {
            let at = self.place([b, s, h], self.s_q, self.op.heads, e) * size;
            convert::read(level, self.dtype, &cx.bytes(0)[at..at + e * size], q);
        }
        dispatch(level, Scale { y: q, by: self.scale });
        let out = grown(out, n * wide);
        out.fill(0.0);
        let (mut most, mut sum) = ([f32::NEG_INFINITY; QUERIES], [0.0f32; QUERIES]);
        let (first, last) = (self.seen(i.start).start, self.seen(i.end - 1).end);
        for start in (first / KEYS * KEYS..last).step_by(KEYS) {
            let block = start..(start + KEYS).min(last);
            let width = block.len().next_multiple_of(ROWS);
            let scores = grown(scores, n * width);
            let panels = Panels::dense::<F32>(bytemuck::cast_slice(&keys[start * e..]), e);
            let queries = Rows { x: q, apart: e, k: e, n };
            dense::add::<F32>(level, panels, queries, Sums::new(scores, n));
            if let Some(softcap) = self.op.softcap {
                dispatch(level, Cap { softcap, scores });
            }
            for (r, scores) in scores.chunks_exact_mut(width).enumerate() {
                self.mask(cx, [b, h, i.start + r], &block, scores, bias);
                let block_most = dispatch(level, Largest(scores)).max(most[r]);
                // A block that the query does not see at all leaves everything as it is.
                let base = if block_most == f32::NEG_INFINITY { 0.0 } else { block_most };
                let total = dispatch(level, Exponentials { y: scores, base });
                let mut keep = [most[r] - base];
                dispatch(level, Exponentials { y: &mut keep, base: 0.0 });
                sum[r] = sum[r] * keep[0] + total;
                if most[r] != block_most {
                    dispatch(level, Scale { y: &mut out[r * wide..][..wide], by: keep[0] });
                }
                most[r] = block_most;
            }
            if !*finite {
                weigh(scores, width, values, padded, start, out, wide);
                continue;
            }
            let panels = Panels {
                bytes: bytemuck::cast_slice(&values[start * ROWS..]),
                step: padded * F32::STEP,
            };
            let shares = Rows { x: scores, apart: width, k: width, n };
            dense::add::<F32>(level, panels, shares, Sums::new(out, n).more(true));
        }
        for (r, s) in i.enumerate() {
            let y = &mut out[r * wide..][..v];
            match most[r] {
                f32::NEG_INFINITY => y.fill(0.0),
                _ => dispatch(level, Scale { y, by: 1.0 / sum[r] }),
            }
            let columns = cx.result(0).columns::<u8>();
            let (row, at) = match self.op.layout {
                HeadLayout::Bhsd => ((b * self.op.heads + h) * self.s_q + s, 0),
                HeadLayout::Bshd => (b * self.s_q + s, h * v * size - columns.start),
            };
            convert::write(
                level,
                self.dtype,
                y,
                &mut cx.result(0).row::<u8>(row)[at..at + v * size],
            );
        }
    }

    /// Minus infinity where query `s` sees no key of the block, and the bias elsewhere.
    fn mask(
        &self,
        cx: &Cx<'_>,
        [b, h, s]: [usize; 3],
        block: &Range<usize>,
        scores: &mut [f32],
        room: &mut Vec<f32>,
    ) {
        let seen = self.seen(s);
        let inside = seen.start.clamp(block.start, block.end) - block.start
            ..seen.end.clamp(block.start, block.end) - block.start;
        scores[..inside.start].fill(f32::NEG_INFINITY);
        scores[inside.end.max(inside.start)..].fill(f32::NEG_INFINITY);
        if let &[rows, columns] = self.masks.as_slice() {
            return self.add_grid(cx, [b, h, s], [rows, columns], block, scores, room);
        }
        let Some(&(dtype, dims)) = self.masks.first() else { return };
        let index = [b, h, s, 0];
        let place =
            dims.iter().zip(index).fold(0, |at, (&n, i)| at * n + if n == 1 { 0 } else { i });
        let size = dtype.block_bytes();
        let one = dims[3] == 1 && self.s_k != 1;
        let (from, n) = if one { (place, 1) } else { (place + block.start, block.len()) };
        let room = grown(room, n);
        let bytes = &cx.bytes(3)[from * size..][..n * size];
        if dtype == DType::BOOL {
            room.iter_mut().zip(bytes).for_each(|(x, b)| *x = f32::from(*b));
        } else {
            convert::read(cx.level, dtype, bytes, room);
        }
        let scores = &mut scores[..block.len()];
        match self.op.mask {
            Mask::Custom => {
                for (score, valid) in scores.iter_mut().zip(&*room) {
                    *score = if *valid < 0.5 { f32::NEG_INFINITY } else { *score };
                }
            }
            _ if one => scores.iter_mut().for_each(|score| *score += room[0]),
            _ => scores.iter_mut().zip(&*room).for_each(|(score, bias)| *score += bias),
        }
    }

    /// Adds what a query has for the rows and for the columns of a grid of keys.
    fn add_grid(
        &self,
        cx: &Cx<'_>,
        [b, h, s]: [usize; 3],
        axes: [(DType, [usize; 4]); 2],
        block: &Range<usize>,
        scores: &mut [f32],
        room: &mut Vec<f32>,
    ) {
        let [n, m] = axes.map(|(_, dims)| dims[3]);
        let query = (b * self.op.heads + h) * self.s_q + s;
        let (rows, columns) = grown(room, n + m).split_at_mut(n);
        for (i, ((dtype, _), to)) in axes.into_iter().zip([&mut *rows, &mut *columns]).enumerate() {
            let bytes = to.len() * dtype.block_bytes();
            convert::read(cx.level, dtype, &cx.bytes(3 + i)[query * bytes..][..bytes], to);
        }
        let mut at = block.start;
        while at < block.end {
            let column = at % m;
            let len = (m - column).min(block.end - at);
            let scores = &mut scores[at - block.start..][..len];
            let row = rows[at / m];
            scores.iter_mut().zip(&columns[column..]).for_each(|(score, x)| *score += row + x);
            at += len;
        }
    }
}

/// `out += p V` where values are not all finite: what weighs nothing is left out, since 0 times infinity is
/// NaN.
fn weigh(
    p: &[f32],
    width: usize,
    values: &[f32],
    padded: usize,
    start: usize,
    out: &mut [f32],
    wide: usize,
) {
    for (p, out) in p.chunks_exact(width).zip(out.chunks_exact_mut(wide)) {
        for (c, out) in out.chunks_exact_mut(ROWS).enumerate() {
            let rows = values[(c * padded + start) * ROWS..].chunks_exact(ROWS);
            for (p, v) in p.iter().zip(rows).filter(|(p, _)| **p != 0.0) {
                out.iter_mut().zip(v).for_each(|(y, v)| *y += p * v);
            }
        }
    }
}

struct Cap<'a> {
    softcap: f32,
    scores: &'a mut [f32],
}

impl Task for Cap<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        cap(s, self.softcap, self.scores);
    }
}

/// Whether every number is finite: 0 times it is 0 then.
struct Finite<'a>(&'a [f32]);

impl Task for Finite<'_> {
    type Output = bool;
    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> bool {
        let (whole, rest) = self.0.as_chunks::<16>();
        let mut acc = [0.0f32; 16];
        for x in whole {
            for i in 0..16 {
                acc[i] += x[i] * 0.0;
            }
        }
        acc.iter().all(|x| *x == 0.0) && rest.iter().all(|x| x.is_finite())
    }
}
