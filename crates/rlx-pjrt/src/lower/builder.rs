//! Writes StableHLO: values with their types, and a line for each operation.
//!
//! The builder checks nothing that the compiler of the text checks again: two operands of one operation whose sizes
//! differ make a text that the compiler refuses.

use crate::pjrt::Element;
use std::collections::HashMap;
use std::fmt::Write as _;

/// An element type of StableHLO.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum El {
    Bool,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F16,
    Bf16,
    F32,
    F64,
    C64,
}

impl El {
    /// The name in the text.
    pub fn name(self) -> &'static str {
        match self {
            El::Bool => "i1",
            El::I8 => "i8",
            El::I16 => "i16",
            El::I32 => "i32",
            El::I64 => "i64",
            El::U8 => "ui8",
            El::U16 => "ui16",
            El::U32 => "ui32",
            El::U64 => "ui64",
            El::F16 => "f16",
            El::Bf16 => "bf16",
            El::F32 => "f32",
            El::F64 => "f64",
            El::C64 => "complex<f32>",
        }
    }

    /// The type of tensors that a device has of it.
    pub fn element(self) -> Element {
        match self {
            El::Bool => Element::Bool,
            El::I8 => Element::I8,
            El::I16 => Element::I16,
            El::I32 => Element::I32,
            El::I64 => Element::I64,
            El::U8 => Element::U8,
            El::U16 => Element::U16,
            El::U32 => Element::U32,
            El::U64 => Element::U64,
            El::F16 => Element::F16,
            El::Bf16 => Element::Bf16,
            El::F32 => Element::F32,
            El::F64 => Element::F64,
            El::C64 => Element::C64,
        }
    }

    pub fn is_float(self) -> bool {
        matches!(self, El::F16 | El::Bf16 | El::F32 | El::F64)
    }

    pub fn is_signed(self) -> bool {
        matches!(self, El::I8 | El::I16 | El::I32 | El::I64)
    }

    /// Bits of one; of a boolean 1.
    pub fn bits(self) -> u32 {
        match self {
            El::Bool => 1,
            El::I8 | El::U8 => 8,
            El::I16 | El::U16 | El::F16 | El::Bf16 => 16,
            El::I32 | El::U32 | El::F32 => 32,
            El::I64 | El::U64 | El::F64 | El::C64 => 64,
        }
    }

    /// The type in which products and sums of this type are computed.
    pub fn wide(self) -> El {
        match self {
            El::F16 | El::Bf16 => El::F32,
            other => other,
        }
    }
}

/// A value of the text.
#[derive(Clone, Debug, PartialEq)]
pub struct V {
    name: String,
    /// Sizes of its axes.
    pub dims: Vec<u64>,
    /// Its element type.
    pub el: El,
}

impl V {
    /// `tensor<2x8xf32>`.
    pub fn ty(&self) -> String {
        ty(self.el, &self.dims)
    }

    /// How many elements it has.
    pub fn elements(&self) -> u64 {
        self.dims.iter().product()
    }
}

/// `tensor<2x8xf32>`.
pub fn ty(el: El, dims: &[u64]) -> String {
    let mut text = String::from("tensor<");
    for d in dims {
        let _ = write!(text, "{d}x");
    }
    text + el.name() + ">"
}

/// `[1, 2]`.
fn list<T: std::fmt::Display>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<String> = items.into_iter().map(|x| x.to_string()).collect();
    format!("[{}]", items.join(", "))
}

fn names<'a>(values: impl IntoIterator<Item = &'a V>) -> String {
    values.into_iter().map(|v| v.name.as_str()).collect::<Vec<_>>().join(", ")
}

fn types<'a>(values: impl IntoIterator<Item = &'a V>) -> String {
    values.into_iter().map(V::ty).collect::<Vec<_>>().join(", ")
}

/// How a dot product takes the axes of its operands.
#[derive(Clone, Debug, Default)]
pub struct Axes {
    pub batch: [Vec<usize>; 2],
    pub contract: [Vec<usize>; 2],
}

