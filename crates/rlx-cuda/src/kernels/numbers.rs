//! Numbers that a kernel is given as arguments: sizes, strides, and what divides by a number. Steps that differ in
//! nothing else share a function.

use super::emit::{Argument, Emit, Memory};
use super::word;
use rlx_core::Result;

/// Numbers of a kernel, in the order of its parameters.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Numbers(Vec<u32>);

/// The names of what divides by a number [Granlund and Montgomery 1994], and of the number.
pub(super) struct Divisor {
    name: String,
    by: String,
}

impl Divisor {
    /// The expression of `i / n`.
    pub fn quotient(&self, i: &str) -> String {
        format!("divided({i}, {})", self.by)
    }

    /// The number's name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Numbers {
    /// The next number: its name.
    pub fn bits(&mut self, n: u32) -> String {
        self.0.push(n);
        format!("n{}", self.0.len() - 1)
    }

    /// The next number, a size.
    ///
    /// # Errors
    /// `Unsupported` for one above 32 bits.
    pub fn size(&mut self, n: u64) -> Result<String> {
        Ok(self.bits(word(n)?))
    }

    /// The next number, of either sign: indices are computed modulo 2^32.
    ///
    /// # Errors
    /// `Unsupported` for one above 32 bits.
    pub fn signed(&mut self, n: i64) -> Result<String> {
        word(n.unsigned_abs())?;
        Ok(self.bits(n as u32))
    }

    /// A size that indices are divided by; 0 is taken for 1.
    ///
    /// # Errors
    /// `Unsupported` for one above 32 bits.
    pub fn divisor(&mut self, n: u64) -> Result<Divisor> {
        let n = word(n)?.max(1);
        let name = self.bits(n);
        let [multiplier, first, second] = reciprocal(n).map(|x| self.bits(x));
        Ok(Divisor { name, by: format!("{multiplier}, {first}, {second}") })
    }
}

/// For all `i` of 32 bits, with `high` the upper word of `i * multiplier`:
/// `i / n = (high + ((i - high) >> first)) >> second`.
fn reciprocal(n: u32) -> [u32; 3] {
    let log = u32::BITS - (n - 1).leading_zeros();
    let multiplier = (((1u64 << log) - u64::from(n)) << 32) / u64::from(n) + 1;
    [multiplier as u32, log.min(1), log.saturating_sub(1)]
}

impl Emit<'_> {
    /// Adds numbers behind all other arguments: `NUMBERS` is their parameters behind others.
    pub fn numbers(&mut self, numbers: &Numbers) {
        let parameters: Vec<String> =
            (0..numbers.0.len()).map(|i| format!(", const u32 n{i}")).collect();
        self.define("NUMBERS", parameters.concat());
        self.line(include_str!("divide.cuh"));
        let number = |n: &u32| Argument { memory: Memory::Number, offset: (*n).into() };
        self.arguments.extend(numbers.0.iter().map(number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_divides_as_its_reciprocal_says() {
        let sizes = (1..=300).chain([641, 65_535, 65_536, 65_537, 1 << 31, u32::MAX - 1, u32::MAX]);
        for n in sizes {
            let [multiplier, first, second] = reciprocal(n);
            let near = |x: u32| [x.wrapping_sub(1), x, x.wrapping_add(1)];
            let last = u32::MAX / n * n;
            for i in [0, n, n.wrapping_mul(2), last, last / 2, 1 << 31].into_iter().flat_map(near) {
                let high = ((u64::from(i) * u64::from(multiplier)) >> 32) as u32;
                let quotient = high.wrapping_add((i - high) >> first) >> second;
                assert_eq!(quotient, i / n, "{i} / {n}");
            }
        }
    }
}
