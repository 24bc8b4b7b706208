//! grouped_matmul  y_i[m, j, n] = epilogue(sum_k x[m, k] w_i[e, n, k] + b_i[e, n]) with e = ids[m, j]; a sum
//!             has y[m, n] = sum_j shares[m, j] y_0[m, j, n] (+ residual)
//! shapes      x f32|q8_0|q15_0[m, k] or [m, j, k]   w_i any[e, n, k]   ids u32[m, j]   y_i f32[m, j, n] or [m, n]
//! bytes       the matrices of experts that a row names, once for up to 512 of their rows; no other expert's.
//!             rows of x of an expert of several rows are copied together first, by every share
//! operations  2 n k for each row of each of its experts
//! shares      columns of y: a worker owns the same columns of every expert's matrix
//! numerics    as matmul; a sum adds a row's experts in order of their ids

use super::math::Function;
use super::matmul::{add_bias, grown};
use super::weights::{self, Weight, X};
use super::{Kernel, Planned, claim, dims, int8, sizes};
use crate::panel::ROWS;
use crate::place::Split;
use crate::view::Cx;
use core::cell::RefCell;
use core::ops::Range;
use rlx_core::ir::lir::Step;
use rlx_core::ops::{GroupedEpilogue, GroupedMatMul, GroupedMatMulParts};
use rlx_core::target::Target;
use rlx_core::types::{BlockFormat, DType, Type};
use rlx_core::{Error, Result};

struct Grouped {
    /// Experts of a row.
    top_k: usize,
    k: usize,
    /// Whether x has a row for each expert of a row.
    own_rows: bool,
    /// Blocks of x; `None` for f32.
    blocks: Option<BlockFormat>,
    experts: usize,
    banks: Vec<Bank>,
    parts: GroupedMatMulParts,
    epilogue: GroupedEpilogue,
}

struct Bank {
    /// One expert's matrix.
    weight: Weight,
    /// Bytes and rows of it.
    bytes: usize,
    n: usize,
}

pub(super) fn takes(op: &GroupedMatMul, operands: &[&Type], target: &Target) -> Result<(), String> {
    let GroupedMatMul { segments, bias: _, epilogue: _ } = op;
    let parts = op.parts();
    let banks = parts.banks..parts.banks + segments;
    for (i, ty) in operands.iter().enumerate() {
        match ty.dtype {
            _ if banks.contains(&i) => claim::weight(operands, i, target)?,
            DType::Block(b) if i == 0 && target.int8 => {
                let meets = |i: usize| weights::meets(operands[i].dtype, b);
                if !banks.clone().all(meets) {
                    return Err(claim::refused(ty, i));
                }
            }
            _ if i == parts.ids => claim::one_of(operands, i, &[DType::U32])?,
            _ => claim::one_of(operands, i, &[DType::F32])?,
        }
    }
    Ok(())
}

pub(super) fn plan(op: &GroupedMatMul, step: &Step) -> Result<Planned> {
    let parts = op.parts();
    let x = &step.operands[0];
    let (axes, [m, top_k]) = (sizes(x)?, dims(&step.operands[parts.ids])?);
    let &k = axes.last().ok_or_else(|| Error::internal("x has no axis"))?;
    let (mut work, mut experts, mut in_panels) = (0, 0, true);
    let mut banks = Vec::with_capacity(op.segments);
    for w in &step.operands[parts.banks..][..op.segments] {
        let [e, n, _] = dims(w)?;
        let weight = Weight::new(w.ty.dtype, n, k)?;
        work += m * top_k * n * k;
        // Panels of a bank are those of its matrices only where these are whole panels.
        in_panels &= n.is_multiple_of(ROWS);
        experts = e;
        banks.push(Bank { weight, bytes: n * weight.row_bytes(), n });
    }
    let blocks = match x.ty.dtype {
        DType::Block(b) => Some(b),
        DType::Scalar(_) => None,
    };
    let (own_rows, epilogue) = (axes.len() == 3, op.epilogue);
    let panels = if in_panels { parts.banks..parts.banks + op.segments } else { 0..0 };
    let kernel = Grouped { top_k, k, own_rows, blocks, experts, banks, parts, epilogue };
    let splits = vec![Split::Columns(4 * ROWS); step.results.len()];
    Ok(Planned::new(kernel, &splits, work).reads_panels(panels))
}

