//! What the networks of SAM and SAM 2 are made of.

use super::super::tensors::Tensors;
use crate::error::Result;
use crate::ir::hir::{Module, Tensor, Weight};
use crate::ops::{
    Binary, Cast, Concat, Constant, Conv, ConvTranspose, Expand, Map, Mask, Pad, PadMode, Reshape,
    Sdpa, Slice, Transpose, Unary, Window, Zip,
};
use crate::types::{BATCH, DType, Dim, Shape};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// The name in SAM's files of the last projection of an attention.
pub(in crate::models) const OUT_PROJ: &str = "out_proj";

/// Added to the variance where the makers name no number.
pub(in crate::models) const EPS: f32 = 1e-6;

/// Axes of a padded grid in windows: `[B, rows, w, columns, w, D]` to `[B, rows, columns, w, w, D]` and back.
const WINDOWS: [usize; 6] = [0, 1, 3, 2, 4, 5];

/// A module and the file's tensors, while blocks are appended.
pub(in crate::models) struct Make<'a, 't> {
    pub m: Module,
    pub tensors: &'a Tensors<'t>,
    /// What the last projection of an attention is called.
    pub out_proj: &'static str,
    /// What stands before every name in the file, and in no label.
    pub prefix: &'static str,
}

impl Make<'_, '_> {
    /// A tensor of the file in f32, whichever floats the file has: beside a matrix's rows all is f32.
    pub fn tensor(&mut self, name: &str, dims: &[u64]) -> Result<Tensor> {
        let weight = self.tensors.weight(&format!("{}{name}", self.prefix), dims)?;
        let dtype = weight.ty.dtype;
        let at = self.m.weight(weight);
        Ok(match dtype {
            DType::F32 => at,
            _ => self.m.op(Cast { to: DType::F32 }, &[at], &format!("{name}_f32")),
        })
    }

    pub fn vectors(&self, name: &str, dim: u64) -> Result<[Weight; 2]> {
        let of = |part| self.tensors.weight(&format!("{}{name}.{part}", self.prefix), &[dim]);
        Ok([of("weight")?, of("bias")?])
    }

    pub fn norm(&mut self, x: Tensor, name: &str, dim: u64, eps: f32) -> Result<Tensor> {
        let [scale, bias] = self.vectors(name, dim)?;
        Ok(self.m.layer_norm(x, scale, Some(bias), eps, name))
    }

    /// A norm over the channels of `[N, C, H, W]`.
    pub fn norm_2d(&mut self, x: Tensor, name: &str, dim: u64, eps: f32) -> Result<Tensor> {
        let scale = self.tensor(&format!("{name}.weight"), &[dim])?;
        let bias = self.tensor(&format!("{name}.bias"), &[dim])?;
        Ok(self.m.op(crate::ops::LayerNorm2d { eps }, &[x, scale, bias], name))
    }

    /// `[.., input] -> [.., out]`.
    pub fn linear(
        &mut self,
        x: Tensor,
        name: &str,
        [out, input]: [u64; 2],
        act: Option<Unary>,
    ) -> Result<Tensor> {
        let whole = format!("{}{name}", self.prefix);
        let weights = self.tensors.linear_biased(&whole, [out, input], Some(true))?;
        Ok(self.m.linear_act(x, weights, act, name))
    }

    /// A convolution with a square kernel: `shape` is `[out, in, kernel]`.
    pub fn conv(
        &mut self,
        x: Tensor,
        name: &str,
        [out, input, kernel]: [u64; 3],
        window: Window,
        bias: bool,
    ) -> Result<Tensor> {
        let mut operands =
            Vec::from([x, self.tensor(&format!("{name}.weight"), &[out, input, kernel, kernel])?]);
        if bias {
            operands.push(self.tensor(&format!("{name}.bias"), &[out])?);
        }
        Ok(self.m.op(Conv { window, groups: 1, bias }, &operands, name))
    }

    /// A transposed convolution of 2 by 2 that makes the grid twice as fine.
    pub fn twice(&mut self, x: Tensor, name: &str, [out, input]: [u64; 2]) -> Result<Tensor> {
        let weight = self.tensor(&format!("{name}.weight"), &[input, out, 2, 2])?;
        let bias = self.tensor(&format!("{name}.bias"), &[out])?;
        let window = Window::new(2).stride(&[2, 2]);
        let op = ConvTranspose { window, extra: Vec::from([0, 0]), groups: 1, bias: true };
        Ok(self.m.op(op, &[x, weight, bias], name))
    }

    pub fn reshape(&mut self, x: Tensor, dims: &[Dim], label: &str) -> Tensor {
        self.m.op(Reshape { dims: Shape(dims.to_vec()) }, &[x], label)
    }

    pub fn expand(&mut self, x: Tensor, dims: &[Dim], label: &str) -> Tensor {
        self.m.op(Expand { dims: Shape(dims.to_vec()) }, &[x], label)
    }

