//! Products of many rows by the card's library, where it has one: on tensor cores, with sums in f32.
//!
//! A row of x is divided by a power of two. A float is two halves then, of 22 bits together: the first of all rows
//! stand before the second of all, and one product has both. A matmul that rounds x (`half`) has the first alone.
//! Weights that are no f16 are decoded into it first. What follows a product (scales, biases, functions, residuals) is
//! a kernel.

use super::matmul::epilogue;
use super::{Argument, Context, Kernel, Memory, Product, Work, matrix, mismatch, scalar, word};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::{Epilogue, Op};
use rlx_core::types::{DType, Scalar};

/// Rows from which on a product by the library is worth its other launches: of weights in f16, and of others.
const ROWS: u64 = 32;
const ROWS_OF_OTHERS: u64 = 128;
/// Where values stand in scratch memory.
const ALIGNMENT: u64 = 256;

/// Places in scratch memory, one behind the other.
#[derive(Default)]
struct Scratch(u64);

impl Scratch {
    fn take(&mut self, bytes: u64) -> Argument {
        let at = self.0;
        self.0 = (at + bytes).next_multiple_of(ALIGNMENT);
        Argument { memory: Memory::Scratch, offset: at }
    }
}

/// The work of a matmul by the library; `None` where its kernels are better, or the library has no such product.
pub(super) fn matmul(step: &Step, cx: &Context<'_>) -> Result<Option<Vec<Work>>> {
    let Op::MatMul(op) = &step.op else { return Ok(None) };
    if !cx.products || step.part.is_some() || op.norm.is_some() {
        return Ok(None);
    }
    let (parts, (m, k)) = (op.parts(), matrix(&step.operands[0])?);
    let weights = &step.operands[parts.weights..parts.weights + op.segments];
    let f16 = DType::Scalar(Scalar::F16);
    let all_f16 = weights.iter().all(|w| w.ty.dtype == f16);
    // Numbers of these would be rounded, or be too large.
    let wide = |w: &&rlx_core::ir::lir::Slice| {
        matches!(w.ty.dtype, DType::Scalar(Scalar::F32 | Scalar::Bf16))
    };
    if m < (if all_f16 { ROWS } else { ROWS_OF_OTHERS })
        || !k.is_multiple_of(8)
        || weights.iter().any(|w| wide(&w))
    {
        return Ok(None);
    }
    let is_glu = matches!(op.epilogue, Epilogue::Glu(_));
    let halves_of_x = if op.half { 1 } else { 2 };
    let mut work = Vec::new();
    let mut scratch = Scratch::default();
    let (halves, scales) = (scratch.take(2 * halves_of_x * m * k), scratch.take(4 * m));
    work.push(Work::Kernel(halves_of(step, cx, [halves, scales], [halves_of_x, m, k])?));
    let kept = scratch.0;
    for (i, y) in step.results.iter().enumerate() {
        // What a weight leaves behind, the next one may have.
        scratch.0 = kept;
        let own: Vec<usize> = if is_glu { vec![0, 1] } else { vec![i] };
        let mut sums = Vec::new();
        let (n, _) = matrix(&weights[own[0]])?;
        if n == 0 {
            continue;
        }
        if !n.is_multiple_of(4) {
            return Ok(None);
        }
        for &at in &own {
            let w = &weights[at];
            let place = cx.emit(step).place(w)?;
            let place = if w.ty.dtype == f16 && place.offset.is_multiple_of(16) {
                place
            } else {
                let wide = scratch.take(2 * n * k);
                work.push(Work::Kernel(widened(step, cx, w.ty.dtype, [place, wide], [n, k])?));
                wide
            };
            let sum = scratch.take(4 * halves_of_x * m * n);
            let (rows, columns, k) = (word(halves_of_x * m)?, word(n)?, word(k)?);
            let per_token = cx.live(step).filter(|_| halves_of_x == 1);
            let product = Product { x: halves, w: place, y: sum, rows, columns, k, per_token };
            work.push(Work::Product(product));
            sums.push(sum);
        }
        let mut emit = cx.emit(step);
        let mut text = vec!["const float* __restrict__ scales".to_owned()];
        emit.arguments.push(scales);
        let mut add = |emit: &mut super::Emit<'_>, name: &str, at: Argument| {
            emit.arguments.push(at);
            text.push(format!("const float* {name}"));
        };
        add(&mut emit, "sums", sums[0]);
        if let Some(&ups) = sums.get(1) {
            emit.define("GLU", "");
            add(&mut emit, "ups", ups);
        }
        if let Some(first) = parts.biases {
            let bias = emit.place(&step.operands[first + own[0]])?;
            add(&mut emit, "bias", bias);
            if is_glu {
                let bias = emit.place(&step.operands[first + 1])?;
                add(&mut emit, "up_bias", bias);
            }
        }
        if let Some(at) = parts.residual {
            let residual = emit.place(&step.operands[at])?;
            add(&mut emit, "residual", residual);
        }
        let to = emit.place(y)?;
        emit.arguments.push(to);
        text.push("float* y".into());
        if emit.late_rows() {
            text.push("const u32* __restrict__ ctl".into());
        }
        emit.define("PARAMETERS", text.join(", "));
        emit.define("EPILOGUE(v, u, m, n)", epilogue(&op.epilogue, op.bias, "", "N"));
        if let Epilogue::Map(f) | Epilogue::Glu(f) = op.epilogue {
            emit.apply(scalar::unary(f));
        }
        emit.define("PARTS", halves_of_x);
        emit.size("M", m)?;
        emit.size("N", n)?;
        let grid = [(n / 4).div_ceil(128), m, 1];
        let kernel = emit.kernel("matmul_finish", include_str!("matmul_finish.cu"), grid, 128)?;
        work.push(Work::Kernel(kernel.by_tokens(cx.live(step), 1, 1, 1)));
    }
    Ok(Some(work))
}

/// The rows of x as halves.
fn halves_of(
    step: &Step,
    cx: &Context<'_>,
    to: [Argument; 2],
    [parts, m, k]: [u64; 3],
) -> Result<Kernel> {
    let mut emit = cx.emit(step);
    let x = step.operands.first().ok_or_else(|| mismatch(step))?;
    let x = emit.place(x)?;
    emit.arguments.extend([x, to[0], to[1]]);
    emit.late_rows();
    emit.define("PARTS", parts);
    emit.size("M", m)?;
    emit.size("K", k)?;
    emit.define("THREADS", "256u");
    let kernel = emit.kernel("halves", include_str!("halves.cu"), [m, 1, 1], 256)?;
    Ok(kernel.by_tokens(cx.live(step), 0, 1, 1))
}

/// Weights as f16.
fn widened(
    step: &Step,
    cx: &Context<'_>,
    dtype: DType,
    [from, to]: [Argument; 2],
    [n, k]: [u64; 2],
) -> Result<Kernel> {
    let mut emit = cx.emit(step);
    emit.arguments.extend([from, to]);
    emit.weights("W_", dtype, k)?;
    emit.define("K", word(k)?);
    emit.size("N", n)?;
    emit.kernel("widen", include_str!("widen.cu"), [(n * k / 8).div_ceil(256), 1, 1], 256)
}
