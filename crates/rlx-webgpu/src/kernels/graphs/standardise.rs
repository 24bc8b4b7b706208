//! What `layer_norm` and `group_norm` share: runs that get a mean of 0 and a variance of 1.

use super::softmax::threads;
use crate::kernels::emit::{Emit, fill};
use crate::kernels::{Launch, word};
use rlx_core::Result;
use rlx_core::ir::lir::Slice;

/// Such a norm.
pub(super) struct Standardise<'a> {
    pub entry: &'static str,
    pub shapes: &'static str,
    /// Runs, and elements of each.
    pub runs: u64,
    pub n: u64,
    pub eps: f32,
    pub x: &'a Slice,
    pub y: &'a Slice,
    pub scale: &'a Slice,
    pub bias: Option<&'a Slice>,
    /// The expression of the element of scale and bias that belongs to `e` of a `run`.
    pub channel: &'static str,
    /// Of `group_norm`: groups, channels of a group, places of a channel.
    pub groups: [u64; 3],
}

impl Standardise<'_> {
    pub fn launch(self, emit: &mut Emit<'_>) -> Result<Option<Launch>> {
        if self.runs * self.n == 0 {
            return Ok(None);
        }
        let (x, scale) = (emit.read(self.x)?, emit.read(self.scale)?);
        let bias = self.bias.map(|b| emit.read(b)).transpose()?;
        let y = emit.write(self.y)?;
        let mut words = vec![
            word(self.n)?,
            word(self.runs)?,
            x.word(),
            y.word(),
            scale.word(),
            bias.as_ref().map_or(0, |b| b.word()),
            self.eps.to_bits(),
        ];
        for n in self.groups {
            words.push(word(n)?);
        }
        let shift = bias
            .as_ref()
            .map(|b| format!(" + bitcast<f32>({}[step.bias + c])", b.var))
            .unwrap_or_default();
        let wgsl = fill(
            wgsl!("standardise.wgsl"),
            &[
                ("name", &format!("{:<11}", self.entry)),
                ("entry", self.entry),
                ("shapes", self.shapes),
                ("shift_formula", if bias.is_some() { " + bias" } else { "" }),
                ("bindings", &emit.bindings()),
                ("threads", threads(self.n)),
                ("x", &x.var),
                ("y", &y.var),
                ("scale", &scale.var),
                ("channel", self.channel),
                ("shift", &shift),
            ],
        );
        Ok(Some(Launch { wgsl, entry: self.entry, words, groups: self.runs }))
    }
}
