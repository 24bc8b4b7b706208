//! The instructions of a tape. The shim's list is written from this one, so that the two cannot differ.

/// Makes the enumeration and its text in C++.
macro_rules! codes {
    ($($name:ident),* $(,)?) => {
        /// A call of MLX; `shim/shim.cpp` says what its inputs, integers and numbers mean.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum Code { $($name,)* }

        /// The names of all, in their order.
        pub(crate) const NAMES: &[&str] = &[$(stringify!($name),)*];
    };
}

codes! {
    Scalar, Integers, Arange,
    AsType, View, Reshape, Broadcast, Transpose, Slice, SliceUpdateAt, Concat,
    Take, TakeAlong, Scatter, ScatterAdd, Pad, Flip, Roll,
    Add, Sub, Mul, Div, FloorDiv, Remainder, Power, Maximum, Minimum,
    Eq, Ne, Lt, Le, Gt, Ge, LogicalAnd, LogicalOr,
    BitAnd, BitOr, BitXor, ShiftLeft, ShiftRight, Where,
    Negative, Exp, Expm1, Log, Log1p, Sqrt, Rsqrt, Abs, Sin, Cos, Tan, Arctan, Reciprocal,
    Round, Floor, Ceil, Tanh, Sigmoid, Erf, IsNan, IsFinite,
    Sum, Max, Min, Prod, Any, ArgMax, ArgSort, Sort, CumSum, Softmax,
    MatMul, QuantizedMatMul, GatherQuantizedMatMul, GatherMatMul, Dequantize,
    RmsNorm, Attention, Conv,
}

/// The list as the shim reads it.
pub(crate) fn header() -> String {
    format!(
        "enum class Code : long long {{ {} }};\nconstexpr long long CODES = {};\n",
        NAMES.join(", "),
        NAMES.len()
    )
}
