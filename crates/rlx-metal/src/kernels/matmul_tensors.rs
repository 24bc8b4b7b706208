//! Products of several rows by Metal 4's tensor operations, which reach the matrix units of GPUs from the M5 on.
//!
//! Operands are of f16, the type that those units are for. In products of floats no digit is lost by that: x is two
//! halves, and of packed weights the bytes are multiplied, whose scales meet the sums of each group. Weights of f32 and
//! bf16 are left to the tile there; in halves they are rounded as it rounds them.

use super::HEAD;
use super::product::Product;
use super::rows::{Rows, THREADS, word};
use crate::msl::{TENSORS, Text};
use rlx_webgpu::gpu::Form;

const INCLUDES: &str = "#include <metal_tensor>\n\
     #include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>\n";

/// Rows of x of a threadgroup: what it decodes of weights serves so many, and a launch's tiles divide them.
const ROWS: u32 = 64;

/// How many weights share a scale in products of floats, and whether an offset stands behind it; none for those that
/// f16 does not have exactly.
fn scales(class: &str) -> Option<(u32, bool)> {
    match class {
        // One is as good as a group.
        "f16" | "q4_0" | "q5_0" | "q8_0" => Some((32, false)),
        "q4_1" | "q5_1" | "q4_k" | "q5_k" => Some((32, true)),
        "q6_k<false>" | "q6_k<true>" => Some((16, false)),
        _ => None,
    }
}

/// The text of a product in this form; none where the tile has it.
pub(super) fn text(form: &Form) -> Option<Text> {
    let (exact, tile, entry) = match form.name {
        "matmul_tile" => (true, 32, "matmul_tensors"),
        "matmul_tile_half" => (false, 64, "matmul_tensors_half"),
        _ => return None,
    };
    let product = Product::of(form)?;
    if !exact && product.norm.is_some() {
        return None;
    }
    let kernel = Rows { product: &product, tile, rows: ROWS, scaled: true, entry };
    let (mut group, mut offsets) = (32, false);
    if exact {
        for class in kernel.classes()? {
            let (of, offset) = scales(class)?;
            group = group.min(of);
            offsets |= offset;
        }
    }
    let decode = kernel.decode(&|class, of| match exact {
        true => format!("w_by = {class}::exact({of});"),
        false => format!("sixteen<{class}>({of});"),
    })?;
    let text = kernel.around(
        include_str!("matmul_tensors.metal"),
        &[
            ("is_exact", word(exact)),
            ("has_offsets", word(offsets)),
            ("group", &group.to_string()),
            ("decode", &decode),
        ],
    )?;
    let groups = 32 / group;
    // x, what its halves leave, and weights, as halves; later the results.
    let halves = (ROWS * 32 * if exact { 2 } else { 1 } + 64 * 32) * 2;
    let memory = halves.max(ROWS * 64 * 4);
    // A scale of each row, its sums of groups, and scales and offsets of weights.
    let numbers = if exact { ROWS + groups * (ROWS + 64 * 2) } else { ROWS };
    Some(Text {
        text: format!("{INCLUDES}{HEAD}{text}"),
        language: TENSORS,
        entry: format!("own_{entry}"),
        threads: THREADS,
        memory: vec![memory, numbers * 4],
        sizes: Vec::new(),
    })
}
