//! The selective state space of Mamba (arXiv:2312.00752).

use super::fit::{self, recurrent_arity, recurrent_results};
use super::{Attr, Attrs, Class, Operator};
use crate::error::{Error, Result};
use crate::types::{Dim, Shape, Type};
use alloc::format;
use alloc::vec::Vec;

/// `selective_scan x [.., S, D], delta [.., S, D], a [D, N], b [.., S, N], c [.., S, N],
/// (state [.., D, N] f32, (ctl)?)? -> y [.., S, D], (state')?`
///
/// Each channel has a vector `h [N]`, which starts as the state, or as zeros. For each position in
/// turn:
///
/// ```text
/// h_n = exp(delta a_n) h_n + delta b_n x        y = sum_n c_n h_n
/// ```
///
/// With a control block rows from `len` on are zeros and leave the state alone, and a block that
/// is done leaves the state alone. The five tensors are of one float type, the result's; the state
/// keeps f32.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct SelectiveScan {
    /// N.
    pub state_size: usize,
    /// The vectors start as a state and are written back to it.
    pub carry: bool,
}

impl Operator for SelectiveScan {
    const NAME: &'static str = "selective_scan";
    const CLASS: Class = Class::Compute;

    fn attrs(&self) -> Attrs {
        let attrs = Attrs::none().int("state_size", self.state_size as u64);
        if self.carry { attrs.with("carry", Attr::Bool(true)) } else { attrs }
    }

    fn from_attrs(attrs: &Attrs) -> Result<Self> {
        attrs.only(&["state_size", "carry"])?;
        Ok(SelectiveScan {
            state_size: attrs.get_int("state_size")? as usize,
            carry: attrs.flag("carry")?,
        })
    }

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        const NAME: &str = SelectiveScan::NAME;
        recurrent_arity(NAME, operands, 5, self.carry)?;
        let [x, delta, a, b, c, rest @ ..] = operands else {
            return Err(Error::internal("selective_scan: arity"));
        };
        let named = [("x", *x), ("delta", *delta), ("a", *a), ("b", *b), ("c", *c)];
        let dtype = fit::same_floats(NAME, &named)?;
        let need = format!(
            "x and delta [.., S, D], a [D, {n}], b and c [.., S, {n}]",
            n = self.state_size
        );
        let misfit = || fit::misfit(NAME, &named, &need);
        let [lead @ .., d] = x.shape.0.as_slice() else { return Err(misfit()) };
        let Some((_, batch)) = lead.split_last() else { return Err(misfit()) };
        let n = Dim::from(self.state_size);
        let mut projected = lead.to_vec();
        projected.push(n.clone());
        let fits = self.state_size > 0
            && delta == x
            && a.shape.0 == [d.clone(), n.clone()]
            && b.shape.0 == projected
            && c == b;
        if !fits {
            return Err(misfit());
        }
        let y = Type::tensor(dtype, Shape(x.shape.0.clone()));
        recurrent_results(NAME, y, rest, batch, &[d.clone(), n])
    }

    fn writes(&self) -> &'static [(usize, usize)] {
        if self.carry { &[(5, 1)] } else { &[] }
    }
}
