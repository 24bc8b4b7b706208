//! Rounding to the values of a quantised type, in floats: what training with quantisation sees.

use super::quantize::{along, spread};
use crate::error::{Error, Result};
use crate::ops::{
    Binary, Clamp, Class, Compare, Comparison, Constant, Emit, Operator, Reduce, Reduction, Select,
    Unary, arity, attributes, expect, float_tensor, named,
};
use crate::types::{Type, ValueId};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// Where the scale comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FakeScale {
    /// The largest magnitude of x (of each index of the axis) over the largest integer.
    PerBatch,
    /// An operand.
    Fixed,
    /// An operand too: the moving average that training kept. Inference reads it and leaves it.
    Ema,
}

/// What gradients pass through the rounding (arXiv:1308.3432). The value is the same for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StraightThrough {
    /// The gradient as it is.
    Identity,
    /// Zero where the value was clamped.
    ClippedIdentity,
    /// Times the derivative of tanh.
    Tanh,
    /// Times the derivative of hard tanh.
    HardTanh,
}

impl FakeScale {
    const ALL: [(FakeScale, &'static str); 3] =
        [(FakeScale::PerBatch, "per_batch"), (FakeScale::Fixed, "fixed"), (FakeScale::Ema, "ema")];

    /// The name in text IR.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// The source of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|row| row.1 == name).map(|row| row.0)
    }
}

named!(FakeScale, "scale");

impl StraightThrough {
    const ALL: [(StraightThrough, &'static str); 4] = [
        (StraightThrough::Identity, "identity"),
        (StraightThrough::ClippedIdentity, "clipped_identity"),
        (StraightThrough::Tanh, "tanh"),
        (StraightThrough::HardTanh, "hard_tanh"),
    ];

    /// The name in text IR.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// The estimator of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|row| row.1 == name).map(|row| row.0)
    }
}

named!(StraightThrough, "gradient");

/// `fake_quantize x, (scale) -> x's type`: `clamp(round(x / scale), -q, q) * scale` with
/// `q = 2^(bits - 1) - 1`, ties to even; a scale of 0 gives 0.
///
/// The scale is `[]`, or `[C]` along `axis`.
#[derive(Clone, Debug, PartialEq)]
pub struct FakeQuantize {
    /// 8, 4 or 2.
    pub bits: u64,
    /// The axis that has scales of its own; `None` for one scale.
    pub axis: Option<usize>,
    /// Where the scale comes from.
    pub scale: FakeScale,
    /// What gradients pass through.
    pub gradient: StraightThrough,
}

attributes! { FakeQuantize { bits, axis, scale, gradient } }

impl Operator for FakeQuantize {
    const NAME: &'static str = "fake_quantize";
    const CLASS: Class = Class::Elementwise;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("fake_quantize", operands, 1 + usize::from(self.scale != FakeScale::PerBatch))?;
        let x = operands[0];
        float_tensor("fake_quantize", "x", x)?;
        levels("fake_quantize", self.bits)?;
        let shape = along("fake_quantize", x, self.axis)?;
        if let Some(scale) = operands.get(1) {
            expect("fake_quantize", "scale", scale, &Type::tensor(x.dtype, shape))?;
        }
        Ok(vec![x.clone()])
    }

    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let [x, scale @ ..] = operands else { return Ok(None) };
        let (dtype, rank) = (e.ty(*x).dtype, e.dims(*x).len());
        let most = levels(Self::NAME, self.bits)? - 1.0;
        let x = e.wide(*x)?;
        let scale = match scale.first() {
            Some(&scale) => e.wide(scale)?,
            None => {
                let magnitudes = e.map(Unary::Abs, x)?;
                let axes: Vec<usize> = (0..rank).filter(|&i| Some(i) != self.axis).collect();
                let largest =
                    e.one(Reduce { f: Reduction::Max, axes, keep: false }, &[magnitudes])?;
                let scale = e.zip_number(Binary::Div, largest, most)?;
                // As it would be stored.
                let scale = e.cast(scale, dtype)?;
                e.wide(scale)?
            }
        };
        let scale = spread(e, scale, self.axis, rank)?;
        let y = stepped(e, x, scale, |e, y| {
            let y = e.map(Unary::Round, y)?;
            e.one(Clamp { min: -most as f32, max: most as f32 }, &[y])
        })?;
        Ok(Some(vec![e.cast(y, dtype)?]))
    }
}

/// `2^(bits - 1)` for 8, 4 or 2 bits.
pub(crate) fn levels(name: &str, bits: u64) -> Result<f64> {
    match bits {
        8 => Ok(128.0),
        4 => Ok(8.0),
        2 => Ok(2.0),
        _ => Err(Error::bad_graph(format!("{name}: bits is {bits}, expected 8, 4 or 2"))),
    }
}

/// `f(x / scale) * scale`, 0 where the scale is 0.
pub(super) fn stepped(
    e: &mut dyn Emit,
    x: ValueId,
    scale: ValueId,
    f: impl FnOnce(&mut dyn Emit, ValueId) -> Result<ValueId>,
) -> Result<ValueId> {
    let dtype = e.ty(scale).dtype;
    let (zero, one) = (Constant::scalar(dtype, 0.0)?, Constant::scalar(dtype, 1.0)?);
    let (zero, one) = (e.one(zero, &[])?, e.one(one, &[])?);
    let none = e.one(Compare { f: Comparison::Eq }, &[scale, zero])?;
    let divisor = e.one(Select, &[none, one, scale])?;
    let y = e.zip(Binary::Div, x, divisor)?;
    let y = f(e, y)?;
    e.mul(y, scale)
}
