//! Operations that fold elements: sums, products, windows.

use super::{Builder, V, list, ty};
use std::fmt::Write as _;

/// How a dot product takes the axes of its operands.
#[derive(Clone, Debug, Default)]
pub(crate) struct Axes {
    pub batch: [Vec<usize>; 2],
    pub contract: [Vec<usize>; 2],
}

/// Windows that slide along axes.
pub(crate) struct Windows<'a> {
    pub sizes: &'a [u64],
    pub strides: &'a [u64],
    pub dilations: &'a [u64],
    /// Elements before and behind each axis.
    pub pads: &'a [[u64; 2]],
}

impl Builder {
    /// Folds axes with an operation of two operands from `start` on.
    pub fn reduce(&mut self, op: &str, x: &V, start: f64, axes: &[usize]) -> V {
        let init = self.scalar(x.el, start);
        let dims = without(&x.dims, axes);
        let what = format!(
            "reduce({} init: {}) applies stablehlo.{op} across dimensions = {} : ({}, {}) -> {}",
            x.name,
            init.name,
            list(axes),
            x.ty(),
            init.ty(),
            ty(x.el, &dims)
        );
        self.emit(x.el, &dims, &what)
    }

    /// Folds the window that ends at each element, whose sizes are given; `before`: elements of `start` in front.
    pub fn windows(&mut self, op: &str, x: &V, start: f64, sizes: &[u64], before: &[u64]) -> V {
        let pads: Vec<[u64; 2]> = before.iter().map(|&n| [n, 0]).collect();
        let ones = vec![1; sizes.len()];
        self.reduce_window(
            op,
            x,
            start,
            &Windows { sizes, strides: &ones, dilations: &ones, pads: &pads },
        )
    }

    /// Folds windows of every axis.
    pub fn reduce_window(&mut self, op: &str, x: &V, start: f64, w: &Windows<'_>) -> V {
        let size = |i: usize| {
            let reach = (w.sizes[i].max(1) - 1) * w.dilations[i] + 1;
            let whole = x.dims[i] + w.pads[i][0] + w.pads[i][1];
            if whole < reach { 0 } else { (whole - reach) / w.strides[i] + 1 }
        };
        let dims: Vec<u64> = (0..x.dims.len()).map(size).collect();
        let init = self.scalar(x.el, start);
        let v = self.value(x.el, &dims);
        let array = |all: &[u64]| {
            let text = all.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
            if all.is_empty() { "array<i64>".into() } else { format!("array<i64: {text}>") }
        };
        let pads = list(w.pads.iter().map(list));
        self.line(&format!(
            "{} = \"stablehlo.reduce_window\"({}, {}) <{{window_dimensions = {}, window_strides = {}, \
             window_dilations = {}, padding = dense<{pads}> : tensor<{}x2xi64>}}> ({{",
            v.name,
            x.name,
            init.name,
            array(w.sizes),
            array(w.strides),
            array(w.dilations),
            w.sizes.len()
        ));
        let [p, q] = [self.value(x.el, &[]), self.value(x.el, &[])];
        self.open(&[p.clone(), q.clone()]);
        let y = self.binary(op, &p, &q);
        self.close(&[y]);
        self.line(&format!("}}) : ({}, {}) -> {}", x.ty(), init.ty(), v.ty()));
        v
    }

    /// The sum along axes.
    pub fn sum(&mut self, x: &V, axes: &[usize]) -> V {
        self.reduce("add", x, 0.0, axes)
    }

    /// The sum over all devices that run the program, which are so many, element by element.
    pub fn sum_of_devices(&mut self, x: &V, devices: u64) -> V {
        let v = self.value(x.el, &x.dims);
        let groups = one_group(devices);
        self.line(&format!("{} = \"stablehlo.all_reduce\"({}) <{{{groups}}}> ({{", v.name, x.name));
        let [p, q] = [self.value(x.el, &[]), self.value(x.el, &[])];
        self.open(&[p.clone(), q.clone()]);
        let sum = self.add(&p, &q);
        self.close(&[sum]);
        self.line(&format!("}}) : ({}) -> {}", x.ty(), x.ty()));
        v
    }

    /// The tensors of all devices that run the program, one behind the other along the first axis.
    pub fn all_of_devices(&mut self, x: &V, devices: u64) -> V {
        let mut dims = x.dims.clone();
        if let Some(first) = dims.first_mut() {
            *first = first.saturating_mul(devices);
        }
        let v = self.value(x.el, &dims);
        let groups = one_group(devices);
        self.line(&format!(
            "{} = \"stablehlo.all_gather\"({}) <{{all_gather_dim = 0 : i64, {groups}}}> : ({}) -> {}",
            v.name,
            x.name,
            x.ty(),
            v.ty()
        ));
        v
    }

    /// Products over axes: batch axes first, then those of `a`, then those of `b`.
    pub fn dot(&mut self, a: &V, b: &V, axes: &Axes) -> V {
        let rest = |v: &V, at: usize| -> Vec<u64> {
            let gone: Vec<usize> =
                axes.batch[at].iter().chain(&axes.contract[at]).copied().collect();
            without(&v.dims, &gone)
        };
        let mut dims: Vec<u64> = axes.batch[0].iter().map(|&i| a.dims[i]).collect();
        dims.extend(rest(a, 0));
        dims.extend(rest(b, 1));
        let mut what = format!("dot_general {}, {}, ", a.name, b.name);
        if !axes.batch[0].is_empty() {
            let _ = write!(
                what,
                "batching_dims = {} x {}, ",
                list(&axes.batch[0]),
                list(&axes.batch[1])
            );
        }
        let _ = write!(
            what,
            "contracting_dims = {} x {}, precision = [HIGHEST, HIGHEST] : ({}, {}) -> {}",
            list(&axes.contract[0]),
            list(&axes.contract[1]),
            a.ty(),
            b.ty(),
            ty(a.el, &dims)
        );
        self.emit(a.el, &dims, &what)
    }

    /// A convolution `[N, C, ..]` with filters `[O, C / groups, ..]`; of each spatial axis the stride, the distances
    /// of the image's elements and of the filter's, and the elements of padding.
    pub fn convolution(
        &mut self,
        x: &V,
        w: &V,
        dims: &[u64],
        groups: u64,
        [stride, spread, dilation]: [&[u64]; 3],
        pads: &[[i64; 2]],
    ) -> V {
        let axes: String = (0..pads.len()).map(|i| format!(", {i}")).collect();
        let what = format!(
            "convolution({}, {}) dim_numbers = [b, f{axes}]x[o, i{axes}]->[b, f{axes}], window = {{stride = {}, \
             pad = {}, lhs_dilate = {}, rhs_dilate = {}}} {{batch_group_count = 1 : i64, \
             feature_group_count = {groups} : i64, precision_config = [#stablehlo<precision HIGHEST>, \
             #stablehlo<precision HIGHEST>]}} : ({}, {}) -> {}",
            x.name,
            w.name,
            list(stride),
            list(pads.iter().map(list)),
            list(spread),
            list(dilation),
            x.ty(),
            w.ty(),
            ty(x.el, dims)
        );
        self.emit(x.el, dims, &what)
    }
}

/// The attribute of an exchange of all replicas with each other.
fn one_group(devices: u64) -> String {
    let all = list(0..devices);
    format!("replica_groups = dense<[{all}]> : tensor<1x{devices}xi64>")
}

/// Sizes but those of some axes.
fn without(dims: &[u64], axes: &[usize]) -> Vec<u64> {
    dims.iter().enumerate().filter(|(i, _)| !axes.contains(i)).map(|(_, &d)| d).collect()
}
