//! `rope` and `attention`: rotation, cache writes, attention over a cache.

use super::{Inputs, Lower, Lowering};
use crate::error::{Error, Result};
use crate::ir::hir;
use crate::ir::mir::{ParamKind, ValueId};
use crate::ops::{Attention, KvWrite, Rope, RopeKvWrite, RopeTable};
use crate::types::Dim;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

impl Lowering<'_> {
    /// The table of these angles, made once for all layers.
    pub(super) fn rope_table(
        &mut self,
        rope: &RopeTable,
        factors: Option<ValueId>,
        label: &str,
    ) -> Result<ValueId> {
        if let Some(t) = self.rope_tables.iter().find(|t| t.0 == *rope && t.1 == factors) {
            return Ok(t.2);
        }
        let op = rope.clone();
        let table = self.g.push1(op, factors.as_slice(), &format!("{label}_rope_table"))?;
        self.rope_tables.push((rope.clone(), factors, table));
        Ok(table)
    }

    /// RMS norm of the rows of `x`, or of each head where the weight is as wide as one.
    fn head_norm(
        &mut self,
        x: ValueId,
        weight: ValueId,
        (head_dim, eps): (usize, f32),
        label: &str,
    ) -> Result<ValueId> {
        let dims = self.g.ty(x).shape.clone();
        let width = dims.last().as_static().unwrap_or(0);
        if self.g.ty(weight).shape.last().as_static() == Some(width) {
            return self.rms_norm(x, weight, eps, label);
        }
        let mut heads = dims.0.clone();
        heads.pop();
        heads.extend([Dim::from(width / (head_dim as u64).max(1)), Dim::from(head_dim as u64)]);
        let y = self.reshape(x, heads, &format!("{label}_heads"))?;
        let y = self.rms_norm(y, weight, eps, label)?;
        self.reshape(y, dims.0, &format!("{label}_rows"))
    }

    /// Attention of projected q, k and v over the caches of a layer.
    pub(super) fn attention(
        &mut self,
        inputs: Attended,
        spec: &hir::Attention,
        label: &str,
    ) -> Result<ValueId> {
        let ctl = self.control()?;
        let Attended { mut q, mut kv, norms, factors, sinks } = inputs;
        if let Some(eps) = spec.qk_eps {
            let heads = (spec.head_dim, eps);
            if let Some(&norm) = norms.first() {
                q = self.head_norm(q, norm, heads, &format!("{label}_q_norm"))?;
            }
            if let (Some(k), Some(&norm)) = (kv.first_mut(), norms.get(1)) {
                *k = self.head_norm(*k, norm, heads, &format!("{label}_k_norm"))?;
            }
        }
        let mut caches = Vec::with_capacity(2);
        let ring = spec.ring(self.module.context, self.kept);
        let positions = Dim::from(ring.unwrap_or(self.module.context));
        let ring = ring.is_some();
        for (name, ty) in spec.states(self.module.context, self.kept) {
            caches.push(self.g.param_once(ParamKind::State, &name, ty)?);
        }
        let (style, head_dim) = (spec.style, spec.head_dim);
        let table = match spec.rope.dims {
            0 => None,
            _ => Some(self.rope_table(&spec.rope, factors, label)?),
        };
        let written = match (table, kv.as_slice(), caches.as_slice()) {
            (Some(table), &[k, v], &[kcache, vcache]) if self.direct => {
                let op = RopeKvWrite { style, head_dim, ring };
                let inputs = [q, k, v, table, kcache, vcache, ctl];
                let y = self.g.push(op, &inputs, &format!("{label}_rope_kv"))?;
                q = y[0]; // the results of `rope_kv_write`
                Vec::from(&y[1..])
            }
            _ => {
                if let Some(table) = table {
                    let rope = Rope { style, head_dim };
                    let at = [q, table, ctl];
                    q = self.g.push1(rope.clone(), &at, &format!("{label}_q_rope"))?;
                    if let Some(k) = kv.first_mut() {
                        let at = [*k, table, ctl];
                        *k = self.g.push1(rope, &at, &format!("{label}_k_rope"))?;
                    }
                }
                let mut written = Vec::with_capacity(2);
                for ((rows, cache), part) in kv.iter().zip(&caches).zip(["k", "v"]) {
                    let at = [*cache, *rows, ctl];
                    written.push(self.g.push1(
                        KvWrite { ring },
                        &at,
                        &format!("{label}_{part}_write"),
                    )?);
                }
                written
            }
        };
        let (k, v) = match (spec.cache_of, written.as_slice()) {
            (None, &[k]) => (k, k),
            (None, &[k, v]) => (k, v),
            (of, _) => {
                let of = self.caches.iter().find(|(layer, _)| Some(*layer) == of);
                let missing = || {
                    let of = spec.cache_of.map_or("none".into(), |of| format!("{of}"));
                    let what = format!(
                        "layer {} shares the caches of layer {of}, and no layer of that number stands before it",
                        spec.layer
                    );
                    Error::bad_graph(what).at(label)
                };
                of.ok_or_else(missing)?.1
            }
        };
        if self.g.ty(k).shape.0.get(1) != Some(&positions) {
            let what = format!("layer {} shares caches of another window than its own", spec.layer);
            return Err(Error::bad_graph(what).at(label));
        }
        self.caches.push((spec.layer, (k, v)));
        let op = Attention {
            head_dim,
            scale: spec.scale,
            window: spec.window,
            softcap: spec.softcap,
            block: spec.block,
            sinks: sinks.is_some(),
            ring,
            half: false,
        };
        let mut inputs = Vec::from([q, k, v, ctl]);
        inputs.extend(sinks);
        self.g.push1(op, &inputs, label)
    }
}

/// Inputs of attention.
pub(super) struct Attended {
    pub q: ValueId,
    /// Those of k and v that the layer writes.
    pub kv: Vec<ValueId>,
    /// Weights of the norms of q and of k.
    pub norms: Vec<ValueId>,
    /// What divides the frequencies.
    pub factors: Option<ValueId>,
    pub sinks: Option<ValueId>,
}

impl Lower for hir::Rope {
    fn lower(&self, cx: &mut Lowering<'_>, mut i: Inputs, label: &str) -> Result<Vec<ValueId>> {
        let (x, factors) = (i.one()?, i.maybe(self.factors)?);
        let ctl = cx.control()?;
        let table = cx.rope_table(&self.rope, factors, label)?;
        let op = Rope { style: self.style, head_dim: self.head_dim };
        cx.g.push(op, &[x, table, ctl], label)
    }
}

impl Lower for hir::Attention {
    fn lower(&self, cx: &mut Lowering<'_>, mut i: Inputs, label: &str) -> Result<Vec<ValueId>> {
        let q = i.one()?;
        let kv = (0..self.written()).map(|_| i.one()).collect::<Result<_>>()?;
        let norms = (0..self.norms()).map(|_| i.one()).collect::<Result<_>>()?;
        let (factors, sinks) = (i.maybe(self.factors)?, i.maybe(self.sinks)?);
        Ok(vec![cx.attention(Attended { q, kv, norms, factors, sinks }, self, label)?])
    }
}
