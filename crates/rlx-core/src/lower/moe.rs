//! `moe_ffn`: a router, its choice of experts, their feed-forwards, a weighted sum.

use super::{Inputs, Lower, Lowering};
use crate::error::Result;
use crate::ir::hir;
use crate::ir::mir::ValueId;
use crate::ops::{
    Binary, Constant, Expand, GatherElements, GroupedMatMul, Map, Reduce, Reduction, Softmax, TopK,
    Unary, Zip,
};
use crate::types::{DType, Dim, Shape};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

impl hir::MoeFfn {
    /// Ids `[M, k]` of each row's experts, and what each counts for.
    fn route(
        &self,
        cx: &mut Lowering<'_>,
        scores: ValueId,
        bias: Option<ValueId>,
        label: &str,
    ) -> Result<(ValueId, ValueId)> {
        let at = |part: &str| format!("{label}_{part}");
        let chosen_by = match bias {
            Some(b) => cx.add(scores, b, &at("choice"))?,
            None => scores,
        };
        let ids = cx.g.push1(TopK { k: self.top_k as u64 }, &[chosen_by], &at("experts"))?;
        let mut weights = cx.g.push1(GatherElements { axis: 1 }, &[scores, ids], &at("weights"))?;
        if self.normalise {
            let sum = Reduce { f: Reduction::Sum, axes: vec![1], keep: true };
            let sum = cx.g.push1(sum, &[weights], &at("weights_sum"))?;
            weights = cx.g.push1(Zip { f: Binary::Div }, &[weights, sum], &at("weights_norm"))?;
        }
        if let Some(scale) = self.scale {
            let scale = Constant::scalar(DType::F32, f64::from(scale))?;
            let scale = cx.g.push1(scale, &[], &at("scale"))?;
            weights =
                cx.g.push1(Zip { f: Binary::Mul }, &[weights, scale], &at("weights_scale"))?;
        }
        Ok((ids, weights))
    }
}

impl Lower for hir::MoeFfn {
    fn lower(&self, cx: &mut Lowering<'_>, mut i: Inputs, label: &str) -> Result<Vec<ValueId>> {
        let (x, router) = (i.one()?, i.one()?);
        let (gate, up, down) = (i.one()?, i.one()?, i.one()?);
        let bias = i.maybe(self.choice_bias)?;
        let at = |part: &str| format!("{label}_{part}");
        let logits = cx.linear(x, (router, None), &at("router"))?;
        let scores = match self.sigmoid {
            true => cx.g.push1(Map { f: Unary::Sigmoid }, &[logits], &at("scores"))?,
            false => cx.g.push1(Softmax { axis: 1 }, &[logits], &at("scores"))?,
        };
        let (ids, weights) = self.route(cx, scores, bias, label)?;

        // Every row once for each of its experts.
        let [m, d] = cx.dims("x of moe_ffn", x)?;
        let k = Dim::from(self.top_k as u64);
        let rows = m.mul(&k)?;
        let one = cx.reshape(x, vec![m.clone(), Dim::from(1u64), d.clone()], &at("row"))?;
        let dims = Shape(vec![m.clone(), k.clone(), d.clone()]);
        let all = cx.g.push1(Expand { dims }, &[one], &at("row_each"))?;
        let all = cx.reshape(all, vec![rows.clone(), d.clone()], &at("rows"))?;
        let ids = cx.reshape(ids, vec![rows], &at("ids"))?;
        let gate = cx.g.push1(GroupedMatMul, &[all, gate, ids], &at("gate"))?;
        let up = cx.g.push1(GroupedMatMul, &[all, up, ids], &at("up"))?;
        let act = cx.g.push1(Map { f: self.act }, &[gate], &at("act"))?;
        let h = cx.g.push1(Zip { f: Binary::Mul }, &[act, up], &at("mul"))?;
        let y = cx.g.push1(GroupedMatMul, &[h, down, ids], &at("down"))?;

        let y = cx.reshape(y, vec![m.clone(), k.clone(), d], &at("each"))?;
        let weights = cx.reshape(weights, vec![m, k, Dim::from(1u64)], &at("weights_each"))?;
        let y = cx.g.push1(Zip { f: Binary::Mul }, &[y, weights], &at("weighted"))?;
        let sum = Reduce { f: Reduction::Sum, axes: vec![1], keep: false };
        Ok(vec![cx.g.push1(sum, &[y], &at("sum"))?])
    }
}
