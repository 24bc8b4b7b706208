//! A body that runs as long as a condition holds [StableHLO while].

use super::{Class, Operator, Signature, attributes, bodies};
use crate::error::{Error, Result};
use crate::types::Type;
use alloc::format;
use alloc::vec::Vec;

/// `while carried.., captures.. -> carried.. [cond, body]`: as long as `cond` of the carried values
/// and the captures is true, the carried values become what `body` makes of both. Results are the
/// carried values when `cond` is false.
///
/// A loop whose condition still holds after `max` runs of the body is an error that names the
/// node; without a `max` executors stop after [`While::CAP`] runs with the same error.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct While {
    /// Operands that are carried; the others are captures.
    pub carried: usize,
    /// Runs of the body at most.
    pub max: Option<u64>,
}

attributes! { While { carried, max } }

impl While {
    /// Runs of the body at most, of a loop that says no `max`.
    pub const CAP: u64 = 1 << 24;
}

impl Operator for While {
    const NAME: &'static str = "while";
    const CLASS: Class = Class::Movement;

    fn infer(&self, _: &[&Type]) -> Result<Vec<Type>> {
        Err(bodies::missing(Self::NAME))
    }

    fn regions(&self) -> &'static [&'static str] {
        &["cond", "body"]
    }

    fn infer_regions(&self, operands: &[&Type], regions: &[Signature]) -> Result<Vec<Type>> {
        let (Some((carried, _)), [cond, body]) = (operands.split_at_checked(self.carried), regions)
        else {
            return Err(Error::bad_graph(format!(
                "while carries {} values and has two regions, got {} operands and {} regions",
                self.carried,
                operands.len(),
                regions.len()
            )));
        };
        let carried: Vec<Type> = carried.iter().map(|&t| t.clone()).collect();
        bodies::some(Self::NAME, &carried)?;
        bodies::tensors(Self::NAME, operands)?;
        bodies::takes(Self::NAME, "cond", cond, operands.iter().copied())?;
        bodies::takes(Self::NAME, "body", body, operands.iter().copied())?;
        match cond.results.as_slice() {
            [holds] => bodies::condition(Self::NAME, "the result of cond", holds)?,
            other => {
                return Err(Error::bad_graph(format!(
                    "while: cond gives {} results, expected one bool",
                    other.len()
                )));
            }
        }
        bodies::gives(Self::NAME, "body", &body.results, &carried, "carried are")?;
        Ok(carried)
    }
}
