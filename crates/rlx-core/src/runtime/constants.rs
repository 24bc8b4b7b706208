//! Makes the weights that are no copy of the file's bytes, on the host, while loading.

use crate::error::{Error, Result};
use crate::ir::recipe::{Recipe, Transform, gather_pieces};
use crate::reference::dequantize::decode_row;
use crate::types::{DType, Type};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use half::{bf16, f16};

/// Bytes of what a recipe makes; `tensor` gives those of a tensor of the file.
///
/// # Errors
/// `BadFile` for a tensor that is not there or has other bytes than its type; `Unsupported` for an
/// element type that is not decoded or made.
pub fn make<'a>(recipe: &Recipe, tensor: &dyn Fn(&str) -> Option<&'a [u8]>) -> Result<Vec<u8>> {
    let (transform, of, ty) = match recipe {
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
        Recipe::Constant { bytes, .. } => return Ok(bytes.to_vec()),
        Recipe::Made { transform, of, ty } => (transform, of, ty),
    };
    let operands = of.iter().map(|r| make(r, tensor)).collect::<Result<Vec<_>>>()?;
    let types: Vec<&Type> = of.iter().map(Recipe::ty).collect();
    if let Some(pieces) = transform.pieces(&types, ty) {
        return gather_pieces(&pieces, &operands);
    }
    let floats = || -> Result<Vec<f32>> {
        let (Some(ty), Some(bytes)) = (types.first(), operands.first()) else {
            return Err(Error::internal("a transform of nothing"));
        };
        let mut out = vec![0.0; ty.shape.elements()? as usize];
        decode_row(ty.dtype, bytes, &mut out)?;
        Ok(out)
    };
    match transform {
        Transform::RopeTable(table) => {
            let factors = if of.is_empty() { None } else { Some(floats()?) };
            let table = table.compute(factors.as_deref());
            Ok(table.into_iter().flat_map(f32::to_le_bytes).collect())
        }
        Transform::Cast => encode(ty.dtype, floats()?),
        Transform::AddConstant(c) => {
            encode(ty.dtype, floats()?.into_iter().map(|x| (f64::from(x) + c) as f32).collect())
        }
        other => Err(Error::internal(format!("{other:?} of {ty} has too many pieces"))),
    }
}

fn encode(dtype: DType, x: Vec<f32>) -> Result<Vec<u8>> {
    Ok(match dtype {
        DType::F32 => x.into_iter().flat_map(f32::to_le_bytes).collect(),
        DType::F16 => x.into_iter().flat_map(|x| f16::from_f32(x).to_le_bytes()).collect(),
        DType::BF16 => x.into_iter().flat_map(|x| bf16::from_f32(x).to_le_bytes()).collect(),
        other => return Err(Error::internal(format!("the host makes no {other}"))),
    })
}
