//! iota        y[.., i, ..] = i along an axis
//! shapes      y of f32, f16, bf16 or integers, any
//! bytes       y once
//! shares      runs of y's elements
//! numerics    rounded once; an integer type keeps the low bits

use super::convert::FLOATS;
use super::{Kernel, Planned, around};
use crate::place::Split;
use crate::view::Cx;
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::math::{to_bf16, to_f16};
use rlx_core::ops;
use rlx_core::target::Target;
use rlx_core::types::{DType, Type};

struct Iota {
    dtype: DType,
    /// Elements along the axis, and those behind each of them.
    n: usize,
    inner: usize,
}

pub(super) fn takes(op: &ops::Iota, _: &[&Type], _: &Target) -> Result<(), String> {
    let ops::Iota { dtype, dims: _, axis: _ } = op;
    match dtype.is_int() || FLOATS.contains(dtype) {
        true => Ok(()),
        false => Err(format!("its kernel makes no {dtype}")),
    }
}

pub(super) fn plan(op: &ops::Iota, step: &Step) -> Result<Planned> {
    let [_, n, inner] = around(&step.results[0], op.axis)?;
    let kernel = Iota { dtype: op.dtype, n, inner };
    Ok(Planned::new(kernel, &[Split::Flat(64)], step.results[0].bytes as usize))
}

impl Kernel for Iota {
    fn run(&self, cx: &mut Cx<'_>) {
        let size = self.dtype.block_bytes();
        let first = cx.result(0).columns::<u8>().start / size;
        for (k, y) in cx.result(0).row::<u8>(0).chunks_exact_mut(size).enumerate() {
            let i = (first + k) / self.inner % self.n;
            match self.dtype {
                DType::F32 => y.copy_from_slice(&(i as f32).to_le_bytes()),
                DType::F16 => y.copy_from_slice(&to_f16(i as f64).to_le_bytes()),
                DType::BF16 => y.copy_from_slice(&to_bf16(i as f64).to_le_bytes()),
                _ => y.copy_from_slice(&(i as u64).to_le_bytes()[..size]),
            }
        }
    }
}
