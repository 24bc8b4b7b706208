//! `im2col`: windows of an image as columns, which a product makes a convolution of.

use crate::kernels::elements::copy::halves;
use crate::kernels::elements::each::Each;
use crate::kernels::elements::indices::{Words, dims};
use crate::kernels::emit::Emit;
use crate::kernels::takes::{self, Taken};
use crate::kernels::{Context, Launch, mismatch};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::Type;

/// A tensor of floats over one to three spatial axes; zeros of every type are bits of zeros.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["kernel", "stride", "pad_low", "pad_high", "dilation"])?;
    let [x] = operands else { return Err("it takes one operand".into()) };
    crate::kernels::elements::copy::takes(&[x], 0)
}

pub(super) fn im2col(step: &Step, _: &Context<'_>, emit: &mut Emit<'_>) -> Result<Option<Launch>> {
    let Op::Im2Col(op) = &step.op else { return Err(mismatch(step)) };
    let (x, y) = (&step.operands[0], &step.results[0]);
    let (element, parts) = halves(&x.ty)?;
    let n = y.ty.shape.elements()? * parts;
    if n == 0 {
        return Ok(None);
    }
    let sizes = dims(&x.ty)?;
    let spatial = &sizes[2..];
    let mut words = Words::default();
    let place = emit.read(x)?;
    let start = words.bits(place.word());
    let (mut outputs, mut body) = (1, String::new());
    let mut axes = String::new();
    let mut stride = 1;
    for (axis, &size) in spatial.iter().enumerate().rev() {
        let (kernel, window) = (op.kernel[axis], &op.window);
        // The type rule has checked that the window fits.
        let reach = (kernel.max(1) - 1) * window.dilation[axis] + 1;
        let room = size + window.pad_low[axis] + window.pad_high[axis];
        let positions = (room.max(reach) - reach) / window.stride[axis] + 1;
        outputs *= positions;
        let (kernel, positions) = (words.size(kernel)?, words.size(positions)?);
        let (step, dilation) =
            (words.size(window.stride[axis])?, words.size(window.dilation[axis])?);
        let (low, size_at) = (words.size(window.pad_low[axis])?, words.size(size)?);
        // A place before the image is a large number.
        axes += &format!(
            "let p{axis} = place % {positions} * {step} + tap % {kernel} * {dilation} - {low};\n    \
             outside = outside || p{axis} >= {size_at};\n    \
             at += p{axis} * {};\n    place /= {positions};\n    tap /= {kernel};\n    ",
            words.size(stride)?
        );
        stride *= size;
    }
    let (places, channel) = (words.size(outputs)?, words.size(stride)?);
    let (taps, channels) = (words.size(op.kernel.iter().product())?, words.size(sizes[1])?);
    body += &format!(
        "let e = i / {parts}u;\n    var place = e % {places};\n    let row = e / {places};\n    \
         var tap = row % {taps};\n    let c = row / {taps} % {channels};\n    \
         let batch = row / {taps} / {channels};\n    \
         var at = (batch * {channels} + c) * {channel};\n    var outside = false;\n    {axes}\
         if outside {{ return 0u; }}\n    return bits_x(at * {parts}u + i % {parts}u);"
    );
    Each {
        entry: "im2col",
        head: [
            "im2col      y[n, c * K + t, l] = x[n, c, l * stride + t * dilation - low], or 0 in the padding".into(),
            format!("x {0}[N, C, ..]    y {0}[N, C * K, L]", x.ty.dtype),
            "y's twice, less the padding".into(),
            "exact".into(),
        ],
        functions: vec![element.reader("x", &place, &start)],
        body,
        result: y,
        n,
        element,
    }
    .launch(words, emit)
}
