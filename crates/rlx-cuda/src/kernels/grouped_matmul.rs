//! `grouped_matmul`: products of f32 rows with the weights of their experts, a launch for each bank.

use super::takes::{self, Taken};
use super::{Context, Kernel, decoder, mismatch, scalar, unsupported};
use rlx_core::Result;
use rlx_core::ir::lir::{Slice, Step};
use rlx_core::ops::{GroupedEpilogue, Op};
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
fn bank(slice: &Slice) -> Result<[u64; 3]> {
    let dims = slice.ty.shape.static_dims()?;
    dims.as_slice().try_into().map_err(|_| rlx_core::Error::internal("a bank has three axes"))
}

pub(super) fn grouped_matmul(step: &Step, cx: &Context<'_>) -> Result<Vec<Kernel>> {
    let Op::GroupedMatMul(op) = &step.op else { return Err(mismatch(step)) };
    if step.part.is_some() {
        return Err(unsupported("a bank in parts".into()));
    }
    let (parts, x) = (op.parts(), &step.operands[0]);
    let ids = &step.operands[parts.ids];
    let (rows, top_k) = super::matrix(ids)?;
    let sums = op.epilogue.sums();
    let mut launches = Vec::new();
    for (i, y) in step.results.iter().enumerate() {
        let w = &step.operands[parts.banks + i];
        let [experts, n, k] = bank(w)?;
        if rows == 0 || top_k == 0 || n == 0 {
            continue;
        }
        let mut emit = cx.emit(step);
        emit.argument(x)?;
        emit.argument(w)?;
        emit.weights("", w.ty.dtype, k)?;
        let is_glu =
            matches!(op.epilogue, GroupedEpilogue::Glu(_) | GroupedEpilogue::LimitedGlu(..));
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
        emit.argument(ids)?;
        let mut more = String::new();
        if let Some(at) = parts.shares {
            emit.argument(&step.operands[at])?;
            emit.define("SUMS", "");
            more += ", const float* __restrict__ shares";
        }
        if let Some(at) = parts.residual {
            emit.argument(&step.operands[at])?;
            more += ", const float* residual";
            emit.define("FINISH(sum, m, n)", "(sum + residual[size_t(m) * N + n])");
        } else {
            emit.define("FINISH(sum, m, n)", "sum");
        }
        emit.define("SUM_PARAMETERS", more);
        emit.late_rows();
        emit.argument(y)?;
        let is_own = x.ty.shape.rank() == 3;
        emit.define("X_ROW(m, pair)", if is_own { "pair" } else { "m" });
        // The preprocessor computes with it.
        emit.define("K", super::word(k)?);
        emit.size("N", n)?;
        emit.size("EXPERTS", experts)?;
        emit.size("TOP_K", top_k)?;
        let text = concat!(include_str!("row_products.cuh"), include_str!("grouped_matmul.cu"));
        let blocks = if sums { rows } else { rows * top_k };
        launches.push(emit.kernel("grouped_matmul", text, [blocks, n.div_ceil(4), 1], 128)?);
    }
    Ok(launches)
}
