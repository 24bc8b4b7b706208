//! Results whose elements are made each on its own, over any shapes and element types of up to 32 bits: how they
//! are read, converted, written and counted in WGSL, and the movements that some language models need. Kernels of
//! other networks are made of the same parts: `graphs/`.

pub(super) mod cast;
pub(super) mod concat;
pub(super) mod copy;
pub(super) mod each;
pub(super) mod element;
pub(super) mod indices;
pub(super) mod iota;
pub(super) mod slice;
