//! Norms of heads, rotation, cache writes and the splits of one row's attention: the sum of its parts.

use super::rms_norm::normalise;
use crate::error::Result;
use crate::ops::RopeAttentionSplit;
use crate::reference::view::scalar_bytes;
use crate::reference::{Run, View, arity};
use alloc::vec::Vec;

impl Run for RopeAttentionSplit {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [q, k, v, table, kcache, vcache, ctl, norms @ ..] = operands else {
            return Err(arity("rope_attention_split"));
        };
        let normed = |row: &View<'_>, i: usize| match (self.norm, norms.get(i)) {
            (None, _) => Ok(row.bytes.to_vec()),
            (Some(eps), Some(weight)) => {
                let (mut row_of, weight) = (row.f64s()?, weight.f64s()?);
                for head in row_of.chunks_exact_mut(weight.len().max(1)) {
                    normalise(head, &weight, eps, row.ty.dtype);
                }
                scalar_bytes(row.ty.dtype, &row_of)
            }
            (Some(_), None) => Err(arity("rope_attention_split")),
        };
        let (new_q, new_k) = (normed(q, 0)?, normed(k, 1)?);
        let (q, k) = (View::new(q.ty, &new_q), View::new(k.ty, &new_k));
        let turned = self.rope().run(&[q, k, *v, *table, *kcache, *vcache, *ctl])?;
        let [new_q, new_k, new_v] = turned.as_slice() else { return Err(arity("rope_kv_write")) };
        let views =
            [View::new(q.ty, new_q), View::new(kcache.ty, new_k), View::new(vcache.ty, new_v)];
        let [q, k, v] = views;
        let mut results = self.split.run(&[q, k, v, *ctl])?;
        results.extend(turned.into_iter().skip(1));
        Ok(results)
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::{
        Attention, AttentionSplit, RmsNorm, RopeAttentionSplit, RopeKvWrite, RopeScaling,
        RopeStyle, RopeTable,
    };
    use crate::reference::testing::*;
    use crate::types::DType;

    #[test]
    fn it_gives_the_bits_of_the_two_steps_it_stands_for() {
        let op = RopeTable { base: 10.0, dims: 4, context: 9, scaling: RopeScaling::None };
        let table = &run(op, &[])[0];
        let split = AttentionSplit { whole: Attention::causal(4, 0.5), splits: 2, least: 32 };
        for (style, dtype) in [(RopeStyle::Half, DType::F32), (RopeStyle::Adjacent, DType::F16)] {
            let q = f32s(&[1, 8], &noise(8, 1));
            let (k, v) = (f32s(&[1, 4], &noise(4, 2)), f32s(&[1, 4], &noise(4, 3)));
            let kcache = cache(dtype, &[1, 9, 4], &noise(36, 4));
            let vcache = cache(dtype, &[1, 9, 4], &noise(36, 5));
            for ctl in [control(7, 1, 0), control(0, 1, 0), control(3, 1, 1)] {
                let operands = [&q, &k, &v, table, &kcache, &vcache, &ctl];
                let op = RopeAttentionSplit { style, norm: None, split: split.clone() };
                let fused = run(op.clone(), &operands);
                let turned = run(RopeKvWrite { style, head_dim: 4, ring: false }, &operands);
                let halves = run(split.clone(), &[&turned[0], &turned[1], &turned[2], &ctl]);
                assert_eq!(fused[..2], halves[..]);
                assert_eq!(fused[2..], turned[1..]);

                // With norms it is what it gives without them of rows whose heads are normed.
                let weights = [f32s(&[4], &noise(4, 6)), f32s(&[4], &noise(4, 7))];
                let normed = |x: &Value, heads: u64, weight: &Value| {
                    let x = f32s(&[heads, 4], &x.f32s());
                    let y = &run(RmsNorm { eps: 1e-5 }, &[&x, weight])[0];
                    f32s(&[1, 4 * heads], &y.f32s())
                };
                let (q1, k1) = (normed(&q, 2, &weights[0]), normed(&k, 1, &weights[1]));
                let expected = run(op.clone(), &[&q1, &k1, &v, table, &kcache, &vcache, &ctl]);
                let mut operands = operands.to_vec();
                operands.extend(&weights);
                assert_eq!(
                    run(RopeAttentionSplit { norm: Some(1e-5), ..op.clone() }, &operands),
                    expected
                );
                operands.pop();
                fails(RopeAttentionSplit { norm: Some(1e-5), ..op }, &operands);
            }
        }
    }
}
