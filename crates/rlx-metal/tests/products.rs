//! Our own products of a prompt's rows, of f32 and of f16, against the reference's.

use crate::common::*;
use crate::emulator::Watch;
use rlx_core::compare::difference;
use rlx_core::ops::{Epilogue, MatMul, Op, Unary};
use rlx_core::types::{BlockFormat, DType};
use std::sync::Arc;

pub const BLOCKS: [DType; 8] = [
    DType::Block(BlockFormat::Q4_0),
    DType::Block(BlockFormat::Q4_1),
    DType::Block(BlockFormat::Q5_0),
    DType::Block(BlockFormat::Q5_1),
    DType::Block(BlockFormat::Q8_0),
    DType::Block(BlockFormat::Q4K),
    DType::Block(BlockFormat::Q5K),
    DType::Block(BlockFormat::Q6K),
];

/// A kernel that products are expected to run on, and how far off its results may be.
pub struct On {
    pub device: Arc<TestDevice>,
    pub kernel: &'static str,
    pub most: f64,
}

impl On {
    /// The kernel of halves, whose results are the reference's but for roundings to f16.
    fn halves(watch: Watch) -> On {
        On { device: in_halves(watch), kernel: "own_matmul_tile_half", most: 1e-3 }
    }

    /// That of floats, whose sums are in another order than the reference's.
    fn floats(watch: Watch) -> On {
        On { device: watched(watch), kernel: "own_matmul_tile", most: 4e-6 }
    }

    /// Runs a product there, and compares it with the reference's.
    #[track_caller]
    pub fn check(&self, op: MatMul, operands: &[Operand], what: &str) {
        let op = Op::from(op);
        let before = self.device.gpu().metal().launches(self.kernel);
        let got = run_op(&self.device, op.clone(), operands);
        let after = self.device.gpu().metal().launches(self.kernel);
        assert!(after > before, "{what}: another kernel ran");
        for (got, want) in got.iter().zip(truth(&op, operands)) {
            let off = difference(&floats(got), &floats(&want)).relative();
            assert!(off <= self.most, "{what}: {off:e}");
        }
    }

    /// Several weights at once, which are one kernel: their types, rows of x, and their rows of so many elements.
    #[track_caller]
    pub fn check_types(&self, types: &[DType], [m, n, k]: [u64; 3]) {
        let mut rng = Rng(41);
        let op = MatMul { segments: types.len(), ..MatMul::plain() };
        let mut operands = vec![input(&[m, k], &rng.floats((m * k) as usize))];
        for dtype in types {
            let w = random_weights(&mut rng, *dtype, n as usize, k as usize);
            operands.push(weight(*dtype, &[n, k], w));
        }
        self.check(op, &operands, &format!("{types:?} of {k}"));
    }

    /// What follows a product of weights of these two types, with norms where it takes them.
    #[track_caller]
    pub fn check_what_follows(&self, types: [DType; 2], [m, n, k]: [u64; 3], norms: bool) {
        let mut rng = Rng(45);
        let [w0, w1] = types.map(|dtype| {
            weight(dtype, &[n, k], random_weights(&mut rng, dtype, n as usize, k as usize))
        });
        let x = input(&[m, k], &rng.floats((m * k) as usize));
        let mut vector = |n: u64| weight(DType::F32, &[n], f32_bytes(&rng.floats(n as usize)));
        let (bias, norm) = (vector(n), vector(k));
        let residual = input(&[m, n], &rng.floats((m * n) as usize));
        let add = MatMul { epilogue: Epilogue::Add, ..MatMul::plain() };
        self.check(add, &[x.clone(), w0.clone(), residual], "added");
        let gelu = MatMul { epilogue: Epilogue::Map(Unary::Gelu), bias: true, ..MatMul::plain() };
        self.check(gelu, &[x.clone(), w0.clone(), bias], "biased");
        let glu = MatMul { segments: 2, epilogue: Epilogue::Glu(Unary::Silu), ..MatMul::plain() };
        self.check(glu.clone(), &[x.clone(), w0.clone(), w1.clone()], "gated");
        let two = MatMul { segments: 2, ..MatMul::plain() };
        if !norms {
            return self.check(two, &[x, w0, w1], "two types");
        }
        let normed = MatMul { norm: Some(1e-5), ..glu };
        assert_eq!(normed.parts().norm, Some(1));
        let operands = [x, norm, w0, w1];
        self.check(normed, &operands, "normed");
        self.check(MatMul { norm: Some(1e-5), ..two }, &operands, "two types");
    }

