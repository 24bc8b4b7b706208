//! sample      logits to a token, counted, and the control block advanced
//! shapes      logits f32[1, v]   params u32[32 + v/32]   counts u32[v]   ctl u32[16]
//! bytes       4 v, some of it several times
//! shares      one worker does it
//! numerics    integers (`rlx_core::sample`)

use super::{Kernel, Planned, claim, dims};
use crate::place::Split;
use crate::view::Cx;
use core::cell::RefCell;
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops;
use rlx_core::sample::{Control, Scratch, sample};
use rlx_core::target::Target;
use rlx_core::types::Type;

struct Sample;

pub(super) fn takes(op: &ops::Sample, operands: &[&Type], _: &Target) -> Result<(), String> {
    let ops::Sample = op;
    claim::floats(operands)
}

pub(super) fn plan(_: &ops::Sample, step: &Step) -> Result<Planned> {
    let [_, vocab] = dims(&step.operands[0])?;
    let _: usize = vocab;
    Ok(Planned::new(Sample, &[Split::First, Split::First], 0))
}

std::thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Kernel for Sample {
    fn run(&self, cx: &mut Cx<'_>) {
        let (logits, params) = (cx.slice::<f32>(0), cx.slice::<u32>(1));
        let Some(words) = cx.result(1).row::<u32>(0).first_chunk().copied() else { return };
        let mut control = Control::from_words(&words);
        let counts = cx.result(0).row(0);
        SCRATCH.with_borrow_mut(|scratch| sample(logits, params, counts, &mut control, scratch));
        // Reserved words stay as they are.
        let next = control.to_words();
        let block = cx.result(1).row::<u32>(0);
        block[..8].copy_from_slice(&next[..8]);
    }
}
