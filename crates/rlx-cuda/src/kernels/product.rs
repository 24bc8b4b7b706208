//! `batch_matmul` and `dot_general`: products of two tensors over any axes, in tiles.
//!
//! A batch of `M` by `N` with `K` products of each takes `2 M N K` operations and reads `M K N / 64` elements of each
//! operand. Weights of many rows are `matmul`s, which the card's library has.

use super::elements::stored;
use super::takes::{self, Taken};
use super::tensor_axes::{Axes, Sizes, layout};
use super::{Context, Emit, Kernel, mismatch, scalar, unsupported};
use rlx_core::Result;
use rlx_core::ir::lir::{Slice, Step};
use rlx_core::ops::{DotGeneral, Op, Unary};
use rlx_core::target::Target;
use rlx_core::types::{DType, Type};

/// Rows and columns of a tile.
pub(super) const TILE: u64 = 64;

/// Two tensors of f32, f16 or bf16.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["transpose_b", "lhs_batch", "rhs_batch", "lhs_contract", "rhs_contract"])?;
    takes::are_floats(operands)
}

/// What is added to a product before it is rounded.
#[derive(Clone, Copy)]
pub(super) enum Added {
    /// A number for each column.
    ToColumns,
    /// A number for each of its own.
    ToAll,
}

/// `y [m, n] = x [m, k] w [n, k]^T` of rows, with what is added to it, and a function of the sum.
pub(super) fn of_rows(
    step: &Step,
    cx: &Context<'_>,
    [x, w, y]: [&Slice; 3],
    (added, map): (&[(&Slice, Added)], Option<Unary>),
) -> Result<Vec<Kernel>> {
    let ((m, k), (n, _)) = (super::matrix(x)?, super::matrix(w)?);
    let axis = |n, stride| Axes { dims: vec![n], strides: vec![stride] };
    let none = || Axes { dims: Vec::new(), strides: Vec::new() };
    let product = Product {
        batch: [none(), none()],
        rows: axis(m, k),
        columns: axis(n, k),
        k: [axis(k, 1), axis(k, 1)],
    };
    product.launch_of("matmul", step, cx, [x, w, y], (added, map))
}

/// A product, y `[batch.., rows.., columns..]` in that order.
struct Product {
    /// Batch axes, with strides of either operand: 0 where one repeats.
    batch: [Axes; 2],
    rows: Axes,
    columns: Axes,
    /// Contracted axes of either operand.
    k: [Axes; 2],
}

pub(super) fn batch_matmul(step: &Step, cx: &Context<'_>) -> Result<Vec<Kernel>> {
    let Op::BatchMatMul(op) = &step.op else { return Err(mismatch(step)) };
    let [a, b] = step.operands.as_slice() else { return Err(mismatch(step)) };
    let ((a_dims, a_steps), (b_dims, b_steps)) = (layout(&a.ty)?, layout(&b.ty)?);
    let y_dims = step.results[0].ty.shape.static_dims()?;
    let all = &y_dims[..y_dims.len() - 2];
    let batch = |own: &[u64], steps: &[u64]| {
        let own = &own[..own.len() - 2];
        let repeats = vec![0; all.len() - own.len()].into_iter();
        let steps = own.iter().zip(steps).map(|(&n, &step)| if n == 1 { 0 } else { step });
        Axes { dims: all.to_vec(), strides: repeats.chain(steps).collect() }
    };
    let (ra, rb) = (a_dims.len(), b_dims.len());
    let (bk, bn) = if op.transpose_b { (rb - 1, rb - 2) } else { (rb - 2, rb - 1) };
    let product = Product {
        batch: [batch(&a_dims, &a_steps), batch(&b_dims, &b_steps)],
        rows: Axes::of(&[ra - 2], &a_dims, &a_steps),
        columns: Axes::of(&[bn], &b_dims, &b_steps),
        k: [Axes::of(&[ra - 1], &a_dims, &a_steps), Axes::of(&[bk], &b_dims, &b_steps)],
    };
    product.launch("batch_matmul", step, cx)
}

pub(super) fn dot_general(step: &Step, cx: &Context<'_>) -> Result<Vec<Kernel>> {
    let Op::DotGeneral(op) = &step.op else { return Err(mismatch(step)) };
    let [a, b] = step.operands.as_slice() else { return Err(mismatch(step)) };
    let ((a_dims, a_steps), (b_dims, b_steps)) = (layout(&a.ty)?, layout(&b.ty)?);
    let of_a = |axes: &[usize]| Axes::of(axes, &a_dims, &a_steps);
    let of_b = |axes: &[usize]| Axes::of(axes, &b_dims, &b_steps);
    let product = Product {
        batch: [of_a(&op.lhs_batch), of_b(&op.rhs_batch)],
        rows: of_a(&DotGeneral::free(&op.lhs_batch, &op.lhs_contract, a_dims.len())),
        columns: of_b(&DotGeneral::free(&op.rhs_batch, &op.rhs_contract, b_dims.len())),
        k: [of_a(&op.lhs_contract), of_b(&op.rhs_contract)],
    };
    product.launch("dot_general", step, cx)
}

