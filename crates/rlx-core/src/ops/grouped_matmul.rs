//! Products with the weights of a row's experts, which a mixture of experts is made of [PyTorch
//! grouped_mm].
//!
//! A bank is a tensor `[E, N, K]`: the matrices of all experts. A row reads those that its ids name and no
//! others.

use super::{
    Attrs, BatchMatMul, Binary, Class, Emit, Field, Gather, Operator, RowUse, Unary, WeightedSum,
    arity, attributes, rules, writing,
};
use crate::error::{Error, Result};
use crate::types::{DType, Dim, Kind, Scalar, Shape, Type, ValueId};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// What happens to the products of a row's experts before they are stored.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub enum GroupedEpilogue {
    /// Nothing: a result `[M, k, N]` for each bank.
    #[default]
    None,
    /// `f(y_0) * y_1`: two banks, gate and up, one result `[M, k, N]` (arXiv:2002.05202).
    Glu(Unary),
    /// `f(min(y_0, limit)) * (max(min(y_1, limit), -limit) + 1)`: gpt-oss's.
    LimitedGlu(Unary, f32),
    /// The sum of a row's products, each times its share: one bank, `[M, N]`.
    Sum,
    /// That sum and a residual.
    SumAdd,
}

impl GroupedEpilogue {
    /// Whether the products of a row are summed.
    pub fn sums(self) -> bool {
        matches!(self, GroupedEpilogue::Sum | GroupedEpilogue::SumAdd)
    }
}

/// An attribute of its own for the glu.
impl Field for GroupedEpilogue {
    fn put(&self, name: &str, attrs: Attrs) -> Attrs {
        match self {
            GroupedEpilogue::None => attrs,
            GroupedEpilogue::Glu(f) => f.put("glu", attrs),
            GroupedEpilogue::LimitedGlu(f, limit) => limit.put("limit", f.put("glu", attrs)),
            GroupedEpilogue::Sum => attrs.name(name, "sum"),
            GroupedEpilogue::SumAdd => attrs.name(name, "sum_add"),
        }
    }

    fn take(of: &str, name: &str, attrs: &Attrs) -> Result<Self> {
        let limit = attrs.opt_float("limit")?;
        match (attrs.opt_name(name)?, attrs.opt_name("glu")?, limit) {
            (None, None, None) => Ok(GroupedEpilogue::None),
            (None, Some(_), limit) => {
                let f = Unary::take(of, "glu", attrs)?;
                Ok(limit.map_or(GroupedEpilogue::Glu(f), |l| GroupedEpilogue::LimitedGlu(f, l)))
            }
            (Some("sum"), None, None) => Ok(GroupedEpilogue::Sum),
            (Some("sum_add"), None, None) => Ok(GroupedEpilogue::SumAdd),
            _ => Err(Error::bad_graph("grouped_matmul: more than one epilogue, or an unknown one")),
        }
    }

    fn names(name: &'static str, out: &mut Vec<&'static str>) {
        out.extend([name, "glu", "limit"]);
    }
}

/// `grouped_matmul x [M, K] | [M, k, K], W_0 [E, N_0, K], …, (b_0 [E, N_0], …)?, ids [M, k] u32,
/// (shares [M, k])?, (residual [M, N_0])? -> y_0 [M, k, N_0] | [M, N_0], …`
///
/// `y_i[m, j] = x[m] W_i[e]^T + b_i[e]` with `e = ids[m, j]`; an `x` with three axes has a row `x[m, j]`
/// for each. An id of E or more reads expert E - 1. Under `sum` the result is `sum_j shares[m, j]
/// y_0[m, j]`, to which `sum_add` adds the residual.
///
/// `x` is of any float type, which results have too, or int8 blocks made by `quantize_rows`, whose results
/// are f32; banks are of any float or packed type; biases and shares have the results' type or f32.
/// Products (with their bias), the function of the glu and the sum each round to the results' type.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupedMatMul {
    /// Number of banks, 1 or 2.
    pub segments: usize,
    /// Whether each bank has biases.
    pub bias: bool,
    /// What happens to the products.
    pub epilogue: GroupedEpilogue,
}

