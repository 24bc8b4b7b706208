//! Operators: one file each with attributes, arity and type rule; groups that a page of language models
//! does not link are folders.
//!
//! `table.rs` lists them; `def/` has how one is defined, and `enum Op`. Every operator is pure. One that
//! writes a state takes the old version and returns the next.
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
//!
//! `sample`, `predict` and `unmask` are integer arithmetic on words of states, the same on every device, and stay
//! whole.
//!
//! `attention_split` and `attention_join` stay whole as well: a pass makes them of `attention`, which has
//! parts, and only for a target that runs both.

pub(crate) mod def;

mod ada_norm;
mod argmax;
mod argmin;
mod attention;
mod attention_join;
mod attention_split;
mod batch_matmul;
mod canvas_ids;
mod cast;
mod causal_conv1d;
mod clamp;
mod compare;
mod concat;
mod constant;
mod cumsum;
mod delta_net;
mod dot_general;
mod elementwise_region;
mod expand;
mod gated_delta_net;
mod gated_residual;
mod gated_rms_norm;
mod gather;
mod gather_elements;
mod grouped_matmul;
mod if_else;
mod iota;
mod kv_write;
mod layer_norm;
mod lora_matmul;
mod map;
mod matmul;
mod pad;
mod predict;
mod quantize_rows;
mod random_normal;
mod random_uniform;
mod reduce;
mod reshape;
mod residual_layer_norm;
mod residual_rms_norm;
mod reverse;
mod rms_norm;
mod rms_norm_add;
mod roll;
mod rope;
mod rope_attention_split;
mod rope_kv_write;
mod rope_scaling;
mod rope_table;
mod route;
mod sample;
mod scalar;
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
pub(crate) mod table;
mod take_rows;
mod token;
mod top_k;
mod transpose;
mod unmask;
mod unpack;
mod weighted_sum;
mod while_loop;
mod zip;

// Groups: a folder and a gate each.
#[cfg(feature = "audio")]
mod audio;
#[cfg(feature = "linalg")]
mod linalg;
#[cfg(feature = "parallel")]
mod parallel;
#[cfg(feature = "quant")]
mod quant;
#[cfg(feature = "vision")]
mod vision;

pub use def::attr::{Attr, Attrs};
pub use def::control_block::{CANVAS_WORDS, CONTROL_WORDS, PARAMS_WORDS};
pub use def::custom::{Custom, CustomOperator, CustomSet};
pub use def::field::Field;
pub use def::op::Op;
pub use def::operator::{Alias, Body, Class, Emit, Operator, RowUse, Signature};

pub use ada_norm::{AdaNorm, NormKind};
pub use argmax::ArgMax;
pub use argmin::ArgMin;
pub use attention::Attention;
pub use attention_join::AttentionJoin;
pub use attention_split::AttentionSplit;
pub use batch_matmul::BatchMatMul;
pub use canvas_ids::CanvasIds;
pub use cast::Cast;
pub use causal_conv1d::CausalConv1d;
pub use clamp::Clamp;
pub use compare::Compare;
pub use concat::Concat;
pub use constant::Constant;
pub use cumsum::CumSum;
pub use delta_net::DeltaNet;
pub use dot_general::DotGeneral;
pub use elementwise_region::{Region, RegionStep, StepFn, StepOperand};
pub use expand::Expand;
pub use gated_delta_net::GatedDeltaNet;
pub use gated_residual::GatedResidual;
pub use gated_rms_norm::GatedRmsNorm;
pub use gather::Gather;
pub use gather_elements::GatherElements;
pub use grouped_matmul::{GroupedEpilogue, GroupedMatMul, GroupedMatMulParts};
pub use if_else::If;
pub use iota::Iota;
pub use kv_write::KvWrite;
pub(crate) use kv_write::is_cache_type;
pub use layer_norm::LayerNorm;
pub use lora_matmul::LoraMatMul;
pub use map::Map;
pub use matmul::{Epilogue, MatMul, MatMulParts};
pub use pad::{Pad, PadMode};
pub use predict::Predict;
pub use quantize_rows::QuantizeRows;
pub use random_normal::RandomNormal;
pub use random_uniform::RandomUniform;
pub use reduce::Reduce;
pub use reshape::Reshape;
pub use residual_layer_norm::ResidualLayerNorm;
pub use residual_rms_norm::ResidualRmsNorm;
pub use reverse::Reverse;
pub use rms_norm::RmsNorm;
pub use rms_norm_add::RmsNormAdd;
pub use roll::Roll;
pub use rope::{Rope, RopeStyle};
pub use rope_attention_split::RopeAttentionSplit;
pub use rope_kv_write::RopeKvWrite;
pub use rope_scaling::RopeScaling;
pub use rope_table::RopeTable;
pub use route::{LEAST_SUM, Route};
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
pub use unmask::Unmask;
pub use unpack::Unpack;
pub use weighted_sum::WeightedSum;
pub use while_loop::While;
pub use zip::Zip;

#[cfg(feature = "audio")]
pub use audio::*;
#[cfg(feature = "linalg")]
pub use linalg::*;
#[cfg(feature = "parallel")]
pub use parallel::*;
#[cfg(feature = "quant")]
pub use quant::*;
#[cfg(feature = "vision")]
pub use vision::*;

// What operators' files are written with.
use def::control_block::{canvas, control};
use def::field::{attributes, named};
use def::rules::{arity, expect, float_tensor, matrix};
use def::{bodies, broadcast, control_block, recurrence, rules, writing};
