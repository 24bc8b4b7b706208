//! Several rows of x in blocks of integers: integer dot products, which WGSL has where `dot4I8Packed` is.
//!
//! `tile_int8.wgsl` keeps the following for chunk `c` (0 or 1) of 32 elements, row `r` of x with the scale `s`, and
//! row `n` of a weight. Numbers that no format of the step needs are left out:
//!
//! ```text
//! x_scales[64 c + r] = (s, s sum(x[0..32]))                      or (s, s sum(x[0..16]), s sum(x[16..32]))
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
        w_scales[half * 64u + r] = scales_of(w);
        let x = x_at(min(m0 + r, step.m - 1u), chunk);
        xs[r * X_ROW + half * 2u] = x.low;
        xs[r * X_ROW + half * 2u + 1u] = x.high;
        let scale = select(0.0, x.scale, c + half < step.chunks);
        x_scales[half * 64u + r] = scale * sums_of(x);";

/// Of int16 a chunk of x has twice the bytes, for which there is no room beside another: half of the threads
/// bring x, half a weight.
const EITHER: &str = "if half == 0u {
            let w = {w};
            ws[r * W_ROW] = w.low;
            ws[r * W_ROW + 1u] = w.high;
            w_scales[r] = scales_of(w);
        } else {
            let x = x_at(min(m0 + r, step.m - 1u), chunk);
            xs[r * X_ROW] = x.low;
            xs[r * X_ROW + 1u] = x.high;
            xs[r * X_ROW + 2u] = x.low_part;
            xs[r * X_ROW + 3u] = x.high_part;
            x_scales[r] = x.scale * sums_of(x);
        }";

/// The products of chunk `{h}`. Each chunk has its own copy: a loop over two chunks is slower.
const CHUNK: &str = "let first{h} = columns(tn, {h}u);
        low0 += products(tm, {h}u, first{h});
        low1 += products(tm + 16u, {h}u, first{h});
        low2 += products(tm + 32u, {h}u, first{h});
        low3 += products(tm + 48u, {h}u, first{h});
        let second{h} = columns(tn + 32u, {h}u);
        high0 += products(tm, {h}u, second{h});
        high1 += products(tm + 16u, {h}u, second{h});
        high2 += products(tm + 32u, {h}u, second{h});
        high3 += products(tm + 48u, {h}u, second{h});";

/// Rows of x in a tile.
const TILE_M: u64 = 64;

/// Which scales and offsets of weights, and sums of x, a step's formats need.
struct Scales {
    /// Whether halves of a chunk have scales of their own.
    halves: bool,
    offset: Offset,
}

impl Scales {
    fn of(p: &Parts) -> Scales {
        let any = |offset: Offset| p.segments.iter().any(|s| formats::offset(s.dtype) == offset);
        let offset = match (any(Offset::Half), any(Offset::Chunk)) {
            (true, _) => Offset::Half,
            (_, true) => Offset::Chunk,
            _ => Offset::None,
        };
        Scales { halves: p.segments.iter().any(|s| formats::has_half_scales(s.dtype)), offset }
    }

    /// Those of a weight's chunk, by their names in `Columns` and in `Quants`.
    fn of_weights(&self) -> Vec<(&'static str, &'static str)> {
        let halves = self.halves.then_some(("scale_high", "w.scale.y"));
        let offsets: &[_] = match self.offset {
            Offset::None => &[],
            Offset::Chunk => &[("offset", "w.offset.x")],
            Offset::Half => &[("offset", "w.offset.x"), ("offset_high", "w.offset.y")],
        };
        [("scale", "w.scale.x")].into_iter().chain(halves).chain(offsets.iter().copied()).collect()
    }

    /// Those of a chunk of x, in parts of its scale.
    fn of_x(&self) -> &'static [&'static str] {
        match self.offset {
            Offset::None => &["1.0"],
            Offset::Chunk => &["1.0", "x.sums.x + x.sums.y"],
            Offset::Half => &["1.0", "x.sums.x", "x.sums.y"],
        }
    }
}

/// The type of `n` floats that stand side by side, and the names of them.
fn floats(n: usize) -> (&'static str, [&'static str; 4]) {
    match n {
        1 => ("f32", [""; 4]),
        2 => ("vec2f", [".x", ".y", "", ""]),
        // A vec3f takes as much memory as a vec4f.
        3 => ("vec3f", [".x", ".y", ".z", ""]),
        _ => ("vec4f", [".x", ".y", ".z", ".w"]),
    }
}

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
    let scales = Scales::of(p);
    let fields: String =
        scales.of_weights().iter().map(|(name, _)| format!("{name}: vec4f, ")).collect();
    let all: Vec<String> = (0..chunks).map(|h| CHUNK.replace("{h}", &h.to_string())).collect();
    let all = all.join("\n        ");
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
            ("products", &products(p, &scales)),
            ("scales", &functions_of(&scales)),
            ("fields", &fields),
            ("columns_of", &columns_of(&scales)),
            ("x_type", floats(scales.of_x().len()).0),
            ("w_type", floats(scales.of_weights().len()).0),
            ("all", &all),
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

/// `scales_of` and `sums_of`, what stands in `w_scales` and `x_scales`.
fn functions_of(scales: &Scales) -> String {
    let weights: Vec<&str> = scales.of_weights().iter().map(|(_, value)| *value).collect();
    let text = |name: &str, of: &str, values: &[&str]| {
        let (ty, _) = floats(values.len());
        format!("fn {name}({of}) -> {ty} {{ return {ty}({}); }}\n", values.join(", "))
    };
    text("scales_of", "w: Quants", &weights) + &text("sums_of", "x: X", scales.of_x())
}

/// The scales of four columns, in the order of the fields of `Columns`.
fn columns_of(scales: &Scales) -> String {
    let n = scales.of_weights().len();
    let (_, names) = floats(n);
    let four = |name: &str| format!("vec4f(a{name}, b{name}, c{name}, d{name})");
    names[..n].iter().map(|name| four(name)).collect::<Vec<_>>().join(", ")
}

/// One sum where both halves have one scale.
fn products(p: &Parts, scales: &Scales) -> String {
    let four = |f: &dyn Fn(usize) -> String| (0..4).map(f).collect::<Vec<_>>().join(", ");
    let dots = |half: &str, w: String| match p.x_parts() {
        1 => format!("idots({half}, {w})"),
        _ => format!("joined(idots({half}, {w}), idots({half}_part, {w}))"),
    };
    let (first, second) = (|j| dots("low", format!("w.l{j}")), |j| dots("high", format!("w.h{j}")));
    let (_, s) = floats(scales.of_x().len());
    let mut text = if scales.halves {
        format!(
            "let first = vec4f(vec4i({}));\n    let second = vec4f(vec4i({}));\n    \
             var y = s{} * (w.scale * first + w.scale_high * second);\n    ",
            four(&first),
            four(&second),
            s[0]
        )
    } else {
        format!(
            "let sums = vec4f(vec4i({}));\n    var y = (s{} * w.scale) * sums;\n    ",
            four(&|j| format!("{} + {}", first(j), second(j))),
            s[0]
        )
    };
    match scales.offset {
        Offset::None => {}
        Offset::Chunk => text += "y += s.y * w.offset;\n    ",
        Offset::Half => text += "y += s.y * w.offset + s.z * w.offset_high;\n    ",
    }
    text + "return y;"
}
