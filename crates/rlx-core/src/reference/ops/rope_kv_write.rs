//! Rotation of q and k and both cache writes: the sum of its parts.

use super::{kv_write, rope};
use crate::error::Result;
use crate::ops::RopeKvWrite;
use crate::reference::view::scalar_bytes;
use crate::reference::{Run, View, arity};
use alloc::vec;
use alloc::vec::Vec;

impl Run for RopeKvWrite {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [q, k, v, table, kcache, vcache, ctl] = operands else {
            return Err(arity("rope_kv_write"));
        };
        let ctl = ctl.control()?;
        let q_type = q.ty.dtype;
        let q = rope::rotate(q, table, &ctl, self.style, self.head_dim)?;
        let k = rope::rotate(k, table, &ctl, self.style, self.head_dim)?;
        let kcache = kv_write::write(kcache, &k, &ctl, self.ring)?;
        let vcache = kv_write::write(vcache, &v.f64s()?, &ctl, self.ring)?;
        Ok(vec![scalar_bytes(q_type, &q)?, kcache, vcache])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::{KvWrite, Rope, RopeKvWrite, RopeScaling, RopeStyle, RopeTable};
    use crate::reference::testing::*;
    use crate::types::DType;

    #[test]
    fn it_gives_the_bits_of_the_four_steps_it_stands_for() {
        let op = RopeTable { base: 10.0, dims: 4, context: 9, scaling: RopeScaling::None };
        let table = &run(op, &[])[0];
        for (style, dtype) in [(RopeStyle::Half, DType::F32), (RopeStyle::Adjacent, DType::F16)] {
            let q = f32s(&[2, 8], &noise(16, 1));
            let (k, v) = (f32s(&[2, 4], &noise(8, 2)), f32s(&[2, 4], &noise(8, 3)));
            let kcache = cache(dtype, &[1, 9, 4], &noise(36, 4));
            let vcache = cache(dtype, &[1, 9, 4], &noise(36, 5));
            for ctl in [control(7, 2, 0), control(3, 1, 0), control(3, 1, 1)] {
                let fused = run(
                    RopeKvWrite { style, head_dim: 4, ring: false },
                    &[&q, &k, &v, table, &kcache, &vcache, &ctl],
                );
                let rope = Rope { style, head_dim: 4 };
                let turned = &run(rope.clone(), &[&k, table, &ctl])[0];
                assert_eq!(fused[0], run(rope, &[&q, table, &ctl])[0]);
                assert_eq!(fused[1], run(KvWrite::default(), &[&kcache, turned, &ctl])[0]);
                assert_eq!(fused[2], run(KvWrite::default(), &[&vcache, &v, &ctl])[0]);
            }
        }
    }
}
