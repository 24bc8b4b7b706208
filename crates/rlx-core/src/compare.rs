//! How far apart two lists of numbers are, in a way that no NaN slips through.
//!
//! `a.iter().zip(b).fold(0.0, |m, (a, b)| m.max((a - b).abs()))` is 0 for a list of NaN, since `max`
//! passes over them, and is silent about numbers that only one list has. Everything that compares
//! results with expected ones, in the product and in the tests of every crate, asks here instead.

/// The largest difference between two lists, and what it is relative to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// The largest absolute difference; infinite for lists that cannot be compared.
    pub absolute: f64,
    /// The largest absolute expected number that is finite.
    pub largest: f64,
    /// The first element with that difference.
    pub at: usize,
}

impl Difference {
    /// The difference as a part of the largest expected number. 0 for lists that are equal, infinite
    /// for lists that differ where every expected number is 0.
    pub fn relative(&self) -> f64 {
        if self.absolute == 0.0 { 0.0 } else { self.absolute / self.largest }
    }
}

/// Compares what must be finite on both sides, such as logits. The difference is infinite if
/// the lists differ in length or are empty, or if one number of either list is NaN or infinite.
///
/// ```
/// use rlx_core::compare::difference;
///
/// assert_eq!(difference(&[1.0f32, -4.5], &[1.0f32, -4.0]).relative(), 0.125);
/// assert_eq!(difference(&[f32::NAN], &[f32::NAN]).relative(), f64::INFINITY);
/// ```
pub fn difference<A, B>(got: &[A], expected: &[B]) -> Difference
where
    A: Copy + Into<f64>,
    B: Copy + Into<f64>,
{
    compare(got, expected, |_, _| false)
}

/// Compares lists that may hold NaN and infinities, such as decoded block formats: NaN equals NaN, and
/// an infinity equals itself. Where only one side has such a number the difference is infinite, and
/// so it is for lists without one finite expected number: then nothing has been compared.
pub fn difference_of_any<A, B>(got: &[A], expected: &[B]) -> Difference
where
    A: Copy + Into<f64>,
    B: Copy + Into<f64>,
{
    compare(got, expected, |a, b| a == b || (a.is_nan() && b.is_nan()))
}

fn compare<A, B>(got: &[A], expected: &[B], same: impl Fn(f64, f64) -> bool) -> Difference
where
    A: Copy + Into<f64>,
    B: Copy + Into<f64>,
{
    let mut found = Difference { absolute: 0.0, largest: 0.0, at: 0 };
    let mut finite = 0;
    for (i, (&a, &b)) in got.iter().zip(expected).enumerate() {
        let (a, b): (f64, f64) = (a.into(), b.into());
        if b.is_finite() {
            finite += 1;
            found.largest = found.largest.max(b.abs());
        }
        if same(a, b) {
            continue;
        }
        let apart = (a - b).abs();
        let apart = if apart.is_finite() { apart } else { f64::INFINITY };
        if apart > found.absolute {
            (found.absolute, found.at) = (apart, i);
        }
    }
    if got.len() != expected.len() || finite == 0 {
        found.absolute = f64::INFINITY;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAN: f32 = f32::NAN;
    const INFINITE: f32 = f32::INFINITY;

    fn both(got: &[f32], expected: &[f32]) -> [f64; 2] {
        [difference(got, expected).relative(), difference_of_any(got, expected).relative()]
    }

    #[test]
    fn the_largest_difference_is_relative_to_the_largest_expected_number() {
        let found = difference(&[1.0f32, -4.5, 2.25], &[1.0f64, -4.0, 2.0]);
        assert_eq!(found, Difference { absolute: 0.5, largest: 4.0, at: 1 });
        assert_eq!(found.relative(), 0.125);
        assert_eq!(both(&[1.0, 2.0], &[1.0, 2.0]), [0.0; 2]);
    }

    #[test]
    fn a_number_that_only_one_side_lacks_is_an_infinite_difference() {
        let wrong = [NAN, INFINITE, -INFINITE];
        for x in wrong {
            assert_eq!(both(&[x, 2.0], &[1.0, 2.0]), [f64::INFINITY; 2], "got {x}");
            assert_eq!(both(&[1.0, 2.0], &[x, 2.0]), [f64::INFINITY; 2], "expected {x}");
            assert_eq!(both(&[x, x], &[1.0, 2.0]), [f64::INFINITY; 2], "got only {x}");
        }
        assert_eq!(both(&[INFINITE, 2.0], &[-INFINITE, 2.0]), [f64::INFINITY; 2]);
        // The largest finite difference does not hide it, before it or after.
        assert_eq!(both(&[9.0, NAN, 9.0], &[1.0, 1.0, 1.0]), [f64::INFINITY; 2]);
    }

    #[test]
    fn what_is_no_number_on_both_sides_is_equal_only_where_it_may_be_there() {
        for x in [NAN, INFINITE, -INFINITE] {
            assert_eq!(both(&[x, 2.0], &[x, 2.0]), [f64::INFINITY, 0.0], "{x}");
        }
    }

    #[test]
    fn lists_in_which_nothing_can_be_compared_are_infinitely_apart() {
        for x in [NAN, INFINITE] {
            assert_eq!(both(&[x, x], &[x, x]), [f64::INFINITY; 2], "only {x}");
        }
        assert_eq!(both(&[], &[]), [f64::INFINITY; 2]);
        assert_eq!(both(&[1.0], &[1.0, 2.0]), [f64::INFINITY; 2]);
        assert_eq!(both(&[1.0, 2.0], &[1.0]), [f64::INFINITY; 2]);
    }

    #[test]
    fn zeros_are_equal_to_zeros_and_to_nothing_else() {
        assert_eq!(both(&[0.0, -0.0], &[0.0, 0.0]), [0.0; 2]);
        assert_eq!(both(&[1e-30], &[0.0]), [f64::INFINITY; 2]);
    }
}
