//! `conv_transpose`: every result gathers the elements that a transposed convolution would add to it.

use super::conv::floats;
use super::sliding::fits;
use crate::kernels::elements::each::Each;
use crate::kernels::elements::element::Element;
use crate::kernels::elements::indices::{Words, dims, row_major};
use crate::kernels::emit::Emit;
use crate::kernels::takes::{self, Taken};
use crate::kernels::{Context, Launch, mismatch, unsupported};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::Type;

/// Tensors of f32, f16 or bf16 over one to three spatial axes.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["stride", "pad_low", "pad_high", "dilation", "extra", "groups", "bias"])?;
    let Op::ConvTranspose(typed) = op else { return Err("it takes an image".into()) };
    floats(operands)?;
    // Places of the result, and its cut ends, are numbers of the kernel.
    let result = op.infer(operands).map_err(|e| e.what)?;
    fits(&typed.window, result[0].shape.0.get(2..).unwrap_or_default())
}

pub(super) fn conv_transpose(
    step: &Step,
    _: &Context<'_>,
    emit: &mut Emit<'_>,
) -> Result<Option<Launch>> {
    let Op::ConvTranspose(op) = &step.op else { return Err(mismatch(step)) };
    let [x, w, bias @ ..] = step.operands.as_slice() else { return Err(mismatch(step)) };
    let y = &step.results[0];
    let (input, kernel, output) = (dims(&x.ty)?, dims(&w.ty)?, dims(&y.ty)?);
    let n = output.iter().product::<u64>();
    if n == 0 {
        return Ok(None);
    }
    let element = Element::of(y.ty.dtype);
    let element = element.ok_or_else(|| unsupported(format!("convolutions of {}", y.ty)))?;
    let mut words = Words::default();
    let mut functions = vec![element.helpers().to_owned()];
    for (name, x) in [("x", Some(x)), ("w", Some(w)), ("bias", bias.first())] {
        let Some(x) = x else { continue };
        let place = emit.read(x)?;
        let start = words.bits(place.word());
        functions.push(element.loader(name, &place, &start));
    }
    let strides = row_major(&input[2..]);
    let (mut places, mut taps) = (String::new(), String::new());
    for axis in (0..op.window.axes()).rev() {
        let (size, low) = (words.size(output[axis + 2])?, words.size(op.window.pad_low[axis])?);
        places += &format!("let q{axis} = rest % {size} + {low};\n    rest = rest / {size};\n    ");
        let (step, k) = (words.size(op.window.stride[axis])?, kernel[axis + 2]);
        let dilation = words.size(op.window.dilation[axis])?;
        let n = words.size(input[axis + 2])?;
        // A tap meets an element of x where the distance is a whole number of strides. A place before the
        // first is a large number, which may be a multiple of the stride: it is refused first.
        taps += &format!(
            "let far{axis} = tap % {k}u * {dilation};\n    \
             inside = inside && far{axis} <= q{axis} && (q{axis} - far{axis}) % {step} == 0u;\n    \
             let x{axis} = (q{axis} - far{axis}) / {step};\n    \
             inside = inside && x{axis} < {n};\n    at += x{axis} * {};\n    tap = tap / {k}u;\n    ",
            words.signed(strides[axis])?
        );
    }
    let count: u64 = kernel[2..].iter().product();
    let (positions, filters) = (words.size(output[2..].iter().product())?, words.size(output[1])?);
    let (channels, plane) = (words.size(input[1])?, words.size(input[2..].iter().product())?);
    let (own, depth) = (words.size(kernel[1])?, words.size(input[1] / op.groups.max(1))?);
    let start = if op.bias { "load_bias(o)" } else { "0.0" };
    let body = format!(
        "var rest = i % {positions};\n    let row = i / {positions};\n    let o = row % {filters};\n    \
         {places}let first = o / {own} * {depth};\n    \
         let image = (row / {filters} * {channels} + first) * {plane};\n    \
         var sum = {start};\n    for (var t = 0u; t < {count}u; t++) {{\n    var tap = t;\n    \
         var at = image;\n    var inside = true;\n    {taps}if !inside {{ continue; }}\n    \
         for (var c = 0u; c < {depth}; c++) {{\n    sum += load_x(at + c * {plane}) * \
         load_w(((first + c) * {own} + o % {own}) * {count}u + t);\n    }}\n    }}\n    return {};",
        element.bits("sum")
    );
    Each {
        entry: "conv_transpose",
        head: [
            "conv_transpose bias[o] + sum over c, t of x[n, c, (p + low - t * dilation) / stride] * w[c, o, t]".into(),
            format!("{}: x [N, C, ..], w [C, O / groups, k..], y [N, O, ..]", y.ty.dtype),
            "y's once; x's and w's once for each result that they are in, from caches".into(),
            "f32, tap by tap; rounded once to y's type".into(),
        ],
        functions,
        body,
        result: y,
        n,
        element,
    }
    .launch(words, emit)
}
