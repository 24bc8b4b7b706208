//! `matmul`: products of f32 rows with dense or packed weights, a launch for each weight.

use super::takes::{self, Taken};
use super::{Context, Emit, Kernel, decoder, matrix, mismatch, scalar, unsupported};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::{Epilogue, Op};
use rlx_core::target::Target;
use rlx_core::types::{Kind, Type};

/// Rows of x that are multiplied by a block for each few columns; more of them by tiles.
const FEW: u64 = 8;

/// Rows of f32, biases too; weights of any type that is decoded.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["segments", "bias", "add", "map", "glu", "epilogue"])?;
    let Op::MatMul(op) = op else { return Err("it takes a product".into()) };
    let parts = op.parts();
    for (i, ty) in operands.iter().enumerate() {
        if !(parts.weights..parts.weights + op.segments).contains(&i) {
            takes::is_f32(i, ty)?;
        } else if decoder(ty.dtype).is_none() || ty.kind != Kind::Tensor {
            return Err(format!("it reads no {}", ty.dtype));
        }
    }
    Ok(())
}

pub(super) fn matmul(step: &Step, cx: &Context<'_>) -> Result<Vec<Kernel>> {
    let Op::MatMul(op) = &step.op else { return Err(mismatch(step)) };
    if step.part.is_some() {
        return Err(unsupported("a weight in parts".into()));
    }
    let (parts, (m, k)) = (op.parts(), matrix(&step.operands[0])?);
    let mut launches = Vec::new();
    for (i, y) in step.results.iter().enumerate() {
        let w = &step.operands[parts.weights + i];
        let (n, _) = matrix(w)?;
        if m == 0 || n == 0 {
            continue;
        }
        let few = m <= FEW;
        let mut emit = cx.emit(step);
        emit.argument(&step.operands[0])?;
        emit.argument(w)?;
        emit.weights("", w.ty.dtype, k)?;
        emit.define("WEIGHT_PARAMETER", "");
        if let Epilogue::Glu(_) = op.epilogue {
            let up = &step.operands[parts.weights + 1];
            emit.argument(up)?;
            emit.weights("UP_", up.ty.dtype, k)?;
            emit.define("GLU", "");
            emit.define("WEIGHT_PARAMETER", ", const u8* __restrict__ up");
        }
        epilogue(&mut emit, step, i)?;
        if !few {
            emit.late_rows();
        }
        emit.argument(y)?;
        // The preprocessor computes with it.
        emit.define("K", format_args!("{}", super::word(k)?));
        emit.size("N", n)?;
        emit.size("M", m)?;
        // More columns of a block read a row of x less often, and leave fewer blocks.
        let columns = if m == 1 && !matches!(op.epilogue, Epilogue::Glu(_)) { 4 } else { 2 };
        emit.size("COLUMNS", columns)?;
        launches.push(match few {
            true => emit.kernel(
                "matmul_vector",
                concat!(include_str!("row_products.cuh"), include_str!("matmul_vector.cu")),
                [n.div_ceil(columns), 1, 1],
                128,
            )?,
            false => {
                let tiles = [n.div_ceil(64), m.div_ceil(64), 1];
                emit.kernel("matmul_tile", include_str!("matmul_tile.cu"), tiles, 256)?
            }
        });
    }
    Ok(launches)
}

/// Defines what happens to a product `v` of result `i` (and `u`, a second product) at row `m`, column `n`.
fn epilogue(emit: &mut Emit<'_>, step: &Step, i: usize) -> Result<()> {
    let Op::MatMul(op) = &step.op else { return Err(mismatch(step)) };
    let parts = op.parts();
    let (mut bias, mut residual) = ("", "");
    let mut text = "v".to_string();
    let mut up = "u".to_string();
    if let Some(first) = parts.biases {
        emit.argument(&step.operands[first + i])?;
        bias = ", const float* __restrict__ bias";
        text = "(v + bias[n])".into();
        if let Epilogue::Glu(_) = op.epilogue {
            emit.argument(&step.operands[first + 1])?;
            bias = ", const float* __restrict__ bias, const float* __restrict__ up_bias";
            up = "(u + up_bias[n])".into();
        }
    }
    match op.epilogue {
        Epilogue::None => {}
        Epilogue::Map(_) => text = format!("apply({text})"),
        Epilogue::Glu(_) => text = format!("(apply({text}) * {up})"),
        Epilogue::Add => {
            let at = parts.residual.ok_or_else(|| mismatch(step))?;
            emit.argument(&step.operands[at])?;
            residual = ", const float* residual";
            text = format!("({text} + residual[size_t(m) * N + n])");
        }
    }
    if let Epilogue::Map(f) | Epilogue::Glu(f) = op.epilogue {
        emit.apply(scalar::unary(f));
    }
    emit.define("BIAS_PARAMETER", bias);
    emit.define("RESIDUAL_PARAMETER", residual);
    emit.define("EPILOGUE(v, u, m, n)", text);
    Ok(())
}
