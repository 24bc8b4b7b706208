//! `rms_norm` as a step of its own, before a matmul it is that one's prologue; `rms_norm_add` and `gated_rms_norm`.

use super::emit::{Emit, fill};
use super::takes::{self, Taken};
use super::{Context, Launch, matrix, mismatch, scalar, unsupported, word};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::{Op, Unary};
use rlx_core::target::Target;
use rlx_core::types::Type;

/// Rows of f32, of any rank.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["eps"])?;
    takes::floats_and_caches(operands)?;
    takes::rows(operands)
}

/// The same with a gate whose function WGSL has.
pub(super) fn takes_gated(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["eps", "act"])?;
    takes::floats_and_caches(operands)?;
    takes::rows(operands)?;
    match op {
        Op::GatedRmsNorm(op) => takes::unary(op.act),
        _ => Err("it takes a norm with a gate".into()),
    }
}

/// What joins the normed row, of the same shape.
enum Second {
    /// It is added.
    Residual,
    /// The row is multiplied by this function of it.
    Gate(Unary),
}

/// Threads of a workgroup, which is a row: as many as its elements fill, rounded up. What 256 threads would
/// add to that is zeros, so sums have the same bits. A software GPU takes as long for an idle thread.
fn threads(k: u64) -> u64 {
    k.next_power_of_two().clamp(64, 256)
}

pub(super) fn rms_norm(
    step: &Step,
    cx: &Context<'_>,
    emit: &mut Emit<'_>,
) -> Result<Option<Launch>> {
    let (eps, second) = match &step.op {
        Op::RmsNorm(op) => (op.eps, None),
        Op::RmsNormAdd(op) => (op.eps, Some(Second::Residual)),
        Op::GatedRmsNorm(op) => (op.eps, Some(Second::Gate(op.act))),
        _ => return Err(mismatch(step)),
    };
    let (rows, k) = matrix(&step.operands[0])?;
    if rows == 0 || k == 0 {
        return Ok(None);
    }
    let x = emit.read(&step.operands[0])?;
    let w = emit.read(&step.operands[1])?;
    let (mut second_word, mut joined, mut functions) = (0, String::new(), String::new());
    if let Some(second) = &second {
        let place = emit.read(&step.operands[2])?;
        let element = format!("bitcast<f32>({}[step.second + row * step.k + c])", place.var);
        joined = match second {
            Second::Residual => format!(" + {element}"),
            Second::Gate(f) => {
                let text = scalar::unary(*f);
                let (helpers, text) =
                    text.ok_or_else(|| unsupported(format!("WGSL has no {}", f.name())))?;
                functions = format!("{helpers}fn act(x: f32) -> f32 {{ return {text}; }}\n");
                format!(" * act({element})")
            }
        };
        second_word = place.word();
    }
    let y = emit.write(&step.results[0])?;
    let words =
        vec![word(k)?, word(rows)?, x.word(), w.word(), y.word(), eps.to_bits(), second_word, 0];
    let formula = match second {
        None => "",
        Some(Second::Residual) => " + residual[r, c]",
        Some(Second::Gate(_)) => " * act(gate[r, c])",
    };
    let threads = threads(k);
    let (rows_len, skip) = cx.skip_rows(rows, "row", emit);
    let wgsl = fill(
        wgsl!("rms_norm.wgsl"),
        &[
            ("bindings", &emit.bindings()),
            ("rows_len", rows_len),
            ("skip", &skip),
            ("formula", formula),
            ("threads", &threads.to_string()),
            ("half", &(threads / 2).to_string()),
            ("functions", &functions),
            ("joined", &joined),
            ("x", &x.var),
            ("w", &w.var),
            ("y", &y.var),
        ],
    );
    Ok(Some(Launch { wgsl, entry: "rms_norm", words, groups: rows }))
}
