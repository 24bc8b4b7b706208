//! `reduce`: sums, means, extremes and products along any axes.

use crate::kernels::elements::each::Each;
use crate::kernels::elements::element::{Element, Register, once};
use crate::kernels::elements::indices::{MOST_WORDS, Walk, Words, dims, row_major};
use crate::kernels::emit::{Emit, fill};
use crate::kernels::takes::{self, Taken};
use crate::kernels::{Context, Launch, mismatch, unsupported};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::{Op, Reduction};
use rlx_core::target::Target;
use rlx_core::types::{DType, Scalar, Type};

/// Elements that one invocation reduces on its own; longer runs have a workgroup.
const SHORT: u64 = 64;

/// f32, and integers of up to 32 bits. Halves are widened by the compiler, which keeps their sums wide.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["f", "axes", "keep"])?;
    let [x] = operands else { return Err("it takes one operand".into()) };
    let Some(element) = Element::of(x.dtype).filter(|e| !e.is_half()) else {
        return Err(takes::not(0, x));
    };
    if element.register() == Register::Bool {
        return Err(takes::not(0, x));
    }
    if 8 + 2 * Walk::most_words(x.shape.rank(), 1) > MOST_WORDS {
        return Err(format!("its kernel has no room for {} axes", x.shape.rank()));
    }
    Ok(())
}

/// Bits of what a fold begins with.
fn start(f: Reduction, dtype: DType, count: u64) -> u32 {
    // The least and the largest value of an integer type.
    let ends = match dtype {
        DType::Scalar(Scalar::I8) => Some((i8::MIN as u32, i8::MAX as u32)),
        DType::Scalar(Scalar::I16) => Some((i16::MIN as u32, i16::MAX as u32)),
        DType::Scalar(Scalar::I32) => Some((i32::MIN as u32, i32::MAX as u32)),
        DType::Scalar(Scalar::U8) => Some((0, u8::MAX.into())),
        DType::Scalar(Scalar::U32) => Some((0, u32::MAX)),
        _ => None,
    };
    match (f, ends) {
        (Reduction::Max, Some((least, _))) => least,
        (Reduction::Min, Some((_, most))) => most,
        (Reduction::Prod, Some(_)) => 1,
        (_, Some(_)) => 0,
        // The mean of nothing.
        (Reduction::Mean, None) if count == 0 => f32::NAN.to_bits(),
        (f, None) => (f.start() as f32).to_bits(),
    }
}

pub(super) fn reduce(step: &Step, _: &Context<'_>, emit: &mut Emit<'_>) -> Result<Option<Launch>> {
    let Op::Reduce(op) = &step.op else { return Err(mismatch(step)) };
    let (x, y) = (&step.operands[0], &step.results[0]);
    let element = Element::of(x.ty.dtype);
    let element = element.ok_or_else(|| unsupported(format!("a reduction of {}", x.ty.dtype)))?;
    let (sizes, n) = (dims(&x.ty)?, y.ty.shape.elements()?);
    if n == 0 {
        return Ok(None);
    }
    let strides = row_major(&sizes);
    let walk = |reduced: bool| {
        let axes = (0..sizes.len()).filter(|axis| op.axes.contains(axis) == reduced);
        let (sizes, strides): (Vec<u64>, Vec<i64>) =
            axes.map(|axis| (sizes[axis], strides[axis])).unzip();
        (sizes.iter().product::<u64>(), Walk::new(&sizes, &[strides]))
    };
    let ((_, kept), (count, along)) = (walk(false), walk(true));
    let mut words = Words::default();
    let (kept, base) = kept.text("c", "i", &mut words)?;
    let kept = format!("{kept}let base = {};", base[0]);
    let (along, at) = along.text("k", "r", &mut words)?;
    let along = format!("{along}let v = load_x(base + {});", at[0]);
    let place = emit.read(x)?;
    let from = words.bits(place.word());
    let first = words.bits(start(op.f, x.ty.dtype, count));
    let first = match element.register() {
        Register::F32 => format!("bitcast<f32>({first})"),
        Register::I32 => format!("bitcast<i32>({first})"),
        _ => first,
    };
    let next = match op.f {
        Reduction::Sum | Reduction::Mean => "all + v",
        Reduction::Max => "max(all, v)",
        Reduction::Min => "min(all, v)",
        Reduction::Prod => "all * v",
    };
    let result = match op.f {
        Reduction::Mean => {
            format!("all / bitcast<f32>({})", words.bits((count.max(1) as f32).to_bits()))
        }
        _ => "all".into(),
    };
    let (result, count_at) = (element.bits(&result), words.size(count)?);
    let loader = element.loader("x", &place, &from);
    if count <= SHORT || element.per_word() > 1 {
        return Each {
            entry: "reduce",
            head: [
                format!("reduce      y[i] = {} of x along the reduced axes", op.f.name()),
                format!("x, y {}", x.ty.dtype),
                "x's and y's".into(),
                format!("{}, one element after another", element.register().name()),
            ],
            functions: vec![loader, element.helpers().into()],
            body: format!(
                "{kept}\n    var all = {first};\n    for (var r = 0u; r < {count_at}; r++) {{\n        \
                 {along}\n        all = {next};\n    }}\n    return {result};"
            ),
            result: y,
            n,
            element,
        }
        .launch(words, emit);
    }
    let y_at = emit.write(y)?;
    let (y_start, n_at) = (words.bits(y_at.word()), words.size(n)?);
    let threads = if count <= 1024 { "64" } else { "256" };
    let wgsl = fill(
        wgsl!("reduce.wgsl"),
        &[
            ("f", op.f.name()),
            ("type", x.ty.dtype.name()),
            ("register", element.register().name()),
            ("threads", threads),
            ("bindings", &emit.bindings()),
            ("functions", &once([loader, element.helpers().into()])),
            ("n", &n_at),
            ("kept", &kept),
            ("start", &first),
            ("count", &count_at),
            ("along", &along),
            ("step", next),
            ("y", &y_at.var),
            ("y_start", &y_start),
            ("result", &result),
        ],
    );
    Ok(Some(Launch { wgsl, entry: "reduce", words: words.0, groups: n }))
}
