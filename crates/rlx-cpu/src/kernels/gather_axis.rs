//! gather      y[.., ids[j..], ..] = x[.., ids[j..], ..]: ids stand for an axis of any tensor
//! shapes      x of any scalar type, ids u32|i32|i64 of any shape
//! bytes       y twice, 4 or 8 an id
//! shares      slices of y
//! numerics    a copy; a negative id counts from the end, one outside reads the nearest element

use super::elementwise::layout::integers;
use super::{Kernel, Planned, around};
use crate::place::Split;
use crate::view::Cx;
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::Gather;
use rlx_core::types::{DType, Type};

struct Slices {
    /// Elements along the axis, bytes of a slice behind each of them, and ids.
    n: usize,
    bytes: usize,
    ids: usize,
    of_ids: DType,
}

/// Where an id is on an axis of `n`.
pub(super) fn place(id: i64, n: usize) -> i64 {
    if id < 0 { id.saturating_add(n as i64) } else { id }
}

/// Id `i` of a tensor of them.
pub(super) fn id(dtype: DType, bytes: &[u8], i: usize) -> i64 {
    let (size, mut id) = (dtype.block_bytes(), [0]);
    integers(dtype, &bytes[i * size..][..size], &mut id);
    id[0]
}

pub(super) fn takes(op: &Gather, operands: &[&Type]) -> Result<(), String> {
    match operands {
        // Rows of these are decoded to f32, and not copied.
        [x, _] if x.dtype.is_block() || (op.is_embedding(x) && x.dtype != DType::F32) => {
            Err(super::claim::refused(x, 0))
        }
        [x, _] if x.shape.0.get(op.axis).is_some_and(|n| n.as_static() == Some(0)) => {
            Err("its kernel takes no axis without elements".into())
        }
        _ => Ok(()),
    }
}

pub(super) fn plan(op: &Gather, step: &Step) -> Result<Planned> {
    let [outer, n, inner] = around(&step.operands[0], op.axis)?;
    let ids = super::sizes(&step.operands[1])?.iter().product();
    let bytes = inner * step.operands[0].ty.dtype.block_bytes();
    let kernel = Slices { n, bytes, ids, of_ids: step.operands[1].ty.dtype };
    Ok(Planned::new(kernel, &[Split::Runs(outer * ids)], step.results[0].bytes as usize))
}

impl Kernel for Slices {
    fn run(&self, cx: &mut Cx<'_>) {
        let (x, ids) = (cx.bytes(0), cx.bytes(1));
        for row in cx.result(0).rows.clone() {
            let at = place(id(self.of_ids, ids, row % self.ids), self.n);
            let at = row / self.ids * self.n + at.clamp(0, self.n as i64 - 1) as usize;
            cx.result(0).row::<u8>(row).copy_from_slice(&x[at * self.bytes..][..self.bytes]);
        }
    }
}
