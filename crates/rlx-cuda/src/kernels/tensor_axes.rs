//! Axes of a tensor as text: where an element stands whose index along some of the axes is one number.

use super::numbers::{Divisor, Numbers};
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

    /// The expression of where an element stands, counted from the first one, whose index is `i`.
    ///
    /// # Errors
    /// `Unsupported` for 2^31 indices or more: kernels add to them in 32 bits.
    pub fn place(&self, sizes: &mut Sizes) -> Result<String> {
        word(self.size()?.saturating_mul(2))?;
        let own = self.joined();
        let (mut terms, mut inner) = (Vec::new(), 1u64);
        for (axis, (&dim, &stride)) in own.dims.iter().zip(&own.strides).enumerate().rev() {
            let outer = match inner {
                1 => "(i)".to_owned(),
                _ => sizes.divisor(inner)?.quotient("(i)"),
            };
            let index = match axis {
                0 => outer,
                _ => sizes.divisor(dim)?.remainder(&outer),
            };
            match stride {
                0 => {}
                1 => terms.push(format!("size_t({index})")),
                _ => terms.push(format!("size_t({index}) * {}", sizes.size(stride)?)),
            }
            inner *= dim;
        }
        Ok(if terms.is_empty() { "size_t(0)".into() } else { format!("({})", terms.join(" + ")) })
    }
}

/// How a kernel is told its sizes: in its text, which a card computes with faster, or as numbers, so that steps of
/// other sizes share its text.
#[derive(Debug)]
pub(super) enum Sizes {
    InText,
    Given(Numbers),
}

/// A size that indices are divided by.
pub(super) enum Divided {
    InText(u32),
    Given(Divisor),
}

impl Sizes {
    /// As numbers.
    pub fn given() -> Sizes {
        Sizes::Given(Numbers::default())
    }

    /// The expression of a size.
    ///
    /// # Errors
    /// `Unsupported` for one above 32 bits.
    pub fn size(&mut self, n: u64) -> Result<String> {
        match self {
            Sizes::InText => Ok(format!("{}u", word(n)?)),
            Sizes::Given(numbers) => numbers.size(n),
        }
    }

    /// A size that indices are divided by; 0 is taken for 1.
    ///
    /// # Errors
    /// As [`size`](Self::size).
    pub fn divisor(&mut self, n: u64) -> Result<Divided> {
        Ok(match self {
            Sizes::InText => Divided::InText(word(n)?.max(1)),
            Sizes::Given(numbers) => Divided::Given(numbers.divisor(n)?),
        })
    }
}

impl Divided {
    /// The expression of `i / n`.
    pub fn quotient(&self, i: &str) -> String {
        match self {
            Divided::InText(n) => format!("({i} / {n}u)"),
            Divided::Given(by) => by.quotient(i),
        }
    }

    /// The expression of `i % n`.
    pub fn remainder(&self, i: &str) -> String {
        match self {
            Divided::InText(n) => format!("({i} % {n}u)"),
            Divided::Given(by) => format!("({i} - {} * {})", by.quotient(i), by.name()),
        }
    }
}

impl Emit<'_> {
    /// A function: where an element stands, counted from the first one, whose index along these axes is `i`.
    ///
    /// # Errors
    /// As [`Axes::place`].
    pub fn place_of(&mut self, name: &str, axes: &Axes) -> Result<()> {
        let body = axes.place(&mut Sizes::InText)?;
        self.line(&format!("__device__ __forceinline__ size_t {name}(u32 i) {{ return {body}; }}"));
        Ok(())
    }

    /// Defines a size as these sizes have it.
    ///
    /// # Errors
    /// As [`Sizes::size`].
    pub fn define_size(&mut self, name: &str, n: u64, sizes: &mut Sizes) -> Result<()> {
        let text = sizes.size(n)?;
        self.define(name, text);
        Ok(())
    }

    /// Adds the numbers among sizes behind all other arguments: `NUMBERS` is their parameters, and `PASSED_NUMBERS`
    /// what a kernel passes on to a function that has these.
    pub fn sizes(&mut self, sizes: &Sizes) {
        let before = self.arguments.len();
        match sizes {
            Sizes::InText => self.define("NUMBERS", ""),
            Sizes::Given(numbers) => self.numbers(numbers),
        }
        let names = (0..self.arguments.len() - before).map(|i| format!(", n{i}"));
        self.define("PASSED_NUMBERS", names.collect::<String>());
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
        let place = |axes: &Axes| axes.place(&mut Sizes::InText).unwrap();
        assert_eq!(place(&all), "(size_t((i)))");
        let turned = Axes::of(&[2, 0, 1], &dims, &strides);
        assert_eq!(place(&turned), "(size_t(((i) % 6u)) * 4u + size_t(((i) / 6u)))");
        let repeated = Axes { dims: vec![5, 3], strides: vec![0, 4] };
        assert_eq!(place(&repeated), "(size_t(((i) % 3u)) * 4u)");
        assert_eq!(place(&Axes::default()), "size_t(0)");
        assert!(all.in_eights() && !turned.in_eights() && all.are_side_by_side());
    }
}
