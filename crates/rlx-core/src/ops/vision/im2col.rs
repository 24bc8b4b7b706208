//! Windows of an image as columns [PyTorch unfold].

use super::window::Window;
use crate::error::{Error, Result};
use crate::ops::{Class, Concat, Emit, Operator, Slice, arity, attributes, float_tensor};
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

attributes! { Im2Col { kernel, window } }

impl Operator for Im2Col {
    const NAME: &'static str = "im2col";
    const CLASS: Class = Class::Movement;

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

    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let &[x] = operands else { return Ok(None) };
        let result = self.infer(&[e.ty(x)])?;
        if !few(&self.kernel) {
            return Ok(None);
        }
        let outputs = self.window.outputs(Self::NAME, &e.dims(x)[2..], &self.kernel)?;
        let x = padded(e, x, &self.window, 0.0)?;
        let y = columns(e, x, &self.kernel, &self.window, &outputs)?;
        Ok(Some(vec![e.reshape(y, &result[0].shape.0)?]))
    }
}

/// True for a kernel of so many taps that a slice for each is no nonsense.
pub(super) fn few(kernel: &[u64]) -> bool {
    kernel.iter().try_fold(1u64, |n, &k| n.checked_mul(k)).is_some_and(|n| n <= 1024)
}

/// x with the window's padding around its spatial axes.
pub(super) fn padded(e: &mut dyn Emit, x: ValueId, w: &Window, fill: f32) -> Result<ValueId> {
    let ends = |list: &[u64]| -> Vec<u64> { [0, 0].iter().chain(list).copied().collect() };
    e.pad(x, &ends(&w.pad_low), &ends(&w.pad_high), fill)
}

/// `[N, C, K, L]` of an x that has its padding already, with `outputs` positions along each axis:
/// one slice for each tap, or for windows that tile x, a transpose.
pub(super) fn columns(
    e: &mut dyn Emit,
    x: ValueId,
    kernel: &[u64],
    window: &Window,
    outputs: &[Dim],
) -> Result<ValueId> {
    let dims = e.dims(x);
    let mut places = Dim::from(1u64);
    for d in outputs {
        places = places.mul(d)?;
    }
    let sizes = |k: u64| vec![dims[0].clone(), dims[1].clone(), k.into(), places.clone()];
    if let Some(y) = tiles(e, x, kernel, window, outputs)? {
        return e.reshape(y, &sizes(kernel.iter().product()));
    }
    let mut taps = vec![x];
    for (i, &k) in kernel.iter().enumerate() {
        let mut next = Vec::new();
        for v in taps {
            for tap in 0..k {
                let (axis, start) = (2 + i, Dim::from(tap * window.dilation[i]));
                let (len, step) = (outputs[i].clone(), window.stride[i] as i64);
                next.push(e.one(Slice { axis, start, len, step }, &[v])?);
            }
        }
        taps = next;
    }
    let taps: Vec<ValueId> =
        taps.into_iter().map(|v| e.reshape(v, &sizes(1))).collect::<Result<_>>()?;
    e.one(Concat { axis: 2 }, &taps)
}

/// `[N, C, k.., out..]` of windows that lie side by side and cover x.
fn tiles(
    e: &mut dyn Emit,
    x: ValueId,
    kernel: &[u64],
    window: &Window,
    outputs: &[Dim],
) -> Result<Option<ValueId>> {
    let (dims, axes) = (e.dims(x), kernel.len());
    let mut apart = dims[..2].to_vec();
    for (i, &k) in kernel.iter().enumerate() {
        let covered = outputs[i].mul(&Dim::from(k))? == dims[2 + i];
        if window.stride[i] != k || window.dilation[i] != 1 || !covered {
            return Ok(None);
        }
        apart.extend([outputs[i].clone(), Dim::from(k)]);
    }
    let y = e.reshape(x, &apart)?;
    let taps = (0..axes).map(|i| 3 + 2 * i);
    let places = (0..axes).map(|i| 2 + 2 * i);
    let perm: Vec<usize> = [0, 1].into_iter().chain(taps).chain(places).collect();
    e.transpose(y, &perm).map(Some)
}
