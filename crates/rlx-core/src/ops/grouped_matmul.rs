//! Each row times the weight of its expert: the products of a mixture of experts [PyTorch
//! grouped_mm].

use super::{
    BatchMatMul, Binary, Class, Emit, Gather, Operator, arity, attributes, matrix, rules, writing,
};
use crate::error::{Error, Result};
use crate::types::{DType, Kind, Scalar, Shape, Type, ValueId};
use alloc::vec;
use alloc::vec::Vec;

/// `grouped_matmul x [M, K], w [E, N, K], ids [M] u32 -> [M, N]`: `y_i = x_i w_(ids_i)^T`. `w` is
/// of any float or packed type; the result has the type of `x`. An id of E or more reads expert
/// E - 1.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct GroupedMatMul;

attributes! { GroupedMatMul {} }

impl Operator for GroupedMatMul {
    const NAME: &'static str = "grouped_matmul";
    const CLASS: Class = Class::Compute;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        const NAME: &str = GroupedMatMul::NAME;
        arity(NAME, operands, 3)?;
        let [x, w, ids] = operands else { return Err(Error::internal("grouped_matmul: arity")) };
        super::float_tensor(NAME, "x", x)?;
        let (m, k) = matrix(NAME, "x", x)?;
        let named = [("x", *x), ("w", *w), ("ids", *ids)];
        let need = "w [E, N, K] of at least one expert to match x [M, K], and ids u32 [M]";
        let [experts, n, w_k] = w.shape.0.as_slice() else {
            return Err(rules::misfit(NAME, &named, need));
        };
        let fits = rules::is_weight(w)
            && experts.as_static() != Some(0)
            && *w_k == k
            && (ids.kind, ids.dtype) == (Kind::Tensor, DType::U32)
            && ids.shape.0 == [m.clone()];
        if !fits {
            return Err(rules::misfit(NAME, &named, need));
        }
        Ok(vec![Type::tensor(x.dtype, Shape(vec![m, n.clone()]))])
    }

    /// The rows of each row's expert, looked up as an embedding, and a product with them: `M N K`
    /// numbers. For sizes that are known.
    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let [x, w, ids] = *operands else { return Err(Error::internal("grouped_matmul: arity")) };
        let (dtype, dims, weights) = (e.ty(x).dtype, e.dims(x), e.dims(w));
        let ([m, k], [experts, n, _]) = (dims.as_slice(), weights.as_slice()) else {
            return Err(Error::internal("grouped_matmul: shapes"));
        };
        let (Some(last), Some(rows)) =
            (experts.as_static().and_then(|n| n.checked_sub(1)), n.as_static())
        else {
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
            let first = e.with_ones(first, &[1])?;
            let each = e.iota(&[1u64.into(), n.clone()], 1)?;
            let row = e.zip(Binary::Add, first, each)?;
            let row = e.reshape(row, &[m.mul(n)?])?;
            let table = e.reshape(w, &[experts.mul(n)?, k.clone()])?;
            let taken = e.one(Gather { axis: 0 }, &[table, row])?;
            e.reshape(taken, &[m.clone(), n.clone(), k.clone()])?
        };
        let to =
            if e.ty(taken).dtype == DType::F32 { writing::wide(dtype) } else { e.ty(taken).dtype };
        let (taken, x) = (e.cast(taken, to)?, e.cast(x, to)?);
        let x = e.with_ones(x, &[1])?;
        let y = e.one(BatchMatMul { transpose_b: true }, &[x, taken])?;
        let y = e.reshape(y, &[m.clone(), n.clone()])?;
        Ok(Some(vec![e.cast(y, dtype)?]))
    }
}
