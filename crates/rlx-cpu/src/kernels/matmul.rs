//! matmul      y_i[m, n] = epilogue(sum_k x[m, k] w_i[n, k] + b_i[n])
//! shapes      x f32|q8_0|q8_k[m, k]   w_i any[n_i, k]   y_i f32[m, n_i]
//! bytes       each weight once (times ceil(m / 4) from cache, 16 rows at a time); x from cache
//! parts       columns of y: a worker owns the same share of every segment's rows
//! numerics    f32 sums in 8 lanes; with int8 x integer sums within a block

use super::math::Function;
use super::tile::{self, COLS, ROWS, Tile, X};
use super::{Kernel, Planned, dims, rms_norm};
use crate::program::Split;
use crate::run::Cx;
use core::array::from_fn;
use core::cell::RefCell;
use rlx_core::ir::lir::Step;
use rlx_core::ops::{Epilogue, MatMul, MatMulParts};
use rlx_core::types::{BlockFormat, DType};
use rlx_core::{Code, Error, Result};

struct Segment {
    dtype: DType,
    row_bytes: usize,
}

struct Matmul {
    m: usize,
    k: usize,
    /// Blocks of x; `None` for f32.
    blocks: Option<BlockFormat>,
    segments: Vec<Segment>,
    norm: Option<f32>,
    parts: MatMulParts,
    epilogue: Epilogue,
}

/// Rows of x from which on a weight row is decoded once for all, where x is f32.
const DECODE_FROM: usize = COLS + 1;

pub(super) fn plan(op: &MatMul, step: &Step) -> Result<Planned> {
    let [m, k] = dims(&step.operands[0])?;
    let parts = op.parts();
    let mut work = 0;
    let segments = (0..op.segments)
        .map(|i| {
            let w = &step.operands[parts.weights + i];
            let [n, _] = dims(w)?;
            let dtype = w.ty.dtype;
            if !tile::reads(dtype) {
                return Err(Error::new(Code::Unsupported, format!("no matmul reads {dtype}")));
            }
            work += m * n * k;
            let row_bytes = dtype.row_bytes(k as u64);
            let row_bytes = row_bytes.ok_or_else(|| Error::internal("a row of part blocks"))?;
            Ok(Segment { dtype, row_bytes: row_bytes as usize })
        })
        .collect::<Result<_>>()?;
    let blocks = match step.operands[0].ty.dtype {
        DType::Block(b @ (BlockFormat::Q8_0 | BlockFormat::Q8K)) => Some(b),
        DType::Block(b) => {
            return Err(Error::new(Code::Unsupported, format!("matmul: x is {}", b.name())));
        }
        DType::Scalar(_) => None,
    };
    let kernel = Matmul { m, k, blocks, segments, norm: op.norm, parts, epilogue: op.epilogue };
    Ok(Planned::new(kernel, &vec![Split::Columns(4 * ROWS); step.results.len()], work))
}

/// Memory of a worker that every matmul reuses.
#[derive(Default)]
struct Scratch {
    /// f32 rows of x: normalised, or decoded from blocks that no integer kernel takes.
    x: Vec<f32>,
    /// Decoded weight rows, of the second segment too under a glu.
    w: [Vec<f32>; 2],
}

std::thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

