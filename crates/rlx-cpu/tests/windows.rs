//! Convolutions, pooling and resizing, at every SIMD level, with one worker and with three, against the reference:
//! odd sizes, groups, dilation, padding that differs at both ends, images of one element, every type.
#![cfg(feature = "graphs")]

use crate::common;
use common::*;
use rlx_core::ops::*;
use rlx_core::types::{DType, Shape, Type};

/// A window: stride, padding before and behind, dilation.
fn window(stride: &[u64], low: &[u64], high: &[u64], dilation: &[u64]) -> Window {
    Window::new(stride.len()).stride(stride).pad(low, high).dilation(dilation)
}

/// Sizes of x, of the kernel along each axis, groups, filters of each group, and the window.
type Case<'a> = (&'a [u64], &'a [u64], u64, u64, Window);

fn convolutions(cases: &[Case<'_>], types: &[DType], seed: u64) {
    let mut random = Random(seed);
    for (i, (dims, kernel, groups, filters, window)) in cases.iter().enumerate() {
        for &dtype in types {
            let bias = (i as u64 + seed).is_multiple_of(2);
            let x = small(&mut random, dtype, dims);
            let mut of_w = vec![groups * filters, dims[1] / groups];
            of_w.extend(*kernel);
            let w = small(&mut random, dtype, &of_w).weight();
            let mut operands = vec![x, w];
            operands.extend(bias.then(|| small(&mut random, dtype, &[groups * filters]).weight()));
            let op = Conv { window: window.clone(), groups: *groups, bias };
            check_types(op, &operands, 5e-6, &format!("{dtype} {dims:?} {of_w:?}"));
        }
    }
}

#[test]
fn convolutions_of_many_filters_are_the_references() {
    let cases: [Case<'_>; 11] = [
        (&[1, 3, 28, 42], &[14, 14], 1, 9, window(&[14, 14], &[0; 2], &[0; 2], &[1, 1])),
        (&[2, 5, 9, 17], &[3, 3], 1, 11, window(&[1, 1], &[1, 1], &[1, 1], &[1, 1])),
        (&[1, 6, 7, 40], &[3, 2], 2, 5, window(&[1, 2], &[2, 0], &[0, 3], &[2, 1])),
        (&[1, 20, 5, 33], &[1, 1], 1, 16, window(&[1, 1], &[0; 2], &[0; 2], &[1, 1])),
        (&[1, 1, 1], &[1], 1, 7, window(&[1], &[0], &[0], &[1])),
        (&[2, 1, 90], &[10], 1, 24, window(&[5], &[0], &[0], &[1])),
        (&[1, 8, 61], &[16], 1, 6, window(&[1], &[8], &[8], &[1])),
        (&[1, 12, 50], &[3], 3, 8, window(&[2], &[1], &[4], &[3])),
        (&[1, 2, 3, 4, 5], &[2, 3, 2], 1, 5, window(&[1, 2, 1], &[1, 0, 2], &[0, 1, 0], &[1; 3])),
        // A window that is nothing but padding at its ends, and an image of one column.
        (&[1, 4, 6, 1], &[3, 3], 1, 5, window(&[1, 1], &[4, 3], &[0, 2], &[1, 1])),
        // More than a tile of places, and than a part of k, neither of them whole.
        (&[1, 33, 37, 31], &[3, 3], 1, 13, window(&[1, 1], &[1, 1], &[1, 1], &[1, 1])),
    ];
    convolutions(&cases[..10], &FLOATS, 41);
    convolutions(&cases[10..], &[DType::F32, DType::F16], 42);
}

#[test]
fn convolutions_of_few_filters_are_the_references() {
    let cases: [Case<'_>; 7] = [
        (&[2, 9, 11, 23], &[3, 3], 9, 1, window(&[1, 1], &[1, 1], &[1, 1], &[1, 1])),
        (&[1, 17, 8, 19], &[5, 3], 17, 1, window(&[2, 2], &[2, 0], &[1, 3], &[1, 2])),
        (&[1, 6, 40], &[4], 3, 3, window(&[3], &[2], &[0], &[2])),
        (&[1, 7, 6, 37], &[3, 3], 1, 3, window(&[1, 1], &[1, 0], &[0, 1], &[1, 1])),
        (&[1, 4, 1, 1], &[1, 1], 4, 1, window(&[1, 1], &[0; 2], &[0; 2], &[1, 1])),
        (&[1, 2, 3, 4, 9], &[2, 2, 3], 2, 2, window(&[1, 1, 2], &[0, 1, 1], &[1; 3], &[1; 3])),
        (&[1, 3, 5, 4], &[2, 2], 3, 1, window(&[1, 1], &[5, 6], &[4, 7], &[1, 1])),
    ];
    convolutions(&cases, &FLOATS, 43);
}

/// More than 1,024 places: workers share columns.
#[test]
fn workers_that_share_places_compute_the_same_bits() {
    let mut random = Random(44);
    let x = small(&mut random, DType::F32, &[2, 3, 35, 34]);
    let w = small(&mut random, DType::F32, &[10, 3, 3, 3]).weight();
    let bias = small(&mut random, DType::F32, &[10]).weight();
    let window = window(&[1, 1], &[1, 1], &[1, 1], &[1, 1]);
    let op = Conv { window, groups: 1, bias: true };
    let operands = [x, w, bias];
    check_types(op.clone(), &operands, 5e-6, "shares of places");
    let results: Vec<Vec<Vec<u8>>> =
        devices().iter().map(|d| run_op(d, &op.clone().into(), &operands)).collect();
    // One and three workers of each level.
    for (i, two) in results.chunks_exact(2).enumerate() {
        assert!(two[0] == two[1], "level {i}");
    }
}

#[test]
fn transposed_convolutions_are_the_references() {
    type Transposed<'a> = (&'a [u64], &'a [u64], u64, u64, Window, &'a [u64]);
    let cases: [Transposed<'_>; 16] = [
        (&[1, 6, 5, 7], &[2, 2], 1, 5, window(&[2, 2], &[0; 2], &[0; 2], &[1, 1]), &[0, 0]),
        (&[2, 4, 6, 19], &[4, 4], 1, 3, window(&[2, 2], &[1, 1], &[1, 1], &[1, 1]), &[0, 0]),
        (&[1, 6, 5, 4], &[3, 2], 2, 4, window(&[2, 3], &[1, 0], &[0, 1], &[2, 1]), &[1, 2]),
        (&[1, 5, 21], &[7], 1, 9, window(&[1], &[3], &[2], &[1]), &[0]),
        (&[1, 4, 30], &[16], 1, 2, window(&[8], &[4], &[4], &[1]), &[0]),
        // The stride is the kernel's size: all phases are one convolution, of padding too, and with places behind.
        (&[2, 6, 9, 14], &[2, 2], 2, 5, window(&[2, 2], &[0; 2], &[0; 2], &[1, 1]), &[0, 0]),
        (&[1, 3, 5, 7], &[3, 2], 1, 18, window(&[3, 2], &[0; 2], &[0; 2], &[1, 1]), &[2, 1]),
        (&[1, 4, 150], &[4], 1, 3, window(&[4], &[1], &[2], &[1]), &[0]),
        // So many places that shares are columns of them; the last line has no place of every phase.
        (&[1, 3, 40, 42], &[2, 2], 1, 4, window(&[2, 2], &[0; 2], &[0; 2], &[1, 1]), &[0, 0]),
        (&[2, 2, 40, 41], &[3, 3], 1, 3, window(&[2, 2], &[1, 1], &[1, 1], &[1, 1]), &[0, 0]),
        (&[1, 2, 2500], &[3], 2, 1, window(&[3], &[0], &[1], &[1]), &[0]),
        (
            &[1, 2, 12, 13, 14],
            &[2; 3],
            1,
            2,
            window(&[2; 3], &[0; 3], &[1, 0, 1], &[1; 3]),
            &[0; 3],
        ),
        // Places without a tap: the stride is longer than the kernel.
        (&[1, 3, 6], &[2], 1, 5, window(&[5], &[0], &[0], &[1]), &[3]),
        (&[1, 1, 1, 1], &[1, 1], 1, 1, window(&[1, 1], &[0; 2], &[0; 2], &[1, 1]), &[0, 0]),
        (
            &[1, 2, 2, 3, 3],
            &[2; 3],
            1,
            3,
            window(&[2, 1, 2], &[0, 1, 0], &[1, 0, 0], &[1; 3]),
            &[0; 3],
        ),
        (&[1, 40, 12, 13], &[3, 3], 1, 17, window(&[1, 1], &[1, 1], &[1, 1], &[1, 1]), &[0, 0]),
    ];
    let mut random = Random(45);
    for (i, (dims, kernel, groups, filters, window, extra)) in cases.iter().enumerate() {
        for dtype in FLOATS {
            let mut of_w = vec![dims[1], *filters];
            of_w.extend(*kernel);
            let mut operands =
                vec![small(&mut random, dtype, dims), small(&mut random, dtype, &of_w).weight()];
            let bias = i % 2 == 0;
            operands.extend(bias.then(|| small(&mut random, dtype, &[groups * filters])));
            let op = ConvTranspose {
                window: window.clone(),
                extra: extra.to_vec(),
                groups: *groups,
                bias,
            };
            check_types(op, &operands, 5e-6, &format!("{dtype} {dims:?} {of_w:?}"));
        }
    }
}

