//! Vision: convolution, pooling, resizing, norms over channels.

mod axial_rope_2d;
mod batch_norm_inference;
pub(super) mod conv;
mod conv_transpose;
mod group_norm;
mod im2col;
mod interpolate;
mod layer_norm_2d;
mod pool;
mod room;