fn grown(v: &mut Vec<f32>, len: usize) -> &mut [f32] {
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
        let integer =
            self.blocks.is_some_and(|b| self.segments.iter().all(|s| tile::matches(s.dtype, b)));
        let Scratch { x, w } = scratch;
        let x: XRows<'_> = match (self.blocks, self.norm) {
            (Some(b), _) if integer => {
                XRows::Int8(cx.bytes(0), b.bytes() * (self.k / b.elements()))
            }
            (Some(b), _) => {
                let x = grown(x, m * self.k);
                decode_activations(b, cx.bytes(0), x);
                XRows::F32(x)
            }
            (None, Some(eps)) => {
                let x = grown(x, m * self.k);
                let weight = cx.slice(self.parts.norm.unwrap_or(1));
                let source = cx.slice::<f32>(0).chunks_exact(self.k);
                for (x, y) in source.zip(x.chunks_exact_mut(self.k)) {
                    rms_norm::row(cx.level, x, weight, eps, y);
                }
                XRows::F32(x)
            }
            (None, None) => XRows::F32(cx.slice(0)),
        };
        match self.epilogue {
            Epilogue::Glu(f) => self.glu(cx, x, m, w, f.into()),
            _ => (0..self.segments.len()).for_each(|i| self.segment(cx, i, x, m, &mut w[0])),
        }
    }

    /// Products of weight rows `n..end` with rows `c..c + cols` of x, with the bias added. With
    /// `decoded` the weight rows are there already.
    fn tile(
        &self,
        cx: &Cx<'_>,
        i: usize,
        (n, end): (usize, usize),
        x: XRows<'_>,
        (c, cols): (usize, usize),
        decoded: Option<&[f32]>,
        out: &mut Tile,
    ) {
        let Segment { dtype, row_bytes } = self.segments[i];
        let x = x.group(self.k, c, cols);
        match decoded {
            Some(w) => {
                let w = bytemuck::cast_slice(w);
                tile::multiply(cx.level, DType::F32, w, 4 * self.k, x, cols, out);
            }
            None => {
                let w = &cx.bytes(self.parts.weights + i)[n * row_bytes..end * row_bytes];
                tile::multiply(cx.level, dtype, w, row_bytes, x, cols, out);
            }
        }
        if let Some(first) = self.parts.biases {
            let bias = &cx.slice::<f32>(first + i)[n..end];
            for row in &mut out[..cols] {
                row.iter_mut().zip(bias).for_each(|(y, b)| *y += b);
            }
        }
    }

    /// Decodes rows `n..end` of weight `i` if enough rows of x will use them.
    fn decoded<'s>(
        &self,
        cx: &Cx<'_>,
        i: usize,
        (n, end): (usize, usize),
        x: XRows<'_>,
        m: usize,
        scratch: &'s mut Vec<f32>,
    ) -> Option<&'s [f32]> {
        let Segment { dtype, row_bytes } = self.segments[i];
        if matches!(x, XRows::Int8(..)) || dtype == DType::F32 || m < DECODE_FROM {
            return None;
        }
        let w = &cx.bytes(self.parts.weights + i)[n * row_bytes..end * row_bytes];
        let y = grown(scratch, (end - n) * self.k);
        tile::decode(cx.level, dtype, w, y);
        Some(y)
    }

    fn segment(&self, cx: &mut Cx<'_>, i: usize, x: XRows<'_>, m: usize, scratch: &mut Vec<f32>) {
        let columns = cx.result(i).columns::<f32>();
        let residual: Option<&[f32]> = self.parts.residual.map(|at| cx.slice(at));
        let width = residual.map_or(0, |r| r.len() / self.m.max(1));
        let map = match self.epilogue {
            Epilogue::Map(f) => Some(Function::from(f)),
            _ => None,
        };
        let mut out = [[0.0; ROWS]; COLS];
        for n in columns.clone().step_by(ROWS) {
            let end = (n + ROWS).min(columns.end);
            let decoded = self.decoded(cx, i, (n, end), x, m, scratch);
            for c in (0..m).step_by(COLS) {
                let cols = (m - c).min(COLS);
                self.tile(cx, i, (n, end), x, (c, cols), decoded, &mut out);
                for (r, y) in out[..cols].iter_mut().enumerate() {
                    let y = &mut y[..end - n];
                    if let Some(residual) = residual {
                        let residual = &residual[(c + r) * width + n..];
                        y.iter_mut().zip(residual).for_each(|(y, x)| *y += x);
                    }
                    if let Some(f) = map {
                        f.apply(cx.level, y);
                    }
                    let row = cx.result(i).row(c + r);
                    row[n - columns.start..end - columns.start].copy_from_slice(y);
                }
            }
        }
    }

    fn glu(
        &self,
        cx: &mut Cx<'_>,
        x: XRows<'_>,
        m: usize,
        scratch: &mut [Vec<f32>; 2],
        f: Function,
    ) {
        let columns = cx.result(0).columns::<f32>();
        let (mut gate, mut up) = ([[0.0; ROWS]; COLS], [[0.0; ROWS]; COLS]);
        let [first, second] = scratch;
        for n in columns.clone().step_by(ROWS) {
            let end = (n + ROWS).min(columns.end);
            let gate_rows = self.decoded(cx, 0, (n, end), x, m, first);
            let up_rows = self.decoded(cx, 1, (n, end), x, m, second);
            for c in (0..m).step_by(COLS) {
                let cols = (m - c).min(COLS);
                self.tile(cx, 0, (n, end), x, (c, cols), gate_rows, &mut gate);
                self.tile(cx, 1, (n, end), x, (c, cols), up_rows, &mut up);
                for r in 0..cols {
                    let y = &mut gate[r][..end - n];
                    f.apply(cx.level, y);
                    y.iter_mut().zip(&up[r]).for_each(|(y, u)| *y *= u);
                    let row = cx.result(0).row(c + r);
                    row[n - columns.start..end - columns.start].copy_from_slice(y);
                }
            }
        }
    }
}

/// Every row of x.
#[derive(Clone, Copy)]
enum XRows<'a> {
    F32(&'a [f32]),
    /// Blocks, and the bytes of a row.
    Int8(&'a [u8], usize),
}

impl<'a> XRows<'a> {
    /// Rows `c..c + cols`, the last one again where there are fewer than [`COLS`].
    fn group(self, k: usize, c: usize, cols: usize) -> X<'a> {
        let row = |r: usize| c + r.min(cols - 1);
        match self {
            Self::F32(x) => X::F32(from_fn(|r| &x[row(r) * k..][..k])),
            Self::Int8(x, bytes) => X::Int8(from_fn(|r| &x[row(r) * bytes..][..bytes])),
        }
    }
}

/// Int8 blocks back to f32, for weights that meet them in no integer kernel.
fn decode_activations(format: BlockFormat, blocks: &[u8], y: &mut [f32]) {
    let (head, elements) = (format.bytes(), format.elements());
    for (block, y) in blocks.chunks_exact(head).zip(y.chunks_exact_mut(elements)) {
        let (d, q) = match format {
            BlockFormat::Q8_0 => {
                (crate::simd::f16_to_f32(u16::from_le_bytes([block[0], block[1]])), &block[2..34])
            }
            _ => (f32::from_le_bytes([block[0], block[1], block[2], block[3]]), &block[4..260]),
        };
        y.iter_mut().zip(q).for_each(|(y, &q)| *y = d * f32::from(q as i8));
    }
}
