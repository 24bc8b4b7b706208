//! Sums, means, extremes and products along axes.

use super::{Binary, Class, Emit, Operator, Reduction, arity, attributes, rules};
use crate::error::{Error, Result};
use crate::types::{Dim, Shape, Type, ValueId};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// `reduce x -> y`: `f` of all elements along `axes`, which go, or stay with size 1. Floats or
/// integers (which have no mean), accumulated wide and rounded once.
#[derive(Clone, Debug, PartialEq)]
pub struct Reduce {
    /// The function.
    pub f: Reduction,
    /// The axes, ascending. None at all is the identity.
    pub axes: Vec<usize>,
    /// Whether the axes stay, with size 1.
    pub keep: bool,
}

attributes! { Reduce { f, axes, keep } }

/// The shape without axes, or with 1 in their place.
pub(super) fn without(shape: &Shape, axes: &[usize], keep: bool) -> Shape {
    let axis = |(i, d): (usize, &Dim)| match (axes.contains(&i), keep) {
        (false, _) => Some(d.clone()),
        (true, true) => Some(Dim::from(1u64)),
        (true, false) => None,
    };
    Shape(shape.0.iter().enumerate().filter_map(axis).collect())
}

impl Operator for Reduce {
    const NAME: &'static str = "reduce";
    const CLASS: Class = Class::Reduction;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("reduce", operands, 1)?;
        let x = operands[0];
        rules::number_tensor("reduce", "x", x)?;
        rules::has_axes("reduce", x, &self.axes)?;
        if self.f == Reduction::Mean && !x.dtype.is_float() {
            return Err(Error::bad_graph(format!("reduce: x is {x}, a mean is of floats")));
        }
        Ok(vec![Type::tensor(x.dtype, without(&x.shape, &self.axes, self.keep))])
    }
    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let &[x] = operands else { return Err(Error::internal("reduce: arity was checked")) };
        let ty = e.ty(x).clone();
        let count = self
            .axes
            .iter()
            .try_fold(1.0, |n, &axis| ty.shape.0.get(axis)?.as_static().map(|d| n * d as f64));
        let (Reduction::Mean, Some(count)) = (self.f, count) else { return Ok(None) };
        let x = e.wide(x)?;
        let sum = e.one(Reduce { f: Reduction::Sum, ..self.clone() }, &[x])?;
        let mean = e.zip_number(Binary::Mul, sum, 1.0 / count)?;
        Ok(Some(vec![e.cast(mean, ty.dtype)?]))
    }
}
