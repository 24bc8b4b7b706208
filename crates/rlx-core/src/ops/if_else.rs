//! One of two bodies [StableHLO if].

use super::{Class, Operator, Signature, attributes, bodies};
use crate::error::{Error, Result};
use crate::types::Type;
use alloc::vec::Vec;

/// `if pred bool, captures.. -> results.. [then, else]`: the results of `then` if `pred`, which
/// has one element, is true, and of `else` if not. Both take the captures and give results of the
/// same types.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct If;

attributes! { If {} }

impl Operator for If {
    const NAME: &'static str = "if";
    const CLASS: Class = Class::Movement;

    fn infer(&self, _: &[&Type]) -> Result<Vec<Type>> {
        Err(bodies::missing(Self::NAME))
    }

    fn regions(&self) -> &'static [&'static str] {
        &["then", "else"]
    }

    fn infer_regions(&self, operands: &[&Type], regions: &[Signature]) -> Result<Vec<Type>> {
        let ([pred, captures @ ..], [then, other]) = (operands, regions) else {
            return Err(Error::bad_graph("if takes a condition and captures, and has two regions"));
        };
        bodies::condition(Self::NAME, "pred", pred)?;
        bodies::tensors(Self::NAME, captures)?;
        bodies::takes(Self::NAME, "then", then, captures.iter().copied())?;
        bodies::takes(Self::NAME, "else", other, captures.iter().copied())?;
        bodies::gives(Self::NAME, "else", &other.results, &then.results, "then gives")?;
        bodies::some(Self::NAME, &then.results)?;
        Ok(then.results.clone())
    }
}
