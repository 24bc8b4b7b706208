//! Products of a prompt's rows, by matrices of a SIMD group.

use super::product::Product;
use super::{HEAD, fill};
use crate::msl::Text;
use rlx_webgpu::gpu::Form;

/// Bytes of a tile: of x and weights, and later of its results.
const TILE: u32 = 64 * 64 * 4;
/// Bytes of a scale for each row of x.
const SCALES: u32 = 64 * 4;
const THREADS: u32 = 128;

/// The function that decodes a type.
fn decoder(name: &str) -> Option<&'static str> {
    Some(match name {
        "f16" => "decode_f16",
        "q4_0" => "decode_q4_0",
        "q8_0" => "decode_q8_0",
        "q4_k" => "decode_q4_k",
        "q6_k" => "decode_q6_k<false>",
        "q6_k planes" => "decode_q6_k<true>",
        _ => return None,
    })
}

/// The text of a product in this form; none for weights or functions that it does not have.
pub(super) fn text(form: &Form) -> Option<Text> {
    let p = Product::of(form)?;
    if p.norm.is_some() {
        return None;
    }
    let mut decode = String::new();
    for (n, kind) in p.kinds.iter().enumerate() {
        let (function, weights) = (decoder(&kind.dtype)?, &kind.weights);
        decode += &format!(
            "if (step.seg[from].kind == {n}u) {function}((device const uchar*){weights} + w_at, step.k, c, \
             half_of_w, w);\n        "
        );
    }
    let other = match p.glu {
        true => "float other = results[m * 64u + 32u + at % 32u] * scales[m];\n        ",
        false => "",
    };
    let skip = match &p.control {
        None => String::new(),
        Some(name) => format!(" || m0 >= ((device const uint*){name})[1]"),
    };
    let (segment, w_row) = if p.glu { ("n / 32u", "n0 + n % 32u") } else { ("s", "n0 + n") };
    let kernel = fill(
        include_str!("matmul_tile.metal"),
        &[
            ("maps", p.map.0),
            ("map", p.map.1),
            ("buffers", &p.buffers.parameters()),
            ("skip", &skip),
            ("columns", if p.glu { "32" } else { "64" }),
            ("x", &p.x),
            ("y", &p.y),
            ("segment", segment),
            ("w_row", w_row),
            ("decode", decode.trim_end()),
            ("finish", &format!("{other}{}", p.finish("to"))),
        ],
    )?;
    let (text, entry) = (format!("{HEAD}{kernel}"), "own_matmul_tile".into());
    Some(Text { text, entry, threads: THREADS, memory: vec![TILE, SCALES], sizes: Vec::new() })
}