attributes! { GroupedMatMul { segments = 1, bias, epilogue } }

impl Default for GroupedMatMul {
    fn default() -> Self {
        GroupedMatMul { segments: 1, bias: false, epilogue: GroupedEpilogue::None }
    }
}

/// Operand positions of a [`GroupedMatMul`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupedMatMulParts {
    /// The first bank; the other follows.
    pub banks: usize,
    /// The first bank's biases; the other's follow.
    pub biases: Option<usize>,
    /// The ids.
    pub ids: usize,
    /// The shares.
    pub shares: Option<usize>,
    /// The residual.
    pub residual: Option<usize>,
    /// Operands in all.
    pub count: usize,
}

impl GroupedMatMul {
    /// `f(x gate^T) * (x up^T)` of each expert.
    pub fn glu(f: Unary) -> Self {
        GroupedMatMul { segments: 2, epilogue: GroupedEpilogue::Glu(f), ..Self::default() }
    }

    /// The sum of the experts' products by their shares.
    pub fn sum() -> Self {
        GroupedMatMul { epilogue: GroupedEpilogue::Sum, ..Self::default() }
    }

    /// Where each operand stands.
    pub fn parts(&self) -> GroupedMatMulParts {
        let banks = 1;
        let mut at = banks + self.segments;
        let mut take = |n: usize| {
            let first = at;
            at += n;
            first
        };
        let biases = self.bias.then(|| take(self.segments));
        let ids = take(1);
        let shares = self.epilogue.sums().then(|| take(1));
        let residual = (self.epilogue == GroupedEpilogue::SumAdd).then(|| take(1));
        GroupedMatMulParts { banks, biases, ids, shares, residual, count: at }
    }
}

