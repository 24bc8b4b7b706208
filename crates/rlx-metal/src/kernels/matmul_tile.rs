//! Products of several rows, by matrices of a SIMD group: of f32, or of f16 where that is asked for.

use super::product::Product;
use super::{HEAD, fill};
use crate::msl::Text;
use rlx_webgpu::gpu::Form;

const THREADS: u32 = 128;

/// The text of a product in this form; none for weights or functions that it does not have.
pub(super) fn text(form: &Form) -> Option<Text> {
    let half = form.name == "matmul_tile_half";
    let (number, bytes, rows) = if half { ("half", 2, 64) } else { ("float", 4, 32) };
    let p = Product::of(form)?;
    if half && p.norm.is_some() {
        return None;
    }
    let mut decode = Vec::new();
    for (n, kind) in p.kinds.iter().enumerate() {
        let class = super::formats::class(&kind.dtype)?;
        let text = format!(
            "{class}::sixteen((device const uchar*){} + w_at, step.k, c, half_of_w, w);",
            kind.weights
        );
        decode.push(match p.kinds.len() {
            1 => text,
            _ => format!("if (step.seg[from].kind == {n}u) {text}"),
        });
    }
    let other = match p.glu {
        true => "float other = results[m * 64u + 32u + at % 32u] * scales[m];\n        ",
        false => "",
    };
    let skip = match &p.control {
        None => String::new(),
        Some(name) => format!(" || m0 >= ((device const uint*){name})[1]"),
    };
    let norm = match &p.norm {
        None => "row".into(),
        Some(norm) => format!("(device const uchar*)((device const float*){norm} + step.norm)"),
    };
    let (segment, w_row) = if p.glu { ("n / 32u", "n0 + n % 32u") } else { ("s", "n0 + n") };
    let kernel = fill(
        include_str!("matmul_tile.metal"),
        &[
            ("number", number),
            ("is_half", if half { "true" } else { "false" }),
            ("has_norm", if p.norm.is_some() { "true" } else { "false" }),
            ("rows", &rows.to_string()),
            ("entry", form.name),
            ("maps", p.map.0),
            ("map", p.map.1),
            ("buffers", &p.buffers.parameters()),
            ("skip", &skip),
            ("columns", if p.glu { "32" } else { "64" }),
            ("x", &p.x),
            ("norm", &norm),
            ("y", &p.y),
            ("segment", segment),
            ("w_row", w_row),
            ("decode", &decode.join("\n        ")),
            ("finish", &format!("{other}{}", p.finish("to", "i"))),
        ],
    )?;
    let text = format!("{HEAD}{}\n{kernel}", super::formats::TEXT);
    // x and weights, and later the results; and a scale for each row.
    let tile: u32 = ((rows * 40 + 32 * 64) * bytes).max(rows * 64 * 4);
    let memory = vec![tile, rows * 4];
    Some(Text {
        text,
        entry: format!("own_{}", form.name),
        threads: THREADS,
        memory,
        sizes: Vec::new(),
    })
}
