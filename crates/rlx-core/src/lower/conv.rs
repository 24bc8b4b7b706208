//! Convolutions: `depthwise_conv1d_causal`, `conv`, `patch_embed`.

use super::{Inputs, Lower, Lowering};
use crate::error::{Error, Result};
use crate::ir::hir;
use crate::ir::mir::ValueId;
use crate::ops::{Binary, Concat, Zip};
use crate::types::Dim;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// A sum over the taps of shifted products: every channel has its own kernel, so there is no matrix
/// product in it.
impl Lower for hir::DepthwiseConv1dCausal {
    fn lower(&self, cx: &mut Lowering<'_>, mut i: Inputs, label: &str) -> Result<Vec<ValueId>> {
        let (x, w, left) = (i.one()?, i.one()?, i.one()?);
        let [_, s, channels] = cx.dims("x of depthwise_conv1d_causal", x)?;
        let [_, taps] = cx.dims("w of depthwise_conv1d_causal", w)?;
        let kernel = self.kernel as u64;
        if kernel == 0 || taps.as_static() != Some(kernel) {
            return Err(Error::bad_graph(format!(
                "depthwise_conv1d_causal: w is {}, expected {kernel} taps, 1 or more",
                cx.g.ty(w)
            )));
        }
        let x = match kernel {
            1 => x,
            _ => cx.g.push1(Concat { axis: 1 }, &[left, x], &format!("{label}_past"))?,
        };
        let mut sum: Option<ValueId> = None;
        for k in 0..kernel {
            let shifted = cx.slice(x, 1, k, s.clone(), &format!("{label}_at{k}"))?;
            let tap = cx.slice(w, 1, k, Dim::from(1u64), &format!("{label}_tap{k}"))?;
            let tap = cx.reshape(tap, vec![channels.clone()], &format!("{label}_w{k}"))?;
            let mul = Zip { f: Binary::Mul };
            let y = cx.g.push1(mul, &[shifted, tap], &format!("{label}_mul{k}"))?;
            sum = Some(match sum {
                Some(sum) => cx.add(sum, y, &format!("{label}_sum{k}"))?,
                None => y,
            });
        }
        // There is at least one tap.
        Ok(sum.into_iter().collect())
    }
}

#[cfg(feature = "vision")]
impl Lower for hir::Conv {
    fn lower(&self, cx: &mut Lowering<'_>, mut i: Inputs, label: &str) -> Result<Vec<ValueId>> {
        let mut operands = vec![i.one()?, i.one()?];
        operands.extend(i.maybe(self.conv.bias)?);
        let y = cx.g.push(self.conv.clone(), &operands, label)?;
        match self.act {
            Some(f) => cx.g.push(crate::ops::Map { f }, &y, &format!("{label}_act")),
            None => Ok(y),
        }
    }
}

#[cfg(feature = "vision")]
impl Lower for hir::PatchEmbed {
    fn lower(&self, cx: &mut Lowering<'_>, mut i: Inputs, label: &str) -> Result<Vec<ValueId>> {
        let mut operands = vec![i.one()?, i.one()?];
        operands.extend(i.maybe(self.bias)?);
        let patch = self.patch as u64;
        let window = crate::ops::Window::new(2).stride(&[patch, patch]);
        let conv = crate::ops::Conv { window, groups: 1, bias: self.bias };
        let y = cx.g.push1(conv, &operands, label)?;
        let [batch, d, h, w] = cx.dims("the patches of patch_embed", y)?;
        let rows = h.mul(&w)?;
        let y = cx.reshape(y, vec![batch, d, rows], &format!("{label}_places"))?;
        Ok(vec![cx.transpose(y, &[0, 2, 1], &format!("{label}_rows"))?])
    }
}
