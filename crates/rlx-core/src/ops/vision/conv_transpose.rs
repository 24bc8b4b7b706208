//! Transposed convolution: the adjoint of [`Conv`](crate::ops::Conv) [ONNX ConvTranspose].

use super::window::Window;
use crate::error::{Error, Result};
use crate::ops::{Class, Conv, Emit, Operator, Reverse, arity, attributes, expect, float_tensor};
use crate::types::{Dim, Shape, Type, ValueId};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// `conv_transpose x [N, Cin, ..], w [Cin, Cout / groups, k..], (bias [Cout]) -> [N, Cout, ..]`.
///
/// Every x[n, c, p] adds `x * w[c, o, t]` to y[n, o, p * stride + t * dilation - pad_low]; what
/// falls outside is dropped. Along an axis of n the result has
/// `(n - 1) * stride + (k - 1) * dilation + 1 + extra - pad_low - pad_high` elements.
#[derive(Clone, Debug, PartialEq)]
pub struct ConvTranspose {
    /// Stride, dilation, and what is cut off at both ends as padding.
    pub window: Window,
    /// Elements more at the high end of each axis (`output_padding` of PyTorch); less than stride or dilation.
    pub extra: Vec<u64>,
    /// Groups of channels; they divide Cin and Cout.
    pub groups: u64,
    /// Whether there is a bias.
    pub bias: bool,
}

attributes! { ConvTranspose { window, extra, groups, bias } }

impl ConvTranspose {
    /// Size along an axis.
    fn output(&self, axis: usize, input: &Dim, kernel: u64) -> Result<Dim> {
        let (w, no) = (&self.window, |why: &str| {
            Err(Error::bad_graph(format!(
                "conv_transpose: spatial axis {axis} is {input}, the padding is {} and {}; {why}",
                self.window.pad_low[axis], self.window.pad_high[axis]
            )))
        });
        // n * stride + gain - loss
        let gain = w.reach("conv_transpose", axis, kernel)? + self.extra[axis];
        let loss = w.pad_low[axis] + w.pad_high[axis] + w.stride[axis];
        let grown = input.mul(&Dim::from(w.stride[axis]))?;
        match grown.as_static() {
            Some(0) => no("an empty axis has no result"),
            Some(n) => match n.checked_add(gain).map(|n| n.checked_sub(loss)) {
                Some(Some(n)) if n > 0 => Ok(Dim::from(n)),
                _ => no("nothing is left"),
            },
            None => match gain.checked_sub(loss) {
                Some(more) => grown.add(&Dim::from(more)),
                None => grown.sub(loss - gain),
            },
        }
    }
}

