//! Tensors of a GGUF file as views of a transformers folder's: the same numbers in another order.

use alloc::string::String;
use alloc::vec::Vec;

/// Elements of a tensor in an order of their own: the last axis runs fastest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// The folder's tensor.
    pub tensor: String,
    /// Its first element that is read.
    pub start: u64,
    /// Size of each axis, and elements from one index of it to the next.
    pub axes: Vec<(u64, u64)>,
}

impl View {
    /// All of a tensor.
    pub fn whole(tensor: impl Into<String>, dims: &[u64]) -> View {
        let mut axes: Vec<(u64, u64)> = Vec::with_capacity(dims.len());
        let mut stride = 1;
        for &size in dims.iter().rev() {
            axes.push((size, stride));
            stride *= size;
        }
        axes.reverse();
        View { tensor: tensor.into(), start: 0, axes }
    }

    /// An axis as several, the last of which runs fastest; their sizes multiply to the axis'.
    pub(super) fn split(mut self, axis: usize, sizes: &[u64]) -> View {
        let (_, mut stride) = self.axes[axis];
        let mut parts: Vec<(u64, u64)> = Vec::with_capacity(sizes.len());
        for &size in sizes.iter().rev() {
            parts.push((size, stride));
            stride *= size;
        }
        parts.reverse();
        self.axes.splice(axis..=axis, parts);
        self
    }

    /// A range of an axis.
    pub(super) fn slice(mut self, axis: usize, start: u64, len: u64) -> View {
        let (_, stride) = self.axes[axis];
        self.start += start * stride;
        self.axes[axis] = (len, stride);
        self
    }

    /// Two axes in each other's place.
    pub(super) fn swap(mut self, a: usize, b: usize) -> View {
        self.axes.swap(a, b);
        self
    }

    /// How many elements it has.
    pub fn elements(&self) -> u64 {
        self.axes.iter().map(|axis| axis.0).product()
    }

    /// Calls `run` with the place of each run of elements that stand behind each other in the tensor, in
    /// order, and with its length.
    ///
    /// # Errors
    /// What `run` fails with.
    pub fn runs<E>(&self, mut run: impl FnMut(u64, u64) -> Result<(), E>) -> Result<(), E> {
        // Axes that stand behind each other as they do in the tensor are one.
        let mut axes: Vec<(u64, u64)> = Vec::with_capacity(self.axes.len());
        for &(size, stride) in self.axes.iter().filter(|axis| axis.0 != 1) {
            match axes.last_mut() {
                Some(outer) if outer.1 == size * stride => *outer = (outer.0 * size, stride),
                _ => axes.push((size, stride)),
            }
        }
        let length = match axes.last() {
            Some(&(size, 1)) => {
                axes.pop();
                size
            }
            _ => 1,
        };
        if self.elements() == 0 {
            return Ok(());
        }
        let mut index: Vec<u64> = alloc::vec![0; axes.len()];
        let mut at = self.start;
        loop {
            run(at, length)?;
            // The next index, as an odometer counts.
            let mut axis = axes.len();
            loop {
                if axis == 0 {
                    return Ok(());
                }
                axis -= 1;
                let (size, stride) = axes[axis];
                index[axis] += 1;
                at += stride;
                if index[axis] < size {
                    break;
                }
                at -= size * stride;
                index[axis] = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(view: &View) -> Vec<(u64, u64)> {
        let mut all = Vec::new();
        view.runs(|at, len| {
            all.push((at, len));
            Ok::<(), ()>(())
        })
        .unwrap();
        all
    }

    #[test]
    fn what_stands_together_is_one_run() {
        assert_eq!(runs(&View::whole("w", &[4, 3, 2])), [(0, 24)]);
        assert_eq!(runs(&View::whole("w", &[4, 6]).slice(0, 1, 2)), [(6, 12)]);
        assert_eq!(runs(&View::whole("w", &[2, 6]).slice(1, 4, 2)), [(4, 2), (10, 2)]);
        assert_eq!(runs(&View::whole("w", &[1])), [(0, 1)]);
        assert_eq!(runs(&View::whole("w", &[])), [(0, 1)]);
    }

    #[test]
    fn rows_of_two_halves_are_taken_in_turn() {
        // A head of four rows of three: rows 0, 2, 1, 3.
        let rows = View::whole("w", &[4, 3]).split(0, &[1, 2, 2]).swap(1, 2);
        assert_eq!(runs(&rows), [(0, 3), (6, 3), (3, 3), (9, 3)]);
        assert_eq!(rows.elements(), 12);
    }

    #[test]
    fn a_turned_matrix_has_runs_of_one() {
        let turned = View::whole("w", &[2, 3]).swap(0, 1);
        assert_eq!(runs(&turned), [0, 3, 1, 4, 2, 5].map(|at| (at, 1)));
        // Every second element of a row.
        let pairs = View::whole("w", &[2, 4]).split(1, &[2, 2]).slice(2, 1, 1);
        assert_eq!(runs(&pairs), [1, 3, 5, 7].map(|at| (at, 1)));
    }
}
