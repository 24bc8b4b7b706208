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
mod scaling;

pub use dequantize::Dequantize;
#[cfg(feature = "reference")]
pub(crate) use fake_quantize::levels;
pub use fake_quantize::{FakeQuantize, FakeScale, StraightThrough};
pub use fake_quantize_lsq::FakeQuantizeLsq;
#[cfg(feature = "vision")]
pub use q_conv2d::QConv2d;
pub use q_matmul::{QMatMul, Requantize};
pub use quantize::Quantize;
#[cfg(feature = "reference")]
pub(crate) use quantize::byte_range;
pub use scaled_dequantize::ScaledDequantize;
pub use scaled_matmul::ScaledMatMul;
pub use scaled_quantize::ScaledQuantize;
pub use scaling::{ScaleLayout, Scaling};
