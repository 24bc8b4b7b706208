//! Several rows of x in int8 blocks: integer dot products, which WGSL has where `dot4I8Packed` is.
//!
//! In `tile_int8.wgsl`, for chunk `c` (0 or 1) of 32 elements, row `r` of x with the scale `s`, and
//! row `n` of a weight:
//!
//! ```text
//! x_scales[64 c + r] = (s, s sum(x[0..32]), s sum(x[0..16]), s sum(x[16..32]))
//! w_scales[64 c + n] = (scale of 0..16, scale of 16..32, offset of 0..16, offset of 16..32)
//! ```

use super::tile::{columns, store};
use super::{Context, Emit, Launch, Parts};
use crate::kernels::emit::fill;
use crate::kernels::formats::{self, Offset};
use rlx_core::Result;

/// Rows of x in a tile.
const TILE_M: u64 = 64;

pub(super) fn launch(p: &Parts, cx: &Context<'_>, emit: &mut Emit<'_>) -> Result<Launch> {
    let columns = columns(p);
    let (words, tiles) = p.words(columns)?;
    let (rows_len, skip) = cx.skip_rows(p.m, "m0", emit);
    let unpack = p.switch("s", |kind| format!("return unpack_{}(at, chunk);", kind.reader));
    let load_w =
        if p.glu { "unpack(r / 32u, n0 + r % 32u, chunk)" } else { "unpack(s, n0 + r, chunk)" };
    let wgsl = fill(
        wgsl!("tile_int8.wgsl"),
        &[
            ("step", wgsl!("step.wgsl")),
            ("bindings", &emit.bindings()),
            ("common", formats::COMMON),
            ("readers", &p.readers.text),
            ("activations", &p.int8_x(cx.wgsl.packed_dot)?),
            ("finish", &p.finish()),
            ("rows_len", rows_len),
            ("products", &products(p)),
            ("unpack", &unpack),
            ("store", &store(p)?),
            ("skip", &skip),
            ("columns", &columns.to_string()),
            ("load_w", load_w),
        ],
    );
    let groups = tiles * p.m.div_ceil(TILE_M);
    Ok(Launch { wgsl, entry: "matmul_tile_int8", words, groups })
}

/// What the formats of the step need: one sum where both halves have one scale.
fn products(p: &Parts) -> String {
    let four = |f: &dyn Fn(usize) -> String| (0..4).map(f).collect::<Vec<_>>().join(", ");
    let mut text = if p.segments.iter().any(|s| formats::has_half_scales(s.dtype)) {
        format!(
            "let first = vec4f(vec4i({}));\n    let second = vec4f(vec4i({}));\n    \
             var y = s.x * (w.scale * first + w.scale_high * second);\n    ",
            four(&|j| format!("idots(low, w.l{j})")),
            four(&|j| format!("idots(high, w.h{j})"))
        )
    } else {
        format!(
            "let sums = vec4f(vec4i({}));\n    var y = (s.x * w.scale) * sums;\n    ",
            four(&|j| format!("idots(low, w.l{j}) + idots(high, w.h{j})"))
        )
    };
    let any = |offset: Offset| p.segments.iter().any(|s| formats::offset(s.dtype) == offset);
    if any(Offset::Half) {
        text += "y += s.z * w.offset + s.w * w.offset_high;\n    ";
    } else if any(Offset::Chunk) {
        text += "y += s.y * w.offset;\n    ";
    }
    text + "return y;"
}
