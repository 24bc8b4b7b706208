//! Operators: one file each with attributes, arity and type rule.
//!
//! `enum Op` is written by hand, one struct a variant; a macro makes only names and delegation.
//! Every operator is pure. One that writes a state takes the old version and returns the next.
//!
//! # Primitives of data
//!
//! What the other operators on data decompose into, and a target must run itself:
//!
//! ```text
//! constant iota random_uniform random_normal
//! map zip compare select cast
//! reduce (sum, max, min, prod; of no known size mean too)
//! sort
//! reshape transpose slice concat expand
//! gather
//! ```
//!
//! `map` is one of the functions that [`Unary::is_composed`] leaves; `erf` in f64 is one more.
//! `gather_elements`, `reverse`, `roll`, `pad` but of a constant, and `scatter_add` with signed ids
//! have parts where the sizes that their indices need are known.

mod argmax;
mod argmin;
mod attention;
mod attr;
mod batch_matmul;
mod bodies;
mod cast;
mod clamp;
mod compare;
mod concat;
mod constant;
mod cumsum;
mod custom;
mod dot_general;
mod elementwise_region;
mod expand;
mod fit;
mod gated_delta_net;
mod gather;
mod gather_elements;
mod grouped_matmul;
mod if_else;
mod iota;
mod kv_write;
mod lora_matmul;
mod map;
mod matmul;
mod pad;
mod parts;
mod quantize_rows;
mod random_normal;
mod random_uniform;
mod recurrence;
mod reduce;
mod reshape;
mod reverse;
mod rms_norm;
mod roll;
mod rope;
mod rope_kv_write;
mod rope_table;
mod rules;
mod sample;
mod scalar;
mod scan;
mod scatter_add;
mod sdpa;
mod select;
mod selective_scan;
mod slice;
mod softmax;
mod sort;
mod state_read;
mod state_write;
mod take_rows;
mod token;
mod top_k;
mod transpose;
mod unpack;
mod while_loop;
pub(crate) mod words;
mod writing;
mod zip;

// Norms, vision, spectra, solvers and quantisation.
mod ada_norm;
#[cfg(feature = "vision")]
mod axial_rope_2d;
#[cfg(feature = "vision")]
mod batch_norm_inference;
mod build;
#[cfg(feature = "linalg")]
mod cholesky;
#[cfg(feature = "audio")]
mod complex_norm_sq;
#[cfg(feature = "audio")]
mod conjugate;
#[cfg(feature = "vision")]
mod conv;
#[cfg(feature = "vision")]
mod conv_transpose;
#[cfg(feature = "linalg")]
mod dense_solve;
#[cfg(feature = "quant")]
mod dequantize;
#[cfg(feature = "quant")]
mod fake_quantize;
#[cfg(feature = "quant")]
mod fake_quantize_lsq;
#[cfg(feature = "audio")]
mod fft;
mod gated_residual;
#[cfg(feature = "vision")]
mod group_norm;
#[cfg(feature = "vision")]
mod im2col;
#[cfg(feature = "vision")]
mod interpolate;
mod layer_norm;
#[cfg(feature = "vision")]
mod layer_norm_2d;
#[cfg(feature = "audio")]
mod log_mel;
mod norms;
#[cfg(feature = "vision")]
mod pool;
#[cfg(all(feature = "quant", feature = "vision"))]
mod q_conv2d;
#[cfg(feature = "quant")]
mod q_matmul;
#[cfg(feature = "quant")]
mod quantize;
mod residual_layer_norm;
mod residual_rms_norm;
#[cfg(feature = "quant")]
mod scaled_dequantize;
#[cfg(feature = "quant")]
mod scaled_matmul;
#[cfg(feature = "quant")]
mod scaled_quantize;
#[cfg(feature = "quant")]
mod scaling;
#[cfg(any(feature = "vision", feature = "audio"))]
mod slide;
#[cfg(feature = "vision")]
mod window;

