//! Shapes and the types of values.

use super::{Binding, DType, Dim};
use crate::error::{Error, Result};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// Sizes of axes, outermost first; row-major, the last axis contiguous.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Shape(pub Vec<Dim>);

impl Shape {
    /// A static shape.
    pub fn of(dims: &[u64]) -> Shape {
        Shape(dims.iter().map(|&n| Dim::from(n)).collect())
    }

    /// Number of axes.
    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// Every size, if no symbol is left. Errors name the first symbolic axis.
    pub fn static_dims(&self) -> Result<Vec<u64>> {
        self.0
            .iter()
            .map(|d| {
                d.as_static().ok_or_else(|| {
                    Error::bad_graph(format!("shape {self} has the unbound size {d}"))
                        .hint("bind every symbol with `specialize` first")
                })
            })
            .collect()
    }

    /// The product of all sizes. Errors on symbols and overflow.
    pub fn elements(&self) -> Result<u64> {
        let dims = self.static_dims()?;
        if dims.contains(&0) {
            return Ok(0);
        }
        dims.iter().try_fold(1u64, |n, &d| {
            n.checked_mul(d)
                .ok_or_else(|| Error::bad_graph(format!("shape {self} overflows 64 bits")))
        })
    }

    /// The shape with symbols bound. Errors on overflow or a division by zero.
    pub fn bind(&self, binding: &Binding) -> Result<Shape> {
        self.0.iter().map(|d| d.bind(binding)).collect::<Result<_>>().map(Shape)
    }

    /// The last axis, or 1 for a scalar.
    pub fn last(&self) -> Dim {
        self.0.last().cloned().unwrap_or(Dim::from(1u64))
    }

    /// The product of all axes but the last.
    pub fn rows(&self) -> Result<Dim> {
        let mut n = Dim::from(1u64);
        for d in self.0.iter().take(self.0.len().saturating_sub(1)) {
            n = n.mul(d)?;
        }
        Ok(n)
    }
}

impl fmt::Display for Shape {
    /// `8x4096x64`; nothing for a scalar.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, d) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("x")?;
            }
            write!(f, "{d}")?;
        }
        Ok(())
    }
}

/// Whether a value is a tensor or the one live version of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Immutable, used any number of times.
    Tensor,
    /// Linear: one writer consumes it and returns the next version, at the same address.
    State,
}

/// The type of a value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Type {
    /// Tensor or state.
    pub kind: Kind,
    /// Element type.
    pub dtype: DType,
    /// Sizes.
    pub shape: Shape,
}

impl Type {
    /// A tensor type.
    pub fn tensor(dtype: DType, shape: Shape) -> Type {
        Type { kind: Kind::Tensor, dtype, shape }
    }

    /// A state type.
    pub fn state(dtype: DType, shape: Shape) -> Type {
        Type { kind: Kind::State, dtype, shape }
    }

    /// Bytes of the whole value: rows of whole blocks. Errors on symbols, overflow, or a row that
    /// is no whole number of blocks.
    pub fn bytes(&self) -> Result<u64> {
        let axis = |d: &Dim| {
            d.as_static().ok_or_else(|| {
                Error::bad_graph(format!("{self} has the unbound size {d}"))
                    .hint("bind every symbol with `specialize` first")
            })
        };
        let (last, rows) = match self.shape.0.split_last() {
            Some((last, rows)) => (axis(last)?, rows),
            None => (1, &[][..]),
        };
        let mut bytes = self.dtype.row_bytes(last).ok_or_else(|| {
            Error::bad_graph(match self.dtype.block_elements() {
                1 => format!("the bytes of {self} overflow 64 bits"),
                per => format!(
                    "a row of {last} elements is no multiple of the {per} of a {} block",
                    self.dtype
                ),
            })
        })?;
        // An axis of no elements makes any other axis harmless.
        let empty = rows.iter().any(|d| d.as_static() == Some(0));
        for d in rows {
            let n = axis(d)?;
            bytes = if empty { 0 } else { bytes.saturating_mul(n) };
        }
        if bytes == u64::MAX {
            return Err(Error::bad_graph(format!("the bytes of {self} overflow 64 bits")));
        }
        Ok(bytes)
    }

    /// The type with symbols bound.
    pub fn bind(&self, binding: &Binding) -> Result<Type> {
        Ok(Type { kind: self.kind, dtype: self.dtype, shape: self.shape.bind(binding)? })
    }

    /// Names of the symbols that occur, added to `out`.
    pub fn symbols(&self, out: &mut Vec<String>) {
        for d in &self.shape.0 {
            d.symbols(out);
        }
    }
}

impl fmt::Display for Type {
    /// `tensor<1x2048xf32>`, `state<8x4096x64xf16>`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Tensor => "tensor",
            Kind::State => "state",
        };
        if self.shape.rank() == 0 {
            write!(f, "{kind}<{}>", self.dtype)
        } else {
            write!(f, "{kind}<{}x{}>", self.shape, self.dtype)
        }
    }
}
