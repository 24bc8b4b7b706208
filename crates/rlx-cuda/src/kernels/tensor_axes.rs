//! Axes of a tensor as text: where an element stands whose index along some of the axes is one number.

use super::{Emit, word};
use rlx_core::types::Type;
use rlx_core::{Error, Result};

/// Some axes of a tensor: their sizes, and elements from one index of each to the next.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Axes {
    pub dims: Vec<u64>,
    pub strides: Vec<u64>,
}

impl Axes {
    /// These axes of a tensor of such sizes and strides.
    pub fn of(axes: &[usize], dims: &[u64], strides: &[u64]) -> Axes {
        Axes {
            dims: axes.iter().map(|&i| dims[i]).collect(),
            strides: axes.iter().map(|&i| strides[i]).collect(),
        }
    }

    /// How many indices they have together.
    ///
    /// # Errors
    /// `Unsupported` for more than 64 bits hold.
    pub fn size(&self) -> Result<u64> {
        product(&self.dims)
    }

    /// The same indices over as few axes as have them: an axis joins the one before it where elements go on from one
    /// to the other without a jump.
    fn joined(&self) -> Axes {
        let mut out = Axes::default();
        for (&n, &stride) in self.dims.iter().zip(&self.strides).filter(|(n, _)| **n != 1) {
            match (out.dims.last_mut(), out.strides.last_mut()) {
                (Some(last), Some(step)) if stride.checked_mul(n) == Some(*step) => {
                    *last *= n;
                    *step = stride;
                }
                _ => {
                    out.dims.push(n);
                    out.strides.push(stride);
                }
            }
        }
        out
    }

    /// Whether each eight elements, counted from index 0 on, lie side by side and begin at a multiple of eight of them.
    pub fn in_eights(&self) -> bool {
        let own = self.joined();
        match (own.dims.split_last(), own.strides.split_last()) {
            (Some((last, _)), Some((1, rest))) => last % 8 == 0 && rest.iter().all(|s| s % 8 == 0),
            _ => false,
        }
    }

    /// Whether elements of neighbouring indices are neighbours.
    pub fn are_side_by_side(&self) -> bool {
        self.joined().strides.last().is_none_or(|&stride| stride == 1)
    }

    /// The body of a function of `u32 i`: elements from the first one to that of index `i`.
    ///
    /// # Errors
    /// `Unsupported` for 2^31 indices or more: kernels add to them in 32 bits.
    pub fn place(&self) -> Result<String> {
        word(self.size()?.saturating_mul(2))?;
        let own = self.joined();
        let (mut terms, mut inner) = (Vec::new(), 1u64);
        for (axis, (dim, stride)) in own.dims.iter().zip(&own.strides).enumerate().rev() {
            let index = match (axis, inner) {
                (0, 1) => "i".to_owned(),
                (0, _) => format!("i / {inner}u"),
                (_, 1) => format!("i % {dim}u"),
                _ => format!("i / {inner}u % {dim}u"),
            };
            if *stride != 0 {
                terms.push(format!("size_t({index}) * {stride}u"));
            }
            inner *= dim;
        }
        Ok(if terms.is_empty() { "0".into() } else { terms.join(" + ") })
    }
}

impl Emit<'_> {
    /// A function: elements from the first one to that of index `i` of these axes.
    ///
    /// # Errors
    /// As [`Axes::place`].
    pub fn place_of(&mut self, name: &str, axes: &Axes) -> Result<()> {
        let body = axes.place()?;
        self.line(&format!("__device__ __forceinline__ size_t {name}(u32 i) {{ return {body}; }}"));
        Ok(())
    }
}

/// Sizes of a static type, and elements from one index of each axis to the next.
///
/// # Errors
/// `BadGraph` for sizes that are not known, `Unsupported` for more elements than 64 bits count.
pub(super) fn layout(ty: &Type) -> Result<(Vec<u64>, Vec<u64>)> {
    let dims = ty.shape.static_dims()?;
    let strides = row_major(&dims)?;
    Ok((dims, strides))
}

/// Elements from one index of each axis to the next.
pub(super) fn row_major(dims: &[u64]) -> Result<Vec<u64>> {
    let mut strides = vec![1; dims.len()];
    for i in (1..dims.len()).rev() {
        let stride: Option<u64> = u64::checked_mul(strides[i], dims[i]);
        strides[i - 1] = stride.ok_or_else(too_large)?;
    }
    Ok(strides)
}

/// A product of sizes.
pub(super) fn product(dims: &[u64]) -> Result<u64> {
    dims.iter().try_fold(1u64, |n, &d| n.checked_mul(d)).ok_or_else(too_large)
}

fn too_large() -> Error {
    super::unsupported("a tensor of more than 64 bits of elements".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_join_where_elements_go_on() {
        let (dims, strides) = (vec![2, 3, 4], row_major(&[2, 3, 4]).unwrap());
        let all = Axes::of(&[0, 1, 2], &dims, &strides);
        assert_eq!(all.place().unwrap(), "size_t(i) * 1u");
        let turned = Axes::of(&[2, 0, 1], &dims, &strides);
        assert_eq!(turned.place().unwrap(), "size_t(i % 6u) * 4u + size_t(i / 6u) * 1u");
        let repeated = Axes { dims: vec![5, 3], strides: vec![0, 4] };
        assert_eq!(repeated.place().unwrap(), "size_t(i % 3u) * 4u");
        assert_eq!(Axes::default().place().unwrap(), "0");
        assert!(all.in_eights() && !turned.in_eights() && all.are_side_by_side());
    }
}
