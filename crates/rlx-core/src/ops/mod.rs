//! Operators: one file each with attributes, arity and type rule.
//!
//! `table.rs` lists them; its macro makes `enum Op`, one struct a variant, and delegation.
//! Every operator is pure. One that writes a state takes the old version and returns the next.
//!
//! # Primitives of data
//!
//! What the other operators on data decompose into, and a target must run itself:
//!
//! ```text
//! constant iota random_uniform random_normal
//! map zip compare select cast
//! reduce (sum, max, min, prod; of no known size mean too)
//! sort
//! reshape transpose slice concat expand
//! gather
//! ```
//!
//! `map` is one of the functions that [`Unary::is_composed`] leaves; `erf` in f64 is one more.
//! `gather_elements`, `reverse`, `roll`, `pad` but of a constant, and `scatter_add` with signed ids
//! have parts where the sizes that their indices need are known.

mod argmax;
mod argmin;
mod attention;
mod attr;
mod batch_matmul;
mod bodies;
mod cast;
mod check;
mod clamp;
mod compare;
mod concat;
mod constant;
mod cumsum;
mod custom;
mod dot_general;
mod elementwise_region;
mod expand;
mod fit;
mod gated_delta_net;
mod gather;
mod gather_elements;
mod grouped_matmul;
mod if_else;
mod iota;
mod kv_write;
mod lora_matmul;
mod map;
mod matmul;
mod operator;
mod pad;
mod parts;
mod quantize_rows;
mod random_normal;
mod random_uniform;
mod recurrence;
mod reduce;
mod reshape;
mod reverse;
mod rms_norm;
mod roll;
mod rope;
mod rope_kv_write;
mod rope_table;
mod rules;
mod sample;
mod scalar;
mod scalar_wgsl;
mod scan;
mod scatter_add;
mod sdpa;
mod select;
mod selective_scan;
mod slice;
mod softmax;
mod sort;
mod state_read;
mod state_write;
mod table;
mod take_rows;
mod token;
mod top_k;
mod transpose;
mod unpack;
mod while_loop;
pub(crate) mod words;
mod writing;
mod zip;

// Norms, vision, spectra, solvers and quantisation.
mod ada_norm;
#[cfg(feature = "vision")]
mod axial_rope_2d;
#[cfg(feature = "vision")]
mod batch_norm_inference;
mod build;
#[cfg(feature = "linalg")]
mod cholesky;
#[cfg(feature = "audio")]
mod complex_norm_sq;
#[cfg(feature = "audio")]
mod conjugate;
#[cfg(feature = "vision")]
mod conv;
#[cfg(feature = "vision")]
mod conv_transpose;
#[cfg(feature = "linalg")]
mod dense_solve;
#[cfg(feature = "quant")]
mod dequantize;
#[cfg(feature = "quant")]
mod fake_quantize;
#[cfg(feature = "quant")]
mod fake_quantize_lsq;
#[cfg(feature = "audio")]
mod fft;
mod gated_residual;
#[cfg(feature = "vision")]
mod group_norm;
#[cfg(feature = "vision")]
mod im2col;
#[cfg(feature = "vision")]
mod interpolate;
mod layer_norm;
#[cfg(feature = "vision")]
mod layer_norm_2d;
#[cfg(feature = "audio")]
mod log_mel;
mod norms;
#[cfg(feature = "vision")]
mod pool;
#[cfg(all(feature = "quant", feature = "vision"))]
mod q_conv2d;
#[cfg(feature = "quant")]
mod q_matmul;
#[cfg(feature = "quant")]
mod quantize;
mod residual_layer_norm;
mod residual_rms_norm;
#[cfg(feature = "quant")]
mod scaled_dequantize;
#[cfg(feature = "quant")]
mod scaled_matmul;
#[cfg(feature = "quant")]
mod scaled_quantize;
#[cfg(feature = "quant")]
mod scaling;
#[cfg(any(feature = "vision", feature = "audio"))]
mod slide;
#[cfg(feature = "vision")]
mod window;

