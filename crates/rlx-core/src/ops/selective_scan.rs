//! The selective state space of Mamba (arXiv:2312.00752).

use super::def::recurrence::Recurrence;
use super::{
    Binary, Class, Emit, Operator, Reduction, RowUse, Unary, attributes, recurrence, rules, writing,
};
use crate::error::{Error, Result};
use crate::types::{Dim, Shape, Type, ValueId};
use alloc::format;
use alloc::vec;
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

attributes! { SelectiveScan { state_size, carry } }

impl Operator for SelectiveScan {
    const NAME: &'static str = "selective_scan";
    const CLASS: Class = Class::Reduction;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        const NAME: &str = SelectiveScan::NAME;
        recurrence::arity(NAME, operands, 5, self.carry)?;
        let [x, delta, a, b, c, rest @ ..] = operands else {
            return Err(Error::internal("selective_scan: arity"));
        };
        let named = [("x", *x), ("delta", *delta), ("a", *a), ("b", *b), ("c", *c)];
        let dtype = rules::same_floats(NAME, &named)?;
        let need = format!(
            "x and delta [.., S, D], a [D, {n}], b and c [.., S, {n}]",
            n = self.state_size
        );
        let misfit = || rules::misfit(NAME, &named, &need);
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
        recurrence::results(NAME, y, rest, batch, &[d.clone(), n])
    }

    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let [x, delta, a, b, c, ref rest @ ..] = *operands else {
            return Err(Error::internal("selective_scan: arity"));
        };
        let (ty, a_dims) = (e.ty(x).clone(), e.dims(a));
        let (batch, to) = (ty.shape.rank().saturating_sub(2), writing::wide(ty.dtype));
        let mut carried = ty.shape.0[..batch].to_vec();
        carried.extend(a_dims);
        let captures = vec![e.cast(a, to)?];
        let (xs, rest) = (vec![x, delta, b, c], rest.to_vec());
        let recurrence = Recurrence { to, carried, xs, batch, captures, rest };
        let (channels, numbers) = (batch, batch + 1);
        let mut results = recurrence.write(e, &mut |e, values| {
            let [h, x, delta, b, c, a] = *values else {
                return Err(Error::internal("selective_scan: a body of six"));
            };
            let input = e.zip(Binary::Mul, delta, x)?;
            let (delta, input) = (e.with_ones(delta, &[numbers])?, e.with_ones(input, &[numbers])?);
            let (b, c) = (e.with_ones(b, &[channels])?, e.with_ones(c, &[channels])?);
            let decay = e.zip(Binary::Mul, delta, a)?;
            let decay = e.map(Unary::Exp, decay)?;
            let kept = e.zip(Binary::Mul, decay, h)?;
            let new = e.zip(Binary::Mul, input, b)?;
            let h = e.zip(Binary::Add, kept, new)?;
            let read = e.zip(Binary::Mul, h, c)?;
            let read = e.reduce_last(Reduction::Sum, read)?;
            let mut dims = e.dims(read);
            dims.pop();
            Ok([h, e.reshape(read, &dims)?])
        })?;
        results[0] = e.cast(results[0], ty.dtype)?;
        Ok(Some(results))
    }

    fn writes(&self) -> &'static [(usize, usize)] {
        if self.carry { &[(5, 1)] } else { &[] }
    }

    fn control(&self, operands: usize) -> Option<usize> {
        (operands == 7).then_some(6)
    }

    fn row_use(&self, operand: usize, operands: &[&Type]) -> RowUse {
        match operand {
            0 | 1 | 3 | 4 => {
                recurrence::earlier_rows(operands[operand], 2, self.control(operands.len()))
            }
            _ => RowUse::All,
        }
    }
}
