//! Products of a few rows with the matrices of their experts, and sums of them.

use super::fill;
use super::matmul_vec::{functions, multiply, other, rows};
use super::product::Product;
use crate::msl::{LANGUAGE, Text};
use rlx_webgpu::gpu::Form;

const LANES: u32 = crate::gpu::LANES;
/// SIMD groups of a threadgroup at most, where each has experts.
const MOST: u32 = 8;

/// A threadgroup has rows of one expert of a row of x.
const PRODUCTS: &str = "    uint result_row = group / step.groups, m = result_row / step.top_k;
    if (m >= step.m{{skip}}) return;
    uint column = group % step.groups, s = 0u;
    for (uint i = 1u; i < step.segments; i++) {
        if (column >= step.seg[i].first) s = i;
    }
    uint row0 = (column - step.seg[s].first) * COLUMNS + simd * ROWS, last = step.seg[s].rows - 1u;
    // The same for all lanes.
    if (row0 > last) return;
    uint matrix = metal::min(ids[result_row], step.experts - 1u) * step.seg[s].rows;
    device const float* x = (device const float*){{x}} + step.x + ulong({{x_row}}) * step.k;
    device const float* norm = x;
    {{multiply}}
    for (uint i = 0u; i < SUMS; i++) sums[i] = metal::simd_sum(sums[i]);
    uint i = row0 + lane;
    float result = sums[0];
    for (uint r = 1u; r < ROWS; r++) {
        if (lane == r) result = sums[r];
    }
    {{other}}
    if (lane < ROWS && i <= last) {
        {{finish}}
        y[step.seg[s].y + ulong(result_row) * step.seg[s].rows + i] = result;
    }";
/// It has rows of the result, and a SIMD group every so many experts.
const SUM: &str = "    uint m = group / step.groups, row0 = group % step.groups * ROWS;
    uint s = 0u, last = step.seg[0].rows - 1u;
    if (m >= step.m{{skip}}) return;
    device const float* shares = (device const float*){{shares}} + step.shares;
    float all[ROWS];
    for (uint r = 0u; r < ROWS; r++) all[r] = 0.0f;
    for (uint j = simd; j < step.top_k; j += {{teams}}u) {
        uint result_row = m * step.top_k + j;
        uint matrix = metal::min(ids[result_row], step.experts - 1u) * step.seg[0].rows;
        device const float* x = (device const float*){{x}} + step.x + ulong({{x_row}}) * step.k;
        device const float* norm = x;
        for (uint r = 0u; r < ROWS; r++) sums[r] = 0.0f;
        {{multiply}}
        for (uint r = 0u; r < ROWS; r++) all[r] += shares[result_row] * sums[r];
    }
    for (uint r = 0u; r < ROWS; r++) {
        all[r] = metal::simd_sum(all[r]);
        if (lane == 0u) joined[simd * ROWS + r] = all[r];
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint i = row0 + index;
    if (index < ROWS && i <= last) {
        float result = 0.0f;
        for (uint t = 0u; t < {{teams}}u; t++) result += joined[t * ROWS + index];
        {{bias}}
        ulong to = ulong(m) * step.seg[0].rows + i;
        y[step.seg[0].y + to] = result{{residual}};
    }";

/// The text of experts in this form; none for banks or functions that it does not have.
pub(super) fn text(form: &Form) -> Option<Text> {
    let mut p = Product::of(form)?;
    let number = |name: &str| form.get(name)?.parse::<u32>().ok().filter(|n| *n > 0);
    let columns = number("columns")?;
    let ids = p.buffers.read(form.get("ids")?)?;
    let shares = p.buffers.maybe(form.get("shares")?)?;
    let streams = if p.glu { 2 } else { 1 };
    let x_row = if form.get("own_rows")? == "true" { "result_row" } else { "m" };
    let skip = match &p.control {
        None => String::new(),
        Some(name) => format!(" || m >= ((device const uint*){name})[1]"),
    };
    let multiply = multiply(&p, &|s| format!(" + ulong(matrix) * step.seg[{s}].row_bytes"))?;
    let (rows, teams, memory) = match &shares {
        None => (rows(columns, streams)?, 0, Vec::new()),
        Some(_) => {
            let teams = number("teams")?.min(MOST);
            (columns, teams, vec![(4 * teams * columns).next_multiple_of(16)])
        }
    };
    let simds = if teams == 0 { columns / rows } else { teams };
    let mut bias = p.add_bias("0u", "b", "matrix + i");
    if !bias.is_empty() {
        bias = format!(
            "for (uint j = 0u; j < step.top_k; j++) {{
            uint matrix = metal::min(ids[m * step.top_k + j], step.experts - 1u) * step.seg[0].rows;
            float b = 0.0f;
            {bias}result += shares[m * step.top_k + j] * b;
        }}"
        );
    }
    let residual = match &p.residual {
        None => String::new(),
        Some(r) => format!(" + ((device const float*){r})[step.residual + to]"),
    };
    let body = fill(
        if shares.is_some() { SUM } else { PRODUCTS },
        &[
            ("skip", &skip),
            ("x", &p.x),
            ("x_row", x_row),
            ("multiply", &multiply),
            ("other", other(&p)),
            ("finish", &p.finish("", "matrix + i")),
            ("shares", shares.as_deref().unwrap_or("")),
            ("teams", &teams.to_string()),
            ("bias", &bias),
            ("residual", &residual),
        ],
    )?;
    let of_group =
        if memory.is_empty() { "" } else { ", threadgroup float* joined [[threadgroup(0)]]" };
    let kernel = fill(
        include_str!("experts.metal"),
        &[
            ("columns", &columns.to_string()),
            ("rows", &rows.to_string()),
            ("streams", &streams.to_string()),
            ("maps", p.map.0),
            ("map", p.map.1),
            ("entry", form.name),
            ("buffers", &p.buffers.parameters()),
            ("memory", of_group),
            ("ids", &ids),
            ("y", &p.y),
            ("body", &body),
        ],
    )?;
    let text = functions(rows, false)? + &kernel;
    let entry = format!("own_{}", form.name);
    Some(Text {
        text,
        language: LANGUAGE,
        entry,
        threads: simds * LANES,
        memory,
        sizes: Vec::new(),
    })
}
