//! Products of several rows, by matrices of a SIMD group: of f32, or of f16 where that is asked for.

use super::HEAD;
use super::product::Product;
use super::rows::{Rows, THREADS};
use crate::msl::{LANGUAGE, Text};
use rlx_webgpu::gpu::Form;

/// The text of a product in this form; none for weights or functions that it does not have.
pub(super) fn text(form: &Form) -> Option<Text> {
    let half = form.name == "matmul_tile_half";
    let (number, bytes, rows) = if half { ("half", 2, 64) } else { ("float", 4, 32) };
    let product = Product::of(form)?;
    if half && product.norm.is_some() {
        return None;
    }
    let kernel = Rows { product: &product, tile: rows, rows, scaled: half, entry: form.name };
    let decode = kernel.decode(&|class, of| format!("sixteen<{class}>({of});"))?;
    let kernel = kernel
        .around(include_str!("matmul_tile.metal"), &[("number", number), ("decode", &decode)])?;
    // x and weights, and later the results; and a scale for each row.
    let tile: u32 = ((rows * 40 + 32 * 64) * bytes).max(rows * 64 * 4);
    Some(Text {
        text: format!("{HEAD}{kernel}"),
        language: LANGUAGE,
        entry: format!("own_{}", form.name),
        threads: THREADS,
        memory: vec![tile, rows * 4],
        sizes: Vec::new(),
    })
}