/// Windows that slide along axes.
pub struct Windows<'a> {
    pub sizes: &'a [u64],
    pub strides: &'a [u64],
    pub dilations: &'a [u64],
    /// Elements before and behind each axis.
    pub pads: &'a [[u64; 2]],
}

/// A text that grows.
#[derive(Default)]
pub struct Builder {
    text: String,
    next: usize,
    depth: usize,
    /// Constants by their text, in every scope that is open: a scope's are gone with it.
    constants: Vec<HashMap<String, V>>,
}

impl Builder {
    pub fn new() -> Builder {
        Builder { constants: vec![HashMap::new()], depth: 2, ..Builder::default() }
    }

    /// The lines so far.
    pub fn into_text(self) -> String {
        self.text
    }

    /// A value that something else than a line defines.
    pub fn named(name: &str, el: El, dims: &[u64]) -> V {
        V { name: name.into(), dims: dims.to_vec(), el }
    }

    fn value(&mut self, el: El, dims: &[u64]) -> V {
        let name = format!("%{}", self.next);
        self.next += 1;
        V { name, dims: dims.to_vec(), el }
    }

    fn line(&mut self, text: &str) {
        for _ in 0..self.depth {
            self.text.push_str("  ");
        }
        self.text.push_str(text);
        self.text.push('\n');
    }

    /// A line that defines a value of this type.
    pub fn emit(&mut self, el: El, dims: &[u64], what: &str) -> V {
        let v = self.value(el, dims);
        self.line(&format!("{} = stablehlo.{what}", v.name));
        v
    }

    /// An operation of one operand that keeps its type: `stablehlo.exponential`.
    pub fn unary(&mut self, op: &str, x: &V) -> V {
        self.emit(x.el, &x.dims, &format!("{op} {} : {}", x.name, x.ty()))
    }

    /// An operation of two operands of one type, which is the result's: `stablehlo.add`.
    pub fn binary(&mut self, op: &str, a: &V, b: &V) -> V {
        self.emit(a.el, &a.dims, &format!("{op} {}, {} : {}", a.name, b.name, a.ty()))
    }

    pub fn add(&mut self, a: &V, b: &V) -> V {
        self.binary("add", a, b)
    }

    pub fn sub(&mut self, a: &V, b: &V) -> V {
        self.binary("subtract", a, b)
    }

    pub fn mul(&mut self, a: &V, b: &V) -> V {
        self.binary("multiply", a, b)
    }

    pub fn div(&mut self, a: &V, b: &V) -> V {
        self.binary("divide", a, b)
    }

    pub fn and(&mut self, a: &V, b: &V) -> V {
        self.binary("and", a, b)
    }

    pub fn or(&mut self, a: &V, b: &V) -> V {
        self.binary("or", a, b)
    }

    pub fn not(&mut self, x: &V) -> V {
        self.unary("not", x)
    }

    pub fn max(&mut self, a: &V, b: &V) -> V {
        self.binary("maximum", a, b)
    }

    pub fn min(&mut self, a: &V, b: &V) -> V {
        self.binary("minimum", a, b)
    }

    /// `x` with a number of its own type as the other operand.
    pub fn with(&mut self, op: &str, x: &V, number: f64) -> V {
        let n = self.splat(x.el, &x.dims, number);
        self.binary(op, x, &n)
    }

    /// Bits of an integer from bit `by` on.
    pub fn shift_right(&mut self, x: &V, by: u32) -> V {
        if by == 0 { x.clone() } else { self.with("shift_right_logical", x, by.into()) }
    }

    /// Bits of an integer moved up.
    pub fn shift_left(&mut self, x: &V, by: u32) -> V {
        if by == 0 { x.clone() } else { self.with("shift_left", x, by.into()) }
    }

    /// The low bits of an integer that are set in `mask`.
    pub fn bits(&mut self, x: &V, mask: u32) -> V {
        self.with("and", x, mask.into())
    }

    /// A comparison: `EQ NE LT LE GT GE`.
    pub fn compare(&mut self, how: &str, a: &V, b: &V) -> V {
        let what = format!(
            "compare {how}, {}, {} : ({}, {}) -> {}",
            a.name,
            b.name,
            a.ty(),
            b.ty(),
            ty(El::Bool, &a.dims)
        );
        self.emit(El::Bool, &a.dims, &what)
    }

