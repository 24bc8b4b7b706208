//! `matmul`: products of f32 rows with up to four dense or packed weights, in one launch.

use super::digits::Digits;
use super::narrow;
use super::stream::{Ring, are_aligned};
use super::takes::{self, Taken};
use super::{Context, Emit, Kernel, THREADS, decoder, matrix, mismatch, scalar, unsupported};
use rlx_core::Result;
use rlx_core::ir::lir::{Slice, Step};
use rlx_core::ops::{Epilogue, MatMul, Op};
use rlx_core::target::Target;
use rlx_core::types::{BlockFormat, DType, Kind, Type};

/// Rows of x that are multiplied by a block for each few columns; more of them by tiles.
const FEW: u64 = 8;

/// Rows of f32, biases too; weights of any type that is decoded. One row may be normed first. Where x may be rounded
/// (`half`) and the library has no such product, it is not.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["segments", "bias", "add", "map", "glu", "epilogue", "norm_eps", "half"])?;
    let Op::MatMul(op) = op else { return Err("it takes a product".into()) };
    let parts = op.parts();
    if let Some(x) = operands.first().filter(|x| matches!(x.dtype, DType::F16 | DType::BF16)) {
        return narrow::takes(op, x, operands);
    }
    for (i, ty) in operands.iter().enumerate() {
        if !(parts.weights..parts.weights + op.segments).contains(&i) {
            takes::is_f32(i, ty)?;
        } else if decoder(ty.dtype).is_none() || ty.kind != Kind::Tensor {
            return Err(format!("it reads no {}", ty.dtype));
        }
    }
    let rows = operands.first().and_then(|x| x.shape.rows().ok()?.as_static());
    if op.norm.is_some() && rows != Some(1) {
        return Err("its kernel norms one row".into());
    }
    Ok(())
}

/// A kernel's parameters: their C, and the arguments in the same order.
struct Parameters<'a, 'b> {
    emit: &'a mut Emit<'b>,
    text: Vec<String>,
}

impl Parameters<'_, '_> {
    fn add(&mut self, ty: &str, name: &str, slice: &Slice) -> Result<()> {
        self.emit.argument(slice)?;
        self.text.push(format!("{ty} {name}"));
        Ok(())
    }
}

/// The kernel that a product takes.
enum Form {
    /// One row and packed weights, as integers on tensor cores.
    Digits(Digits),
    /// One row; weights come as a stream.
    Ring(Ring),
    /// One row; so many lanes share columns, of which a block has so many for each group of them.
    Lanes { lanes: u64, columns: u64 },
    /// Few rows: a block has few columns.
    Few,
    /// Many rows, by tiles.
    Tiles,
}

impl Form {
    /// The fastest that the card has and the step's sizes and places allow.
    fn of(step: &Step, op: &MatMul, cx: &Context<'_>, sizes: [u64; 2]) -> Result<Form> {
        if let Some(digits) = Digits::of_matmul(step, op, cx, sizes)? {
            return Ok(Form::Digits(digits));
        }
        if let Some(ring) = Ring::of_matmul(step, op, cx, sizes)? {
            return Ok(Form::Ring(ring));
        }
        if let Some(lanes) = one_row(step, cx, sizes)? {
            let first = op.parts().weights;
            let weights = &step.operands[first..first + step.results.len()];
            let n: u64 = weights.iter().filter_map(|w| Some(matrix(w).ok()?.0)).sum();
            return Ok(Form::Lanes { lanes, columns: columns_of(n, THREADS / lanes) });
        }
        Ok(if sizes[0] <= FEW { Form::Few } else { Form::Tiles })
    }

    /// Columns and threads of a block, for `m` rows. More columns read a row of x less often, and leave fewer blocks.
    fn block(&self, m: u64) -> (u64, u64) {
        match self {
            Form::Digits(digits) => (digits.rows, digits.threads()),
            Form::Ring(ring) => (ring.columns, ring.threads()),
            Form::Lanes { lanes, columns } => (columns * (THREADS / lanes), THREADS),
            Form::Few if m == 1 => (6, THREADS),
            Form::Few => (2, 128),
            Form::Tiles => (64, 256),
        }
    }
}

