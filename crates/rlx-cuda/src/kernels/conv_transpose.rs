//! `conv_transpose`: every result gathers the elements that a transposed convolution would add to it.

use super::product::describe_type;
use super::sliding::fits;
use super::takes::{self, Taken};
use super::tensor_axes::{Sizes, product, row_major};
use super::{Context, Emit, Kernel, mismatch, word};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::{ConvTranspose, Op};
use rlx_core::target::Target;
use rlx_core::types::Type;

/// Tensors of f32, f16 or bf16 over one to three spatial axes.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["stride", "pad_low", "pad_high", "dilation", "extra", "groups", "bias"])?;
    let Op::ConvTranspose(typed) = op else { return Err("it takes an image".into()) };
    takes::are_floats(operands)?;
    // Places of the result, and its cut ends, are numbers of the kernel.
    let results = op.infer(operands).map_err(|e| e.what)?;
    let y = results.first().ok_or("it has no result")?;
    fits(&typed.window, y.shape.0.get(2..).unwrap_or_default())
}

pub(super) fn conv_transpose(step: &Step, cx: &Context<'_>) -> Result<Vec<Kernel>> {
    let Op::ConvTranspose(op) = &step.op else { return Err(mismatch(step)) };
    let [x, w, bias @ ..] = step.operands.as_slice() else { return Err(mismatch(step)) };
    let y = &step.results[0];
    let (input, kernel) = (x.ty.shape.static_dims()?, w.ty.shape.static_dims()?);
    let output = y.ty.shape.static_dims()?;
    let n = product(&output)?;
    if n == 0 {
        return Ok(Vec::new());
    }
    let mut emit = cx.emit(step);
    describe_type(&mut emit, y.ty.dtype)?;
    for slice in [x, w, y].into_iter().chain(bias) {
        emit.argument(slice)?;
    }
    if op.bias {
        emit.define("BIAS", "");
    }
    // A block's threads count past the end.
    word(n.saturating_mul(2))?;
    let mut sizes = Sizes::given();
    for (name, n) in [
        ("N", n),
        ("CHANNELS", input[1]),
        ("FILTERS", output[1]),
        ("DEPTH", input[1] / op.groups.max(1)),
        ("OWN", kernel[1]),
        ("TAPS", product(&kernel[2..])?.max(1)),
        ("PLACES", product(&output[2..])?),
        ("PLANE", product(&input[2..])?),
    ] {
        emit.define_size(name, n, &mut sizes)?;
    }
    meets(&mut emit, op, &kernel[2..], &input[2..], &output[2..], &mut sizes)?;
    emit.sizes(&sizes);
    let text = include_str!("conv_transpose.cu");
    Ok(vec![emit.kernel("conv_transpose", text, [n.div_ceil(256), 1, 1], 256)?])
}

/// Defines `Place`, a place of the result counted from before its cut, and statements: `BEGIN` makes of the variable
/// `rest` the place `p`; `REACH` adds to `at` where the element of x is that the variable `tap` brings, or makes
/// `inside` false. The distance between the two has to be a whole number of strides.
fn meets(
    emit: &mut Emit<'_>,
    op: &ConvTranspose,
    kernel: &[u64],
    spatial: &[u64],
    outputs: &[u64],
    sizes: &mut Sizes,
) -> Result<()> {
    let strides = row_major(spatial)?;
    let (mut begins, mut taps) = (String::new(), String::new());
    for axis in (0..spatial.len()).rev() {
        let (size, low) = (sizes.divisor(outputs[axis])?, sizes.size(op.window.pad_low[axis])?);
        begins += &format!(
            "p.at[{axis}] = {} + {low}; rest = {}; ",
            size.remainder("rest"),
            size.quotient("rest")
        );
        let (step, by) = (sizes.divisor(op.window.stride[axis])?, sizes.divisor(kernel[axis])?);
        let dilation = sizes.size(op.window.dilation[axis])?;
        let (n, stride) = (sizes.size(spatial[axis])?, sizes.size(strides[axis])?);
        let (q, far) = (format!("q{axis}"), format!("far{axis}"));
        taps += &format!(
            "u32 {far} = {} * {dilation}, {q} = p.at[{axis}] - {far}, x{axis} = {}; tap = {}; \
             inside = inside && {far} <= p.at[{axis}] && {} == 0 && x{axis} < {n}; at += x{axis} * {stride}; ",
            by.remainder("tap"),
            step.quotient(&q),
            by.quotient("tap"),
            step.remainder(&q)
        );
    }
    emit.line(&format!("struct Place {{\n    u32 at[{}];\n}};", spatial.len()));
    emit.define("BEGIN", begins);
    emit.define("REACH", taps);
    Ok(())
}
