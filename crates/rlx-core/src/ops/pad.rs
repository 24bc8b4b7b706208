//! Elements around a tensor.

use super::{Attrs, Class, Concat, Emit, Field, Operator, arity, attributes, rules};
use crate::error::{Error, Result};
use crate::types::{Dim, Shape, Type, ValueId};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// What stands around a tensor `a b c d`, three to each side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PadMode {
    /// `v v v a b c d v v v`
    Constant(f32),
    /// `d c b a b c d c b a`: the edge is not repeated, so an axis has more elements than are added
    Reflect,
    /// `a a a a b c d d d d`
    Replicate,
    /// `b c d a b c d a b c`: at most as many as the axis has
    Circular,
}

impl PadMode {
    /// The name in text IR.
    pub fn name(self) -> &'static str {
        match self {
            Self::Constant(_) => "constant",
            Self::Reflect => "reflect",
            Self::Replicate => "replicate",
            Self::Circular => "circular",
        }
    }

    /// Elements that an axis needs, so that `n` can be added at one of its ends.
    fn needs(self, n: u64) -> u64 {
        match self {
            _ if n == 0 => 0,
            Self::Constant(_) => 0,
            Self::Reflect => n.saturating_add(1),
            Self::Replicate => 1,
            Self::Circular => n,
        }
    }
}

/// `pad x -> y`: `low[i]` elements before and `high[i]` behind axis `i`. Floats, integers or bool;
/// a constant is cast to their type. PyTorch `pad`, ONNX `Pad` (whose `edge` is replicate, `wrap`
/// circular).
#[derive(Clone, Debug, PartialEq)]
pub struct Pad {
    /// Elements before, one entry an axis.
    pub low: Vec<u64>,
    /// Elements behind, one entry an axis.
    pub high: Vec<u64>,
    /// What they are.
    pub mode: PadMode,
}

attributes! { Pad { low, high, mode } }

/// A constant has an attribute of its own, `value`, 0 where it is absent.
impl Field for PadMode {
    fn put(&self, name: &str, attrs: Attrs) -> Attrs {
        let attrs = attrs.name(name, self.name());
        match *self {
            PadMode::Constant(value) => attrs.float("value", value),
            _ => attrs,
        }
    }

    fn take(_: &str, name: &str, attrs: &Attrs) -> Result<Self> {
        let value = attrs.opt_float("value")?;
        Ok(match (attrs.get_name(name)?, value) {
            ("constant", value) => PadMode::Constant(value.unwrap_or(0.0)),
            ("reflect", None) => PadMode::Reflect,
            ("replicate", None) => PadMode::Replicate,
            ("circular", None) => PadMode::Circular,
            (other, None) => return Err(Error::bad_graph(format!("pad: unknown mode {other}"))),
            (other, _) => return Err(Error::bad_graph(format!("pad: mode {other} has no value"))),
        })
    }

    fn names(name: &'static str, out: &mut Vec<&'static str>) {
        out.extend([name, "value"]);
    }
}

impl Operator for Pad {
    const NAME: &'static str = "pad";
    const CLASS: Class = Class::Movement;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("pad", operands, 1)?;
        let x = operands[0];
        rules::scalar_tensor("pad", "x", x)?;
        let rank = x.shape.rank();
        if self.low.len() != rank || self.high.len() != rank {
            return Err(Error::bad_graph(format!(
                "pad: x is {x}, low is {:?}, high is {:?}; expected an entry an axis",
                self.low, self.high
            )));
        }
        let mut dims = Vec::with_capacity(rank);
        for (i, d) in x.shape.0.iter().enumerate() {
            let (low, high) = (self.low[i], self.high[i]);
            let needs = self.mode.needs(low).max(self.mode.needs(high));
            if d.as_static().is_some_and(|n| n < needs) {
                return Err(Error::bad_graph(format!(
                    "pad: x is {x}; axis {i} has too few elements for {} of {low} and {high}, {needs} at least",
                    self.mode.name()
                )));
            }
            dims.push(d.add(&Dim::from(low))?.add(&Dim::from(high))?);
        }
        Ok(vec![Type::tensor(x.dtype, Shape(dims))])
    }
    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let &[x] = operands else { return Err(Error::internal("pad: arity was checked")) };
        let mut y = x;
        for (axis, (&low, &high)) in self.low.iter().zip(&self.high).enumerate() {
            if low == 0 && high == 0 {
                continue;
            }
            let mut dims = e.ty(y).shape.0.clone();
            let n = dims[axis].as_static();
            let mut run = Vec::with_capacity(3);
            for (count, is_low) in [(low, true), (high, false)] {
                let piece = match (self.mode, n) {
                    _ if count == 0 => None,
                    (PadMode::Constant(value), _) => {
                        let value = e.like(y, value.into())?;
                        dims[axis] = count.into();
                        Some(e.expand(value, &dims)?)
                    }
                    // The end of an axis that is no number has no index.
                    (_, None) => return Ok(None),
                    (PadMode::Replicate, Some(n)) => {
                        let at = if is_low { 0 } else { n.saturating_sub(1) };
                        let edge = e.slice(y, axis, at, 1u64)?;
                        dims[axis] = count.into();
                        Some(e.expand(edge, &dims)?)
                    }
                    (PadMode::Reflect, Some(n)) => {
                        let at = if is_low { count } else { n.saturating_sub(2) };
                        Some(e.slice_back(y, axis, at, count)?)
                    }
                    (PadMode::Circular, Some(n)) => {
                        let at = if is_low { n.saturating_sub(count) } else { 0 };
                        Some(e.slice(y, axis, at, count)?)
                    }
                };
                run.extend(piece);
                if is_low {
                    run.push(y);
                }
            }
            y = e.one(Concat { axis }, &run)?;
        }
        Ok(Some(vec![if y == x { e.whole(x)? } else { y }]))
    }
}
