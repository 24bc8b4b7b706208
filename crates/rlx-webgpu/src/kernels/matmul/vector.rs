//! One row of x: every weight byte is read once, so this is the kernel that decoding waits for.

use super::{Context, Emit, Launch, Parts};
use crate::kernels::emit::fill;
use crate::kernels::formats;
use rlx_core::Result;
#[cfg(not(target_family = "wasm"))]
use rlx_core::types::DType;

/// Threads of a workgroup.
const THREADS: u64 = 64;
/// The most rows of a team: what it reads of x serves all of them. The elements of a `vec4f` of sums.
pub(super) const ROWS: u64 = 4;
/// How many workgroups are enough: with fewer, a large GPU waits for memory.
const GROUPS: u64 = 512;

/// How many of `rows` a team takes, if a workgroup has `teams`: as many as leave enough workgroups.
pub(super) fn rows_of_team(rows: u64, teams: u64) -> u64 {
    (rows / (teams * GROUPS)).clamp(1, ROWS)
}

pub(super) fn launch(p: &Parts, cx: &Context<'_>, emit: &mut Emit<'_>) -> Result<Launch> {
    // Lanes without a chunk idle, so short rows get few; long ones at most 32, since the end of
    // the kernel adds a row's lanes one after the other.
    let lanes = p.chunks().next_power_of_two().clamp(4, 32);
    let teams = THREADS / lanes;
    let sums = if p.glu { 2 * ROWS } else { ROWS };
    let rows = rows_of_team(p.launched().iter().map(|s| s.rows).sum(), teams);
    let (words, groups) = p.words(teams * rows)?;
    let y = p.y_var()?;

    // One copy of the reader for all rows: unrolled, it compiles for seconds on software drivers.
    let body = |lines: String| {
        format!(
            "for (var c = lane; c < step.chunks; c += LANES) {{\n        let x = load_x(c);\n        \
             squares += x.squares;\n        for (var r = 0u; r < ROWS; r++) {{\n            \
             let one = select(vec4f(0.0), vec4f(1.0), vec4u(0u, 1u, 2u, 3u) == vec4u(r));\n            \
             let row = min(row0 + r, last);\n            {lines}\n        }}\n    }}"
        )
    };
    let line = |sum: &str, s: &str, reader: &str| {
        format!(
            "{sum} += one * dot_{reader}(step.seg[{s}].weight + row * step.seg[{s}].row_bytes, c, x);"
        )
    };
    let body = if p.glu {
        let (gate, up) = (&p.segments[0].reader, &p.segments[1].reader);
        body(line("sums", "0u", gate) + "\n            " + &line("ups", "1u", up))
    } else {
        p.switch("s", |kind| body(line("sums", "s", &kind.reader)))
    };
    let norm = p.norm.is_some();
    let scale = if norm {
        let gate = "var total = 0.0;\n        for (var l = 0u; l < LANES; l++) { total += squares_of[start + l]; }\n        \
                    let scale = inverseSqrt(total / f32(step.k) + step.eps);\n        y *= scale;";
        if p.glu { format!("{gate}\n        up *= scale;") } else { gate.into() }
    } else {
        String::new()
    };
    let result = if p.glu {
        format!(
            "let gate = map(y + bias_of(0u, row));\n        \
             {y}[step.seg[0u].y + row] = bitcast<u32>(gate * (up + bias_of(1u, row)));"
        )
    } else {
        format!(
            "{y}[step.seg[s].y + row] = bitcast<u32>(map(y + bias_of(s, row)) + residual_at(row));"
        )
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
            ("threads", &text(THREADS)),
            ("lanes", &text(lanes)),
            ("teams", &text(teams)),
            ("rows", &text(rows)),
            ("sums", &text(sums)),
            ("partials", &text(THREADS * sums)),
            ("squares_array", if norm { "var<workgroup> squares_of: array<f32, 64>;" } else { "" }),
            ("ups", if p.glu { "var ups = vec4f();" } else { "" }),
            ("body", &body),
            ("store_ups", if p.glu { "store(thread * SUMS + SUMS / 2u, ups);" } else { "" }),
            ("store_squares", if norm { "squares_of[thread] = squares;" } else { "" }),
            ("second", if p.glu { "var up = 0.0;" } else { "" }),
            (
                "add_second",
                if p.glu { "up += partial[(start + l) * SUMS + SUMS / 2u + r];" } else { "" },
            ),
            ("scale", &scale),
            ("result", &result),
        ],
    );
    #[cfg(not(target_family = "wasm"))]
    if p.x_type == DType::F32 {
        emit.form = Some(p.form("matmul_vector", &super::rows::one_row(teams * rows))?);
    }
    Ok(Launch { wgsl, entry: "matmul_vector", words, groups })
}
