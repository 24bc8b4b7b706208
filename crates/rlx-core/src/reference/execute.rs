//! One operator at a time, over bytes.

use super::View;
#[cfg(feature = "audio")]
use super::ops::audio;
#[cfg(feature = "linalg")]
use super::ops::linalg;
#[cfg(feature = "quant")]
use super::ops::quant;
#[cfg(feature = "vision")]
use super::ops::vision;
use super::ops::{
    ada_norm, argmax, argmin, attention, attention_join, attention_split, batch_matmul, cast,
    clamp, compare, concat, constant, control_flow, cumsum, dot_general, elementwise_region,
    expand, gated_delta_net, gated_residual, gather, gather_elements, grouped_matmul, iota,
    kv_write, layer_norm, lora_matmul, map, matmul, pad, quantize_rows, random_normal,
    random_uniform, reduce, residual_layer_norm, residual_rms_norm, reverse, rms_norm, roll, rope,
    rope_attention_split, rope_kv_write, rope_table, sample, scatter_add, sdpa, select,
    selective_scan, slice, softmax, sort, state_write, take_rows, top_k, transpose, unpack, zip,
};
use crate::error::{Error, Result};
use crate::ir::mir::Graph;
use crate::ops::{Alias, Op, Signature};
use crate::types::Type;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// Runs one operator; returns the bytes of each result. A result that is a state is the next
/// version of the whole state.
///
/// # Errors
/// `BadGraph` from the type rule, or for sizes that make no sense; `Unsupported` for a packed type
/// without a decoder; `ContextFull` for a cache write past the capacity; `Internal` for operand
/// bytes that do not fit their type.
pub fn run(op: &Op, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
    run_regions(op, &[], operands)
}

