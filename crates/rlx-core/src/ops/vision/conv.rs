//! Convolution (a cross-correlation, as everywhere in the field) [ONNX Conv].

use super::window::Window;
use crate::error::{Error, Result};
use crate::ops::{Class, Emit, Im2Col, Operator, arity, attributes, expect, float_tensor};
use crate::types::{Dim, Shape, Type, ValueId};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// `conv x [N, Cin, ..], w [Cout, Cin / groups, k..], (bias [Cout]) -> [N, Cout, ..]` over one to
/// three spatial axes; floats of one type.
///
/// `y[n, o, p] = bias[o] + sum over c, t of x[n, c, p * stride + t * dilation - pad_low] * w[o, c, t]`
/// with c in the group of o and zeros in the padding.
#[derive(Clone, Debug, PartialEq)]
pub struct Conv {
    /// Stride, padding and dilation.
    pub window: Window,
    /// Groups of channels; they divide Cin and Cout.
    pub groups: u64,
    /// Whether there is a bias.
    pub bias: bool,
}

attributes! { Conv { window, groups, bias } }

impl Operator for Conv {
    const NAME: &'static str = "conv";
    const CLASS: Class = Class::Compute;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("conv", operands, 2 + usize::from(self.bias))?;
        let (x, w) = (operands[0], operands[1]);
        float_tensor("conv", "x", x)?;
        let shape = conv_shape("conv", &self.window, self.groups, x, w)?;
        if w.dtype != x.dtype {
            return Err(Error::bad_graph(format!("conv: x is {x}, w is {w}, of another type")));
        }
        if self.bias {
            let need = Type::tensor(x.dtype, Shape(vec![shape.0[1].clone()]));
            expect("conv", "bias", operands[2], &need)?;
        }
        Ok(vec![Type::tensor(x.dtype, shape)])
    }

    /// Columns, then a product with the filters of each group.
    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let [x, w, bias @ ..] = operands else { return Ok(None) };
        let types: Vec<Type> = operands.iter().map(|&v| e.ty(v).clone()).collect();
        let result = self.infer(&types.iter().collect::<Vec<_>>())?;
        let kernel = types[1].shape.static_dims()?;
        let depth = kernel[1..].iter().product::<u64>();
        let columns = Im2Col { kernel: kernel[2..].to_vec(), window: self.window.clone() };
        let columns = e.one(columns, &[*x])?;
        let (batch, places) = (e.dims(columns)[0].clone(), e.dims(columns)[2].clone());
        let dims = vec![batch, self.groups.into(), depth.into(), places];
        let columns = e.reshape(columns, &dims)?;
        let filters = vec![self.groups.into(), (kernel[0] / self.groups).into(), depth.into()];
        let w = e.reshape(*w, &filters)?;
        let y = e.matmul(w, columns, false)?;
        let y = e.reshape(y, &result[0].shape.0)?;
        let Some(bias) = bias.first() else { return Ok(Some(vec![y])) };
        let bias = e.along(*bias, 1, result[0].shape.rank())?;
        Ok(Some(vec![e.add(y, bias)?]))
    }
}

/// `[N, Cout, ..]` of a convolution; what x and w are made of is the caller's affair.
pub(in crate::ops) fn conv_shape(
    name: &str,
    window: &Window,
    groups: u64,
    x: &Type,
    w: &Type,
) -> Result<Shape> {
    window.check(name)?;
    let axes = window.axes();
    let no = |why: &str| Err(Error::bad_graph(format!("{name}: x is {x}, w is {w}; {why}")));
    if x.shape.rank() != axes + 2 || w.shape.rank() != axes + 2 || x.kind != w.kind {
        return no(&format!("expected tensors with {axes} spatial axes each"));
    }
    let Ok(kernel) = w.shape.static_dims() else { return no("w has a size that is not bound") };
    let (outputs, depth) = (kernel[0], kernel[1]);
    if groups == 0 || !outputs.is_multiple_of(groups) {
        return no(&format!("{outputs} filters do not split into {groups} groups"));
    }
    match depth.checked_mul(groups) {
        Some(channels) if x.shape.0[1] == Dim::from(channels) => {}
        _ => return no(&format!("with {groups} groups x needs {depth} channels for each")),
    }
    let mut dims = vec![x.shape.0[0].clone(), Dim::from(outputs)];
    dims.extend(window.outputs(name, &x.shape.0[2..], &kernel[2..])?);
    Ok(Shape(dims))
}