/// Rows of an expert that are multiplied at once, so that they stay in a core's cache.
const BLOCK: usize = 512;

/// Memory of a worker that every such step reuses.
#[derive(Default)]
struct Scratch {
    /// Pairs of a row and one of its experts, by expert and then in order.
    pairs: Vec<usize>,
    /// Where each expert's pairs end.
    ends: Vec<usize>,
    /// The rows of one expert.
    x: Vec<f32>,
    /// All rows as int8, and those of one expert.
    int8: int8::Rows,
    taken: int8::Rows,
    weights: weights::Scratch,
    y: Vec<f32>,
    up: Vec<f32>,
}

std::thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Kernel for Grouped {
    fn run(&self, cx: &mut Cx<'_>) {
        SCRATCH.with_borrow_mut(|scratch| self.run_with(cx, scratch));
    }
}

impl Grouped {
    fn run_with(&self, cx: &mut Cx<'_>, scratch: &mut Scratch) {
        let ids: &[u32] = cx.slice(self.parts.ids);
        let per_row = if self.epilogue.sums() { 1 } else { self.top_k };
        let rows = cx.real(ids.len() / self.top_k * per_row) / per_row;
        let Scratch { pairs, ends, .. } = scratch;
        by_expert(&ids[..rows * self.top_k], self.experts, pairs, ends);
        if let Some(b) = self.blocks {
            let rows_of_x = if self.own_rows { rows * self.top_k } else { rows };
            let bytes = rows_of_x * b.bytes() * (self.k / b.elements());
            scratch.int8.fill(cx.level, b, self.k, &cx.bytes(0)[..bytes]);
        }
        if self.epilogue.sums() {
            (0..rows).for_each(|r| cx.result(0).row::<f32>(r).fill(0.0));
        }
        let mut start = 0;
        for expert in 0..self.experts {
            let end = scratch.ends[expert];
            for first in (start..end).step_by(BLOCK) {
                self.expert(cx, expert, first..(first + BLOCK).min(end), scratch);
            }
            start = end;
        }
        if let Some(at) = self.parts.residual {
            let (residual, columns) = (cx.slice::<f32>(at), cx.result(0).columns::<f32>());
            let n = self.banks[0].n;
            for r in 0..rows {
                let residual = &residual[r * n..][columns.clone()];
                cx.result(0)
                    .row(r)
                    .iter_mut()
                    .zip(residual)
                    .for_each(|(y, x): (&mut f32, _)| *y += x);
            }
        }
    }

    /// The products of these pairs, all of one expert.
    fn expert(&self, cx: &mut Cx<'_>, expert: usize, pairs: Range<usize>, scratch: &mut Scratch) {
        let Scratch { pairs: all, x, int8, taken, weights, y, up, .. } = scratch;
        let (pairs, m) = (&all[pairs.clone()], pairs.len());
        let row = |pair: usize| if self.own_rows { pair } else { pair / self.top_k };
        let x = match self.blocks {
            Some(_) => {
                taken.take(int8, pairs.iter().map(|&p| row(p)));
                X::Int8(taken)
            }
            None => X::F32(self.rows(cx.slice(0), pairs.iter().map(|&p| row(p)), x)),
        };
        for i in 0..cx.results() {
            let columns = cx.result(i).columns::<f32>();
            // One row of x runs through all of a matrix at once; several meet a few panels of it.
            let width = if m == 1 { columns.len().max(1) } else { x.columns() };
            for start in columns.clone().step_by(width) {
                let n = start..(start + width).min(columns.end);
                let y = grown(y, m * n.len().next_multiple_of(ROWS));
                self.products(cx, i, expert, n.clone(), x, m, weights, y);
                let glu = match self.epilogue {
                    GroupedEpilogue::Glu(f) => Some((f, None)),
                    GroupedEpilogue::LimitedGlu(f, limit) => Some((f, Some(limit))),
                    _ => None,
                };
                if let Some((f, limit)) = glu {
                    let up = grown(up, y.len());
                    self.products(cx, 1, expert, n.clone(), x, m, weights, up);
                    if let Some(limit) = limit {
                        y.iter_mut().for_each(|y| *y = y.min(limit));
                        up.iter_mut().for_each(|u| *u = u.min(limit).max(-limit) + 1.0);
                    }
                    Function::from(f).apply(cx.level, y);
                    y.iter_mut().zip(up).for_each(|(y, u)| *y *= *u);
                }
                self.write(cx, i, n.clone(), columns.start, pairs, x.run(m, n.len()), y);
            }
        }
    }

