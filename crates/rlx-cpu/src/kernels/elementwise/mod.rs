//! elementwise y[j] = f(.. f(a[j], b[j]) ..), j over y and each operand repeated to its shape [NumPy]
//! shapes      any that broadcast, of f32, f16, bf16, integers and bool; y and an operand of its shape may be one
//! bytes       each operand and y once; what is between stays in the first cache
//! shares      runs of y's elements
//! numerics    each step in f32, or in i64 of which the type keeps its low bits, rounded to its own type
//!
//! One engine for `map`, `zip`, `compare`, `select`, `cast`, `clamp` and chains of them. It works through
//! blocks of [`BLOCK`] elements: operands are read to registers of a block, widened and repeated
//! ([`layout`]), each step makes a register of others ([`step`]), and the last one is stored.

pub(crate) mod layout;
mod step;

use super::convert::{self, FLOATS};
use super::{Kernel, Planned};
use crate::place::Split;
use crate::view::Cx;
use core::cell::RefCell;
use layout::{Layout, RANK};
use rlx_core::ir::lir::Step;
use rlx_core::ops::{RegionStep, StepFn, StepOperand};
use rlx_core::types::{DType, Kind, Scalar, Type};
use rlx_core::{Error, Result};
use step::{Instruction, Registers};

/// Elements of a register: one of f32 takes an eighth of the smallest first cache.
const BLOCK: usize = 512;
/// Registers, so that all of them stay in the second cache.
const STEPS: usize = 64;

/// What registers are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// f32.
    Float,
    /// i64: integers, and bool as 0 and 1.
    Integer,
}

impl Class {
    /// The class of a type, if kernels have one for it.
    fn of(dtype: DType) -> Option<Class> {
        match dtype {
            _ if FLOATS.contains(&dtype) => Some(Class::Float),
            _ if dtype.is_int() || dtype == DType::Scalar(Scalar::Bool) => Some(Class::Integer),
            _ => None,
        }
    }
}

/// An operand as it is read.
struct Input {
    dtype: DType,
    class: Class,
    layout: Layout,
}

struct Elementwise {
    inputs: Vec<Input>,
    /// Registers are the inputs', then one for each step.
    steps: Vec<Instruction>,
    dtype: DType,
    class: Class,
    rows: usize,
    elements: usize,
}

/// Fails unless every operand and the result have a type and a rank that the engine has.
pub(super) fn takes(operands: &[&Type], steps: &[Type]) -> Result<(), String> {
    for (i, ty) in operands.iter().enumerate() {
        if ty.kind != Kind::Tensor || Class::of(ty.dtype).is_none() {
            return Err(super::claim::refused(ty, i));
        }
    }
    for ty in steps {
        if Class::of(ty.dtype).is_none() {
            return Err(format!("its kernel makes no {}", ty.dtype));
        }
        if ty.shape.rank() > RANK {
            return Err(format!("its kernel takes at most {RANK} axes"));
        }
    }
    if operands.len() + steps.len() > STEPS {
        return Err(format!("its kernel takes at most {STEPS} operands and steps"));
    }
    Ok(())
}

/// One operator, given as a step over the operands in their order.
pub(super) fn plan_one(f: StepFn, step: &Step) -> Result<Planned> {
    let operands = (0..step.operands.len()).map(StepOperand::Input).collect();
    let types = step.results.iter().map(|r| r.ty.clone()).collect::<Vec<_>>();
    plan(&[RegionStep { f, operands }], &types, step)
}

