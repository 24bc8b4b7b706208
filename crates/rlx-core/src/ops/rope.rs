//! Rotary position embedding (arXiv:2104.09864): pairs of a head's dimensions turn by an angle
//! that grows with the position.

use super::{Attrs, Class, Operator, arity, control, matrix};
use crate::error::{Error, Result};
use crate::types::{DType, Kind, Shape, Type};
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
    const CLASS: Class = Class::Elementwise;

    fn attrs(&self) -> Attrs {
        Attrs::none().name("style", self.style.name()).int("head_dim", self.head_dim as u64)
    }

    fn from_attrs(attrs: &Attrs) -> Result<Self> {
        attrs.only(&["style", "head_dim"])?;
        Ok(Rope {
            style: RopeStyle::from_name(attrs.get_name("style")?)?,
            head_dim: attrs.get_int("head_dim")? as usize,
        })
    }

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
}
