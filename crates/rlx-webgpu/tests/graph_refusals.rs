//! Operators of networks that this executor's kernels do not take, and what it says of them.

use crate::common::{Operand, Rng};
use crate::graphs::*;
use rlx_core::ops::{BatchMatMul, Binary, Cast, Concat, Interpolate, Interpolation, Op, Zip};
use rlx_core::types::{DType, Scalar};

#[test]
fn what_has_no_kernel_is_refused_by_its_name() {
    let mut rng = Rng(47);
    let refused = |op: Op, operands: &[Operand]| claimed(&op, operands).unwrap_err();
    let x = some(&mut rng, Scalar::F32, &[3]);
    assert_eq!(refused(Cast { to: DType::F64 }.into(), &[x]), "its kernel makes no f64");
    let x = tensor(Scalar::I64, &[2], &[1.0, 2.0]);
    let why = refused(Zip { f: Binary::Add }.into(), &[x.clone(), x]);
    assert_eq!(why, "its kernel takes no i64 as operand 0");
    let many: Vec<Operand> = (0..8).map(|_| some(&mut rng, Scalar::F32, &[2])).collect();
    assert_eq!(refused(Concat { axis: 0 }.into(), &many), "its kernel takes 7 operands");
    for scalar in [Scalar::F16, Scalar::Bf16] {
        let odd = [some(&mut rng, scalar, &[2, 5, 9]), some(&mut rng, scalar, &[2, 9, 7])];
        assert!(refused(BatchMatMul::default().into(), &odd).contains("even number"));
    }
    let op = Interpolate {
        size: vec![1 << 20],
        mode: Interpolation::Linear,
        align_corners: false,
        antialias: false,
    };
    let why = refused(op.into(), &[floats(&mut rng, &[1, 1, 4096])]);
    assert_eq!(why, "its kernel has no room to make 1048576 of 4096");
}
