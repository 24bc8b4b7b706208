//! `grouped_matmul`: products of f32 rows with the weights of their experts, a launch for each bank.
//!
//! `P` pairs of a row and an expert take `2 P N K` operations for a bank. Few rows read a bank's matrices once for each
//! pair. Many are put in the order of their experts, and multiplied by tiles of 64 pairs of one expert: its matrix is
//! read and decoded once for each of these, and its rows once for each 64 columns.

use super::grouped_tiles::{Groups, TILE, of_tiles};
use super::stream::{Ring, Rows, Stage, are_aligned};
use super::takes::{self, Taken};
use super::{Context, Emit, Kernel, decoder, mismatch, scalar, unsupported};
use rlx_core::Result;
use rlx_core::ir::lir::{Slice, Step};
use rlx_core::ops::{GroupedEpilogue, GroupedMatMul, Op};
use rlx_core::target::Target;
use rlx_core::types::{DType, Kind, Type};

/// Rows of f32, biases too; banks of any type that is decoded.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["segments", "bias", "epilogue", "glu", "limit"])?;
    let Op::GroupedMatMul(op) = op else { return Err("it takes experts".into()) };
    let parts = op.parts();
    for (i, ty) in operands.iter().enumerate() {
        if i == parts.ids {
            let fits = ty.kind == Kind::Tensor && ty.dtype == DType::U32;
            fits.then_some(()).ok_or_else(|| format!("its kernel takes no ids of {}", ty.dtype))?;
        } else if !(parts.banks..parts.banks + op.segments).contains(&i) {
            takes::is_f32(i, ty)?;
        } else if decoder(ty.dtype).is_none() || ty.kind != Kind::Tensor {
            return Err(format!("it reads no {}", ty.dtype));
        }
    }
    Ok(())
}

/// `[experts, rows of each, their length]` of a bank.
pub(super) fn bank(slice: &Slice) -> Result<[u64; 3]> {
    let dims = slice.ty.shape.static_dims()?;
    dims.as_slice().try_into().map_err(|_| rlx_core::Error::internal("a bank has three axes"))
}

/// The banks of product `i`: a gate comes with the bank that it multiplies.
pub(super) fn banks<'a>(step: &'a Step, op: &GroupedMatMul, i: usize) -> &'a [Slice] {
    &step.operands[op.parts().banks + i..][..if is_glu(op) { 2 } else { 1 }]
}

fn is_glu(op: &GroupedMatMul) -> bool {
    matches!(op.epilogue, GroupedEpilogue::Glu(_) | GroupedEpilogue::LimitedGlu(..))
}

/// The fewest rows that are multiplied by tiles; each expert has one of them on average, at least.
const ROWS: u64 = 16;
/// Experts whose pairs are counted in shared memory.
const MOST_EXPERTS: u64 = 2048;

pub(super) fn grouped_matmul(step: &Step, cx: &Context<'_>) -> Result<Vec<Kernel>> {
    let Op::GroupedMatMul(op) = &step.op else { return Err(mismatch(step)) };
    if step.part.is_some() {
        return Err(unsupported("a bank in parts".into()));
    }
    let ids = &step.operands[op.parts().ids];
    let (rows, top_k) = super::matrix(ids)?;
    let [experts, ..] = bank(&step.operands[op.parts().banks])?;
    let pairs = rows.saturating_mul(top_k);
    if pairs == 0 {
        return Ok(Vec::new());
    }
    // A block sorts the pairs in shared memory, and a launch has fewer than 2^16 rows of blocks.
    let fits = experts <= MOST_EXPERTS && pairs / TILE + experts < 1 << 16;
    let by_tiles = rows >= ROWS && pairs >= experts && fits;
    let mut groups = None;
    let mut launches = Vec::new();
    for (i, y) in step.results.iter().enumerate() {
        let [_, n, _] = bank(&step.operands[op.parts().banks + i])?;
        if n == 0 {
            continue;
        }
        if !by_tiles {
            launches.push(of_rows(step, cx, op, (i, y))?);
            continue;
        }
        let groups = match &mut groups {
            Some(groups) => groups,
            None => {
                let (made, kernel) = Groups::of(step, cx, [rows, top_k, experts])?;
                launches.push(kernel);
                groups.insert(made)
            }
        };
        launches.extend(of_tiles(step, cx, op, (i, y), groups)?);
    }
    Ok(launches)
}

