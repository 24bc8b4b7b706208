//! Scalar functions: their names and their values. How a device computes one is its executor's.
//!
//! `max` and `min` prefer a number to a NaN, everywhere: in functions, reductions and `clamp`.

use crate::math;

/// A function of one float.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unary {
    /// `x / (1 + exp(-x))`
    Silu,
    /// `0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))`, arXiv:1606.08415
    Gelu,
    /// `max(x, 0)`
    Relu,
    /// `1 / (1 + exp(-x))`
    Sigmoid,
    /// `tanh(x)`
    Tanh,
    /// `exp(x)`
    Exp,
    /// `-x`
    Neg,
    /// `0.5 x (1 + erf(x / sqrt(2)))`, arXiv:1606.08415
    GeluErf,
    /// `ln(x)`
    Log,
    /// `sqrt(x)`
    Sqrt,
    /// `1 / sqrt(x)`
    Rsqrt,
    /// `|x|`
    Abs,
    /// `sin(x)`
    Sin,
    /// `cos(x)`
    Cos,
    /// `tan(x)`
    Tan,
    /// `atan(x)`
    Atan,
    /// `1 / x`
    Recip,
    /// The nearest integer, halves to the even one
    Round,
    /// The largest integer that is not larger
    Floor,
    /// The smallest integer that is not smaller
    Ceil,
    /// `-1`, `0` or `1`; NaN for NaN
    Sign,
    /// `ln(1 + exp(x))`
    Softplus,
    /// `2/sqrt(pi) * integral of exp(-t^2) from 0 to x`
    Erf,
    /// `x` where it is positive, elsewhere `exp(x) - 1`, arXiv:1511.07289 with alpha 1
    Elu,
    /// `x * hard_sigmoid(x)`, arXiv:1905.02244
    HardSwish,
    /// `clamp(x / 6 + 1/2, 0, 1)`, PyTorch's slope
    HardSigmoid,
    /// `x / (1 + exp(-1.702 x))`, arXiv:1606.08415, section 2
    QuickGelu,
}

/// A function of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Binary {
    /// `a + b`; integers wrap
    Add,
    /// `a - b`; integers wrap
    Sub,
    /// `a * b`; integers wrap
    Mul,
    /// The larger
    Max,
    /// `a / b`; integers towards 0
    Div,
    /// The smaller
    Min,
    /// `a ^ b`, floats only
    Pow,
    /// The remainder of `a / b` rounded towards 0: it has the sign of `a`, as C's `fmod` and `%`
    Mod,
}

/// A test of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Comparison {
    /// `a == b`
    Eq,
    /// `a != b`, the only one that holds for a NaN
    Ne,
    /// `a < b`
    Lt,
    /// `a <= b`
    Le,
    /// `a > b`
    Gt,
    /// `a >= b`
    Ge,
}

/// A function of all elements along axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reduction {
    /// The sum; 0 of nothing; integers wrap
    Sum,
    /// The sum over the number of elements, floats only; NaN of nothing
    Mean,
    /// The largest; `-inf`, or the integer type's least value, of nothing
    Max,
    /// The smallest; `inf`, or the integer type's largest value, of nothing
    Min,
    /// The product; 1 of nothing; integers wrap
    Prod,
}

impl Unary {
    /// Every function with its name in text IR.
    pub const ALL: [(Unary, &'static str); 27] = [
        (Unary::Silu, "silu"),
        (Unary::Gelu, "gelu"),
        (Unary::Relu, "relu"),
        (Unary::Sigmoid, "sigmoid"),
        (Unary::Tanh, "tanh"),
        (Unary::Exp, "exp"),
        (Unary::Neg, "neg"),
        (Unary::GeluErf, "gelu_erf"),
        (Unary::Log, "log"),
        (Unary::Sqrt, "sqrt"),
        (Unary::Rsqrt, "rsqrt"),
        (Unary::Abs, "abs"),
        (Unary::Sin, "sin"),
        (Unary::Cos, "cos"),
        (Unary::Tan, "tan"),
        (Unary::Atan, "atan"),
        (Unary::Recip, "recip"),
        (Unary::Round, "round"),
        (Unary::Floor, "floor"),
        (Unary::Ceil, "ceil"),
        (Unary::Sign, "sign"),
        (Unary::Softplus, "softplus"),
        (Unary::Erf, "erf"),
        (Unary::Elu, "elu"),
        (Unary::HardSwish, "hard_swish"),
        (Unary::HardSigmoid, "hard_sigmoid"),
        (Unary::QuickGelu, "quick_gelu"),
    ];

    /// The name in text IR.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// The function of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|r| r.1 == name).map(|r| r.0)
    }

    /// True for functions that `map` decomposes into others; the rest are primitives.
    pub fn is_composed(self) -> bool {
        use Unary::{Elu, Erf, Gelu, GeluErf, HardSigmoid, HardSwish, QuickGelu, Silu, Softplus};
        let gelus = matches!(self, Gelu | GeluErf | QuickGelu);
        gelus || matches!(self, Silu | Erf | Softplus | Elu | HardSwish | HardSigmoid)
    }

