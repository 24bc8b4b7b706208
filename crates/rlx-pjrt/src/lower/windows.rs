//! What slides over images: convolutions, pools, columns, and resizing.

use super::builder::{Axes, Builder, El, V, Windows};
use super::takes::{Taken, are_floats, knows};
use super::Node;
use rlx_core::Result;
use rlx_core::ops::{Interpolation, Op, PoolKind, Window};
use rlx_core::target::Target;
use rlx_core::types::Type;

pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    knows(
        op,
        &[
            "stride", "pad_low", "pad_high", "dilation", "groups", "bias", "extra", "kind", "kernel", "count_padding",
            "size", "mode", "align_corners", "antialias",
        ],
    )?;
    are_floats(operands)
}

/// Adds a bias of channels, which are axis 1.
fn with_bias(b: &mut Builder, y: V, bias: Option<&V>) -> V {
    let Some(bias) = bias else { return y };
    let bias = b.convert(bias, y.el);
    let bias = b.repeat(&bias, &y.dims, &[1]);
    b.add(&y, &bias)
}

/// A size that a text has signed.
fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

pub(super) fn conv(b: &mut Builder, node: &Node<'_>) -> Result<Vec<V>> {
    let Op::Conv(op) = node.op else { return Err(node.mismatch()) };
    let (x, w) = (node.value(0)?.clone(), node.value(1)?.clone());
    let result = node.result(0)?;
    let wide = x.el.wide();
    let (p, q) = (b.convert(&x, wide), b.convert(&w, wide));
    let y = if p.elements() == 0 || q.elements() == 0 {
        b.splat(wide, &result, 0.0)
    } else {
        let pads = op.window.pad_low.iter().zip(&op.window.pad_high);
        let pads: Vec<[i64; 2]> = pads.map(|(&l, &h)| [signed(l), signed(h)]).collect();
        let ones = vec![1; pads.len()];
        b.convolution(&p, &q, &result, op.groups, [&op.window.stride, &ones, &op.window.dilation], &pads)
    };
    let y = with_bias(b, y, node.values.get(2));
    Ok(vec![b.convert(&y, x.el)])
}

/// A convolution of the image with zeros between its elements, and the filters turned round.
pub(super) fn conv_transpose(b: &mut Builder, node: &Node<'_>) -> Result<Vec<V>> {
    let Op::ConvTranspose(op) = node.op else { return Err(node.mismatch()) };
    let (x, w) = (node.value(0)?.clone(), node.value(1)?.clone());
    let result = node.result(0)?;
    let wide = x.el.wide();
    let (p, q) = (b.convert(&x, wide), b.convert(&w, wide));
    let y = if p.elements() == 0 || q.elements() == 0 || result.contains(&0) {
        b.splat(wide, &result, 0.0)
    } else {
        // [groups, Cin / groups, Cout / groups, k..] to [Cout, Cin / groups, k..]
        let (depth, own, kernel) = (q.dims[0] / op.groups, q.dims[1], q.dims[2..].to_vec());
        let apart = [vec![op.groups, depth, own], kernel.clone()].concat();
        let q = b.reshape(&q, &apart);
        let order: Vec<usize> = [0, 2, 1].into_iter().chain(3..apart.len()).collect();
        let q = b.transpose(&q, &order);
        let q = b.reshape(&q, &[vec![op.groups * own, depth], kernel.clone()].concat());
        let axes: Vec<usize> = (2..q.dims.len()).collect();
        let q = b.reverse(&q, &axes);
        let w = &op.window;
        let pads: Vec<[i64; 2]> = (0..kernel.len())
            .map(|i| {
                let reach = signed(kernel[i] - 1) * signed(w.dilation[i]);
                [reach - signed(w.pad_low[i]), reach - signed(w.pad_high[i]) + signed(op.extra[i])]
            })
            .collect();
        let ones = vec![1; pads.len()];
        b.convolution(&p, &q, &result, op.groups, [&ones, &w.stride, &w.dilation], &pads)
    };
    let y = with_bias(b, y, node.values.get(2));
    Ok(vec![b.convert(&y, x.el)])
}

/// Folds windows of the spatial axes.
fn pooled(b: &mut Builder, x: &V, op: &str, start: f64, kernel: &[u64], w: &Window) -> V {
    let all = |list: &[u64], one: u64| [&[one, one], list].concat();
    let pads: Vec<[u64; 2]> = all(&w.pad_low, 0).into_iter().zip(all(&w.pad_high, 0)).map(|(l, h)| [l, h]).collect();
    let (sizes, strides, dilations) = (all(kernel, 1), all(&w.stride, 1), all(&w.dilation, 1));
    let windows = Windows { sizes: &sizes, strides: &strides, dilations: &dilations, pads: &pads };
    b.reduce_window(op, x, start, &windows)
}

