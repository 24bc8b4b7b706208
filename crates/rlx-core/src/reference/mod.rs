//! The oracle: plain loops that say what an operator or a format means.
//!
//! Values are f32 where the program stores them and f64 in between, so a fused operator gives the
//! same bits as the ones it stands for. [`run`] is one step, [`interpret`] a whole graph without
//! any plan, [`device::ReferenceDevice`] replays planned programs. Those need the feature
//! `reference`; what makes weights ([`make`]) is always there.

#[cfg(feature = "reference")]
pub mod device;
pub mod make;

#[cfg(feature = "reference")]
mod argmax;
#[cfg(feature = "reference")]
mod argmin;
#[cfg(feature = "reference")]
mod attention;
#[cfg(feature = "reference")]
mod batch_matmul;
#[cfg(feature = "reference")]
mod cast;
#[cfg(feature = "reference")]
mod clamp;
#[cfg(feature = "reference")]
mod compare;
#[cfg(feature = "reference")]
mod concat;
#[cfg(feature = "reference")]
mod constant;
#[cfg(feature = "reference")]
mod control_flow;
#[cfg(feature = "reference")]
mod cumsum;
#[cfg(all(test, feature = "reference"))]
mod decompositions;
#[cfg(feature = "reference")]
mod dot_general;
#[cfg(feature = "reference")]
mod elementwise_region;
#[cfg(feature = "reference")]
mod execute;
#[cfg(feature = "reference")]
mod expand;
#[cfg(feature = "reference")]
mod gated_delta_net;
#[cfg(feature = "reference")]
mod gather;
#[cfg(feature = "reference")]
mod gather_elements;
#[cfg(feature = "reference")]
mod grouped_matmul;
#[cfg(feature = "reference")]
mod index;
#[cfg(feature = "reference")]
mod interpret;
#[cfg(feature = "reference")]
mod iota;
#[cfg(feature = "reference")]
mod kv_write;
#[cfg(feature = "reference")]
mod lora_matmul;
#[cfg(feature = "reference")]
mod map;
#[cfg(feature = "reference")]
mod matmul;
#[cfg(feature = "reference")]
mod pad;
#[cfg(feature = "reference")]
mod random_normal;
#[cfg(feature = "reference")]
mod random_uniform;
#[cfg(feature = "reference")]
mod reduce;
#[cfg(all(test, feature = "reference"))]
mod reshape;
#[cfg(feature = "reference")]
mod reverse;
#[cfg(feature = "reference")]
mod rms_norm;
#[cfg(feature = "reference")]
mod roll;
#[cfg(feature = "reference")]
mod rope;
#[cfg(feature = "reference")]
mod rope_kv_write;
#[cfg(feature = "reference")]
mod rope_table;
#[cfg(feature = "reference")]
mod sample;
#[cfg(feature = "reference")]
mod scatter_add;
#[cfg(feature = "reference")]
mod sdpa;
#[cfg(feature = "reference")]
mod select;
#[cfg(feature = "reference")]
mod selective_scan;
#[cfg(feature = "reference")]
mod slice;
#[cfg(feature = "reference")]
mod softmax;
#[cfg(feature = "reference")]
mod sort;
#[cfg(feature = "reference")]
mod state_write;
#[cfg(feature = "reference")]
mod take_rows;
#[cfg(all(test, feature = "reference"))]
mod testing;
#[cfg(feature = "reference")]
mod top_k;
#[cfg(feature = "reference")]
mod transpose;
#[cfg(all(test, feature = "reference"))]
mod type_rules;
#[cfg(feature = "reference")]
mod unpack;
#[cfg(feature = "reference")]
mod view;
#[cfg(feature = "reference")]
mod zip;

// Norms, vision, spectra, solvers and quantisation.
#[cfg(feature = "reference")]
mod ada_norm;
#[cfg(all(feature = "reference", feature = "vision"))]
mod axial_rope_2d;
#[cfg(all(feature = "reference", feature = "vision"))]
mod batch_norm_inference;
#[cfg(all(feature = "reference", feature = "linalg"))]
mod cholesky;
#[cfg(all(feature = "reference", feature = "audio"))]
mod complex_norm_sq;
#[cfg(all(feature = "reference", feature = "audio"))]
mod conjugate;
#[cfg(all(feature = "reference", feature = "vision"))]
mod conv;
#[cfg(all(feature = "reference", feature = "vision"))]
mod conv_transpose;
#[cfg(all(feature = "reference", feature = "linalg"))]
mod dense_solve;
#[cfg(all(feature = "reference", feature = "quant"))]
mod dequantize_linear;
#[cfg(all(feature = "reference", feature = "quant"))]
mod fake_quantize;
#[cfg(all(feature = "reference", feature = "quant"))]
mod fake_quantize_lsq;
#[cfg(all(feature = "reference", feature = "audio"))]
mod fft;
#[cfg(feature = "reference")]
mod gated_residual;
#[cfg(all(feature = "reference", feature = "vision"))]
mod group_norm;
#[cfg(all(feature = "reference", feature = "vision"))]
mod im2col;
#[cfg(all(feature = "reference", feature = "vision"))]
mod interpolate;
#[cfg(feature = "reference")]
mod layer_norm;
#[cfg(all(feature = "reference", feature = "vision"))]
mod layer_norm_2d;
#[cfg(all(feature = "reference", feature = "audio"))]
mod log_mel;
#[cfg(all(feature = "reference", feature = "vision"))]
mod pool;
#[cfg(all(feature = "reference", feature = "quant", feature = "vision"))]
mod q_conv2d;
#[cfg(all(feature = "reference", feature = "quant"))]
mod q_matmul;
#[cfg(all(feature = "reference", feature = "quant"))]
mod quantize;
#[cfg(feature = "reference")]
mod residual_layer_norm;
#[cfg(feature = "reference")]
mod residual_rms_norm;
#[cfg(all(feature = "reference", feature = "vision"))]
mod room;
#[cfg(all(feature = "reference", feature = "quant"))]
mod scaled_dequantize;
#[cfg(all(feature = "reference", feature = "quant"))]
mod scaled_matmul;
#[cfg(all(feature = "reference", feature = "quant"))]
mod scaled_quantize;

#[cfg(feature = "reference")]
use execute::arity;
#[cfg(feature = "reference")]
pub use execute::{run, run_regions};
#[cfg(feature = "reference")]
pub use interpret::{Interpreted, interpret};
#[cfg(feature = "reference")]
pub use view::View;
