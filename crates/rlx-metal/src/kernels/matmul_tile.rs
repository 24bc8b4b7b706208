//! Products of a prompt's rows, by matrices of a SIMD group.

use super::{binding, fill};
use crate::msl::Text;
use rlx_webgpu::gpu::Form;
use std::collections::BTreeMap;

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
    let glu = form.get("glu")? == "true";
    let map = match form.get("map")? {
        "x" => "x",
        "silu" => "silu_of(x)",
        _ => return None,
    };
    // The kernel names buffers by their number; one that it writes is not constant.
    let y = form.get("y")?;
    let mut buffers: BTreeMap<u32, &str> = BTreeMap::new();
    let mut bind = |name: &str| {
        buffers.insert(binding(name)?, if name == y { "device" } else { "device const" });
        Some(format!("b{}", binding(name)?))
    };
    let (x, y) = (bind(form.get("x")?)?, bind(y)?);
    // Of each kind of segment its type, weights and biases.
    let kinds: Vec<[&str; 3]> = form
        .get("kinds")?
        .split(';')
        .map(|kind| kind.split(',').collect::<Vec<_>>().try_into().ok())
        .collect::<Option<_>>()?;
    let (mut decode, mut bias) = (String::new(), String::new());
    for (n, [dtype, weights, biases]) in kinds.iter().enumerate() {
        let (function, weights) = (decoder(dtype)?, bind(weights)?);
        decode += &format!(
            "if (step.seg[from].kind == {n}u) {function}((device const uchar*){weights} + w_at, step.k, c, \
             half_of_w, w);\n        "
        );
        if !biases.is_empty() {
            let biases = bind(biases)?;
            bias += &format!(
                "if (step.seg[of].kind == {n}u) b = ((device const float*){biases})[step.seg[of].bias + i];\n        "
            );
        }
    }
    let add_bias = |of: &str, to: &str| match bias.is_empty() {
        true => String::new(),
        false => format!(
            "{{\n        uint of = {of};\n        float b = 0.0f;\n        \
             {bias}{to} += b;\n        }}\n        "
        ),
    };
    let finish = if glu {
        format!(
            "float other = results[m * 64u + 32u + at % 32u] * scales[m];\n        \
             {}{}result = map_of(result) * other;",
            add_bias("0u", "result"),
            add_bias("1u", "other")
        )
    } else {
        let add = match form.get("residual")? {
            "" => String::new(),
            name => {
                let residual = bind(name)?;
                format!(" + ((device const float*){residual})[step.residual + to]")
            }
        };
        format!("{}result = map_of(result){add};", add_bias("s", "result"))
    };
    let skip = match form.get("control")? {
        "" => String::new(),
        name => format!(" || m0 >= ((device const uint*){})[1]", bind(name)?),
    };
    let buffers: Vec<String> =
        buffers.iter().map(|(n, kind)| format!(", {kind} uint* b{n} [[buffer({n})]]")).collect();
    let (segment, w_row) = if glu { ("n / 32u", "n0 + n % 32u") } else { ("s", "n0 + n") };
    let kernel = fill(
        include_str!("matmul_tile.metal"),
        &[
            ("map", map),
            ("buffers", &buffers.join("\n")),
            ("skip", &skip),
            ("columns", if glu { "32" } else { "64" }),
            ("x", &x),
            ("y", &y),
            ("segment", segment),
            ("w_row", w_row),
            ("decode", decode.trim_end()),
            ("finish", &finish),
        ],
    )?;
    let text = format!(
        "#include <metal_stdlib>\n#include <metal_simdgroup_matrix>\nusing metal::uint;\n\n{kernel}"
    );
    let entry = "own_matmul_tile".into();
    Some(Text { text, entry, threads: THREADS, memory: vec![TILE, SCALES], sizes: Vec::new() })
}