impl Operator for GroupedMatMul {
    const NAME: &'static str = "grouped_matmul";
    const CLASS: Class = Class::Compute;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        const NAME: &str = GroupedMatMul::NAME;
        let refuse = |what| Err(Error::bad_graph(format!("{NAME}: {what}")));
        if !(1..=2).contains(&self.segments) {
            return refuse(format!("{} segments, 1 or 2 fit", self.segments));
        }
        let parts = self.parts();
        arity(NAME, operands, parts.count)?;
        let (x, ids) = (operands[0], operands[parts.ids]);
        if x.kind != Kind::Tensor || !(x.dtype.is_float() || x.dtype.is_block()) {
            return refuse(format!("x is {x}, expected floats or int8 blocks"));
        }
        let dtype = if x.dtype.is_block() { DType::F32 } else { x.dtype };
        let (m, k, width) = match (x.shape.0.as_slice(), ids.shape.0.as_slice()) {
            ([rows, width], [m, k]) if rows == m => (m, k, width),
            ([rows, each, width], [m, k]) if rows == m && each == k => (m, k, width),
            _ => {
                let need = "x [M, K] or [M, k, K] and ids u32 [M, k]";
                return Err(rules::misfit(NAME, &[("x", x), ("ids", ids)], need));
            }
        };
        if (ids.kind, ids.dtype) != (Kind::Tensor, DType::U32) {
            return refuse(format!("ids is {ids}, expected u32"));
        }
        let mut experts = None;
        let mut results = Vec::with_capacity(self.segments);
        for (i, &w) in operands[parts.banks..][..self.segments].iter().enumerate() {
            let bank = match w.shape.0.as_slice() {
                [e, n, of] if rules::is_weight(w) && of == width => Some((e, n)),
                _ => None,
            };
            let bank =
                bank.filter(|(e, _)| e.as_static() != Some(0) && experts.is_none_or(|n| n == *e));
            let Some((e, n)) = bank else {
                let named = [("x", x), ("bank", w)];
                let need = "banks [E, N, K] of equally many experts, at least one, to match x";
                return Err(rules::misfit(NAME, &named, need));
            };
            experts = Some(e);
            if let Some(first) = parts.biases {
                let need = [e.clone(), n.clone()];
                matches(NAME, "bias", operands[first + i], &need, dtype)?;
            }
            let dims = vec![m.clone(), k.clone(), n.clone()];
            results.push(Type::tensor(dtype, Shape(dims)));
        }
        match self.epilogue {
            GroupedEpilogue::None => {}
            GroupedEpilogue::Glu(_) | GroupedEpilogue::LimitedGlu(..) => {
                if self.segments != 2 || results[0] != results[1] {
                    return refuse("glu needs two segments of one size".into());
                }
                if let GroupedEpilogue::LimitedGlu(_, limit) = self.epilogue
                    && !(limit.is_finite() && limit > 0.0)
                {
                    return refuse("the limit of a glu is a number above 0".into());
                }
                results.pop();
            }
            GroupedEpilogue::Sum | GroupedEpilogue::SumAdd => {
                if self.segments != 1 {
                    return refuse("a sum needs one segment".into());
                }
                results[0].shape.0.remove(1);
                if let Some(at) = parts.shares {
                    matches(NAME, "shares", operands[at], &ids.shape.0, dtype)?;
                }
                if let Some(at) = parts.residual {
                    rules::expect(NAME, "residual", operands[at], &results[0])?;
                }
            }
        }
        Ok(results)
    }

    /// A product for each bank, its bias, and the epilogue. A product by itself looks up the rows of each
    /// row's experts, as an embedding does: `M k N K` numbers, for sizes that are known.
    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        if operands.len() != self.parts().count {
            return Err(Error::internal("grouped_matmul: arity"));
        }
        if *self == GroupedMatMul::default() {
            return looked_up(e, operands);
        }
        self.apart(e, operands).map(Some)
    }

    fn row_use(&self, operand: usize, _: &[&Type]) -> RowUse {
        let parts = self.parts();
        let rows = operand == 0
            || operand == parts.ids
            || [parts.shares, parts.residual].contains(&Some(operand));
        if rows { RowUse::Same } else { RowUse::All }
    }
}

/// Fails unless an operand has these sizes and is of f32 or of the results' type.
fn matches(op: &str, operand: &str, got: &Type, dims: &[Dim], dtype: DType) -> Result<()> {
    let need = |dtype| Type::tensor(dtype, Shape(dims.to_vec()));
    if *got == need(DType::F32) || *got == need(dtype) {
        return Ok(());
    }
    let or = if dtype == DType::F32 { "".into() } else { format!(" or {dtype}") };
    let need = need(DType::F32);
    Err(Error::bad_graph(format!("{op}: {operand} is {got}, expected {need}{or}")))
}

