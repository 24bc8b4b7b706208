//! expand      y[j] = x[j], x repeated to y's shape [NumPy]
//! shapes      any that broadcast, of any scalar type
//! bytes       x and y once
//! shares      runs of y's elements
//! numerics    a copy

use super::elementwise::layout::{Layout, RANK};
use super::{Kernel, Planned};
use crate::place::Split;
use crate::view::Cx;
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops;
use rlx_core::target::Target;
use rlx_core::types::Type;

struct Expand {
    layout: Layout,
    size: usize,
}

pub(super) fn takes(op: &ops::Expand, _: &[&Type], _: &Target) -> Result<(), String> {
    let ops::Expand { dims } = op;
    if dims.rank() > RANK {
        return Err(format!("its kernel takes at most {RANK} axes"));
    }
    Ok(())
}

pub(super) fn plan(_: &ops::Expand, step: &Step) -> Result<Planned> {
    let layout = Layout::new(&super::sizes(&step.operands[0])?, &super::sizes(&step.results[0])?);
    let size = step.operands[0].ty.dtype.block_bytes();
    let work = step.results[0].bytes as usize;
    Ok(Planned::new(Expand { layout, size }, &[Split::Flat(64)], work))
}

impl Kernel for Expand {
    fn run(&self, cx: &mut Cx<'_>) {
        let (x, first) = (cx.bytes(0), cx.result(0).columns::<u8>().start / self.size);
        self.layout.read_bytes(self.size, x, first, cx.result(0).row(0));
    }
}
