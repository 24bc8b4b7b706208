//! Where the largest element stands; `argmin` uses it too.

use crate::error::{Error, Result};
use crate::ops::ArgMax;
use crate::reference::index::{around, sizes};
use crate::reference::view::word_bytes;
use crate::reference::{Run, View, arity};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

impl Run for ArgMax {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [x] = operands else { return Err(arity("argmax")) };
        Ok(vec![best(x, self.axis, |new, old| new > old, |new, old| new > old)?])
    }
}

/// The lowest index that beats all before it, for every place around the axis.
pub(crate) fn best(
    x: &View<'_>,
    axis: usize,
    float: impl Fn(f64, f64) -> bool,
    int: impl Fn(i64, i64) -> bool,
) -> Result<Vec<u8>> {
    let around = around(&sizes(&x.ty.shape)?, axis)?;
    if around.1 == 0 {
        return Err(Error::bad_graph(format!("{}: axis {axis} has no elements", x.ty)));
    }
    let y = if x.ty.dtype.is_float() {
        // A NaN beats nothing, and any number beats it.
        walk(&x.f64s()?, around, |new, old| float(new, old) || (old.is_nan() && !new.is_nan()))
    } else {
        walk(&x.i64s()?, around, int)
    };
    Ok(word_bytes(&y))
}

fn walk<T: Copy>(
    x: &[T],
    (outer, n, inner): (usize, usize, usize),
    beats: impl Fn(T, T) -> bool,
) -> Vec<u32> {
    let mut y = Vec::new();
    if x.is_empty() {
        return y;
    }
    for o in 0..outer {
        for i in 0..inner {
            let at = |k: usize| x[(o * n + k) * inner + i];
            let first = (1..n).fold(0, |best, k| if beats(at(k), at(best)) { k } else { best });
            y.push(first as u32);
        }
    }
    y
}

#[cfg(test)]
mod tests {
    use crate::ops::ArgMax;
    use crate::reference::testing::*;
    use crate::reference::type_rules::*;
    use crate::types::DType;

    fn at(axis: usize) -> ArgMax {
        ArgMax { axis, keep: false }
    }

    #[test]
    fn ties_go_to_the_lower_index() {
        let x = [1.0, 3.0, 3.0, 2.0, 2.0, 1.0].map(|x: f32| x);
        let x = f32s(&[2, 3], &x);
        assert_eq!(run_ints(at(1), &[&x]), [1, 0]);
        assert_eq!(run_ints(at(0), &[&x]), [1, 0, 0]);
        assert_eq!(run_ints(at(0), &[&f32s(&[2], &[-0.0, 0.0])]), [0], "zeros are equal");
    }

    #[test]
    fn a_nan_is_never_the_largest() {
        let inf = f32::NEG_INFINITY;
        assert_eq!(run_ints(at(0), &[&f32s(&[4], &[f32::NAN, 1.0, f32::NAN, 2.0])]), [3]);
        assert_eq!(run_ints(at(0), &[&f32s(&[2], &[f32::NAN, inf])]), [1]);
        assert_eq!(run_ints(at(0), &[&f32s(&[3], &[f32::NAN; 3])]), [0]);
        assert_eq!(run_ints(at(0), &[&f32s(&[2], &[inf; 2])]), [0]);
    }

    #[test]
    fn integers_are_exact() {
        let x = integers(DType::I64, &[2], &[(1 << 53), ((1 << 53) + 1)]);
        assert_eq!(run_ints(at(0), &[&x]), [1]);
    }

    #[test]
    fn its_parts_give_its_results() {
        let x: alloc::vec::Vec<f32> = noise(60, 8).iter().map(|x| (x * 3.0).round()).collect();
        for axis in 0..3 {
            for keep in [false, true] {
                decomposes(ArgMax { axis, keep }, &[&f32s(&[3, 4, 5], &x)], 0.0);
            }
        }
        for x in [[f32::NAN; 3], [f32::NEG_INFINITY; 3], [f32::NAN, 1.0, 1.0]] {
            decomposes(at(0), &[&f32s(&[3], &x)], 0.0);
        }
        decomposes(at(0), &[&integers(DType::I32, &[3], &[-5, 7, -9])], 0.0);
        decomposes(at(1), &[&f32s(&[0, 3], &[])], 0.0);
    }

    #[test]
    fn the_axis_goes_or_stays_and_has_elements() {
        assert_eq!(gives(at(0), &["4xSEQxf16"]), ["tensor<SEQxu32>"]);
        assert_eq!(gives(ArgMax { axis: 1, keep: true }, &["4xSEQxf16"]), ["tensor<4x1xu32>"]);
        assert!(run_ints(at(1), &[&f32s(&[0, 2], &[])]).is_empty());
        assert_eq!(
            refuses(at(1), &["2x0xf32"]),
            "argmax: x is tensor<2x0xf32>, axis 1 has no elements"
        );
        assert_eq!(refuses(at(2), &["2x3xf32"]), "argmax: x is tensor<2x3xf32>, it has no axis 2");
        assert!(refuses(at(0), &["2xbool"]).contains("tensor<2xbool>"));
        assert_eq!(text(at(1), &["2x3xf32"]), "argmax {axis = 1}");
        let keep = ArgMax { axis: 0, keep: true };
        assert_eq!(text(keep, &["2xf32"]), "argmax {axis = 0, keep = true}");
    }
}
