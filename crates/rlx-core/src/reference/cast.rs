//! The same numbers in another element type.

use super::view::{int_bytes, scalar_bytes};
use super::{View, arity};
use crate::error::Result;
use crate::math::to_odd_f64;
use crate::ops::Cast;
use crate::types::{DType, Scalar};
use alloc::vec;
use alloc::vec::Vec;

pub(super) fn run(op: &Cast, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
    let [x] = operands else { return Err(arity("cast")) };
    let complex = DType::Scalar(Scalar::C64);
    let y = match (x.ty.dtype, op.to) {
        (from, to) if from == to => x.bytes.to_vec(),
        (from, to) if from == complex => {
            let real: Vec<f64> = x.f64s()?.chunks(2).map(|pair| pair[0]).collect();
            scalar_bytes(to, &real)?
        }
        (_, to) if to == complex => {
            let pairs: Vec<f64> = x.f64s()?.into_iter().flat_map(|v| [v, 0.0]).collect();
            scalar_bytes(to, &pairs)?
        }
        (from, to) if from.is_float() => scalar_bytes(to, &x.f64s()?)?,
        (_, DType::F64) => {
            let exact: Vec<f64> = x.i64s()?.into_iter().map(|v| v as f64).collect();
            scalar_bytes(DType::F64, &exact)?
        }
        (_, to) if to.is_float() => {
            let odd: Vec<f64> = x.i64s()?.into_iter().map(to_odd_f64).collect();
            scalar_bytes(to, &odd)?
        }
        (_, to) => int_bytes(to, &x.i64s()?)?,
    };
    Ok(vec![y])
}
