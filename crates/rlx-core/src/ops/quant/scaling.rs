//! Small floats with scales: which format, and which elements share a scale.

use crate::error::{Error, Result};
use crate::ops::{Attrs, Field};
use crate::types::small_float::decode_e8m0;
use crate::types::{DType, Dim, DimOp, Kind, Scalar, Shape, SmallFloat, Type};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// Which elements share a scale, and how scales are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ScaleLayout {
    /// One f32, of shape `[]`: `largest / format's max`.
    Tensor,
    /// One f32 for each block of rows and columns of the last two axes, the last ones part full:
    /// scales are `[.., ceil(M / rows), ceil(K / columns)]`.
    Block {
        /// Rows of a block.
        rows: u64,
        /// Columns of a block.
        columns: u64,
        /// Whether a scale is rounded up to a power of two.
        round: bool,
    },
    /// A byte of E8M0 for 32 elements of a row (OCP MX): `2^(floor(log2(largest)) - format's
    /// largest exponent)`; elements past the format's max saturate.
    Mx,
    /// A byte of f8e4m3 for 16 elements of a row (NVFP4 without its second, tensor-wide scale).
    Nvfp4,
}

/// A format with its scales.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scaling {
    /// What codes mean.
    pub format: SmallFloat,
    /// Which elements share a scale.
    pub layout: ScaleLayout,
}

/// Alone in an operator its attributes have no prefix.
impl Field for Scaling {
    fn put(&self, _: &str, attrs: Attrs) -> Attrs {
        self.write(attrs, "")
    }

    fn take(_: &str, _: &str, attrs: &Attrs) -> Result<Self> {
        Self::read(attrs, "")
    }

    fn names(_: &'static str, out: &mut Vec<&'static str>) {
        out.extend(["format", "layout", "block", "round"]);
    }
}

/// One code a byte.
pub(super) const CODES: DType = DType::Scalar(Scalar::U8);

impl Scaling {
    /// Adds `format`, `layout` and what the layout needs, each with a prefix.
    pub(super) fn write(&self, attrs: Attrs, prefix: &str) -> Attrs {
        let name = |s: &str| -> String { format!("{prefix}{s}") };
        let attrs = attrs.name(&name("format"), self.format.name());
        let layout = match self.layout {
            ScaleLayout::Tensor => "tensor",
            ScaleLayout::Block { .. } => "block",
            ScaleLayout::Mx => "mx",
            ScaleLayout::Nvfp4 => "nvfp4",
        };
        let attrs = attrs.name(&name("layout"), layout);
        match self.layout {
            ScaleLayout::Block { rows, columns, round } => {
                let attrs = attrs.ints(&name("block"), &[rows, columns]);
                attrs.when(&name("round"), round)
            }
            _ => attrs,
        }
    }

    pub(super) fn read(attrs: &Attrs, prefix: &str) -> Result<Scaling> {
        let name = |s: &str| -> String { format!("{prefix}{s}") };
        let format = attrs.get_name(&name("format"))?;
        let format = SmallFloat::from_name(format)
            .ok_or_else(|| Error::bad_graph(format!("unknown format {format}")))?;
        let layout = match attrs.get_name(&name("layout"))? {
            "tensor" => ScaleLayout::Tensor,
            "mx" => ScaleLayout::Mx,
            "nvfp4" => ScaleLayout::Nvfp4,
            "block" => match attrs.get_ints(&name("block"))?.as_slice() {
                &[rows, columns] => {
                    let round = attrs.flag(&name("round"))?;
                    ScaleLayout::Block { rows, columns, round }
                }
                other => {
                    return Err(Error::bad_graph(format!(
                        "attribute {prefix}block is {other:?}, expected rows and columns"
                    )));
                }
            },
            other => return Err(Error::bad_graph(format!("unknown layout {other}"))),
        };
        Ok(Scaling { format, layout })
    }

    /// Elements of a row that share a scale, where rows do not share any.
    pub(super) fn group(&self) -> Option<u64> {
        match self.layout {
            ScaleLayout::Mx => Some(32),
            ScaleLayout::Nvfp4 => Some(16),
            _ => None,
        }
    }

    /// The type of the scales of codes (or floats) of this type.
    ///
    /// # Errors
    /// `BadGraph` for rows that are no whole number of groups, blocks of nothing, too few axes, and
    /// for `nvfp4` of another format: its scales reach down to 2^-9 only.
    pub(super) fn scales(&self, name: &str, x: &Type) -> Result<Type> {
        let no = |why: &str| Err(Error::bad_graph(format!("{name}: x is {x}; {why}")));
        if self.layout == ScaleLayout::Nvfp4 && self.format != SmallFloat::F4E2M1 {
            return no(&format!("the layout nvfp4 is of f4e2m1, not of {}", self.format.name()));
        }
        let mut dims = x.shape.0.clone();
        if let Some(group) = self.group() {
            let Some(last) = dims.last_mut() else { return no("expected rows") };
            match last.as_static() {
                Some(n) if n.is_multiple_of(group) => *last = Dim::from(n / group),
                _ => return no(&format!("expected rows of whole groups of {group}")),
            }
            return Ok(Type::tensor(CODES, Shape(dims)));
        }
        if let ScaleLayout::Block { rows, columns, .. } = self.layout {
            let [.., m, k] = dims.as_mut_slice() else { return no("expected a matrix") };
            if rows == 0 || columns == 0 {
                return no(&format!("blocks of {rows} x {columns} hold nothing"));
            }
            *m = m.apply(DimOp::CeilDiv, &Dim::from(rows))?;
            *k = k.apply(DimOp::CeilDiv, &Dim::from(columns))?;
            return Ok(Type::tensor(DType::F32, Shape(dims)));
        }
        Ok(Type::tensor(DType::F32, Shape(vec![])))
    }

    /// Fails unless `codes` are bytes and `scales` fit them.
    pub(super) fn check(&self, name: &str, what: &str, codes: &Type, scales: &Type) -> Result<()> {
        if codes.dtype != CODES || codes.kind != Kind::Tensor {
            return Err(Error::bad_graph(format!(
                "{name}: {what} is {codes}, expected a tensor of u8 codes"
            )));
        }
        crate::ops::expect(name, &format!("scales of {what}"), scales, &self.scales(name, codes)?)
    }

    /// The scale that a byte means: E8M0 in the layout `mx`, f8e4m3 otherwise.
    pub(crate) fn scale_value(&self, code: u8) -> f64 {
        match self.layout {
            ScaleLayout::Mx => decode_e8m0(code),
            _ => SmallFloat::F8E4M3.decode(code),
        }
    }

    /// Index of the scale of element `i` of a value whose last axes are `rows` and `width`.
    #[cfg(feature = "reference")]
    pub(crate) fn scale_of(&self, i: usize, rows: usize, width: usize) -> usize {
        let (row, column) = (i / width.max(1), i % width.max(1));
        match (self.group(), self.layout) {
            (Some(group), _) => i / group as usize,
            (None, ScaleLayout::Block { rows: r, columns: c, .. }) => {
                let (across, down) = (width.div_ceil(c as usize), rows.div_ceil(r as usize));
                let (matrix, row) = (row / rows.max(1), row % rows.max(1));
                (matrix * down + row / r as usize) * across + column / c as usize
            }
            _ => 0,
        }
    }
}
