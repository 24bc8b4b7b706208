//! One input times 1..4 weights: `y_i = x W_i^T + b_i`, with an optional norm and an optional
//! quantisation of x before and an optional epilogue after.
//!
//! Segments keep weights apart: real files mix types within q, k and v, and no weight is ever
//! concatenated in a graph.

use super::{
    Attrs, Binary, Class, Emit, Field, Operator, QuantizeRows, RmsNorm, RowUse, Unary, attributes,
    expect, matrix, rules, writing,
};
use crate::error::{Error, Result};
use crate::types::{BlockFormat, DType, Kind, Shape, Type, ValueId};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// What happens to the products before they are stored.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub enum Epilogue {
    /// Nothing.
    #[default]
    None,
    /// `y + residual`, one segment.
    Add,
    /// `f(y)`, on every segment.
    Map(Unary),
    /// `f(y_0) * y_1`: two segments, gate and up, one result (arXiv:2002.05202).
    Glu(Unary),
}

/// An attribute of its own for each kind.
impl Field for Epilogue {
    fn put(&self, name: &str, attrs: Attrs) -> Attrs {
        match self {
            Epilogue::None => attrs,
            Epilogue::Add => attrs.name(name, "add"),
            Epilogue::Map(f) => f.put("map", attrs),
            Epilogue::Glu(f) => f.put("glu", attrs),
        }
    }

    fn take(of: &str, name: &str, attrs: &Attrs) -> Result<Self> {
        let function = |name: &str| Unary::take(of, name, attrs);
        match (attrs.opt_name(name)?, attrs.opt_name("map")?, attrs.opt_name("glu")?) {
            (None, None, None) => Ok(Epilogue::None),
            (Some("add"), None, None) => Ok(Epilogue::Add),
            (None, Some(_), None) => function("map").map(Epilogue::Map),
            (None, None, Some(_)) => function("glu").map(Epilogue::Glu),
            _ => Err(Error::bad_graph("matmul: more than one epilogue, or an unknown one")),
        }
    }

    fn names(name: &'static str, out: &mut Vec<&'static str>) {
        out.extend([name, "map", "glu"]);
    }
}

/// `matmul x [.., K], (norm [K])?, W_0 [N_0, K], …, (b_0 [N_0], …)?, (residual [.., N_0])?
/// -> y_0 [.., N_0], …`
///
/// `x` is of any float type, which results have too, or int8 blocks made by `quantize_rows`, whose
/// results are f32; weights are any float or packed type; norm and biases have the results' type
/// or f32. The norm, the products and the epilogue round to that type one after the other, as
/// steps of their own would.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct MatMul {
    /// Number of weights, 1..4.
    pub segments: usize,
    /// Whether each segment has a bias.
    pub bias: bool,
    /// RMS norm of the rows of `x` first, with this eps; its weight is operand 1.
    pub norm: Option<f32>,
    /// Rows of `x`, a matrix of f32 that is normed first if there is a norm, become int8 blocks of
    /// this format, as `quantize_rows` makes them.
    pub quantize: Option<BlockFormat>,
    /// Elements of `x` in f32 are rounded to the 11 bits of an f16, whose range they may exceed; behind the norm.
    pub half: bool,
    /// What happens to the products.
    pub epilogue: Epilogue,
}

attributes! { MatMul { segments = 1, bias, norm as "norm_eps", quantize, half, epilogue } }

/// Operand positions of a [`MatMul`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatMulParts {
    /// The norm's weight.
    pub norm: Option<usize>,
    /// The first weight; the others follow.
    pub weights: usize,
    /// The first bias; the others follow.
    pub biases: Option<usize>,
    /// The residual.
    pub residual: Option<usize>,
    /// Operands in all.
    pub count: usize,
}

impl MatMul {
    /// A plain product of one weight.
    pub fn plain() -> Self {
        MatMul { segments: 1, ..Self::default() }
    }

    /// Where each operand stands.
    pub fn parts(&self) -> MatMulParts {
        let mut at = 1;
        let mut take = |n: usize| {
            let first = at;
            at += n;
            first
        };
        let norm = self.norm.map(|_| take(1));
        let weights = take(self.segments);
        let biases = self.bias.then(|| take(self.segments));
        let residual = (self.epilogue == Epilogue::Add).then(|| take(1));
        MatMulParts { norm, weights, biases, residual, count: at }
    }
}

