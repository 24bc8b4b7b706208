//! `map`, `zip`, `compare`, `select`, `cast`, `clamp` and chains of them, of any scalar types and over shapes that
//! repeat to each other along any axis: a single operator is a chain of one.

use super::elements::{computed, stored};
use super::emit::Emit;
use super::functions;
use super::numbers::Numbers;
use super::takes::{self, Taken};
use super::units::unit;
use super::walk::{Walk, dims, repeated};
use super::{Context, Kernel, REGIONS, elementwise, matrix, mismatch, unsupported};
use rlx_core::Result;
use rlx_core::ir::lir::{Slice, Step};
use rlx_core::ops::{Op, Region, RegionStep, StepFn, StepOperand};
use rlx_core::target::Target;
use rlx_core::types::{DType, Kind, Scalar, Type};

/// Threads of a block.
const THREADS: u64 = 256;

/// Tensors of any scalar type; complex numbers are selected and cast alone.
pub(super) fn takes(op: &Op, operands: &[&Type], target: &Target) -> Taken {
    takes::knows(op, &["f", "to", "min", "max", "steps"])?;
    for (i, ty) in operands.iter().enumerate() {
        if ty.kind != Kind::Tensor || ty.dtype.is_block() {
            return Err(format!("its kernel takes no {} as operand {i}", ty.dtype));
        }
    }
    if is_select(op) || elementwise::takes(op, operands, target).is_ok() {
        return Ok(());
    }
    let most = REGIONS.inputs;
    if operands.len() > most {
        return Err(format!("its kernel takes {most} operands"));
    }
    let types = chain(op, operands.len()).and_then(|c| Some((c.types(operands).ok()?, c)));
    let Some((types, chain)) = types else { return Err("its steps do not fit".into()) };
    for (k, step) in chain.steps.iter().enumerate() {
        let from = of_operands(step, operands, &types);
        expression(step.f, &from, types[k].dtype)?;
    }
    Ok(())
}

fn is_select(op: &Op) -> bool {
    matches!(op, Op::Select(_))
}

/// The chain that an operator is.
fn chain(op: &Op, operands: usize) -> Option<Region> {
    if let Op::Region(region) = op {
        return Some(region.clone());
    }
    let operands = (0..operands).map(StepOperand::Input).collect();
    StepFn::of(op).map(|f| Region { steps: vec![RegionStep { f, operands }] })
}

/// Element types of a step's operands.
fn of_operands(step: &RegionStep, inputs: &[&Type], steps: &[Type]) -> Vec<DType> {
    let of = |x: &StepOperand| match *x {
        StepOperand::Input(i) => inputs[i].dtype,
        StepOperand::Step(i) => steps[i].dtype,
    };
    step.operands.iter().map(of).collect()
}

/// A number of an f32 as a type that is computed with.
fn number(x: f32, computed: &str) -> String {
    if x.is_finite() {
        // The nine digits of an f32 read back as it.
        return format!("{computed}({x:.9e}f)");
    }
    format!("{computed}(__uint_as_float({:#x}u))", x.to_bits())
}

/// A step's parameters and its expression over them, an element of the step's type; or why there is none.
fn expression(
    f: StepFn,
    from: &[DType],
    to: DType,
) -> core::result::Result<(&'static [&'static str], String), String> {
    let none = |dtype: DType| format!("its kernel computes with no {dtype}");
    let complex = DType::Scalar(Scalar::C64);
    if let (StepFn::Cast(_), [from]) = (f, from)
        && (*from == complex || to == complex)
    {
        return Err(none(complex));
    }
    let kind = computed(from[0]).ok_or_else(|| none(from[0]))?;
    let made = stored(to).ok_or_else(|| none(to))?;
    let of_value = |text: &str| format!("rounded_to<{made}>({text})");
    Ok(match f {
        StepFn::Map(f) => (&["x"], of_value(functions::unary(f, kind))),
        StepFn::Zip(f) => {
            let text = functions::binary(f, kind);
            let text =
                text.ok_or_else(|| format!("its kernel has no {} of {}", f.name(), from[0]))?;
            (&["a", "b"], of_value(text))
        }
        StepFn::Compare(f) => (&["a", "b"], of_value(functions::comparison(f))),
        StepFn::Select => {
            computed(to).ok_or_else(|| none(to))?;
            (&["c", "a", "b"], of_value("(c ? a : b)"))
        }
        StepFn::Clamp(min, max) => {
            let suffix = if kind == "f64" { "" } else { "f" };
            let (min, max) = (number(min, kind), number(max, kind));
            (&["x"], of_value(&format!("fmin{suffix}(fmax{suffix}(x, {min}), {max})")))
        }
        StepFn::Cast(_) => (&["x"], format!("cast_to<{made}>(x)")),
    })
}

