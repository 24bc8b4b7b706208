//! Group norm (arXiv:1803.08494) [ONNX GroupNormalization]. With one channel a group it is the
//! instance norm.

use crate::error::{Error, Result};
use crate::ops::def::rules::floats;
use crate::ops::{Class, Emit, Operator, arity, attributes, rules};
use crate::types::{Dim, DimOp, Type, ValueId};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// `group_norm x [N, C, ..], scale [C], bias [C] -> [N, C, ..]`: channels in `groups` runs, mean
/// and biased variance over each run with all its places.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupNorm {
    /// Groups; they divide C.
    pub groups: u64,
    /// Added to the variance.
    pub eps: f32,
}

attributes! { GroupNorm { groups, eps } }

impl Operator for GroupNorm {
    const NAME: &'static str = "group_norm";
    const CLASS: Class = Class::Reduction;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("group_norm", operands, 3)?;
        let x = operands[0];
        floats("group_norm", x, 2)?;
        let channels = x.shape.0[1].as_static().unwrap_or(0);
        if channels == 0 || self.groups == 0 || !channels.is_multiple_of(self.groups) {
            return Err(Error::bad_graph(format!(
                "group_norm: x is {x}, its channels do not split into {} groups",
                self.groups
            )));
        }
        for (name, v) in ["scale", "bias"].iter().zip(&operands[1..]) {
            rules::vector("group_norm", name, v, &x.shape.0[1], x.dtype)?;
        }
        Ok(vec![x.clone()])
    }

    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let &[x, scale, bias] = operands else { return Ok(None) };
        let (dtype, dims) = (e.ty(x).dtype, e.dims(x));
        let [batch, channels, places @ ..] = dims.as_slice() else { return Ok(None) };
        let groups = Dim::from(self.groups);
        let mut run = channels.apply(DimOp::FloorDiv, &groups)?;
        for d in places {
            run = run.mul(d)?;
        }
        let runs = e.reshape(x, &[batch.clone(), groups, run])?;
        let y = e.normalise(runs, &[2], self.eps, true)?;
        let y = e.reshape(y, &dims)?;
        let y = e.affine(y, 1, scale, Some(bias))?;
        Ok(Some(vec![e.cast(y, dtype)?]))
    }
}