pub(super) fn pool(b: &mut Builder, node: &Node<'_>) -> Result<Vec<V>> {
    let Op::Pool(op) = node.op else { return Err(node.mismatch()) };
    let x = node.value(0)?.clone();
    let wide = b.convert(&x, x.el.wide());
    if x.elements() == 0 {
        let start = if op.kind == PoolKind::Max { f64::NEG_INFINITY } else { 0.0 };
        return Ok(vec![b.splat(x.el, &node.result(0)?, start)]);
    }
    let y = match op.kind {
        PoolKind::Max => {
            let is_number = b.compare("EQ", &wide, &wide);
            let least = b.splat(wide.el, &wide.dims, f64::NEG_INFINITY);
            let plain = b.select(&is_number, &wide, &least);
            pooled(b, &plain, "maximum", f64::NEG_INFINITY, &op.kernel, &op.window)
        }
        PoolKind::Average => {
            let sum = pooled(b, &wide, "add", 0.0, &op.kernel, &op.window);
            if op.count_padding {
                b.with("divide", &sum, op.kernel.iter().product::<u64>() as f64)
            } else {
                // Counts of one image serve all.
                let image = [&[1, 1], &x.dims[2..]].concat();
                let ones = b.splat(wide.el, &image, 1.0);
                let count = pooled(b, &ones, "add", 0.0, &op.kernel, &op.window);
                let least = b.splat(wide.el, &count.dims, 1.0);
                let count = b.max(&count, &least);
                let count = super::elementwise::repeat(b, &count, &sum.dims);
                b.div(&sum, &count)
            }
        }
    };
    Ok(vec![b.convert(&y, x.el)])
}

pub(super) fn im2col(b: &mut Builder, node: &Node<'_>) -> Result<Vec<V>> {
    let Op::Im2Col(op) = node.op else { return Err(node.mismatch()) };
    let x = node.value(0)?.clone();
    let result = node.result(0)?;
    let w = &op.window;
    let zero = b.scalar(x.el, 0.0);
    let all = |list: &[u64]| [0, 0].into_iter().chain(list.iter().map(|&n| signed(n))).collect::<Vec<i64>>();
    let (low, high) = (all(&w.pad_low), all(&w.pad_high));
    let padded = b.pad(&x, &zero, &low, &high, &vec![0; low.len()]);
    let outputs: Vec<u64> = (0..op.kernel.len())
        .map(|i| (padded.dims[i + 2] - (op.kernel[i] - 1) * w.dilation[i] - 1) / w.stride[i] + 1)
        .collect();
    let places: u64 = outputs.iter().product();
    let taps: u64 = op.kernel.iter().product();
    let mut columns = Vec::new();
    for tap in 0..taps {
        let (mut rest, mut ranges) = (tap, vec![(0, 0, 1); op.kernel.len()]);
        for i in (0..op.kernel.len()).rev() {
            let start = rest % op.kernel[i] * w.dilation[i];
            ranges[i] = (start, start + (outputs[i] - 1) * w.stride[i] + 1, w.stride[i]);
            rest /= op.kernel[i];
        }
        let ranges = [vec![(0, x.dims[0], 1), (0, x.dims[1], 1)], ranges].concat();
        let part = b.slice(&padded, &ranges);
        columns.push(b.reshape(&part, &[x.dims[0], x.dims[1], 1, places]));
    }
    let y = b.concat(&columns, 2);
    Ok(vec![b.reshape(&y, &result)])
}

/// An axis after another is multiplied by what each of its results takes of each element.
pub(super) fn interpolate(b: &mut Builder, node: &Node<'_>) -> Result<Vec<V>> {
    let Op::Interpolate(op) = node.op else { return Err(node.mismatch()) };
    let x = node.value(0)?.clone();
    let mut y = b.convert(&x, x.el.wide());
    if x.elements() == 0 {
        return Ok(vec![b.splat(x.el, &node.result(0)?, 0.0)]);
    }
    for (i, &size) in op.size.iter().enumerate() {
        let axis = i + 2;
        let n = y.dims[axis];
        let taps = op.taps(n, size);
        if op.mode == Interpolation::Nearest {
            let ids: Vec<i64> = taps.iter().map(|t| t.0 as i64).collect();
            let ids = b.table(El::I32, &ids);
            y = b.take(&y, &ids, axis);
            continue;
        }
        let mut weights = vec![0.0f64; (n * size) as usize];
        for (row, (first, taps)) in taps.iter().enumerate() {
            for (k, w) in taps.iter().enumerate() {
                weights[row * n as usize + first + k] += w;
            }
        }
        let bytes: Vec<u8> = match y.el {
            El::F64 => weights.iter().flat_map(|w| w.to_le_bytes()).collect(),
            _ => weights.iter().flat_map(|w| (*w as f32).to_le_bytes()).collect(),
        };
        let weights = b.literal(y.el, &[size, n], &bytes);
        let z = b.dot(&y, &weights, &Axes { contract: [vec![axis], vec![1]], ..Axes::default() });
        // The axis came out last.
        let last = z.dims.len() - 1;
        let order: Vec<usize> = (0..axis).chain([last]).chain(axis..last).collect();
        y = b.transpose(&z, &order);
    }
    Ok(vec![b.convert(&y, x.el)])
}
