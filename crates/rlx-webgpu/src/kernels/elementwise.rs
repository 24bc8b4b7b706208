//! `map` and `zip`: a scalar function of one tensor or two.

use super::emit::{Emit, Place, fill};
use super::scalar;
use super::takes::{self, Taken};
use super::{Context, Launch, build_also, mismatch, takes_also, types, unsupported, word};
use rlx_core::Result;
use rlx_core::ir::lir::{Slice, Step};
use rlx_core::ops::{Binary, Op};
use rlx_core::target::Target;
use rlx_core::types::{Dim, Shape, Type};

/// Elements of a slice of f32.
pub(super) fn elements(slice: &Slice) -> u64 {
    slice.bytes / 4
}

/// How an operand repeats to the result's shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repeat {
    /// It has an element for each.
    No,
    /// One row for all of them.
    Row,
    /// One element for each row.
    Column,
    /// One element.
    One,
}

impl Repeat {
    /// How `x` repeats to `y`; `None` for what takes more than a division to find.
    pub fn of(x: &Shape, y: &Shape) -> Option<Repeat> {
        let ones = |dims: &[Dim]| dims.iter().all(|d| d.as_static() == Some(1));
        let [head @ .., last] = x.0.as_slice() else { return Some(Repeat::One) };
        match y.0.split_last() {
            _ if x == y => Some(Repeat::No),
            Some(_) if x.rank() <= y.rank() && ones(&x.0) => Some(Repeat::One),
            Some((_, of_y)) if head == of_y && ones(core::slice::from_ref(last)) => {
                Some(Repeat::Column)
            }
            Some((width, of_y)) if head.len() <= of_y.len() && ones(head) && last == width => {
                Some(Repeat::Row)
            }
            _ => None,
        }
    }

    /// Where element `i` of the result has its operand; `row` is the length of a row.
    pub fn index(self, i: &str, row: &str) -> String {
        match self {
            Repeat::No => i.into(),
            Repeat::Row => format!("{i} % {row}"),
            Repeat::Column => format!("{i} / {row}"),
            Repeat::One => "0u".into(),
        }
    }
}

/// A tensor of f32, by a function that has WGSL; others where graphs are run.
pub(super) fn takes_map(op: &Op, operands: &[&Type], target: &Target) -> Taken {
    takes_floats(op, operands).or_else(|why| takes_also(op, operands, target, why))
}

fn takes_floats(op: &Op, operands: &[&Type]) -> Taken {
    takes::knows(op, &["f"])?;
    let (Op::Map(op), [x]) = (op, operands) else { return Err("it takes one operand".into()) };
    takes::unary(op.f)?;
    takes::is_f32(0, x)
}

/// Refuses a function of two numbers that WGSL does not compute well enough.
pub(super) fn binary_function(f: Binary) -> Taken {
    match scalar::binary(f) {
        Some(_) => Ok(()),
        None => Err(format!("its kernel has no function {}", f.name())),
    }
}

/// Two tensors of f32, of which the second repeats to the first's shape; others where graphs are run.
pub(super) fn takes_zip(op: &Op, operands: &[&Type], target: &Target) -> Taken {
    takes_row(op, operands).or_else(|why| takes_also(op, operands, target, why))
}

fn takes_row(op: &Op, operands: &[&Type]) -> Taken {
    takes::knows(op, &["f"])?;
    let (Op::Zip(op), [a, b]) = (op, operands) else { return Err("it takes two operands".into()) };
    binary_function(op.f)?;
    takes::is_f32(0, a)?;
    takes::is_f32(1, b)?;
    match Repeat::of(&b.shape, &a.shape) {
        Some(_) => Ok(()),
        None => {
            Err("its kernel takes two operands of one shape, or a row, a column or a number".into())
        }
    }
}

pub(super) fn unary(step: &Step, cx: &Context<'_>, emit: &mut Emit<'_>) -> Result<Option<Launch>> {
    if takes_floats(&step.op, &types(step)).is_err() {
        return build_also(step, cx, emit);
    }
    let Op::Map(op) = &step.op else { return Err(mismatch(step)) };
    let text = scalar::unary(op.f);
    let (helpers, text) =
        text.ok_or_else(|| unsupported(format!("WGSL has no {}", op.f.name())))?;
    let function = format!("{helpers}fn f(x: f32) -> f32 {{ return {text}; }}");
    launch("map", &function, None, step, emit)
}

pub(super) fn binary(step: &Step, cx: &Context<'_>, emit: &mut Emit<'_>) -> Result<Option<Launch>> {
    if takes_row(&step.op, &types(step)).is_err() {
        return build_also(step, cx, emit);
    }
    let Op::Zip(op) = &step.op else { return Err(mismatch(step)) };
    let text = scalar::binary(op.f);
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
    let row = step.results[0].ty.shape.last().as_static().unwrap_or(1);
    let words =
        vec![word(n)?, a.word(), b_at.as_ref().map_or(0, Place::word), y.word(), word(row.max(1))?];
    let repeat = b.and_then(|b| Repeat::of(&b.ty.shape, &step.results[0].ty.shape));
    let repeat = repeat.unwrap_or(Repeat::No);
    let b_text = b_at.as_ref().map_or(String::new(), |b| {
        format!(", bitcast<f32>({}[step.b + {}])", b.var, repeat.index("i", "step.row"))
    });
    let second = format!(", b[{}]", repeat.index("i", "row"));
    let wgsl = fill(
        wgsl!("elementwise.wgsl"),
        &[
            ("name", name),
            ("second", if b.is_some() { &second } else { "" }),
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