impl Operator for MatMul {
    const NAME: &'static str = "matmul";
    const CLASS: Class = Class::Compute;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        if !(1..=4).contains(&self.segments) {
            return Err(Error::bad_graph(format!(
                "matmul: {} segments, 1 to 4 fit",
                self.segments
            )));
        }
        let parts = self.parts();
        super::arity("matmul", operands, parts.count)?;
        let x = operands[0];
        let quantized = x.dtype.is_block();
        let [lead @ .., k] = x.shape.0.as_slice() else {
            return Err(Error::bad_graph(format!("matmul: x is {x}, expected at least one axis")));
        };
        let is_tensor = x.kind == Kind::Tensor;
        if !is_tensor || !(x.dtype.is_float() || x.dtype.is_block()) {
            return Err(Error::bad_graph(format!(
                "matmul: x is {x}, expected floats or int8 blocks"
            )));
        }
        let dtype = if quantized { DType::F32 } else { x.dtype };
        if let Some(at) = parts.norm {
            if quantized {
                return Err(Error::bad_graph("matmul: a norm prologue needs x in floats"));
            }
            rules::vector("matmul", "norm", operands[at], k, dtype)?;
        }
        if let Some(format) = self.quantize {
            QuantizeRows::to(format).infer(&[x])?;
        }
        if self.half && (x.dtype != DType::F32 || self.quantize.is_some()) {
            return Err(Error::bad_graph("matmul: half rounds x in f32, which becomes no blocks"));
        }
        let mut results = Vec::with_capacity(self.segments);
        for i in 0..self.segments {
            let w = operands[parts.weights + i];
            let (n, wk) = matrix("matmul", "weight", w)?;
            if !rules::is_weight(w) || wk.differs(k) {
                return Err(Error::bad_graph(format!(
                    "matmul: weight {i} is {w}, expected {k} columns to match x {}",
                    operands[0]
                )));
            }
            if let Some(first) = parts.biases {
                rules::vector("matmul", "bias", operands[first + i], &n, dtype)?;
            }
            let mut dims = lead.to_vec();
            dims.push(n);
            results.push(Type::tensor(dtype, Shape(dims)));
        }
        match self.epilogue {
            Epilogue::None | Epilogue::Map(_) => {}
            Epilogue::Add => {
                if self.segments != 1 {
                    return Err(Error::bad_graph("matmul: a residual needs one segment"));
                }
                // `parts.residual` is set exactly for this epilogue.
                if let Some(at) = parts.residual {
                    expect("matmul", "residual", operands[at], &results[0])?;
                }
            }
            Epilogue::Glu(_) => {
                if self.segments != 2 || results[0] != results[1] {
                    return Err(Error::bad_graph("matmul: glu needs two segments of one size"));
                }
                results.pop();
            }
        }
        Ok(results)
    }

    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let parts = self.parts();
        let (Some(&x), Some(weights)) = (operands.first(), operands.get(parts.weights..)) else {
            return Err(Error::internal("matmul: arity"));
        };
        let plain = MatMul { bias: self.bias, ..MatMul::plain() };
        // One step at a time, so that a target takes the largest piece it knows.
        if *self != plain {
            return self.apart(e, x, operands).map(Some);
        }
        let ty = e.ty(x).clone();
        let float = ty.dtype.is_float();
        if self.bias {
            let y = e.one(MatMul::plain(), &operands[..2])?;
            let bias = e.cast(operands[2], e.ty(y).dtype)?;
            return Ok(Some(vec![e.zip(Binary::Add, y, bias)?]));
        }
        if ty.shape.rank() != 2 {
            let rows = e.reshape(x, &[ty.shape.rows()?, ty.shape.last()])?;
            let y = e.one(plain, &[rows, weights[0]])?;
            let mut dims = ty.shape.0;
            dims.pop();
            dims.push(e.ty(y).shape.last());
            return Ok(Some(vec![e.reshape(y, &dims)?]));
        }
        if float && writing::is_half(ty.dtype) {
            let wide = e.cast(x, DType::F32)?;
            let y = e.one(plain, &[wide, weights[0]])?;
            return Ok(Some(vec![e.cast(y, ty.dtype)?]));
        }
        Ok(None)
    }

    fn row_use(&self, operand: usize, _: &[&Type]) -> RowUse {
        let rows = operand == 0 || self.parts().residual == Some(operand);
        if rows { RowUse::Same } else { RowUse::All }
    }
}

/// `x` in f32 to the nearest of 11 bits: T. J. Dekker, "A floating-point technique for extending the available
/// precision", Numerische Mathematik 18 (1971), section 5. Of two that are as near it may be either.
fn rounded_to_half(e: &mut dyn Emit, x: ValueId) -> Result<ValueId> {
    let large = e.zip_number(Binary::Mul, x, 8193.0)?;
    let rest = e.sub(large, x)?;
    e.sub(large, rest)
}

impl MatMul {
    /// A norm, a product for each segment, and the epilogue: the same bits.
    fn apart(&self, e: &mut dyn Emit, x: ValueId, operands: &[ValueId]) -> Result<Vec<ValueId>> {
        let parts = self.parts();
        let lacks = || Error::internal("matmul: arity");
        let operand = |at: usize| operands.get(at).copied().ok_or_else(lacks);
        let x = match (self.norm, parts.norm) {
            (Some(eps), Some(at)) => e.one(RmsNorm { eps }, &[x, operand(at)?])?,
            _ => x,
        };
        let x = match self.quantize {
            Some(format) => e.one(QuantizeRows::to(format), &[x])?,
            None if self.half => rounded_to_half(e, x)?,
            None => x,
        };
        let mut results = Vec::with_capacity(self.segments);
        for i in 0..self.segments {
            let mut inputs = vec![x, operand(parts.weights + i)?];
            if let Some(first) = parts.biases {
                inputs.push(operand(first + i)?);
            }
            results.push(e.one(MatMul { bias: self.bias, ..MatMul::plain() }, &inputs)?);
        }
        match (self.epilogue, results.as_slice()) {
            (Epilogue::None, _) => Ok(results),
            (Epilogue::Map(f), _) => results.into_iter().map(|y| e.map(f, y)).collect(),
            (Epilogue::Add, &[y]) => {
                let residual = operand(parts.residual.ok_or_else(lacks)?)?;
                Ok(vec![e.zip(Binary::Add, y, residual)?])
            }
            (Epilogue::Glu(f), &[gate, up]) => {
                let gate = e.map(f, gate)?;
                Ok(vec![e.zip(Binary::Mul, gate, up)?])
            }
            _ => Err(lacks()),
        }
    }
}
