//! hipBLASLt by the driver of AMD's cards, over what stands for it (`tests/hip/products.h`).

use crate::common::{Rng, run_op};
use crate::fake::Fake;
use crate::graphs::{check, some};
use crate::language::{generate, load};
use rlx_core::compare::difference;
use rlx_core::ops::{Epilogue, MatMul};
use rlx_core::reference::device::ReferenceDevice;
use rlx_core::runtime::device::Device;
use rlx_core::runtime::model::ModelOptions;
use rlx_core::types::{DType, Scalar};
use rlx_cuda::driver::{At, Driver, Floats, Product, Work};
use std::sync::Arc;

/// Products that each device makes before it promises any: of two kinds of halves, and of bf16.
const TRIALS: u64 = 3;

/// A prompt of many rows: weights as they are, and packed ones that become halves first.
#[test]
fn prompts_are_read_by_the_library() {
    for (arch, file, rows) in
        [("gfx90a", "rustdoc-2m/rustdoc-2m-f16.gguf", 34), ("gfx1100", "gguf/llama-q6_k.gguf", 130)]
    {
        let fake = Fake::new(arch, false);
        fake.products_lack(0);
        let before = fake.number("fake_products");
        let mut options = ModelOptions::chat(rows).with_logits();
        options.compile.kv = DType::F32;
        options.context = Some(256);
        let prompt: Vec<u32> = (0..rows as u32).map(|i| 1 + i * 37 % 60).collect();
        let on = |device: Arc<dyn Device>| {
            let mut engine = load(device, file, &options);
            generate(&mut engine, prompt.clone(), 2, true).1.expect("logits were asked for")
        };
        let want = on(Arc::new(ReferenceDevice::new()));
        let device = fake.device(true);
        assert!(device.driver().has_products());
        let off = difference(&on(device.clone()), &want).relative();
        assert!(off <= 1e-3, "{arch} {file}: off by {off:e}");
        let made = fake.number("fake_products") - before;
        assert!(made > TRIALS + 8, "{arch} {file}: {made} products");
        drop(device);
        fake.is_content();
    }
}

#[test]
fn rows_of_short_floats_are_multiplied_with_what_is_added() {
    let fake = Fake::new("gfx942", false);
    let mut rng = Rng(61);
    for lacking in [0, 1] {
        fake.products_lack(lacking);
        let device = fake.device(true);
        for (scalar, tolerance) in [(Scalar::F16, 1e-3), (Scalar::Bf16, 8e-3)] {
            let before = fake.number("fake_products");
            let mut any = |dims: &[u64]| some(&mut rng, scalar, dims);
            let (x, w) = (any(&[40, 64]), any(&[24, 64]));
            let (bias, residual) = (any(&[24]), any(&[40, 24]));
            let op = |bias, epilogue| MatMul { bias, epilogue, ..MatMul::plain() };
            let [plain, add] = [op(false, Epilogue::None), op(true, Epilogue::Add)];
            check(&device, plain, &[x.clone(), w.clone()], tolerance);
            check(&device, add, &[x, w, bias, residual], tolerance);
            let made = fake.number("fake_products") - before;
            // Each form is made once before it is recorded. What a card lacks is left to tiles.
            let want = if lacking == 1 && scalar == Scalar::Bf16 { 0 } else { 4 };
            assert_eq!(made, want, "{scalar:?}, lacking {lacking}");
        }
        drop(device);
        fake.is_content();
    }
}

#[test]
fn a_library_that_is_wrong_or_lacks_products_is_not_asked() {
    let fake = Fake::new("gfx1201", false);
    let mut rng = Rng(62);
    let (x, w) = (some(&mut rng, Scalar::F32, &[40, 64]), some(&mut rng, Scalar::F16, &[24, 64]));
    let all = [Floats::Sums, Floats::F16, Floats::Bf16];
    for (lacking, want) in [
        (0, [true; 3]),
        (1, [true, true, false]),
        (2, [false; 3]),
        (3, [false; 3]),
        (4, [false; 3]),
        (5, [true; 3]),
    ] {
        fake.products_lack(lacking);
        let device = fake.device(true);
        assert_eq!(all.map(|floats| device.driver().multiplies(floats)), want, "{lacking}");
        assert_eq!(device.driver().has_products(), want.contains(&true));
        let before = fake.number("fake_products");
        check(&device, MatMul::plain(), &[x.clone(), w.clone()], 2e-6);
        assert_eq!(fake.number("fake_products") > before, want[0], "{lacking}");
        drop(device);
        fake.is_content();
    }
    fake.products_lack(0);
    let without = fake.device(false);
    assert!(!without.driver().has_products());
    assert_eq!(run_op(&without, MatMul::plain(), &[x, w])[0].len(), 40 * 24 * 4);
}

