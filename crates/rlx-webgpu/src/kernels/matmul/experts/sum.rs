//! A few rows whose experts are summed: a workgroup has rows of the result, and a team of it an expert.

use super::Experts;
use crate::kernels::emit::{Emit, Place, fill};
use crate::kernels::matmul::vector::{ROWS, rows_of_team};
use crate::kernels::{Context, Launch, formats};
use rlx_core::{Error, Result};

/// Threads of a workgroup, at most: what every device has.
const THREADS: u64 = 256;

pub(super) fn launch(
    e: &Experts,
    shares: &Place,
    cx: &Context<'_>,
    emit: &mut Emit<'_>,
) -> Result<Launch> {
    let p = &e.parts;
    let [bank] = &p.segments[..] else {
        return Err(Error::internal("a sum of experts has one bank"));
    };
    // As for a matrix and a row: lanes without a chunk idle, and the end adds a row's lanes one by one.
    let lanes = p.chunks().next_power_of_two().clamp(4, 32);
    let teams = e.top_k.next_power_of_two().clamp(1, THREADS / lanes);
    let threads = lanes * teams;
    let rows = rows_of_team(bank.rows * p.m, 1);
    let (words, groups) = e.words(rows)?;
    let y = p.y_var()?;
    let (rows_len, skip) = cx.skip_rows(p.m, "m", emit);
    let bias = if bank.bias.is_some() {
        "for (var j = 0u; j < step.top_k; j++) {\n            \
         let pair = m * step.top_k + j;\n            \
         y += share_of(pair) * bias_of(0u, expert_of(pair) * step.seg[0].rows + row);\n        }"
    } else {
        ""
    };
    let text = |n: u64| n.to_string();
    let wgsl = fill(
        wgsl!("sum.wgsl"),
        &[
            ("step", wgsl!("step.wgsl")),
            ("bindings", &emit.bindings()),
            ("common", formats::COMMON),
            ("readers", &p.readers.text),
            ("activations", &p.chunks_of_x(cx.wgsl.packed_dot)?),
            ("finish", &p.finish()),
            ("rows_len", rows_len),
            ("skip", &skip),
            ("threads", &text(threads)),
            ("lanes", &text(lanes)),
            ("teams", &text(teams)),
            ("rows", &text(rows)),
            ("partials", &text(threads * ROWS)),
            ("ids", &e.ids.var),
            ("shares", &shares.var),
            ("start_of_x", &e.start_of(if e.own_rows { "pair" } else { "m" })),
            ("reader", &bank.reader),
            ("bias", bias),
            ("y", y),
        ],
    );
    #[cfg(not(target_family = "wasm"))]
    e.form("experts_sum", rows, teams, cx, emit)?;
    Ok(Launch { wgsl, entry: "grouped_matmul", words, groups: p.m * groups })
}
