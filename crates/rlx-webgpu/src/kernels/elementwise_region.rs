//! `elementwise_region`: a chain of scalar functions, printed from their expressions.

use super::elementwise::{Repeat, binary_function, elements};
use super::emit::{Emit, fill};
use super::scalar;
use super::takes::{self, Taken};
use super::{Context, Launch, build_also, mismatch, takes_also, types, unsupported, word};
use crate::target::REGIONS;
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::{Op, RegionStep, StepFn, StepOperand};
use rlx_core::target::Target;
use rlx_core::types::Type;

/// Chains of `map` and `zip` over tensors of f32 that have the result's shape or repeat to it; others where
/// graphs are run.
pub(super) fn takes(op: &Op, operands: &[&Type], target: &Target) -> Taken {
    takes_rows(op, operands).or_else(|why| takes_also(op, operands, target, why))
}

fn takes_rows(op: &Op, operands: &[&Type]) -> Taken {
    takes::knows(op, &["steps"])?;
    takes::floats_and_caches(operands)?;
    let Op::Region(region) = op else { return Err("it takes a chain of steps".into()) };
    for step in &region.steps {
        match step.f {
            StepFn::Map(f) => takes::unary(f)?,
            StepFn::Zip(f) => binary_function(f)?,
            other => return Err(format!("its kernel has no {}", other.op().name())),
        }
    }
    let most = REGIONS.inputs;
    if operands.len() > most {
        return Err(format!("its kernel takes {most} operands"));
    }
    let Some(result) = op.infer(operands).ok().and_then(|mut types| types.pop()) else {
        return Err("its steps do not fit".into());
    };
    if operands.iter().all(|x| Repeat::of(&x.shape, &result.shape).is_some()) {
        return Ok(());
    }
    Err("its kernel takes operands of the result's shape, rows, columns or numbers".into())
}

/// A function's definitions, one by one, those it calls before it; and its name.
fn function(f: StepFn) -> Result<(Vec<String>, String)> {
    let (name, arguments, text) = match f {
        StepFn::Map(f) => (f.name(), "x: f32", scalar::unary(f)),
        StepFn::Zip(f) => (f.name(), "a: f32, b: f32", scalar::binary(f).map(|text| ("", text))),
        other => {
            return Err(unsupported(format!("WebGPU's regions have no {}", other.op().name())));
        }
    };
    let (helpers, text) = text.ok_or_else(|| unsupported(format!("WGSL has no {name}")))?;
    let name = format!("{name}_step");
    let own = format!("fn {name}({arguments}) -> f32 {{ return {text}; }}\n");
    // Two functions may call the same one.
    let called = helpers.split_inclusive("\n}\n").map(String::from);
    Ok((called.chain([own]).collect(), name))
}

fn operand(x: &StepOperand) -> String {
    match x {
        StepOperand::Input(i) => format!("i{i}"),
        StepOperand::Step(i) => format!("s{i}"),
    }
}

pub(super) fn region(step: &Step, cx: &Context<'_>, emit: &mut Emit<'_>) -> Result<Option<Launch>> {
    if takes_rows(&step.op, &types(step)).is_err() {
        return build_also(step, cx, emit);
    }
    let Op::Region(op) = &step.op else { return Err(mismatch(step)) };
    let result = &step.results[0];
    let n = elements(result);
    if n == 0 {
        return Ok(None);
    }
    let row = result.ty.shape.last().as_static().unwrap_or(1);
    let (mut words, mut lines) = (vec![word(n)?, word(row.max(1))?], Vec::new());
    let mut inputs = Vec::new();
    for (i, x) in step.operands.iter().enumerate() {
        let at = emit.read(x)?;
        let repeat = Repeat::of(&x.ty.shape, &result.ty.shape);
        let index = repeat.ok_or_else(|| mismatch(step))?.index("i", "step.row");
        lines.push(format!("let i{i} = bitcast<f32>({}[step.i{i} + {index}]);", at.var));
        inputs.push(at.word());
    }
    let y = emit.write(result)?;
    words.push(y.word());
    words.extend(inputs);

    let (mut functions, mut formula): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    for (k, RegionStep { f, operands }) in op.steps.iter().enumerate() {
        let (texts, name) = function(*f)?;
        for text in texts {
            if !functions.contains(&text) {
                functions.push(text);
            }
        }
        let read: Vec<String> = operands.iter().map(operand).collect();
        let read = read.join(", ");
        lines.push(format!("let s{k} = {name}({read});"));
        formula.push(format!("s{k} = {}({read})", name.trim_end_matches("_step")));
    }
    let last = op.steps.len() - 1;
    lines.push(format!("{}[step.y + i] = bitcast<u32>(s{last});", y.var));
    let wgsl = fill(
        wgsl!("elementwise_region.wgsl"),
        &[
            ("formula", &format!("s{last}; {}", formula.join("; "))),
            ("bindings", &emit.bindings()),
            ("functions", &functions.concat()),
            ("body", &lines.join("\n    ")),
        ],
    );
    Ok(Some(Launch { wgsl, entry: "elementwise_region", words, groups: n.div_ceil(64) }))
}
