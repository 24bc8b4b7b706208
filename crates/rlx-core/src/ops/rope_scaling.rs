//! How rotary frequencies are changed so that a model reads more positions than it was trained on.

use super::{Attr, Attrs, Field};
use crate::error::{Error, Result};
use crate::math;
use alloc::format;
use alloc::vec::Vec;
use core::f64::consts::PI;

/// How frequencies are changed to reach longer contexts.
#[derive(Clone, Debug, PartialEq, Default)]
pub enum RopeScaling {
    /// As trained.
    #[default]
    None,
    /// Every position divided by the factor (arXiv:2306.15595).
    Linear(f32),
    /// Dynamic NTK: a larger base, as much larger as the planned context is longer than the trained
    /// one. Up to the trained context nothing changes.
    Dynamic {
        /// How many times longer a context is meant to be.
        factor: f32,
        /// Context the model was trained on.
        original: f32,
    },
    /// Llama 3: wavelengths between the bands are interpolated.
    Llama3 {
        /// Divides the low frequencies.
        factor: f32,
        /// Wavelengths above `original / low` are divided.
        low: f32,
        /// Wavelengths below `original / high` are left.
        high: f32,
        /// Context the model was trained on first.
        original: f32,
    },
    /// YaRN (arXiv:2309.00071): low frequencies are divided, high ones left, with a ramp between.
    Yarn {
        /// Divides the low frequencies.
        factor: f32,
        /// Frequencies that turn so often over the original context are left.
        beta_fast: f32,
        /// Frequencies that turn so seldom are divided.
        beta_slow: f32,
        /// Context the model was trained on first.
        original: f32,
        /// Multiplies cos and sin.
        attention: f32,
        /// Whether the ramp begins and ends at whole frequencies.
        truncate: bool,
    },
    /// LongRoPE (arXiv:2402.13753): each frequency has a divisor of its own.
    LongRope {
        /// The divisors; none where the table has them as an operand.
        factors: Vec<f32>,
        /// Multiplies cos and sin.
        attention: f32,
    },
}

impl RopeScaling {
    /// What multiplies cos and sin.
    pub fn attention(&self) -> f64 {
        match self {
            Self::Yarn { attention, .. } | Self::LongRope { attention, .. } => {
                f64::from(*attention)
            }
            _ => 1.0,
        }
    }

    /// Frequency `i` of `dims / 2`, divided by `factor`, over `context` positions.
    pub(super) fn frequency(&self, i: usize, factor: f64, [base, dims, context]: [f64; 3]) -> f64 {
        let of = |base: f64| math::pow(base, -2.0 * i as f64 / dims) / factor;
        match self {
            Self::None => of(base),
            Self::Linear(by) => of(base) / f64::from(*by),
            Self::Dynamic { factor, original } => {
                let (factor, original) = (f64::from(*factor), f64::from(*original));
                if context <= original {
                    return of(base);
                }
                let longer = factor * context / original - (factor - 1.0);
                of(base * math::pow(longer, dims / (dims - 2.0)))
            }
            &Self::Llama3 { factor, low, high, original } => {
                let f = of(base);
                let wavelength = 2.0 * PI / f;
                let turns = f64::from(original) / wavelength;
                let (low, high) = (f64::from(low), f64::from(high));
                if turns < low {
                    f / f64::from(factor)
                } else if turns > high {
                    f
                } else {
                    let smooth = (turns - low) / (high - low);
                    (1.0 - smooth) * f / f64::from(factor) + smooth * f
                }
            }
            &Self::Yarn { factor, beta_fast, beta_slow, original, truncate, .. } => {
                // The frequency, not whole, that turns so often over the original context.
                let turning = |beta: f32| {
                    let turns = f64::from(original) / (f64::from(beta) * 2.0 * PI);
                    dims * math::log(turns) / (2.0 * math::log(base))
                };
                let (mut low, mut high) = (turning(beta_fast), turning(beta_slow));
                if truncate {
                    (low, high) = (math::floor(low), math::ceil(high));
                }
                (low, high) = (low.max(0.0), high.min(dims - 1.0));
                if low == high {
                    high += 0.001;
                }
                let f = of(base);
                let divided = ((i as f64 - low) / (high - low)).clamp(0.0, 1.0);
                (1.0 - divided) * f + divided * f / f64::from(factor)
            }
            Self::LongRope { factors, .. } => {
                of(base) / f64::from(factors.get(i).copied().unwrap_or(1.0))
            }
        }
    }

    /// What the frequency of each pair of `dims` dimensions is divided by, over contexts up to the original one.
    #[cfg(feature = "encode")]
    pub fn divisors(&self, base: f32, dims: usize) -> Vec<f32> {
        let numbers = [f64::from(base), dims as f64, 1.0];
        let of = |s: &RopeScaling, i| s.frequency(i, 1.0, numbers);
        (0..dims / 2).map(|i| (of(&Self::None, i) / of(self, i)) as f32).collect()
    }