/// [`run`] of an operator with its regions.
///
/// # Errors
/// As `run`.
pub fn run_regions(op: &Op, regions: &[Graph], operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
    let types: Vec<&Type> = operands.iter().map(|v| v.ty).collect();
    let bodies: Vec<Signature> = regions.iter().map(Graph::signature).collect();
    let results = op.infer_regions(&types, &bodies)?;
    for (i, v) in operands.iter().enumerate() {
        fits(op, "operand", i, v.ty, v.bytes.len())?;
    }
    let out = match op {
        Op::Gather(op) => gather::run(op, operands),
        Op::RmsNorm(op) => rms_norm::run(op, operands),
        Op::MatMul(op) => matmul::run(op, operands),
        Op::QuantizeRows(op) => quantize_rows::run(op, operands),
        Op::RopeTable(op) => rope_table::run(op, operands),
        Op::Rope(op) => rope::run(op, operands),
        Op::KvWrite(_) => kv_write::run(operands),
        Op::RopeKvWrite(op) => rope_kv_write::run(op, operands),
        Op::Attention(op) => attention::run(op, operands),
        Op::AttentionSplit(op) => attention_split::run(op, operands),
        Op::RopeAttentionSplit(op) => rope_attention_split::run(op, operands),
        Op::AttentionJoin(op) => attention_join::run(op, operands),
        Op::BatchMatMul(op) => batch_matmul::run(op, operands),
        Op::DotGeneral(op) => dot_general::run(op, operands),
        Op::LoraMatMul(op) => lora_matmul::run(op, operands),
        Op::GroupedMatMul(_) => grouped_matmul::run(operands),
        Op::Unpack(_) => unpack::run(operands),
        Op::Sdpa(op) => sdpa::run(op, operands),
        Op::StateWrite(op) => state_write::run(op, operands),
        Op::GatedDeltaNet(_) => gated_delta_net::run(operands),
        Op::SelectiveScan(_) => selective_scan::run(operands),
        Op::If(_) => control_flow::choose(regions, operands),
        Op::While(op) => control_flow::repeat(op, regions, operands),
        Op::Scan(op) => control_flow::scan(op, regions, operands),
        Op::Map(op) => map::run(op, operands),
        Op::Zip(op) => zip::run(op, operands),
        Op::Region(op) => elementwise_region::run(op, operands),
        Op::TakeRows(op) => take_rows::run(op, operands),
        Op::Sample(_) => sample::run(operands),
        Op::Constant(op) => constant::run(op, operands),
        Op::Iota(op) => iota::run(op, operands),
        Op::Compare(op) => compare::run(op, operands),
        Op::Select(op) => select::run(op, operands),
        Op::Cast(op) => cast::run(op, operands),
        Op::Clamp(op) => clamp::run(op, operands),
        Op::Reduce(op) => reduce::run(op, operands),
        Op::Softmax(op) => softmax::run(op, operands),
        Op::CumSum(op) => cumsum::run(op, operands),
        Op::ArgMax(op) => argmax::run(op, operands),
        Op::ArgMin(op) => argmin::run(op, operands),
        Op::Sort(op) => sort::run(op, operands),
        Op::TopK(op) => top_k::run(op, operands),
        Op::Transpose(op) => transpose::run(op, operands),
        Op::Slice(op) => slice::run(op, operands),
        Op::Concat(op) => concat::run(op, operands),
        Op::Expand(op) => expand::run(op, operands),
        Op::Pad(op) => pad::run(op, operands),
        Op::Roll(op) => roll::run(op, operands),
        Op::Reverse(op) => reverse::run(op, operands),
        Op::GatherElements(op) => gather_elements::run(op, operands),
        Op::ScatterAdd(op) => scatter_add::run(op, operands),
        Op::RandomUniform(op) => random_uniform::run(op, operands),
        Op::RandomNormal(op) => random_normal::run(op, operands),
        Op::Reshape(_) | Op::Token(_) | Op::StateRead(_) => window(op, operands, &types, &results),
        Op::AdaNorm(op) => ada_norm::run(op, operands),
        Op::GatedResidual(_) => gated_residual::run(operands),
        Op::LayerNorm(op) => layer_norm::run(op, operands),
        Op::ResidualLayerNorm(op) => residual_layer_norm::run(op, operands),
        Op::ResidualRmsNorm(op) => residual_rms_norm::run(op, operands),
        #[cfg(feature = "vision")]
        Op::AxialRope2d(op) => vision::axial_rope_2d::run(op, operands),
        #[cfg(feature = "vision")]
        Op::BatchNormInference(op) => vision::batch_norm_inference::run(op, operands),
        #[cfg(feature = "vision")]
        Op::Conv(op) => vision::conv::run(op, operands),
        #[cfg(feature = "vision")]
        Op::ConvTranspose(op) => vision::conv_transpose::run(op, operands),
        #[cfg(feature = "vision")]
        Op::GroupNorm(op) => vision::group_norm::run(op, operands),
        #[cfg(feature = "vision")]
        Op::Im2Col(op) => vision::im2col::run(op, operands),
        #[cfg(feature = "vision")]
        Op::Interpolate(op) => vision::interpolate::run(op, operands),
        #[cfg(feature = "vision")]
        Op::LayerNorm2d(op) => vision::layer_norm_2d::run(op, operands),
        #[cfg(feature = "vision")]
        Op::Pool(op) => vision::pool::run(op, operands),
        #[cfg(feature = "audio")]
        Op::ComplexNormSq(_) => audio::complex_norm_sq::run(operands),
        #[cfg(feature = "audio")]
        Op::Conjugate(_) => audio::conjugate::run(operands),
        #[cfg(feature = "audio")]
        Op::Fft(op) => audio::fft::run(op, operands),
        #[cfg(feature = "audio")]
        Op::LogMel(op) => audio::log_mel::run(op, operands),
        #[cfg(feature = "linalg")]
        Op::Cholesky(_) => linalg::cholesky::run(operands),
        #[cfg(feature = "linalg")]
        Op::DenseSolve(_) => linalg::dense_solve::run(operands),
        #[cfg(feature = "quant")]
        Op::Dequantize(op) => quant::dequantize_linear::run(op, operands),
        #[cfg(feature = "quant")]
        Op::FakeQuantize(op) => quant::fake_quantize::run(op, operands),
        #[cfg(feature = "quant")]
        Op::FakeQuantizeLsq(op) => quant::fake_quantize_lsq::run(op, operands),
        #[cfg(all(feature = "quant", feature = "vision"))]
        Op::QConv2d(op) => quant::q_conv2d::run(op, operands),
        #[cfg(feature = "quant")]
        Op::QMatMul(op) => quant::q_matmul::run(op, operands),
        #[cfg(feature = "quant")]
        Op::Quantize(op) => quant::quantize::run(op, operands),
        #[cfg(feature = "quant")]
        Op::ScaledDequantize(op) => quant::scaled_dequantize::run(op, operands),
        #[cfg(feature = "quant")]
        Op::ScaledMatMul(op) => quant::scaled_matmul::run(op, operands),
        #[cfg(feature = "quant")]
        Op::ScaledQuantize(op) => quant::scaled_quantize::run(op, operands),
        Op::Custom(op) => {
            let operands: Vec<(&Type, &[u8])> = operands.iter().map(|v| (v.ty, v.bytes)).collect();
            op.0.run(&operands)
        }
    }?;
    if out.len() != results.len() {
        let (name, need, got) = (op.name(), results.len(), out.len());
        return Err(Error::internal(format!("{name}: {got} results, its rule gives {need}")));
    }
    for (i, (bytes, ty)) in out.iter().zip(&results).enumerate() {
        fits(op, "result", i, ty, bytes.len())?;
    }
    Ok(out)
}

/// A view's bytes. Programs run no step for it; this is for [`interpret`].
fn window(
    op: &Op,
    operands: &[View<'_>],
    types: &[&Type],
    results: &[Type],
) -> Result<Vec<Vec<u8>>> {
    let bytes = match (op.alias(types), results) {
        (Alias::View { operand, byte_offset }, [ty]) => {
            let (from, len) = (byte_offset as usize, ty.bytes()? as usize);
            operands.get(operand).and_then(|v| v.bytes.get(from..)?.get(..len))
        }
        _ => None,
    };
    let bytes = bytes.ok_or_else(|| Error::internal(format!("{} is no view", op.name())))?;
    Ok(vec![bytes.to_vec()])
}

fn fits(op: &Op, what: &str, i: usize, ty: &Type, have: usize) -> Result<()> {
    let need = ty.bytes()?;
    if need == have as u64 {
        return Ok(());
    }
    Err(Error::internal(format!("{}: {what} {i} is {ty} of {need} bytes, got {have}", op.name())))
}

/// The error of an operand list that the type rule should have refused.
pub(super) fn arity(name: &str) -> Error {
    Error::internal(format!("{name}: wrong number of operands"))
}
