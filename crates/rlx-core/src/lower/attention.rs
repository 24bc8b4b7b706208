//! `rope` and `attention`: rotation, cache writes, attention over a cache.

use super::{Inputs, Lower, Lowering};
use crate::error::Result;
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
        [q, k, v]: [ValueId; 3],
        qk_norm: Option<[ValueId; 2]>,
        factors: Option<ValueId>,
        spec: &hir::Attention,
        label: &str,
    ) -> Result<ValueId> {
        let ctl = self.control()?;
        let (mut q, mut k) = (q, k);
        if let Some((norms, eps)) = qk_norm.zip(spec.qk_eps) {
            q = self.head_norm(q, norms[0], (spec.head_dim, eps), &format!("{label}_q_norm"))?;
            k = self.head_norm(k, norms[1], (spec.head_dim, eps), &format!("{label}_k_norm"))?;
        }
        let mut caches = Vec::with_capacity(2);
        for (name, ty) in spec.states(self.module.context, self.kv) {
            caches.push(self.g.param_once(ParamKind::State, &name, ty)?);
        }
        let (style, head_dim) = (spec.style, spec.head_dim);
        let op = Attention {
            head_dim,
            scale: spec.scale,
            window: spec.window,
            softcap: spec.softcap,
            block: spec.block,
        };
        if spec.rope.dims == 0 {
            let kcache =
                self.g.push1(KvWrite, &[caches[0], k, ctl], &format!("{label}_k_write"))?;
            let vcache =
                self.g.push1(KvWrite, &[caches[1], v, ctl], &format!("{label}_v_write"))?;
            return self.g.push1(op, &[q, kcache, vcache, ctl], label);
        }
        let table = self.rope_table(&spec.rope, factors, label)?;
        if self.direct {
            let y = self.g.push(
                RopeKvWrite { style, head_dim },
                &[q, k, v, table, caches[0], caches[1], ctl],
                &format!("{label}_rope_kv"),
            )?;
            return self.g.push1(op, &[y[0], y[1], y[2], ctl], label);
        }
        let rope = Rope { style, head_dim };
        let q = self.g.push1(rope.clone(), &[q, table, ctl], &format!("{label}_q_rope"))?;
        let k = self.g.push1(rope, &[k, table, ctl], &format!("{label}_k_rope"))?;
        let kcache = self.g.push1(KvWrite, &[caches[0], k, ctl], &format!("{label}_k_write"))?;
        let vcache = self.g.push1(KvWrite, &[caches[1], v, ctl], &format!("{label}_v_write"))?;
        self.g.push1(op, &[q, kcache, vcache, ctl], label)
    }
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
        let qkv = [i.one()?, i.one()?, i.one()?];
        let norms = match self.qk_eps {
            Some(_) => Some([i.one()?, i.one()?]),
            None => None,
        };
        Ok(vec![cx.attention(qkv, norms, i.maybe(self.factors)?, self, label)?])
    }
}