impl GroupedMatMul {
    /// One step at a time, so that a target takes the largest piece it knows.
    fn apart(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Vec<ValueId>> {
        let parts = self.parts();
        let (x, ids) = (operands[0], operands[parts.ids]);
        let mut results = Vec::with_capacity(self.segments);
        for i in 0..self.segments {
            let plain = GroupedMatMul { bias: self.bias, ..GroupedMatMul::default() };
            // With its bias too, unless that is all there is.
            if let (Some(first), true) = (parts.biases, *self == plain) {
                let y = e.one(GroupedMatMul::default(), &[x, operands[parts.banks], ids])?;
                let bias = e.one(Gather { axis: 0 }, &[operands[first], ids])?;
                let y_type = e.ty(y).dtype;
                let (wide, bias) = (e.wide(y)?, e.wide(bias)?);
                let to = e.ty(wide).dtype;
                let bias = e.cast(bias, to)?;
                let sum = e.zip(Binary::Add, wide, bias)?;
                return Ok(vec![e.cast(sum, y_type)?]);
            }
            let mut inputs = vec![x, operands[parts.banks + i]];
            inputs.extend(parts.biases.map(|first| operands[first + i]));
            inputs.push(ids);
            results.push(e.one(plain, &inputs)?);
        }
        match (self.epilogue, results.as_slice(), parts.shares) {
            (GroupedEpilogue::None, ..) => Ok(results),
            (GroupedEpilogue::Glu(f), &[gate, up], _) => {
                let gate = e.map(f, gate)?;
                Ok(vec![e.zip(Binary::Mul, gate, up)?])
            }
            (GroupedEpilogue::LimitedGlu(f, limit), &[gate, up], _) => {
                let l = f64::from(limit);
                let gate = e.zip_number(Binary::Min, gate, l)?;
                let gate = e.map(f, gate)?;
                let up = e.zip_number(Binary::Min, up, l)?;
                let up = e.zip_number(Binary::Max, up, -l)?;
                let up = e.zip_number(Binary::Add, up, 1.0)?;
                Ok(vec![e.zip(Binary::Mul, gate, up)?])
            }
            (GroupedEpilogue::Sum | GroupedEpilogue::SumAdd, &[y], Some(shares)) => {
                let sum = e.one(WeightedSum, &[y, operands[shares]])?;
                match parts.residual {
                    Some(at) => Ok(vec![e.zip(Binary::Add, sum, operands[at])?]),
                    None => Ok(vec![sum]),
                }
            }
            _ => Err(Error::internal("grouped_matmul: arity")),
        }
    }
}

/// The plain product of one bank.
fn looked_up(e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
    let &[x, w, ids] = operands else { return Err(Error::internal("grouped_matmul: arity")) };
    let (dtype, dims, weights) = (e.ty(x).dtype, e.dims(ids), e.dims(w));
    let ([m, k], [experts, n, width]) = (dims.as_slice(), weights.as_slice()) else {
        return Err(Error::internal("grouped_matmul: shapes"));
    };
    let (Some(last), Some(rows), false) = (
        experts.as_static().and_then(|n| n.checked_sub(1)),
        n.as_static(),
        dtype.is_block(), // nothing else multiplies int8 blocks
    ) else {
        return Ok(None);
    };
    if u32::try_from(last.saturating_add(1).saturating_mul(rows)).is_err() {
        return Ok(None); // ids of rows are u32
    }
    let ids = e.zip_number(Binary::Min, ids, last as f64)?;
    let taken = if e.ty(w).dtype == DType::Scalar(Scalar::F64) {
        e.one(Gather { axis: 0 }, &[w, ids])?
    } else {
        let first = e.zip_number(Binary::Mul, ids, rows as f64)?;
        let first = e.with_ones(first, &[2])?;
        let one = Dim::from(1u64);
        let each = e.iota(&[one.clone(), one, n.clone()], 2)?;
        let row = e.zip(Binary::Add, first, each)?;
        let row = e.reshape(row, &[rules::product(&[m.clone(), k.clone(), n.clone()])?])?;
        let table = e.reshape(w, &[experts.mul(n)?, width.clone()])?;
        let taken = e.one(Gather { axis: 0 }, &[table, row])?;
        e.reshape(taken, &[m.clone(), k.clone(), n.clone(), width.clone()])?
    };
    let to = if e.ty(taken).dtype == DType::F32 { writing::wide(dtype) } else { e.ty(taken).dtype };
    let (taken, x) = (e.cast(taken, to)?, e.cast(x, to)?);
    // A row of its own for each expert, or one that they share.
    let x =
        if e.ty(x).shape.rank() == 2 { e.with_ones(x, &[1, 2])? } else { e.with_ones(x, &[2])? };
    let y = e.one(BatchMatMul { transpose_b: true }, &[x, taken])?;
    let y = e.reshape(y, &[m.clone(), k.clone(), n.clone()])?;
    Ok(Some(vec![e.cast(y, dtype)?]))
}
