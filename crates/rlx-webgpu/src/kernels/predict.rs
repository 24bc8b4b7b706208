//! `predict`: a token for each row of logits and its probability, by `rlx_core::sample`'s integer arithmetic.

use super::emit::{Emit, fill};
use super::takes::{self, Taken};
use super::{Context, Launch, matrix, mismatch, word};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::Op;
use rlx_core::sample::{PLAIN_SCALE, canvas};
use rlx_core::target::Target;
use rlx_core::types::Type;

/// Logits of f32.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &[])?;
    takes::floats_and_caches(operands)
}

pub(super) fn predict(step: &Step, _: &Context<'_>, emit: &mut Emit<'_>) -> Result<Option<Launch>> {
    let ([logits, params, onto], [ids, confidence]) = (&step.operands[..], &step.results[..])
    else {
        return Err(mismatch(step));
    };
    let (rows, vocab) = matrix(logits)?;
    if rows == 0 {
        return Ok(None);
    }
    let (logits, params, onto) = (emit.read(logits)?, emit.read(params)?, emit.read(onto)?);
    let (ids, confidence) = (emit.write(ids)?, emit.write(confidence)?);
    let words = vec![
        word(rows)?,
        word(vocab)?,
        logits.word(),
        params.word(),
        onto.word(),
        ids.word(),
        confidence.word(),
        0,
    ];
    let shared =
        [wgsl!("sample/wide.wgsl"), wgsl!("sample/weight.wgsl"), wgsl!("sample/philox.wgsl")];
    let wgsl = fill(
        wgsl!("predict.wgsl"),
        &[
            ("bindings", &emit.bindings()),
            // What the sampler's parts read of the parameters.
            (
                "shared",
                &shared.join("\n").replace("params[", &format!("{}[step.params + ", params.var)),
            ),
            ("plain_scale", &PLAIN_SCALE.to_bits().to_string()),
            ("mask", &canvas::MASK.to_string()),
            ("pass", &canvas::PASS.to_string()),
            ("start", &canvas::START.to_string()),
            ("first", &canvas::IDS.to_string()),
            ("logits", &logits.var),
            ("params", &params.var),
            ("canvas", &onto.var),
            ("ids", &ids.var),
            ("confidence", &confidence.var),
        ],
    );
    Ok(Some(Launch { wgsl, entry: "predict", words, groups: rows }))
}
