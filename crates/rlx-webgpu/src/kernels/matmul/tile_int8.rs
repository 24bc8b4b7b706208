//! Several rows of x in blocks of integers: integer dot products, which WGSL has where `dot4I8Packed` is.
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

/// Of int8 a thread brings two chunks, one of x and one of a weight. Chunks of a row lie in the same lines of
/// memory, often in the same words, so threads side by side bring those. Past the
/// end is the last chunk again, of which x is nothing.
const BOTH: &str = "let chunk = min(c + half, step.chunks - 1u);
        let w = {w};
        ws[r * W_ROW + half * 2u] = w.low;
        ws[r * W_ROW + half * 2u + 1u] = w.high;
        w_scales[half * 64u + r] = vec4f(w.scale, w.offset);
        let x = x_at(min(m0 + r, step.m - 1u), chunk);
        xs[r * X_ROW + half * 2u] = x.low;
        xs[r * X_ROW + half * 2u + 1u] = x.high;
        let scale = select(0.0, x.scale, c + half < step.chunks);
        x_scales[half * 64u + r] = scale * vec4f(1.0, x.sums.x + x.sums.y, x.sums);";

/// Of int16 a chunk of x has twice the bytes, for which there is no room beside another: half of the threads
/// bring x, half a weight.
const EITHER: &str = "if half == 0u {
            let w = {w};
            ws[r * W_ROW] = w.low;
            ws[r * W_ROW + 1u] = w.high;
            w_scales[r] = vec4f(w.scale, w.offset);
        } else {
            let x = x_at(min(m0 + r, step.m - 1u), chunk);
            xs[r * X_ROW] = x.low;
            xs[r * X_ROW + 1u] = x.high;
            xs[r * X_ROW + 2u] = x.low_part;
            xs[r * X_ROW + 3u] = x.high_part;
            x_scales[r] = x.scale * vec4f(1.0, x.sums.x + x.sums.y, x.sums);
        }";

/// Rows of x in a tile.
const TILE_M: u64 = 64;

pub(super) fn launch(p: &Parts, cx: &Context<'_>, emit: &mut Emit<'_>) -> Result<Launch> {
    let columns = columns(p);
    let (words, tiles) = p.words(columns)?;
    let (rows_len, skip) = cx.skip_rows(p.m, "m0", emit);
    let unpack = p.switch("s", |kind| format!("return unpack_{}(at, chunk);", kind.reader));
    let w = if p.glu { "unpack(r / 32u, n0 + r % 32u, chunk)" } else { "unpack(s, n0 + r, chunk)" };
    let (chunks, place, load, parts) = match p.x_parts() {
        1 => (2, "let r = thread / 2u;\n    let half = thread % 2u;", BOTH, ""),
        _ => (
            1,
            "let r = thread % 64u;\n    let half = thread / 64u;",
            EITHER,
            "let low_part = xs[row * X_ROW + 2u];\n    let high_part = xs[row * X_ROW + 3u];\n    ",
        ),
    };
    let load = load.replace("{w}", w).replace("chunk)", if chunks == 1 { "c)" } else { "chunk)" });
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
            ("chunks", &chunks.to_string()),
            ("w_row", &(2 * chunks + 1).to_string()),
            ("place", place),
            ("load", &load),
            ("parts", parts),
        ],
    );
    let groups = tiles * p.m.div_ceil(TILE_M);
    Ok(Launch { wgsl, entry: "matmul_tile_int8", words, groups })
}

/// What the formats of the step need: one sum where both halves have one scale.
fn products(p: &Parts) -> String {
    let four = |f: &dyn Fn(usize) -> String| (0..4).map(f).collect::<Vec<_>>().join(", ");
    let dots = |half: &str, w: String| match p.x_parts() {
        1 => format!("idots({half}, {w})"),
        _ => format!("joined(idots({half}, {w}), idots({half}_part, {w}))"),
    };
    let (first, second) = (|j| dots("low", format!("w.l{j}")), |j| dots("high", format!("w.h{j}")));
    let mut text = if p.segments.iter().any(|s| formats::has_half_scales(s.dtype)) {
        format!(
            "let first = vec4f(vec4i({}));\n    let second = vec4f(vec4i({}));\n    \
             var y = s.x * (w.scale * first + w.scale_high * second);\n    ",
            four(&first),
            four(&second)
        )
    } else {
        format!(
            "let sums = vec4f(vec4i({}));\n    var y = (s.x * w.scale) * sums;\n    ",
            four(&|j| format!("{} + {}", first(j), second(j)))
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
