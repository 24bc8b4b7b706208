//! Rotary positions of a grid, one half of a head by column and one by row (SAM 2, SAM 3).

use crate::error::{Error, Result};
use crate::math;
use crate::ops::{Class, Concat, Emit, Operator, arity, attributes, float_tensor};
use crate::types::{DType, Dim, Type, ValueId};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// `axial_rope_2d x [.., S, heads * head_dim] -> the same`.
///
/// Token s of the grid has column `s mod end_x` and row `s / end_x mod end_y`. Neighbours
/// (2j, 2j + 1) of a head are turned by `position * scale * theta^(-4j / head_dim)`: by the column
/// in the first half of the head, by the row (and j from 0 again) in the second. The grid occurs
/// `repeat` times in a row; tokens past that, and there may be any number, are left as they are.
#[derive(Clone, Debug, PartialEq)]
pub struct AxialRope2d {
    /// Columns of the grid.
    pub end_x: u64,
    /// Rows of the grid.
    pub end_y: u64,
    /// Elements of a head, a multiple of 4.
    pub head_dim: u64,
    /// Heads in a row.
    pub heads: u64,
    /// Base of the frequencies.
    pub theta: f32,
    /// How often the grid occurs along S.
    pub repeat: u64,
    /// Factor on positions; 1 for none.
    pub scale: f32,
}

attributes! { AxialRope2d { end_x, end_y, head_dim, heads, theta, repeat, scale = 1.0 } }

impl Operator for AxialRope2d {
    const NAME: &'static str = "axial_rope_2d";
    const CLASS: Class = Class::Movement;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("axial_rope_2d", operands, 1)?;
        let x = operands[0];
        float_tensor("axial_rope_2d", "x", x)?;
        let tokens = self.tokens().filter(|&n| n > 0);
        let width = self.heads.checked_mul(self.head_dim).filter(|&n| n > 0);
        let (Some(tokens), Some(width), true) =
            (tokens, width, self.head_dim.is_multiple_of(4) && self.theta > 0.0)
        else {
            return Err(Error::bad_graph(format!(
                "axial_rope_2d: a grid of {} x {}, {} times, with {} heads of {} and theta {}; expected sizes of 1 or more, heads in fours",
                self.end_x, self.end_y, self.repeat, self.heads, self.head_dim, self.theta
            )));
        };
        let [.., rows, last] = x.shape.0.as_slice() else {
            return Err(Error::bad_graph(format!(
                "axial_rope_2d: x is {x}, expected [.., S, {width}]"
            )));
        };
        let short = rows.as_static().is_some_and(|n| n < tokens);
        if short || *last != Dim::from(width) {
            return Err(Error::bad_graph(format!(
                "axial_rope_2d: x is {x}, expected [.., S, {width}] with S of {tokens} or more"
            )));
        }
        Ok(vec![x.clone()])
    }

    /// `x * cos + x' * sin` with the neighbours of each pair swapped in x'. `None` for a symbolic
    /// number of tokens.
    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let &[x] = operands else { return Ok(None) };
        let (dtype, dims) = (e.ty(x).dtype, e.dims(x));
        let [lead @ .., rows, width] = dims.as_slice() else { return Ok(None) };
        let (Some(rows), Some(tokens)) = (rows.as_static(), self.tokens()) else {
            return Ok(None);
        };
        let (axis, heads, head) = (lead.len(), Dim::from(self.heads), Dim::from(self.head_dim));
        let turned = e.slice(x, axis, 0u64, tokens)?;
        let turned = e.wide(turned)?;
        let grid = [self.repeat.into(), (tokens / self.repeat).into(), heads, head];
        let turned = e.reshape(turned, &lead.iter().chain(&grid).cloned().collect::<Vec<_>>())?;
        let swapped: Vec<f64> = (0..self.head_dim).map(|i| (i ^ 1) as f64).collect();
        let swapped = e.constant(DType::U32, &[self.head_dim], &swapped)?;
        let swapped = e.gather(turned, axis + 3, swapped)?;
        let cos = self.table(e, turned, |(cos, _)| [cos, cos])?;
        let sin = self.table(e, turned, |(_, sin)| [-sin, sin])?;
        let (a, c) = (e.mul(turned, cos)?, e.mul(swapped, sin)?);
        let sum = e.add(a, c)?;
        let flat = [Dim::from(tokens), width.clone()];
        let sum = e.reshape(sum, &lead.iter().chain(&flat).cloned().collect::<Vec<_>>())?;
        let sum = e.cast(sum, dtype)?;
        if rows == tokens {
            return Ok(Some(vec![sum]));
        }
        let rest = e.slice(x, axis, tokens, rows - tokens)?;
        Ok(Some(vec![e.one(Concat { axis }, &[sum, rest])?]))
    }
}

impl AxialRope2d {
    /// Tokens that are turned.
    pub(crate) fn tokens(&self) -> Option<u64> {
        self.end_x.checked_mul(self.end_y)?.checked_mul(self.repeat)
    }

    /// Cosine and sine for each pair of a head, at a token of the grid.
    pub(crate) fn turns(&self, token: u64) -> Vec<(f64, f64)> {
        let quarter = self.head_dim / 4;
        let angle = |i: u64| {
            let (position, j) = match i.checked_sub(quarter) {
                None => (token % self.end_x, i),
                Some(j) => (token / self.end_x % self.end_y, j),
            };
            let exponent = -4.0 * j as f64 / self.head_dim as f64;
            let frequency = math::pow(f64::from(self.theta), exponent);
            let angle = position as f64 * f64::from(self.scale) * frequency;
            (math::cos(angle), math::sin(angle))
        };
        (0..2 * quarter).map(angle).collect()
    }
}

impl AxialRope2d {
    /// `[grid, 1, head_dim]` of two numbers for each pair: a row of the grid has its columns' first
    /// halves, a column its rows' second halves.
    fn table(
        &self,
        e: &mut dyn Emit,
        like: ValueId,
        two: fn((f64, f64)) -> [f64; 2],
    ) -> Result<ValueId> {
        let (dtype, half, quarter) =
            (e.ty(like).dtype, self.head_dim / 2, self.head_dim as usize / 4);
        let (x, y) = (self.end_x, self.end_y);
        let columns: Vec<f64> =
            (0..x).flat_map(|i| self.turns(i).into_iter().take(quarter).flat_map(two)).collect();
        let rows: Vec<f64> = (0..y)
            .flat_map(|i| self.turns(i * x).into_iter().skip(quarter).flat_map(two))
            .collect();
        let columns = e.constant(dtype, &[1, x, half], &columns)?;
        let rows = e.constant(dtype, &[y, 1, half], &rows)?;
        let whole = [y, x, half].map(Dim::from).to_vec();
        let (columns, rows) = (e.expand(columns, &whole)?, e.expand(rows, &whole)?);
        let both = e.one(Concat { axis: 2 }, &[columns, rows])?;
        e.reshape(both, &[x * y, 1, self.head_dim].map(Dim::from))
    }
}