pub use argmax::ArgMax;
pub use argmin::ArgMin;
pub use attention::Attention;
pub use attr::{Attr, Attrs};
pub use batch_matmul::BatchMatMul;
pub use cast::Cast;
pub use clamp::Clamp;
pub use compare::Compare;
pub use concat::Concat;
pub use constant::Constant;
pub use cumsum::CumSum;
pub use custom::{Custom, CustomOperator, CustomSet};
pub use dot_general::DotGeneral;
pub use elementwise_region::{Region, RegionStep, StepFn, StepOperand};
pub use expand::Expand;
pub use gated_delta_net::GatedDeltaNet;
pub use gather::Gather;
pub use gather_elements::GatherElements;
pub use grouped_matmul::GroupedMatMul;
pub use if_else::If;
pub use iota::Iota;
pub use kv_write::KvWrite;
pub use lora_matmul::LoraMatMul;
pub use map::Map;
pub use matmul::{Epilogue, MatMul, MatMulParts};
pub use pad::{Pad, PadMode};
pub use quantize_rows::QuantizeRows;
pub use random_normal::RandomNormal;
pub use random_uniform::RandomUniform;
pub use reduce::Reduce;
pub use reshape::Reshape;
pub use reverse::Reverse;
pub use rms_norm::RmsNorm;
pub use roll::Roll;
pub use rope::{Rope, RopeStyle};
pub use rope_kv_write::RopeKvWrite;
pub use rope_table::{RopeScaling, RopeTable};
pub use sample::Sample;
pub use scalar::{Binary, Comparison, Reduction, Unary};
pub use scan::Scan;
pub use scatter_add::ScatterAdd;
pub use sdpa::{HeadLayout, Mask, Sdpa};
pub use select::Select;
pub use selective_scan::SelectiveScan;
pub use slice::Slice;
pub use softmax::Softmax;
pub use sort::Sort;
pub use state_read::StateRead;
pub use state_write::StateWrite;
pub use take_rows::TakeRows;
pub use token::Token;
pub use top_k::TopK;
pub use transpose::Transpose;
pub use unpack::Unpack;
pub use while_loop::While;
pub use zip::Zip;

pub use ada_norm::{AdaNorm, NormKind};
#[cfg(feature = "vision")]
pub use axial_rope_2d::AxialRope2d;
#[cfg(feature = "vision")]
pub use batch_norm_inference::BatchNormInference;
#[cfg(feature = "linalg")]
pub use cholesky::Cholesky;
#[cfg(feature = "audio")]
pub use complex_norm_sq::ComplexNormSq;
#[cfg(feature = "audio")]
pub use conjugate::Conjugate;
#[cfg(feature = "vision")]
pub use conv::Conv;
#[cfg(feature = "vision")]
pub use conv_transpose::ConvTranspose;
#[cfg(feature = "linalg")]
pub use dense_solve::DenseSolve;
#[cfg(feature = "quant")]
pub use dequantize::Dequantize;
#[cfg(all(feature = "quant", feature = "reference"))]
pub(crate) use fake_quantize::levels;
#[cfg(feature = "quant")]
pub use fake_quantize::{FakeQuantize, FakeScale, StraightThrough};
#[cfg(feature = "quant")]
pub use fake_quantize_lsq::FakeQuantizeLsq;
#[cfg(feature = "audio")]
pub use fft::{Fft, FftNorm};
pub use gated_residual::GatedResidual;
#[cfg(feature = "vision")]
pub use group_norm::GroupNorm;
#[cfg(feature = "vision")]
pub use im2col::Im2Col;
#[cfg(feature = "vision")]
pub use interpolate::{Interpolate, Interpolation};
pub use layer_norm::LayerNorm;
#[cfg(feature = "vision")]
pub use layer_norm_2d::LayerNorm2d;
#[cfg(feature = "audio")]
pub use log_mel::{Log, LogMel};
pub use operator::{Alias, Body, Class, Emit, Operator, Signature};
#[cfg(feature = "vision")]
pub use pool::{Pool, PoolKind};
#[cfg(all(feature = "quant", feature = "vision"))]
pub use q_conv2d::QConv2d;
#[cfg(feature = "quant")]
pub use q_matmul::{QMatMul, Requantize};
#[cfg(feature = "quant")]
pub use quantize::Quantize;
#[cfg(all(feature = "quant", feature = "reference"))]
pub(crate) use quantize::byte_range;
pub use residual_layer_norm::ResidualLayerNorm;
pub use residual_rms_norm::ResidualRmsNorm;
#[cfg(feature = "quant")]
pub use scaled_dequantize::ScaledDequantize;
#[cfg(feature = "quant")]
pub use scaled_matmul::ScaledMatMul;
#[cfg(feature = "quant")]
pub use scaled_quantize::ScaledQuantize;
#[cfg(feature = "quant")]
pub use scaling::{ScaleLayout, Scaling};
pub use table::Op;
#[cfg(feature = "vision")]
pub(crate) use window::Grid;
#[cfg(feature = "vision")]
pub use window::Window;

use check::{arity, control, expect, float_tensor, matrix};

/// Words of the control block, a state every language-model program has (`sample/control.rs`).
pub const CONTROL_WORDS: u64 = 16;
/// Words of the sampling parameters.
pub const PARAMS_WORDS: u64 = 32;
