//! Every operator, one row each: its name here is its struct's, and a file of `ops/` has that. The
//! macro makes `enum Op` and the delegation of these rows: of more than eighty operators there is
//! one list.

use super::*;
use crate::error::{Error, Result};
use crate::types::{Binding, Type, ValueId};
use alloc::format;
use alloc::vec::Vec;

macro_rules! operators {
    ($($(#[doc = $doc:literal])* $(#[cfg($gate:meta)])? $op:ident,)*) => {
        /// An operator with its attributes.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Op {
            $($(#[doc = $doc])* $(#[cfg($gate)])? $op($op),)*
            /// A user's operator.
            Custom(Custom),
        }

        impl Op {
            /// Every operator's name, but for custom ones.
            pub const NAMES: &'static [&'static str] = &[$($(#[cfg($gate)])? $op::NAME),*];

            /// Every operator's name with its class, but for custom ones, which are compute.
            pub const CLASSES: &'static [(&'static str, Class)] =
                &[$($(#[cfg($gate)])? ($op::NAME, $op::CLASS)),*];

            /// The name in text IR.
            pub fn name(&self) -> &str {
                match self {
                    $($(#[cfg($gate)])? Op::$op(_) => $op::NAME,)*
                    Op::Custom(op) => op.0.name(),
                }
            }
            /// What kind of work it is.
            pub fn class(&self) -> Class {
                match self {
                    $($(#[cfg($gate)])? Op::$op(_) => $op::CLASS,)*
                    Op::Custom(_) => Class::Compute,
                }
            }
            /// Attributes in print order.
            pub fn attrs(&self) -> Attrs {
                match self {
                    $($(#[cfg($gate)])? Op::$op(op) => op.attrs(),)*
                    Op::Custom(op) => op.0.attrs(),
                }
            }
            /// The type rule. Errors name the operator.
            pub fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
                match self {
                    $($(#[cfg($gate)])? Op::$op(op) => op.infer(operands),)*
                    Op::Custom(op) => op.0.infer(operands),
                }
            }
            /// Names of its regions.
            pub fn regions(&self) -> &'static [&'static str] {
                match self {
                    $($(#[cfg($gate)])? Op::$op(op) => op.regions(),)*
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
                    $($(#[cfg($gate)])? Op::$op(op) => op.infer_regions(operands, regions),)*
                    Op::Custom(op) => op.0.infer(operands),
                }
            }
            #[cfg(feature = "decompose")]
            fn parts(
                &self,
                e: &mut dyn Emit,
                operands: &[ValueId],
            ) -> Result<Option<Vec<ValueId>>> {
                match self {
                    $($(#[cfg($gate)])? Op::$op(op) => op.decompose(e, operands),)*
                    Op::Custom(op) => op.0.decompose(e, operands),
                }
            }
            /// What result 0 may share with an operand; `operands` are the types that the type
            /// rule accepted.
            pub fn alias(&self, operands: &[&Type]) -> Alias {
                match self {
                    $($(#[cfg($gate)])? Op::$op(op) => op.alias(operands),)*
                    Op::Custom(_) => Alias::None,
                }
            }
            /// Replaces symbols of attributes by their sizes. Errors on overflow.
            pub fn bind(&mut self, binding: &Binding) -> Result<()> {
                match self {
                    $($(#[cfg($gate)])? Op::$op(op) => op.bind(binding),)*
                    Op::Custom(_) => Ok(()),
                }
            }
            /// `(operand, result)` pairs of states that are written.
            pub fn writes(&self) -> &'static [(usize, usize)] {
                match self {
                    $($(#[cfg($gate)])? Op::$op(op) => op.writes(),)*
                    Op::Custom(_) => &[],
                }
            }
            /// The operand that is the control block, of so many operands.
            pub fn control(&self, operands: usize) -> Option<usize> {
                match self {
                    $($(#[cfg($gate)])? Op::$op(op) => op.control(operands),)*
                    Op::Custom(_) => None,
                }
            }
            /// Which rows of an operand the results need.
            pub fn row_use(&self, operand: usize, operands: &[&Type]) -> RowUse {
                match self {
                    $($(#[cfg($gate)])? Op::$op(op) => op.row_use(operand, operands),)*
                    Op::Custom(_) => RowUse::All,
                }
            }
            /// The operator of a printed name and attributes. Errors name what is unknown.
            pub fn from_text(name: &str, attrs: &Attrs) -> Result<Op> {
                match name {
                    $($(#[cfg($gate)])? $op::NAME => $op::from_attrs(attrs).map(Op::$op),)*
                    _ => Err(Error::bad_graph(format!("unknown operator {name}"))
                        .hint(format!("known: {}", Self::NAMES.join(", ")))),
                }
            }
        }
        $($(#[cfg($gate)])? impl From<$op> for Op { fn from(op: $op) -> Op { Op::$op(op) } })*
    };
}

operators! {
    /// Rows of a table, or indices of any axis.
    Gather,
    /// Root-mean-square norm.
    RmsNorm,
    /// One input times 1..4 weights.
    MatMul,
    /// f32 rows to int8 blocks.
    QuantizeRows,
    /// cos and sin of every position.
    RopeTable,
    /// Rotary position embedding.
    Rope,
    /// New rows of a cache.
    KvWrite,
    /// Rotation of q and k, and both cache writes.
    RopeKvWrite,
    /// Causal attention over the cache.
    Attention,
    /// The same of one row, over parts of its positions.
    AttentionSplit,
    /// Rotation, cache writes and those parts, of one row.
    RopeAttentionSplit,
    /// The row that the parts make.
    AttentionJoin,
    /// Matrix products, batch by batch.
    BatchMatMul,
    /// Products over any axes.
    DotGeneral,
    /// A product with a low-rank addition.
    LoraMatMul,
    /// Each row times its expert.
    GroupedMatMul,
    /// Packed blocks to f32.
    Unpack,
    /// Attention without a cache.
    Sdpa,
    /// New slices of a state.
    StateWrite,
    /// A state as a tensor.
    StateRead,
    /// Linear attention with a gated delta rule.
    GatedDeltaNet,
    /// The selective state space of Mamba.
    SelectiveScan,
    /// One of two bodies.
    If,
    /// A body as long as a condition holds.
    While,
    /// A body for each slice.
    Scan,
    /// A function of one tensor.
    Map,
    /// A function of two tensors.
    Zip,
    /// A chain of elementwise operators.
    Region,
    /// The same bytes, another shape.
    Reshape,
    /// The last real rows.
    TakeRows,
    /// The control block's token.
    Token,
    /// Logits to a token.
    Sample,
    /// A norm whose scale and shift are computed.
    AdaNorm,
    /// A residual sum with a gate.
    GatedResidual,
    /// Layer norm over the last axis.
    LayerNorm,
    /// A residual sum and its layer norm.
    ResidualLayerNorm,
    /// A residual sum and its root-mean-square norm.
    ResidualRmsNorm,
    /// Rotary positions of a grid.
    #[cfg(feature = "vision")]
    AxialRope2d,
    /// Batch norm with stored statistics.
    #[cfg(feature = "vision")]
    BatchNormInference,
    /// Convolution.
    #[cfg(feature = "vision")]
    Conv,
    /// Transposed convolution.
    #[cfg(feature = "vision")]
    ConvTranspose,
    /// Group norm.
    #[cfg(feature = "vision")]
    GroupNorm,
    /// Windows as columns.
    #[cfg(feature = "vision")]
    Im2Col,
    /// Resizing.
    #[cfg(feature = "vision")]
    Interpolate,
    /// Layer norm over channels.
    #[cfg(feature = "vision")]
    LayerNorm2d,
    /// Pooling.
    #[cfg(feature = "vision")]
    Pool,
    /// Squared absolute values.
    #[cfg(feature = "audio")]
    ComplexNormSq,
    /// Conjugates.
    #[cfg(feature = "audio")]
    Conjugate,
    /// Discrete Fourier transform.
    #[cfg(feature = "audio")]
    Fft,
    /// Logarithms of mel energies.
    #[cfg(feature = "audio")]
    LogMel,
    /// Cholesky factor.
    #[cfg(feature = "linalg")]
    Cholesky,
    /// Linear systems.
    #[cfg(feature = "linalg")]
    DenseSolve,
    /// 8-bit integers to floats.
    #[cfg(feature = "quant")]
    Dequantize,
    /// Rounding to quantised values, in floats.
    #[cfg(feature = "quant")]
    FakeQuantize,
    /// The same with a learned step.
    #[cfg(feature = "quant")]
    FakeQuantizeLsq,
    /// Convolution of 8-bit integers.
    #[cfg(all(feature = "quant", feature = "vision"))]
    QConv2d,
    /// Matrix product of 8-bit integers.
    #[cfg(feature = "quant")]
    QMatMul,
    /// Floats to 8-bit integers.
    #[cfg(feature = "quant")]
    Quantize,
    /// Small floats with scales to floats.
    #[cfg(feature = "quant")]
    ScaledDequantize,
    /// Matrix product of small floats with scales.
    #[cfg(feature = "quant")]
    ScaledMatMul,
    /// Floats to small floats with scales.
    #[cfg(feature = "quant")]
    ScaledQuantize,
    /// A tensor that the graph holds.
    Constant,
    /// Indices along an axis.
    Iota,
    /// A test of two tensors.
    Compare,
    /// One of two tensors, by element.
    Select,
    /// Another element type.
    Cast,
    /// Numbers between bounds.
    Clamp,
    /// Sum, mean, extreme or product along axes.
    Reduce,
    /// Shares of exponentials.
    Softmax,
    /// Running sums.
    CumSum,
    /// Index of the largest.
    ArgMax,
    /// Index of the smallest.
    ArgMin,
    /// Elements in order, and where they stood.
    Sort,
    /// Indices of the largest.
    TopK,
    /// Axes in another order.
    Transpose,
    /// A range of an axis.
    Slice,
    /// Tensors one after another.
    Concat,
    /// Elements repeated.
    Expand,
    /// Elements around a tensor.
    Pad,
    /// Axes turned round.
    Roll,
    /// Axes from their ends.
    Reverse,
    /// One element an index.
    GatherElements,
    /// Updates added at indices.
    ScatterAdd,
    /// Uniform random numbers.
    RandomUniform,
    /// Normal random numbers.
    RandomNormal,
}

impl Op {
    /// The same results from simpler operators; `None` for a primitive.
    ///
    /// A build without the feature `decompose` has only the parts that executors of language models
    /// have kernels for: other forms of the operator itself, and operators it was fused of.
    ///
    /// # Errors
    /// From the type rules of the parts.
    pub fn decompose(
        &self,
        e: &mut dyn Emit,
        operands: &[ValueId],
    ) -> Result<Option<Vec<ValueId>>> {
        #[cfg(feature = "decompose")]
        return self.parts(e, operands);
        #[cfg(not(feature = "decompose"))]
        match self {
            Op::MatMul(op) => op.decompose(e, operands),
            Op::ResidualRmsNorm(op) => op.decompose(e, operands),
            Op::RmsNorm(op) => op.decompose(e, operands),
            Op::RopeAttentionSplit(op) => op.decompose(e, operands),
            Op::RopeKvWrite(op) => op.decompose(e, operands),
            Op::Custom(op) => op.0.decompose(e, operands),
            _ => Ok(None),
        }
    }
}
