//! The rows that reach the head: the last real ones.

use super::{
    Attrs, Binary, Class, Emit, Field, Gather, Operator, RowUse, arity, control_block, matrix,
};
use crate::error::{Error, Result};
use crate::types::{Binding, Dim, Kind, Shape, Type, ValueId};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// `take_rows x [S, D], ctl -> [rows, D]`: rows `len - rows .. len` of `x`, of any float type; rows
/// before the first are row 0.
#[derive(Clone, Debug, PartialEq)]
pub struct TakeRows {
    /// Rows taken.
    pub rows: Dim,
}

/// A size, of which an error says that it is no name.
impl Field for TakeRows {
    fn put(&self, _: &str, attrs: Attrs) -> Attrs {
        attrs.dim("rows", &self.rows)
    }

    fn take(_: &str, _: &str, attrs: &Attrs) -> Result<Self> {
        let rows = match attrs.opt_int("rows") {
            Ok(Some(n)) => Dim::from(n),
            _ => Dim::parse(attrs.get_name("rows")?)?,
        };
        Ok(TakeRows { rows })
    }

    fn names(_: &'static str, out: &mut Vec<&'static str>) {
        out.push("rows");
    }
}

impl Operator for TakeRows {
    const NAME: &'static str = "take_rows";
    const CLASS: Class = Class::Movement;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("take_rows", operands, 2)?;
        let (rows, width) = matrix("take_rows", "x", operands[0])?;
        super::control("take_rows", operands[1])?;
        let too_many = self.rows.as_static().zip(rows.as_static()).is_some_and(|(r, s)| r > s);
        if too_many || !(operands[0].kind == Kind::Tensor && operands[0].dtype.is_float()) {
            return Err(Error::bad_graph(format!(
                "take_rows: x is {}, expected floats with at least {} rows",
                operands[0], self.rows
            )));
        }
        Ok(vec![Type::tensor(operands[0].dtype, Shape(vec![self.rows.clone(), width]))])
    }

    /// Rows of an embedding.
    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let [x, ctl] = *operands else { return Err(Error::internal("take_rows: arity")) };
        let (dtype, dims) = (e.ty(x).dtype, e.dims(x));
        let (Some(rows), Some(have)) =
            (self.rows.as_static(), dims.first().and_then(Dim::as_static))
        else {
            return Ok(None);
        };
        let len = e.control_word(ctl, control_block::LEN)?;
        let len = e.zip_number(Binary::Min, len, have as f64)?;
        // len + i - rows, but not below 0: u32 have no sign.
        let i = e.iota(core::slice::from_ref(&self.rows), 0)?;
        let end = e.zip(Binary::Add, len, i)?;
        let end = e.zip_number(Binary::Max, end, rows as f64)?;
        let ids = e.zip_number(Binary::Sub, end, rows as f64)?;
        let y = e.one(Gather::default(), &[x, ids])?;
        Ok(Some(vec![e.cast(y, dtype)?]))
    }

    fn bind(&mut self, binding: &Binding) -> Result<()> {
        self.rows = self.rows.bind(binding)?;
        Ok(())
    }

    fn row_use(&self, operand: usize, _: &[&Type]) -> RowUse {
        if operand == 0 { RowUse::Live } else { RowUse::All }
    }

    fn control(&self, _: usize) -> Option<usize> {
        Some(1)
    }
}
