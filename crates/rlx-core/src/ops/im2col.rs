//! Windows of an image as columns [PyTorch unfold].

use super::build::Build;
use super::window::Window;
use super::{Attrs, Class, Concat, Emit, Operator, Slice, arity, float_tensor};
use crate::error::{Error, Result};
use crate::types::{Dim, Shape, Type, ValueId};
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

    /// One slice for each tap, or for windows that tile x, a transpose.
    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let &[x] = operands else { return Ok(None) };
        let result = self.infer(&[e.ty(x)])?;
        let (axes, mut b) = (self.window.axes(), Build(e));
        let ends = |list: &[u64]| -> Vec<u64> { [0, 0].iter().chain(list).copied().collect() };
        let x = b.pad(x, &ends(&self.window.pad_low), &ends(&self.window.pad_high), 0.0)?;
        let (dims, plain) = (b.dims(x), Window::new(axes).stride(&self.window.stride));
        let plain = plain.dilation(&self.window.dilation);
        let outputs = plain.outputs(Self::NAME, &dims[2..], &self.kernel)?;
        if let Some(y) = self.tiles(&mut b, x, &outputs)? {
            return Ok(Some(vec![b.reshape(y, result[0].shape.0.clone())?]));
        }
        let mut taps = vec![x];
        for i in 0..axes {
            let mut next = Vec::new();
            for v in taps {
                for tap in 0..self.kernel[i] {
                    let (axis, start) = (2 + i, Dim::from(tap * self.window.dilation[i]));
                    let (len, step) = (outputs[i].clone(), self.window.stride[i] as i64);
                    next.push(b.one(Slice { axis, start, len, step }, &[v])?);
                }
            }
            taps = next;
        }
        let columns = vec![dims[0].clone(), dims[1].clone(), 1u64.into(), result[0].shape.last()];
        let taps: Vec<ValueId> =
            taps.into_iter().map(|v| b.reshape(v, columns.clone())).collect::<Result<_>>()?;
        let y = b.one(Concat { axis: 2 }, &taps)?;
        Ok(Some(vec![b.reshape(y, result[0].shape.0.clone())?]))
    }
}

impl Im2Col {
    /// `[N, C, k.., out..]` of windows that lie side by side and cover x.
    fn tiles(&self, b: &mut Build<'_>, x: ValueId, outputs: &[Dim]) -> Result<Option<ValueId>> {
        let (dims, axes) = (b.dims(x), self.window.axes());
        let mut apart = dims[..2].to_vec();
        for i in 0..axes {
            let k = self.kernel[i];
            let covered = outputs[i].mul(&Dim::from(k))? == dims[2 + i];
            if self.window.stride[i] != k || self.window.dilation[i] != 1 || !covered {
                return Ok(None);
            }
            apart.extend([outputs[i].clone(), Dim::from(k)]);
        }
        let y = b.reshape(x, apart)?;
        let taps = (0..axes).map(|i| 3 + 2 * i);
        let places = (0..axes).map(|i| 2 + 2 * i);
        let perm: Vec<usize> = [0, 1].into_iter().chain(taps).chain(places).collect();
        b.transpose(y, &perm).map(Some)
    }
}
