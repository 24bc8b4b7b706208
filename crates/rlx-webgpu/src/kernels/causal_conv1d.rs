//! `causal_conv1d`: a convolution along the rows whose last rows stay in a state.

use super::emit::{Emit, fill};
use super::scalar;
use super::takes::{self, Taken};
use super::{Context, Launch, matrix, mismatch, unsupported, word};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::Type;

/// Rows that a thread makes: those of the first block alone read the state, and one of them writes it.
const BLOCK: u64 = 16;

/// Tensors of f32.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["act", "gated"])?;
    takes::floats_and_caches(operands)?;
    match op {
        Op::CausalConv1d(op) => op.act.map_or(Ok(()), takes::unary),
        _ => Err("it takes a convolution along the rows".into()),
    }
}

pub(super) fn causal_conv1d(
    step: &Step,
    _: &Context<'_>,
    emit: &mut Emit<'_>,
) -> Result<Option<Launch>> {
    let (Op::CausalConv1d(op), [x, w, state, ctl]) = (&step.op, &step.operands[..]) else {
        return Err(mismatch(step));
    };
    let (rows, _) = matrix(x)?;
    let (channels, taps) = matrix(w)?;
    if rows * channels == 0 {
        return Ok(None);
    }
    let (x, w, ctl) = (emit.read(x)?, emit.read(w)?, emit.read(ctl)?);
    let state = emit.write(state)?;
    let y = emit.write(&step.results[0])?;
    let words = vec![
        word(rows)?,
        word(channels)?,
        x.word(),
        w.word(),
        state.word(),
        ctl.word(),
        y.word(),
        0,
    ];
    let (helpers, act) = match op.act {
        Some(f) => {
            scalar::unary(f).ok_or_else(|| unsupported(format!("WGSL has no {}", f.name())))?
        }
        None => ("", "x"),
    };
    // Of the row at word `at`: b, c and x behind each other.
    let part = |k: u32| format!("bitcast<f32>({}[at + {k}u * step.channels])", x.var);
    let (row, gate) = if op.gated {
        (format!("{} * {}", part(0), part(2)), format!(" * {}", part(1)))
    } else {
        (part(0), String::new())
    };
    // A block behind the first reads rows of x alone.
    let block = BLOCK.max(taps - 1);
    let wgsl = fill(
        wgsl!("causal_conv1d.wgsl"),
        &[
            ("bindings", &emit.bindings()),
            ("taps", &taps.to_string()),
            ("parts", if op.gated { "3" } else { "1" }),
            ("block", &block.to_string()),
            ("helpers", helpers),
            ("act", act),
            ("w", &w.var),
            ("state", &state.var),
            ("ctl", &ctl.var),
            ("y", &y.var),
            ("row", &row),
            ("gate", &gate),
        ],
    );
    let groups = rows.div_ceil(block) * channels.div_ceil(64);
    Ok(Some(Launch { wgsl, entry: "causal_conv1d", words, groups }))
}