    /// Whether it can be computed for so many dimensions.
    ///
    /// # Errors
    /// `BadGraph` for factors that are not above 0, for another number of divisors than there are
    /// frequencies, and for a dynamic base of two dimensions, which has no exponent.
    pub fn check(&self, dims: usize) -> Result<()> {
        let numbers: Vec<f32> = match self {
            Self::None => return Ok(()),
            Self::Linear(by) => Vec::from([*by]),
            Self::Dynamic { .. } if dims <= 2 => {
                return Err(Error::bad_graph("rope_table: dynamic needs 4 dims or more"));
            }
            Self::Dynamic { factor, original } => Vec::from([*factor, *original]),
            Self::Llama3 { factor, low, high, original } => {
                Vec::from([*factor, *low, *high, *original])
            }
            Self::Yarn { factor, beta_fast, beta_slow, original, attention, .. } => {
                Vec::from([*factor, *beta_fast, *beta_slow, *original, *attention])
            }
            Self::LongRope { factors, attention } => {
                if !factors.is_empty() && factors.len() != dims / 2 {
                    return Err(Error::bad_graph(format!(
                        "rope_table: {} divisors of {} frequencies",
                        factors.len(),
                        dims / 2
                    )));
                }
                factors.iter().copied().chain([*attention]).collect()
            }
        };
        match numbers.iter().find(|x| !(x.is_finite() && **x > 0.0)) {
            Some(x) => Err(Error::bad_graph(format!(
                "rope_table: a scaling by {x}, expected finite numbers above 0"
            ))),
            None => Ok(()),
        }
    }
}

/// Attributes that are lists of floats; `linear` is a number.
const LISTS: [&str; 4] = ["dynamic", "llama3", "yarn", "longrope"];

/// An attribute of its own for each kind of scaling.
impl Field for RopeScaling {
    fn put(&self, _: &str, attrs: Attrs) -> Attrs {
        let list = |numbers: &[f32]| {
            Attr::List(numbers.iter().map(|&x| Attr::Float(f64::from(x))).collect())
        };
        match self {
            Self::None => attrs,
            Self::Linear(by) => attrs.float("linear", *by),
            Self::Dynamic { factor, original } => {
                attrs.with("dynamic", list(&[*factor, *original]))
            }
            &Self::Llama3 { factor, low, high, original } => {
                attrs.with("llama3", list(&[factor, low, high, original]))
            }
            &Self::Yarn { factor, beta_fast, beta_slow, original, attention, truncate } => {
                let truncate = if truncate { 1.0 } else { 0.0 };
                let numbers = [factor, beta_fast, beta_slow, original, attention, truncate];
                attrs.with("yarn", list(&numbers))
            }
            Self::LongRope { factors, attention } => {
                let mut numbers = Vec::from([*attention]);
                numbers.extend(factors);
                attrs.with("longrope", list(&numbers))
            }
        }
    }

    fn take(_: &str, _: &str, attrs: &Attrs) -> Result<Self> {
        let numbers = |name: &str| match attrs.get(name) {
            None => Ok(None),
            Some(Attr::List(list)) => {
                let number = |x: &Attr| match x {
                    Attr::Float(x) => Some(*x as f32),
                    _ => None,
                };
                list.iter().map(number).collect::<Option<Vec<f32>>>().map(Some).ok_or_else(|| {
                    Error::bad_graph(format!("rope_table: {name} takes a list of floats"))
                })
            }
            Some(_) => Err(Error::bad_graph(format!("rope_table: {name} takes a list of floats"))),
        };
        let mut found = Vec::new();
        found.extend(attrs.opt_float("linear")?.map(Self::Linear));
        for name in &LISTS {
            let Some(numbers) = numbers(name)? else { continue };
            found.push(match (*name, numbers.as_slice()) {
                ("dynamic", &[factor, original]) => Self::Dynamic { factor, original },
                ("llama3", &[factor, low, high, original]) => {
                    Self::Llama3 { factor, low, high, original }
                }
                ("yarn", &[factor, beta_fast, beta_slow, original, attention, truncate]) => {
                    let truncate = truncate != 0.0;
                    Self::Yarn { factor, beta_fast, beta_slow, original, attention, truncate }
                }
                ("longrope", [attention, factors @ ..]) => {
                    Self::LongRope { factors: factors.to_vec(), attention: *attention }
                }
                (name, numbers) => {
                    let need = match name {
                        "dynamic" => "2",
                        "llama3" => "4",
                        "yarn" => "6",
                        _ => "1 or more",
                    };
                    let n = numbers.len();
                    return Err(Error::bad_graph(format!(
                        "rope_table: {name} takes {need} floats, got {n}"
                    )));
                }
            });
        }
        match found.len() {
            0 | 1 => Ok(found.pop().unwrap_or_default()),
            _ => Err(Error::bad_graph("rope_table: one scaling at most")),
        }
    }

