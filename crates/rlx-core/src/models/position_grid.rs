//! A grid of learned positions at another size: bicubic interpolation (Keys, IEEE ASSP 29, 1981) with
//! sizes that are known only when an image is given.
//!
//! Each axis is a product with a matrix `[OUT, grid]` of weights, which is computed from the numbers of
//! its rows and columns. At the grid's own size both matrices are the identity.

use super::encoder::zip;
use crate::error::Result;
use crate::ir::hir::{Module, Tensor};
use crate::ops::{
    BatchMatMul, Binary, Compare, Comparison, Constant, Iota, Map, Reduce, Reduction, Reshape,
    Select, Unary,
};
use crate::types::{DType, Dim, Shape};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// `table [grid * grid, width]` as `[1, height * width of the patches, width]`.
///
/// With `antialias` the kernel widens where an axis shrinks, and has the coefficient -0.5 in place of
/// -0.75, as PyTorch's `interpolate` has it.
pub(super) fn resized(
    m: &mut Module,
    table: Tensor,
    [grid, width]: [u64; 2],
    [rows, columns]: [&Dim; 2],
    antialias: bool,
) -> Result<Tensor> {
    let mut side = |out: &Dim, name: &str| {
        let mut b = Builder { m, label: format!("positions_{name}"), made: 0 };
        if antialias { b.widened(out, grid) } else { b.cubic(out, grid) }
    };
    let (down, along) = (side(rows, "rows")?, side(columns, "columns")?);
    let reshape = |m: &mut Module, x: Tensor, dims: Vec<Dim>, label: &str| {
        m.op(Reshape { dims: Shape(dims) }, &[x], label)
    };
    let product = BatchMatMul { transpose_b: false };
    let all = vec![Dim::from(grid), Dim::from(grid).mul(&Dim::from(width))?];
    let x = reshape(m, table, all, "positions_grid");
    let x = m.op(product.clone(), &[down, x], "positions_down");
    let x = reshape(m, x, vec![rows.clone(), grid.into(), width.into()], "positions_lines");
    let dims = vec![1u64.into(), columns.clone(), grid.into()];
    let along = reshape(m, along, dims, "positions_along_matrix");
    let x = m.op(product, &[along, x], "positions_along");
    let dims = vec![1u64.into(), rows.mul(columns)?, width.into()];
    Ok(reshape(m, x, dims, "positions_resized"))
}

/// Arithmetic on f32 matrices, each step with a label of its own.
struct Builder<'m> {
    m: &'m mut Module,
    label: String,
    made: u32,
}

