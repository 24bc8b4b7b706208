//! Writes StableHLO: values with their types, and a line for each operation.
//!
//! The builder checks nothing that the compiler of the text checks again: two operands of one operation whose sizes
//! differ make a text that the compiler refuses.

mod element;
mod folds;
mod regions;
mod shapes;

pub use element::El;
pub(crate) use folds::{Axes, Windows};

use element::number;
use std::collections::HashMap;
use std::fmt::Write as _;

/// A value of the text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct V {
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
        self.dims.iter().fold(1, |n: u64, &d| n.saturating_mul(d))
    }
}

/// `tensor<2x8xf32>`.
fn ty(el: El, dims: &[u64]) -> String {
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

/// A text that grows.
#[derive(Default)]
pub(crate) struct Builder {
    text: String,
    next: usize,
    depth: usize,
    /// Constants by their text, in every scope that is open: a scope's are gone with it.
    constants: Vec<HashMap<String, V>>,
    /// Elements of a packed weight that are decoded at once.
    pub decoded: u64,
}

impl Builder {
    pub fn new(decoded: u64) -> Builder {
        Builder { constants: vec![HashMap::new()], depth: 2, decoded, ..Builder::default() }
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
        let what =
            format!("reduce_precision {}, format = e{exponent}m{mantissa} : {}", x.name, x.ty());
        self.emit(x.el, &x.dims, &what)
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