/// A chain of steps whose results have these types.
pub(super) fn plan(steps: &[RegionStep], types: &[Type], step: &Step) -> Result<Planned> {
    let unknown = || Error::internal("an elementwise step of a type that has no registers");
    let result = &step.results[0].ty;
    let sizes = |ty: &Type| -> Result<Vec<usize>> {
        Ok(ty.shape.static_dims()?.iter().map(|&n| n as usize).collect())
    };
    let to = sizes(result)?;
    let inputs = step.operands.iter().map(|x| {
        let (dtype, layout) = (x.ty.dtype, Layout::new(&sizes(&x.ty)?, &to));
        Ok(Input { dtype, class: Class::of(dtype).ok_or_else(unknown)?, layout })
    });
    let inputs = inputs.collect::<Result<Vec<_>>>()?;
    let mut known: Vec<(DType, Class)> = inputs.iter().map(|x| (x.dtype, x.class)).collect();
    let mut instructions = Vec::with_capacity(steps.len());
    let mut cost = 0;
    for (step, ty) in steps.iter().zip(types) {
        let registers = step.operands.iter().map(|x| match *x {
            StepOperand::Input(i) => i,
            StepOperand::Step(i) => inputs.len() + i,
        });
        let from: Vec<usize> = registers.collect();
        let class = Class::of(ty.dtype).ok_or_else(unknown)?;
        let source = from.last().and_then(|&r| known.get(r)).ok_or_else(unknown)?.1;
        instructions.push(Instruction { f: step.f, from, dtype: ty.dtype, source });
        known.push((ty.dtype, class));
        cost += if matches!(step.f, StepFn::Map(_)) { 16 } else { 4 };
    }
    let elements: usize = to.iter().product();
    let kernel = Elementwise {
        inputs,
        steps: instructions,
        dtype: result.dtype,
        class: Class::of(result.dtype).ok_or_else(unknown)?,
        rows: elements.checked_div(to.last().copied().unwrap_or(1)).unwrap_or(0),
        elements,
    };
    Ok(Planned::new(kernel, &[Split::Flat(64)], elements * cost))
}

std::thread_local! {
    static REGISTERS: RefCell<Registers> = RefCell::default();
}

impl Kernel for Elementwise {
    fn run(&self, cx: &mut Cx<'_>) {
        REGISTERS.with_borrow_mut(|registers| self.run_with(cx, registers));
    }
}

impl Elementwise {
    fn run_with(&self, cx: &mut Cx<'_>, registers: &mut Registers) {
        let (level, size) = (cx.level, self.dtype.block_bytes());
        let bytes = cx.result(0).columns::<u8>();
        let (first, last) = (bytes.start / size, bytes.end / size);
        // Rows that are not real are left out.
        let end = last.min(cx.real(self.rows) * (self.elements / self.rows.max(1)));
        registers.prepare(self.inputs.len() + self.steps.len());
        for at in (first..end).step_by(BLOCK) {
            let n = BLOCK.min(end - at);
            for (i, input) in self.inputs.iter().enumerate() {
                // What repeats as one number stays in its register.
                if input.layout == Layout::One && at > first {
                    continue;
                }
                let n = if input.layout == Layout::One { BLOCK } else { n };
                let operand = cx.bytes(i);
                // An operand that the result is written over is shown by the result alone.
                let written = operand.is_empty();
                let here =
                    &mut cx.result(0).row::<u8>(0)[(at - first) * size..][..n.min(end - at) * size];
                let (operand, layout, at) = match written {
                    true => (&*here, &Layout::Same, 0),
                    false => (operand, &input.layout, at),
                };
                match input.class {
                    Class::Float => {
                        let room = registers.floats_mut(i, n);
                        layout.read_floats(level, input.dtype, operand, at, room);
                    }
                    Class::Integer => {
                        let room = registers.integers_mut(i, n);
                        layout.read_integers(input.dtype, operand, at, room);
                    }
                }
            }
            for (k, step) in self.steps.iter().enumerate() {
                registers.step(level, step, self.inputs.len() + k, n);
            }
            let last = self.inputs.len() + self.steps.len() - 1;
            let y = &mut cx.result(0).row::<u8>(0)[(at - first) * size..][..n * size];
            match self.class {
                Class::Float => convert::write(level, self.dtype, registers.floats(last, n), y),
                Class::Integer => {
                    layout::put_integers(self.dtype, registers.integers(last, n), y);
                }
            }
        }
    }
}