pub use argmax::ArgMax;
pub use argmin::ArgMin;
pub use attention::Attention;
pub use attr::{Attr, Attrs};
pub use batch_matmul::BatchMatMul;
pub use cast::Cast;
pub use clamp::Clamp;
pub use compare::Compare;
pub use concat::Concat;
pub use constant::Constant;
pub use cumsum::CumSum;
pub use custom::{Custom, CustomOperator, CustomSet};
pub use dot_general::DotGeneral;
pub use elementwise_region::{Region, RegionStep, StepFn, StepOperand};
pub use expand::Expand;
pub use gated_delta_net::GatedDeltaNet;
pub use gather::Gather;
pub use gather_elements::GatherElements;
pub use grouped_matmul::GroupedMatMul;
pub use if_else::If;
pub use iota::Iota;
pub use kv_write::KvWrite;
pub use lora_matmul::LoraMatMul;
pub use map::Map;
pub use matmul::{Epilogue, MatMul, MatMulParts};
pub use pad::{Pad, PadMode};
pub use quantize_rows::QuantizeRows;
pub use random_normal::RandomNormal;
pub use random_uniform::RandomUniform;
pub use reduce::Reduce;
pub use reshape::Reshape;
pub use reverse::Reverse;
pub use rms_norm::RmsNorm;
pub use roll::Roll;
pub use rope::{Rope, RopeStyle};
pub use rope_kv_write::RopeKvWrite;
pub use rope_table::{RopeScaling, RopeTable};
pub use sample::Sample;
pub use scalar::{Binary, Comparison, Reduction, Unary};
pub use scan::Scan;
pub use scatter_add::ScatterAdd;
pub use sdpa::{HeadLayout, Mask, Sdpa};
pub use select::Select;
pub use selective_scan::SelectiveScan;
pub use slice::Slice;
pub use softmax::Softmax;
pub use sort::Sort;
pub use state_read::StateRead;
pub use state_write::StateWrite;
pub use take_rows::TakeRows;
pub use token::Token;
pub use top_k::TopK;
pub use transpose::Transpose;
pub use unpack::Unpack;
pub use while_loop::While;
pub use zip::Zip;

pub use ada_norm::{AdaNorm, NormKind};
#[cfg(feature = "vision")]
pub use axial_rope_2d::AxialRope2d;
#[cfg(feature = "vision")]
pub use batch_norm_inference::BatchNormInference;
#[cfg(feature = "linalg")]
pub use cholesky::Cholesky;
#[cfg(feature = "audio")]
pub use complex_norm_sq::ComplexNormSq;
#[cfg(feature = "audio")]
pub use conjugate::Conjugate;
#[cfg(feature = "vision")]
pub use conv::Conv;
#[cfg(feature = "vision")]
pub use conv_transpose::ConvTranspose;
#[cfg(feature = "linalg")]
pub use dense_solve::DenseSolve;
#[cfg(feature = "quant")]
pub use dequantize::Dequantize;
#[cfg(all(feature = "quant", feature = "reference"))]
pub(crate) use fake_quantize::levels;
#[cfg(feature = "quant")]
pub use fake_quantize::{FakeQuantize, FakeScale, StraightThrough};
#[cfg(feature = "quant")]
pub use fake_quantize_lsq::FakeQuantizeLsq;
#[cfg(feature = "audio")]
pub use fft::{Fft, FftNorm};
pub use gated_residual::GatedResidual;
#[cfg(feature = "vision")]
pub use group_norm::GroupNorm;
#[cfg(feature = "vision")]
pub use im2col::Im2Col;
#[cfg(feature = "vision")]
pub use interpolate::{Interpolate, Interpolation};
pub use layer_norm::LayerNorm;
#[cfg(feature = "vision")]
pub use layer_norm_2d::LayerNorm2d;
#[cfg(feature = "audio")]
pub use log_mel::{Log, LogMel};
#[cfg(feature = "vision")]
pub use pool::{Pool, PoolKind};
#[cfg(all(feature = "quant", feature = "vision"))]
pub use q_conv2d::QConv2d;
#[cfg(feature = "quant")]
pub use q_matmul::{QMatMul, Requantize};
#[cfg(feature = "quant")]
pub use quantize::Quantize;
#[cfg(all(feature = "quant", feature = "reference"))]
pub(crate) use quantize::byte_range;
pub use residual_layer_norm::ResidualLayerNorm;
pub use residual_rms_norm::ResidualRmsNorm;
#[cfg(feature = "quant")]
pub use scaled_dequantize::ScaledDequantize;
#[cfg(feature = "quant")]
pub use scaled_matmul::ScaledMatMul;
#[cfg(feature = "quant")]
pub use scaled_quantize::ScaledQuantize;
#[cfg(feature = "quant")]
pub use scaling::{ScaleLayout, Scaling};
#[cfg(feature = "vision")]
pub(crate) use window::Grid;
#[cfg(feature = "vision")]
pub use window::Window;