impl Operator for ConvTranspose {
    const NAME: &'static str = "conv_transpose";
    const CLASS: Class = Class::Compute;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("conv_transpose", operands, 2 + usize::from(self.bias))?;
        let (x, w, axes) = (operands[0], operands[1], self.window.axes());
        float_tensor("conv_transpose", "x", x)?;
        self.window.check("conv_transpose")?;
        let no =
            |why: &str| Err(Error::bad_graph(format!("conv_transpose: x is {x}, w is {w}; {why}")));
        if x.shape.rank() != axes + 2 || w.shape.rank() != axes + 2 || w.kind != x.kind {
            return no(&format!("expected tensors with {axes} spatial axes each"));
        }
        if w.dtype != x.dtype {
            return no("expected one element type");
        }
        let Ok(kernel) = w.shape.static_dims() else { return no("w has a size that is not bound") };
        let (channels, per_group) = (kernel[0], kernel[1]);
        if self.groups == 0 || !channels.is_multiple_of(self.groups) {
            return no(&format!("{channels} channels do not split into {} groups", self.groups));
        }
        if x.shape.0[1] != Dim::from(channels) {
            return no(&format!("w is for {channels} channels"));
        }
        let larger =
            |(i, &n): (usize, &u64)| n >= self.window.stride[i].max(self.window.dilation[i]);
        if self.extra.len() != axes || self.extra.iter().enumerate().any(larger) {
            return no(&format!(
                "extra is {:?}, expected one number less than stride or dilation for each axis",
                self.extra
            ));
        }
        let outputs = Dim::from(per_group).mul(&Dim::from(self.groups))?;
        let mut dims = vec![x.shape.0[0].clone(), outputs.clone()];
        for (i, &k) in kernel[2..].iter().enumerate() {
            dims.push(self.output(i, &x.shape.0[2 + i], k)?);
        }
        if self.bias {
            let need = Type::tensor(x.dtype, Shape(vec![outputs.clone()]));
            expect("conv_transpose", "bias", operands[2], &need)?;
        }
        Ok(vec![Type::tensor(x.dtype, Shape(dims))])
    }

    /// A convolution of x with zeros between its elements and the filters turned round. `None` where
    /// a cut leaves nothing of an axis.
    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let [x, w, bias @ ..] = operands else { return Ok(None) };
        let axes = self.window.axes();
        let (dims, kernel) = (e.dims(*x), e.ty(*w).shape.static_dims()?);
        let (mut apart, mut spread, mut zeros) =
            (dims[..2].to_vec(), dims[..2].to_vec(), vec![0; 2 + 2 * axes]);
        let (mut low, mut high) = (Vec::new(), Vec::new());
        for i in 0..axes {
            let stride = self.window.stride[i];
            apart.extend([dims[2 + i].clone(), Dim::from(1u64)]);
            spread.push(dims[2 + i].mul(&Dim::from(stride))?);
            zeros[3 + 2 * i] = stride - 1;
            let reach = self.window.reach(Self::NAME, i, kernel[2 + i])? as i64 - 1;
            low.push(reach - self.window.pad_low[i] as i64);
            // The zeros behind the last element count as padding.
            let behind = self.extra[i] as i64 - stride as i64 + 1;
            high.push(reach - self.window.pad_high[i] as i64 + behind);
        }
        // What is cut off before and behind, and what stays.
        let mut cuts = Vec::new();
        for i in 0..axes {
            let (from, less) = (low[i].min(0).unsigned_abs(), high[i].min(0).unsigned_abs());
            match spread[2 + i].sub(from + less) {
                _ if from + less == 0 => {}
                Ok(len) => cuts.push((2 + i, Dim::from(from), len)),
                Err(_) => return Ok(None),
            }
        }
        let y = e.reshape(*x, &apart)?;
        let y = e.pad(y, &vec![0; zeros.len()], &zeros, 0.0)?;
        let mut y = e.reshape(y, &spread)?;
        for (axis, from, len) in &cuts {
            y = e.slice(y, *axis, from.clone(), len.clone())?;
        }
        let positive =
            |list: &[i64]| -> Vec<u64> { list.iter().map(|&n| n.max(0) as u64).collect() };
        let window = Window::new(axes)
            .dilation(&self.window.dilation)
            .pad(&positive(&low), &positive(&high));
        // [Cin, Cout / g, k..] to [Cout, Cin / g, k..], each filter from its end.
        let (groups, taps) = (self.groups, &kernel[2..]);
        let sizes =
            |list: &[u64]| -> Vec<Dim> { list.iter().chain(taps).map(|&n| Dim::from(n)).collect() };
        let w = e.reshape(*w, &sizes(&[groups, kernel[0] / groups, kernel[1]]))?;
        let perm: Vec<usize> = [0, 2, 1].into_iter().chain(3..3 + axes).collect();
        let w = e.transpose(w, &perm)?;
        let w = e.reshape(w, &sizes(&[groups * kernel[1], kernel[0] / groups]))?;
        let w = e.one(Reverse { axes: (2..2 + axes).collect() }, &[w])?;
        let inputs: Vec<ValueId> = [y, w].iter().chain(bias).copied().collect();
        Ok(Some(vec![e.one(Conv { window, groups, bias: self.bias }, &inputs)?]))
    }
}