    /// Rows beyond the range of f16 at either end, and of zeros.
    #[track_caller]
    pub fn check_rows_of_any_size(&self) {
        let mut rng = Rng(43);
        let (m, k, n) = (4u64, 64u64, 8u64);
        let w = weight(DType::F16, &[n, k], random_weights(&mut rng, DType::F16, 8, k as usize));
        for scale in [1e30f32, 1e-30, 3e5, 0.0] {
            let xs: Vec<f32> = rng.floats((m * k) as usize).iter().map(|x| x * scale).collect();
            let operands = [input(&[m, k], &xs), w.clone()];
            let op = Op::from(MatMul::plain());
            let got = floats(&run_op(&self.device, op.clone(), &operands)[0]);
            let want = floats(&truth(&op, &operands)[0]);
            // The largest is no measure here: numbers are compared at their own size.
            let to_one = |xs: &[f32]| {
                xs.iter().map(|x| if scale == 0.0 { *x } else { x / scale }).collect::<Vec<f32>>()
            };
            let off = difference(&to_one(&got), &to_one(&want)).relative();
            assert!(off <= self.most, "{scale:e}: {off:e}");
        }
    }
}

#[test]
fn weights_of_each_type_are_multiplied() {
    // A row that is no whole 32; two blocks of 256; eight of them, which lie in planes.
    for on in [On::halves(Watch::Nothing), On::floats(Watch::Nothing)] {
        on.check_types(&[DType::F32, DType::F16, DType::BF16], [67, 70, 70]);
        on.check_types(&BLOCKS[..4], [67, 70, 512]);
        on.check_types(&BLOCKS[4..], [33, 9, 512]);
        on.check_types(&BLOCKS[7..], [2, 8, 2048]);
    }
}

#[test]
fn what_follows_a_product_is_part_of_it() {
    let [q4_k, q8_0] = [BlockFormat::Q4K, BlockFormat::Q8_0].map(DType::Block);
    On::floats(Watch::Nothing).check_what_follows([q4_k, q8_0], [37, 40, 256], true);
    On::halves(Watch::Nothing).check_what_follows([DType::F16, q8_0], [65, 40, 64], false);
}

#[test]
fn rows_of_any_size_keep_their_digits() {
    On::halves(Watch::Nothing).check_rows_of_any_size();
}

/// Where no kernel of ours is wanted, and where two threads at one address without a barrier would be seen.
#[test]
fn wgsls_kernel_multiplies_too_and_ours_has_no_races() {
    let mut rng = Rng(44);
    let w = weight(DType::F16, &[8, 64], random_weights(&mut rng, DType::F16, 8, 64));
    let operands = [input(&[2, 64], &rng.floats(128)), w];
    let d = translated();
    let op = Op::from(MatMul::plain());
    let off = difference(
        &floats(&run_op(&d, op.clone(), &operands)[0]),
        &floats(&truth(&op, &operands)[0]),
    );
    assert!(off.relative() <= 2e-3, "{:e}", off.relative());
    assert_eq!(d.gpu().metal().launches("own_matmul_tile_half"), 0);
    assert_eq!(d.gpu().metal().launches("matmul_tile_half"), 1);
    for watch in [Watch::Races, Watch::Addresses] {
        On::halves(watch).check_types(&[DType::F16], [2, 8, 64]);
        On::floats(watch).check_types(&[DType::Block(BlockFormat::Q5_0)], [2, 8, 64]);
    }
}
