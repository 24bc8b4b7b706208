//! Products of many rows by the card's library, where it has one: on tensor cores, with sums in f32.
//!
//! A row of x is divided by a power of two. A float is two halves then, of 22 bits together: the first of all rows
//! stand before the second of all, and one product has both. A matmul that rounds x (`half`) has the first alone. Rows
//! of f32 and bf16 weights become halves alike, two of f32 and one of bf16. First halves of w are multiplied by all of
//! x, and second ones by the first of x: what second ones of both would add is below 2^-22. Where all weights are so,
//! these pairs stand side by side in rows that are two or three times as long, and one product adds them up: of f32 it
//! takes 6 M N K operations, 12 bytes of each weight and 8 of each sum. Packed weights are decoded to f16 first. What
//! follows a product (scales, biases, functions, residuals) is a kernel.

use super::conv_products;
use super::matmul::epilogue;
use super::narrow;
use super::{Argument, Context, Kernel, Memory, Product, Work, matrix, mismatch, scalar, word};
use crate::driver::Floats;
use rlx_core::Result;
use rlx_core::ir::lir::{Slice, Step};
use rlx_core::ops::{Epilogue, Op};
use rlx_core::types::{DType, Dim, Scalar};

/// Rows from which on a product by the library is worth its other launches: of weights in f16, and of others.
const ROWS: u64 = 32;
const ROWS_OF_OTHERS: u64 = 128;
/// Bytes of the halves of a weight at most: larger ones are multiplied as they are, by tiles.
const MOST_HALVES: u64 = 2 << 30;
/// Where values stand in scratch memory.
const ALIGNMENT: u64 = 256;

/// Places in scratch memory, one behind the other.
#[derive(Clone, Copy, Default)]
pub(super) struct Scratch(u64);

impl Scratch {
    /// Bytes of all of them.
    pub fn bytes(self) -> u64 {
        self.0
    }

    pub fn take(&mut self, bytes: u64) -> Argument {
        let at = self.0;
        self.0 = (at + bytes).next_multiple_of(ALIGNMENT);
        Argument { memory: Memory::Scratch, offset: at }
    }
}

/// The work of a step by the library; `None` where it has none.
pub(super) fn work(step: &Step, cx: &Context<'_>) -> Result<Option<Vec<Work>>> {
    match &step.op {
        Op::MatMul(_) if narrow::is_narrow(step) => narrow::by_library(step, cx),
        Op::MatMul(_) => matmul(step, cx),
        Op::Conv(_) => conv_products::conv(step, cx),
        _ => Ok(None),
    }
}

