//! `conv_transpose`: every result gathers the elements that a transposed convolution would add to it.

use super::product::describe_type;
use super::sliding::fits;
use super::takes::{self, Taken};
use super::tensor_axes::{product, row_major};
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
    emit.size("N", n)?;
    emit.size("CHANNELS", input[1])?;
    emit.size("FILTERS", output[1])?;
    emit.size("DEPTH", input[1] / op.groups.max(1))?;
    emit.size("OWN", kernel[1])?;
    emit.size("TAPS", product(&kernel[2..])?.max(1))?;
    emit.size("PLACES", product(&output[2..])?)?;
    emit.size("PLANE", product(&input[2..])?)?;
    meets(&mut emit, op, &kernel[2..], &input[2..], &output[2..])?;
    let text = include_str!("conv_transpose.cu");
    Ok(vec![emit.kernel("conv_transpose", text, [n.div_ceil(256), 1, 1], 256)?])
}

/// Defines `Place`, a place of the result counted from before its cut, `place_of`, and `meets`, whether a tap brings it an
/// element of x, and which: the distance between the two has to be a whole number of strides.
fn meets(
    emit: &mut Emit<'_>,
    op: &ConvTranspose,
    kernel: &[u64],
    spatial: &[u64],
    outputs: &[u64],
) -> Result<()> {
    let strides = row_major(spatial)?;
    let (mut begins, mut taps) = (String::new(), String::new());
    for axis in (0..spatial.len()).rev() {
        let (size, low) = (word(outputs[axis])?, word(op.window.pad_low[axis])?);
        begins += &format!("    p.at[{axis}] = rest % {size}u + {low}u; rest /= {size}u;\n");
        let (step, k) = (word(op.window.stride[axis])?, word(kernel[axis])?.max(1));
        taps += &format!(
            "    u32 far{axis} = tap % {k}u * {}u, q{axis} = p.at[{axis}] - far{axis}, x{axis} = q{axis} / {step}u;\n    \
             tap /= {k}u;\n    \
             inside = inside && far{axis} <= p.at[{axis}] && q{axis} % {step}u == 0 && x{axis} < {}u;\n    \
             at += x{axis} * {}u;\n",
            word(op.window.dilation[axis])?,
            word(spatial[axis])?,
            word(strides[axis])?
        );
    }
    let function = "__device__ __forceinline__";
    emit.line(&format!("struct Place {{\n    u32 at[{}];\n}};", spatial.len()));
    emit.line(&format!(
        "{function} Place place_of(u32 rest) {{\n    Place p;\n{begins}    return p;\n}}"
    ));
    emit.line(&format!(
        "{function} bool meets(const Place& p, u32 tap, u32& at) {{\n    bool inside = true;\n    \
         at = 0;\n{taps}    return inside;\n}}"
    ));
    Ok(())
}
