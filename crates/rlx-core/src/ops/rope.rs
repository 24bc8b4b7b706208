//! Rotary position embedding (arXiv:2104.09864): pairs of a head's dimensions turn by an angle
//! that grows with the position.

use super::{
    Binary, Class, Concat, Emit, Gather, Operator, RowUse, arity, attributes, control,
    control_block, matrix, writing,
};
use crate::error::{Error, Result};
use crate::types::{DType, Dim, Kind, Shape, Type, ValueId};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// Which dimensions form a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RopeStyle {
    /// `(2i, 2i + 1)`: GGUF files of architecture `llama`, whose rows the converter permuted.
    Adjacent,
    /// `(i, i + dims / 2)`: transformers checkpoints.
    Half,
}

impl RopeStyle {
    /// The name in text IR.
    pub fn name(self) -> &'static str {
        match self {
            Self::Adjacent => "adjacent",
            Self::Half => "half",
        }
    }

    /// The style of that name.
    pub fn from_name(name: &str) -> Result<Self> {
        match name {
            "adjacent" => Ok(Self::Adjacent),
            "half" => Ok(Self::Half),
            _ => Err(Error::bad_graph(format!("unknown rope style {name}"))
                .hint("known: adjacent, half")),
        }
    }
}

/// `rope x [S, H * head_dim], table [rows, R / 2, 2] f32, ctl -> [S, H * head_dim]`. Row `i` has
/// position `past + i`. The first R dimensions of each head turn, as many as the table has; the
/// others pass through [ONNX RotaryEmbedding's `rotary_embedding_dim`]. `x` is of any float type,
/// the result's.
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    /// Which dimensions form a pair.
    pub style: RopeStyle,
    /// Width of a head.
    pub head_dim: usize,
}

attributes! { Rope { style, head_dim } }

/// Checks the two-part table and returns the number of dimensions that turn.
pub(super) fn check_table(name: &str, ty: &Type, head_dim: usize) -> Result<()> {
    let ok = ty.dtype == DType::F32
        && ty.shape.rank() == 3
        && ty.shape.0[2].as_static() == Some(2)
        && ty.shape.0[1].as_static().is_some_and(|half| half <= head_dim as u64 / 2);
    if ok {
        return Ok(());
    }
    Err(Error::bad_graph(format!(
        "{name}: table is {ty}, expected f32 [rows, dims / 2, 2] with dims of at most {head_dim}"
    )))
}

