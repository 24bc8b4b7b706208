//! Small floats with scales to floats.

use super::scaling::Scaling;
use crate::error::Result;
use crate::ops::{Class, Emit, Operator, ScaleLayout, arity, attributes};
use crate::types::{DType, Dim, Type, ValueId};
use alloc::vec;
use alloc::vec::Vec;

/// `scaled_dequantize codes u8, scales -> f32`, the shape of codes: `decode(code) * scale`.
#[derive(Clone, Debug, PartialEq)]
pub struct ScaledDequantize {
    /// Format and scales.
    pub scaling: Scaling,
}

attributes! { ScaledDequantize { scaling } }

impl Operator for ScaledDequantize {
    const NAME: &'static str = "scaled_dequantize";
    const CLASS: Class = Class::Elementwise;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("scaled_dequantize", operands, 2)?;
        let codes = operands[0];
        self.scaling.check("scaled_dequantize", "codes", codes, operands[1])?;
        Ok(vec![Type::tensor(DType::F32, codes.shape.clone())])
    }

    /// Codes and bytes of scales are looked up in tables.
    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let &[codes, scales] = operands else { return Ok(None) };
        let dims = e.dims(codes);
        let values = looked_up(e, codes, |code| self.scaling.format.decode(code))?;
        let y = match (self.scaling.layout, dims.as_slice()) {
            (ScaleLayout::Block { rows, columns, .. }, [lead @ .., m, k]) => {
                let scales_dims = e.dims(scales);
                let [.., down, across] = scales_dims.as_slice() else { return Ok(None) };
                let sizes =
                    |four: [Dim; 4]| -> Vec<Dim> { lead.iter().cloned().chain(four).collect() };
                let (one, r, c) = (Dim::from(1u64), Dim::from(rows), Dim::from(columns));
                let apart = sizes([down.clone(), one.clone(), across.clone(), one]);
                let scales = e.reshape(scales, &apart)?;
                let scales =
                    e.expand(scales, &sizes([down.clone(), r.clone(), across.clone(), c.clone()]))?;
                let whole = [down.mul(&r)?, across.mul(&c)?];
                let scales =
                    e.reshape(scales, &lead.iter().cloned().chain(whole).collect::<Vec<_>>())?;
                let axis = lead.len();
                let scales = e.slice(scales, axis, 0u64, m.clone())?;
                let scales = e.slice(scales, axis + 1, 0u64, k.clone())?;
                e.mul(values, scales)?
            }
            (ScaleLayout::Mx | ScaleLayout::Nvfp4, [lead @ .., _]) => {
                let group = Dim::from(self.scaling.group().unwrap_or(1));
                let scales = looked_up(e, scales, |code| self.scaling.scale_value(code))?;
                let groups = e.ty(scales).shape.last();
                let sizes = |n: Dim| -> Vec<Dim> {
                    lead.iter().cloned().chain([groups.clone(), n]).collect()
                };
                let scales = e.reshape(scales, &sizes(1u64.into()))?;
                let values = e.reshape(values, &sizes(group))?;
                let y = e.mul(values, scales)?;
                e.reshape(y, &dims)?
            }
            _ => e.mul(values, scales)?,
        };
        Ok(Some(vec![y]))
    }
}

/// The f32 of every byte, from a table.
fn looked_up(e: &mut dyn Emit, codes: ValueId, value: impl Fn(u8) -> f64) -> Result<ValueId> {
    let table: Vec<f64> = (0..=u8::MAX).map(value).collect();
    let table = e.constant(DType::F32, &[256], &table)?;
    let ids = e.cast(codes, DType::U32)?;
    e.gather(table, 0, ids)
}