pub(super) fn matmul(step: &Step, cx: &Context<'_>) -> Result<Vec<Kernel>> {
    let Op::MatMul(op) = &step.op else { return Err(mismatch(step)) };
    if step.part.is_some() {
        return Err(unsupported("a weight in parts".into()));
    }
    if narrow::is_narrow(step) {
        return narrow::by_tiles(step, cx);
    }
    let (parts, (m, k)) = (op.parts(), matrix(&step.operands[0])?);
    let is_glu = matches!(op.epilogue, Epilogue::Glu(_));
    let form = Form::of(step, op, cx, [m, k])?;
    let (columns, threads) = form.block(m);
    let mut emit = cx.emit(step);
    let mut parameters = Parameters { emit: &mut emit, text: Vec::new() };
    let floats = "const float* __restrict__";
    let weights = "const u8* __restrict__";
    parameters.add(floats, "x", &step.operands[0])?;
    if let (Some(at), Some(eps)) = (parts.norm, op.norm) {
        parameters.add(floats, "norm", &step.operands[at])?;
        parameters.emit.define("NORM", "");
        parameters.emit.number("EPS", eps);
    }
    let (mut segments, mut blocks) = (String::new(), 0);
    let absent = "nullptr".to_string();
    for (i, y) in step.results.iter().enumerate() {
        let w = &step.operands[parts.weights + i];
        let (n, _) = matrix(w)?;
        if n == 0 {
            continue;
        }
        parameters.add(weights, &format!("w{i}"), w)?;
        parameters.emit.weights(&format!("W{i}_"), w.ty.dtype, k)?;
        let mut up = absent.clone();
        if is_glu {
            let w = &step.operands[parts.weights + 1];
            parameters.add(weights, "up", w)?;
            parameters.emit.weights("UP_", w.ty.dtype, k)?;
            parameters.emit.define("GLU", "");
            up = "up".into();
        }
        let (mut bias, mut up_bias, mut residual) =
            (absent.clone(), absent.clone(), absent.clone());
        if let Some(first) = parts.biases {
            bias = format!("bias{i}");
            parameters.add(floats, &bias, &step.operands[first + i])?;
            if is_glu {
                up_bias = "up_bias".into();
                parameters.add(floats, &up_bias, &step.operands[first + 1])?;
            }
        }
        if let Some(at) = parts.residual {
            residual = "residual".into();
            // It may be where the result is.
            parameters.add("const float*", &residual, &step.operands[at])?;
        }
        parameters.add("float*", &format!("y{i}"), y)?;
        let count = n.div_ceil(columns);
        segments += &format!(
            "SEGMENT(W{i}_FORMAT, {count}u, w{i}, W{i}_ROW_BYTES, {}u, {up}, {bias}, {up_bias}, {residual}, y{i}) ",
            super::word(n)?
        );
        blocks += count;
    }
    if m == 0 || blocks == 0 {
        return Ok(Vec::new());
    }
    let mut text = parameters.text;
    if matches!(form, Form::Tiles) && emit.late_rows() {
        text.push("const u32* __restrict__ ctl".into());
    }
    emit.define("PARAMETERS", text.join(", "));
    emit.define("SEGMENTS", segments);
    emit.define("EPILOGUE(v, u, m, n)", epilogue(&op.epilogue, op.bias, "s.", "s.n"));
    if let Epilogue::Map(f) | Epilogue::Glu(f) = op.epilogue {
        emit.apply(scalar::unary(f));
    }
    // The preprocessor computes with it.
    emit.define("K", super::word(k)?);
    emit.size("M", m)?;
    let threads = threads as u32;
    let kernel = match form {
        Form::Digits(digits) => digits.kernel(emit, blocks, cx),
        Form::Ring(ring) => {
            let text = concat!(include_str!("segment.cuh"), include_str!("matmul_stream.cu"));
            ring.kernel(emit, ("matmul_stream", text), blocks, cx)
        }
        Form::Lanes { lanes, columns } => {
            emit.size("COLUMNS", columns)?;
            emit.size("THREADS", threads.into())?;
            emit.size("LANES", lanes)?;
            let text = concat!(
                include_str!("segment.cuh"),
                include_str!("warp_sums.cuh"),
                include_str!("wide.cuh"),
                include_str!("matmul_one.cu")
            );
            emit.kernel("matmul_one", text, [blocks, 1, 1], threads)
        }
        Form::Few => {
            emit.size("COLUMNS", columns)?;
            emit.size("THREADS", threads.into())?;
            let text = concat!(
                include_str!("segment.cuh"),
                include_str!("warp_sums.cuh"),
                include_str!("row_products.cuh"),
                include_str!("matmul_vector.cu")
            );
            emit.kernel("matmul_vector", text, [blocks, 1, 1], threads)
        }
        Form::Tiles => {
            emit.size("COLUMNS", columns)?;
            // Eight elements of a row are read at once.
            let whole = k.is_multiple_of(8) && step.operands[0].offset.is_multiple_of(16);
            emit.define("WIDE_ROWS", u8::from(whole));
            let text = concat!(
                include_str!("segment.cuh"),
                include_str!("tf32.cuh"),
                include_str!("tile_sums.cuh"),
                include_str!("tile_fetch.cuh"),
                include_str!("matmul_tile.cu")
            );
            let kernel = emit.kernel("matmul_tile", text, [blocks, m.div_ceil(64), 1], threads);
            kernel.map(Kernel::alone)
        }
    };
    Ok(vec![kernel?])
}