#[test]
fn pools_are_the_references() {
    let cases: [(&[u64], &[u64], Window); 8] = [
        (&[2, 3, 8, 20], &[3, 3], window(&[2, 2], &[1, 1], &[1, 1], &[1, 1])),
        (&[1, 19, 6, 6], &[2, 2], window(&[2, 2], &[0; 2], &[0; 2], &[1, 1])),
        (&[1, 2, 7, 5], &[7, 5], window(&[1, 1], &[0; 2], &[0; 2], &[1, 1])),
        (&[1, 3, 31], &[4], window(&[3], &[2], &[5], &[2])),
        (&[1, 1, 1], &[1], window(&[1], &[0], &[0], &[1])),
        // Windows of nothing but padding.
        (&[1, 2, 3, 2], &[2, 2], window(&[1, 1], &[3, 4], &[2, 3], &[1, 1])),
        (&[1, 2, 3, 4, 5], &[2, 3, 2], window(&[1, 2, 2], &[1, 1, 0], &[0, 0, 1], &[1; 3])),
        (&[1, 20, 9, 33], &[3, 2], window(&[1, 1], &[1, 0], &[1, 1], &[2, 3])),
    ];
    let mut random = Random(46);
    for (dims, kernel, window) in &cases {
        for dtype in FLOATS {
            let x = small(&mut random, dtype, dims);
            for (kind, count_padding) in
                [(PoolKind::Max, false), (PoolKind::Average, false), (PoolKind::Average, true)]
            {
                let (kernel, window) = (kernel.to_vec(), window.clone());
                let op = Pool { kind, kernel, window, count_padding };
                let what = format!("{dtype} {dims:?}");
                check_types(op, std::slice::from_ref(&x), 2e-6, &what);
            }
        }
    }
    let odd = random.floats_as(DType::F32, &[1, 4, 6, 18]);
    let window = window(&[1, 2], &[1, 1], &[0, 1], &[1, 1]);
    let op = Pool { kind: PoolKind::Max, kernel: vec![2, 3], window, count_padding: false };
    check_types(op, &[odd], 0.0, "not finite");
}