    /// The same with a number.
    pub fn compare_with(&mut self, how: &str, x: &V, number: f64) -> V {
        let n = self.splat(x.el, &x.dims, number);
        self.compare(how, x, &n)
    }

    pub fn select(&mut self, which: &V, yes: &V, no: &V) -> V {
        let what = format!(
            "select {}, {}, {} : {}, {}",
            which.name,
            yes.name,
            no.name,
            which.ty(),
            yes.ty()
        );
        self.emit(yes.el, &yes.dims, &what)
    }

    /// Another element type, by StableHLO's rules.
    pub fn convert(&mut self, x: &V, to: El) -> V {
        if x.el == to {
            return x.clone();
        }
        let what = format!("convert {} : ({}) -> {}", x.name, x.ty(), ty(to, &x.dims));
        self.emit(to, &x.dims, &what)
    }

    /// The same bits as another type; a type of another width takes away or adds the last axis.
    pub fn bitcast(&mut self, x: &V, to: El) -> V {
        let mut dims = x.dims.clone();
        if x.el.bits() > to.bits() {
            dims.push(u64::from(x.el.bits() / to.bits()));
        } else if x.el.bits() < to.bits() {
            dims.pop();
        }
        let what = format!("bitcast_convert {} : ({}) -> {}", x.name, x.ty(), ty(to, &dims));
        self.emit(to, &dims, &what)
    }

    /// Rounded to a float of fewer bits, but kept in its type.
    pub fn rounded(&mut self, x: &V, exponent: u32, mantissa: u32) -> V {
        let what = format!("reduce_precision {}, format = e{exponent}m{mantissa} : {}", x.name, x.ty());
        self.emit(x.el, &x.dims, &what)
    }

    pub fn reshape(&mut self, x: &V, dims: &[u64]) -> V {
        if x.dims == dims {
            return x.clone();
        }
        let what = format!("reshape {} : ({}) -> {}", x.name, x.ty(), ty(x.el, dims));
        self.emit(x.el, dims, &what)
    }

    /// Repeats `x`, whose axis `i` becomes axis `axes[i]`.
    pub fn repeat(&mut self, x: &V, dims: &[u64], axes: &[usize]) -> V {
        if x.dims == dims {
            return x.clone();
        }
        let what = format!(
            "broadcast_in_dim {}, dims = {} : ({}) -> {}",
            x.name,
            list(axes),
            x.ty(),
            ty(x.el, dims)
        );
        self.emit(x.el, dims, &what)
    }

    /// Repeats `x` as NumPy does: its axes are the last ones.
    pub fn repeat_last(&mut self, x: &V, dims: &[u64]) -> V {
        let first = dims.len().saturating_sub(x.dims.len());
        let axes: Vec<usize> = (first..dims.len()).collect();
        self.repeat(x, dims, &axes)
    }

    pub fn transpose(&mut self, x: &V, order: &[usize]) -> V {
        if order.iter().enumerate().all(|(i, &o)| i == o) {
            return x.clone();
        }
        let dims: Vec<u64> = order.iter().map(|&o| x.dims[o]).collect();
        let what = format!(
            "transpose {}, dims = {} : ({}) -> {}",
            x.name,
            list(order),
            x.ty(),
            ty(x.el, &dims)
        );
        self.emit(x.el, &dims, &what)
    }

    /// From where, to before where and in which steps, for each axis.
    pub fn slice(&mut self, x: &V, ranges: &[(u64, u64, u64)]) -> V {
        if ranges.iter().zip(&x.dims).all(|(r, &d)| *r == (0, d, 1)) {
            return x.clone();
        }
        let dims: Vec<u64> = ranges.iter().map(|&(a, b, s)| b.saturating_sub(a).div_ceil(s)).collect();
        let each = ranges.iter().map(|(a, b, s)| match s {
            1 => format!("{a}:{b}"),
            s => format!("{a}:{b}:{s}"),
        });
        let what = format!("slice {} {} : ({}) -> {}", x.name, list(each), x.ty(), ty(x.el, &dims));
        self.emit(x.el, &dims, &what)
    }

