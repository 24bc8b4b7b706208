//! gather_elements y[.., i, ..] = x[.., ids[.., i, ..], ..]
//! shapes      x of any scalar type, ids u32|i32|i64 of x's sizes but on the axis
//! bytes       y and ids once, x as ids say
//! shares      runs of y's elements
//! numerics    a copy; a negative id counts from the end, one outside reads the nearest element

use super::gather_axis::{id, place};
use super::{Kernel, Planned, around};
use crate::place::Split;
use crate::view::Cx;
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::GatherElements;
use rlx_core::target::Target;
use rlx_core::types::{DType, Type};

struct Elements {
    /// Elements along the axis of x and of y, and those behind each of them.
    n: usize,
    to: usize,
    inner: usize,
    size: usize,
    of_ids: DType,
}

pub(super) fn takes(op: &GatherElements, operands: &[&Type], _: &Target) -> Result<(), String> {
    let GatherElements { axis } = op;
    match operands.first().and_then(|x| x.shape.0.get(*axis)) {
        Some(n) if n.as_static() == Some(0) => {
            Err("its kernel takes no axis without elements".into())
        }
        _ => Ok(()),
    }
}

pub(super) fn plan(op: &GatherElements, step: &Step) -> Result<Planned> {
    let ([_, n, inner], [_, to, _]) =
        (around(&step.operands[0], op.axis)?, around(&step.operands[1], op.axis)?);
    let size = step.operands[0].ty.dtype.block_bytes();
    let kernel = Elements { n, to, inner, size, of_ids: step.operands[1].ty.dtype };
    Ok(Planned::new(kernel, &[Split::Flat(64)], 4 * step.results[0].bytes as usize))
}

impl Kernel for Elements {
    fn run(&self, cx: &mut Cx<'_>) {
        let (x, ids, size) = (cx.bytes(0), cx.bytes(1), self.size);
        let first = cx.result(0).columns::<u8>().start / size;
        for (k, y) in cx.result(0).row::<u8>(0).chunks_exact_mut(size).enumerate() {
            let at = first + k;
            let (outer, column) = (at / (self.to * self.inner), at % self.inner);
            let id = place(id(self.of_ids, ids, at), self.n).clamp(0, self.n as i64 - 1) as usize;
            let from = (outer * self.n + id) * self.inner + column;
            y.copy_from_slice(&x[from * size..][..size]);
        }
    }
}
