//! One row of x: every weight byte is read once, so this is the kernel that decoding waits for.

use super::{Context, Emit, Launch, Parts};
use crate::kernels::emit::fill;
use crate::kernels::formats;
use rlx_core::Result;

/// Threads of a workgroup.
const THREADS: u64 = 64;

pub(super) fn launch(p: &Parts, cx: &Context<'_>, emit: &Emit<'_>) -> Result<Launch> {
    // Lanes without a chunk idle, so short rows get few; long ones at most 32, since the end of
    // the kernel adds a row's lanes one after the other.
    let lanes = p.chunks().next_power_of_two().clamp(4, 32);
    let teams = THREADS / lanes;
    let rows = if p.glu { 1 } else { 2 };
    let sums = if p.glu { 2 * rows } else { rows };
    let (words, groups) = p.words(teams * rows)?;
    let y = p.y_var()?;

    let each = |f: &dyn Fn(u64) -> String| (0..sums).map(f).collect::<Vec<_>>().join("\n    ");
    let row = |s: &str, r: u64| {
        format!("step.seg[{s}].weight + min(row0 + {r}u, last) * step.seg[{s}].row_bytes")
    };
    let body = |lines: String| {
        format!(
            "for (var c = lane; c < step.chunks; c += LANES) {{\n        let x = load_x(c);\n        \
             squares += x.squares;\n        {lines}\n    }}"
        )
    };
    let body = if p.glu {
        let (gate, up) = (&p.segments[0].reader, &p.segments[1].reader);
        let lines: Vec<String> = (0..rows)
            .flat_map(|r| {
                [
                    format!("sum{r} += dot_{gate}({}, c, x);", row("0u", r)),
                    format!("sum{} += dot_{up}({}, c, x);", rows + r, row("1u", r)),
                ]
            })
            .collect();
        body(lines.join("\n        "))
    } else {
        p.switch("s", |kind| {
            let lines: Vec<String> = (0..rows)
                .map(|r| format!("sum{r} += dot_{}({}, c, x);", kind.reader, row("s", r)))
                .collect();
            body(lines.join("\n        "))
        })
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
        include_str!("vector.wgsl"),
        &[
            ("step", include_str!("step.wgsl")),
            ("bindings", &emit.bindings()),
            ("common", formats::COMMON),
            ("readers", &p.readers.text),
            ("activations", &p.chunks_of_x(cx.packed_dot)?),
            ("finish", &p.finish()),
            ("threads", &text(THREADS)),
            ("lanes", &text(lanes)),
            ("teams", &text(teams)),
            ("rows", &text(rows)),
            ("sums", &text(sums)),
            ("partials", &text(THREADS * sums)),
            ("squares_array", if norm { "var<workgroup> squares_of: array<f32, 64>;" } else { "" }),
            ("sums_vars", &each(&|r| format!("var sum{r} = 0.0;"))),
            ("body", &body),
            ("store_partials", &each(&|r| format!("partial[thread * SUMS + {r}u] = sum{r};"))),
            ("store_squares", if norm { "squares_of[thread] = squares;" } else { "" }),
            ("second", if p.glu { "var up = 0.0;" } else { "" }),
            (
                "add_second",
                if p.glu { "up += partial[(start + l) * SUMS + ROWS + r];" } else { "" },
            ),
            ("scale", &scale),
            ("result", &result),
        ],
    );
    Ok(Launch { wgsl, entry: "matmul_vector", words, groups })
}