    /// The value in f64, the reference's precision.
    pub fn eval(self, x: f64) -> f64 {
        match self {
            Self::Silu => x / (1.0 + math::exp(-x)),
            Self::Gelu => {
                let inner = math::sqrt(2.0 / core::f64::consts::PI) * (x + 0.044715 * x * x * x);
                0.5 * x * (1.0 + math::tanh(inner))
            }
            Self::Relu => x.max(0.0),
            Self::Sigmoid => 1.0 / (1.0 + math::exp(-x)),
            Self::Tanh => math::tanh(x),
            Self::Exp => math::exp(x),
            Self::Neg => -x,
            Self::GeluErf => 0.5 * x * (1.0 + math::erf(x * core::f64::consts::FRAC_1_SQRT_2)),
            Self::Log => math::log(x),
            Self::Sqrt => math::sqrt(x),
            Self::Rsqrt => 1.0 / math::sqrt(x),
            Self::Abs => x.abs(),
            Self::Sin => math::sin(x),
            Self::Cos => math::cos(x),
            Self::Tan => math::tan(x),
            Self::Atan => math::atan(x),
            Self::Recip => 1.0 / x,
            Self::Round => math::rint(x),
            Self::Floor => math::floor(x),
            Self::Ceil => math::ceil(x),
            Self::Sign if x > 0.0 => 1.0,
            Self::Sign if x < 0.0 => -1.0,
            // Zeros keep their sign, NaN stays.
            Self::Sign => x,
            // Without overflow: exp of what is never positive.
            Self::Softplus => x.max(0.0) + math::log1p(math::exp(-x.abs())),
            Self::Erf => math::erf(x),
            Self::Elu if x < 0.0 => math::expm1(x),
            Self::Elu => x,
            Self::HardSwish => x * Self::HardSigmoid.eval(x),
            Self::QuickGelu => x / (1.0 + math::exp(-1.702 * x)),
            // Not `clamp`, which keeps a NaN.
            Self::HardSigmoid => Binary::Min.eval((x / 6.0 + 0.5).max(0.0), 1.0),
        }
    }
}

impl Binary {
    /// Every function with its name in text IR.
    pub const ALL: [(Binary, &'static str); 8] = [
        (Binary::Add, "add"),
        (Binary::Sub, "sub"),
        (Binary::Mul, "mul"),
        (Binary::Max, "max"),
        (Binary::Div, "div"),
        (Binary::Min, "min"),
        (Binary::Pow, "pow"),
        (Binary::Mod, "mod"),
    ];

    /// The name in text IR.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// The function of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|r| r.1 == name).map(|r| r.0)
    }

    /// The value in f64.
    pub fn eval(self, a: f64, b: f64) -> f64 {
        match self {
            Self::Add => a + b,
            Self::Sub => a - b,
            Self::Mul => a * b,
            Self::Max => a.max(b),
            Self::Div => a / b,
            Self::Min => a.min(b),
            Self::Pow => math::pow(a, b),
            Self::Mod => math::fmod(a, b),
        }
    }

    /// The value of integers, before it wraps to their type; `None` for a division by zero, and
    /// for `pow`, which integers have not.
    pub fn eval_int(self, a: i64, b: i64) -> Option<i64> {
        Some(match self {
            Self::Add => a.wrapping_add(b),
            Self::Sub => a.wrapping_sub(b),
            Self::Mul => a.wrapping_mul(b),
            Self::Max => a.max(b),
            Self::Min => a.min(b),
            Self::Div if b != 0 => a.wrapping_div(b),
            Self::Mod if b != 0 => a.wrapping_rem(b),
            Self::Div | Self::Mod | Self::Pow => return None,
        })
    }
}

impl Comparison {
    /// Every test with its name in text IR.
    pub const ALL: [(Comparison, &'static str); 6] = [
        (Comparison::Eq, "eq"),
        (Comparison::Ne, "ne"),
        (Comparison::Lt, "lt"),
        (Comparison::Le, "le"),
        (Comparison::Gt, "gt"),
        (Comparison::Ge, "ge"),
    ];

    /// The name in text IR.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// The test of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|r| r.1 == name).map(|r| r.0)
    }

    /// Whether it holds.
    pub fn eval<T: PartialOrd>(self, a: T, b: T) -> bool {
        match self {
            Self::Eq => a == b,
            Self::Ne => a != b,
            Self::Lt => a < b,
            Self::Le => a <= b,
            Self::Gt => a > b,
            Self::Ge => a >= b,
        }
    }
}

impl Reduction {
    /// Every reduction with its name in text IR.
    pub const ALL: [(Reduction, &'static str); 5] = [
        (Reduction::Sum, "sum"),
        (Reduction::Mean, "mean"),
        (Reduction::Max, "max"),
        (Reduction::Min, "min"),
        (Reduction::Prod, "prod"),
    ];

    /// The name in text IR.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// The reduction of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|r| r.1 == name).map(|r| r.0)
    }

    /// The function that is folded, one element after another.
    pub fn step(self) -> Binary {
        match self {
            Self::Sum | Self::Mean => Binary::Add,
            Self::Max => Binary::Max,
            Self::Min => Binary::Min,
            Self::Prod => Binary::Mul,
        }
    }

    /// What a fold of floats begins with: the value of nothing, but for the mean's.
    pub fn start(self) -> f64 {
        match self {
            Self::Sum | Self::Mean => 0.0,
            Self::Max => f64::NEG_INFINITY,
            Self::Min => f64::INFINITY,
            Self::Prod => 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_indexed_by_discriminant() {
        for (i, row) in Unary::ALL.iter().enumerate() {
            assert_eq!(row.0 as usize, i);
        }
        for (i, row) in Binary::ALL.iter().enumerate() {
            assert_eq!(row.0 as usize, i);
        }
        for (i, row) in Comparison::ALL.iter().enumerate() {
            assert_eq!(row.0 as usize, i);
        }
        for (i, row) in Reduction::ALL.iter().enumerate() {
            assert_eq!(row.0 as usize, i);
        }
    }

    #[test]
    fn gelu_and_silu_have_their_published_values() {
        assert!((Unary::Gelu.eval(1.0) - 0.841_192).abs() < 1e-6);
        assert!((Unary::GeluErf.eval(1.0) - 0.841_344_746).abs() < 1e-9);
        assert!((Unary::Silu.eval(1.0) - 0.731_058_6).abs() < 1e-6);
    }
}
