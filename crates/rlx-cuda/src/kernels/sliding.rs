//! Where a window over one to three spatial axes reads: what convolutions and pools share.

use super::takes::Taken;
use super::tensor_axes::row_major;
use super::{Emit, word};
use rlx_core::Result;
use rlx_core::ops::Window;
use rlx_core::types::Dim;

/// Refuses sizes whose places are no integers of 32 bits. Padding counts: a place in it is a number, too.
pub(super) fn fits(window: &Window, spatial: &[Dim]) -> Taken {
    for (axis, size) in spatial.iter().enumerate() {
        let Some(size) = size.as_static() else { continue };
        let room = size.saturating_add(window.pad_low[axis]).saturating_add(window.pad_high[axis]);
        if room >= 1 << 31 {
            return Err(format!("its kernel has no room for {room} places of an axis"));
        }
    }
    Ok(())
}

/// Defines `Place`, where a window of a `kernel` begins that slides over an image of `spatial` sizes and stops at
/// `outputs` places; `place_of`, that of one of these; and `is_inside`, whether there is an element under a tap, and which.
pub(super) fn sliding(
    emit: &mut Emit<'_>,
    window: &Window,
    kernel: &[u64],
    spatial: &[u64],
    outputs: &[u64],
) -> Result<()> {
    let strides = row_major(spatial)?;
    let (mut begins, mut taps) = (String::new(), String::new());
    for axis in (0..spatial.len()).rev() {
        let (this, next) = match axis {
            // The first axis is what the others leave.
            0 => ("rest".to_owned(), String::new()),
            _ => {
                let n = word(outputs[axis])?;
                (format!("rest % {n}u"), format!(" rest /= {n}u;"))
            }
        };
        let (step, low) = (window.stride[axis], window.pad_low[axis]);
        begins += &format!("    p.at[{axis}] = int({this}) * {step} - {low};{next}\n");
        let k = word(kernel[axis])?;
        let far = match k {
            0 | 1 => String::new(),
            _ => format!(" + int(tap % {k}u) * {}", window.dilation[axis]),
        };
        let next = if k > 1 && axis > 0 { format!(" tap /= {k}u;") } else { String::new() };
        taps += &format!(
            "    int x{axis} = p.at[{axis}]{far};{next}\n    inside = inside && u32(x{axis}) < {}u;\n    \
             at += u32(x{axis}) * {}u;\n",
            word(spatial[axis])?,
            word(strides[axis])?
        );
    }
    let function = "__device__ __forceinline__";
    emit.line(&format!("struct Place {{\n    int at[{}];\n}};", spatial.len()));
    emit.line(&format!(
        "{function} Place place_of(u32 rest) {{\n    Place p;\n{begins}    return p;\n}}"
    ));
    emit.line(&format!(
        "{function} bool is_inside(const Place& p, u32 tap, u32& at) {{\n    bool inside = true;\n    \
         at = 0;\n{taps}    return inside;\n}}"
    ));
    Ok(())
}
