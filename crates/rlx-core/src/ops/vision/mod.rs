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
mod window;

pub use axial_rope_2d::AxialRope2d;
pub use batch_norm_inference::BatchNormInference;
pub use conv::Conv;
pub use conv_transpose::ConvTranspose;
pub use group_norm::GroupNorm;
pub use im2col::Im2Col;
pub use interpolate::{Interpolate, Interpolation};
pub use layer_norm_2d::LayerNorm2d;
pub use pool::{Pool, PoolKind};
pub(crate) use window::Grid;
pub use window::Window;
