//! matmul      y_i[m, n] = epilogue(sum_k x[m, k] w_i[n, k] + b_i[n])
//! shapes      x f32|q8_0|q15_0|q8_k[.., k]   w_i any[n_i, k]   y_i f32[.., n_i]
//! bytes       each weight once, of floats once for 128 rows of x; x from cache, once for 16 or 32 rows of a weight
//! shares      columns of y: a worker owns the same share of every segment's rows. Rows of y where floats have many:
//!             each share of columns would read all of x
//! numerics    with int8 x integer sums within a run of 16 or 32, else f32 sums in order of k

use super::dense;
use super::math::{AddTo, Function};
use super::weights::{self, Weight};
use super::{Kernel, Planned, claim, dims, int8, rms_norm, rows_of};
use crate::panel::ROWS;
use crate::place::Split;
use crate::simd::{Level, dispatch, f16_to_f32};
use crate::target::INT16;
use crate::view::Cx;
use core::cell::RefCell;
use core::ops::Range;
use rlx_core::ir::lir::Step;
use rlx_core::ops::{Epilogue, MatMul, MatMulParts};
use rlx_core::target::Target;
use rlx_core::types::{BlockFormat, DType, Type};
use rlx_core::{Code, Error, Result};

struct Matmul {
    m: usize,
    k: usize,
    /// Blocks of x; `None` for f32.
    blocks: Option<BlockFormat>,
    segments: Vec<Weight>,
    norm: Option<f32>,
    parts: MatMulParts,
    epilogue: Epilogue,
}

pub(super) fn takes(op: &MatMul, operands: &[&Type], target: &Target) -> Result<(), String> {
    let MatMul { segments, bias: _, norm: _, quantize, half, epilogue: _ } = op;
    if quantize.is_some() || *half {
        return Err("its kernel rounds no x".into());
    }
    let first = op.parts().weights;
    for (i, ty) in operands.iter().enumerate() {
        match ty.dtype {
            _ if (first..first + segments).contains(&i) => claim::weight(operands, i, target)?,
            // Blocks of integers, which only `quantize_rows` makes.
            DType::Block(_) if i == 0 && target.int8 => {}
            _ => claim::one_of(operands, i, &[DType::F32])?,
        }
    }
    // The parts of one of another rank are a matmul of rows: a page's networks have no other.
    if cfg!(feature = "graphs") { Ok(()) } else { claim::matrix(operands) }
}

pub(super) fn plan(op: &MatMul, step: &Step) -> Result<Planned> {
    let (m, k) = rows_of(&step.operands[0])?;
    let parts = op.parts();
    let mut work = 0;
    let segments = (0..op.segments)
        .map(|i| {
            let w = &step.operands[parts.weights + i];
            let [n, _] = dims(w)?;
            work += m * n * k;
            Weight::new(w.ty.dtype, n, k)
        })
        .collect::<Result<_>>()?;
    let blocks = match step.operands[0].ty.dtype {
        DType::Block(b @ (BlockFormat::Q8_0 | BlockFormat::Q8K)) => Some(b),
        DType::Block(b @ BlockFormat::Q15_0) if INT16 => Some(b),
        DType::Block(b) => {
            return Err(Error::new(Code::Unsupported, format!("matmul: x is {}", b.name())));
        }
        DType::Scalar(_) => None,
    };
    let kernel = Matmul { m, k, blocks, segments, norm: op.norm, parts, epilogue: op.epilogue };
    let weights = parts.weights..parts.weights + op.segments;
    let by_rows = cfg!(feature = "graphs") && blocks.is_none() && m >= MANY;
    let split = if by_rows { Split::Runs(m) } else { Split::Columns(4 * ROWS) };
    let splits = vec![split; step.results.len()];
    Ok(Planned::new(kernel, &splits, work).reads_panels(weights))
}

/// Rows of x in a block, at most: it is multiplied with all weights before the next block. So few stay in a
/// core's second cache, or the third where they are long, and so many hide that every block reads the weights
/// anew.
const BLOCK: usize = 128;

/// Rows of x from which on shares are rows.
const MANY: usize = 16 * BLOCK;

/// Memory of a worker that every matmul reuses.
#[derive(Default)]
struct Scratch {
    /// f32 rows of x: normalised, or decoded from blocks that no integer kernel takes.
    x: Vec<f32>,
    int8: int8::Rows,
    weights: weights::Scratch,
    y: Vec<f32>,
    /// Of the second segment under a glu.
    up: Vec<f32>,
}

std::thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

pub(super) fn grown(v: &mut Vec<f32>, len: usize) -> &mut [f32] {
    if v.len() < len {
        v.resize(len, 0.0);
    }
    &mut v[..len]
}

impl Kernel for Matmul {
    fn run(&self, cx: &mut Cx<'_>) {
        SCRATCH.with_borrow_mut(|scratch| self.run_with(cx, scratch));
    }
}

