//! Linear attention with a gated delta rule (arXiv:2412.06464).

use super::def::recurrence::Recurrence;
use super::{
    BatchMatMul, Binary, Class, Emit, Operator, RowUse, Unary, attributes, recurrence, rules,
    writing,
};
use crate::error::{Error, Result};
use crate::types::{Type, ValueId};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// `gated_delta_net q [.., S, K, N], k [.., S, K, N], v [.., S, H, V], g [.., S, H],
/// beta [.., S, H], (state [.., H, N, V] f32, (ctl)?)? -> y [.., S, H, V], (state')?`
///
/// Each head has a matrix `M [N, V]`, which starts as the state, or as zeros. For each position in
/// turn, with that position's and head's vectors and numbers:
///
/// ```text
/// M = exp(g) M        d = beta (v - M^T k)        M = M + k d^T        y = M^T q / sqrt(N)
/// ```
///
/// Value head `h` reads query and key head `h * K / H`, or `h mod K` where heads are tiled. `g` may
/// be `[.., S, H, N]`: a gate for each row of `M`. With a control block rows from `len` on are zeros
/// and leave the state alone, and a block that is done leaves the state alone. The five tensors are of
/// one float type, the result's; the state keeps f32.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct GatedDeltaNet {
    /// N.
    pub state_size: usize,
    /// The matrices start as a state and are written back to it.
    pub carry: bool,
    /// Value heads of one key head do not follow each other but are K apart.
    pub tiled: bool,
}

attributes! { GatedDeltaNet { state_size, carry, tiled } }

impl GatedDeltaNet {
    /// The query and key head, of `k_heads`, that a value head reads.
    pub fn key_head(&self, head: usize, k_heads: usize, heads: usize) -> usize {
        if self.tiled { head % k_heads.max(1) } else { head * k_heads / heads.max(1) }
    }
}

impl Operator for GatedDeltaNet {
    const NAME: &'static str = "gated_delta_net";
    const CLASS: Class = Class::Reduction;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        const NAME: &str = GatedDeltaNet::NAME;
        recurrence::arity(NAME, operands, 5, self.carry)?;
        let [q, k, v, g, beta, rest @ ..] = operands else {
            return Err(Error::internal("gated_delta_net: arity"));
        };
        let named = [("q", *q), ("k", *k), ("v", *v), ("g", *g), ("beta", *beta)];
        let dtype = rules::same_floats(NAME, &named)?;
        let need = format!(
            "q and k [.., S, K, {n}], v [.., S, H, V], g [.., S, H] or [.., S, H, {n}], beta \
             [.., S, H], and K heads that divide H",
            n = self.state_size
        );
        let misfit = || rules::misfit(NAME, &named, &need);
        let ([q_lead @ .., k_heads, n], [v_lead @ .., heads, width]) =
            (q.shape.0.as_slice(), v.shape.0.as_slice())
        else {
            return Err(misfit());
        };
        let mut gate = v_lead.to_vec();
        gate.push(heads.clone());
        let mut wide = gate.clone();
        wide.push(n.clone());
        let divides = k_heads
            .as_static()
            .zip(heads.as_static())
            .map_or(k_heads == heads, |(k, h)| k > 0 && h % k == 0);
        let fits = q == k
            && q_lead == v_lead
            && !v_lead.is_empty()
            && n.as_static() == Some(self.state_size as u64)
            && self.state_size > 0
            && divides
            && beta.shape.0 == gate
            && (g.shape.0 == gate || g.shape.0 == wide);
        if !fits {
            return Err(misfit());
        }
        let batch = &v_lead[..v_lead.len() - 1];
        let matrix = [heads.clone(), n.clone(), width.clone()];
        recurrence::results(NAME, Type::tensor(dtype, v.shape.clone()), rest, batch, &matrix)
    }

    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let [q, k, v, g, beta, ref rest @ ..] = *operands else {
            return Err(Error::internal("gated_delta_net: arity"));
        };
        let (ty, q_dims) = (e.ty(v).clone(), e.dims(q));
        let to = writing::wide(ty.dtype);
        let ([lead @ .., heads, width], [.., k_heads, n]) =
            (ty.shape.0.as_slice(), q_dims.as_slice())
        else {
            return Err(Error::internal("gated_delta_net: shapes"));
        };
        let Some((h, kh)) = heads.as_static().zip(k_heads.as_static()) else { return Ok(None) };
        let batch = lead.len().saturating_sub(1);
        // A query and a key for each value head, a number of the gate for each row.
        let mut every = |x: ValueId| -> Result<ValueId> {
            let x = e.with_ones(x, &[lead.len() + usize::from(!self.tiled)])?;
            let mut dims = lead.to_vec();
            match self.tiled {
                true => dims.extend([(h / kh).into(), k_heads.clone(), n.clone()]),
                false => dims.extend([k_heads.clone(), (h / kh).into(), n.clone()]),
            }
            let x = e.expand(x, &dims)?;
            dims.splice(lead.len()..lead.len() + 2, [heads.clone()]);
            e.reshape(x, &dims)
        };
        let (q, k) = (every(q)?, every(k)?);
        let mut carried = lead[..batch].to_vec();
        carried.extend([heads.clone(), n.clone(), width.clone()]);
        let gate_rank = e.ty(g).shape.rank();
        let root = crate::math::sqrt(self.state_size as f64);
        let xs = vec![q, k, v, g, beta];
        let rest = rest.to_vec();
        let recurrence = Recurrence { to, carried, xs, batch, captures: Vec::new(), rest };
        // Inside, a head's axis is `batch`, and a vector is a row or a column of two axes.
        let (row, column) = (batch + 1, batch + 2);
        let mut results = recurrence.write(e, &mut |e, values| {
            let [m, q, k, v, g, beta] = *values else {
                return Err(Error::internal("gated_delta_net: a body of six"));
            };
            let decay = e.map(Unary::Exp, g)?;
            let places = [row, column];
            let wide = usize::from(gate_rank > lead.len() + 1);
            let decay = e.with_ones(decay, &places[wide..])?;
            let m = e.zip(Binary::Mul, m, decay)?;
            let key = e.with_ones(k, &[row])?;
            let kept = e.one(BatchMatMul::default(), &[key, m])?;
            let v = e.with_ones(v, &[row])?;
            let d = e.zip(Binary::Sub, v, kept)?;
            let beta = e.with_ones(beta, &[row, column])?;
            let d = e.zip(Binary::Mul, d, beta)?;
            let key = e.with_ones(k, &[column])?;
            let change = e.zip(Binary::Mul, key, d)?;
            let m = e.zip(Binary::Add, m, change)?;
            let query = e.with_ones(q, &[row])?;
            let read = e.one(BatchMatMul::default(), &[query, m])?;
            let mut dims = e.dims(read);
            dims.remove(row);
            let read = e.reshape(read, &dims)?;
            Ok([m, e.zip_number(Binary::Div, read, root)?])
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
        let own = match operand {
            0..=2 => 3,
            // A gate for each row of the state's matrix has an axis more.
            3 if operands[3].shape.rank() == operands[0].shape.rank() => 3,
            3 | 4 => 2,
            _ => return RowUse::All,
        };
        recurrence::earlier_rows(operands[operand], own, self.control(operands.len()))
    }
}
