//! Scalar functions over slices.
//!
//! numerics    exp within 2 ulp ([`Simd::exp`]); silu, sigmoid and gelu are quotients of it;
//!             tanh from libm, one by one; the others are the reference's f64, rounded

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
            Unary::Sigmoid => dispatch(level, Map { y, f: Exp::Sigmoid }),
            Unary::Exp => dispatch(level, Map { y, f: Exp::Plain }),
            f => y.iter_mut().for_each(|y| *y = f.eval((*y).into()) as f32),
        }
    }
}

#[derive(Clone, Copy)]
enum Exp {
    Silu,
    Gelu,
    Sigmoid,
    Plain,
}

struct Map<'a> {
    y: &'a mut [f32],
    f: Exp,
}

impl Task for Map<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (whole, rest) = self.y.as_chunks_mut::<LANES>();
        for y in whole {
            s.store(one(s, self.f, s.load(y)), y);
        }
        let mut last = [0.0; LANES];
        last[..rest.len()].copy_from_slice(rest);
        s.store(one(s, self.f, s.load(&last)), &mut last);
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
        // 0.5 x (1 + tanh u) = x / (1 + e^-2u), which has no cancellation.
        Exp::Gelu => {
            let cube = s.mul(s.mul(x, x), x);
            let u2 = s.mul(s.splat(1.595_769_2), s.fma(s.splat(0.044_715), cube, x));
            over(s, x, u2)
        }
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
            f => pairs.for_each(|(y, b)| *y = f.eval((*y).into(), (*b).into()) as f32),
        }
    };
    each(y, b);
}
