//! Weights by name, one at a time: typed, packed as the file has them, and not copied.
//!
//! A [`WeightLoader`] hands out a file's tensors and forgets them; a [`WeightSource`] is what a
//! model's builder asks. [`WeightLoaderSource`] makes the second of the first. [`random`] makes weights
//! where none may be had.

mod file;
mod header;
pub mod random;

pub use file::FileWeights;
pub use header::{Header, HeaderReader, WeightFiles};

use crate::error::{Error, Result};
use crate::nearest::nearest;
use crate::types::{DType, Shape, Type};
use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// A tensor with its bytes, packed or not.
#[derive(Clone, Debug, PartialEq)]
pub struct Weight<'a> {
    /// Element type.
    pub dtype: DType,
    /// Sizes, outermost first.
    pub dims: Vec<u64>,
    /// Row-major, little-endian, in whole blocks a row.
    pub bytes: Cow<'a, [u8]>,
}

impl Weight<'_> {
    /// The type in a graph.
    pub fn ty(&self) -> Type {
        Type::tensor(self.dtype, Shape::of(&self.dims))
    }

    /// The tensor with its last two axes exchanged.
    ///
    /// # Errors
    /// `BadFile` for fewer than two axes, or packed rows: their blocks cannot be cut.
    pub fn transposed(&self) -> Result<Weight<'static>> {
        let (&[ref outer @ .., rows, columns], DType::Scalar(scalar)) =
            (self.dims.as_slice(), self.dtype)
        else {
            return Err(Error::bad_file(format!("{} cannot be transposed", self.ty()))
                .hint("a matmul reads packed weights as [out, in], which is how files have them"));
        };
        let size = scalar.bytes();
        let (m, n) = (rows as usize, columns as usize);
        let mut out = Vec::with_capacity(self.bytes.len());
        // A matrix without elements has no chunks; `max` only keeps `chunks` from refusing 0.
        for matrix in self.bytes.chunks(m.saturating_mul(n).saturating_mul(size).max(1)) {
            for column in 0..n {
                for row in 0..m {
                    let at = (row * n + column) * size;
                    out.extend_from_slice(matrix.get(at..at + size).ok_or_else(|| {
                        Error::bad_file(format!("{} has {} bytes", self.ty(), self.bytes.len()))
                    })?);
                }
            }
        }
        let dims = outer.iter().copied().chain([columns, rows]).collect();
        Ok(Weight { dtype: self.dtype, dims, bytes: Cow::Owned(out) })
    }
}

/// A file's tensors, each handed out once.
pub trait WeightLoader<'a> {
    /// `gguf`, `safetensors`.
    fn format_id(&self) -> &'static str;

    /// Tensors that are left.
    fn len(&self) -> usize;

    /// Whether none is left.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the file says its model is.
    fn arch_hint(&self) -> Option<&str> {
        None
    }

    /// Names of the tensors that are left, sorted.
    fn remaining_keys(&self) -> Vec<String>;

    /// The tensor of that name, as the file has it.
    ///
    /// # Errors
    /// `BadFile` if it is not there, with the nearest names that are; `Io` if its bytes have not
    /// arrived.
    fn take(&mut self, key: &str) -> Result<Weight<'a>>;

    /// [`take`](Self::take) with the last two axes exchanged.
    ///
    /// # Errors
    /// As `take`, and [`Weight::transposed`]; then the tensor is left.
    fn take_transposed(&mut self, key: &str) -> Result<Weight<'a>>;

    /// The tensor if it is packed; `None` leaves it.
    ///
    /// # Errors
    /// As `take`.
    fn take_packed(&mut self, key: &str) -> Result<Option<Weight<'a>>>;
}

/// What a model's builder asks for weights.
pub trait WeightSource<'a> {
    /// Whether a tensor of that name can be taken.
    fn has(&self, key: &str) -> bool;

    /// The tensor of that name with its type, its last two axes exchanged if asked.
    ///
    /// # Errors
    /// As [`WeightLoader::take`] and [`WeightLoader::take_transposed`].
    fn take(&mut self, key: &str, transpose: bool) -> Result<Weight<'a>>;
}

/// A loader as a source.
#[derive(Clone, Debug)]
pub struct WeightLoaderSource<L>(pub L);

impl<'a, L: WeightLoader<'a>> WeightSource<'a> for WeightLoaderSource<L> {
    fn has(&self, key: &str) -> bool {
        self.0.remaining_keys().iter().any(|k| k == key)
    }

    fn take(&mut self, key: &str, transpose: bool) -> Result<Weight<'a>> {
        if transpose { self.0.take_transposed(key) } else { self.0.take(key) }
    }
}

/// The error for a name that no tensor has.
fn missing<'a>(key: &str, known: impl Iterator<Item = &'a str>) -> Error {
    let near = nearest(key, known, 3);
    let error = Error::bad_file(format!("tensor {key} is missing"));
    match near.is_empty() {
        true => error.hint("the file is incomplete, or of another architecture"),
        false => error.hint(format!("the nearest names: {}", near.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use crate::types::BlockFormat;

    fn weight(dtype: DType, dims: &[u64], bytes: Vec<u8>) -> Weight<'static> {
        Weight { dtype, dims: dims.into(), bytes: Cow::Owned(bytes) }
    }

    #[test]
    fn the_last_two_axes_are_exchanged_in_every_matrix() {
        let w = weight(DType::F16, &[2, 2, 3], (0..24).collect());
        let t = w.transposed().unwrap();
        assert_eq!(t.dims, [2, 3, 2]);
        assert_eq!(t.bytes[..12], [0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11]);
        assert_eq!(t.transposed().unwrap(), w);
        assert_eq!(weight(DType::F32, &[0, 3], Vec::new()).transposed().unwrap().dims, [3, 0]);
    }

    #[test]
    fn what_has_no_two_axes_or_is_packed_is_not_transposed() {
        let e = weight(DType::F32, &[4], Vec::from([0; 16])).transposed().unwrap_err();
        assert_eq!(e.code, Code::BadFile);
        let q8_0 = DType::Block(BlockFormat::Q8_0);
        let e = weight(q8_0, &[2, 32], Vec::from([0; 68])).transposed().unwrap_err();
        assert_eq!(e.what, "tensor<2x32xq8_0> cannot be transposed");
        let short = weight(DType::F32, &[2, 2], Vec::from([0; 12]));
        assert_eq!(short.transposed().unwrap_err().what, "tensor<2x2xf32> has 12 bytes");
    }
}
