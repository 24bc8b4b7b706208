//! Each row times the weight of its expert: the products of a mixture of experts [PyTorch
//! grouped_mm].

use super::{Attrs, Class, Operator, arity, fit, matrix};
use crate::error::{Error, Result};
use crate::types::{DType, Kind, Shape, Type};
use alloc::vec;
use alloc::vec::Vec;

/// `grouped_matmul x [M, K], w [E, N, K], ids [M] u32 -> [M, N]`: `y_i = x_i w_(ids_i)^T`. `w` is
/// of any float or packed type; the result has the type of `x`. An id of E or more reads expert
/// E - 1.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct GroupedMatMul;

impl Operator for GroupedMatMul {
    const NAME: &'static str = "grouped_matmul";
    const CLASS: Class = Class::Compute;

    fn from_attrs(attrs: &Attrs) -> Result<Self> {
        attrs.only(&[])?;
        Ok(GroupedMatMul)
    }

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        const NAME: &str = GroupedMatMul::NAME;
        arity(NAME, operands, 3)?;
        let [x, w, ids] = operands else { return Err(Error::internal("grouped_matmul: arity")) };
        super::float_tensor(NAME, "x", x)?;
        let (m, k) = matrix(NAME, "x", x)?;
        let named = [("x", *x), ("w", *w), ("ids", *ids)];
        let need = "w [E, N, K] of at least one expert to match x [M, K], and ids u32 [M]";
        let [experts, n, w_k] = w.shape.0.as_slice() else {
            return Err(fit::misfit(NAME, &named, need));
        };
        let fits = fit::is_weight(w)
            && experts.as_static() != Some(0)
            && *w_k == k
            && (ids.kind, ids.dtype) == (Kind::Tensor, DType::U32)
            && ids.shape.0 == [m.clone()];
        if !fits {
            return Err(fit::misfit(NAME, &named, need));
        }
        Ok(vec![Type::tensor(x.dtype, Shape(vec![m, n.clone()]))])
    }
}
