//! Quantisation with scales as operands.

mod dequantize;
mod fake_quantize;
mod fake_quantize_lsq;
#[cfg(feature = "vision")]
mod q_conv2d;
mod q_matmul;
mod quantize;
mod scaled_dequantize;
mod scaled_matmul;
mod scaled_quantize;
