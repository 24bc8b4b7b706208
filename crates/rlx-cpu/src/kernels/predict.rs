//! predict     ids[m], confidence[m]: a token for row m of the logits, and its probability
//! shapes      logits f32[m, v]   params u32[32]   canvas u32[16 + m]   ids, confidence u32[m]
//! bytes       4 for each logit, up to four times
//! shares      rows
//! numerics    integers (`rlx_core::sample`)

use super::{Kernel, Planned, claim, dims};
use crate::place::Split;
use crate::view::Cx;
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops;
use rlx_core::sample::{canvas, predict};
use rlx_core::target::Target;
use rlx_core::types::Type;

struct Predict {
    vocab: usize,
}

pub(super) fn takes(op: &ops::Predict, operands: &[&Type], _: &Target) -> Result<(), String> {
    let ops::Predict = op;
    claim::floats(operands)
}

pub(super) fn plan(_: &ops::Predict, step: &Step) -> Result<Planned> {
    let [rows, vocab] = dims(&step.operands[0])?;
    // Results are one row each: a share has some of its words.
    let splits = [Split::Columns(size_of::<u32>()); 2];
    Ok(Planned::new(Predict { vocab }, &splits, 16 * rows * vocab))
}

impl Kernel for Predict {
    fn run(&self, cx: &mut Cx<'_>) {
        let (logits, params, plan) = (cx.slice::<f32>(0), cx.slice::<u32>(1), cx.slice::<u32>(2));
        let Some(params) = params.first_chunk() else { return };
        let columns = cx.result(0).columns::<u32>();
        for i in columns.clone() {
            let at = [plan[canvas::START].wrapping_add(i as u32), plan[canvas::PASS]];
            let row = &logits[i * self.vocab..(i + 1) * self.vocab];
            let (id, confidence) = predict(row, params, canvas::never(plan, i), at);
            cx.result(0).row::<u32>(0)[i - columns.start] = id;
            cx.result(1).row::<u32>(0)[i - columns.start] = confidence;
        }
    }
}
