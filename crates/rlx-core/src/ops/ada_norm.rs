//! Adaptive norm: scale and shift come from a condition (DiT, arXiv:2212.09748).

use super::def::broadcast::repeats;
use super::def::rules::floats;
use super::{Binary, Class, Emit, Operator, arity, attributes, named};
use crate::error::Result;
use crate::types::{Type, ValueId};
use alloc::vec;
use alloc::vec::Vec;

/// Which norm, without weights of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NormKind {
    /// `(x - mean) / sqrt(var + eps)`
    LayerNorm,
    /// `x / sqrt(mean(x^2) + eps)`
    RmsNorm,
}

impl NormKind {
    const ALL: [(NormKind, &'static str); 2] =
        [(NormKind::LayerNorm, "layer_norm"), (NormKind::RmsNorm, "rms_norm")];

    /// The name in text IR.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// The norm of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|row| row.1 == name).map(|row| row.0)
    }
}

named!(NormKind, "norm");

/// `ada_norm x [.., D], scale, shift -> [.., D]`: `norm(x) * (1 + scale) + shift` over the last
/// axis. Scale and shift repeat to x as NumPy does it: `[B, 1, D]` is one pair for each item.
#[derive(Clone, Debug, PartialEq)]
pub struct AdaNorm {
    /// Which norm.
    pub norm: NormKind,
    /// Added to the variance or the mean square.
    pub eps: f32,
}

attributes! { AdaNorm { norm, eps } }

impl Operator for AdaNorm {
    const NAME: &'static str = "ada_norm";
    const CLASS: Class = Class::Reduction;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("ada_norm", operands, 3)?;
        let x = operands[0];
        floats("ada_norm", x, 1)?;
        repeats("ada_norm", "scale", operands[1], x)?;
        repeats("ada_norm", "shift", operands[2], x)?;
        Ok(vec![x.clone()])
    }

    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let &[x, scale, shift] = operands else { return Ok(None) };
        let (dtype, last) = (e.ty(x).dtype, e.dims(x).len() - 1);
        let y = e.normalise(x, &[last], self.eps, self.norm == NormKind::LayerNorm)?;
        let (scale, shift) = (e.wide(scale)?, e.wide(shift)?);
        let scale = e.zip_number(Binary::Add, scale, 1.0)?;
        let y = e.mul(y, scale)?;
        let y = e.add(y, shift)?;
        Ok(Some(vec![e.cast(y, dtype)?]))
    }
}
