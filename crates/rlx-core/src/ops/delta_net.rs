//! A layer's gated delta net, of what its convolution and its projections give.

use super::{
    Binary, Class, Constant, Emit, GatedDeltaNet, Operator, RmsNorm, RowUse, Unary, arity,
    attributes, control, matrix, rules,
};
use crate::error::{Error, Result};
use crate::math;
use crate::types::{DType, Kind, Shape, Type, ValueId};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// `delta_net qkv [S, 2 K N + H V], a [S, H], b [S, H], decay [H], dt [H], state [H, N, V] f32, ctl
/// -> y [S, H, V], state'`: [`GatedDeltaNet`] as Qwen3-Next has it (arXiv:2412.06464).
///
/// A row of `qkv` is K queries and K keys of N numbers each, then H values of V. Queries and keys become
/// vectors of length 1, `x / sqrt(sum x^2 + eps)`; the gates are `g = decay softplus(a + dt)` and
/// `beta = sigmoid(b)`, of each head. `qkv`, `a` and `b` are of one float type, the result's; `decay` and
/// `dt` of that or f32.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct DeltaNet {
    /// K.
    pub key_heads: usize,
    /// N.
    pub state_size: usize,
    /// Added to the square of a query's or key's length.
    pub eps: f32,
    /// Value heads of one key head do not follow each other but are K apart.
    pub tiled: bool,
}

attributes! { DeltaNet { key_heads, state_size, eps, tiled } }

impl DeltaNet {
    /// The recurrence alone.
    pub fn rule(&self) -> GatedDeltaNet {
        GatedDeltaNet { state_size: self.state_size, carry: true, tiled: self.tiled }
    }
}

impl Operator for DeltaNet {
    const NAME: &'static str = "delta_net";
    const CLASS: Class = Class::Reduction;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        const NAME: &str = DeltaNet::NAME;
        arity(NAME, operands, 7)?;
        let [qkv, a, b, decay, dt, state, ctl] = operands else {
            return Err(Error::internal("delta_net: arity"));
        };
        let named = [("qkv", *qkv), ("a", *a), ("b", *b)];
        let dtype = rules::same_floats(NAME, &named)?;
        control(NAME, ctl)?;
        let (rows, columns) = matrix(NAME, "qkv", qkv)?;
        let (_, heads) = matrix(NAME, "a", a)?;
        rules::vector(NAME, "decay", decay, &heads, dtype)?;
        rules::vector(NAME, "dt", dt, &heads, dtype)?;
        let (k, n) = (self.key_heads as u64, self.state_size as u64);
        let fits = || {
            let h = heads.as_static()?;
            let [state_heads, state_n, v] = state.shape.0.as_slice() else { return None };
            let v = v.as_static()?;
            let keys = k.checked_mul(n)?.checked_mul(2)?;
            let whole = keys.checked_add(h.checked_mul(v)?)?;
            let fits = k > 0
                && n > 0
                && h % k == 0
                && columns.as_static() == Some(whole)
                && a.shape.0 == [rows.clone(), heads.clone()]
                && b.shape == a.shape
                && (state.kind, state.dtype) == (Kind::State, DType::F32)
                && *state_heads == heads
                && state_n.as_static() == Some(n);
            fits.then_some(v)
        };
        let Some(v) = fits() else {
            let named = [("qkv", *qkv), ("a", *a), ("b", *b), ("state", *state)];
            let need = format!(
                "qkv [S, 2 * {k} * {n} + H * V], a and b [S, H], a state f32 [H, {n}, V], and {k} \
                 heads that divide H"
            );
            return Err(rules::misfit(NAME, &named, &need));
        };
        let y = Type::tensor(dtype, Shape(vec![rows, heads, v.into()]));
        Ok(vec![y, (*state).clone()])
    }

    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let [qkv, a, b, decay, dt, state, ctl] = *operands else {
            return Err(Error::internal("delta_net: arity"));
        };
        let dtype = e.ty(qkv).dtype;
        let (qkv, a, b) = (e.wide(qkv)?, e.wide(a)?, e.wide(b)?);
        let to = e.ty(qkv).dtype;
        let (decay, dt) = (e.cast(decay, to)?, e.cast(dt, to)?);
        let (of_qkv, of_state) = (e.dims(qkv), e.dims(state));
        let ([rows, _], [heads, _, v]) = (of_qkv.as_slice(), of_state.as_slice()) else {
            return Err(Error::internal("delta_net: shapes"));
        };
        let (k, n) = (self.key_heads as u64, self.state_size as u64);
        let values = heads.as_static().zip(v.as_static()).map(|(h, v)| h * v);
        let Some(values) = values else { return Ok(None) };
        // x / sqrt(sum x^2 + eps) is the RMS norm of x with eps / N, divided by the root of N.
        let factor = vec![(1.0 / math::sqrt(n as f64)) as f32; self.state_size];
        let factor = e.one(Constant::f32s(&[n], &factor)?, &[])?;
        let mut unit = |start: u64| -> Result<ValueId> {
            let x = e.slice(qkv, 1, start, k * n)?;
            let x = e.reshape(x, &[rows.clone(), k.into(), n.into()])?;
            e.one(RmsNorm { eps: self.eps / n as f32 }, &[x, factor])
        };
        let (q, key) = (unit(0)?, unit(k * n)?);
        let value = e.slice(qkv, 1, 2 * k * n, values)?;
        let value = e.reshape(value, &[rows.clone(), heads.clone(), v.clone()])?;
        let g = e.zip(Binary::Add, a, dt)?;
        let g = e.map(Unary::Softplus, g)?;
        let g = e.zip(Binary::Mul, g, decay)?;
        let beta = e.map(Unary::Sigmoid, b)?;
        let mut results = e.emit(self.rule().into(), &[q, key, value, g, beta, state, ctl])?;
        if let Some(y) = results.first_mut() {
            *y = e.cast(*y, dtype)?;
        }
        Ok(Some(results))
    }

    fn writes(&self) -> &'static [(usize, usize)] {
        &[(5, 1)]
    }

    fn control(&self, _: usize) -> Option<usize> {
        Some(6)
    }

    fn row_use(&self, operand: usize, _: &[&Type]) -> RowUse {
        // A row reads itself and earlier ones.
        if operand < 3 { RowUse::Same } else { RowUse::All }
    }
}
