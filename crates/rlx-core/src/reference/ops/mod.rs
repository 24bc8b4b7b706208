//! Operators: one file each with its `Run`, as in `crate::ops`; a group is a folder with one gate.

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
mod control_flow;
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
mod rope_table;
mod route;
mod sample;
mod scatter_add;
mod sdpa;
mod select;
mod selective_scan;
mod slice;
mod softmax;
mod sort;
mod state_read;
mod state_write;
mod take_rows;
mod token;
mod top_k;
mod transpose;
mod unmask;
mod unpack;
mod weighted_sum;
mod zip;

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
