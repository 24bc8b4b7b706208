//! Scalar functions over slices.
//!
//! numerics    exp within 2 ulp ([`Simd::exp`]); silu, sigmoid and gelu are quotients of it, gelu_erf
//!             and softplus polynomials of it, within 4e-7 (gelu_erf below -1: 6e-6, as the exponent
//!             is rounded); sin and cos up to 8192 within 2 ulp; tanh from libm, one by one; what f32
//!             rounds once is exact; the others are the reference's f64, rounded

use crate::simd::{LANES, Level, Simd, Task, dispatch};
use rlx_core::math;
use rlx_core::ops::{Binary, Unary};

/// A function of one f32, applied in place.
#[derive(Clone, Copy)]
pub(super) struct Function(Unary);

impl From<Unary> for Function {
    fn from(f: Unary) -> Self {
        Function(f)
    }
}

impl Function {
    /// `y = f(y)` of every element.
    pub(super) fn apply(self, level: Level, y: &mut [f32]) {
        match self.0 {
            Unary::Relu => y.iter_mut().for_each(|y| *y = y.max(0.0)),
            Unary::Neg => y.iter_mut().for_each(|y| *y = -*y),
            Unary::Tanh => y.iter_mut().for_each(|y| *y = math::tanhf(*y)),
            Unary::Silu => dispatch(level, Map { y, f: Exp::Silu }),
            Unary::Gelu => dispatch(level, Map { y, f: Exp::Gelu }),
            Unary::QuickGelu => dispatch(level, Map { y, f: Exp::QuickGelu }),
            Unary::Sigmoid => dispatch(level, Map { y, f: Exp::Sigmoid }),
            Unary::Exp => dispatch(level, Map { y, f: Exp::Plain }),
            Unary::GeluErf => dispatch(level, Map { y, f: Exp::GeluErf }),
            Unary::Softplus => dispatch(level, Map { y, f: Exp::Softplus }),
            Unary::Sin | Unary::Cos
                if cfg!(feature = "graphs") && y.iter().all(|y| y.abs() <= TURNS) =>
            {
                let quarters = if self.0 == Unary::Sin { 0.0 } else { 1.0 };
                dispatch(level, Map { y, f: Exp::Sine { quarters } });
            }
            Unary::Abs => y.iter_mut().for_each(|y| *y = y.abs()),
            Unary::Sqrt => y.iter_mut().for_each(|y| *y = y.sqrt()),
            Unary::Recip => y.iter_mut().for_each(|y| *y = 1.0 / *y),
            f => y.iter_mut().for_each(|y| *y = f.eval((*y).into()) as f32),
        }
    }
}

#[derive(Clone, Copy)]
enum Exp {
    Silu,
    Gelu,
    QuickGelu,
    Sigmoid,
    Plain,
    GeluErf,
    Softplus,
    /// The sine of x and so many quarter turns.
    Sine {
        quarters: f32,
    },
}

/// Angles up to which their quarter turns are taken away exactly.
const TURNS: f32 = 8192.0;

struct Map<'a> {
    y: &'a mut [f32],
    f: Exp,
}

impl Task for Map<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (whole, rest) = self.y.as_chunks_mut::<LANES>();
        let mut last = [0.0; LANES];
        last[..rest.len()].copy_from_slice(rest);
        // One loop for both, so that the functions are there once.
        for y in whole.iter_mut().chain((!rest.is_empty()).then_some(&mut last)) {
            s.store(one(s, self.f, s.load(y)), y);
        }
        rest.copy_from_slice(&last[..rest.len()]);
    }
}

/// `x / (1 + e^-t)`: silu where t is x, the sigmoid of t where x is 1.
#[inline(always)]
fn over<S: Simd>(s: S, x: S::F, t: S::F) -> S::F {
    s.div(x, s.add(s.splat(1.0), s.exp(s.sub(s.splat(0.0), t))))
}

#[inline(always)]
fn one<S: Simd>(s: S, f: Exp, x: S::F) -> S::F {
    let one = s.splat(1.0);
    match f {
        Exp::Plain => s.exp(x),
        Exp::Sigmoid => over(s, one, x),
        Exp::Silu => over(s, x, x),
        Exp::QuickGelu => over(s, x, s.mul(s.splat(1.702), x)),
        // 0.5 x (1 + tanh u) = x / (1 + e^-2u), which has no cancellation.
        Exp::Gelu => {
            let cube = s.mul(s.mul(x, x), x);
            let u2 = s.mul(s.splat(1.595_769_2), s.fma(s.splat(0.044_715), cube, x));
            over(s, x, u2)
        }
        // max(x, 0) - |x|/2 erfc(|x| / sqrt 2): nothing cancels on either side of 0. Beyond 20 the
        // product is 0, and an infinity must not make it NaN.
        Exp::GeluErf => {
            let size = s.min(s.splat(20.0), s.max(s.sub(s.splat(0.0), x), x));
            let tail = erfc(s, s.mul(size, s.splat(core::f32::consts::FRAC_1_SQRT_2)));
            s.sub(s.max(x, s.splat(0.0)), s.mul(s.mul(s.splat(0.5), size), tail))
        }
        // ln(1 + e) = 2 atanh(e / (2 + e)), whose series needs seven terms up to e = 1.
        Exp::Softplus => {
            let size = s.max(s.sub(s.splat(0.0), x), x);
            let e = s.exp(s.sub(s.splat(0.0), size));
            let t = s.div(e, s.add(s.splat(2.0), e));
            let t2 = s.mul(t, t);
            let mut y = s.splat(1.0 / 13.0);
            for c in [11.0, 9.0, 7.0, 5.0, 3.0, 1.0f32] {
                y = s.fma(y, t2, s.splat(1.0 / c));
            }
            s.fma(s.add(t, t), y, s.max(x, s.splat(0.0)))
        }
        Exp::Sine { quarters } => sine(s, x, quarters),
    }
}

