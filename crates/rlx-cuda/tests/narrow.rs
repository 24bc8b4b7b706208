//! Products of rows of f16 and bf16, by the library and by tiles.

use crate::common::{Rng, run_op, watched};
use crate::graphs::{check, some};
use rlx_core::ops::{Epilogue, MatMul, Op, Unary};
use rlx_core::types::Scalar;

#[test]
fn narrow_rows_are_multiplied_and_rounded_once() {
    let (device, recorded) = watched();
    let mut rng = Rng(31);
    // The oracle rounds a product before it adds to it, so that results may be a last bit apart.
    for (scalar, tolerance) in [(Scalar::F16, 1e-3), (Scalar::Bf16, 8e-3)] {
        for (rows, k, n, by_library) in
            [(40u64, 64u64, 24u64, true), (1, 64, 24, false), (70, 33, 70, false)]
        {
            let mut any = |dims: &[u64]| some(&mut rng, scalar, dims);
            let (x, w, other) = (any(&[rows, k]), any(&[n, k]), any(&[n, k]));
            let (bias, more, residual) = (any(&[n]), any(&[n]), any(&[rows, n]));
            let op =
                |segments, bias, epilogue| MatMul { segments, bias, epilogue, ..MatMul::plain() };
            recorded.lock().unwrap().clear();
            check(&device, op(1, false, Epilogue::None), &[x.clone(), w.clone()], tolerance);
            let three = [x.clone(), w.clone(), bias.clone()];
            check(&device, op(1, true, Epilogue::None), &three, tolerance);
            let all = [x.clone(), w.clone(), bias.clone(), residual.clone()];
            check(&device, op(1, true, Epilogue::Add), &all, tolerance);
            let gelu = Epilogue::Map(Unary::GeluErf);
            check(&device, op(1, true, gelu), &all[..3], tolerance);
            let add = [x.clone(), w.clone(), residual];
            check(&device, op(1, false, Epilogue::Add), &add, tolerance);
            check(&device, op(2, true, Epilogue::None), &[x, w, other, bias, more], tolerance);
            let products = recorded.lock().unwrap();
            let want = if by_library { vec![rows as u32; 7] } else { Vec::new() };
            assert_eq!(*products, want, "{rows} rows of {k} by {n} columns");
        }
    }
}

/// What its kernels do not do to narrow rows is refused by name.
#[test]
fn gated_units_of_narrow_products_are_steps_of_their_own() {
    let mut rng = Rng(32);
    let (x, w) = (some(&mut rng, Scalar::F16, &[4, 16]), some(&mut rng, Scalar::F16, &[8, 16]));
    let silu = Epilogue::Glu(Unary::Silu);
    let op: Op = MatMul { segments: 2, epilogue: silu, ..MatMul::plain() }.into();
    let why = rlx_cuda::target().claims(&op, &[&x.ty, &w.ty, &w.ty]).expect_err("a gate");
    assert_eq!(why, "its kernel has no norm and no gated unit for rows of f16");
    let wide = some(&mut rng, Scalar::F32, &[8, 16]);
    let why = rlx_cuda::target().claims(&MatMul::plain().into(), &[&x.ty, &wide.ty]);
    assert_eq!(
        why.expect_err("f32"),
        "its kernel multiplies rows of f16 by weights of that type, not of f32"
    );
    assert_eq!(run_op(&watched().0, MatMul::plain(), &[x, w])[0].len(), 4 * 8 * 2);
}
