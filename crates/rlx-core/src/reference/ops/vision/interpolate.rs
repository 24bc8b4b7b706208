//! Resizing, axis by axis.

use super::room::filled;
use crate::error::Result;
use crate::ops::Interpolate;
use crate::reference::view::scalar_bytes;
use crate::reference::{Run, View, arity};
use alloc::vec;
use alloc::vec::Vec;

impl Run for Interpolate {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [x] = operands else { return Err(arity("interpolate")) };
        let (mut y, mut dims) = (x.f64s()?, x.sizes()?);
        // No step between has more elements than the larger of both images, axis by axis.
        let most = dims[2..].iter().zip(&self.size).map(|(&a, &b)| b.max(a as u64));
        let most: Vec<u64> = dims[..2].iter().map(|&n| n as u64).chain(most).collect();
        drop(filled(&most, 0.0)?);
        for (i, &size) in self.size.iter().enumerate() {
            let axis = i + 2;
            let inner: usize = dims[axis + 1..].iter().product();
            let outer: usize = dims[..axis].iter().product();
            let taps = self.taps(dims[axis] as u64, size);
            let mut next = Vec::with_capacity(outer * taps.len() * inner);
            for block in 0..outer {
                for (first, weights) in &taps {
                    for j in 0..inner {
                        let at = |k: usize| (block * dims[axis] + first + k) * inner + j;
                        next.push(weights.iter().enumerate().map(|(k, w)| w * y[at(k)]).sum());
                    }
                }
            }
            dims[axis] = size as usize;
            y = next;
        }
        Ok(vec![scalar_bytes(x.ty.dtype, &y)?])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::{Interpolate, Interpolation};
    use crate::reference::testing::*;

    fn to(size: &[u64], mode: Interpolation) -> Interpolate {
        Interpolate { size: size.to_vec(), mode, align_corners: false, antialias: false }
    }

    // ResizeNearest2x of older RLX programs is `interpolate` to twice the size.
    #[test]
    fn nearest_at_twice_the_size_repeats_every_element_twice() {
        let x = f32s(&[1, 1, 2, 2], &[1.0, 2.0, 3.0, 4.0]);
        let y = run1(to(&[4, 4], Interpolation::Nearest), &[&x]);
        let expected =
            [1.0, 1.0, 2.0, 2.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0, 3.0, 3.0, 4.0, 4.0];
        assert_eq!(y, expected);
        assert_eq!(run1(to(&[1, 3], Interpolation::Nearest), &[&x]), [1.0, 1.0, 2.0]);
    }

    #[test]
    fn linear_places_are_centres_or_corners() {
        let x = f32s(&[1, 1, 2], &[0.0, 4.0]);
        close(&run1(to(&[4], Interpolation::Linear), &[&x]), &[0.0, 1.0, 3.0, 4.0]);
        let corners = |n| Interpolate { align_corners: true, ..to(&[n], Interpolation::Linear) };
        close(&run1(corners(5), &[&x]), &[0.0, 1.0, 2.0, 3.0, 4.0]);
        assert_eq!(run1(corners(1), &[&x]), [0.0]);
    }

    #[test]
    fn a_cubic_goes_through_its_points_and_keeps_constants() {
        let x = f32s(&[1, 1, 5], &[1.0, -2.0, 4.0, 0.5, 3.0]);
        let same = run1(to(&[5], Interpolation::Cubic), &[&x]);
        close(&same, &[1.0, -2.0, 4.0, 0.5, 3.0]);
        let flat = f32s(&[1, 1, 3, 2], &[2.5; 6]);
        for antialias in [false, true] {
            let op = Interpolate { antialias, ..to(&[2, 7], Interpolation::Cubic) };
            close(&run1(op, &[&flat]), &[2.5; 14]);
        }
    }

    #[test]
    fn sizes_and_modes_without_meaning_are_refused() {
        let x = f32s(&[1, 1, 2], &[0.0; 2]);
        let say = |op| fails(op, &[&x]).what;
        assert_eq!(
            say(to(&[0], Interpolation::Linear)),
            "interpolate: x is tensor<1x1x2xf32>, it cannot become [0] in its spatial axes"
        );
        assert_eq!(
            say(to(&[2, 2], Interpolation::Linear)),
            "interpolate: x is tensor<1x1x2xf32>, it cannot become [2, 2] in its spatial axes"
        );
        assert_eq!(
            say(Interpolate { align_corners: true, ..to(&[2], Interpolation::Nearest) }),
            "interpolate: mode nearest with align_corners true and antialias false has no meaning"
        );
    }
}