/// Emits weights and biases, and what happens to a product of them.
pub(super) fn products(
    emit: &mut Emit<'_>,
    step: &Step,
    op: &GroupedMatMul,
    i: usize,
) -> Result<()> {
    let parts = op.parts();
    let w = &step.operands[parts.banks + i];
    let [experts, n, k] = bank(w)?;
    emit.argument(w)?;
    emit.weights("", w.ty.dtype, k)?;
    let is_glu = is_glu(op);
    if is_glu {
        let up = &step.operands[parts.banks + 1];
        emit.argument(up)?;
        emit.weights("UP_", up.ty.dtype, k)?;
        emit.define("GLU", "");
    }
    emit.define("WEIGHT_PARAMETER", if is_glu { ", const u8* __restrict__ up" } else { "" });
    let (mut v, mut u) = ("v", "u");
    let mut biases = String::new();
    if let Some(first) = parts.biases {
        emit.argument(&step.operands[first + i])?;
        biases += ", const float* __restrict__ bias";
        v = "(v + bias[expert * N + n])";
        if is_glu {
            emit.argument(&step.operands[first + 1])?;
            biases += ", const float* __restrict__ up_bias";
            u = "(u + up_bias[expert * N + n])";
        }
    }
    emit.define("BIAS_PARAMETER", biases);
    let result = match op.epilogue {
        GroupedEpilogue::Glu(f) => {
            emit.apply(scalar::unary(f));
            format!("(apply({v}) * {u})")
        }
        GroupedEpilogue::LimitedGlu(f, limit) => {
            emit.apply(scalar::unary(f));
            emit.number("LIMIT", limit);
            format!("(apply(fminf({v}, LIMIT)) * (fmaxf(fminf({u}, LIMIT), -LIMIT) + 1.0f))")
        }
        _ => v.to_string(),
    };
    emit.define("EPILOGUE(v, u, expert, n)", result);
    let is_own = step.operands[0].ty.shape.rank() == 3;
    emit.define("X_ROW(m, pair)", if is_own { "pair" } else { "m" });
    if is_own {
        emit.define("OWN_ROWS", "");
    }
    let (_, top_k) = super::matrix(&step.operands[parts.ids])?;
    // The preprocessor computes with it.
    emit.define("K", super::word(k)?);
    emit.size("N", n)?;
    emit.size("EXPERTS", experts)?;
    emit.size("TOP_K", top_k)
}

/// Emits a residual, and what becomes of a sum; gives its parameter.
pub(super) fn residual(
    emit: &mut Emit<'_>,
    step: &Step,
    op: &GroupedMatMul,
) -> Result<&'static str> {
    let Some(at) = op.parts().residual else {
        emit.define("FINISH(sum, m, n)", "sum");
        return Ok("");
    };
    emit.argument(&step.operands[at])?;
    emit.define("FINISH(sum, m, n)", "(sum + residual[size_t(m) * N + n])");
    Ok(", const float* residual")
}

/// The ring by which the rows of experts come to one row of x, on a card with bulk copies.
fn ring(step: &Step, cx: &Context<'_>, op: &GroupedMatMul, i: usize) -> Result<Option<Ring>> {
    let parts = op.parts();
    let (rows, top_k) = super::matrix(&step.operands[parts.ids])?;
    if !cx.card.bulk_copies || rows != 1 || !are_aligned(&step.operands, step, cx)? {
        return Ok(None);
    }
    let (mut matrices, mut length) = (Vec::new(), 0);
    for w in banks(step, op, i) {
        let [_, n, k] = bank(w)?;
        let Some(bytes) = w.ty.dtype.row_bytes(k) else { return Ok(None) };
        // An expert begins where the one before it ends.
        if n.saturating_mul(bytes) % 16 != 0 {
            return Ok(None);
        }
        matrices.push(Rows { bytes, count: n });
        length = k;
    }
    let stage =
        if op.epilogue.sums() { Stage::Experts(top_k) } else { Stage::All { times: top_k } };
    Ok(Ring::of(length, &matrices, stage))
}

/// A bank's products, a block for a row and an expert, or for a row whose experts are summed.
fn of_rows(
    step: &Step,
    cx: &Context<'_>,
    op: &GroupedMatMul,
    (i, y): (usize, &Slice),
) -> Result<Kernel> {
    let parts = op.parts();
    let ids = &step.operands[parts.ids];
    let (rows, top_k) = super::matrix(ids)?;
    let [_, n, _] = bank(&step.operands[parts.banks + i])?;
    let ring = ring(step, cx, op, i)?;
    let mut emit = cx.emit(step);
    emit.argument(&step.operands[0])?;
    products(&mut emit, step, op, i)?;
    emit.argument(ids)?;
    let mut more = String::new();
    if let Some(at) = parts.shares {
        emit.argument(&step.operands[at])?;
        emit.define("SUMS", "");
        more += ", const float* __restrict__ shares";
    }
    more += residual(&mut emit, step, op)?;
    emit.define("SUM_PARAMETERS", more);
    if let Some(ring) = ring {
        emit.argument(y)?;
        let each = if op.epilogue.sums() { 1 } else { top_k };
        let stages = each * n.div_ceil(ring.columns);
        return ring.kernel(
            emit,
            ("grouped_stream", include_str!("grouped_stream.cu")),
            stages,
            cx,
        );
    }
    emit.late_rows();
    emit.argument(y)?;
    let text = concat!(include_str!("row_products.cuh"), include_str!("grouped_matmul.cu"));
    let blocks = if op.epilogue.sums() { rows } else { rows * top_k };
    emit.kernel("grouped_matmul", text, [blocks, n.div_ceil(4), 1], 128)
}
