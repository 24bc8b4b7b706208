//! Kernels that a decoder's chat does not need: any network's operators, over any shapes and element types of
//! up to 32 bits. The feature `graphs` has them in; a page for chat is built without it.
//!
//! Types are f32, and where the arithmetic is per element f16, bf16, booleans and integers of 8, 16
//! and 32 bits. Sums of halves are widened by `legalise` and made in f32. Halves are rounded in
//! integers, halves to even: WGSL lets its own packing round either way. Strides and sizes are step
//! constants, so shapes share pipelines.
//!
//! These have no kernel and are refused by name: `f64`, arithmetic of `i64`, `pow` and `mod` of
//! floats, sorted values of 8 and 16 bits.

mod axes;
mod batch_matmul;
mod conv;
mod conv_transpose;
mod dot_general;
mod elementwise;
mod expand;
mod extreme;
mod functions;
mod gather;
mod gather_elements;
mod group_norm;
mod ids;
mod im2col;
mod interpolate;
mod layer_norm;
mod pad;
mod pool;
mod product;
mod random;
mod reduce;
mod reverse;
mod roll;
mod scatter_add;
mod sdpa;
mod sliding;
mod softmax;
mod sort;
mod standardise;
mod state_write;
mod transpose;

use super::{Row, row};

/// Operators that have no kernel among a decoder's.
pub(super) const ROWS: &[Row] = &[
    row("select", elementwise::takes, elementwise::elementwise),
    row("compare", elementwise::takes, elementwise::elementwise),
    row("cast", elementwise::takes, elementwise::elementwise),
    row("clamp", elementwise::takes, elementwise::elementwise),
    row("reduce", reduce::takes, reduce::reduce),
    row("softmax", softmax::takes, softmax::softmax),
    row("layer_norm", layer_norm::takes, layer_norm::layer_norm),
    row("group_norm", group_norm::takes, group_norm::group_norm),
    row("argmax", extreme::takes, extreme::extreme),
    row("argmin", extreme::takes, extreme::extreme),
    row("sort", sort::takes, sort::sort),
    row("top_k", sort::takes, sort::sort),
    row("batch_matmul", batch_matmul::takes, batch_matmul::batch_matmul),
    row("dot_general", dot_general::takes, dot_general::dot_general),
    row("sdpa", sdpa::takes, sdpa::sdpa),
    row("transpose", transpose::takes, transpose::transpose),
    row("expand", expand::takes, expand::expand),
    row("reverse", reverse::takes, reverse::reverse),
    row("conv", conv::takes, conv::conv),
    row("conv_transpose", conv_transpose::takes, conv_transpose::conv_transpose),
    row("pool", pool::takes, pool::pool),
    row("interpolate", interpolate::takes, interpolate::interpolate),
    row("random_uniform", random::takes, random::random),
    row("random_normal", random::takes, random::random),
    row("im2col", im2col::takes, im2col::im2col),
    row("pad", pad::takes, pad::pad),
    row("roll", roll::takes, roll::roll),
    row("gather_elements", gather_elements::takes, gather_elements::gather_elements),
    row("scatter_add", scatter_add::takes, scatter_add::scatter_add),
    row("state_write", state_write::takes, state_write::state_write),
];

/// Operators of which a decoder's kernels take some forms, and these all.
pub(super) const ALSO: &[Row] = &[
    row("map", elementwise::takes, elementwise::elementwise),
    row("zip", elementwise::takes, elementwise::elementwise),
    row("elementwise_region", elementwise::takes, elementwise::elementwise),
    row("gather", gather::takes, gather::gather),
];
