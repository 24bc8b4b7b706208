//! `reduce`: sums, means, extremes and products along any axes.

use super::elements::stored;
use super::takes::{self, Taken};
use super::tensor_axes::{Axes, Sizes, layout};
use super::{Context, Kernel, mismatch, unsupported};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::{Op, Reduction};
use rlx_core::target::Target;
use rlx_core::types::{DType, Kind, Scalar, Type};

/// Threads of a block.
const THREADS: u64 = 256;

/// A tensor of floats or integers.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["f", "axes", "keep"])?;
    let [x] = operands else { return Err("it takes one operand".into()) };
    match accumulated(x.dtype, Reduction::Sum) {
        Some(_) if x.kind == Kind::Tensor => Ok(()),
        _ => Err(format!("its kernel takes no {} as operand 0", x.dtype)),
    }
}

/// The type in which elements are joined. Sums and products of integers are those of their low bits.
fn accumulated(dtype: DType, f: Reduction) -> Option<&'static str> {
    let DType::Scalar(scalar) = dtype else { return None };
    let wraps = matches!(f, Reduction::Sum | Reduction::Prod | Reduction::Mean);
    Some(match scalar {
        Scalar::F64 => "f64",
        Scalar::F32 | Scalar::F16 | Scalar::Bf16 => "f32",
        Scalar::I64 if wraps => "u64",
        Scalar::I64 => "i64",
        Scalar::I32 | Scalar::I16 | Scalar::I8 if !wraps => "i32",
        Scalar::I32 | Scalar::I16 | Scalar::I8 | Scalar::U32 | Scalar::U8 => "u32",
        Scalar::Bool | Scalar::C64 => return None,
    })
}

/// What a fold begins with.
fn start(f: Reduction, dtype: DType) -> String {
    let (infinity, ends) = match dtype {
        DType::Scalar(Scalar::F64) => ("f64(__uint_as_float(0x7f800000u))", None),
        DType::Scalar(Scalar::I64) => ("", Some((i64::MIN.into(), i64::MAX.into()))),
        DType::Scalar(Scalar::I32) => ("", Some((i32::MIN.into(), i32::MAX.into()))),
        DType::Scalar(Scalar::I16) => ("", Some((i16::MIN.into(), i16::MAX.into()))),
        DType::Scalar(Scalar::I8) => ("", Some((i8::MIN.into(), i8::MAX.into()))),
        DType::Scalar(Scalar::U32) => ("", Some((0, u32::MAX.into()))),
        DType::Scalar(Scalar::U8) => ("", Some((0, u8::MAX.into()))),
        _ => ("__uint_as_float(0x7f800000u)", None::<(i128, i128)>),
    };
    // The least integer of a type has no digits in C: they are those of the largest, negated, less one.
    let number = |n: i128| match n {
        0.. => format!("{n}ull"),
        _ => format!("(-{}ll - 1ll)", -(n + 1)),
    };
    match (f, ends) {
        (Reduction::Sum | Reduction::Mean, _) => "0".into(),
        (Reduction::Prod, _) => "1".into(),
        (Reduction::Max, Some((least, _))) => number(least),
        (Reduction::Min, Some((_, most))) => number(most),
        (Reduction::Max, None) => format!("-{infinity}"),
        (Reduction::Min, None) => infinity.into(),
    }
}

pub(super) fn reduce(step: &Step, cx: &Context<'_>) -> Result<Vec<Kernel>> {
    let Op::Reduce(op) = &step.op else { return Err(mismatch(step)) };
    let (x, y) = (&step.operands[0], &step.results[0]);
    let dtype = x.ty.dtype;
    let (stored, sum) = stored(dtype)
        .zip(accumulated(dtype, op.f))
        .ok_or_else(|| unsupported(format!("a reduction of {dtype}")))?;
    let (dims, strides) = layout(&x.ty)?;
    let axes = |reduced: bool| {
        let own = (0..dims.len()).filter(|axis| op.axes.contains(axis) == reduced);
        Axes::of(&own.collect::<Vec<_>>(), &dims, &strides)
    };
    let (kept, along) = (axes(false), axes(true));
    let (n, count) = (y.ty.shape.elements()?, along.size()?);
    if n == 0 {
        return Ok(Vec::new());
    }
    let inside = along.are_side_by_side() && along.dims.iter().any(|&d| d > 1);
    let parts = parts(n, count, inside);
    let results = THREADS / parts;
    let mut emit = cx.emit(step);
    emit.elements();
    emit.argument(x)?;
    emit.argument(y)?;
    emit.define("T", stored);
    emit.define("SUM", sum);
    let mut sizes = Sizes::given();
    emit.define_size("N", n, &mut sizes)?;
    emit.define_size("COUNT", count, &mut sizes)?;
    emit.size("THREADS", THREADS)?;
    emit.size("PARTS", parts)?;
    emit.define("IS_SHARED", u8::from(parts > 1));
    let (kept, along) = (kept.place(&mut sizes)?, along.place(&mut sizes)?);
    emit.define("KEPT(i)", kept);
    emit.define("ALONG(i)", along);
    emit.sizes(&sizes);
    let (part, own) = match inside {
        true => (format!("t % {parts}u"), format!("t / {parts}u")),
        false => (format!("t / {results}u"), format!("t % {results}u")),
    };
    emit.define("PART(t)", part);
    emit.define("OWN(t)", own);
    emit.define("START", format_args!("SUM({})", start(op.f, dtype)));
    let is_float = dtype.is_float();
    let [most, least] = if sum == "f64" { ["fmax", "fmin"] } else { ["fmaxf", "fminf"] };
    let joined = match op.f {
        Reduction::Sum | Reduction::Mean => "((a) + (b))".into(),
        Reduction::Prod => "((a) * (b))".into(),
        // A NaN is left out, as the core's larger of two numbers leaves it out.
        Reduction::Max if is_float => format!("{most}(a, b)"),
        Reduction::Min if is_float => format!("{least}(a, b)"),
        Reduction::Max => "((a) > (b) ? (a) : (b))".into(),
        Reduction::Min => "((a) < (b) ? (a) : (b))".into(),
    };
    emit.define("JOINED(a, b)", joined);
    emit.define("RESULT(a)", if op.f == Reduction::Mean { "((a) / SUM(COUNT))" } else { "(a)" });
    let grid = [n.div_ceil(results), 1, 1];
    Ok(vec![emit.kernel("reduce", include_str!("reduce.cu"), grid, THREADS as u32)?])
}

/// Threads that share a result. Neighbours read neighbours: those of one result where a run lies side by side, else
/// those of neighbouring results, of which a warp has 32.
fn parts(results: u64, count: u64, inside: bool) -> u64 {
    let most = match inside {
        true => THREADS,
        // A result of its own for each thread, where that keeps a card busy.
        false if results >= 1 << 16 => 1,
        false if results >= 32 => THREADS / 32,
        false => THREADS / results.next_power_of_two(),
    };
    (count / 4).max(1).next_power_of_two().min(most)
}