/// A product in a list that is submitted several times, and one with times.
#[test]
fn products_are_recorded() {
    let fake = Fake::new("gfx90a", true);
    fake.products_lack(0);
    let device = fake.device(true);
    let gpu = device.driver();
    let at = |buffer: u32, offset: u64| At { buffer, offset };
    // Rows of halves: 1, 2, .. by a matrix of ones is a sum of eight numbers.
    gpu.create(1, 256).unwrap();
    gpu.create(2, 256).unwrap();
    let halves = |of: &dyn Fn(usize) -> f32| -> Vec<u8> {
        (0..128).flat_map(|i| half::f16::from_f32(of(i)).to_le_bytes()).collect()
    };
    gpu.write(at(1, 0), &halves(&|i| i as f32)).unwrap();
    gpu.write(at(2, 0), &halves(&|_| 1.0)).unwrap();
    gpu.create(3, 1024).unwrap();
    let product = Product {
        x: at(1, 0),
        w: at(2, 0),
        y: at(3, 0),
        rows: 4,
        columns: 8,
        k: 8,
        floats: Floats::Sums,
        bias: None,
        residual: None,
    };
    // y = x w^T + y, rounded to halves.
    let more =
        Product { floats: Floats::F16, y: at(3, 256), residual: Some(at(3, 256)), ..product };
    gpu.write(at(3, 256), &[0; 64]).unwrap();
    gpu.record(4, &[Work::Product(product), Work::Product(more)]).unwrap();
    for _ in 0..3 {
        gpu.submit(4).unwrap();
    }
    gpu.submit_timed(5, &[Work::Product(product)]).unwrap();
    gpu.read(6, &[(at(3, 0), 128), (at(3, 256), 64)]).unwrap();
    let got = loop {
        if let Some(got) = gpu.poll_read(6).unwrap() {
            break got;
        }
    };
    for row in 0..4 {
        let sum: f32 = (8 * row..8 * row + 8).map(|i| i as f32).sum();
        for column in 0..8 {
            let i = 8 * row + column;
            assert_eq!(got[4 * i..][..4], sum.to_le_bytes(), "{row} {column}");
            let thrice = half::f16::from_f32(3.0 * sum).to_le_bytes();
            assert_eq!(got[128 + 2 * i..][..2], thrice, "{row} {column}");
        }
    }
    while gpu.poll_times(5).unwrap().is_none() {}
    // What lies outside of its buffer is refused before the library sees it.
    for wrong in [
        Product { rows: 17, ..product },
        Product { y: at(3, 1000), ..product },
        Product { w: at(9, 0), ..product },
        Product { k: 0, ..product },
        Product { x: at(1, u64::MAX - 3), ..product },
    ] {
        let e = gpu.record(7, &[Work::Product(wrong)]).unwrap_err();
        assert_eq!(e.code, rlx_core::Code::Internal, "{e}");
    }
    gpu.drop_list(4);
    for buffer in 1..4 {
        gpu.destroy(buffer);
    }
    drop(device);
    fake.is_content();
}

/// Each line is a fault that the library which stands for hipBLASLt notes.
#[test]
fn what_is_done_wrong_with_products_is_noted() {
    let fake = Fake::new("gfx90a", false);
    let says = |what: &str| assert_eq!(fake.faults(), format!("{what}\n"));
    let one = |a: usize| [a, 0, 0, 0, 0];
    let mut made = 0usize;
    let at = std::ptr::from_mut(&mut made).addr();
    fake.call("hipblasLtMatrixLayoutCreate", [at, 2, 8, 4, 7]);
    says("a matrix whose columns overlap");
    fake.call("hipblasLtMatrixLayoutCreate", [at, 3, 8, 4, 8]);
    says("a matrix of an unknown type");
    fake.call("hipblasLtMatmulDescCreate", [at, 0, 0, 0, 0]);
    says("a product with other sums than f32");
    let product = fake.make("hipblasLtMatmulDescCreate", [2, 0]);
    let value = std::ptr::from_ref(&112i32).addr();
    fake.call("hipblasLtMatmulDescSetAttribute", [product, 0, value, 8, 0]);
    says("an attribute that no product has");
    assert_eq!(fake.call("hipblasLtMatmulDescSetAttribute", [product, 0, value, 4, 0]), 0);
    let handle = fake.make("hipblasLtCreate", [0, 0]);
    fake.call("hipblasLtMatmulAlgoGetHeuristic", [handle, product, 1, 2, 3]);
    says("a way is looked for with what is not there");
    assert_eq!(fake.text("fake_living"), "1 descriptions of products\n1 handles of products\n");
    fake.call("hipblasLtMatmulDescDestroy", one(product));
    fake.call("hipblasLtMatmulDescDestroy", one(product));
    says("a product is freed that is not there");
    fake.call("hipblasLtDestroy", one(handle));
    fake.call("hipblasLtDestroy", one(handle));
    says("a library's handle is freed that is not there");
    fake.is_content();
}
