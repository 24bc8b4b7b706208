//! Where a window over one to three spatial axes reads: what convolutions and pools share.

use super::Emit;
use super::takes::Taken;
use super::tensor_axes::{Sizes, row_major};
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

/// Defines `Place`, where a window begins, and statements over a `kernel` that slides over an image of `spatial` sizes
/// and stops at `outputs` places: `BEGIN` makes of the variable `rest`, one of these, the place `p`; `REACH` makes of
/// `p` and the variable `tap` what lies under the tap: adds to `at` where it is in a channel, or makes `inside` false.
pub(super) fn sliding(
    emit: &mut Emit<'_>,
    window: &Window,
    kernel: &[u64],
    spatial: &[u64],
    outputs: &[u64],
    sizes: &mut Sizes,
) -> Result<()> {
    let strides = row_major(spatial)?;
    let (mut begins, mut taps) = (String::new(), String::new());
    for axis in (0..spatial.len()).rev() {
        let (this, next) = match axis {
            // The first axis is what the others leave.
            0 => ("rest".to_owned(), String::new()),
            _ => {
                let n = sizes.divisor(outputs[axis])?;
                (n.remainder("rest"), format!(" rest = {};", n.quotient("rest")))
            }
        };
        let (step, low) = (sizes.size(window.stride[axis])?, sizes.size(window.pad_low[axis])?);
        // A place before the image is a large number.
        begins += &format!("p.at[{axis}] = {this} * {step} - {low};{next} ");
        let by = sizes.divisor(kernel[axis])?;
        let dilation = sizes.size(window.dilation[axis])?;
        let (size, stride) = (sizes.size(spatial[axis])?, sizes.size(strides[axis])?);
        taps += &format!(
            "u32 x{axis} = p.at[{axis}] + {} * {dilation}; tap = {}; inside = inside && x{axis} < {size}; \
             at += x{axis} * {stride}; ",
            by.remainder("tap"),
            by.quotient("tap")
        );
    }
    emit.line(&format!("struct Place {{\n    u32 at[{}];\n}};", spatial.len()));
    emit.define("BEGIN", begins);
    emit.define("REACH", taps);
    Ok(())
}
