//! `map`, `zip` and `elementwise_region`: chains of scalar functions.

use super::takes::{self, Taken};
use super::{Context, Kernel, REGIONS, matrix, mismatch, scalar};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::{Op, RegionStep, StepFn, StepOperand};
use rlx_core::target::Target;
use rlx_core::types::{Dim, Shape, Type};

/// Tensors of f32 that have the result's shape, or repeat to it as a row, a column or a number.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["f", "steps"])?;
    takes::are_f32(operands)?;
    let steps = steps(op).ok_or("it takes a scalar function")?;
    for step in &steps {
        function(step.f).ok_or_else(|| format!("its kernel has no {}", step.f.op().name()))?;
    }
    if operands.len() > REGIONS.inputs {
        return Err(format!("its kernel takes {} operands", REGIONS.inputs));
    }
    let result = op.infer(operands).ok().and_then(|mut types| types.pop());
    let result = result.ok_or("its steps do not fit")?;
    match operands.iter().all(|x| index(&x.shape, &result.shape).is_some()) {
        true => Ok(()),
        false => {
            Err("its kernel takes operands of the result's shape, rows, columns or numbers".into())
        }
    }
}

/// The chain that an operator is.
fn steps(op: &Op) -> Option<Vec<RegionStep>> {
    let one =
        |f, n: usize| vec![RegionStep { f, operands: (0..n).map(StepOperand::Input).collect() }];
    Some(match op {
        Op::Map(op) => one(StepFn::Map(op.f), 1),
        Op::Zip(op) => one(StepFn::Zip(op.f), 2),
        Op::Region(op) => op.steps.clone(),
        _ => return None,
    })
}

/// The names of a function's arguments, and its expression over them.
fn function(f: StepFn) -> Option<(&'static [&'static str], &'static str)> {
    match f {
        StepFn::Map(f) => Some((&["x"], scalar::unary(f))),
        StepFn::Zip(f) => Some((&["a", "b"], scalar::binary(f)?)),
        _ => None,
    }
}

/// Where element `i` of `y` has its operand; none for what takes more than a division to find.
fn index(x: &Shape, y: &Shape) -> Option<&'static str> {
    let ones = |dims: &[Dim]| dims.iter().all(|d| d.as_static() == Some(1));
    let [head @ .., last] = x.0.as_slice() else { return Some("0") };
    match y.0.split_last() {
        _ if x == y => Some("i"),
        Some(_) if x.rank() <= y.rank() && ones(&x.0) => Some("0"),
        Some((_, of_y)) if head == of_y && ones(core::slice::from_ref(last)) => Some("i / ROW"),
        Some((width, of_y)) if head.len() <= of_y.len() && ones(head) && last == width => {
            Some("i % ROW")
        }
        _ => None,
    }
}

pub(super) fn elementwise(step: &Step, cx: &Context<'_>) -> Result<Vec<Kernel>> {
    let y = &step.results[0];
    let n = y.bytes / 4;
    let steps = steps(&step.op).ok_or_else(|| mismatch(step))?;
    if n == 0 {
        return Ok(Vec::new());
    }
    let mut emit = cx.emit(step);
    let (mut inputs, mut lines) = (String::new(), Vec::new());
    for (k, x) in step.operands.iter().enumerate() {
        let at = index(&x.ty.shape, &y.ty.shape).ok_or_else(|| mismatch(step))?;
        // An operand may be where the result is.
        inputs += &format!("const float* x{k}, ");
        lines.push(format!("const float i{k} = x{k}[{at}];"));
        emit.argument(x)?;
    }
    for (k, RegionStep { f, operands }) in steps.iter().enumerate() {
        let (names, text) = function(*f).ok_or_else(|| mismatch(step))?;
        let given = names.iter().zip(operands).map(|(name, x)| match x {
            StepOperand::Input(i) => format!("{name} = i{i}"),
            StepOperand::Step(i) => format!("{name} = s{i}"),
        });
        let given: Vec<String> = given.collect();
        lines.push(format!("float s{k}; {{ const float {}; s{k} = {text}; }}", given.join(", ")));
    }
    emit.argument(y)?;
    emit.size("N", n)?;
    emit.size("ROW", y.ty.shape.last().as_static().unwrap_or(1).max(1))?;
    emit.define("INPUTS", inputs);
    emit.define("STEPS", lines.join(" "));
    emit.define("RESULT", format_args!("s{}", steps.len() - 1));
    let text = include_str!("elementwise.cu");
    let (rows, _) = matrix(y)?;
    let kernel = emit.kernel("elementwise", text, [n.div_ceil(256), 1, 1], 256)?;
    Ok(vec![kernel.by_tokens(cx.live(step), 0, n / rows.max(1), 256)])
}