    /// `len` elements of one axis.
    pub fn part(&mut self, x: &V, axis: usize, start: u64, len: u64) -> V {
        let mut ranges: Vec<(u64, u64, u64)> = x.dims.iter().map(|&d| (0, d, 1)).collect();
        ranges[axis] = (start, start + len, 1);
        self.slice(x, &ranges)
    }

    pub fn concat(&mut self, parts: &[V], axis: usize) -> V {
        if let [one] = parts {
            return one.clone();
        }
        let mut dims = parts[0].dims.clone();
        dims[axis] = parts.iter().map(|p| p.dims[axis]).sum();
        let el = parts[0].el;
        let what = format!(
            "concatenate {}, dim = {axis} : ({}) -> {}",
            names(parts),
            types(parts),
            ty(el, &dims)
        );
        self.emit(el, &dims, &what)
    }

    /// Turns axes round.
    pub fn reverse(&mut self, x: &V, axes: &[usize]) -> V {
        let what = format!("reverse {}, dims = {} : {}", x.name, list(axes), x.ty());
        self.emit(x.el, &x.dims, &what)
    }

    /// Adds elements of `value`, a tensor without axes, before, behind and between those of each axis.
    pub fn pad(&mut self, x: &V, value: &V, low: &[i64], high: &[i64], between: &[i64]) -> V {
        let size = |i: usize| {
            let d = x.dims[i] as i64;
            (d + (d - 1).max(0) * between[i] + low[i] + high[i]).max(0) as u64
        };
        let dims: Vec<u64> = (0..x.dims.len()).map(size).collect();
        let what = format!(
            "pad {}, {}, low = {}, high = {}, interior = {} : ({}, {}) -> {}",
            x.name,
            value.name,
            list(low),
            list(high),
            list(between),
            x.ty(),
            value.ty(),
            ty(x.el, &dims)
        );
        self.emit(x.el, &dims, &what)
    }

    /// Indices along an axis.
    pub fn iota(&mut self, el: El, dims: &[u64], axis: usize) -> V {
        self.constant(el, dims, format!("iota dim = {axis} : {}", ty(el, dims)))
    }

    /// What depends on nothing, and is written once a scope.
    fn constant(&mut self, el: El, dims: &[u64], what: String) -> V {
        if let Some(v) = self.constants.iter().rev().find_map(|scope| scope.get(&what)) {
            return v.clone();
        }
        let v = self.emit(el, dims, &what);
        if let Some(scope) = self.constants.last_mut() {
            scope.insert(what, v.clone());
        }
        v
    }

    /// A number in every element; floats round to nearest even.
    pub fn splat(&mut self, el: El, dims: &[u64], x: f64) -> V {
        let number = number(el, x);
        self.constant(el, dims, format!("constant dense<{number}> : {}", ty(el, dims)))
    }

    /// An integer in every element; its low bits, where it has more.
    pub fn integer(&mut self, el: El, dims: &[u64], n: u64) -> V {
        let number = match el {
            El::U64 => n.to_string(),
            El::I64 => (n as i64).to_string(),
            El::U32 => (n as u32).to_string(),
            El::I32 => (n as i32).to_string(),
            El::U16 => (n as u16).to_string(),
            El::I16 => (n as i16).to_string(),
            El::U8 => (n as u8).to_string(),
            El::I8 => (n as i8).to_string(),
            other => number(other, n as f64),
        };
        self.constant(el, dims, format!("constant dense<{number}> : {}", ty(el, dims)))
    }

    /// A number without axes.
    pub fn scalar(&mut self, el: El, x: f64) -> V {
        self.splat(el, &[], x)
    }

    /// A tensor of these row-major bytes, little-endian; those of booleans are bytes.
    pub fn literal(&mut self, el: El, dims: &[u64], bytes: &[u8]) -> V {
        if bytes.is_empty() {
            return self.splat(el, dims, 0.0);
        }
        if el == El::Bool {
            let x = self.literal(El::U8, dims, bytes);
            return self.compare_with("NE", &x, 0.0);
        }
        let mut hex = String::with_capacity(2 * bytes.len());
        for b in bytes {
            let _ = write!(hex, "{b:02X}");
        }
        self.constant(el, dims, format!("constant dense<\"0x{hex}\"> : {}", ty(el, dims)))
    }