    fn names(_: &'static str, out: &mut Vec<&'static str>) {
        out.push("linear");
        out.extend(LISTS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frequencies over those without scaling, of 32 dimensions and base 10,000.
    fn relative(scaling: &RopeScaling, context: u64) -> Vec<f64> {
        let of = |s: &RopeScaling, i| s.frequency(i, 1.0, [10000.0, 32.0, context as f64]);
        (0..16).map(|i| of(scaling, i) / of(&RopeScaling::None, i)).collect()
    }

    #[test]
    fn yarn_leaves_fast_frequencies_and_divides_slow_ones() {
        let yarn = |truncate| RopeScaling::Yarn {
            factor: 4.0,
            beta_fast: 32.0,
            beta_slow: 1.0,
            original: 512.0,
            attention: 1.125,
            truncate,
        };
        // The ramp goes from 1.62 to 7.64, rounded away from each other: from 1 to 8.
        let ramp = |low: f64, high: f64| {
            move |i: usize| 1.0 - 0.75 * ((i as f64 - low) / (high - low)).clamp(0.0, 1.0)
        };
        for (scaling, low, high) in [(yarn(true), 1.0, 8.0), (yarn(false), 1.623760, 7.644360)] {
            let got = relative(&scaling, 2048);
            let expected: Vec<f64> = (0..16).map(ramp(low, high)).collect();
            for (i, (a, b)) in got.iter().zip(expected).enumerate() {
                assert!((a - b).abs() < 1e-6, "{i}: {a}, expected {b}");
            }
            assert_eq!(scaling.attention(), 1.125);
            // It holds at every length.
            assert_eq!(got, relative(&scaling, 16));
        }
    }

    #[test]
    fn dynamic_ntk_changes_nothing_up_to_the_trained_context() {
        let dynamic = RopeScaling::Dynamic { factor: 2.0, original: 1024.0 };
        assert_eq!(relative(&dynamic, 1024), [1.0; 16]);
        // Twice as long: the base grows by 3^(32 / 30), the last frequency shrinks to its 30/32nd power.
        let got = relative(&dynamic, 2048);
        assert_eq!(got[0], 1.0);
        let last = math::pow(3.0, -32.0 / 30.0 * 30.0 / 32.0);
        assert!((got[15] - last).abs() < 1e-12, "{}", got[15]);
    }

    #[test]
    fn every_scaling_reads_back_from_its_attributes() {
        let factors = Vec::from([1.0, 1.5, 3.25]);
        for scaling in [
            RopeScaling::None,
            RopeScaling::Linear(4.0),
            RopeScaling::Dynamic { factor: 2.0, original: 64.0 },
            RopeScaling::Llama3 { factor: 8.0, low: 1.0, high: 4.0, original: 8192.0 },
            RopeScaling::Yarn {
                factor: 4.0,
                beta_fast: 32.0,
                beta_slow: 1.0,
                original: 512.0,
                attention: 1.1386,
                truncate: false,
            },
            RopeScaling::LongRope { factors, attention: 1.19 },
            RopeScaling::LongRope { factors: Vec::new(), attention: 1.0 },
        ] {
            let attrs = scaling.put("", Attrs::none());
            assert_eq!(RopeScaling::take("", "", &attrs).unwrap(), scaling);
            assert!(scaling.check(6).is_ok());
        }
    }

    #[test]
    fn impossible_scalings_are_refused() {
        let list = |name: &str, xs: &[f64]| {
            Attrs::none().with(name, Attr::List(xs.iter().map(|&x| Attr::Float(x)).collect()))
        };
        let said = RopeScaling::take("", "", &list("yarn", &[1.0])).unwrap_err().what;
        assert_eq!(said, "rope_table: yarn takes 6 floats, got 1");
        let two = list("dynamic", &[2.0, 64.0]).float("linear", 2.0);
        assert_eq!(
            RopeScaling::take("", "", &two).unwrap_err().what,
            "rope_table: one scaling at most"
        );
        assert!(RopeScaling::take("", "", &list("longrope", &[])).is_err());
        for bad in [
            RopeScaling::Linear(0.0),
            RopeScaling::Linear(f32::NAN),
            RopeScaling::Dynamic { factor: -1.0, original: 64.0 },
            RopeScaling::LongRope { factors: Vec::from([1.0]), attention: 1.0 },
        ] {
            assert!(bad.check(6).is_err(), "{bad:?}");
        }
        assert!(RopeScaling::Dynamic { factor: 2.0, original: 64.0 }.check(2).is_err());
    }
}
