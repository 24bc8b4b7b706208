//! `roll`: axes turned round.

use super::axes;
use crate::kernels::elements::copy::moved;
use crate::kernels::elements::indices::{Words, dims};
use crate::kernels::emit::Emit;
use crate::kernels::takes::{self, Taken};
use crate::kernels::{Context, Launch, mismatch};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::Type;

/// A tensor of any scalar type.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["shifts", "axes"])?;
    let [x] = operands else { return Err("it takes one operand".into()) };
    if moved(x.dtype).is_none() {
        return Err(takes::not(0, x));
    }
    if x.shape.rank() > axes::MOST_AXES {
        return Err(format!("its kernel has no room for {} axes", x.shape.rank()));
    }
    Ok(())
}

pub(super) fn roll(step: &Step, _: &Context<'_>, emit: &mut Emit<'_>) -> Result<Option<Launch>> {
    let Op::Roll(op) = &step.op else { return Err(mismatch(step)) };
    let (x, y) = (&step.operands[0], &step.results[0]);
    let sizes = dims(&x.ty)?;
    let index = |axis: usize, c: &str, words: &mut Words| {
        let shift = op.axes.iter().zip(&op.shifts).find(|(a, _)| **a == axis).map(|(_, s)| *s);
        let n = sizes[axis].max(1);
        // The remainder is not negative and below n.
        let shift = i128::from(shift.unwrap_or(0)).rem_euclid(i128::from(n)) as u64;
        if shift == 0 {
            return Ok(None);
        }
        let (back, n) = (words.size(n - shift)?, words.size(n)?);
        Ok(Some((String::new(), format!("({c} + {back}) % {n}"))))
    };
    let formula = "y[(i + shift) mod n] = x[i]";
    axes::launch("roll", formula, (x, y), Default::default(), Words::default(), index, emit)
}
