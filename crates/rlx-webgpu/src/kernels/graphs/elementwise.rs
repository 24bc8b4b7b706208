//! `map`, `zip`, `compare`, `select`, `cast`, `clamp` and chains of them, of any element types up to 32 bits and
//! over shapes that repeat to each other on any axis: one engine, for which a single operator is a chain of one.

use super::functions;
use crate::kernels::elements::cast;
use crate::kernels::elements::each::Each;
use crate::kernels::elements::element::{Element, Register};
use crate::kernels::elements::indices::{MOST_WORDS, Walk, Words, dims, repeated};
use crate::kernels::emit::Emit;
use crate::kernels::takes::{self, Taken};
use crate::kernels::{Context, Launch, mismatch, unsupported};
use crate::target::REGIONS;
use rlx_core::ir::lir::Step;
use rlx_core::ops::{Binary, Op, Region, RegionStep, StepFn, StepOperand};
use rlx_core::target::Target;
use rlx_core::types::{DType, Kind, Type};
use rlx_core::{Error, Result};

/// The chain that an operator is.
fn chain(op: &Op, operands: usize) -> Option<Region> {
    if let Op::Region(region) = op {
        return Some(region.clone());
    }
    let operands = (0..operands).map(StepOperand::Input).collect();
    StepFn::of(op).map(|f| Region { steps: vec![RegionStep { f, operands }] })
}

/// Tensors of f32, f16, bf16, of integers of up to 32 bits, and of booleans, as the operators' rules allow.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["f", "to", "min", "max", "steps"])?;
    for (i, ty) in operands.iter().enumerate() {
        if ty.kind != Kind::Tensor || Element::of(ty.dtype).is_none() {
            return Err(takes::not(i, ty));
        }
    }
    let most = REGIONS.inputs;
    if operands.len() > most {
        return Err(format!("its kernel takes {most} operands"));
    }
    let types = chain(op, operands.len()).and_then(|c| Some((c.types(operands).ok()?, c)));
    let Some((types, chain)) = types else { return Err("its steps do not fit".into()) };
    for (k, step) in chain.steps.iter().enumerate() {
        if Element::of(types[k].dtype).is_none() {
            return Err(format!("its kernel makes no {}", types[k].dtype));
        }
        let of = arguments(step, operands, &types)[0];
        match step.f {
            StepFn::Map(f) if functions::unary(f).is_none() => {
                return Err(format!("its kernel has no function {}", f.name()));
            }
            StepFn::Zip(f) if of.is_float() && functions::binary(f).is_none() => {
                return Err(format!("its kernel has no function {}", f.name()));
            }
            _ => {}
        }
    }
    let result = types.last().map(|ty| &ty.shape);
    let bounds = chain.steps.iter().filter(|s| matches!(s.f, StepFn::Clamp(..))).count();
    let rank = match result {
        Some(shape) if operands.iter().any(|x| x.shape != *shape) => shape.rank(),
        _ => 1,
    };
    let words = 2 + operands.len() + 2 * bounds + Walk::most_words(rank, operands.len());
    if words > MOST_WORDS {
        return Err(format!(
            "its kernel has no room for {rank} axes of {} operands",
            operands.len()
        ));
    }
    Ok(())
}

/// Element types of a step's operands.
fn arguments(step: &RegionStep, inputs: &[&Type], steps: &[Type]) -> Vec<DType> {
    let of = |x: &StepOperand| match *x {
        StepOperand::Input(i) => inputs[i].dtype,
        StepOperand::Step(i) => steps[i].dtype,
    };
    step.operands.iter().map(of).collect()
}

fn element(dtype: DType) -> Result<Element> {
    Element::of(dtype).ok_or_else(|| unsupported(format!("elements of {dtype}")))
}