use crate::error::{Error, Result};
use crate::types::{Binding, Dim, Kind, Type, ValueId};
use alloc::format;
use alloc::vec::Vec;

/// How a result may share memory with an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alias {
    /// The result needs memory of its own, disjoint from every operand.
    None,
    /// The result is the operand's bytes from an offset on: no step runs.
    View {
        /// Index of the operand.
        operand: usize,
        /// Bytes into the operand.
        byte_offset: u64,
    },
    /// Each element of result 0 depends on the same element of that operand alone, so it may be
    /// written in place when the operand dies here.
    Elementwise {
        /// Index of the operand.
        operand: usize,
    },
}

/// What a precision policy and a profiler want to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Matrix products, attention.
    Compute,
    /// Norms, sampling.
    Reduction,
    /// Maps.
    Elementwise,
    /// Copies, gathers, views.
    Movement,
    /// Constants and tables.
    Boundary,
}

/// Types of a region of control flow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signature {
    /// What it takes: its captures, in order.
    pub params: Vec<Type>,
    /// What it gives.
    pub results: Vec<Type>,
}

/// What a decomposition writes to: a graph, seen from here.
pub trait Emit {
    /// The type of a value.
    fn ty(&self, v: ValueId) -> &Type;

    /// Appends an operator. Errors from its type rule.
    fn emit(&mut self, op: Op, inputs: &[ValueId]) -> Result<Vec<ValueId>>;

    /// Appends control flow with its bodies, one for each name of `op.regions()`. Errors from its
    /// type rule and from the bodies.
    fn emit_regions(
        &mut self,
        op: Op,
        inputs: &[ValueId],
        bodies: &mut [Body<'_>],
    ) -> Result<Vec<ValueId>>;
}

/// How a decomposition writes a region: types of its parameters, and what makes its results of
/// them. A body sees its parameters alone.
pub struct Body<'a> {
    /// Types of the parameters.
    pub params: Vec<Type>,
    /// Writes the body and gives its results.
    #[allow(clippy::type_complexity)]
    pub write: &'a mut dyn FnMut(&mut dyn Emit, &[ValueId]) -> Result<Vec<ValueId>>,
}

impl dyn Emit + '_ {
    /// Appends an operator with one result.
    ///
    /// # Errors
    /// From the type rule.
    pub fn one(&mut self, op: impl Into<Op>, inputs: &[ValueId]) -> Result<ValueId> {
        let results = self.emit(op.into(), inputs)?;
        results.first().copied().ok_or_else(|| Error::internal("an operator without results"))
    }
}

/// What an operator's file says.
pub trait Operator: Sized {
    /// The name in text IR.
    const NAME: &'static str;
    /// What kind of work it is.
    const CLASS: Class;

    /// Attributes in print order.
    fn attrs(&self) -> Attrs {
        Attrs::none()
    }

    /// The operator of printed attributes. Errors on unknown, missing or mistyped ones.
    fn from_attrs(attrs: &Attrs) -> Result<Self>;

    /// The type rule: results of these operands, or why there are none.
    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>>;

    /// Names of its regions: control flow only.
    fn regions(&self) -> &'static [&'static str] {
        &[]
    }

    /// The type rule of control flow, which sees its regions' types too.
    fn infer_regions(&self, operands: &[&Type], regions: &[Signature]) -> Result<Vec<Type>> {
        let _ = regions;
        self.infer(operands)
    }

    /// The same results from simpler operators, or `None` for a primitive.
    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let _ = (e, operands);
        Ok(None)
    }

    /// What result 0 may share, with operands of these types.
    fn alias(&self, operands: &[&Type]) -> Alias {
        let _ = operands;
        Alias::None
    }

    /// Replaces symbols of its attributes by their sizes. Errors on overflow.
    fn bind(&mut self, binding: &Binding) -> Result<()> {
        let _ = binding;
        Ok(())
    }

    /// `(operand, result)` pairs of states that are written.
    fn writes(&self) -> &'static [(usize, usize)] {
        &[]
    }
}