impl Operator for Rope {
    const NAME: &'static str = "rope";
    const CLASS: Class = Class::Movement;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("rope", operands, 3)?;
        let (rows, width) = matrix("rope", "x", operands[0])?;
        if self.head_dim == 0
            || width.as_static().is_none_or(|w| w % self.head_dim as u64 != 0)
            || !(operands[0].kind == Kind::Tensor && operands[0].dtype.is_float())
        {
            return Err(Error::bad_graph(format!(
                "rope: x is {}, expected float rows of whole heads of {}",
                operands[0], self.head_dim
            )));
        }
        check_table("rope", operands[1], self.head_dim)?;
        control("rope", operands[2])?;
        Ok(vec![Type::tensor(operands[0].dtype, Shape(vec![rows, width]))])
    }

    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let [x, table, ctl] = *operands else { return Err(Error::internal("rope: arity")) };
        let (ty, sizes) = (e.ty(x).clone(), e.dims(table));
        if writing::is_half(ty.dtype) {
            let wide = e.cast(x, DType::F32)?;
            let y = e.one(self.clone(), &[wide, table, ctl])?;
            return Ok(Some(vec![e.cast(y, ty.dtype)?]));
        }
        let known =
            sizes.first().and_then(Dim::as_static).zip(sizes.get(1).and_then(Dim::as_static));
        let (Some((rows, half)), Some(width)) = (known, ty.shape.last().as_static()) else {
            return Ok(None);
        };
        if rows < 2 || half == 0 {
            return Ok(None);
        }
        let (cos, sin) = angles(e, &ty, table, ctl, [rows, half])?;
        // [S, heads, E], and its first dimensions as the two of each pair.
        let (seq, e_dim) = (ty.shape.0[0].clone(), self.head_dim as u64);
        let heads = e.reshape(x, &[seq.clone(), (width / e_dim).into(), e_dim.into()])?;
        let turning = e.slice(heads, 2, 0u64, 2 * half)?;
        let pairs = match self.style {
            RopeStyle::Half => [2u64, half],
            RopeStyle::Adjacent => [half, 2],
        };
        let axis = if self.style == RopeStyle::Half { 2 } else { 3 };
        let split = [seq.clone(), (width / e_dim).into(), pairs[0].into(), pairs[1].into()];
        let turning = e.reshape(turning, &split)?;
        let (a, b) = (e.slice(turning, axis, 0u64, 1u64)?, e.slice(turning, axis, 1u64, 1u64)?);
        // cos and sin as [S, 1, 1, half] or [S, 1, half, 1].
        let ones: [usize; 2] = if axis == 2 { [1, 2] } else { [1, 3] };
        let (cos, sin) = (e.with_ones(cos, &ones)?, e.with_ones(sin, &ones)?);
        let (p, q) = (e.zip(Binary::Mul, a, cos)?, e.zip(Binary::Mul, b, sin)?);
        let first = e.zip(Binary::Sub, p, q)?;
        let (p, q) = (e.zip(Binary::Mul, a, sin)?, e.zip(Binary::Mul, b, cos)?);
        let second = e.zip(Binary::Add, p, q)?;
        let turned = e.one(Concat { axis }, &[first, second])?;
        let turned = e.reshape(turned, &[seq, (width / e_dim).into(), (2 * half).into()])?;
        let y = if 2 * half == e_dim {
            turned
        } else {
            let rest = e.slice(heads, 2, 2 * half as usize, e_dim - 2 * half)?;
            e.one(Concat { axis: 2 }, &[turned, rest])?
        };
        Ok(Some(vec![e.reshape(y, &ty.shape.0)?]))
    }

    fn row_use(&self, operand: usize, _: &[&Type]) -> RowUse {
        if operand == 0 { RowUse::Same } else { RowUse::All }
    }

    fn control(&self, _: usize) -> Option<usize> {
        Some(2)
    }
}

/// cos and sin `[S, half]` of the position of every row of `x`, in its type, by the products of the
/// table's two parts.
fn angles(
    e: &mut dyn Emit,
    x: &Type,
    table: ValueId,
    ctl: ValueId,
    [rows, half]: [u64; 2],
) -> Result<(ValueId, ValueId)> {
    let seq = &x.shape.0[0];
    // With L low rows there are more than L / 4 and at most L high rows, so the sum tells L.
    let low = rows.div_ceil(2).next_power_of_two();
    let past = e.control_word(ctl, control_block::PAST)?;
    let i = e.iota(core::slice::from_ref(seq), 0)?;
    let position = e.zip(Binary::Add, past, i)?;
    let position = e.zip_number(Binary::Min, position, (low * (rows - low) - 1) as f64)?;
    let high = e.zip_number(Binary::Div, position, low as f64)?;
    let high = e.zip_number(Binary::Add, high, low as f64)?;
    let near = e.zip_number(Binary::Mod, position, low as f64)?;
    let mut turn = |row: ValueId| -> Result<[ValueId; 2]> {
        let taken = e.one(Gather::default(), &[table, row])?;
        let taken = e.cast(taken, x.dtype)?;
        let shape = [seq.clone(), half.into()];
        let (cos, sin) = (e.slice(taken, 2, 0u64, 1u64)?, e.slice(taken, 2, 1u64, 1u64)?);
        Ok([e.reshape(cos, &shape)?, e.reshape(sin, &shape)?])
    };
    let ([cos_a, sin_a], [cos_b, sin_b]) = (turn(high)?, turn(near)?);
    let (p, q) = (e.zip(Binary::Mul, cos_a, cos_b)?, e.zip(Binary::Mul, sin_a, sin_b)?);
    let cos = e.zip(Binary::Sub, p, q)?;
    let (p, q) = (e.zip(Binary::Mul, sin_a, cos_b)?, e.zip(Binary::Mul, cos_a, sin_b)?);
    Ok((cos, e.zip(Binary::Add, p, q)?))
}
