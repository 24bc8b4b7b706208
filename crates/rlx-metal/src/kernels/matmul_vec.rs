//! Products of one row of x, which decoding waits for: a SIMD group has a few rows of a weight.

use super::product::{Kind, Product};
use super::{HEAD, fill, formats};
use crate::msl::{LANGUAGE, Text};
use rlx_webgpu::gpu::Form;

/// Lanes of a SIMD group.
const LANES: u32 = crate::gpu::LANES;
/// SIMD groups of a threadgroup at most.
const SIMD_GROUPS: u32 = 8;
/// Sums of a lane: what it loads of x serves so many rows.
const SUMS: u32 = 2;

/// Rows of a weight that a SIMD group has, of `columns` that a threadgroup has; none where they do not divide.
pub(super) fn rows(columns: u32, streams: u32) -> Option<u32> {
    let fits = |rows: &u32| columns.is_multiple_of(*rows) && columns / rows <= SIMD_GROUPS;
    [1, 2, 4, 8].into_iter().filter(|rows| rows * streams >= SUMS).find(fits)
}

/// The functions of one row of x, before a kernel that has so many rows of a weight for a SIMD group.
pub(super) fn functions(rows: u32, norm: bool) -> Option<String> {
    let has_norm = if norm { "true" } else { "false" };
    let rows = rows.to_string();
    let multiply =
        fill(include_str!("multiply.metal"), &[("rows", &rows), ("has_norm", has_norm)])?;
    Some(format!("{HEAD}{}\n{multiply}\n", formats::TEXT))
}

/// What adds a SIMD group's products to `sums`: of segment `s`, or of gate and up. `more` of a segment is what comes
/// behind the start of its weight.
pub(super) fn multiply(p: &Product, more: &dyn Fn(&str) -> String) -> Option<String> {
    let call = |class: &str,
                streams: u32,
                bytes: [String; 2],
                s: &str,
                sums: &str,
                squares: &str| {
        let [w0, w1] = bytes;
        format!(
            "multiply<{class}, {streams}u>({w0}, {w1}, step.seg[{s}].row_bytes, row0, last, x, norm, \
             step.k, lane, {sums}, {squares});"
        )
    };
    let bytes = |kind: &Kind, s: &str| {
        format!("(device const uchar*){} + step.seg[{s}].weight{}", kind.weights, more(s))
    };
    let classes =
        p.kinds.iter().map(|kind| formats::class(&kind.dtype)).collect::<Option<Vec<_>>>()?;
    if !p.glu {
        let one = |(n, kind): (usize, &Kind)| {
            let at = bytes(kind, "s");
            let text = call(classes[n], 1, [at.clone(), at], "s", "sums", "squares");
            if p.kinds.len() == 1 { text } else { format!("if (step.seg[s].kind == {n}u) {text}") }
        };
        return Some(p.kinds.iter().enumerate().map(one).collect::<Vec<_>>().join("\n        "));
    }
    // The segments' kinds are in order: one that both have, or one for each.
    let (gate, up) = (p.kinds.first()?, p.kinds.get(1).or(p.kinds.first())?);
    let [a, b] = [bytes(gate, "0u"), bytes(up, "1u")];
    let (of_gate, of_up) = (classes.first()?, classes.get(1).or(classes.first())?);
    if of_gate == of_up {
        return Some(call(of_gate, 2, [a, b], "0u", "sums", "squares"));
    }
    let first = call(of_gate, 1, [a.clone(), a], "0u", "sums", "squares");
    let second = call(of_up, 1, [b.clone(), b], "1u", "sums + ROWS", "again_squares");
    Some(format!("{first}\n        float again_squares = 0.0f;\n        {second}"))
}

/// `other`: the lane's sum of up.
pub(super) fn other(p: &Product) -> &'static str {
    match p.glu {
        false => "",
        true => {
            "float other = sums[ROWS];\n        for (uint r = 1u; r < ROWS; r++) {\n            \
             if (lane == r) other = sums[ROWS + r];\n        }"
        }
    }
}

/// The text of a product in this form; none for weights or functions that it does not have.
pub(super) fn text(form: &Form) -> Option<Text> {
    let p = Product::of(form)?;
    let columns: u32 = form.get("columns")?.parse().ok().filter(|n| *n > 0)?;
    let streams = if p.glu { 2 } else { 1 };
    let rows = rows(columns, streams)?;
    let norm = match &p.norm {
        None => "x".into(),
        Some(norm) => format!("(device const float*){norm} + step.norm"),
    };
    let kernel = fill(
        include_str!("matmul_vec.metal"),
        &[
            ("rows", &rows.to_string()),
            ("streams", &streams.to_string()),
            ("columns", &columns.to_string()),
            ("maps", p.map.0),
            ("map", p.map.1),
            ("buffers", &p.buffers.parameters()),
            ("x", &p.x),
            ("norm", &norm),
            ("y", &p.y),
            ("multiply", &multiply(&p, &|_| String::new())?),
            ("other", other(&p)),
            ("finish", &p.finish("i", "i")),
        ],
    )?;
    let text = functions(rows, p.norm.is_some())? + &kernel;
    let threads = columns / rows * LANES;
    let entry = "own_matmul_vec".into();
    Some(Text { text, language: LANGUAGE, entry, threads, memory: Vec::new(), sizes: Vec::new() })
}