    /// A table of numbers of an integer type or f32.
    pub fn table(&mut self, el: El, numbers: &[i64]) -> V {
        let bytes: Vec<u8> = match el {
            El::F32 => numbers.iter().flat_map(|&n| (n as f32).to_le_bytes()).collect(),
            _ => {
                let width = el.bits() as usize / 8;
                numbers.iter().flat_map(|n| n.to_le_bytes()[..width].to_vec()).collect()
            }
        };
        self.literal(el, &[numbers.len() as u64], &bytes)
    }

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
        self.reduce_window(op, x, start, &Windows { sizes, strides: &ones, dilations: &ones, pads: &pads })
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
        let pads = list(w.pads.iter().map(|p| list(p)));
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

    /// Products over axes: batch axes first, then those of `a`, then those of `b`.
    pub fn dot(&mut self, a: &V, b: &V, axes: &Axes) -> V {
        let rest = |v: &V, at: usize| -> Vec<u64> {
            let gone: Vec<usize> = axes.batch[at].iter().chain(&axes.contract[at]).copied().collect();
            without(&v.dims, &gone)
        };
        let mut dims: Vec<u64> = axes.batch[0].iter().map(|&i| a.dims[i]).collect();
        dims.extend(rest(a, 0));
        dims.extend(rest(b, 1));
        let mut what = format!("dot_general {}, {}, ", a.name, b.name);
        if !axes.batch[0].is_empty() {
            let _ = write!(what, "batching_dims = {} x {}, ", list(&axes.batch[0]), list(&axes.batch[1]));
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

    /// A convolution `[N, C, ..]` with filters `[O, C / groups, ..]`; of each spatial axis the strides, the distances of
    /// the image's elements and those of the filter's, and the elements of padding.
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
            list(pads.iter().map(|p| list(p))),
            list(spread),
            list(dilation),
            x.ty(),
            w.ty(),
            ty(x.el, dims)
        );
        self.emit(x.el, dims, &what)
    }

    /// `x` from these indices on, which have no axes; they are moved so that the whole result lies in `x`.
    pub fn dynamic_slice(&mut self, x: &V, starts: &[V], sizes: &[u64]) -> V {
        let what = format!(
            "dynamic_slice {}, {}, sizes = {} : ({}, {}) -> {}",
            x.name,
            names(starts),
            list(sizes),
            x.ty(),
            types(starts),
            ty(x.el, sizes)
        );
        self.emit(x.el, sizes, &what)
    }

    /// `x` with `part` from these indices on, moved as those of [`dynamic_slice`](Self::dynamic_slice).
    pub fn dynamic_update(&mut self, x: &V, part: &V, starts: &[V]) -> V {
        let what = format!(
            "dynamic_update_slice {}, {}, {} : ({}, {}, {}) -> {}",
            x.name,
            part.name,
            names(starts),
            x.ty(),
            part.ty(),
            types(starts),
            x.ty()
        );
        self.emit(x.el, &x.dims, &what)
    }

    /// Slices of `x` along one axis at `ids`, whose shape stands for the axis; ids outside of it read the nearest.
    pub fn take(&mut self, x: &V, ids: &V, axis: usize) -> V {
        let (rank, extra) = (x.dims.len(), ids.dims.len());
        let mut dims = x.dims.clone();
        dims.splice(axis..=axis, ids.dims.iter().copied());
        let offset: Vec<usize> = (0..axis).chain(axis + extra..rank - 1 + extra).collect();
        let sizes: Vec<u64> =
            x.dims.iter().enumerate().map(|(i, &d)| if i == axis { d.min(1) } else { d }).collect();
        let what = format!(
            "{} = \"stablehlo.gather\"({}, {}) <{{dimension_numbers = #stablehlo.gather<offset_dims = {}, \
             collapsed_slice_dims = [{axis}], start_index_map = [{axis}], index_vector_dim = {extra}>, \
             slice_sizes = array<i64{}>}}> : ({}, {}) -> {}",
            "{}",
            x.name,
            ids.name,
            list(offset),
            sizes.iter().enumerate().map(|(i, d)| format!("{} {d}", if i == 0 { ":" } else { "," })).collect::<String>(),
            x.ty(),
            ids.ty(),
            ty(x.el, &dims)
        );
        let v = self.value(x.el, &dims);
        self.line(&what.replacen("{}", &v.name, 1));
        v
    }