/// The sine of `x` and so many quarter turns.
///
/// `x = n pi / 2 + r`, `|r| <= pi / 4`: Taylor's series to `r^9` and `r^10` are off by less than 3e-9. Which of the
/// two it is, and its sign, are sums of products with 0 and 1, which are exact.
#[inline(always)]
fn sine<S: Simd>(s: S, x: S::F, quarters: f32) -> S::F {
    // pi / 2 in parts of so few bits that n times the first three is exact.
    const PARTS: [f32; 4] = [
        201.0 / (1 << 7) as f32,
        2029.0 / (1 << 22) as f32,
        1297.0 / (1u64 << 34) as f32,
        2.563_344_2e-12,
    ];
    let (one, magic) = (s.splat(1.0), s.splat(12_582_912.0)); // 1.5 * 2^23
    let round = |x| s.sub(s.add(x, magic), magic);
    let half = |n| round(s.fma(n, s.splat(0.5), s.splat(-0.25)));
    let n = round(s.mul(x, s.splat(core::f32::consts::FRAC_2_PI)));
    let mut r = x;
    for part in PARTS {
        r = s.fma(n, s.splat(-part), r);
    }
    let r2 = s.mul(r, r);
    let series = |terms: [f32; 4]| {
        let [last, rest @ ..] = terms;
        rest.iter().fold(s.splat(last), |y, c| s.fma(y, r2, s.splat(*c)))
    };
    let sin = series([1.0 / 362_880.0, -1.0 / 5040.0, 1.0 / 120.0, -1.0 / 6.0]);
    let sin = s.fma(s.mul(sin, r2), r, r);
    let cos = series([-1.0 / 3_628_800.0, 1.0 / 40_320.0, -1.0 / 720.0, 1.0 / 24.0]);
    let cos = s.fma(s.fma(cos, r2, s.splat(-0.5)), r2, one);
    let n = s.add(n, s.splat(quarters));
    let turns = half(n);
    let odd = s.fma(turns, s.splat(-2.0), n);
    let back = s.fma(half(turns), s.splat(-2.0), turns);
    let y = s.fma(cos, odd, s.mul(sin, s.sub(one, odd)));
    s.mul(y, s.fma(back, s.splat(-2.0), one))
}

/// erfc of what is not negative: `e^(-z^2)` times a polynomial in `1 / (1 + z/2)`, its own
/// interpolation at Chebyshev nodes.
#[inline(always)]
fn erfc<S: Simd>(s: S, z: S::F) -> S::F {
    const Q: [f32; 9] = [
        0.224_487_4,
        -0.354_680_9,
        0.113_771_52,
        0.099_131_13,
        0.141_273_66,
        0.262_173_6,
        0.278_755_3,
        0.282_466_8,
        -1.684_097_7e-5,
    ];
    let t = s.div(s.splat(1.0), s.fma(s.splat(0.5), z, s.splat(1.0)));
    let mut q = s.splat(-0.047_361_62);
    for c in Q {
        q = s.fma(q, t, s.splat(c));
    }
    s.mul(s.exp(s.sub(s.splat(0.0), s.mul(z, z))), q)
}

/// `y += x`.
pub(super) struct AddTo<'a> {
    pub(super) x: &'a [f32],
    pub(super) y: &'a mut [f32],
}

impl Task for AddTo<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        self.y.iter_mut().zip(self.x).for_each(|(y, x)| *y += x);
    }
}

/// `y = f(y, b)` of every element, `b` repeated.
pub(super) fn zip(f: Binary, y: &mut [f32], b: &[f32]) {
    let each = |y: &mut [f32], b: &[f32]| {
        let pairs = y.iter_mut().zip(b);
        match f {
            Binary::Add => pairs.for_each(|(y, b)| *y += b),
            Binary::Sub => pairs.for_each(|(y, b)| *y -= b),
            Binary::Mul => pairs.for_each(|(y, b)| *y *= b),
            Binary::Max => pairs.for_each(|(y, b)| *y = y.max(*b)),
            Binary::Min => pairs.for_each(|(y, b)| *y = y.min(*b)),
            Binary::Div => pairs.for_each(|(y, b)| *y /= b),
            f => pairs.for_each(|(y, b)| *y = f.eval((*y).into(), (*b).into()) as f32),
        }
    };
    each(y, b);
}