impl Builder<'_> {
    fn next(&mut self) -> String {
        self.made += 1;
        format!("{}_{}", self.label, self.made)
    }

    fn number(&mut self, x: f64) -> Result<Tensor> {
        let label = self.next();
        Ok(self.m.op(Constant::scalar(DType::F32, x)?, &[], &label))
    }

    /// `f(a, b)`.
    fn of(&mut self, f: Binary, a: Tensor, b: Tensor) -> Tensor {
        let label = self.next();
        zip(self.m, f, [a, b], &label)
    }

    /// `f(a, b)` of a matrix and a number.
    fn by(&mut self, f: Binary, a: Tensor, b: f64) -> Result<Tensor> {
        let b = self.number(b)?;
        Ok(self.of(f, a, b))
    }

    fn map(&mut self, f: Unary, x: Tensor) -> Tensor {
        let label = self.next();
        self.m.op(Map { f }, &[x], &label)
    }

    fn test(&mut self, f: Comparison, a: Tensor, b: Tensor) -> Tensor {
        let label = self.next();
        self.m.op(Compare { f }, &[a, b], &label)
    }

    fn choose(&mut self, cond: Tensor, a: Tensor, b: Tensor) -> Tensor {
        let label = self.next();
        self.m.op(Select, &[cond, a, b], &label)
    }

    fn count(&mut self, dims: Vec<Dim>, axis: usize) -> Tensor {
        let label = self.next();
        self.m.op(Iota { dtype: DType::F32, dims: Shape(dims), axis }, &[], &label)
    }

    fn reduce(&mut self, f: Reduction, axis: usize, x: Tensor) -> Tensor {
        let label = self.next();
        self.m.op(Reduce { f, axes: vec![axis], keep: true }, &[x], &label)
    }

    /// `grid / OUT` `[1, 1]`, and the middles of the results, `(i + 0.5) grid / OUT`, `[OUT, 1]`.
    fn middles(&mut self, out: &Dim, grid: u64) -> Result<[Tensor; 2]> {
        let i = self.count(vec![out.clone(), 1u64.into()], 0);
        let last = self.reduce(Reduction::Max, 0, i);
        let sizes = self.by(Binary::Add, last, 1.0)?;
        let whole = self.number(grid as f64)?;
        let scale = self.of(Binary::Div, whole, sizes);
        let middle = self.by(Binary::Add, i, 0.5)?;
        Ok([scale, self.of(Binary::Mul, middle, scale)])
    }

    /// The kernel within 1 of its middle: `((a + 2) d - (a + 3)) d d + 1`.
    fn near(&mut self, d: Tensor, a: f64) -> Result<Tensor> {
        let y = self.by(Binary::Mul, d, a + 2.0)?;
        let y = self.by(Binary::Sub, y, a + 3.0)?;
        let y = self.of(Binary::Mul, y, d);
        let y = self.of(Binary::Mul, y, d);
        self.by(Binary::Add, y, 1.0)
    }

    /// The kernel from 1 to 2: `((a d - 5 a) d + 8 a) d - 4 a`.
    fn far(&mut self, d: Tensor, a: f64) -> Result<Tensor> {
        let y = self.by(Binary::Mul, d, a)?;
        let y = self.by(Binary::Sub, y, 5.0 * a)?;
        let y = self.of(Binary::Mul, y, d);
        let y = self.by(Binary::Add, y, 8.0 * a)?;
        let y = self.of(Binary::Mul, y, d);
        self.by(Binary::Sub, y, 4.0 * a)
    }

    /// Four neighbours of each place; those past an end are the end.
    fn cubic(&mut self, out: &Dim, grid: u64) -> Result<Tensor> {
        const A: f64 = -0.75;
        let [_, middle] = self.middles(out, grid)?;
        let place = self.by(Binary::Sub, middle, 0.5)?;
        let floor = self.map(Unary::Floor, place);
        let t = self.of(Binary::Sub, place, floor);
        let columns = self.count(vec![1u64.into(), grid.into()], 1);
        let (last, zero) = (grid.saturating_sub(1) as f64, self.number(0.0)?);
        let mut sum: Option<Tensor> = None;
        for offset in [-1.0, 0.0, 1.0, 2.0] {
            // From the neighbour to the place.
            let d = self.by(Binary::Sub, t, offset)?;
            let d = self.map(Unary::Abs, d);
            let is_near = offset == 0.0 || offset == 1.0;
            let weight = if is_near { self.near(d, A)? } else { self.far(d, A)? };
            let at = self.by(Binary::Add, floor, offset)?;
            let at = self.by(Binary::Max, at, 0.0)?;
            let at = self.by(Binary::Min, at, last)?;
            let is_here = self.test(Comparison::Eq, at, columns);
            let part = self.choose(is_here, weight, zero);
            sum = Some(match sum {
                Some(sum) => self.of(Binary::Add, sum, part),
                None => part,
            });
        }
        // There are four neighbours.
        Ok(sum.unwrap_or(zero))
    }

    /// The kernel as wide as what a result covers, its weights within the grid made to sum to 1.
    fn widened(&mut self, out: &Dim, grid: u64) -> Result<Tensor> {
        const A: f64 = -0.5;
        let [scale, middle] = self.middles(out, grid)?;
        let stretch = self.by(Binary::Max, scale, 1.0)?;
        let columns = self.count(vec![1u64.into(), grid.into()], 1);
        let columns = self.by(Binary::Add, columns, 0.5)?;
        let d = self.of(Binary::Sub, columns, middle);
        let d = self.of(Binary::Div, d, stretch);
        let d = self.map(Unary::Abs, d);
        let (near, far) = (self.near(d, A)?, self.far(d, A)?);
        let (one, two, zero) = (self.number(1.0)?, self.number(2.0)?, self.number(0.0)?);
        let is_far = self.test(Comparison::Lt, d, two);
        let weight = self.choose(is_far, far, zero);
        let is_near = self.test(Comparison::Le, d, one);
        let weight = self.choose(is_near, near, weight);
        let sum = self.reduce(Reduction::Sum, 1, weight);
        Ok(self.of(Binary::Div, weight, sum))
    }
}
