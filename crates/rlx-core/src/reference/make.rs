//! Makes the weights that are no copy of the file's bytes, on the host, while loading.

use crate::error::{Error, Result};
use crate::formats::decode_row;
use crate::ir::recipe::{Recipe, gather_pieces};
use crate::math::{to_bf16, to_f16};
use crate::ops::Op;
use crate::types::DType;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// Bytes of what a recipe makes; `tensor` gives those of a tensor of the file.
///
/// # Errors
/// `BadFile` for a tensor that is not there or has other bytes than its type; `Unsupported` for an
/// element type that is not decoded or made.
pub fn make<'a>(recipe: &Recipe, tensor: &dyn Fn(&str) -> Option<&'a [u8]>) -> Result<Vec<u8>> {
    let (op, of, ty) = match recipe {
        Recipe::Tensor { name, ty } => {
            let bytes = tensor(name)
                .ok_or_else(|| Error::bad_file(format!("tensor {name} never arrived")))?;
            let need = ty.bytes()?;
            if bytes.len() as u64 != need {
                let have = bytes.len();
                let what = format!("tensor {name} has {have} bytes, its type {ty} needs {need}");
                return Err(Error::bad_file(what));
            }
            return Ok(bytes.to_vec());
        }
        Recipe::Made { op, of, ty } => (op, of, ty),
    };
    if let Op::Constant(c) = op {
        return Ok(c.data.to_vec());
    }
    let operands = of.iter().map(|r| make(r, tensor)).collect::<Result<Vec<_>>>()?;
    if let Some(pieces) = recipe.pieces() {
        return gather_pieces(&pieces, &operands);
    }
    let floats = |k: usize| -> Result<Vec<f32>> {
        let (Some(recipe), Some(bytes)) = (of.get(k), operands.get(k)) else {
            return Err(Error::internal(format!("{} has no operand {k}", recipe.name())));
        };
        let mut out = vec![0.0; recipe.ty().shape.elements()? as usize];
        decode_row(recipe.ty().dtype, bytes, &mut out)?;
        Ok(out)
    };
    match op {
        Op::RopeTable(table) => {
            let factors = if of.is_empty() { None } else { Some(floats(0)?) };
            let table = table.compute(factors.as_deref());
            Ok(table.into_iter().flat_map(f32::to_le_bytes).collect())
        }
        Op::Cast(_) => encode(ty.dtype, floats(0)?.into_iter().map(f64::from)),
        Op::Map(map) => encode(ty.dtype, floats(0)?.into_iter().map(|x| map.f.eval(x.into()))),
        Op::Zip(zip) => {
            let (x, c) = (floats(0)?, floats(1)?);
            let pairs = x.iter().zip(c.iter().cycle());
            encode(ty.dtype, pairs.map(|(x, c)| zip.f.eval((*x).into(), (*c).into())))
        }
        other => Err(Error::internal(format!("the host makes no {} of {ty}", other.name()))),
    }
}

/// Each number rounded once.
fn encode(dtype: DType, x: impl Iterator<Item = f64>) -> Result<Vec<u8>> {
    Ok(match dtype {
        DType::F32 => x.flat_map(|x| (x as f32).to_le_bytes()).collect(),
        DType::F16 => x.flat_map(|x| to_f16(x).to_le_bytes()).collect(),
        DType::BF16 => x.flat_map(|x| to_bf16(x).to_le_bytes()).collect(),
        other => return Err(Error::internal(format!("the host makes no {other}"))),
    })
}
