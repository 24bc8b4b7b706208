//! Rotation, cache writes and the splits of one row's attention: the sum of its parts.

use crate::error::Result;
use crate::ops::RopeAttentionSplit;
use crate::reference::{Run, View, arity};
use alloc::vec::Vec;

impl Run for RopeAttentionSplit {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [q, _, _, _, kcache, vcache, ctl] = operands else {
            return Err(arity("rope_attention_split"));
        };
        let turned = self.rope().run(operands)?;
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
        Attention, AttentionSplit, RopeAttentionSplit, RopeKvWrite, RopeScaling, RopeStyle,
        RopeTable,
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
                let op = RopeAttentionSplit { style, split: split.clone() };
                let fused = run(op, &operands);
                let turned = run(RopeKvWrite { style, head_dim: 4, ring: false }, &operands);
                let halves = run(split.clone(), &[&turned[0], &turned[1], &turned[2], &ctl]);
                assert_eq!(fused[..2], halves[..]);
                assert_eq!(fused[2..], turned[1..]);
            }
        }
    }
}
