//! `window_attention`: places into windows, attention within each, places back.

use super::{Inputs, Lower, Lowering};
use crate::error::{Error, Result};
use crate::ir::hir;
use crate::ir::mir::ValueId;
use crate::ops::{Pad, PadMode, Sdpa};
use crate::types::Dim;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// Axes of a padded grid in windows: `[B, rows, w, columns, w, C]` to `[B, rows, columns, w, w, C]`
/// and back.
const WINDOWS: [usize; 6] = [0, 1, 3, 2, 4, 5];

/// A size that must be bound.
fn bound(what: &str, dim: &Dim) -> Result<u64> {
    dim.as_static().ok_or_else(|| {
        Error::bad_graph(format!("{what} has the unbound size {dim}"))
            .hint("bind it before the module is lowered")
    })
}

impl Lower for hir::WindowAttention {
    fn lower(&self, cx: &mut Lowering<'_>, mut i: Inputs, label: &str) -> Result<Vec<ValueId>> {
        let b = self.bias;
        let x = i.one()?;
        let (qkv, o) = ([i.linear(b)?, i.linear(b)?, i.linear(b)?], i.linear(b)?);
        let at = |part: &str| format!("{label}_{part}");
        let [batch, height, width, channels] = cx.dims("x of window_attention", x)?;
        let h = bound("the height of window_attention", &height)?;
        let w = bound("the width of window_attention", &width)?;
        let window = self.window as u64;
        let whole = |n: u64| n.checked_next_multiple_of(window);
        let (Some(whole_h), Some(whole_w)) = (whole(h), whole(w)) else {
            return Err(Error::bad_graph(format!(
                "window_attention: no windows of {window} places in {h} x {w}"
            )));
        };

        let mut grid = x;
        if (whole_h, whole_w) != (h, w) {
            let high = vec![0, whole_h - h, whole_w - w, 0];
            let pad = Pad { low: vec![0; 4], high, mode: PadMode::Constant(0.0) };
            grid = cx.g.push1(pad, &[x], &at("pad"))?;
        }
        let (rows, columns) = (Dim::from(whole_h / window), Dim::from(whole_w / window));
        let n = Dim::from(window);
        let split =
            |a: Dim, b: Dim, c: Dim, d: Dim| vec![batch.clone(), a, b, c, d, channels.clone()];
        let parts = split(rows.clone(), n.clone(), columns.clone(), n.clone());
        let y = cx.reshape(grid, parts, &at("split"))?;
        let y = cx.transpose(y, &WINDOWS, &at("windows"))?;
        let items = batch.mul(&rows)?.mul(&columns)?;
        let places = n.mul(&n)?;
        let y = cx.reshape(y, vec![items, places, channels.clone()], &at("rows"))?;

        let qkv = cx.qkv(y, &qkv, label)?;
        let op = Sdpa::new(self.heads, self.head_dim);
        let y = cx.sdpa(qkv, (op, Vec::new()), o, label)?;

        let y = cx.reshape(y, split(rows, columns, n.clone(), n), &at("back"))?;
        let y = cx.transpose(y, &WINDOWS, &at("places"))?;
        let padded = vec![batch, Dim::from(whole_h), Dim::from(whole_w), channels];
        let mut y = cx.reshape(y, padded, &at("grid"))?;
        if whole_h != h {
            y = cx.slice(y, 1, 0, height, &at("crop_height"))?;
        }
        if whole_w != w {
            y = cx.slice(y, 2, 0, width, &at("crop_width"))?;
        }
        Ok(vec![y])
    }
}
