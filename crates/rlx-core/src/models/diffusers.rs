//! What models of the library diffusers share: keys of their configurations, and the small steps that their
//! networks are written with.
//!
//! Activations are f32. Matrices keep the element type of the file; what convolutions and norms read is made f32.

use super::keys::Keys;
use super::tensors::Tensors;
use crate::error::Result;
use crate::ir::hir::{self, Module, Tensor, Weight};
use crate::ops::{
    Binary, Cast, Concat, Constant, Conv, Expand, Map, Reshape, Slice, Transpose, Unary, Window,
    Zip,
};
use crate::types::{DType, Dim, Shape, Type};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// Reads the keys that every configuration of diffusers has and that change nothing a network computes.
pub(super) fn common(keys: &Keys<'_>) {
    keys.inert(&["_class_name", "_diffusers_version", "_name_or_path", "dtype", "torch_dtype"]);
}

/// A network that is being written, and the file's tensors.
pub(super) struct Net<'t, 'f> {
    /// What is written.
    pub m: Module,
    /// Where its weights are looked up.
    pub tensors: &'t Tensors<'f>,
}

/// A size without symbols.
pub(super) fn fixed(n: u64) -> Dim {
    Dim::from(n)
}

impl<'t, 'f> Net<'t, 'f> {
    /// An empty network of that name.
    pub fn new(name: &str, tensors: &'t Tensors<'f>) -> Self {
        Net { m: Module::graph(name), tensors }
    }

    /// An input of f32.
    pub fn input(&mut self, name: &str, dims: Vec<Dim>) -> Tensor {
        self.m.input(name, Type::tensor(DType::F32, Shape(dims)))
    }

    /// A point that a record is compared with; `name` is the recorded one behind `sub.`.
    pub fn tap(&mut self, name: impl Into<String>, x: Tensor) {
        self.m.tap(name, x);
    }

    /// A weight in f32.
    pub fn wide(&mut self, name: &str, dims: &[u64]) -> Result<Tensor> {
        let weight: Weight = self.tensors.weight(name, dims)?;
        let dtype = weight.ty.dtype;
        let w = self.m.weight(weight);
        Ok(match dtype {
            DType::F32 => w,
            _ => self.m.op(Cast { to: DType::F32 }, &[w], &format!("{name}_f32")),
        })
    }

    /// A linear layer of `[out, in]`; `bias` is whether there must be one.
    pub fn linear(&mut self, x: Tensor, name: &str, sizes: [u64; 2], bias: bool) -> Result<Tensor> {
        let weights = self.tensors.linear_biased(name, sizes, Some(bias))?;
        let w = self.m.weight(weights.weight);
        let Some(b) = weights.bias else {
            return Ok(self.m.push(hir::Linear { bias: false, act: None }, &[x, w], name));
        };
        let b = self.wide(&b.name, &sizes[..1])?;
        Ok(self.m.push(hir::Linear { bias: true, act: None }, &[x, w, b], name))
    }

    /// `name.weight` and `name.bias` of a norm over so many channels, in f32.
    pub fn affine(&mut self, name: &str, channels: u64) -> Result<[Tensor; 2]> {
        let scale = self.wide(&format!("{name}.weight"), &[channels])?;
        Ok([scale, self.wide(&format!("{name}.bias"), &[channels])?])
    }

    /// A convolution of two axes with a square kernel and a bias: `[N, in, H, W] -> [N, out, ..]`.
    pub fn conv(
        &mut self,
        x: Tensor,
        name: &str,
        [out, input, kernel]: [u64; 3],
        window: Window,
    ) -> Result<Tensor> {
        let w = self.wide(&format!("{name}.weight"), &[out, input, kernel, kernel])?;
        let b = self.wide(&format!("{name}.bias"), &[out])?;
        let conv = Conv { window, groups: 1, bias: true };
        Ok(self.m.push(hir::Conv { conv, act: None }, &[x, w, b], name))
    }

    /// The same numbers as another shape.
    pub fn reshape(&mut self, x: Tensor, dims: Vec<Dim>, label: &str) -> Tensor {
        self.m.op(Reshape { dims: Shape(dims) }, &[x], label)
    }

    /// Axis `i` of the result is axis `perm[i]`.
    pub fn transpose(&mut self, x: Tensor, perm: &[usize], label: &str) -> Tensor {
        self.m.op(Transpose { perm: perm.to_vec() }, &[x], label)
    }

    /// `len` elements of an axis.
    pub fn slice(&mut self, x: Tensor, axis: usize, [start, len]: [Dim; 2], label: &str) -> Tensor {
        self.m.op(Slice { axis, start, len, step: 1 }, &[x], label)
    }

    /// One tensor behind another along an axis.
    pub fn concat(&mut self, both: [Tensor; 2], axis: usize, label: &str) -> Tensor {
        self.m.op(Concat { axis }, &both, label)
    }

    /// `f(a, b)`, which repeat to each other.
    pub fn zip(&mut self, f: Binary, both: [Tensor; 2], label: &str) -> Tensor {
        self.m.op(Zip { f }, &both, label)
    }

    /// `f(x)`.
    pub fn map(&mut self, f: Unary, x: Tensor, label: &str) -> Tensor {
        self.m.op(Map { f }, &[x], label)
    }

    /// `f(x, number)`.
    pub fn with_number(
        &mut self,
        f: Binary,
        x: Tensor,
        number: f64,
        label: &str,
    ) -> Result<Tensor> {
        let number = self.m.op(Constant::scalar(DType::F32, number)?, &[], &format!("{label}_by"));
        Ok(self.zip(f, [x, number], label))
    }

    /// A vector of f32 that is known here.
    pub fn numbers(&mut self, x: &[f32], label: &str) -> Result<Tensor> {
        Ok(self.m.op(Constant::f32s(&[x.len() as u64], x)?, &[], label))
    }

    /// A vector of indices that is known here.
    pub fn indices(&mut self, x: &[u32], label: &str) -> Result<Tensor> {
        let ty = Type::tensor(DType::U32, Shape::of(&[x.len() as u64]));
        let bytes = x.iter().flat_map(|i| i.to_le_bytes()).collect();
        Ok(self.m.op(Constant::new(ty, bytes)?, &[], label))
    }

    /// Every element of the last two axes twice along both: `[N, C, H, W] -> [N, C, 2 H, 2 W]`.
    pub fn twice(&mut self, x: Tensor, [n, c, h, w]: [Dim; 4], label: &str) -> Result<Tensor> {
        let (one, two) = (fixed(1), fixed(2));
        let apart = vec![n.clone(), c.clone(), h.clone(), one.clone(), w.clone(), one];
        let x = self.reshape(x, apart, &format!("{label}_apart"));
        let dims = vec![n.clone(), c.clone(), h.clone(), two.clone(), w.clone(), two.clone()];
        let x = self.m.op(Expand { dims: Shape(dims) }, &[x], &format!("{label}_twice"));
        Ok(self.reshape(x, vec![n, c, h.mul(&two)?, w.mul(&two)?], label))
    }
}