/// How many columns a group of lanes computes, where a block has so many groups. More columns read x less often; fewer
/// columns make more blocks, and every processor of a card should have one.
fn columns_of(n: u64, groups: u64) -> u64 {
    let each = n / groups / BLOCKS;
    [8, 4].into_iter().find(|columns| each >= *columns).unwrap_or(2)
}

/// About so many blocks keep a card busy.
const BLOCKS: u64 = 256;

/// Lanes that share columns of a product of one row: each takes 32 elements at once, in whole warps of the widest.
/// `None` where elements or places do not come in such steps, or no type is one that gains from it.
fn one_row(step: &Step, cx: &Context<'_>, [m, k]: [u64; 2]) -> Result<Option<u64>> {
    if m != 1 || k == 0 || !k.is_multiple_of(32) {
        return Ok(None);
    }
    // Floats and whole bytes were slower so (docs/decisions/2026-11-27-cuda.md).
    let simple = |dtype: DType| !matches!(dtype, DType::Block(b) if b != BlockFormat::Q8_0);
    let Op::MatMul(op) = &step.op else { return Ok(None) };
    let first = op.parts().weights;
    if step.operands[first..first + op.segments].iter().all(|w| simple(w.ty.dtype)) {
        return Ok(None);
    }
    if !are_aligned(&step.operands, step, cx)? {
        return Ok(None);
    }
    Ok(Some((k / 32).next_power_of_two().clamp(64, THREADS)))
}

/// What happens to a product `v` (and `u`, a second product) at row `m`, column `n` of `columns`. What is added stands
/// behind the prefix `of`.
pub(super) fn epilogue(epilogue: &Epilogue, bias: bool, of: &str, columns: &str) -> String {
    let (v, u) = match bias {
        true => (format!("(v + {of}bias[n])"), format!("(u + {of}up_bias[n])")),
        false => ("v".into(), "u".into()),
    };
    match epilogue {
        Epilogue::None => v,
        Epilogue::Map(_) => format!("apply({v})"),
        Epilogue::Glu(_) => format!("(apply({v}) * {u})"),
        Epilogue::Add => format!("({v} + {of}residual[size_t(m) * {columns} + n])"),
    }
}