    /// `x` with rows (axis 0) replaced, or with `add` increased, by those of `rows` at `ids`; rows of ids outside are
    /// dropped.
    pub fn scatter(&mut self, x: &V, ids: &V, rows: &V, add: bool) -> V {
        let window: Vec<usize> = (1..x.dims.len()).collect();
        let v = self.value(x.el, &x.dims);
        let ids = self.reshape(ids, &[ids.dims[0], 1]);
        self.line(&format!(
            "{} = \"stablehlo.scatter\"({}, {}, {}) <{{scatter_dimension_numbers = \
             #stablehlo.scatter<update_window_dims = {}, inserted_window_dims = [0], \
             scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}> ({{",
            v.name,
            x.name,
            ids.name,
            rows.name,
            list(window)
        ));
        let [old, new] = [self.value(x.el, &[]), self.value(x.el, &[])];
        self.open(&[old.clone(), new.clone()]);
        let kept = if add { self.add(&old, &new) } else { new };
        self.close(&[kept]);
        self.line(&format!("}}) : ({}, {}, {}) -> {}", x.ty(), ids.ty(), rows.ty(), x.ty()));
        v
    }

    /// Opens a block with these parameters.
    fn open(&mut self, params: &[V]) {
        let params: Vec<String> = params.iter().map(|p| format!("{}: {}", p.name, p.ty())).collect();
        self.line(&format!("^bb0({}):", params.join(", ")));
        self.depth += 1;
        self.constants.push(HashMap::new());
    }

    /// Ends it with these results.
    fn close(&mut self, results: &[V]) {
        match results {
            [] => self.line("stablehlo.return"),
            some => self.line(&format!("stablehlo.return {} : {}", names(some), types(some))),
        }
        self.depth -= 1;
        self.constants.pop();
    }

    /// Sorts tensors along an axis by `before` of two elements of each; equal ones keep their order.
    pub fn sort(
        &mut self,
        all: &[V],
        axis: usize,
        before: impl FnOnce(&mut Builder, &[[V; 2]]) -> V,
    ) -> Vec<V> {
        let results = self.results(all);
        self.line(&format!(
            "{} = \"stablehlo.sort\"({}) <{{dimension = {axis} : i64, is_stable = true}}> ({{",
            self.bundle(&results),
            names(all)
        ));
        let pairs: Vec<[V; 2]> =
            all.iter().map(|v| [self.value(v.el, &[]), self.value(v.el, &[])]).collect();
        let flat: Vec<V> = pairs.iter().flatten().cloned().collect();
        self.open(&flat);
        let first = before(self, &pairs);
        self.close(&[first]);
        self.line(&format!("}}) : ({}) -> ({})", types(all), types(all)));
        results
    }

    /// Values that one line defines together.
    fn results(&mut self, like: &[V]) -> Vec<V> {
        let name = format!("%{}", self.next);
        self.next += 1;
        let each = |(i, v): (usize, &V)| {
            let name = if like.len() == 1 { name.clone() } else { format!("{name}#{i}") };
            V { name, dims: v.dims.clone(), el: v.el }
        };
        like.iter().enumerate().map(each).collect()
    }

    /// How their line names them: `%5:2`.
    fn bundle(&self, results: &[V]) -> String {
        match results {
            [one] => one.name.clone(),
            all => format!("{}:{}", all[0].name.split('#').next().unwrap_or_default(), all.len()),
        }
    }

