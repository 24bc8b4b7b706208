//! A convolution of 8-bit integers, requantised [ONNX QLinearConv].

use super::q_matmul::{I8, Requantize};
use crate::error::{Error, Result};
use crate::ops::vision::conv::conv_shape;
use crate::ops::{Attrs, Class, Conv, Emit, Field, Operator, Window, arity};
use crate::types::{Type, ValueId};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// `q_conv2d x [N, Cin, H, W] i8, w [Cout, Cin / groups, kh, kw] i8, (bias [Cout] i32)
/// -> [N, Cout, H', W'] i8`: sums of `(x - x_zero) * (w - w_zero)`, then [`Requantize`]. Padding is
/// x_zero: it adds nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct QConv2d {
    /// Stride, padding and dilation of both axes.
    pub window: Window,
    /// Groups of channels; they divide Cin and Cout.
    pub groups: u64,
    /// Zero points, multiplier, bias.
    pub requantize: Requantize,
}

/// Errors name the groups before the window, which prints first.
impl Field for QConv2d {
    fn put(&self, _: &str, attrs: Attrs) -> Attrs {
        let attrs = self.window.put("window", attrs).int("groups", self.groups);
        self.requantize.put("requantize", attrs)
    }

    fn take(of: &str, _: &str, attrs: &Attrs) -> Result<Self> {
        Ok(QConv2d {
            window: Window::take(of, "window", attrs)?,
            groups: attrs.get_int("groups")?,
            requantize: Requantize::take(of, "requantize", attrs)?,
        })
    }

    fn names(_: &'static str, out: &mut Vec<&'static str>) {
        out.push("groups");
        Window::names("window", out);
        Requantize::names("requantize", out);
    }
}

impl Operator for QConv2d {
    const NAME: &'static str = "q_conv2d";
    const CLASS: Class = Class::Compute;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("q_conv2d", operands, 2 + usize::from(self.requantize.bias))?;
        if self.window.axes() != 2 {
            return Err(Error::bad_graph(format!(
                "q_conv2d: the window has {} axes, expected 2",
                self.window.axes()
            )));
        }
        let (x, w) = (operands[0], operands[1]);
        let shape = conv_shape("q_conv2d", &self.window, self.groups, x, w)?;
        self.requantize.check("q_conv2d", operands, &shape.0[1])?;
        Ok(vec![Type::tensor(I8, shape)])
    }

    /// In f64, which holds every sum exactly.
    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let [x, w, bias @ ..] = operands else { return Ok(None) };
        let x = self.requantize.centred(e, *x, self.requantize.x_zero)?;
        let w = self.requantize.centred(e, *w, self.requantize.w_zero)?;
        let conv = Conv { window: self.window.clone(), groups: self.groups, bias: false };
        let sums = e.one(conv, &[x, w])?;
        Ok(Some(vec![self.requantize.finish(e, sums, bias.first().copied(), 1)?]))
    }
}
