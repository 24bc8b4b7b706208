//! Quantisation with scales as operands.

pub(in crate::reference) mod dequantize_linear;
pub(in crate::reference) mod fake_quantize;
pub(in crate::reference) mod fake_quantize_lsq;
#[cfg(feature = "vision")]
pub(in crate::reference) mod q_conv2d;
pub(in crate::reference) mod q_matmul;
pub(in crate::reference) mod quantize;
pub(in crate::reference) mod scaled_dequantize;
pub(in crate::reference) mod scaled_matmul;
pub(in crate::reference) mod scaled_quantize;
