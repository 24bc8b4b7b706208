//! Windows of an image as columns [PyTorch unfold].

use super::window::Window;
use super::{Attrs, Class, Operator, arity, float_tensor};
use crate::error::{Error, Result};
use crate::types::{Dim, Shape, Type};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// `im2col x [N, C, ..] -> [N, C * K, L]`: column l holds, channel by channel, the K elements
/// under the kernel at position l; zeros in the padding.
#[derive(Clone, Debug, PartialEq)]
pub struct Im2Col {
    /// Size of the kernel along each spatial axis; K is the product.
    pub kernel: Vec<u64>,
    /// Stride, padding and dilation.
    pub window: Window,
}

impl Operator for Im2Col {
    const NAME: &'static str = "im2col";
    const CLASS: Class = Class::Movement;

    fn attrs(&self) -> Attrs {
        self.window.write(Attrs::none().ints("kernel", &self.kernel))
    }

    fn from_attrs(attrs: &Attrs) -> Result<Self> {
        attrs.only(&["kernel", "stride", "pad_low", "pad_high", "dilation"])?;
        Ok(Im2Col { kernel: attrs.get_ints("kernel")?, window: Window::read(attrs)? })
    }

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("im2col", operands, 1)?;
        let x = operands[0];
        float_tensor("im2col", "x", x)?;
        let [batch, channels, spatial @ ..] = x.shape.0.as_slice() else {
            return Err(Error::bad_graph(format!("im2col: x is {x}, expected [N, C, ..]")));
        };
        let mut positions = Dim::from(1u64);
        for d in self.window.outputs("im2col", spatial, &self.kernel)? {
            positions = positions.mul(&d)?;
        }
        let mut rows = channels.clone();
        for &k in &self.kernel {
            rows = rows.mul(&Dim::from(k))?;
        }
        Ok(vec![Type::tensor(x.dtype, Shape(vec![batch.clone(), rows, positions]))])
    }
}