    /// Rows of x, side by side: one is where it stands already.
    fn rows<'a>(
        &self,
        x: &'a [f32],
        mut rows: impl ExactSizeIterator<Item = usize>,
        room: &'a mut Vec<f32>,
    ) -> &'a [f32] {
        let of_x = |row: usize| &x[row * self.k..][..self.k];
        if rows.len() == 1 {
            return rows.next().map_or(&[], of_x);
        }
        let room = grown(room, rows.len() * self.k);
        for (row, to) in rows.zip(room.chunks_exact_mut(self.k.max(1))) {
            to.copy_from_slice(of_x(row));
        }
        room
    }

    /// Columns `n` of bank `i`'s products with one expert's matrix, with its biases: `y[panel][m][16]`.
    fn products(
        &self,
        cx: &Cx<'_>,
        i: usize,
        expert: usize,
        n: Range<usize>,
        x: X<'_>,
        m: usize,
        scratch: &mut weights::Scratch,
        y: &mut [f32],
    ) {
        let (bank, operand) = (&self.banks[i], self.parts.banks + i);
        let matrix = &cx.bytes(operand)[expert * bank.bytes..][..bank.bytes];
        let is_panels = cx.is_panels(operand);
        bank.weight.multiply(cx.level, matrix, is_panels, n.clone(), x, m, scratch, y);
        if let Some(first) = self.parts.biases {
            let bias = &cx.slice::<f32>(first + i)[expert * bank.n..][n];
            add_bias(cx.level, bias, x.run(m, bias.len()), m, y);
        }
    }

    /// Columns `n` to where their pairs have them.
    fn write(
        &self,
        cx: &mut Cx<'_>,
        i: usize,
        n: Range<usize>,
        first: usize,
        pairs: &[usize],
        run: usize,
        y: &[f32],
    ) {
        let shares: Option<&[f32]> = self.parts.shares.map(|at| cx.slice(at));
        for (start, y) in n.clone().step_by(run).zip(y.chunks_exact((pairs.len() * run).max(1))) {
            let to = start - first..(start + run).min(n.end) - first;
            for (&pair, y) in pairs.iter().zip(y.chunks_exact(run)) {
                match shares {
                    None => {
                        let to = &mut cx.result(i).row::<f32>(pair)[to.clone()];
                        to.copy_from_slice(&y[..to.len()]);
                    }
                    Some(shares) => {
                        let to = &mut cx.result(i).row::<f32>(pair / self.top_k)[to.clone()];
                        to.iter_mut().zip(y).for_each(|(to, y)| *to += shares[pair] * y);
                    }
                }
            }
        }
    }
}

/// The places of ids, by expert and then in order, and where each expert's end. An id that is too large is
/// the last expert's.
fn by_expert(ids: &[u32], experts: usize, pairs: &mut Vec<usize>, ends: &mut Vec<usize>) {
    let last = experts - 1; // the type rule asks for one
    let expert = |id: u32| (id as usize).min(last);
    ends.clear();
    ends.resize(experts, 0);
    ids.iter().for_each(|&id| ends[expert(id)] += 1);
    // Where each expert's begin; putting them there moves that to their end.
    let mut sum = 0;
    for end in ends.iter_mut() {
        (*end, sum) = (sum, sum + *end);
    }
    pairs.resize(ids.len(), 0);
    for (pair, &id) in ids.iter().enumerate() {
        let at = &mut ends[expert(id)];
        pairs[*at] = pair;
        *at += 1;
    }
}