    /// Repeats `body` over values as long as `condition` of them holds.
    pub fn repeat_while(
        &mut self,
        start: &[V],
        condition: impl FnOnce(&mut Builder, &[V]) -> V,
        body: impl FnOnce(&mut Builder, &[V]) -> Vec<V>,
    ) -> Vec<V> {
        let results = self.results(start);
        self.line(&format!("{} = \"stablehlo.while\"({}) ({{", self.bundle(&results), names(start)));
        let params: Vec<V> = start.iter().map(|v| self.value(v.el, &v.dims)).collect();
        self.open(&params);
        let goes_on = condition(self, &params);
        self.close(&[goes_on]);
        self.line("}, {");
        let params: Vec<V> = start.iter().map(|v| self.value(v.el, &v.dims)).collect();
        self.open(&params);
        let next = body(self, &params);
        self.close(&next);
        self.line(&format!("}}) : ({}) -> ({})", types(start), types(start)));
        results
    }

    /// The results of one of two branches, both of the types of `like`.
    pub fn either(
        &mut self,
        which: &V,
        like: &[V],
        yes: impl FnOnce(&mut Builder) -> Vec<V>,
        no: impl FnOnce(&mut Builder) -> Vec<V>,
    ) -> Vec<V> {
        let results = self.results(like);
        self.line(&format!("{} = \"stablehlo.if\"({}) ({{", self.bundle(&results), which.name));
        self.enter();
        let values = yes(self);
        self.close(&values);
        self.line("}, {");
        self.enter();
        let values = no(self);
        self.close(&values);
        self.line(&format!("}}) : ({}) -> ({})", which.ty(), types(like)));
        results
    }

    /// Opens a block without parameters.
    fn enter(&mut self) {
        self.depth += 1;
        self.constants.push(HashMap::new());
    }

    /// The error function, which StableHLO's companion dialect has.
    pub fn erf(&mut self, x: &V) -> V {
        let v = self.value(x.el, &x.dims);
        self.line(&format!("{} = chlo.erf {} : {} -> {}", v.name, x.name, x.ty(), x.ty()));
        v
    }

    /// The text of a function's end.
    pub fn finish(&mut self, results: &[V]) {
        match results {
            [] => self.line("return"),
            some => self.line(&format!("return {} : {}", names(some), types(some))),
        }
    }
}

/// Sizes but those of some axes.
fn without(dims: &[u64], axes: &[usize]) -> Vec<u64> {
    dims.iter().enumerate().filter(|(i, _)| !axes.contains(i)).map(|(_, &d)| d).collect()
}

/// A number as the text has it: decimal where that is short, and its bits otherwise.
fn number(el: El, x: f64) -> String {
    match el {
        El::Bool => (x != 0.0).to_string(),
        El::C64 => format!("({}, 0.0)", number(El::F32, x)),
        _ if !el.is_float() => {
            let least = if el.is_signed() { -(2f64.powi(el.bits() as i32 - 1)) } else { 0.0 };
            let most = 2f64.powi(el.bits() as i32 - i32::from(el.is_signed())) - 1.0;
            // Numbers of 64 bits stay exact where a float is: the largest are ends of the type.
            match (el, x >= most, x <= least) {
                (El::I64, true, _) => i64::MAX.to_string(),
                (El::U64, true, _) => u64::MAX.to_string(),
                // The reader takes the number without its sign first, which this one does not have.
                (El::I64, _, true) => "\"0x0000000000000080\"".into(),
                (_, true, _) => format!("{most}"),
                (_, _, true) => format!("{least}"),
                _ => format!("{}", x.trunc()),
            }
        }
        _ => {
            let short = format!("{x:?}");
            let plain = x.is_finite() && !short.contains('e') && short.len() <= 8;
            match el {
                // Few digits are the nearest number of every type, and the reader rounds them.
                _ if plain => short,
                El::F16 => format!("0x{:04X}", half::f16::from_f64(x).to_bits()),
                El::Bf16 => format!("0x{:04X}", half::bf16::from_f64(x).to_bits()),
                El::F32 => format!("0x{:08X}", (x as f32).to_bits()),
                _ => format!("0x{:016X}", x.to_bits()),
            }
        }
    }
}