/// The work of a matmul by the library; `None` where its kernels are better, or the library has no such product.
fn matmul(step: &Step, cx: &Context<'_>) -> Result<Option<Vec<Work>>> {
    let Op::MatMul(op) = &step.op else { return Ok(None) };
    if !cx.card.multiplies(Floats::Sums) || step.part.is_some() || op.norm.is_some() {
        return Ok(None);
    }
    let (parts, (m, k)) = (op.parts(), matrix(&step.operands[0])?);
    let weights = &step.operands[parts.weights..parts.weights + op.segments];
    let f16 = DType::Scalar(Scalar::F16);
    let all_f16 = weights.iter().all(|w| w.ty.dtype == f16);
    if m < (if all_f16 { ROWS } else { ROWS_OF_OTHERS })
        || !k.is_multiple_of(8)
        || !is_aligned(&step.operands[0], step, cx)?
    {
        return Ok(None);
    }
    for w in weights {
        let floats = matches!(w.ty.dtype, DType::Scalar(Scalar::F32 | Scalar::Bf16));
        // Up to three halves for each number.
        let is_large = w.ty.shape.elements()?.saturating_mul(6) > MOST_HALVES;
        if floats && (is_large || !is_aligned(w, step, cx)?) {
            return Ok(None);
        }
    }
    let added = step.operands.iter().skip(parts.weights + op.segments);
    for x in added.chain(&step.results) {
        if !is_aligned(x, step, cx)? {
            return Ok(None);
        }
    }
    let is_glu = matches!(op.epilogue, Epilogue::Glu(_));
    let halves_of_x = if op.half { 1 } else { 2 };
    let joined = Joined::of(halves_of_x, weights);
    // Rows of x that a product has, and elements of each.
    let (parts_of_x, long) = match joined {
        Some(joined) => (1, joined.parts * k),
        None => (halves_of_x, k),
    };
    let mut work = Vec::new();
    let mut scratch = Scratch::default();
    let (halves, scales) = (scratch.take(2 * parts_of_x * m * long), scratch.take(4 * m));
    let order = joined.map(|joined| (joined.parts, joined.of_x));
    work.push(Work::Kernel(halves_of(step, cx, [halves, scales], [halves_of_x, m, k], order)?));
    let kept = scratch.0;
    for (i, y) in step.results.iter().enumerate() {
        // What a weight leaves behind, the next one may have.
        scratch.0 = kept;
        let own: Vec<usize> = if is_glu { vec![0, 1] } else { vec![i] };
        let (n, _) = matrix(&weights[own[0]])?;
        if n == 0 {
            continue;
        }
        if !n.is_multiple_of(4) {
            return Ok(None);
        }
        let mut emit = cx.emit(step);
        let mut text = vec!["const float* __restrict__ scales".to_owned()];
        emit.arguments.push(scales);
        let mut add = |emit: &mut super::Emit<'_>, name: &str, at: Argument| {
            emit.arguments.push(at);
            text.push(format!("const float* {name}"));
        };
        for (&at, names) in own.iter().zip([["sums", "lows", "of_w"], ["ups", "up_lows", "of_up"]])
        {
            let order = joined.map(|joined| (joined.parts, joined.of_w));
            let w = Halves::of(&weights[at], order, step, cx, &mut scratch, &mut work)?;
            let sum = scratch.take(4 * parts_of_x * m * n);
            let mut product = |x_parts: u64, w: Argument, y: Argument| {
                let (rows, columns, k) = (word(x_parts * m)?, word(n)?, word(long)?);
                let per_token = cx.live(step).filter(|_| x_parts == 1);
                let (floats, bias, residual) = (Floats::Sums, None, None);
                let of = Product {
                    x: halves,
                    w,
                    y,
                    rows,
                    columns,
                    k,
                    floats,
                    bias,
                    residual,
                    per_token,
                };
                work.push(Work::Product(of));
                Ok::<(), rlx_core::Error>(())
            };
            product(parts_of_x, w.high, sum)?;
            let lows = w.low.map(|_| scratch.take(4 * m * n));
            if let (Some(low), Some(y)) = (w.low, lows) {
                product(1, low, y)?;
            }
            let mut of = Vec::new();
            for (name, at) in names.into_iter().zip([Some(sum), lows, w.scales]) {
                match at {
                    Some(at) => {
                        add(&mut emit, name, at);
                        of.push(name);
                    }
                    None => of.push("nullptr"),
                }
            }
            emit.define(if names[0] == "sums" { "SUMS" } else { "UPS" }, of.join(", "));
        }
        if is_glu {
            emit.define("GLU", "");
        }
        // What the epilogue adds to four products beside each other.
        let mut added = String::new();
        for (name, from, at) in [
            ("bias", "first", parts.biases.map(|first| first + own[0])),
            ("up_bias", "first", parts.biases.map(|first| first + 1).filter(|_| is_glu)),
            ("residual", "at", parts.residual),
        ] {
            if let Some(at) = at {
                let place = emit.place(&step.operands[at])?;
                add(&mut emit, &format!("{name}_at"), place);
                added.push_str(&format!("Four {name}({name}_at + {from});"));
            }
        }
        let to = emit.place(y)?;
        emit.arguments.push(to);
        text.push("float* y".into());
        if emit.late_rows() {
            text.push("const u32* __restrict__ ctl".into());
        }
        emit.define("PARAMETERS", text.join(", "));
        emit.define("ADDED", added);
        emit.define("EPILOGUE(v, u, m, n)", epilogue(&op.epilogue, op.bias, "", "N"));
        if let Epilogue::Map(f) | Epilogue::Glu(f) = op.epilogue {
            emit.apply(scalar::unary(f));
        }
        emit.define("PARTS", parts_of_x);
        emit.size("M", m)?;
        emit.size("N", n)?;
        let grid = [m, (n / 4).div_ceil(128), 1];
        let text = concat!(include_str!("four_floats.cuh"), include_str!("matmul_finish.cu"));
        let kernel = emit.kernel("matmul_finish", text, grid, 128)?;
        work.push(Work::Kernel(kernel.by_tokens(cx.live(step), 0, 1, 1)));
    }
    Ok(Some(work))
}

/// Whether it begins at a multiple of 16 bytes.
pub(super) fn is_aligned(slice: &Slice, step: &Step, cx: &Context<'_>) -> Result<bool> {
    Ok(cx.emit(step).place(slice)?.offset.is_multiple_of(16))
}

