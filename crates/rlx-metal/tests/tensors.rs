//! Products of a prompt's rows by Metal 4's tensor operations, against the reference's.

use crate::common::*;
use crate::emulator::{Emulator, Watch};
use crate::fake::Fake;
use crate::products::{BLOCKS, On};
use rlx_core::runtime::device::Device;
use rlx_core::types::{BlockFormat, DType};
use rlx_metal::gpu::MetalGpu;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

fn halves(watch: Watch) -> On {
    On { device: with_tensors(watch, true), kernel: "own_matmul_tensors_half", most: 1e-3 }
}

/// Two halves of x and exact weights have as many digits as floats.
fn exact(watch: Watch) -> On {
    On { device: with_tensors(watch, false), kernel: "own_matmul_tensors", most: 4e-6 }
}

#[test]
fn weights_of_each_type_are_multiplied() {
    let (halves, exact) = (halves(Watch::Nothing), exact(Watch::Nothing));
    // Rows, columns and depth that are no whole tiles; scales of 32 and of 16; a row in planes.
    halves.check_types(&[DType::F32, DType::F16, DType::BF16], [67, 70, 70]);
    exact.check_types(&[DType::F16], [135, 70, 70]);
    for on in [&halves, &exact] {
        on.check_types(&BLOCKS[..4], [67, 70, 512]);
        on.check_types(&BLOCKS[4..], [33, 9, 512]);
        on.check_types(&BLOCKS[7..], [2, 8, 2048]);
    }
}

#[test]
fn what_follows_a_product_is_part_of_it() {
    let [q4_k, q6_k, q8_0] =
        [BlockFormat::Q4K, BlockFormat::Q6K, BlockFormat::Q8_0].map(DType::Block);
    exact(Watch::Nothing).check_what_follows([q4_k, q6_k], [37, 40, 256], true);
    halves(Watch::Nothing).check_what_follows([DType::F16, q8_0], [65, 40, 64], false);
}

#[test]
fn rows_of_any_size_keep_their_digits() {
    exact(Watch::Nothing).check_rows_of_any_size();
    halves(Watch::Nothing).check_rows_of_any_size();
}

#[test]
fn memory_is_its_own_and_without_races() {
    for watch in [Watch::Races, Watch::Addresses] {
        halves(watch).check_types(&[DType::Block(BlockFormat::Q5_0)], [2, 8, 64]);
        exact(watch).check_types(&BLOCKS[6..], [2, 8, 256]);
    }
}

/// The tile has weights that f16 does not have, and all where a compiler refuses the text: the reason is told.
#[test]
fn the_tile_has_what_tensors_do_not_take() {
    let tile = |device: &Arc<TestDevice>| On {
        device: device.clone(),
        kernel: "own_matmul_tile",
        most: 4e-6,
    };
    let device = with_tensors(Watch::Nothing, false);
    for dtype in [DType::F32, DType::BF16] {
        tile(&device).check_types(&[dtype], [2, 8, 64]);
    }
    let info = device.info();
    assert!(info.features.contains(&"tensors".into()), "{:?}", info.features);
    assert_eq!(info.demoted, [""; 0]);
    let gpu = MetalGpu::new(Fake::new(Watch::Nothing).with_tensors(false));
    let device = Arc::new(rlx_metal::device(gpu));
    assert!(device.info().features.contains(&"tensors".into()), "nothing was compiled yet");
    tile(&device).check_types(&[DType::F16], [2, 8, 64]);
    let info = device.info();
    assert!(!info.features.contains(&"tensors".into()), "{:?}", info.features);
    let why = "tensors: kernel own_matmul_tensors: Metal does not take it: no such header";
    assert_eq!(info.demoted, [why]);
    // A GPU without units for them has nothing to tell.
    assert_eq!(crate::common::device().info().demoted, [""; 0]);
}

/// A product of 32 x 16 by 64 x 16 numbers, as text.
const PRODUCT: &str = "
typedef metal::tensor<device half, metal::dextents<int32_t, 2>, metal::tensor_inline> Halves;
kernel void product(
  device half* a [[buffer(0)]]
, device half* b [[buffer(1)]]
, device float* y [[buffer(2)]]
, uint index [[thread_index_in_threadgroup]]
) {
    constexpr auto what = mpp::tensor_ops::matmul2d_descriptor(
        32, 64, 16, false, true, true, mpp::tensor_ops::matmul2d_descriptor::mode::multiply_accumulate);
    mpp::tensor_ops::matmul2d<what, metal::execution_simdgroups<4>> multiply;
    auto sums = multiply.get_destination_cooperative_tensor<Halves, Halves, float>();
    Halves left(a, metal::dextents<int32_t, 2>(16, 32)), right(b, metal::dextents<int32_t, 2>(16, 64));
    multiply.run(left, right, sums);
}
";

/// The emulator takes no text that Apple's headers refuse, as far as they were read.
#[test]
fn wrong_texts_are_refused() {
    let emulator = std::cell::RefCell::new(Emulator::start(Watch::Nothing));
    let load = |text: &str| emulator.borrow_mut().load(1, text, "product", &[]);
    load(PRODUCT);
    for (right, wrong, why) in [
        ("32, 64, 16,", "8, 8, 16,", "M or N is a multiple of 16"),
        ("32, 64, 16,", "32, 64, 8,", "K is a multiple of 16"),
        ("<device half,", "<device const half,", "elements that are not constant"),
        ("<Halves, Halves, float>()", "<Halves, Halves, int>()", "no product has these types"),
    ] {
        let text = PRODUCT.replace(right, wrong);
        assert_ne!(text, PRODUCT);
        let said = catch_unwind(AssertUnwindSafe(|| load(&text))).expect_err(wrong);
        let said = said.downcast_ref::<String>().expect("a sentence");
        assert!(said.contains(why), "{wrong}: {said}");
    }
}
