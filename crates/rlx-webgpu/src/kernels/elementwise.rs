//! `map` and `zip`: a scalar function of one tensor or two.

use super::emit::{Emit, Place, fill};
use super::{Launch, word};
use rlx_core::ir::lir::{Slice, Step};
use rlx_core::ops::{Map, Zip};
use rlx_core::types::DType;
use rlx_core::{Code, Error, Result};

/// Elements of a slice of f32.
pub(super) fn elements(slice: &Slice) -> u64 {
    slice.bytes / 4
}

/// Fails unless all operands and results are f32.
pub(super) fn floats(name: &str, step: &Step) -> Result<()> {
    match step.operands.iter().chain(&step.results).find(|s| s.ty.dtype != DType::F32) {
        None => Ok(()),
        Some(s) => Err(unsupported(format!("WebGPU's {name} computes in f32, not {}", s.ty))),
    }
}

pub(super) fn unsupported(what: String) -> Error {
    Error::new(Code::Unsupported, what)
}

pub(super) fn unary(op: &Map, step: &Step, emit: &mut Emit<'_>) -> Result<Option<Launch>> {
    floats("map", step)?;
    let text = op.f.wgsl();
    let text = text.ok_or_else(|| unsupported(format!("WGSL has no {}", op.f.name())))?;
    let helpers = op.f.wgsl_helpers();
    let function = format!("{helpers}fn f(x: f32) -> f32 {{ return {text}; }}");
    launch("map", &function, None, step, emit)
}

pub(super) fn binary(op: &Zip, step: &Step, emit: &mut Emit<'_>) -> Result<Option<Launch>> {
    floats("zip", step)?;
    let (a, b) = (&step.operands[0].ty, &step.operands[1].ty);
    let row = b.shape.rank() == 1 && b.shape.last() == a.shape.last();
    if a.shape != step.results[0].ty.shape || (a.shape != b.shape && !row) {
        return Err(unsupported(format!("WebGPU's zip repeats a row at most, not {b} along {a}")));
    }
    let text = op.f.wgsl();
    let text = text.ok_or_else(|| unsupported(format!("WGSL has no {}", op.f.name())))?;
    let function = format!("fn f(a: f32, b: f32) -> f32 {{ return {text}; }}");
    launch("zip", &function, Some(&step.operands[1]), step, emit)
}

fn launch(
    name: &'static str,
    function: &str,
    b: Option<&Slice>,
    step: &Step,
    emit: &mut Emit<'_>,
) -> Result<Option<Launch>> {
    let n = elements(&step.results[0]);
    if n == 0 {
        return Ok(None);
    }
    let a = emit.read(&step.operands[0])?;
    let b_at = match b {
        Some(b) => Some(emit.read(b)?),
        None => None,
    };
    let y = emit.write(&step.results[0])?;
    let words = vec![
        word(n)?,
        a.word(),
        b_at.as_ref().map_or(0, Place::word),
        y.word(),
        word(b.map_or(1, elements))?,
    ];
    let b_text = b_at
        .as_ref()
        .map_or(String::new(), |b| format!(", bitcast<f32>({}[step.b + i % step.repeat])", b.var));
    let wgsl = fill(
        include_str!("elementwise.wgsl"),
        &[
            ("name", name),
            ("second", if b.is_some() { ", b[i % repeat]" } else { "" }),
            ("bindings", &emit.bindings()),
            ("function", function),
            ("entry", name),
            ("a", &a.var),
            ("b", &b_text),
            ("y", &y.var),
        ],
    );
    Ok(Some(Launch { wgsl, entry: name, words, groups: n.div_ceil(64) }))
}
