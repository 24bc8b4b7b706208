//! Kernels that any network may ask for, against the reference: odd and empty sizes, shapes that repeat, strides,
//! every element type, numbers that are not finite.

mod attention;
mod elementwise;
mod movement;
mod products;
mod random;
mod reductions;
mod windows;

use crate::common::{Buffers, Operand, Rng, TestDevice, case, run, target};
use half::{bf16, f16};
use rlx_core::compare::difference_of_any;
use rlx_core::ir::lir::Space;
use rlx_core::ops::Op;
use rlx_core::reference::{self, View};
use rlx_core::types::{DType, Scalar, Shape, Type};
use std::sync::Arc;

/// Every scalar type of up to 32 bits.
pub const SCALARS: [Scalar; 9] = [
    Scalar::F32,
    Scalar::F16,
    Scalar::Bf16,
    Scalar::I32,
    Scalar::I16,
    Scalar::I8,
    Scalar::U32,
    Scalar::U8,
    Scalar::Bool,
];

pub fn elements(dims: &[u64]) -> usize {
    dims.iter().product::<u64>() as usize
}

/// The bytes of numbers in a type: rounded or cut off as Rust's `as` does.
fn encode(scalar: Scalar, values: &[f64]) -> Vec<u8> {
    let each = |x: f64| match scalar {
        Scalar::F64 => x.to_le_bytes().to_vec(),
        Scalar::F32 => (x as f32).to_le_bytes().to_vec(),
        Scalar::F16 => f16::from_f64(x).to_le_bytes().to_vec(),
        Scalar::Bf16 => bf16::from_f64(x).to_le_bytes().to_vec(),
        Scalar::I64 => (x as i64).to_le_bytes().to_vec(),
        Scalar::I32 => (x as i32).to_le_bytes().to_vec(),
        Scalar::I16 => (x as i16).to_le_bytes().to_vec(),
        Scalar::I8 => (x as i8).to_le_bytes().to_vec(),
        Scalar::U32 => (x as u32).to_le_bytes().to_vec(),
        Scalar::U8 => (x as u8).to_le_bytes().to_vec(),
        Scalar::Bool => vec![u8::from(x != 0.0)],
        Scalar::C64 => [x as f32, 0.0].map(f32::to_le_bytes).concat(),
    };
    values.iter().flat_map(|&x| each(x)).collect()
}

/// The numbers that bytes of a type are.
pub fn decode(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    let each = |b: &[u8]| -> f64 {
        match dtype {
            DType::F32 => f32::from_le_bytes(b.try_into().unwrap()).into(),
            DType::F16 => f16::from_le_bytes(b.try_into().unwrap()).into(),
            DType::BF16 => bf16::from_le_bytes(b.try_into().unwrap()).into(),
            DType::I32 => i32::from_le_bytes(b.try_into().unwrap()).into(),
            DType::U32 => u32::from_le_bytes(b.try_into().unwrap()).into(),
            DType::Scalar(Scalar::I16) => i16::from_le_bytes(b.try_into().unwrap()).into(),
            DType::Scalar(Scalar::I8) => i8::from_le_bytes(b.try_into().unwrap()).into(),
            DType::Scalar(Scalar::U8 | Scalar::Bool) => b[0].into(),
            DType::I64 => i64::from_le_bytes(b.try_into().unwrap()) as f64,
            DType::F64 => f64::from_le_bytes(b.try_into().unwrap()),
            other => panic!("no numbers of {other}"),
        }
    };
    bytes.chunks_exact(dtype.block_bytes()).map(each).collect()
}

/// A tensor of these numbers that the host writes.
pub fn tensor(scalar: Scalar, dims: &[u64], values: &[f64]) -> Operand {
    assert_eq!(values.len(), elements(dims));
    let ty = Type::tensor(DType::Scalar(scalar), Shape::of(dims));
    Operand { space: Space::Input, ty, bytes: encode(scalar, values) }
}

/// A tensor of random numbers that every type has: small integers and their quarters.
pub fn some(rng: &mut Rng, scalar: Scalar, dims: &[u64]) -> Operand {
    let number = |rng: &mut Rng| match scalar {
        Scalar::F32 | Scalar::F16 | Scalar::Bf16 => (rng.next() % 65) as f64 / 8.0 - 4.0,
        Scalar::Bool => (rng.next() % 2) as f64,
        Scalar::U32 | Scalar::U8 => (rng.next() % 200) as f64,
        _ => (rng.next() % 240) as f64 - 120.0,
    };
    let values: Vec<f64> = (0..elements(dims)).map(|_| number(rng)).collect();
    tensor(scalar, dims, &values)
}

/// A tensor of random floats between -1 and 1.
pub fn floats(rng: &mut Rng, dims: &[u64]) -> Operand {
    let values: Vec<f64> = (0..elements(dims)).map(|_| rng.float().into()).collect();
    tensor(Scalar::F32, dims, &values)
}

/// Whether the target claims the operator over these operands.
pub fn claimed(op: &Op, operands: &[Operand]) -> Result<(), String> {
    let types: Vec<&Type> = operands.iter().map(|o| &o.ty).collect();
    target().claims(op, &types)
}

/// Runs a claimed operator on the device and on the reference; every result is within `tolerance` times the
/// largest number of it, and is no number where the reference's is none.
#[track_caller]
pub fn check(d: &Arc<TestDevice>, op: impl Into<Op>, operands: &[Operand], tolerance: f64) {
    let op = op.into();
    let types: Vec<String> = operands.iter().map(|o| o.ty.to_string()).collect();
    let what = format!("{}{} of {}", op.name(), op.attrs(), types.join(", "));
    claimed(&op, operands).unwrap_or_else(|why| panic!("{what}: {why}"));
    let views: Vec<View<'_>> = operands.iter().map(|o| View::new(&o.ty, &o.bytes)).collect();
    let want = reference::run(&op, &views).unwrap_or_else(|e| panic!("{what}: {e}"));
    let got = run(d, &case(op.clone(), operands, Buffers::One));
    let got = got.unwrap_or_else(|e| panic!("{what}: {e}"));
    let types: Vec<&Type> = operands.iter().map(|o| &o.ty).collect();
    let results = op.infer(&types).unwrap();
    assert_eq!(got.len(), want.len(), "{what}");
    for ((got, want), ty) in got.iter().zip(&want).zip(results) {
        if got == want {
            continue;
        }
        let (got, want) = (decode(ty.dtype, got), decode(ty.dtype, want));
        let found = difference_of_any(&got, &want);
        assert!(
            found.relative() <= tolerance,
            "{what}: element {} is {:?}, expected {:?}: {found:?}, {tolerance:e} allowed",
            found.at,
            got.get(found.at),
            want.get(found.at)
        );
    }
}
