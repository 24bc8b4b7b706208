//! What operators share that go along a sequence: their type rule, and a decomposition as a scan, with
//! its state before and after, and rows past the control block's `len`.

use super::control_block::{self, control};
use super::rules::expect;
use crate::error::{Error, Result};
use crate::ops::{Body, Comparison, Emit, RowUse, Scan, Select, StateRead, StateWrite};
use crate::types::{DType, Dim, Kind, Shape, Type, ValueId};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// Checks the number of operands of such an operator: the state and the
/// control block stand behind the tensors.
pub(crate) fn arity(name: &str, operands: &[&Type], tensors: usize, carry: bool) -> Result<()> {
    let n = operands.len();
    match carry {
        false if n == tensors => Ok(()),
        true if n == tensors + 1 || n == tensors + 2 => Ok(()),
        false => Err(Error::bad_graph(format!("{name} takes {tensors} operands, got {n}"))),
        true => Err(Error::bad_graph(format!(
            "{name} takes {} operands, a state and a control block that may be left out among \
             them; got {n}",
            tensors + 2
        ))),
    }
}

/// Results of such an operator: `y`, and the state of `batch` and `tail` if there is one in `rest`.
pub(crate) fn results(
    name: &str,
    y: Type,
    rest: &[&Type],
    batch: &[Dim],
    tail: &[Dim],
) -> Result<Vec<Type>> {
    let [state, ctl @ ..] = rest else { return Ok(vec![y]) };
    let need = Type::state(DType::F32, Shape(batch.iter().chain(tail).cloned().collect()));
    expect(name, "state", state, &need)?;
    for ctl in ctl {
        control(name, ctl)?;
    }
    Ok(vec![y, need])
}

/// Which rows a recurrence over tokens needs: with a control block, and one sequence alone in each operand's
/// leading axes (before the last `own`), rows of earlier tokens.
pub(crate) fn earlier_rows(x: &Type, own: usize, control: Option<usize>) -> RowUse {
    let leading = x.shape.rank().saturating_sub(own);
    let alone = x.shape.0.iter().take(leading).all(|d| d.as_static() == Some(1));
    if control.is_some() && alone { RowUse::Same } else { RowUse::All }
}

/// A recurrence as a scan.
pub(crate) struct Recurrence {
    /// The element type of everything but the state outside.
    pub to: DType,
    /// Shape of what is carried: the batch's axes, then the operator's own.
    pub carried: Vec<Dim>,
    /// Sequences `[batch.., S, ..]`, of which the body takes a slice each.
    pub xs: Vec<ValueId>,
    /// Axes of the batch.
    pub batch: usize,
    /// What every run of the body takes.
    pub captures: Vec<ValueId>,
    /// The state and the control block, as far as there are any.
    pub rest: Vec<ValueId>,
}

/// Writes a step: of the carried value, a slice of every sequence, and the captures, it makes the
/// next carried value and the result's slice.
pub(super) type Step<'a> = dyn FnMut(&mut dyn Emit, &[ValueId]) -> Result<[ValueId; 2]> + 'a;

impl Recurrence {
    /// The results `[batch.., S, ..]`, and the state if there is one.
    pub fn write(&self, e: &mut dyn Emit, step: &mut Step<'_>) -> Result<Vec<ValueId>> {
        let first = self.rest.first().copied();
        let start = match first {
            Some(state) => {
                let tensor = e.one(StateRead, &[state])?;
                e.cast(tensor, self.to)?
            }
            None => {
                let zero = e.number(self.to, 0.0)?;
                e.expand(zero, &self.carried)?
            }
        };
        let mut xs = Vec::with_capacity(self.xs.len() + 1);
        for &x in &self.xs {
            let x = e.cast(x, self.to)?;
            xs.push(to_front(e, x, self.batch)?);
        }
        let some = xs.first().ok_or_else(|| Error::internal("a recurrence over nothing"))?;
        let length = e.dims(*some).first().cloned().unwrap_or(Dim::from(0u64));
        let ctl = self.rest.get(1).copied();
        if let Some(ctl) = ctl {
            let len = e.control_word(ctl, control_block::LEN)?;
            let i = e.iota(core::slice::from_ref(&length), 0)?;
            xs.push(e.compare(Comparison::Lt, i, len)?);
        }
        let mut params = vec![e.ty(start).clone()];
        for &x in &xs {
            let ty = e.ty(x);
            let slice = ty.shape.0.get(1..).unwrap_or(&[]).to_vec();
            params.push(Type::tensor(ty.dtype, Shape(slice)));
        }
        params.extend(self.captures.iter().map(|&v| e.ty(v).clone()));
        let n = xs.len();
        let mut body = |e: &mut dyn Emit, values: &[ValueId]| -> Result<Vec<ValueId>> {
            if ctl.is_none() {
                return Ok(step(e, values)?.to_vec());
            }
            // The last slice says whether the row is real.
            let real = *values.get(n).ok_or_else(|| Error::internal("a body without its row"))?;
            let mut without = values.to_vec();
            without.remove(n);
            let [next, y] = step(e, &without)?;
            let next = e.one(Select, &[real, next, values[0]])?;
            Ok(vec![next, e.keep_where(real, y, 0.0)?])
        };
        let op = Scan { carried: 1, xs: n, length, reverse: false };
        let mut inputs = vec![start];
        inputs.extend(&xs);
        inputs.extend(&self.captures);
        let results =
            e.emit_regions(op.into(), &inputs, &mut [Body { params, write: &mut body }])?;
        let [last, y] = results[..] else { return Err(Error::internal("a scan of two results")) };
        let y = from_front(e, y, self.batch)?;
        let Some(state) = first else { return Ok(vec![y]) };
        let next = match ctl {
            Some(ctl) => {
                let done = e.control_word(ctl, control_block::DONE)?;
                let running = e.number(DType::U32, control_block::RUNNING.into())?;
                let runs = e.compare(Comparison::Eq, done, running)?;
                e.one(Select, &[runs, last, start])?
            }
            None => last,
        };
        debug_assert_eq!(e.ty(state).kind, Kind::State);
        let next = e.cast(next, DType::F32)?;
        let at = e.number(DType::U32, 0.0)?;
        Ok(vec![y, e.one(StateWrite { axis: 0 }, &[state, next, at])?])
    }
}

/// `[batch.., S, ..]` as `[S, batch.., ..]`.
fn to_front(e: &mut dyn Emit, x: ValueId, batch: usize) -> Result<ValueId> {
    let rank = e.ty(x).shape.rank();
    let perm: Vec<usize> =
        core::iter::once(batch).chain((0..rank).filter(|i| *i != batch)).collect();
    e.transpose(x, &perm)
}

/// `[S, batch.., ..]` as `[batch.., S, ..]`.
fn from_front(e: &mut dyn Emit, x: ValueId, batch: usize) -> Result<ValueId> {
    let rank = e.ty(x).shape.rank();
    let perm: Vec<usize> = (1..=batch).chain([0]).chain(batch + 1..rank).collect();
    e.transpose(x, &perm)
}
