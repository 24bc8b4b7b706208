//! A chain of elementwise operators, each step stored in its type before the next reads it.

use crate::error::{Error, Result};
use crate::ops::{Region, StepOperand};
use crate::reference::{Run, View};
use crate::types::Type;
use alloc::vec;
use alloc::vec::Vec;

impl Run for Region {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let inputs: Vec<&Type> = operands.iter().map(|v| v.ty).collect();
        let types = self.types(&inputs)?;
        let mut results: Vec<Vec<u8>> = Vec::with_capacity(types.len());
        for step in &self.steps {
            let views: Option<Vec<View<'_>>> = step
                .operands
                .iter()
                .map(|x| match *x {
                    StepOperand::Input(i) => operands.get(i).copied(),
                    StepOperand::Step(i) => Some(View::new(types.get(i)?, results.get(i)?)),
                })
                .collect();
            let views = views.ok_or_else(|| Error::internal("a step reads what is not there"))?;
            results.extend(crate::reference::run(&step.f.op(), &views)?.into_iter().next());
        }
        Ok(results.pop().map(|bytes| vec![bytes]).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::{Binary, Region, RegionStep, StepFn, StepOperand as X, Unary};
    use crate::reference::testing::*;
    use crate::types::DType;
    use alloc::vec::Vec;

    fn region(steps: &[(StepFn, &[X])]) -> Region {
        let step = |(f, x): &(StepFn, &[X])| RegionStep { f: *f, operands: x.to_vec() };
        Region { steps: steps.iter().map(step).collect() }
    }

    #[test]
    fn a_region_gives_the_bits_of_its_chain() {
        let (a, row) = (f32s(&[3, 4], &noise(12, 1)), f32s(&[4], &noise(4, 2)));
        let op = region(&[
            (StepFn::Zip(Binary::Mul), &[X::Input(0), X::Input(1)]),
            (StepFn::Map(Unary::Silu), &[X::Step(0)]),
            (StepFn::Clamp(-0.1, 0.2), &[X::Step(1)]),
            (StepFn::Zip(Binary::Sub), &[X::Input(1), X::Step(2)]),
        ]);
        let silu = |x: f64| (x / (1.0 + (-x).exp())) as f32;
        let expected: Vec<f64> = (0..12)
            .map(|i| {
                let (a, b) = (a.f32s()[i], row.f32s()[i % 4]);
                f64::from(b - silu(f64::from(a * b)).clamp(-0.1, 0.2))
            })
            .collect();
        close(&run1(op.clone(), &[&a, &row]), &expected);
        decomposes(op, &[&a, &row], 0.0);
    }

    #[test]
    fn each_step_is_rounded_to_its_type() {
        // 1 + 2^-12 is 1 in f16, so the difference is 0; in f32 it is 2^-12.
        let x = f32s(&[1], &[1.0 + 1.0 / 4096.0]);
        let one = f32s(&[1], &[1.0]);
        let rounded = region(&[
            (StepFn::Cast(DType::F16), &[X::Input(0)]),
            (StepFn::Cast(DType::F32), &[X::Step(0)]),
            (StepFn::Zip(Binary::Sub), &[X::Step(1), X::Input(1)]),
        ]);
        assert_eq!(run1(rounded, &[&x, &one]), [0.0]);
        let whole = region(&[(StepFn::Zip(Binary::Sub), &[X::Input(0), X::Input(1)])]);
        assert_eq!(run1(whole, &[&x, &one]), [1.0 / 4096.0]);
    }
}