#[test]
fn resized_images_are_the_references() {
    let cases: [(&[u64], &[u64]); 8] = [
        (&[1, 2, 6, 9], &[12, 18]),
        (&[2, 3, 7, 5], &[3, 11]),
        (&[1, 1, 33, 40], &[8, 10]),
        (&[1, 2, 1, 1], &[3, 17]),
        (&[1, 2, 5, 4], &[1, 1]),
        (&[1, 3, 19], &[7]),
        (&[1, 1, 3, 4, 5], &[5, 2, 8]),
        (&[1, 2, 16, 16], &[16, 16]),
    ];
    use Interpolation::{Cubic, Linear, Nearest};
    let modes = [
        (Nearest, false, false),
        (Linear, false, false),
        (Linear, true, false),
        (Linear, false, true),
        (Cubic, false, false),
        (Cubic, true, false),
        (Cubic, false, true),
    ];
    let mut random = Random(47);
    for (dims, size) in cases {
        for dtype in FLOATS {
            let x = small(&mut random, dtype, dims);
            for (mode, align_corners, antialias) in modes {
                let op = Interpolate { size: size.to_vec(), mode, align_corners, antialias };
                let what = format!("{dtype} {dims:?} to {size:?}");
                check_types(op, std::slice::from_ref(&x), 3e-6, &what);
            }
        }
    }
}

/// What would make lists of absurd length is refused before a program is built, by name.
#[test]
fn windows_that_are_absurd_are_left_to_others() {
    let target = rlx_cpu::target();
    let ty = |dims: &[u64]| Type::tensor(DType::F32, Shape::of(dims));
    let path = |op: Op, types: &[Type]| target.path(&op, &types.iter().collect::<Vec<_>>());
    let far = 1 << 31;
    let pads = window(&[1], &[far], &[0], &[1]);
    let conv = Conv { window: pads.clone(), groups: 1, bias: false };
    let native = Ok(rlx_core::target::Path::Native);
    assert_ne!(path(conv.into(), &[ty(&[1, 1, 4]), ty(&[8, 1, far])]), native);
    let kernel = vec![far];
    let pool = Pool { kind: PoolKind::Max, kernel, window: pads, count_padding: false };
    assert_ne!(path(pool.into(), &[ty(&[1, 1, 4])]), native);
    let op = ConvTranspose {
        window: window(&[far], &[0], &[0], &[1]),
        extra: vec![0],
        groups: 1,
        bias: false,
    };
    assert_ne!(path(op.into(), &[ty(&[1, 1, 2]), ty(&[1, 8, 1])]), native);
    let size = vec![far];
    let op =
        Interpolate { size, mode: Interpolation::Linear, align_corners: false, antialias: false };
    assert_ne!(path(op.into(), &[ty(&[1, 1, 4])]), native);
}
