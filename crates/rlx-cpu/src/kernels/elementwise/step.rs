//! Registers of a block, and what makes one of others.

use super::{BLOCK, Class};
use crate::kernels::convert;
use crate::kernels::math::Function;
use crate::simd::{Level, Simd, Task, dispatch};
use rlx_core::math::{to_bf16, to_f16};
use rlx_core::ops::{Binary, Comparison, StepFn};
use rlx_core::types::{DType, Scalar};

/// One step: a register of others.
pub(super) struct Instruction {
    pub(super) f: StepFn,
    /// Registers that it reads, in the operator's order.
    pub(super) from: Vec<usize>,
    /// The type of the result.
    pub(super) dtype: DType,
    /// The class of the last register that it reads.
    pub(super) source: Class,
}

/// Registers of both classes by one numbering.
#[derive(Default)]
pub(super) struct Registers {
    floats: Vec<Vec<f32>>,
    integers: Vec<Vec<i64>>,
}

impl Registers {
    /// Makes room for `n` of them.
    pub(super) fn prepare(&mut self, n: usize) {
        if self.floats.len() < n {
            self.floats.resize_with(n, Vec::new);
            self.integers.resize_with(n, Vec::new);
        }
    }

    pub(super) fn floats(&self, i: usize, n: usize) -> &[f32] {
        &self.floats[i][..n]
    }

    pub(super) fn integers(&self, i: usize, n: usize) -> &[i64] {
        &self.integers[i][..n]
    }

    pub(super) fn floats_mut(&mut self, i: usize, n: usize) -> &mut [f32] {
        self.floats[i].resize(BLOCK, 0.0);
        &mut self.floats[i][..n]
    }

    pub(super) fn integers_mut(&mut self, i: usize, n: usize) -> &mut [i64] {
        self.integers[i].resize(BLOCK, 0);
        &mut self.integers[i][..n]
    }

    /// Computes the first `n` elements of register `to`.
    pub(super) fn step(&mut self, level: Level, step: &Instruction, to: usize, n: usize) {
        match Class::of(step.dtype) {
            Some(Class::Float) => {
                let mut y = core::mem::take(&mut self.floats[to]);
                y.resize(BLOCK, 0.0);
                self.float(level, step, &mut y[..n]);
                self.floats[to] = y;
            }
            _ => {
                let mut y = core::mem::take(&mut self.integers[to]);
                y.resize(BLOCK, 0);
                self.integer(level, step, &mut y[..n]);
                self.integers[to] = y;
            }
        }
    }

    /// A step with a result of floats.
    fn float(&self, level: Level, step: &Instruction, y: &mut [f32]) {
        let n = y.len();
        match (step.f, step.from.as_slice()) {
            (StepFn::Map(f), &[x]) => {
                y.copy_from_slice(self.floats(x, n));
                Function::from(f).apply(level, y);
            }
            (StepFn::Zip(f), &[a, b]) => {
                dispatch(level, ZipFloats { f, a: self.floats(a, n), b: self.floats(b, n), y });
            }
            (StepFn::Clamp(min, max), &[x]) => {
                dispatch(level, Clamp { x: self.floats(x, n), min, max, y });
            }
            (StepFn::Select, &[cond, a, b]) => {
                let (a, b) = (self.floats(a, n), self.floats(b, n));
                dispatch(level, Choose { cond: self.integers(cond, n), a, b, y });
            }
            (StepFn::Cast(_), &[x]) if step.source == Class::Integer => {
                return cast_integers(step.dtype, self.integers(x, n), y);
            }
            (StepFn::Cast(_), &[x]) => y.copy_from_slice(self.floats(x, n)),
            _ => debug_assert!(false, "the type rule allows no such step"),
        }
        convert::round(level, step.dtype, y);
    }

    /// A step with a result of integers or bool.
    fn integer(&self, level: Level, step: &Instruction, y: &mut [i64]) {
        let n = y.len();
        match (step.f, step.from.as_slice(), step.source) {
            (StepFn::Compare(f), &[a, b], Class::Float) => {
                dispatch(level, Test { f, a: self.floats(a, n), b: self.floats(b, n), y });
            }
            (StepFn::Compare(f), &[a, b], Class::Integer) => {
                dispatch(level, Test { f, a: self.integers(a, n), b: self.integers(b, n), y });
            }
            (StepFn::Select, &[cond, a, b], _) => {
                let (a, b) = (self.integers(a, n), self.integers(b, n));
                dispatch(level, Choose { cond: self.integers(cond, n), a, b, y });
            }
            (StepFn::Zip(f), &[a, b], _) => {
                dispatch(
                    level,
                    ZipIntegers { f, a: self.integers(a, n), b: self.integers(b, n), y },
                );
                wrap(step.dtype, y);
            }
            (StepFn::Cast(to), &[x], Class::Integer) => {
                y.copy_from_slice(self.integers(x, n));
                wrap(to, y);
            }
            (StepFn::Cast(to), &[x], Class::Float) => cut(to, self.floats(x, n), y),
            _ => debug_assert!(false, "the type rule allows no such step"),
        }
    }
}

/// The low bits, which the type keeps; of bool 1 for all but 0.
fn wrap(dtype: DType, y: &mut [i64]) {
    let DType::Scalar(scalar) = dtype else { return };
    match scalar {
        Scalar::I32 => y.iter_mut().for_each(|y| *y = (*y as i32).into()),
        Scalar::I16 => y.iter_mut().for_each(|y| *y = (*y as i16).into()),
        Scalar::I8 => y.iter_mut().for_each(|y| *y = (*y as i8).into()),
        Scalar::U32 => y.iter_mut().for_each(|y| *y = (*y as u32).into()),
        Scalar::U8 => y.iter_mut().for_each(|y| *y = (*y as u8).into()),
        Scalar::Bool => y.iter_mut().for_each(|y| *y = (*y != 0).into()),
        Scalar::I64 | Scalar::F64 | Scalar::F32 | Scalar::F16 | Scalar::Bf16 | Scalar::C64 => {}
    }
}

