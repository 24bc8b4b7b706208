//! A few rows: a workgroup has one row and one of its experts.

use super::Experts;
use crate::kernels::emit::{Emit, fill};
use crate::kernels::matmul::vector::{ROWS, rows_of_team};
use crate::kernels::{Context, Launch, formats};
use rlx_core::Result;

/// Threads of a workgroup.
const THREADS: u64 = 64;

pub(super) fn launch(e: &Experts, cx: &Context<'_>, emit: &mut Emit<'_>) -> Result<Launch> {
    let p = &e.parts;
    // As for a matrix and a row: lanes without a chunk idle, and the end adds a row's lanes one by one.
    let lanes = p.chunks().next_power_of_two().clamp(4, 32);
    let teams = THREADS / lanes;
    let sums = if p.glu { 2 * ROWS } else { ROWS };
    let results = p.m * e.top_k;
    let rows = rows_of_team(p.launched().iter().map(|s| s.rows).sum::<u64>() * results, teams);
    let (words, groups) = e.words(teams * rows)?;
    let y = p.y_var()?;
    let (rows_len, skip) = cx.skip_rows(p.m, "m", emit);

    // One copy of the reader for all rows: unrolled, it compiles for seconds on software drivers.
    let body = |lines: &str| {
        format!(
            "for (var c = lane; c < step.chunks; c += LANES) {{\n        let x = load_x(c);\n        \
             for (var r = 0u; r < ROWS; r++) {{\n            \
             let one = select(vec4f(0.0), vec4f(1.0), vec4u(0u, 1u, 2u, 3u) == vec4u(r));\n            \
             let row = matrix + min(row0 + r, last);\n            {lines}\n        }}\n    }}"
        )
    };
    let line = |sum: &str, s: &str, reader: &str| {
        format!(
            "{sum} += one * dot_{reader}(step.seg[{s}].weight + row * step.seg[{s}].row_bytes, c, x);"
        )
    };
    let body = match &p.segments[..] {
        [gate, up] if p.glu => {
            let gate = line("sums", "0u", &gate.reader);
            body(&(gate + "\n            " + &line("ups", "1u", &up.reader)))
        }
        _ => p.switch("s", |kind| body(&line("sums", "s", &kind.reader))),
    };
    let of_pair = "expert_of(result) * step.seg[s].rows + row";
    let result = if p.glu {
        format!(
            "let gate = y + bias_of(0u, {of_pair});\n        \
             {y}[step.seg[0u].y + at] = bitcast<u32>(glu(gate, up + bias_of(1u, {of_pair})));"
        )
    } else {
        format!("{y}[step.seg[s].y + at] = bitcast<u32>(y + bias_of(s, {of_pair}));")
    };
    let text = |n: u64| n.to_string();
    let wgsl = fill(
        wgsl!("vector.wgsl"),
        &[
            ("step", wgsl!("step.wgsl")),
            ("bindings", &emit.bindings()),
            ("common", formats::COMMON),
            ("readers", &p.readers.text),
            ("activations", &p.chunks_of_x(cx.wgsl.packed_dot)?),
            ("finish", &p.finish()),
            ("rows_len", rows_len),
            ("skip", &skip),
            ("threads", &text(THREADS)),
            ("lanes", &text(lanes)),
            ("teams", &text(teams)),
            ("rows", &text(rows)),
            ("sums", &text(sums)),
            ("partials", &text(THREADS * sums)),
            ("ids", &e.ids.var),
            ("start_of_x", &e.start_of(if e.own_rows { "result" } else { "m" })),
            ("body", &body),
            ("ups", if p.glu { "var ups = vec4f();" } else { "" }),
            ("store_ups", if p.glu { "store(thread * SUMS + SUMS / 2u, ups);" } else { "" }),
            ("second", if p.glu { "var up = 0.0;" } else { "" }),
            (
                "add_second",
                if p.glu { "up += partial[(start + l) * SUMS + SUMS / 2u + r];" } else { "" },
            ),
            ("result", &result),
        ],
    );
    #[cfg(not(target_family = "wasm"))]
    e.form("experts", teams * rows, 0, cx, emit)?;
    Ok(Launch { wgsl, entry: "grouped_matmul", words, groups: results * groups })
}
