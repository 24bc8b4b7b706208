//! Kernels of any network's operators, over any shapes and element types of up to 32 bits. The feature `graphs`
//! has them in; a page for chat is built without it, but for the movements that some families of language models
//! need: `slice`, `concat` and `iota`.
//!
//! Types are f32, and where the arithmetic is per element f16, bf16, booleans and integers of 8, 16
//! and 32 bits. Sums of halves are widened by `legalise` and made in f32. Halves are rounded in
//! integers, halves to even: WGSL lets its own packing round either way. Strides and sizes are step
//! constants, so shapes share pipelines.
//!
//! These have no kernel and are refused by name: `f64`, arithmetic of `i64`, `pow` and `mod` of
//! floats, sorted values of 8 and 16 bits, random numbers.

#[cfg(feature = "graphs")]
mod axes;
#[cfg(feature = "graphs")]
mod batch_matmul;
pub(super) mod concat;
#[cfg_attr(not(feature = "graphs"), allow(dead_code))]
mod copy;
#[cfg(feature = "graphs")]
mod dot_general;
#[cfg_attr(not(feature = "graphs"), allow(dead_code))]
mod each;
#[cfg_attr(not(feature = "graphs"), allow(dead_code))]
mod element;
#[cfg(feature = "graphs")]
mod elementwise;
#[cfg(feature = "graphs")]
mod expand;
#[cfg(feature = "graphs")]
mod extreme;
#[cfg_attr(not(feature = "graphs"), allow(dead_code))]
mod functions;
#[cfg(feature = "graphs")]
mod gather;
#[cfg(feature = "graphs")]
mod gather_elements;
#[cfg(feature = "graphs")]
mod group_norm;
#[cfg_attr(not(feature = "graphs"), allow(dead_code))]
mod ids;
#[cfg(feature = "graphs")]
mod im2col;
#[cfg_attr(not(feature = "graphs"), allow(dead_code))]
mod indices;
pub(super) mod iota;
#[cfg(feature = "graphs")]
mod layer_norm;
#[cfg(feature = "graphs")]
mod pad;
#[cfg(feature = "graphs")]
mod product;
#[cfg(feature = "graphs")]
mod reduce;
#[cfg(feature = "graphs")]
mod reverse;
#[cfg(feature = "graphs")]
mod roll;
#[cfg(feature = "graphs")]
mod scatter_add;
#[cfg(feature = "graphs")]
mod sdpa;
pub(super) mod slice;
#[cfg(feature = "graphs")]
mod softmax;
#[cfg(feature = "graphs")]
mod sort;
#[cfg(feature = "graphs")]
mod standardise;
#[cfg(feature = "graphs")]
mod state_write;
#[cfg(feature = "graphs")]
mod transpose;

use super::Row;
#[cfg(feature = "graphs")]
use super::row;

/// Operators that have no kernel among a decoder's.
#[cfg(feature = "graphs")]
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
    row("im2col", im2col::takes, im2col::im2col),
    row("pad", pad::takes, pad::pad),
    row("roll", roll::takes, roll::roll),
    row("gather_elements", gather_elements::takes, gather_elements::gather_elements),
    row("scatter_add", scatter_add::takes, scatter_add::scatter_add),
    row("state_write", state_write::takes, state_write::state_write),
];

/// Operators of which a decoder's kernels take some forms, and these all.
#[cfg(feature = "graphs")]
pub(super) const ALSO: &[Row] = &[
    row("map", elementwise::takes, elementwise::elementwise),
    row("zip", elementwise::takes, elementwise::elementwise),
    row("elementwise_region", elementwise::takes, elementwise::elementwise),
    row("gather", gather::takes, gather::gather),
];

/// A build for chat alone has no others.
#[cfg(not(feature = "graphs"))]
pub(super) const ROWS: &[Row] = &[];
#[cfg(not(feature = "graphs"))]
pub(super) const ALSO: &[Row] = &[];