    pub fn transpose(&mut self, x: Tensor, perm: &[usize], label: &str) -> Tensor {
        self.m.op(Transpose { perm: perm.to_vec() }, &[x], label)
    }

    pub fn slice(&mut self, x: Tensor, axis: usize, start: u64, len: Dim, label: &str) -> Tensor {
        self.m.op(Slice { axis, start: Dim::from(start), len, step: 1 }, &[x], label)
    }

    pub fn concat(&mut self, parts: &[Tensor], axis: usize, label: &str) -> Tensor {
        self.m.op(Concat { axis }, parts, label)
    }

    pub fn map(&mut self, f: Unary, x: Tensor, label: &str) -> Tensor {
        self.m.op(Map { f }, &[x], label)
    }

    pub fn zip(&mut self, f: Binary, a: Tensor, b: Tensor, label: &str) -> Tensor {
        self.m.op(Zip { f }, &[a, b], label)
    }

    pub fn add(&mut self, a: Tensor, b: Tensor, label: &str) -> Tensor {
        self.zip(Binary::Add, a, b, label)
    }

    /// A number of that type.
    pub fn number(&mut self, dtype: DType, x: f64, label: &str) -> Result<Tensor> {
        Ok(self.m.op(Constant::scalar(dtype, x)?, &[], label))
    }

    pub fn scaled(&mut self, x: Tensor, by: f64, label: &str) -> Result<Tensor> {
        let by = self.number(DType::F32, by, &format!("{label}_factor"))?;
        Ok(self.zip(Binary::Mul, x, by, label))
    }

    /// A grid cut into windows of `w x w` places: `[BATCH, grid, grid, D]` to `[N, w, w, D]`, and `N`. Where windows
    /// do not divide it, it is padded at its bottom and right with zeros.
    pub fn windows(
        &mut self,
        x: Tensor,
        name: &str,
        d: Dim,
        [grid, w]: [u64; 2],
    ) -> Result<(Tensor, Dim)> {
        let of = |part: &str| format!("{name}.{part}");
        let (batch, across) = (Dim::symbol(BATCH), grid.div_ceil(w));
        let whole = across * w;
        let mut x = x;
        if whole != grid {
            let high = vec![0, whole - grid, whole - grid, 0];
            let pad = Pad { low: vec![0; 4], high, mode: PadMode::Constant(0.0) };
            x = self.m.op(pad, &[x], &of("pad"));
        }
        let split = [batch.clone(), across.into(), w.into(), across.into(), w.into(), d.clone()];
        let x = self.reshape(x, &split, &of("split"));
        let x = self.transpose(x, &WINDOWS, &of("windows"));
        let items = batch.mul(&Dim::from(across * across))?;
        let x = self.reshape(x, &[items.clone(), w.into(), w.into(), d], &of("items"));
        Ok((x, items))
    }

    /// Windows put together again: `[N, w, w, D]`, `across` along an edge, to `[BATCH, grid, grid, D]`. What was padded
    /// is cut off.
    pub fn grid_of_windows(
        &mut self,
        y: Tensor,
        name: &str,
        d: Dim,
        [grid, w, across]: [u64; 3],
    ) -> Tensor {
        let of = |part: &str| format!("{name}.{part}");
        let (batch, whole) = (Dim::symbol(BATCH), across * w);
        let back = [batch.clone(), across.into(), across.into(), w.into(), w.into(), d.clone()];
        let y = self.reshape(y, &back, &of("back"));
        let y = self.transpose(y, &WINDOWS, &of("places"));
        let mut y = self.reshape(y, &[batch, whole.into(), whole.into(), d], &of("grid"));
        if whole != grid {
            for axis in [1, 2] {
                y = self.slice(y, axis, 0, grid.into(), &of(&format!("crop{axis}")));
            }
        }
        y
    }

    /// `q [N, S, C], k, v [N, T, C] -> [N, S, C]`, over heads that are `inner` wide together.
    pub fn attention(&mut self, rows: [Tensor; 3], name: &str, widths: [u64; 3]) -> Result<Tensor> {
        self.attention_to(rows, name, widths, (Mask::None, None))
    }

    /// The same where a query sees some of the keys, or some of them better than others.
    pub fn attention_to(
        &mut self,
        [q, k, v]: [Tensor; 3],
        name: &str,
        [width, inner, heads]: [u64; 3],
        (mask, seen): (Mask, Option<Tensor>),
    ) -> Result<Tensor> {
        let mut project = |x, part| self.linear(x, &format!("{name}.{part}"), [inner, width], None);
        let mut rows =
            Vec::from([project(q, "q_proj")?, project(k, "k_proj")?, project(v, "v_proj")?]);
        rows.extend(seen);
        let op = Sdpa { mask, ..Sdpa::new(heads as usize, (inner / heads.max(1)) as usize) };
        let y = self.m.op(op, &rows, name);
        self.linear(y, &format!("{name}.{}", self.out_proj), [width, inner], None)
    }
}
