//! New slices of a state [StableHLO dynamic_update_slice].

use super::{Class, Operator, arity, attributes, rules};
use crate::error::{Error, Result};
use crate::types::{DType, Kind, Type};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// `state_write state, x, at u32 -> state'`: `x` overwrites the state's slices `at ..` of `axis`.
/// All other axes are the state's. `at` has one element; a start that would put slices past the
/// end is moved back until they fit, as the standard says. `x` has the state's type, or both are
/// floats and `x` is rounded.
#[derive(Clone, Debug, PartialEq)]
pub struct StateWrite {
    /// The axis that `at` counts along.
    pub axis: usize,
}

attributes! { StateWrite { axis } }

impl Operator for StateWrite {
    const NAME: &'static str = "state_write";
    const CLASS: Class = Class::Movement;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        const NAME: &str = StateWrite::NAME;
        arity(NAME, operands, 3)?;
        let [state, x, at] = operands else { return Err(Error::internal("state_write: arity")) };
        let (have, put) = (&state.shape.0, &x.shape.0);
        let types = state.dtype == x.dtype || (state.dtype.is_float() && x.dtype.is_float());
        let sizes = have.len() == put.len()
            && self.axis < have.len()
            && have.iter().zip(put).enumerate().all(|(i, (s, x))| i == self.axis || s == x);
        let whole_blocks = !x.dtype.is_block() || self.axis + 1 < have.len();
        let longer = |(s, x): (u64, u64)| x > s;
        let pair = have.get(self.axis).zip(put.get(self.axis));
        let too_long = pair.and_then(|(s, x)| s.as_static().zip(x.as_static())).is_some_and(longer);
        let kinds = state.kind == Kind::State && x.kind == Kind::Tensor;
        if !(kinds && types && sizes && whole_blocks && rules::is_scalar(at, DType::U32))
            || too_long
        {
            let named = [("state", *state), ("x", *x), ("at", *at)];
            let need = format!("x to fit the state but for axis {}, and one u32", self.axis);
            return Err(rules::misfit(NAME, &named, &need));
        }
        Ok(vec![(*state).clone()])
    }

    fn writes(&self) -> &'static [(usize, usize)] {
        &[(0, 0)]
    }
}
