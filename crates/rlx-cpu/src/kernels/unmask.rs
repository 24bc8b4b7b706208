//! unmask      predictions to tokens of a canvas
//! shapes      ids, confidence u32[b]   canvas u32[16 + b]
//! shares      one worker does it
//! numerics    integers (`rlx_core::sample::canvas`)

use super::{Kernel, Planned};
use crate::place::Split;
use crate::view::Cx;
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops;
use rlx_core::sample::canvas::unmask;
use rlx_core::target::Target;
use rlx_core::types::Type;

struct Unmask;

pub(super) fn takes(op: &ops::Unmask, _: &[&Type], _: &Target) -> Result<(), String> {
    let ops::Unmask = op;
    Ok(())
}

pub(super) fn plan(_: &ops::Unmask, _: &Step) -> Result<Planned> {
    Ok(Planned::new(Unmask, &[Split::First], 0))
}

impl Kernel for Unmask {
    fn run(&self, cx: &mut Cx<'_>) {
        let (ids, confidence) = (cx.slice::<u32>(0), cx.slice::<u32>(1));
        unmask(ids, confidence, cx.result(0).row(0));
    }
}
