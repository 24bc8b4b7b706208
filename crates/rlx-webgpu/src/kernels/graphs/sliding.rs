//! Where a window over one to three spatial axes reads, as text: what convolutions and pools share.

use crate::kernels::elements::indices::{Words, row_major};
use rlx_core::Result;
use rlx_core::ops::Window;
use rlx_core::types::Dim;

/// Statements over one place (`u32`) or four (`vec4u`).
pub(super) struct Sliding {
    /// They take the variable `rest`, a place of the result, apart: `p0` and so on is where the window starts.
    pub places: String,
    /// They take the variable `tap` apart, add to `at` and make `inside` false in the padding.
    pub taps: String,
}

/// Refuses sizes whose places do not fit 32 bits. Padding counts: a place in it is a number, too.
pub(super) fn fits(window: &Window, spatial: &[Dim]) -> Result<(), String> {
    for (axis, size) in spatial.iter().enumerate() {
        let Some(size) = size.as_static() else { continue };
        let room = size.saturating_add(window.pad_low[axis]).saturating_add(window.pad_high[axis]);
        if room >= 1 << 32 {
            return Err(format!("its kernel has no room for {room} places of an axis"));
        }
    }
    Ok(())
}

/// The statements for a `kernel` that slides over an image of `spatial` sizes and stops at `outputs` places. Sizes of
/// kernels are literals: they divide an index for every element that is read, and are few (1, 3, 7, 16).
pub(super) fn sliding(
    window: &Window,
    kernel: &[u64],
    (spatial, outputs): (&[u64], &[u64]),
    kind: &str,
    words: &mut Words,
) -> Result<Sliding> {
    let (mut places, mut taps) = (String::new(), String::new());
    let strides = row_major(spatial);
    for axis in (0..spatial.len()).rev() {
        let (step, low) = (words.size(window.stride[axis])?, words.size(window.pad_low[axis])?);
        // The first axis is what the others leave.
        let (this, next) = if axis == 0 {
            ("rest".to_owned(), String::new())
        } else {
            let n = words.size(outputs[axis])?;
            (format!("rest % {n}"), format!("rest = rest / {n};\n    "))
        };
        // A place before the image is a large number.
        places += &format!("let p{axis} = {this} * {step} - {low};\n    {next}");
        let k = kernel[axis];
        let at = match k {
            1 => format!("p{axis}"),
            _ => format!("p{axis} + tap % {k}u * {}", words.size(window.dilation[axis])?),
        };
        taps += &format!(
            "let x{axis} = {at};\n    inside = inside & (x{axis} < {kind}({}));\n    \
             at += x{axis} * {};\n    tap = tap / {k}u;\n    ",
            words.size(spatial[axis])?,
            words.signed(strides[axis])?
        );
    }
    Ok(Sliding { places, taps })
}