macro_rules! operators {
    ($($(#[$gate:meta])* $variant:ident($ty:ty),)*) => {
        impl Op {
            /// Every operator's name, but for custom ones.
            pub const NAMES: &'static [&'static str] = &[$($(#[$gate])* <$ty>::NAME),*];

            /// The name in text IR.
            pub fn name(&self) -> &str {
                match self {
                    $($(#[$gate])* Op::$variant(_) => <$ty>::NAME,)*
                    Op::Custom(op) => op.0.name(),
                }
            }
            /// What kind of work it is.
            pub fn class(&self) -> Class {
                match self {
                    $($(#[$gate])* Op::$variant(_) => <$ty>::CLASS,)*
                    Op::Custom(_) => Class::Compute,
                }
            }
            /// Attributes in print order.
            pub fn attrs(&self) -> Attrs {
                match self {
                    $($(#[$gate])* Op::$variant(op) => op.attrs(),)*
                    Op::Custom(op) => op.0.attrs(),
                }
            }
            /// The type rule. Errors name the operator.
            pub fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
                match self {
                    $($(#[$gate])* Op::$variant(op) => op.infer(operands),)*
                    Op::Custom(op) => op.0.infer(operands),
                }
            }
            /// Names of its regions.
            pub fn regions(&self) -> &'static [&'static str] {
                match self {
                    $($(#[$gate])* Op::$variant(op) => op.regions(),)*
                    Op::Custom(_) => &[],
                }
            }
            /// The type rule with the types of the node's regions. Errors name the operator.
            pub fn infer_regions(
                &self,
                operands: &[&Type],
                regions: &[Signature],
            ) -> Result<Vec<Type>> {
                if regions.len() != self.regions().len() {
                    return Err(Error::bad_graph(format!(
                        "{} has {} regions, got {}",
                        self.name(),
                        self.regions().len(),
                        regions.len()
                    )));
                }
                match self {
                    $($(#[$gate])* Op::$variant(op) => op.infer_regions(operands, regions),)*
                    Op::Custom(op) => op.0.infer(operands),
                }
            }
            /// The same results from simpler operators, or `None` for a primitive.
            pub fn decompose(
                &self,
                e: &mut dyn Emit,
                operands: &[ValueId],
            ) -> Result<Option<Vec<ValueId>>> {
                match self {
                    $($(#[$gate])* Op::$variant(op) => op.decompose(e, operands),)*
                    Op::Custom(op) => op.0.decompose(e, operands),
                }
            }
            /// What result 0 may share with an operand; `operands` are the types that the type
            /// rule accepted.
            pub fn alias(&self, operands: &[&Type]) -> Alias {
                match self {
                    $($(#[$gate])* Op::$variant(op) => op.alias(operands),)*
                    Op::Custom(_) => Alias::None,
                }
            }
            /// Replaces symbols of attributes by their sizes. Errors on overflow.
            pub fn bind(&mut self, binding: &Binding) -> Result<()> {
                match self {
                    $($(#[$gate])* Op::$variant(op) => op.bind(binding),)*
                    Op::Custom(_) => Ok(()),
                }
            }
            /// `(operand, result)` pairs of states that are written.
            pub fn writes(&self) -> &'static [(usize, usize)] {
                match self {
                    $($(#[$gate])* Op::$variant(op) => op.writes(),)*
                    Op::Custom(_) => &[],
                }
            }
            /// The operator of a printed name and attributes. Errors name what is unknown.
            pub fn from_text(name: &str, attrs: &Attrs) -> Result<Op> {
                match name {
                    $($(#[$gate])* <$ty>::NAME => <$ty>::from_attrs(attrs).map(Op::$variant),)*
                    _ => Err(Error::bad_graph(format!("unknown operator {name}"))
                        .hint(format!("known: {}", Self::NAMES.join(", ")))),
                }
            }
        }
        $($(#[$gate])* impl From<$ty> for Op { fn from(op: $ty) -> Op { Op::$variant(op) } })*
    };
}

/// An operator with its attributes.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Rows of a table, or indices of any axis.
    Gather(Gather),
    /// Root-mean-square norm.
    RmsNorm(RmsNorm),
    /// One input times 1..4 weights.
    MatMul(MatMul),
    /// f32 rows to int8 blocks.
    QuantizeRows(QuantizeRows),
    /// cos and sin of every position.
    RopeTable(RopeTable),
    /// Rotary position embedding.
    Rope(Rope),
    /// New rows of a cache.
    KvWrite(KvWrite),
    /// Rotation of q and k, and both cache writes.
    RopeKvWrite(RopeKvWrite),
    /// Causal attention over the cache.
    Attention(Attention),
    /// Matrix products, batch by batch.
    BatchMatMul(BatchMatMul),
    /// Products over any axes.
    DotGeneral(DotGeneral),
    /// A product with a low-rank addition.
    LoraMatMul(LoraMatMul),
    /// Each row times its expert.
    GroupedMatMul(GroupedMatMul),
    /// Packed blocks to f32.
    Unpack(Unpack),
    /// Attention without a cache.
    Sdpa(Sdpa),
    /// New slices of a state.
    StateWrite(StateWrite),
    /// A state as a tensor.
    StateRead(StateRead),
    /// Linear attention with a gated delta rule.
    GatedDeltaNet(GatedDeltaNet),
    /// The selective state space of Mamba.
    SelectiveScan(SelectiveScan),
    /// One of two bodies.
    If(If),
    /// A body as long as a condition holds.
    While(While),
    /// A body for each slice.
    Scan(Scan),
    /// A function of one tensor.
    Map(Map),
    /// A function of two tensors.
    Zip(Zip),
    /// A chain of elementwise operators.
    Region(Region),
    /// The same bytes, another shape.
    Reshape(Reshape),
    /// The last real rows.
    TakeRows(TakeRows),
    /// The control block's token.
    Token(Token),
    /// Logits to a token.
    Sample(Sample),
    /// A norm whose scale and shift are computed.
    AdaNorm(AdaNorm),
    /// A residual sum with a gate.
    GatedResidual(GatedResidual),
    /// Layer norm over the last axis.
    LayerNorm(LayerNorm),
    /// A residual sum and its layer norm.
    ResidualLayerNorm(ResidualLayerNorm),
    /// A residual sum and its root-mean-square norm.
    ResidualRmsNorm(ResidualRmsNorm),
    /// Rotary positions of a grid.
    #[cfg(feature = "vision")]
    AxialRope2d(AxialRope2d),
    /// Batch norm with stored statistics.
    #[cfg(feature = "vision")]
    BatchNormInference(BatchNormInference),
    /// Convolution.
    #[cfg(feature = "vision")]
    Conv(Conv),
    /// Transposed convolution.
    #[cfg(feature = "vision")]
    ConvTranspose(ConvTranspose),
    /// Group norm.
    #[cfg(feature = "vision")]
    GroupNorm(GroupNorm),
    /// Windows as columns.
    #[cfg(feature = "vision")]
    Im2Col(Im2Col),
    /// Resizing.
    #[cfg(feature = "vision")]
    Interpolate(Interpolate),
    /// Layer norm over channels.
    #[cfg(feature = "vision")]
    LayerNorm2d(LayerNorm2d),
    /// Pooling.
    #[cfg(feature = "vision")]
    Pool(Pool),
    /// Squared absolute values.
    #[cfg(feature = "audio")]
    ComplexNormSq(ComplexNormSq),
    /// Conjugates.
    #[cfg(feature = "audio")]
    Conjugate(Conjugate),
    /// Discrete Fourier transform.
    #[cfg(feature = "audio")]
    Fft(Fft),
    /// Logarithms of mel energies.
    #[cfg(feature = "audio")]
    LogMel(LogMel),
    /// Cholesky factor.
    #[cfg(feature = "linalg")]
    Cholesky(Cholesky),
    /// Linear systems.
    #[cfg(feature = "linalg")]
    DenseSolve(DenseSolve),
    /// 8-bit integers to floats.
    #[cfg(feature = "quant")]
    Dequantize(Dequantize),
    /// Rounding to quantised values, in floats.
    #[cfg(feature = "quant")]
    FakeQuantize(FakeQuantize),
    /// The same with a learned step.
    #[cfg(feature = "quant")]
    FakeQuantizeLsq(FakeQuantizeLsq),
    /// Convolution of 8-bit integers.
    #[cfg(all(feature = "quant", feature = "vision"))]
    QConv2d(QConv2d),
    /// Matrix product of 8-bit integers.
    #[cfg(feature = "quant")]
    QMatMul(QMatMul),
    /// Floats to 8-bit integers.
    #[cfg(feature = "quant")]
    Quantize(Quantize),
    /// Small floats with scales to floats.
    #[cfg(feature = "quant")]
    ScaledDequantize(ScaledDequantize),
    /// Matrix product of small floats with scales.
    #[cfg(feature = "quant")]
    ScaledMatMul(ScaledMatMul),
    /// Floats to small floats with scales.
    #[cfg(feature = "quant")]
    ScaledQuantize(ScaledQuantize),
    /// A tensor that the graph holds.
    Constant(Constant),
    /// Indices along an axis.
    Iota(Iota),
    /// A test of two tensors.
    Compare(Compare),
    /// One of two tensors, by element.
    Select(Select),
    /// Another element type.
    Cast(Cast),
    /// Numbers between bounds.
    Clamp(Clamp),
    /// Sum, mean, extreme or product along axes.
    Reduce(Reduce),
    /// Shares of exponentials.
    Softmax(Softmax),
    /// Running sums.
    CumSum(CumSum),
    /// Index of the largest.
    ArgMax(ArgMax),
    /// Index of the smallest.
    ArgMin(ArgMin),
    /// Elements in order, and where they stood.
    Sort(Sort),
    /// Indices of the largest.
    TopK(TopK),
    /// Axes in another order.
    Transpose(Transpose),
    /// A range of an axis.
    Slice(Slice),
    /// Tensors one after another.
    Concat(Concat),
    /// Elements repeated.
    Expand(Expand),
    /// Elements around a tensor.
    Pad(Pad),
    /// Axes turned round.
    Roll(Roll),
    /// Axes from their ends.
    Reverse(Reverse),
    /// One element an index.
    GatherElements(GatherElements),
    /// Updates added at indices.
    ScatterAdd(ScatterAdd),
    /// Uniform random numbers.
    RandomUniform(RandomUniform),
    /// Normal random numbers.
    RandomNormal(RandomNormal),
    /// A user's operator.
    Custom(Custom),
}

operators! {
    Gather(Gather),
    RmsNorm(RmsNorm),
    MatMul(MatMul),
    QuantizeRows(QuantizeRows),
    RopeTable(RopeTable),
    Rope(Rope),
    KvWrite(KvWrite),
    RopeKvWrite(RopeKvWrite),
    Attention(Attention),
    BatchMatMul(BatchMatMul),
    DotGeneral(DotGeneral),
    LoraMatMul(LoraMatMul),
    GroupedMatMul(GroupedMatMul),
    Unpack(Unpack),
    Sdpa(Sdpa),
    StateWrite(StateWrite),
    StateRead(StateRead),
    GatedDeltaNet(GatedDeltaNet),
    SelectiveScan(SelectiveScan),
    If(If),
    While(While),
    Scan(Scan),
    Map(Map),
    Zip(Zip),
    Region(Region),
    Reshape(Reshape),
    TakeRows(TakeRows),
    Token(Token),
    Sample(Sample),
    AdaNorm(AdaNorm),
    GatedResidual(GatedResidual),
    LayerNorm(LayerNorm),
    ResidualLayerNorm(ResidualLayerNorm),
    ResidualRmsNorm(ResidualRmsNorm),
    #[cfg(feature = "vision")]
    AxialRope2d(AxialRope2d),
    #[cfg(feature = "vision")]
    BatchNormInference(BatchNormInference),
    #[cfg(feature = "vision")]
    Conv(Conv),
    #[cfg(feature = "vision")]
    ConvTranspose(ConvTranspose),
    #[cfg(feature = "vision")]
    GroupNorm(GroupNorm),
    #[cfg(feature = "vision")]
    Im2Col(Im2Col),
    #[cfg(feature = "vision")]
    Interpolate(Interpolate),
    #[cfg(feature = "vision")]
    LayerNorm2d(LayerNorm2d),
    #[cfg(feature = "vision")]
    Pool(Pool),
    #[cfg(feature = "audio")]
    ComplexNormSq(ComplexNormSq),
    #[cfg(feature = "audio")]
    Conjugate(Conjugate),
    #[cfg(feature = "audio")]
    Fft(Fft),
    #[cfg(feature = "audio")]
    LogMel(LogMel),
    #[cfg(feature = "linalg")]
    Cholesky(Cholesky),
    #[cfg(feature = "linalg")]
    DenseSolve(DenseSolve),
    #[cfg(feature = "quant")]
    Dequantize(Dequantize),
    #[cfg(feature = "quant")]
    FakeQuantize(FakeQuantize),
    #[cfg(feature = "quant")]
    FakeQuantizeLsq(FakeQuantizeLsq),
    #[cfg(all(feature = "quant", feature = "vision"))]
    QConv2d(QConv2d),
    #[cfg(feature = "quant")]
    QMatMul(QMatMul),
    #[cfg(feature = "quant")]
    Quantize(Quantize),
    #[cfg(feature = "quant")]
    ScaledDequantize(ScaledDequantize),
    #[cfg(feature = "quant")]
    ScaledMatMul(ScaledMatMul),
    #[cfg(feature = "quant")]
    ScaledQuantize(ScaledQuantize),
    Constant(Constant),
    Iota(Iota),
    Compare(Compare),
    Select(Select),
    Cast(Cast),
    Clamp(Clamp),
    Reduce(Reduce),
    Softmax(Softmax),
    CumSum(CumSum),
    ArgMax(ArgMax),
    ArgMin(ArgMin),
    Sort(Sort),
    TopK(TopK),
    Transpose(Transpose),
    Slice(Slice),
    Concat(Concat),
    Expand(Expand),
    Pad(Pad),
    Roll(Roll),
    Reverse(Reverse),
    GatherElements(GatherElements),
    ScatterAdd(ScatterAdd),
    RandomUniform(RandomUniform),
    RandomNormal(RandomNormal),
}

/// Words of the control block, a state every language-model program has (`sample/control.rs`).
pub const CONTROL_WORDS: u64 = 16;
/// Words of the sampling parameters.
pub const PARAMS_WORDS: u64 = 32;

fn arity(name: &str, operands: &[&Type], n: usize) -> Result<()> {
    if operands.len() != n {
        return Err(Error::bad_graph(format!("{name} takes {n} operands, got {}", operands.len())));
    }
    Ok(())
}

fn expect(name: &str, operand: &str, got: &Type, need: &Type) -> Result<()> {
    if got != need {
        return Err(Error::bad_graph(format!("{name}: {operand} is {got}, expected {need}")));
    }
    Ok(())
}

/// Fails unless the operand is a tensor of f64, f32, f16 or bf16.
fn float_tensor(name: &str, operand: &str, ty: &Type) -> Result<()> {
    if ty.kind == Kind::Tensor && ty.dtype.is_float() {
        return Ok(());
    }
    Err(Error::bad_graph(format!("{name}: {operand} is {ty}, expected a tensor of floats")))
}

/// `[rows, columns]` of an f32 matrix operand.
fn matrix(name: &str, operand: &str, ty: &Type) -> Result<(Dim, Dim)> {
    match ty.shape.0.as_slice() {
        [rows, columns] if ty.kind == Kind::Tensor => Ok((rows.clone(), columns.clone())),
        _ => Err(Error::bad_graph(format!("{name}: {operand} is {ty}, expected a matrix"))),
    }
}

fn control(name: &str, ty: &Type) -> Result<()> {
    use crate::types::{DType, Shape};
    expect(name, "ctl", ty, &Type::state(DType::U32, Shape::of(&[CONTROL_WORDS])))
}
