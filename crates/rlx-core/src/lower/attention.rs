//! `rope` and `attention`: rotation, cache writes, attention over a cache.

use super::{Inputs, Lower, Lowering};
use crate::error::Result;
use crate::ir::hir;
use crate::ir::mir::{ParamKind, ValueId};
use crate::ops::{Attention, KvWrite, Rope, RopeKvWrite, RopeTable};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

impl Lowering<'_> {
    /// The table of these angles, made once for all layers.
    fn rope_table(
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

    /// Attention of projected q, k and v over the caches of a layer.
    pub(super) fn attention(
        &mut self,
        [q, k, v]: [ValueId; 3],
        factors: Option<ValueId>,
        spec: &hir::Attention,
        label: &str,
    ) -> Result<ValueId> {
        let ctl = self.control()?;
        let table = self.rope_table(&spec.rope, factors, label)?;
        let mut caches = Vec::with_capacity(2);
        for (name, ty) in spec.states(self.module.context, self.kv) {
            caches.push(self.g.param_once(ParamKind::State, &name, ty)?);
        }
        let (style, head_dim) = (spec.style, spec.head_dim);
        let op =
            Attention { head_dim, scale: spec.scale, window: spec.window, softcap: spec.softcap };
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
        let (qkv, factors) = ([i.one()?, i.one()?, i.one()?], i.maybe(self.factors)?);
        Ok(vec![cx.attention(qkv, factors, self, label)?])
    }
}
