//! `pool`: the largest or the mean of each window.

use super::conv::floats;
use super::sliding::{Sliding, fits, sliding};
use crate::kernels::elements::each::Each;
use crate::kernels::elements::element::Element;
use crate::kernels::elements::indices::{Words, dims};
use crate::kernels::emit::Emit;
use crate::kernels::takes::{self, Taken};
use crate::kernels::{Context, Launch, mismatch, unsupported};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::{Op, PoolKind};
use rlx_core::target::Target;
use rlx_core::types::{DType, Type};

/// Elements of a window at most: one thread goes through all of them.
const MOST_TAPS: u64 = 1 << 20;

/// A tensor of f32, f16 or bf16 over one to three spatial axes.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(
        op,
        &["kind", "kernel", "stride", "pad_low", "pad_high", "dilation", "count_padding"],
    )?;
    let (Op::Pool(op), [x]) = (op, operands) else { return Err("it takes an image".into()) };
    floats(operands)?;
    let taps = op.kernel.iter().try_fold(1u64, |n, &k| n.checked_mul(k));
    if taps.is_none_or(|n| n > MOST_TAPS) {
        return Err(format!("its kernel takes windows of up to {MOST_TAPS} elements"));
    }
    fits(&op.window, x.shape.0.get(2..).unwrap_or_default())
}

pub(super) fn pool(step: &Step, _: &Context<'_>, emit: &mut Emit<'_>) -> Result<Option<Launch>> {
    let Op::Pool(op) = &step.op else { return Err(mismatch(step)) };
    let (x, y) = (&step.operands[0], &step.results[0]);
    let (input, output) = (dims(&x.ty)?, dims(&y.ty)?);
    let n = output.iter().product::<u64>();
    if n == 0 {
        return Ok(None);
    }
    let element = Element::of(y.ty.dtype);
    let element = element.ok_or_else(|| unsupported(format!("pools of {}", y.ty)))?;
    let mut words = Words::default();
    let place = emit.read(x)?;
    let start = words.bits(place.word());
    let spatial = (&input[2..], &output[2..]);
    let Sliding { places, taps } = sliding(&op.window, &op.kernel, spatial, "u32", &mut words)?;
    let (positions, plane) =
        (words.size(output[2..].iter().product())?, words.size(input[2..].iter().product())?);
    let count: u64 = op.kernel.iter().product();
    // A window of nothing but padding has no largest element: minus infinity, as bits, since WGSL computes
    // with infinities as it likes.
    let lowest = match y.ty.dtype {
        DType::F16 => "0xfc00u",
        DType::BF16 => "0xff80u",
        _ => "0xff800000u",
    };
    let (each, result) = match op.kind {
        PoolKind::Max => (
            "if count == 0u || v > sum { sum = v; }",
            format!("select({}, {lowest}, count == 0u)", element.bits("sum")),
        ),
        PoolKind::Average => {
            let by =
                if op.count_padding { format!("{count}.0") } else { "f32(max(count, 1u))".into() };
            ("sum += v;", element.bits(&format!("(sum / {by})")))
        }
    };
    let body = format!(
        "var rest = i % {positions};\n    let image = i / {positions} * {plane};\n    {places}\
         var sum = 0.0;\n    var count = 0u;\n    for (var t = 0u; t < {count}u; t++) {{\n    \
         var tap = t;\n    var at = image;\n    var inside = true;\n    {taps}\
         if inside {{\n    let v = load_x(at);\n    {each}\n    count += 1u;\n    }}\n    }}\n    \
         return {result};"
    );
    Each {
        entry: "pool",
        head: [
            format!(
                "pool        the {} over t of x[n, c, p * stride + t * dilation - low]",
                op.kind.name()
            ),
            format!("x {0}[N, C, ..]    y {0}[N, C, ..]", y.ty.dtype),
            "y's once, x's once for each window that they are in, from a cache".into(),
            "the largest is exact; a mean is f32, tap by tap, rounded once".into(),
        ],
        functions: vec![element.helpers().into(), element.loader("x", &place, &start)],
        body,
        result: y,
        n,
        element,
    }
    .launch(words, emit)
}