pub(super) fn run(step: &Step, cx: &Context<'_>) -> Result<Vec<Kernel>> {
    let inputs: Vec<&Type> = step.operands.iter().map(|s| &s.ty).collect();
    if elementwise::takes(&step.op, &inputs, cx.target).is_ok() {
        return elementwise::elementwise(step, cx);
    }
    let chain = chain(&step.op, step.operands.len()).ok_or_else(|| mismatch(step))?;
    let types = chain.types(&inputs)?;
    let y = &step.results[0];
    let n = y.ty.shape.elements()?;
    if n == 0 {
        return Ok(Vec::new());
    }
    // Bits are selected as they are.
    let bits = |dtype: DType| unit(dtype.block_bytes() as u64);
    let none = || unsupported(format!("{} of {}", step.op.name(), y.ty));
    let of = |dtype: DType| if is_select(&step.op) { Some(bits(dtype)) } else { stored(dtype) };
    let sizes = dims(y)?;
    let mut strides = Vec::with_capacity(inputs.len());
    for x in &step.operands {
        strides.push(repeated(&dims(x)?, &sizes));
    }
    let (mut emit, mut numbers) = (cx.emit(step), Numbers::default());
    // An operand may be where the result is.
    for x in &step.operands {
        emit.argument(x)?;
    }
    emit.argument(y)?;
    let mut walk = Walk::new(&sizes, &strides);
    let (width, lanes) = lanes(&walk, step, &emit);
    walk = walk.by(width, &lanes);
    let threads = n / width;
    emit.define("WIDTH", format_args!("{width}u"));
    emit.define("COUNT", numbers.size(threads)?);
    let (mut loads, at) = walk.text("c", "i", &mut numbers)?;
    let (mut parameters, mut text) = (String::new(), String::new());
    for (k, (x, at)) in step.operands.iter().zip(&at).enumerate() {
        let ty = of(x.ty.dtype).ok_or_else(none)?;
        if lanes[k] {
            parameters += &format!("const Lanes<{ty}>* x{k}, ");
            loads += &format!("const Lanes<{ty}> v{k} = x{k}[{at}]; ");
            text += &format!("const auto i{k} = value_of(v{k}.at[lane]); ");
        } else {
            parameters += &format!("const {ty}* x{k}, ");
            loads += &format!("const auto i{k} = value_of(x{k}[{at}]); ");
        }
    }
    for (k, RegionStep { f, operands }) in chain.steps.iter().enumerate() {
        let from = of_operands(&chain.steps[k], &inputs, &types);
        let (names, made) = match is_select(&step.op) {
            true => (&["c", "a", "b"][..], "(c ? a : b)".to_owned()),
            false => expression(*f, &from, types[k].dtype).map_err(unsupported)?,
        };
        let given = names.iter().zip(operands).map(|(name, x)| match x {
            StepOperand::Input(i) => format!("const auto {name} = i{i};"),
            StepOperand::Step(i) => format!("const auto {name} = s{i};"),
        });
        let given: Vec<String> = given.collect();
        let ty = of(types[k].dtype).ok_or_else(none)?;
        text += &format!("{ty} e{k}; {{ {} e{k} = {made}; }} ", given.join(" "));
        text += &format!("const auto s{k} = value_of(e{k}); ");
    }
    emit.define("TYPE", of(y.ty.dtype).ok_or_else(none)?);
    emit.define("INPUTS", parameters);
    emit.define("LOADS", loads);
    emit.define("STEPS", text);
    emit.define("RESULT", format_args!("e{}", chain.steps.len() - 1));
    emit.numbers(&numbers);
    for text in [include_str!("integers.cuh"), include_str!("casts.cuh")] {
        emit.line(text);
    }
    emit.elements();
    let text = include_str!("chain.cu");
    let blocks = threads.div_ceil(THREADS);
    let kernel = emit.kernel("chain", text, [blocks, 1, 1], THREADS as u32)?;
    // Rows of a result without axes are the number itself.
    let of_a_row = if sizes.is_empty() { 1 } else { n / matrix(y)?.0.max(1) };
    Ok(vec![kernel.by_tokens(cx.live(step), 0, of_a_row, THREADS * width)])
}

/// How many elements of the result a thread makes, so that none of its accesses has more than 16 bytes, and which
/// operands have as many side by side; the others have one element for all of them.
fn lanes(walk: &Walk, step: &Step, emit: &Emit<'_>) -> (u64, Vec<bool>) {
    let slices: Vec<&Slice> = step.operands.iter().chain(&step.results[..1]).collect();
    let bytes: Vec<u64> = slices.iter().map(|s| s.ty.dtype.block_bytes() as u64).collect();
    let mut lanes: Vec<bool> = walk.strides.iter().map(|s| s.last() == Some(&1)).collect();
    let one_way = walk.strides.iter().all(|s| matches!(s.last(), Some(0 | 1)));
    let last = walk.dims.last().copied().unwrap_or(1);
    // The result is one, too.
    lanes.push(true);
    let fits = |width: &u64| {
        let whole = |(i, lanes): (usize, &bool)| {
            let start = emit.arguments[i].offset.is_multiple_of(width * bytes[i]);
            let strides = walk.strides.get(i).and_then(|s| s.split_last());
            let steps = strides.is_none_or(|(_, s)| s.iter().all(|s| s % *width as i64 == 0));
            !lanes || (width * bytes[i] <= 16 && start && steps)
        };
        last.is_multiple_of(*width) && lanes.iter().enumerate().all(whole)
    };
    let width = [8, 4, 2].into_iter().find(|width| one_way && fits(width)).unwrap_or(1);
    if width == 1 {
        lanes.fill(false);
    }
    lanes.truncate(step.operands.len());
    (width, lanes)
}
