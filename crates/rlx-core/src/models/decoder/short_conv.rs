//! A layer's gated short convolution: LFM2's (Liquid AI 2025, arXiv:2511.23404, section 2).

use super::Builder;
use super::names::Part;
use crate::error::Result;
use crate::ir::hir::{CausalConv1d, Module, Tensor};
use crate::models::widen::widened;
use crate::ops::Reshape;
use crate::types::{Dim, Shape};
use alloc::format;

/// `out(c * conv(b * x))`, of which `b`, `c` and `x` are rows of one projection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShortConv {
    /// Taps: a row's own, and those of the rows before it.
    pub kernel: u64,
}

impl Builder<'_> {
    pub(super) fn short_conv(
        &self,
        m: &mut Module,
        h: Tensor,
        conv: ShortConv,
        i: usize,
    ) -> Result<Tensor> {
        let dim = self.model.dim;
        let at = |part| self.names.layer(i, part);
        let label = |part: &str| format!("blk.{i}.conv_{part}");
        let whole = self.tensors.linear_biased(&at(Part::ConvIn), [3 * dim, dim], Some(false))?;
        let bcx = m.linear(h, whole, &label("bcx"));
        let y = self.causal_conv(m, bcx, [dim, conv.kernel], None, true, i)?;
        let out = self.tensors.linear_biased(&at(Part::ConvOut), [dim, dim], Some(false))?;
        Ok(m.linear(y, out, &label("output")))
    }

    /// A convolution of each channel over the rows up to its own, with gates of the rows or without.
    pub(super) fn causal_conv(
        &self,
        m: &mut Module,
        x: Tensor,
        [channels, kernel]: [u64; 2],
        act: Option<crate::ops::Unary>,
        gated: bool,
        i: usize,
    ) -> Result<Tensor> {
        let name = format!("{}.weight", self.names.layer(i, Part::Conv));
        let label = format!("blk.{i}.conv");
        // Transformers' folders have the axis of a channel's inputs, of which there is one.
        let flat = [channels, kernel];
        let long = [channels, 1, kernel];
        let w = match self.tensors.find(&name) {
            Some((_, dims)) if dims.len() == 3 => {
                let w = widened(m, self.tensors.weight(&name, &long)?);
                let dims = Shape(flat.map(Dim::from).to_vec());
                m.op(Reshape { dims }, &[w], &format!("{label}_taps"))
            }
            _ => widened(m, self.tensors.weight(&name, &flat)?),
        };
        let (channels, kernel) = (channels as usize, kernel as usize);
        Ok(m.push(CausalConv1d { layer: i, channels, kernel, act, gated }, &[x, w], label))
    }
}
