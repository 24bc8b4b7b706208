//! A convolution of each channel over the rows up to its own, which goes on from step to step
//! [Mamba's causal_conv1d].

use super::{
    Binary, Class, Compare, Comparison, Concat, Emit, Gather, Operator, RowUse, Select, StateRead,
    StateWrite, Unary, arity, attributes, control, control_block, matrix, rules, writing,
};
use crate::error::{Error, Result};
use crate::types::{DType, Kind, Shape, Type, ValueId};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// `causal_conv1d x [S, C], w [C, K], state [K - 1, C] f32, ctl -> y [S, C], state'`:
/// `y[i, c] = act(sum_j w[c, j] p[i + j, c])`, where `p` are the state's rows and then those of `x`: the last
/// tap multiplies the row itself. The next state has the last `K - 1` rows of `p` up to row `len` of `x`;
/// with a control block that is done it stays. Rows of `y` from `len` on are whatever the executor leaves
/// there. `x` is of any float type, the result's, and `w` of that or f32.
///
/// Gated, `x` is `[S, 3 C]`: a row has `b`, `c` and `x` of C numbers each, `b x` takes the place of the row,
/// and the result is `c act(..)` (LFM2, arXiv:2511.23404).
#[derive(Clone, Debug, PartialEq, Default)]
pub struct CausalConv1d {
    /// A function of the sum.
    pub act: Option<Unary>,
    /// A row has gates before and behind the convolution.
    pub gated: bool,
}

attributes! { CausalConv1d { act, gated } }

/// Parts of a gated row.
const PARTS: u64 = 3;

impl Operator for CausalConv1d {
    const NAME: &'static str = "causal_conv1d";
    const CLASS: Class = Class::Reduction;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        const NAME: &str = CausalConv1d::NAME;
        arity(NAME, operands, 4)?;
        let [x, w, state, ctl] = operands else {
            return Err(Error::internal("causal_conv1d: arity"));
        };
        rules::float_tensor(NAME, "x", x)?;
        control(NAME, ctl)?;
        let (rows, columns) = matrix(NAME, "x", x)?;
        let channels = match (self.gated, columns.as_static()) {
            (false, _) => columns,
            (true, Some(n)) if n % PARTS == 0 => (n / PARTS).into(),
            (true, _) => return Err(rules::misfit(NAME, &[("x", *x)], "rows of three parts")),
        };
        let taps = match w.shape.0.as_slice() {
            [c, taps] if *c == channels => taps.as_static().filter(|&k| k > 1),
            _ => None,
        };
        let fits = taps.is_some_and(|k| {
            let past = Type::state(DType::F32, Shape(vec![(k - 1).into(), channels.clone()]));
            w.kind == Kind::Tensor
                && (w.dtype == DType::F32 || w.dtype == x.dtype)
                && **state == past
        });
        if !fits {
            let named = [("x", *x), ("w", *w), ("state", *state)];
            let columns = if self.gated { "3 C" } else { "C" };
            let need = format!(
                "w [C, K] of two taps or more to match x [S, {columns}], and a state f32 [K - 1, C]"
            );
            return Err(rules::misfit(NAME, &named, &need));
        }
        let y = Type::tensor(x.dtype, Shape(vec![rows, channels]));
        Ok(vec![y, (*state).clone()])
    }

    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let [x, w, state, ctl] = *operands else {
            return Err(Error::internal("causal_conv1d: arity"));
        };
        let (ty, sizes) = (e.ty(x).clone(), e.dims(w));
        let to = writing::wide(ty.dtype);
        let ([seq, _], [channels, taps]) = (ty.shape.0.as_slice(), sizes.as_slice()) else {
            return Ok(None);
        };
        let Some((n, taps)) = channels.as_static().zip(taps.as_static()) else { return Ok(None) };
        let (mut x, w) = (e.cast(x, to)?, e.cast(w, to)?);
        let mut behind = None;
        if self.gated {
            let (b, c) = (e.slice(x, 1, 0u64, n)?, e.slice(x, 1, n, n)?);
            let last = e.slice(x, 1, 2 * n, n)?;
            x = e.zip(Binary::Mul, b, last)?;
            behind = Some(c);
        }
        let before = e.one(StateRead, &[state])?;
        let past = e.cast(before, to)?;
        let all = e.one(Concat { axis: 0 }, &[past, x])?;
        let mut sum: Option<ValueId> = None;
        for tap in 0..taps {
            let row = e.slice(all, 0, tap, seq.clone())?;
            let weight = e.slice(w, 1, tap, 1u64)?;
            let weight = e.reshape(weight, core::slice::from_ref(channels))?;
            let y = e.zip(Binary::Mul, row, weight)?;
            sum = Some(match sum {
                Some(sum) => e.zip(Binary::Add, sum, y)?,
                None => y,
            });
        }
        let Some(mut y) = sum else { return Ok(None) };
        if let Some(f) = self.act {
            y = e.map(f, y)?;
        }
        if let Some(c) = behind {
            y = e.zip(Binary::Mul, c, y)?;
        }
        let y = e.cast(y, ty.dtype)?;

        // The rows that end with the last real one.
        let len = e.control_word(ctl, control_block::LEN)?;
        let row = e.iota(&[(taps - 1).into()], 0)?;
        let row = e.zip(Binary::Add, row, len)?;
        let last = e.one(Gather { axis: 0 }, &[all, row])?;
        let last = e.cast(last, DType::F32)?;
        let done = e.control_word(ctl, control_block::DONE)?;
        let running = e.number(DType::U32, control_block::RUNNING.into())?;
        let runs = e.one(Compare { f: Comparison::Eq }, &[done, running])?;
        let next = e.one(Select, &[runs, last, before])?;
        let at = e.number(DType::U32, 0.0)?;
        Ok(Some(vec![y, e.one(StateWrite { axis: 0 }, &[state, next, at])?]))
    }

    fn writes(&self) -> &'static [(usize, usize)] {
        &[(2, 1)]
    }

    fn control(&self, _: usize) -> Option<usize> {
        Some(3)
    }

    fn row_use(&self, operand: usize, _: &[&Type]) -> RowUse {
        // A row reads itself and earlier ones.
        if operand == 0 { RowUse::Same } else { RowUse::All }
    }
}