/// Which halves of x and of w stand side by side in rows of a product: a bit for each part, set for second halves.
#[derive(Clone, Copy)]
struct Joined {
    parts: u64,
    of_x: u32,
    of_w: u32,
}

impl Joined {
    /// The pairs for weights that are all f32 or all bf16.
    fn of(halves_of_x: u64, weights: &[Slice]) -> Option<Joined> {
        let all = |dtype: DType| weights.iter().all(|w| w.ty.dtype == dtype);
        let halves_of_w = match (all(DType::F32), all(DType::BF16)) {
            (true, _) => 2,
            (_, true) => 1,
            _ => return None,
        };
        Some(match (halves_of_x, halves_of_w) {
            (1, 1) => Joined { parts: 1, of_x: 0b0, of_w: 0b0 },
            (1, _) => Joined { parts: 2, of_x: 0b00, of_w: 0b10 },
            (_, 1) => Joined { parts: 2, of_x: 0b10, of_w: 0b00 },
            _ => Joined { parts: 3, of_x: 0b010, of_w: 0b100 },
        })
    }
}

/// Rows of a weight as halves.
pub(super) struct Halves {
    pub high: Argument,
    /// Where f32 has a second half of each number.
    pub low: Option<Argument>,
    /// What rows are divided by.
    pub scales: Option<Argument>,
}

impl Halves {
    /// Where a weight of `[rows, ..]` is halves already, or the work that makes them. `joined`: how many of its halves
    /// stand side by side, and which are second ones.
    pub fn of(
        w: &Slice,
        joined: Option<(u64, u32)>,
        step: &Step,
        cx: &Context<'_>,
        scratch: &mut Scratch,
        work: &mut Vec<Work>,
    ) -> Result<Halves> {
        let n = w.ty.shape.0.first().and_then(Dim::as_static).unwrap_or(0);
        let k = w.ty.shape.elements()?.checked_div(n).unwrap_or(0);
        let place = cx.emit(step).place(w)?;
        let parts = match w.ty.dtype {
            DType::Scalar(Scalar::F32) => 2,
            DType::Scalar(Scalar::Bf16) => 1,
            DType::Scalar(Scalar::F16) if is_aligned(w, step, cx)? => {
                return Ok(Halves { high: place, low: None, scales: None });
            }
            dtype => {
                let wide = scratch.take(2 * n * k);
                work.push(Work::Kernel(widened(step, cx, dtype, [place, wide], [n, k])?));
                return Ok(Halves { high: wide, low: None, scales: None });
            }
        };
        let stored = joined.map_or(parts, |(side_by_side, _)| side_by_side);
        let (high, scales) = (scratch.take(2 * stored * n * k), scratch.take(4 * n));
        let emit = super::Emit::new(cx.plan, None);
        let made = halves(emit, w.ty.dtype, [place, high, scales], [parts, n, k], joined)?;
        work.push(Work::Kernel(made));
        let apart = joined.is_none() && parts == 2;
        let low = apart.then_some(Argument { offset: high.offset + 2 * n * k, ..high });
        Ok(Halves { high, low, scales: Some(scales) })
    }
}

/// The rows of x as halves.
fn halves_of(
    step: &Step,
    cx: &Context<'_>,
    to: [Argument; 2],
    sizes: [u64; 3],
    joined: Option<(u64, u32)>,
) -> Result<Kernel> {
    let emit = cx.emit(step);
    let x = step.operands.first().ok_or_else(|| mismatch(step))?;
    let x = emit.place(x)?;
    let kernel = halves(emit, DType::F32, [x, to[0], to[1]], sizes, joined)?;
    Ok(kernel.by_tokens(cx.live(step), 0, 1, 1))
}

/// Rows of f32 or bf16 as halves: x, halves and scales. `joined` as [`Halves::of`] has it.
pub(super) fn halves(
    mut emit: super::Emit<'_>,
    dtype: DType,
    places: [Argument; 3],
    [parts, m, k]: [u64; 3],
    joined: Option<(u64, u32)>,
) -> Result<Kernel> {
    emit.arguments.extend(places);
    emit.late_rows();
    if dtype == DType::BF16 {
        emit.define("BF16", "");
    }
    emit.define("PARTS", parts);
    if let Some((parts, order)) = joined {
        emit.define("JOINED", parts);
        emit.define("ORDER", order);
    }
    emit.size("M", m)?;
    emit.size("K", k)?;
    emit.define("THREADS", "256u");
    emit.kernel("halves", include_str!("halves.cu"), [m, 1, 1], 256)
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
