//! Every operator, one row each: its name here is its struct's, and a file of `ops/` has that. Of more
//! than eighty operators there is this one list: `enum Op` and the reference's dispatch are made of it.

/// Calls the macro of that name with all rows.
macro_rules! operators {
    ($each:ident) => {
        $each! {
            /// Rows of a table, or indices of any axis.
            Gather,
            /// Root-mean-square norm.
            RmsNorm,
            /// That norm of a branch, and the sum that it joins.
            RmsNormAdd,
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
            /// Norms of heads, rotation, cache writes and those parts, of one row.
            RopeAttentionSplit,
            /// The row that the parts make.
            AttentionJoin,
            /// Matrix products, batch by batch.
            BatchMatMul,
            /// Products over any axes.
            DotGeneral,
            /// A product with a low-rank addition.
            LoraMatMul,
            /// Each row times its experts.
            GroupedMatMul,
            /// The experts of each row.
            Route,
            /// Rows of several experts to one.
            WeightedSum,
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
            /// A layer's, of its convolution and its projections.
            DeltaNet,
            /// A convolution along the rows that goes on from step to step.
            CausalConv1d,
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
            /// The canvas's tokens.
            CanvasIds,
            /// A token for each row of logits, and how likely it is.
            Predict,
            /// Predictions that are placed on the canvas.
            Unmask,
            /// A norm whose scale and shift are computed.
            AdaNorm,
            /// A residual sum with a gate.
            GatedResidual,
            /// A root-mean-square norm with a gate.
            GatedRmsNorm,
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
            /// The sum over all ranks.
            #[cfg(feature = "parallel")]
            AllReduce,
            /// The tensors of all ranks.
            #[cfg(feature = "parallel")]
            AllGather,
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
    };
}
pub(crate) use operators;
