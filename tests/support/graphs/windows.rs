//! What slides over images: convolutions, pools and resizing, at random shapes and at edges.

use super::*;
use crate::common::device;
use rlx_core::ops::{Conv, ConvTranspose, Interpolate, Interpolation, Pool, PoolKind, Window};

/// A number from `low` to `high`.
fn between(rng: &mut Rng, low: u64, high: u64) -> u64 {
    low + rng.next() % (high - low + 1)
}

/// A random window over these sizes that fits, with its kernel.
fn window(rng: &mut Rng, sizes: &[u64]) -> (Window, Vec<u64>) {
    let mut out = Window::new(sizes.len());
    let mut kernel = Vec::new();
    for (axis, &n) in sizes.iter().enumerate() {
        out.stride[axis] = between(rng, 1, 3);
        out.dilation[axis] = between(rng, 1, 2);
        (out.pad_low[axis], out.pad_high[axis]) = (between(rng, 0, 2), between(rng, 0, 2));
        let room = n + out.pad_low[axis] + out.pad_high[axis];
        kernel.push(between(rng, 1, 4).min((room - 1) / out.dilation[axis] + 1));
    }
    (out, kernel)
}

/// Operands of a convolution: x, its filters and perhaps a bias.
fn operands(
    rng: &mut Rng,
    scalar: Scalar,
    x: &[u64],
    w: &[u64],
    bias: Option<u64>,
) -> Vec<Operand> {
    let mut one = |dims: &[u64]| match scalar {
        Scalar::F32 => floats(rng, dims),
        _ => some(rng, scalar, dims),
    };
    let mut out = vec![one(x), one(w)];
    out.extend(bias.map(|n| one(&[n])));
    out
}

#[test]
fn convolutions_of_random_shapes() {
    let (d, mut rng) = (device(), Rng(91));
    for round in 0..48 {
        let axes = 1 + round % 3;
        let sizes: Vec<u64> = (0..axes).map(|_| between(&mut rng, 1, 9)).collect();
        let (window, kernel) = window(&mut rng, &sizes);
        let groups = between(&mut rng, 1, 3);
        // One filter a group, few, and one more than the tiles of 16, 32 and 64 have.
        let own = [1, 2, 5, 17, 33, 65][round % 6];
        let (batch, depth) = (between(&mut rng, 1, 3), between(&mut rng, 1, 7));
        let x = [vec![batch, groups * depth], sizes].concat();
        let w = [vec![groups * own, depth], kernel].concat();
        let bias = (round % 2 == 0).then_some(groups * own);
        let (scalar, tolerance) = match round % 8 {
            3 => (Scalar::F16, 1e-3),
            7 => (Scalar::Bf16, 8e-3),
            _ => (Scalar::F32, 2e-6),
        };
        let operands = operands(&mut rng, scalar, &x, &w, bias);
        check(&d, Conv { window, groups, bias: bias.is_some() }, &operands, tolerance);
    }
}

#[test]
fn convolutions_in_tiles_of_every_size() {
    let (d, mut rng) = (device(), Rng(92));
    let three = || Window::new(2).pad(&[1, 1], &[1, 1]);
    // The larger tiles are for results of many workgroups; few products of each keep the reference quick.
    for (filters, channels, image, scalar) in [
        (16, 3, [16, 17], Scalar::F32),
        (32, 3, [12, 12], Scalar::F32),
        (64, 1, [128, 128], Scalar::F32),
        (129, 1, [64, 127], Scalar::F32),
        (129, 1, [64, 128], Scalar::F16),
        (130, 3, [12, 11], Scalar::F16),
    ] {
        let (x, w) = ([1, channels, image[0], image[1]], [filters, channels, 3, 3]);
        let operands = operands(&mut rng, scalar, &x, &w, Some(filters));
        let tolerance = if scalar == Scalar::F32 { 2e-6 } else { 1e-3 };
        check(&d, Conv { window: three(), groups: 1, bias: true }, &operands, tolerance);
    }
    // As many places, filters and products of each as a library of products is asked for: images of several sizes,
    // which differ by more than a half's range.
    for (scalar, channels, window) in [
        (Scalar::F32, 8, three()),
        (Scalar::F32, 64, Window::new(2).stride(&[1, 1])),
        (Scalar::F16, 8, three().stride(&[1, 2])),
        (Scalar::Bf16, 8, three().dilation(&[2, 1])),
    ] {
        let kernel = if channels == 64 { 1 } else { 3 };
        let (x, w) = ([2, channels, 27, 39], [68, channels, kernel, kernel]);
        let mut operands = operands(&mut rng, scalar, &x, &w, (kernel == 3).then_some(68));
        if kernel == 1 {
            let half = operands[0].bytes.len() / 2;
            for x in operands[0].bytes[..half].chunks_exact_mut(4) {
                let large = f32::from_le_bytes(x.try_into().unwrap()) * 3e6;
                x.copy_from_slice(&large.to_le_bytes());
            }
        }
        let tolerance = if scalar == Scalar::F32 { 2e-6 } else { 8e-3 };
        check(&d, Conv { window, groups: 1, bias: kernel == 3 }, &operands, tolerance);
    }
    // Images that are embedded by patches, an image of nothing, and channels of which there are none.
    let patches = Window::new(2).stride(&[4, 4]);
    let image = operands(&mut rng, Scalar::F32, &[2, 3, 16, 12], &[20, 3, 4, 4], None);
    check(&d, Conv { window: patches, groups: 1, bias: false }, &image, 2e-6);
    let empty = operands(&mut rng, Scalar::F32, &[0, 3, 5, 5], &[4, 3, 3, 3], None);
    check(&d, Conv { window: three(), groups: 1, bias: false }, &empty, 0.0);
    let none = operands(&mut rng, Scalar::F32, &[1, 0, 5, 5], &[4, 0, 3, 3], Some(4));
    check(&d, Conv { window: three(), groups: 1, bias: true }, &none, 0.0);
}