impl Matmul {
    fn run_with(&self, cx: &mut Cx<'_>, scratch: &mut Scratch) {
        let m = cx.real(self.m);
        let own = cx.result(0).rows.clone();
        let own = own.start.min(m)..own.end.min(m);
        let Scratch { x, int8, weights, y, up } = scratch;
        let integer = self.blocks.filter(|b| self.segments.iter().all(|s| s.meets(*b)));
        let x = match (integer, self.blocks, self.norm) {
            (Some(b), ..) => {
                int8.fill(
                    cx.level,
                    b,
                    self.k,
                    &cx.bytes(0)[..m * b.bytes() * (self.k / b.elements())],
                );
                weights::X::Int8(int8)
            }
            (None, Some(b), _) => {
                let x = grown(x, m * self.k);
                decode_activations(b, cx.bytes(0), x);
                weights::X::F32(x)
            }
            (None, None, Some(eps)) => {
                let x = grown(x, own.len() * self.k);
                let weight = cx.slice(self.parts.norm.unwrap_or(1));
                let source = cx.slice::<f32>(0)[own.start * self.k..].chunks_exact(self.k);
                for (x, y) in source.zip(x.chunks_exact_mut(self.k)) {
                    rms_norm::row(cx.level, x, weight, eps, y);
                }
                weights::X::F32(x)
            }
            (None, None, None) => {
                weights::X::F32(&cx.slice(0)[own.start * self.k..own.end * self.k])
            }
        };
        // Blocks of integers are few bytes: all rows stay in cache.
        let blocks = if matches!(x, weights::X::F32(_)) { own.len().div_ceil(BLOCK) } else { 1 };
        let size = own.len().div_ceil(blocks.max(1)).max(1).next_multiple_of(dense::WHOLE);
        for first in own.clone().step_by(size) {
            let rows = first..(first + size).min(own.end);
            let x = match x {
                weights::X::F32(x) => weights::X::F32(&x[(first - own.start) * self.k..]),
                int8 => int8,
            };
            for i in 0..cx.results() {
                let columns = cx.result(i).columns::<f32>();
                // One row of x runs through all weights at once; several meet a few panels of a weight.
                let width = if rows.len() == 1 { columns.len().max(1) } else { x.columns() };
                for start in columns.clone().step_by(width) {
                    let n = start..(start + width).min(columns.end);
                    let y = grown(y, rows.len() * n.len().next_multiple_of(ROWS));
                    self.products(cx, i, n.clone(), x, rows.len(), weights, y);
                    if let Epilogue::Glu(f) = self.epilogue {
                        let up = grown(up, y.len());
                        self.products(cx, 1, n.clone(), x, rows.len(), weights, up);
                        Function::from(f).apply(cx.level, y);
                        y.iter_mut().zip(up).for_each(|(y, u)| *y *= *u);
                    }
                    let run = x.run(rows.len(), n.len());
                    self.write(cx, i, n, &columns, rows.clone(), run, y);
                }
            }
        }
    }

    /// Columns `n` of result `i` before its epilogue, with the bias.
    fn products(
        &self,
        cx: &Cx<'_>,
        i: usize,
        n: Range<usize>,
        x: weights::X<'_>,
        m: usize,
        scratch: &mut weights::Scratch,
        y: &mut [f32],
    ) {
        let operand = self.parts.weights + i;
        let (bytes, is_panels) = (cx.bytes(operand), cx.is_panels(operand));
        self.segments[i].multiply(cx.level, bytes, is_panels, n.clone(), x, m, scratch, y);
        if let Some(first) = self.parts.biases {
            let run = x.run(m, n.len());
            add_bias(cx.level, &cx.slice::<f32>(first + i)[n], run, m, y);
        }
    }

    fn write(
        &self,
        cx: &mut Cx<'_>,
        i: usize,
        n: Range<usize>,
        columns: &Range<usize>,
        rows: Range<usize>,
        run: usize,
        y: &mut [f32],
    ) {
        let residual: Option<&[f32]> = self.parts.residual.map(|at| cx.slice(at));
        let width = residual.map_or(0, |r| r.len() / self.m.max(1));
        if let (Epilogue::Map(f), None) = (self.epilogue, residual) {
            Function::from(f).apply(cx.level, y);
        }
        let mut of_panels = y.chunks_exact_mut((rows.len() * run).max(1));
        for (start, y) in n.clone().step_by(run).zip(&mut of_panels) {
            let n = start..(start + run).min(n.end);
            for (r, y) in rows.clone().zip(y.chunks_exact_mut(run)) {
                let y = &mut y[..n.len()];
                if let Some(residual) = residual {
                    let x = &residual[r * width + n.start..];
                    dispatch(cx.level, AddTo { x, y });
                    if let Epilogue::Map(f) = self.epilogue {
                        Function::from(f).apply(cx.level, y);
                    }
                }
                cx.result(i).row(r)[n.start - columns.start..n.end - columns.start]
                    .copy_from_slice(y);
            }
        }
    }
}

/// Adds the biases of adjacent columns to the sums of `m` rows, of which a row has `run` side by side.
pub(super) fn add_bias(level: Level, bias: &[f32], run: usize, m: usize, y: &mut [f32]) {
    for (y, x) in y.chunks_exact_mut((m * run).max(1)).zip(bias.chunks(run)) {
        y.chunks_exact_mut(run).for_each(|y| dispatch(level, AddTo { x, y }));
    }
}

/// Blocks of integers back to f32, for weights that meet them in no integer kernel.
fn decode_activations(format: BlockFormat, blocks: &[u8], y: &mut [f32]) {
    let (head, elements) = (format.bytes(), format.elements());
    for (block, y) in blocks.chunks_exact(head).zip(y.chunks_exact_mut(elements)) {
        let (d, q) = match format {
            BlockFormat::Q8_0 => {
                (f16_to_f32(u16::from_le_bytes([block[0], block[1]])), &block[2..])
            }
            _ => (f32::from_le_bytes([block[0], block[1], block[2], block[3]]), &block[4..]),
        };
        let (q, low) = q.split_at(elements);
        if format == BlockFormat::Q15_0 {
            for ((y, &q), &low) in y.iter_mut().zip(q).zip(low) {
                *y = d * (128 * i32::from(q as i8) + i32::from(low as i8)) as f32;
            }
            continue;
        }
        y.iter_mut().zip(q).for_each(|(y, &q)| *y = d * f32::from(q as i8));
    }
}