pub(super) fn elementwise(
    step: &Step,
    _: &Context<'_>,
    emit: &mut Emit<'_>,
) -> Result<Option<Launch>> {
    let chain = chain(&step.op, step.operands.len()).ok_or_else(|| mismatch(step))?;
    let inputs: Vec<&Type> = step.operands.iter().map(|s| &s.ty).collect();
    let types = chain.types(&inputs)?;
    let result = &step.results[0];
    let (n, made) = (result.ty.shape.elements()?, element(result.ty.dtype)?);
    if n == 0 {
        return Ok(None);
    }
    let sizes = dims(&result.ty)?;
    let mut strides = Vec::with_capacity(inputs.len());
    for x in &inputs {
        strides.push(repeated(&dims(x)?, &sizes));
    }
    let walk = Walk::new(&sizes, &strides);
    let mut words = Words::default();
    let (mut body, at) = walk.text("c", "i", &mut words)?;
    let mut texts: Vec<String> = Vec::new();
    for (k, (x, at)) in step.operands.iter().zip(&at).enumerate() {
        let (place, own) = (emit.read(x)?, element(x.ty.dtype)?);
        let start = words.bits(place.word());
        texts.push(own.loader(&format!("i{k}"), &place, &start));
        body += &format!("let i{k} = load_i{k}({at});\n    ");
    }
    let mut formula = Vec::with_capacity(chain.steps.len());
    for (k, step) in chain.steps.iter().enumerate() {
        let own = element(types[k].dtype)?;
        let from = arguments(step, &inputs, &types);
        let names: Vec<String> = step.operands.iter().map(name).collect();
        let value = expression(step.f, &from, &names, own, &mut texts, &mut words)?;
        texts.push(own.helpers().into());
        body += &format!("let s{k} = {};\n    ", own.rounded(&value));
        formula.push(format!("s{k} = {}({})", label(step.f), names.join(", ")));
    }
    let last = chain.steps.len() - 1;
    body += &format!("return {};", made.bits(&format!("s{last}")));
    let entry = match &step.op {
        Op::Map(_) => "map",
        Op::Zip(_) => "zip",
        Op::Compare(_) => "compare",
        Op::Select(_) => "select_of",
        Op::Cast(_) => "cast_to",
        Op::Clamp(_) => "clamp_of",
        _ => "elementwise_region",
    };
    let kinds: Vec<String> =
        inputs.iter().enumerate().map(|(k, x)| format!("i{k} {}", x.dtype)).collect();
    Each {
        entry,
        head: [
            format!("{:<11} y[i] = s{last}; {}", entry, formula.join("; ")),
            format!(
                "y {}[n]    {}, which may repeat along axes",
                result.ty.dtype,
                kinds.join(", ")
            ),
            "every operand's and y's".into(),
            "each step rounds or wraps to its type; f32 within".into(),
        ],
        functions: texts,
        body,
        result,
        n,
        element: made,
    }
    .launch(words, emit)
}

fn name(x: &StepOperand) -> String {
    match x {
        StepOperand::Input(i) => format!("i{i}"),
        StepOperand::Step(i) => format!("s{i}"),
    }
}

/// A step's function in the header.
fn label(f: StepFn) -> String {
    match f {
        StepFn::Map(f) => f.name().into(),
        StepFn::Zip(f) => f.name().into(),
        StepFn::Compare(f) => f.name().into(),
        StepFn::Cast(to) => to.name().into(),
        other => other.op().name().into(),
    }
}

/// The expression of a step over its operands' names; functions that it calls go to `texts`.
fn expression(
    f: StepFn,
    from: &[DType],
    names: &[String],
    own: Element,
    texts: &mut Vec<String>,
    words: &mut Words,
) -> Result<String> {
    let register = element(from[0])?.register();
    Ok(match (f, names) {
        (StepFn::Map(f), [x]) => {
            let (helpers, text) = functions::unary(f)
                .ok_or_else(|| unsupported(format!("WGSL has no {}", f.name())))?;
            // Two functions may call the same one.
            texts.extend(helpers.split_inclusive("\n}\n").map(String::from));
            texts.push(format!("fn {}_step(x: f32) -> f32 {{ return {text}; }}\n", f.name()));
            format!("{}_step({x})", f.name())
        }
        (StepFn::Zip(f), [a, b]) if register == Register::F32 => {
            let (helpers, text) = functions::binary(f)
                .ok_or_else(|| unsupported(format!("WGSL has no {}", f.name())))?;
            texts.extend(helpers.split_inclusive("\n}\n").map(String::from));
            texts.push(format!(
                "fn {}_step(a: f32, b: f32) -> f32 {{ return {text}; }}\n",
                f.name()
            ));
            format!("{}_step({a}, {b})", f.name())
        }
        (StepFn::Zip(f), [a, b]) => match f {
            Binary::Add => format!("({a} + {b})"),
            Binary::Sub => format!("({a} - {b})"),
            Binary::Mul => format!("({a} * {b})"),
            Binary::Div => format!("({a} / {b})"),
            Binary::Mod => format!("({a} % {b})"),
            Binary::Max => format!("max({a}, {b})"),
            Binary::Min => format!("min({a}, {b})"),
            Binary::Pow => return Err(unsupported("pow of integers".into())),
        },
        (StepFn::Compare(f), [_, _]) => {
            let ty = if register == Register::Bool { "u32" } else { register.name() };
            let (name, text) = (format!("{}_{ty}", f.name()), functions::comparison(f));
            texts.push(format!("fn {name}(a: {ty}, b: {ty}) -> bool {{ return {text}; }}\n"));
            let each: Vec<String> = names
                .iter()
                .map(|x| if register == Register::Bool { format!("u32({x})") } else { x.clone() })
                .collect();
            format!("{name}({})", each.join(", "))
        }
        (StepFn::Select, [cond, a, b]) => format!("select({b}, {a}, {cond})"),
        (StepFn::Clamp(low, high), [x]) => {
            let (low, high) = (words.bits(low.to_bits()), words.bits(high.to_bits()));
            format!("min(max({x}, bitcast<f32>({low})), bitcast<f32>({high}))")
        }
        (StepFn::Cast(to), [x]) => cast::cast(x, register, to, own.register(), texts),
        _ => return Err(Error::internal("a step of other operands than its function has")),
    })
}