#[test]
fn padding_hides_what_lies_before_the_image() {
    let (d, mut rng) = (device(), Rng(93));
    // The first element is what the kernel reads in place of padding: it must not be added, even times 0.
    for (groups, filters) in [(1, 6), (3, 3)] {
        let mut x = floats(&mut rng, &[1, 3, 4, 4]);
        x.bytes[..4].copy_from_slice(&f32::NAN.to_le_bytes());
        let w = floats(&mut rng, &[filters, 3 / groups, 3, 3]);
        let window = Window::new(2).pad(&[2, 2], &[3, 3]);
        check(&d, Conv { window, groups, bias: false }, &[x, w], 2e-6);
    }
}

#[test]
fn transposed_convolutions_of_random_shapes() {
    let (d, mut rng) = (device(), Rng(94));
    let mut done = 0;
    for round in 0..60 {
        let axes = 1 + round % 3;
        let sizes: Vec<u64> = (0..axes).map(|_| between(&mut rng, 1, 6)).collect();
        let (window, kernel) = window(&mut rng, &[9, 9, 9][..axes]);
        let most = |i: usize| window.stride[i].max(window.dilation[i]) - 1;
        let extra: Vec<u64> = (0..axes).map(|i| between(&mut rng, 0, most(i))).collect();
        let (groups, own, depth) =
            (between(&mut rng, 1, 3), between(&mut rng, 1, 4), between(&mut rng, 1, 5));
        let batch = between(&mut rng, 1, 2);
        let x = [vec![batch, groups * depth], sizes].concat();
        let w = [vec![groups * depth, own], kernel].concat();
        let bias = (round % 2 == 0).then_some(groups * own);
        let (scalar, tolerance) = match round % 5 {
            4 => (Scalar::F16, 1e-3),
            _ => (Scalar::F32, 2e-6),
        };
        let operands = operands(&mut rng, scalar, &x, &w, bias);
        let op = Op::from(ConvTranspose { window, extra, groups, bias: bias.is_some() });
        // Where padding cuts all of an axis off there is no result.
        if op.infer(&operands.iter().map(|o| &o.ty).collect::<Vec<_>>()).is_ok() {
            check(&d, op, &operands, tolerance);
            done += 1;
        }
    }
    assert!(done >= 40, "{done} shapes have a result");
}

#[test]
fn pools_of_random_shapes() {
    let (d, mut rng) = (device(), Rng(95));
    for round in 0..36 {
        let axes = 1 + round % 3;
        let sizes: Vec<u64> = (0..axes).map(|_| between(&mut rng, 1, 9)).collect();
        let (window, kernel) = window(&mut rng, &sizes);
        let planes = [between(&mut rng, 1, 2), between(&mut rng, 1, 5)];
        let x = [planes.to_vec(), sizes].concat();
        let (scalar, tolerance) = match round % 4 {
            3 => (Scalar::F16, 1e-3),
            _ => (Scalar::F32, 1e-6),
        };
        let x = some(&mut rng, scalar, &x);
        for (kind, count_padding) in
            [(PoolKind::Max, false), (PoolKind::Average, false), (PoolKind::Average, true)]
        {
            let op = Pool { kind, kernel: kernel.clone(), window: window.clone(), count_padding };
            let exact = kind == PoolKind::Max;
            check(&d, op, std::slice::from_ref(&x), if exact { 0.0 } else { tolerance });
        }
    }
    // A window of nothing but padding, and an image of minus infinity.
    let x = tensor(Scalar::F32, &[1, 1, 3], &[f64::NEG_INFINITY; 3]);
    for kind in [PoolKind::Max, PoolKind::Average] {
        let window = Window::new(1).pad(&[3], &[0]);
        let op = Pool { kind, kernel: vec![2], window, count_padding: false };
        let x = if kind == PoolKind::Max { x.clone() } else { floats(&mut rng, &[1, 1, 3]) };
        check(&d, op, &[x], 1e-6);
    }
}

#[test]
fn images_change_their_size_in_every_mode() {
    let (d, mut rng) = (device(), Rng(96));
    for (mode, align_corners, antialias) in [
        (Interpolation::Nearest, false, false),
        (Interpolation::Linear, false, false),
        (Interpolation::Linear, true, false),
        (Interpolation::Linear, false, true),
        (Interpolation::Cubic, false, false),
        (Interpolation::Cubic, true, false),
        (Interpolation::Cubic, false, true),
    ] {
        for (x, size) in [
            (vec![2u64, 3, 5, 7], vec![9u64, 3]),
            (vec![1, 1, 1, 6], vec![4, 6]),
            (vec![1, 2, 8, 8], vec![16, 1]),
            (vec![1, 2, 33], vec![7]),
            (vec![1, 1, 3, 4, 5], vec![5, 2, 9]),
            // Far from the first element an f32 of a place has few digits left.
            (vec![1, 1, 3001], vec![4093]),
            (vec![1, 1, 4093], vec![301]),
        ] {
            let op = Interpolate { size, mode, align_corners, antialias };
            check(&d, op.clone(), &[floats(&mut rng, &x)], 2e-6);
            check(&d, op, &[some(&mut rng, Scalar::F16, &x)], 1e-3);
        }
    }
}
