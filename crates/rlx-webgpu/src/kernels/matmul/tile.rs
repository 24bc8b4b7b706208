//! Several rows of x: a chunk of weights is decoded once for 32 of them.

use super::{Context, Emit, Launch, Parts};
use crate::kernels::emit::fill;
use crate::kernels::formats;
use rlx_core::Result;
#[cfg(not(target_family = "wasm"))]
use rlx_core::types::DType;

/// Rows of x in a tile.
const TILE_M: u64 = 32;
/// Rows of weights in a tile, of both together with `glu`.
const TILE_N: u64 = 64;

/// Rows of each weight in a tile.
pub(super) fn columns(p: &Parts) -> u64 {
    if p.glu { TILE_N / 2 } else { TILE_N }
}

/// `fn store(s, m, n, low, high)`: columns `n + 8 j` and `n + 32 + 8 j` of row `m` of segment `s`; with
/// `glu` columns `n + 8 j` of both weights.
pub(super) fn store(p: &Parts) -> Result<String> {
    let y = p.y_var()?;
    Ok(if p.glu {
        format!(
            "fn store(s: u32, m: u32, n: u32, low: vec4f, high: vec4f) {{\n    \
             if m >= step.m {{ return; }}\n    \
             for (var j = 0u; j < 4u; j++) {{\n        let i = n + j * 8u;\n        \
             if i < step.seg[0u].rows {{\n            \
             let gate = map(low[j] + bias_of(0u, i));\n            \
             {y}[step.seg[0u].y + m * step.seg[0u].stride + i] = bitcast<u32>(gate * (high[j] + bias_of(1u, i)));\n        \
             }}\n    }}\n}}\n"
        )
    } else {
        format!(
            "fn store_one(s: u32, m: u32, i: u32, y: f32) {{\n    \
             if i >= step.seg[s].rows {{ return; }}\n    \
             let at = m * step.seg[s].stride + i;\n    \
             {y}[step.seg[s].y + at] = bitcast<u32>(map(y + bias_of(s, i)) + residual_at(at));\n}}\n\
             fn store(s: u32, m: u32, n: u32, low: vec4f, high: vec4f) {{\n    \
             if m >= step.m {{ return; }}\n    \
             for (var j = 0u; j < 4u; j++) {{\n        \
             store_one(s, m, n + j * 8u, low[j]);\n        \
             store_one(s, m, n + 32u + j * 8u, high[j]);\n    }}\n}}\n"
        )
    })
}

pub(super) fn launch(p: &Parts, cx: &Context<'_>, emit: &mut Emit<'_>) -> Result<Launch> {
    let columns = columns(p);
    let (words, tiles) = p.words(columns)?;
    let (rows_len, skip) = cx.skip_rows(p.m, "m0", emit);
    let mut norm_arrays = String::from(rows_len);
    let scale = if p.norm.is_some() {
        norm_arrays += "var<workgroup> squares_of: array<vec4f, 64>;\n";
        let lines = (0..4).map(|i| {
            let c = ["x", "y", "z", "w"][i];
            format!("low{i} *= scales.{c}; high{i} *= scales.{c};")
        });
        format!(
            "squares_of[thread] = squares;\n    workgroupBarrier();\n    var total = vec4f();\n    \
             for (var i = 0u; i < 8u; i++) {{ total += squares_of[tm * 8u + i]; }}\n    \
             let scales = inverseSqrt(total / f32(step.k) + step.eps);\n    {}",
            lines.collect::<Vec<_>>().join("\n    ")
        )
    } else {
        String::new()
    };
    let load_w = if p.glu {
        "let w = decode(thread / 32u, n0 + thread % 32u, c);"
    } else {
        "let w = decode(s, n0 + thread, c);"
    };
    let decode = p.switch("s", |kind| format!("return decode_{}(at, chunk);", kind.reader));
    let wgsl = fill(
        wgsl!("tile.wgsl"),
        &[
            ("step", wgsl!("step.wgsl")),
            ("bindings", &emit.bindings()),
            ("common", formats::COMMON),
            ("readers", &p.readers.text),
            ("activations", &p.quads()?),
            ("finish", &p.finish()),
            ("norm_arrays", &norm_arrays),
            ("decode", &decode),
            ("store", &store(p)?),
            ("skip", &skip),
            ("columns", &columns.to_string()),
            ("load_w", load_w),
            ("scale", &scale),
        ],
    );
    #[cfg(not(target_family = "wasm"))]
    if p.x_type == DType::F32 {
        let control = cx.counted(p.m, emit).unwrap_or_default();
        emit.form = Some(p.form("matmul_tile", &[("control", control)])?);
    }
    let groups = tiles * p.m.div_ceil(TILE_M);
    Ok(Launch { wgsl, entry: "matmul_tile", words, groups })
}
