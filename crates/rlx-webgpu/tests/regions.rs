//! Chains of elementwise operators in one kernel, against the reference's.

use crate::common;
use common::*;
use rlx_core::Code;
use rlx_core::ops::{Binary, Op, Region, RegionStep, StepFn, StepOperand, Unary, Zip};
use rlx_core::reference::{self, View};
use rlx_core::types::{DType, Type};
use rlx_webgpu::kernels::scalar;

use StepOperand::{Input, Step};

fn step(f: StepFn, operands: &[StepOperand]) -> RegionStep {
    RegionStep { f, operands: operands.to_vec() }
}

fn truth(op: &Op, operands: &[Operand]) -> Vec<f64> {
    let views: Vec<View<'_>> = operands.iter().map(|o| View::new(&o.ty, &o.bytes)).collect();
    let made = reference::run(op, &views).expect("the reference runs this");
    floats(&made[0]).iter().map(|&x| x.into()).collect()
}

fn claims(op: &Op, operands: &[Operand]) -> bool {
    let types: Vec<&Type> = operands.iter().map(|o| &o.ty).collect();
    rlx_webgpu::target(rlx_webgpu::DEFAULT_LIMITS).claims(op, &types).is_ok()
}

/// `(f(x) * row + y) op x`, for every function and every `op` that a decoder's kernels have.
#[test]
fn chains_of_every_function_are_the_references() {
    let d = device();
    let mut rng = Rng(31);
    let functions = Unary::ALL.into_iter().filter(|row| scalar::unary(row.0).is_some());
    let pairs: Vec<Binary> =
        Binary::ALL.map(|row| row.0).into_iter().filter(|f| scalar::binary(*f).is_some()).collect();
    for (n, (f, name)) in functions.enumerate() {
        let last = pairs[n % pairs.len()];
        for (rows, columns) in [(1u64, 1u64), (3, 65), (70, 64)] {
            // Positive and away from 0: no function is asked where it is steep or not defined.
            let mut positive = |n: u64| -> Vec<f32> {
                rng.floats(n as usize).iter().map(|x| x.abs() + 0.25).collect()
            };
            let operands = [
                input(&[rows, columns], &positive(rows * columns)),
                input(&[columns], &positive(columns)),
                input(&[rows, columns], &positive(rows * columns)),
            ];
            let op = Op::from(Region {
                steps: vec![
                    step(StepFn::Map(f), &[Input(0)]),
                    step(StepFn::Zip(Binary::Mul), &[Step(0), Input(1)]),
                    step(StepFn::Zip(Binary::Add), &[Step(1), Input(2)]),
                    step(StepFn::Zip(last), &[Step(2), Input(0)]),
                ],
            });
            assert!(claims(&op, &operands), "{name}");
            let got = run_op(&d, op.clone(), &operands);
            assert_close(name, &floats(&got[0]), &truth(&op, &operands), 1e-5);
        }
    }
}

#[test]
fn one_input_may_be_read_often_and_a_step_too() {
    let d = device();
    let x = input(&[2, 33], &Rng(5).floats(66));
    let op = Op::from(Region {
        steps: vec![
            step(StepFn::Zip(Binary::Mul), &[Input(0), Input(0)]),
            step(StepFn::Zip(Binary::Add), &[Step(0), Step(0)]),
            step(StepFn::Zip(Binary::Sub), &[Step(1), Step(0)]),
        ],
    });
    let operands = [x];
    assert_close(
        "squares",
        &floats(&run_op(&d, op.clone(), &operands)[0]),
        &truth(&op, &operands),
        1e-6,
    );
}

/// A number for each row, and one for all, alone and in a chain.
#[test]
fn columns_and_numbers_repeat() {
    let d = device();
    let mut rng = Rng(6);
    for dims in [&[3u64, 65][..], &[1, 64], &[2, 3, 5]] {
        let mut some =
            |dims: &[u64]| input(dims, &rng.floats(dims.iter().product::<u64>() as usize));
        let (x, row) = (some(dims), some(&dims[dims.len() - 1..]));
        let column = some(&[&dims[..dims.len() - 1], &[1]].concat());
        for (name, small) in [("column", column), ("number", some(&[])), ("one", some(&[1, 1]))] {
            let op = Op::from(Zip { f: Binary::Sub });
            let operands = [x.clone(), small.clone()];
            let got = floats(&run_op(&d, op.clone(), &operands)[0]);
            assert_close(name, &got, &truth(&op, &operands), 1e-7);
            let op = Op::from(Region {
                steps: vec![
                    step(StepFn::Zip(Binary::Sub), &[Input(0), Input(1)]),
                    step(StepFn::Map(Unary::Tanh), &[Step(0)]),
                    step(StepFn::Zip(Binary::Mul), &[Step(1), Input(2)]),
                ],
            });
            let operands = [small, x.clone(), row.clone()];
            let got = floats(&run_op(&d, op.clone(), &operands)[0]);
            assert_close(name, &got, &truth(&op, &operands), 1e-5);
        }
    }
}

#[test]
fn what_is_not_claimed_is_refused() {
    let d = device();
    let x = input(&[2, 3], &[1.0; 6]);
    // Each in a buffer of its own they would be more than a device binds.
    let sum = |i| {
        step(StepFn::Zip(Binary::Add), &[if i == 1 { Input(0) } else { Step(i - 2) }, Input(i)])
    };
    for (steps, operands) in [
        (vec![step(StepFn::Cast(DType::F64), &[Input(0)])], vec![x.clone()]),
        ((1..7).map(sum).collect(), vec![x; 7]),
    ] {
        let op = Op::from(Region { steps });
        assert!(!claims(&op, &operands));
        let made = run(&d, &case(op, &operands, Buffers::One));
        assert_eq!(made.unwrap_err().code, Code::Unsupported);
    }
}
