//! `attention`: rotation, cache writes, attention.

use super::Lowering;
use crate::error::Result;
use crate::ir::hir::AttentionSpec;
use crate::ir::mir::{ParamKind, ValueId};
use crate::ops::{Attention, KvWrite, Rope};
use crate::types::{Shape, Type};
use alloc::format;

pub(super) fn attention(
    cx: &mut Lowering<'_>,
    [q, k, v]: [ValueId; 3],
    spec: &AttentionSpec,
    label: &str,
) -> Result<ValueId> {
    let ctl = cx.ctl;
    let factors = match &spec.rope_factors {
        Some(w) => Some(cx.weight(w)?),
        None => None,
    };
    let table = cx.rope_table(&spec.rope, factors, label)?;
    let rope = Rope { style: spec.rope_style, head_dim: spec.head_dim };
    let q = cx.g.push1(rope.clone(), &[q, table, ctl], &format!("{label}_q_rope"))?;
    let k = cx.g.push1(rope, &[k, table, ctl], &format!("{label}_k_rope"))?;
    let cache = Type::state(
        cx.kv,
        Shape::of(&[spec.kv_heads as u64, cx.module.context, spec.head_dim as u64]),
    );
    let name = |part: &str| format!("blk.{}.{part}", spec.layer);
    let kcache = cx.g.param_once(ParamKind::State, &name("k"), cache.clone())?;
    let vcache = cx.g.param_once(ParamKind::State, &name("v"), cache)?;
    let kcache = cx.g.push1(KvWrite, &[kcache, k, ctl], &format!("{label}_k_write"))?;
    let vcache = cx.g.push1(KvWrite, &[vcache, v, ctl], &format!("{label}_v_write"))?;
    let op = Attention::causal(spec.head_dim, spec.scale);
    cx.g.push1(op, &[q, kcache, vcache, ctl], label)
}

impl Lowering<'_> {
    /// The table of these angles, made once for all layers.
    fn rope_table(
        &mut self,
        rope: &crate::ops::RopeTable,
        factors: Option<ValueId>,
        label: &str,
    ) -> Result<ValueId> {
        let op = crate::ops::Op::from(rope.clone());
        let have = self
            .g
            .nodes
            .iter()
            .find(|n| n.op == op && n.inputs.first().copied() == factors)
            .map(|n| n.outputs[0]);
        match have {
            Some(v) => Ok(v),
            None => self.g.push1(op, factors.as_slice(), &format!("{label}_rope_table")),
        }
    }
}
