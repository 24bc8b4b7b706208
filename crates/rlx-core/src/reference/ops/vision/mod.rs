//! Vision: convolution, pooling, resizing, norms over channels.

pub(in crate::reference) mod axial_rope_2d;
pub(in crate::reference) mod batch_norm_inference;
pub(in crate::reference) mod conv;
pub(in crate::reference) mod conv_transpose;
pub(in crate::reference) mod group_norm;
pub(in crate::reference) mod im2col;
pub(in crate::reference) mod interpolate;
pub(in crate::reference) mod layer_norm_2d;
pub(in crate::reference) mod pool;
pub(in crate::reference) mod room;