impl Product {
    fn launch(&self, entry: &'static str, step: &Step, cx: &Context<'_>) -> Result<Vec<Kernel>> {
        let [a, b] = step.operands.as_slice() else { return Err(mismatch(step)) };
        self.launch_of(entry, step, cx, [a, b, &step.results[0]], (&[], None))
    }

    /// The launch over these operands and this result, with what is added to it, and a function of the sum.
    fn launch_of(
        &self,
        entry: &'static str,
        step: &Step,
        cx: &Context<'_>,
        [a, b, y]: [&Slice; 3],
        (added, map): (&[(&Slice, Added)], Option<Unary>),
    ) -> Result<Vec<Kernel>> {
        let (batch, m, n) = (self.batch[0].size()?, self.rows.size()?, self.columns.size()?);
        if y.ty.shape.elements()? == 0 {
            return Ok(Vec::new());
        }
        let mut emit = cx.emit(step);
        describe_type(&mut emit, y.ty.dtype)?;
        emit.argument(a)?;
        emit.argument(b)?;
        emit.argument(y)?;
        let (mut parameters, mut sum) = (String::new(), "(v)".to_owned());
        for (i, (slice, added)) in added.iter().enumerate() {
            emit.argument(slice)?;
            parameters += &format!(", const T* added{i}");
            let place = match added {
                Added::ToColumns => "n",
                Added::ToAll => "size_t(m) * N + (n)",
            };
            sum += &format!(" + value_of(added{i}[{place}])");
        }
        emit.define("FOLLOWING_PARAMETERS", parameters);
        if let Some(f) = map {
            emit.apply(scalar::unary(f));
            sum = format!("apply({sum})");
        }
        emit.define("FOLLOWED(v, m, n)", format_args!("({sum})"));
        emit.size("M", m)?;
        emit.size("N", n)?;
        emit.size("K", self.k[0].size()?)?;
        emit.place_of("batch_of_a", &self.batch[0])?;
        emit.place_of("batch_of_w", &self.batch[1])?;
        operand(&mut emit, "Rows", a, [&self.rows, &self.k[0], &self.batch[0]])?;
        operand(&mut emit, "Columns", b, [&self.columns, &self.k[1], &self.batch[1]])?;
        let tiles = m.div_ceil(TILE).saturating_mul(n.div_ceil(TILE)).saturating_mul(batch);
        let text = concat!(
            include_str!("tf32.cuh"),
            include_str!("tile_sums.cuh"),
            include_str!("product_tile.cuh"),
            include_str!("product.cu")
        );
        let kernel = emit.kernel(
            entry,
            &text.replace("KERNEL(product)", &format!("KERNEL({entry})")),
            [tiles, 1, 1],
            256,
        )?;
        Ok(vec![kernel.alone()])
    }
}

/// Defines the type of elements, and what tensor cores are told of it.
pub(super) fn describe_type(emit: &mut Emit<'_>, dtype: DType) -> Result<()> {
    let stored = stored(dtype).ok_or_else(|| unsupported(format!("products of {dtype}")))?;
    emit.elements();
    emit.define("T", stored);
    emit.define(
        "KIND",
        match stored {
            "f16" => "F16",
            "bf16" => "Bf16",
            _ => "F32",
        },
    );
    Ok(())
}

/// Defines an operand of a tile by its axes: rows, products of a result, and batches.
pub(super) fn operand(
    emit: &mut Emit<'_>,
    name: &str,
    slice: &Slice,
    [rows, k, batch]: [&Axes; 3],
) -> Result<()> {
    let along_k = k.are_side_by_side() || !rows.are_side_by_side();
    let (inner, outer) = if along_k { (k, rows) } else { (rows, k) };
    let eights = |axes: &Axes| {
        let far = axes.dims.iter().zip(&axes.strides).filter(|(n, _)| **n > 1);
        far.into_iter().all(|(_, stride)| stride.is_multiple_of(8))
    };
    let whole = inner.in_eights()
        && eights(outer)
        && eights(batch)
        && emit.place(slice)?.offset.is_multiple_of(16);
    let place = |axes: &Axes| axes.place(&mut Sizes::InText);
    let (of_rows, of_k, count) = (place(rows)?, place(k)?, super::word(rows.size()?)?);
    let function = "static __device__ __forceinline__ size_t";
    emit.line(&format!(
        "struct {name} {{\n    static const u32 ROWS = {count}u;\n    \
         static const bool ALONG_K = {along_k}, IN_EIGHTS = {whole};\n    \
         {function} row(u32 i) {{ return {of_rows}; }}\n    \
         {function} k(u32 i) {{ return {of_k}; }}\n}};"
    ));
    Ok(())
}
