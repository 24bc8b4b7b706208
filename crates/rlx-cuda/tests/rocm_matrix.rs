//! AMD's products of matrices (`kernels/hip_matrix.cuh`), by what `tests/hip/gcn.h` says of the lanes of each
//! architecture's instructions, against the reference.

use crate::common::{Operand, Rng, TestDevice, agrees_on, input, random_weights, weight};
use crate::decoder::attention_of_many_rows;
use crate::fake::Fake;
use crate::graphs::{check, floats, some, tensor};
use rlx_core::ops::{
    BatchMatMul, Conv, Epilogue, GroupedMatMul, Mask, MatMul, Sdpa, Unary, Window,
};
use rlx_core::types::{BlockFormat, DType, Scalar, Shape, Type};
use rlx_cuda::driver::Driver;
use std::sync::Arc;

/// Layouts: MFMA that takes the smallest halves as zeros, MFMA, WMMA of two generations; and none.
const ARCHITECTURES: [(&str, bool); 5] =
    [("gfx90a", true), ("gfx942", true), ("gfx1100", true), ("gfx1201", true), ("gfx1030", false)];

/// Does the same on a card of each architecture that has products of matrices.
fn on_each(test: impl Fn(&Arc<TestDevice>)) {
    for (arch, has_matrix) in ARCHITECTURES {
        println!("{arch}");
        let fake = Fake::new(arch, false);
        let device = fake.device(false);
        let text =
            "#ifndef HAS_MATRIX\n#error none\n#endif\nextern \"C\" __global__ void k(float* y) {}";
        let compiled = device.driver().compile(1 << 30, text, "k");
        assert_eq!(compiled.is_ok(), has_matrix, "{arch}: {compiled:?}");
        device.driver().forget(1 << 30);
        if has_matrix {
            test(&device);
        }
        drop(device);
        fake.is_content();
    }
}

#[test]
fn tiles_are_multiplied_by_every_layout() {
    on_each(|d| {
        let mut rng = Rng(51);
        for (dtype, k) in
            [(DType::F16, 100u64), (DType::F32, 264), (DType::Block(BlockFormat::Q6K), 512)]
        {
            let w =
                |rng: &mut Rng| weight(dtype, &[70, k], random_weights(rng, dtype, 70, k as usize));
            let ws = [w(&mut rng), w(&mut rng)];
            let x = input(&[70, k], &rng.floats(70 * k as usize));
            agrees_on(d, MatMul::plain(), &[x.clone(), ws[0].clone()], 2e-6);
            if dtype == DType::F16 {
                let epilogue = Epilogue::Glu(Unary::Silu);
                let glu = MatMul { segments: 2, epilogue, ..MatMul::plain() };
                agrees_on(d, glu, &[x, ws[0].clone(), ws[1].clone()], 4e-6);
            }
        }
        // Experts of 100 rows, two of each: weights that are halves, that become halves, and f32.
        let ids: Vec<u8> = (0..200u32).flat_map(|i| (i * 7 % 3).to_le_bytes()).collect();
        let ty = Type::tensor(DType::U32, Shape::of(&[100, 2]));
        let ids = Operand { ty, bytes: ids, ..input(&[], &[0.0]) };
        let shares = input(&[100, 2], &rng.floats(200));
        for (dtype, k, tolerance) in [
            (DType::F16, 72u64, 4e-6),
            (DType::F32, 72, 4e-6),
            (DType::Block(BlockFormat::Q8_0), 64, 4e-4),
        ] {
            let bank = random_weights(&mut rng, dtype, 3 * 70, k as usize);
            let bank = weight(dtype, &[3, 70, k], bank);
            let x = input(&[100, 2, k], &rng.floats(200 * k as usize));
            let operands = [x, bank, ids.clone(), shares.clone()];
            agrees_on(d, GroupedMatMul::sum(), &operands, tolerance);
        }
    });
}

/// Both operands of 16 bits, of f32, and halves that are smaller than what gfx90a's instructions take.
#[test]
fn tensors_are_multiplied_by_every_layout() {
    on_each(|d| {
        let mut rng = Rng(52);
        let op = BatchMatMul { transpose_b: true };
        for (scalar, tolerance) in [(Scalar::F32, 2e-6), (Scalar::F16, 1e-3), (Scalar::Bf16, 8e-3)]
        {
            let mut any = |dims: &[u64]| some(&mut rng, scalar, dims);
            check(d, op.clone(), &[any(&[2, 70, 40]), any(&[2, 66, 40])], tolerance);
            let conv =
                Conv { window: Window::new(2).pad(&[1, 1], &[1, 1]), groups: 1, bias: false };
            check(d, conv, &[any(&[1, 3, 9, 11]), any(&[66, 3, 3, 3])], tolerance);
        }
        let small: Vec<f64> =
            (0..64 * 48).map(|i| f64::from(i % 23 - 11) * 2f64.powi(-22)).collect();
        let large: Vec<f64> = (0..64 * 48).map(|i| f64::from(i % 19 - 9) * 256.0).collect();
        let [small, large] = [small, large].map(|of| tensor(Scalar::F16, &[64, 48], &of));
        check(d, op.clone(), &[small, large], 1e-3);
    });
}

#[test]
fn attention_of_many_rows_is_the_same_in_every_layout() {
    on_each(attention_of_many_rows);
}

#[test]
fn attention_without_a_cache_is_the_same_in_every_layout() {
    on_each(|d| {
        let mut rng = Rng(54);
        for (form, mask, queries, keys) in [
            (Sdpa { kv_heads: 1, ..Sdpa::new(2, 64) }, Mask::Window(20), 65, 131),
            (Sdpa { v_head_dim: 128, softcap: Some(2.0), ..Sdpa::new(1, 96) }, Mask::None, 33, 67),
            (Sdpa { v_head_dim: 24, scale: Some(0.7), ..Sdpa::new(3, 8) }, Mask::Bias, 70, 70),
        ] {
            let (heads, kv) = (form.heads as u64, form.kv_heads as u64);
            let dims = [
                [1, queries, heads, form.head_dim as u64],
                [1, keys, kv, form.head_dim as u64],
                [1, keys, kv, form.v_head_dim as u64],
            ];
            for scalar in [Scalar::F16, Scalar::Bf16] {
                let op = Sdpa { mask: Mask::Causal, ..form.clone() };
                let operands = dims.map(|dims| some(&mut rng, scalar, &dims));
                check(d, op, &operands, 1e-2);
            }
            let mut operands = dims.map(|dims| floats(&mut rng, &dims)).to_vec();
            if mask == Mask::Bias {
                // A query that sees nothing but minus infinity has zeros.
                let mut bias = floats(&mut rng, &[1, 1, queries, keys]);
                for x in bias.bytes[..4 * keys as usize].chunks_exact_mut(4) {
                    x.copy_from_slice(&f32::NEG_INFINITY.to_le_bytes());
                }
                operands.push(bias);
            }
            check(d, Sdpa { mask, ..form }, &operands, 5e-6);
        }
    });
}