/// Floats to integers: cut off towards 0; what is too large saturates; NaN is 0. Bool is true for all but 0.
fn cut(dtype: DType, x: &[f32], y: &mut [i64]) {
    fn each(x: &[f32], y: &mut [i64], f: impl Fn(f32) -> i64) {
        y.iter_mut().zip(x).for_each(|(y, x)| *y = f(*x));
    }
    let DType::Scalar(scalar) = dtype else { return };
    match scalar {
        Scalar::I64 => each(x, y, |x| x as i64),
        Scalar::I32 => each(x, y, |x| (x as i32).into()),
        Scalar::I16 => each(x, y, |x| (x as i16).into()),
        Scalar::I8 => each(x, y, |x| (x as i8).into()),
        Scalar::U32 => each(x, y, |x| (x as u32).into()),
        Scalar::U8 => each(x, y, |x| (x as u8).into()),
        Scalar::Bool => each(x, y, |x| (x != 0.0).into()),
        Scalar::F64 | Scalar::F32 | Scalar::F16 | Scalar::Bf16 | Scalar::C64 => {}
    }
}

/// Integers to a float type, rounded once.
fn cast_integers(dtype: DType, x: &[i64], y: &mut [f32]) {
    for (y, &x) in y.iter_mut().zip(x) {
        *y = match dtype {
            DType::F16 => to_f16(x as f64).to_f32(),
            DType::BF16 => to_bf16(x as f64).to_f32(),
            _ => x as f32,
        };
    }
}

// Plain loops from here on: they become vectors because `dispatch` compiles them for the level's features.

struct ZipFloats<'a> {
    f: Binary,
    a: &'a [f32],
    b: &'a [f32],
    y: &'a mut [f32],
}

impl Task for ZipFloats<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let ZipFloats { f, a, b, y } = self;
        let each = y.iter_mut().zip(a.iter().zip(b));
        match f {
            Binary::Add => each.for_each(|(y, (a, b))| *y = a + b),
            Binary::Sub => each.for_each(|(y, (a, b))| *y = a - b),
            Binary::Mul => each.for_each(|(y, (a, b))| *y = a * b),
            Binary::Max => each.for_each(|(y, (a, b))| *y = a.max(*b)),
            Binary::Min => each.for_each(|(y, (a, b))| *y = a.min(*b)),
            Binary::Div => each.for_each(|(y, (a, b))| *y = a / b),
            f => each.for_each(|(y, (a, b))| *y = f.eval((*a).into(), (*b).into()) as f32),
        }
    }
}

struct ZipIntegers<'a> {
    f: Binary,
    a: &'a [i64],
    b: &'a [i64],
    y: &'a mut [i64],
}

impl Task for ZipIntegers<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let ZipIntegers { f, a, b, y } = self;
        let each = y.iter_mut().zip(a.iter().zip(b));
        match f {
            Binary::Add => each.for_each(|(y, (a, b))| *y = a.wrapping_add(*b)),
            Binary::Sub => each.for_each(|(y, (a, b))| *y = a.wrapping_sub(*b)),
            Binary::Mul => each.for_each(|(y, (a, b))| *y = a.wrapping_mul(*b)),
            Binary::Max => each.for_each(|(y, (a, b))| *y = *a.max(b)),
            Binary::Min => each.for_each(|(y, (a, b))| *y = *a.min(b)),
            // What is divided by 0 nobody may read.
            f => each.for_each(|(y, (a, b))| *y = f.eval_int(*a, *b).unwrap_or(0)),
        }
    }
}

struct Clamp<'a> {
    x: &'a [f32],
    min: f32,
    max: f32,
    y: &'a mut [f32],
}

impl Task for Clamp<'_> {
    type Output = ();
    #[inline(always)]
    #[allow(clippy::manual_clamp)] // clamp keeps a NaN, max makes it the bound
    fn run<S: Simd>(self, _: S) {
        for (y, x) in self.y.iter_mut().zip(self.x) {
            *y = x.max(self.min).min(self.max);
        }
    }
}

struct Test<'a, T> {
    f: Comparison,
    a: &'a [T],
    b: &'a [T],
    y: &'a mut [i64],
}

impl<T: PartialOrd + Copy> Task for Test<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Test { f, a, b, y } = self;
        let each = y.iter_mut().zip(a.iter().zip(b));
        match f {
            Comparison::Eq => each.for_each(|(y, (a, b))| *y = (a == b).into()),
            Comparison::Ne => each.for_each(|(y, (a, b))| *y = (a != b).into()),
            Comparison::Lt => each.for_each(|(y, (a, b))| *y = (a < b).into()),
            Comparison::Le => each.for_each(|(y, (a, b))| *y = (a <= b).into()),
            Comparison::Gt => each.for_each(|(y, (a, b))| *y = (a > b).into()),
            Comparison::Ge => each.for_each(|(y, (a, b))| *y = (a >= b).into()),
        }
    }
}

struct Choose<'a, T> {
    cond: &'a [i64],
    a: &'a [T],
    b: &'a [T],
    y: &'a mut [T],
}

impl<T: Copy> Task for Choose<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Choose { cond, a, b, y } = self;
        for ((y, c), (a, b)) in y.iter_mut().zip(cond).zip(a.iter().zip(b)) {
            *y = if *c != 0 { *a } else { *b };
        }
    }
}
