//! `encoder_rope`: rotary positions of whole sequences, without a control block.

use super::{Inputs, Lower, Lowering};
use crate::error::{Error, Result};
use crate::ir::hir;
use crate::ir::mir::ValueId;
use crate::ops::{Binary, Concat, RopeTable, Zip};
use crate::types::{Dim, DimOp};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

impl Lowering<'_> {
    fn zip(&mut self, f: Binary, a: ValueId, b: ValueId, label: &str) -> Result<ValueId> {
        self.g.push1(Zip { f }, &[a, b], label)
    }

    /// cos and sin `[S, 1, dims / 2]` of the positions from 0 on, by the products of the table's two
    /// parts. More positions than the table serves are an error of the slice, once S is bound.
    fn positions(&mut self, rope: &RopeTable, seq: &Dim, label: &str) -> Result<[ValueId; 2]> {
        let table = self.rope_table(rope, None, label)?;
        let (low, half, one) =
            (Dim::from(rope.low_rows()), Dim::from(rope.dims / 2), Dim::from(1u64));
        let high = seq.apply(DimOp::CeilDiv, &low)?;
        let far = self.slice(table, 0, rope.low_rows(), high.clone(), &format!("{label}_far"))?;
        let near = self.slice(table, 0, 0, low.clone(), &format!("{label}_near"))?;
        let mut parts = [far; 4];
        let far_dims = vec![high.clone(), one.clone(), half.clone()];
        let near_dims = vec![one.clone(), low.clone(), half.clone()];
        for (i, part) in parts.iter_mut().enumerate() {
            let (x, dims) = if i < 2 { (far, &far_dims) } else { (near, &near_dims) };
            let x = self.slice(x, 2, i as u64 % 2, one.clone(), &format!("{label}_part{i}"))?;
            *part = self.reshape(x, dims.clone(), &format!("{label}_rows{i}"))?;
        }
        let [cos_a, sin_a, cos_b, sin_b] = parts;
        let mut out = [far; 2];
        let sums = [
            ("cos", Binary::Sub, [cos_a, cos_b], [sin_a, sin_b]),
            ("sin", Binary::Add, [sin_a, cos_b], [cos_a, sin_b]),
        ];
        for (to, (name, f, [a, b], [c, d])) in out.iter_mut().zip(sums) {
            let label = format!("{label}_{name}");
            let p = self.zip(Binary::Mul, a, b, &format!("{label}_p"))?;
            let q = self.zip(Binary::Mul, c, d, &format!("{label}_q"))?;
            let all = self.zip(f, p, q, &format!("{label}_all"))?;
            let rows = high.mul(&low)?;
            let all = self.reshape(all, vec![rows, half.clone()], &format!("{label}_flat"))?;
            let all = self.slice(all, 0, 0, seq.clone(), &format!("{label}_first"))?;
            *to = self.reshape(all, vec![seq.clone(), one.clone(), half.clone()], &label)?;
        }
        Ok(out)
    }
}

impl Lower for hir::EncoderRope {
    fn lower(&self, cx: &mut Lowering<'_>, mut i: Inputs, label: &str) -> Result<Vec<ValueId>> {
        let x = i.one()?;
        let dims: [Dim; 3] = cx.dims("x", x)?;
        let [batch, seq, width] = dims.clone();
        let (width, head_dim) = (width.as_static().unwrap_or(0), self.head_dim as u64);
        let turning = self.rope.dims as u64;
        if head_dim == 0 || !width.is_multiple_of(head_dim) || turning > head_dim {
            return Err(Error::bad_graph(format!(
                "x has rows of {width}, expected whole heads of {head_dim}, of which {turning} turn"
            )));
        }
        let [cos, sin] = cx.positions(&self.rope, &seq, label)?;
        let heads = vec![batch, seq, Dim::from(width / head_dim), Dim::from(head_dim)];
        let x = cx.reshape(x, heads, &format!("{label}_heads"))?;
        let half = turning / 2;
        let a = cx.slice(x, 3, 0, Dim::from(half), &format!("{label}_a"))?;
        let b = cx.slice(x, 3, half, Dim::from(half), &format!("{label}_b"))?;
        let p = cx.zip(Binary::Mul, a, cos, &format!("{label}_a_cos"))?;
        let q = cx.zip(Binary::Mul, b, sin, &format!("{label}_b_sin"))?;
        let first = cx.zip(Binary::Sub, p, q, &format!("{label}_first_half"))?;
        let p = cx.zip(Binary::Mul, a, sin, &format!("{label}_a_sin"))?;
        let q = cx.zip(Binary::Mul, b, cos, &format!("{label}_b_cos"))?;
        let second = cx.zip(Binary::Add, p, q, &format!("{label}_second_half"))?;
        let mut parts = vec![first, second];
        if turning < head_dim {
            let rest = Dim::from(head_dim - turning);
            parts.push(cx.slice(x, 3, turning, rest, &format!("{label}_rest"))?);
        }
        let turned = cx.g.push1(Concat { axis: 3 }, &parts, &format!("{label}_turned"))?;
        Ok(vec![cx.reshape(turned, dims.to_vec(), label)?])
    }
}
