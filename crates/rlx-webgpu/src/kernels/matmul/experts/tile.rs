//! Many rows: those that name an expert meet its matrix 32 at a time.

use super::Experts;
use crate::kernels::emit::{Emit, fill};
use crate::kernels::{Context, Launch, formats};
use rlx_core::Result;

/// Rows of matrices in a tile, of both together with `glu`.
const TILE_N: u64 = 64;

pub(super) fn launch(e: &Experts, cx: &Context<'_>, emit: &mut Emit<'_>) -> Result<Launch> {
    let p = &e.parts;
    let columns = if p.glu { TILE_N / 2 } else { TILE_N };
    let (words, groups) = e.words(columns)?;
    let (rows_len, total) = match cx.counted(p.m, emit) {
        None => ("", "let total = step.m * step.top_k;".into()),
        Some(ctl) => (
            "var<workgroup> rows_len: u32;",
            format!(
                "if thread == 0u {{ rows_len = {ctl}[1]; }}\n    \
                 let total = min(step.m, workgroupUniformLoad(&rows_len)) * step.top_k;"
            ),
        ),
    };
    let (load_w, store) = if p.glu {
        ("let w = decode(thread / 32u, expert, n0 + thread % 32u, c);", store_glu(p.y_var()?))
    } else {
        ("let w = decode(s, expert, n0 + thread, c);", store(p.y_var()?))
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
            ("rows_len", rows_len),
            ("ids", &e.ids.var),
            ("decode", &decode),
            ("store", &store),
            ("columns", &columns.to_string()),
            ("total", &total),
            ("load_w", load_w),
            ("row_of_x", if e.own_rows { "" } else { "row_of" }),
        ],
    );
    Ok(Launch { wgsl, entry: "grouped_matmul_tile", words, groups: e.experts * groups })
}

/// `fn store(s, expert, pair, n, low, high)`: columns `n + 8 j` and `n + 32 + 8 j` of a pair's row.
fn store(y: &str) -> String {
    format!(
        "fn store_one(s: u32, expert: u32, pair: u32, i: u32, y: f32) {{\n    \
         let rows = step.seg[s].rows;\n    if i >= rows {{ return; }}\n    \
         {y}[step.seg[s].y + pair * rows + i] = bitcast<u32>(y + bias_of(s, expert * rows + i));\n}}\n\
         fn store(s: u32, expert: u32, pair: u32, n: u32, low: vec4f, high: vec4f) {{\n    \
         for (var j = 0u; j < 4u; j++) {{\n        \
         store_one(s, expert, pair, n + j * 8u, low[j]);\n        \
         store_one(s, expert, pair, n + 32u + j * 8u, high[j]);\n    }}\n}}\n"
    )
}

/// The same with columns `n + 8 j` of gate and up.
fn store_glu(y: &str) -> String {
    format!(
        "fn store(s: u32, expert: u32, pair: u32, n: u32, low: vec4f, high: vec4f) {{\n    \
         let rows = step.seg[0u].rows;\n    \
         for (var j = 0u; j < 4u; j++) {{\n        let i = n + j * 8u;\n        \
         if i < rows {{\n            \
         let gate = low[j] + bias_of(0u, expert * rows + i);\n            \
         {y}[step.seg[0u].y + pair * rows + i] = bitcast<u32>(glu(gate, high[j] + bias_of(1u, expert * rows + i)));\n        \
         }}\n    }}\n}}\n"
    )
}
