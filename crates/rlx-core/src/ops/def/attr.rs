//! Attributes of operators as text IR prints them.

use crate::error::{Error, Result};
use crate::types::{DType, Dim, Shape};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// One attribute's value.
#[derive(Clone, Debug, PartialEq)]
pub enum Attr {
    /// `8`
    Int(i64),
    /// `1e-5`, always with a point or an exponent
    Float(f64),
    /// `true`
    Bool(bool),
    /// `silu`
    Name(String),
    /// `[1, 2]`
    List(Vec<Attr>),
}

impl fmt::Display for Attr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(n) => write!(f, "{n}"),
            Self::Float(x) => write!(f, "{x:?}"),
            Self::Bool(b) => write!(f, "{b}"),
            Self::Name(s) => f.write_str(s),
            Self::List(xs) => {
                f.write_str("[")?;
                for (i, x) in xs.iter().enumerate() {
                    if i > 0 {
                        f.write_str(", ")?;
                    }
                    write!(f, "{x}")?;
                }
                f.write_str("]")
            }
        }
    }
}

impl From<&Dim> for Attr {
    /// A size: an integer, or its text as a name. The few integers beyond `i64` are text too.
    fn from(d: &Dim) -> Self {
        match d.as_static().and_then(|n| i64::try_from(n).ok()) {
            Some(n) => Self::Int(n),
            None => Self::Name(format!("{d}")),
        }
    }
}

/// Attributes in the order they print.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attrs(pub Vec<(String, Attr)>);

impl Attrs {
    /// None.
    pub fn none() -> Self {
        Self::default()
    }

    /// Adds an attribute; chain it.
    #[must_use]
    pub fn with(mut self, name: &str, value: Attr) -> Self {
        self.0.push((name.into(), value));
        self
    }

    /// Adds an integer.
    #[must_use]
    pub fn int(self, name: &str, n: u64) -> Self {
        self.with(name, Attr::Int(n as i64))
    }

    /// Adds an f32 so that it prints and parses to the same bits.
    #[must_use]
    pub fn float(self, name: &str, x: f32) -> Self {
        // The shortest decimal of the f32, not of its f64: 1e-5, not 9.999999747378752e-6.
        let shortest = format!("{x:?}").parse::<f64>().unwrap_or(f64::from(x));
        self.with(name, Attr::Float(shortest))
    }

    /// Adds a name.
    #[must_use]
    pub fn name(self, name: &str, value: &str) -> Self {
        self.with(name, Attr::Name(value.into()))
    }

    /// Adds an integer of either sign.
    #[must_use]
    pub fn signed(self, name: &str, n: i64) -> Self {
        self.with(name, Attr::Int(n))
    }

    /// Adds a list of integers.
    #[must_use]
    pub fn ints(self, name: &str, xs: &[u64]) -> Self {
        self.with(name, Attr::List(xs.iter().map(|&n| (&Dim::from(n)).into()).collect()))
    }

    /// Adds a list of integers of either sign.
    #[must_use]
    pub fn signeds(self, name: &str, xs: &[i64]) -> Self {
        self.with(name, Attr::List(xs.iter().map(|&n| Attr::Int(n)).collect()))
    }

    /// Adds an axis.
    #[must_use]
    pub fn axis(self, name: &str, axis: usize) -> Self {
        self.int(name, axis as u64)
    }

    /// Adds a list of axes.
    #[must_use]
    pub fn axes(self, name: &str, axes: &[usize]) -> Self {
        self.with(name, Attr::List(axes.iter().map(|&n| Attr::Int(n as i64)).collect()))
    }

    /// Adds a boolean that prints only when true.
    #[must_use]
    pub fn when(self, name: &str, is: bool) -> Self {
        if is { self.with(name, Attr::Bool(true)) } else { self }
    }

    /// Adds a size: `64`, `2*SEQ`.
    #[must_use]
    pub fn dim(self, name: &str, d: &Dim) -> Self {
        self.with(name, d.into())
    }

    /// Adds sizes: `[SEQ, 64]`.
    #[must_use]
    pub fn dims(self, name: &str, shape: &Shape) -> Self {
        self.with(name, Attr::List(shape.0.iter().map(Attr::from).collect()))
    }

    /// The value of that name.
    pub fn get(&self, name: &str) -> Option<&Attr> {
        self.0.iter().find(|a| a.0 == name).map(|a| &a.1)
    }

    fn missing(name: &str) -> Error {
        Error::bad_graph(format!("attribute {name} is missing"))
    }

    fn mistyped(name: &str, got: &Attr, need: &str) -> Error {
        Error::bad_graph(format!("attribute {name} is {got}, expected {need}"))
    }

    /// A non-negative integer.
    pub fn get_int(&self, name: &str) -> Result<u64> {
        self.opt_int(name)?.ok_or_else(|| Self::missing(name))
    }

    /// A non-negative integer that may be absent.
    pub fn opt_int(&self, name: &str) -> Result<Option<u64>> {
        match self.get(name) {
            None => Ok(None),
            Some(Attr::Int(n)) if *n >= 0 => Ok(Some(*n as u64)),
            Some(other) => Err(Self::mistyped(name, other, "an integer of 0 or more")),
        }
    }

    /// A float.
    pub fn get_float(&self, name: &str) -> Result<f32> {
        self.opt_float(name)?.ok_or_else(|| Self::missing(name))
    }

    /// A float that may be absent.
    pub fn opt_float(&self, name: &str) -> Result<Option<f32>> {
        match self.get(name) {
            None => Ok(None),
            Some(Attr::Float(x)) => Ok(Some(*x as f32)),
            Some(Attr::Int(n)) => Ok(Some(*n as f32)),
            Some(other) => Err(Self::mistyped(name, other, "a number")),
        }
    }

    /// A name that may be absent.
    pub fn opt_name(&self, name: &str) -> Result<Option<&str>> {
        match self.get(name) {
            None => Ok(None),
            Some(Attr::Name(s)) => Ok(Some(s)),
            Some(other) => Err(Self::mistyped(name, other, "a name")),
        }
    }

    /// A name.
    pub fn get_name(&self, name: &str) -> Result<&str> {
        self.opt_name(name)?.ok_or_else(|| Self::missing(name))
    }

    /// A boolean, false when absent.
    pub fn flag(&self, name: &str) -> Result<bool> {
        match self.get(name) {
            None => Ok(false),
            Some(Attr::Bool(b)) => Ok(*b),
            Some(other) => Err(Self::mistyped(name, other, "true or false")),
        }
    }

    /// Integers of a list that may be absent.
    pub fn opt_ints(&self, name: &str) -> Result<Option<Vec<u64>>> {
        match self.get(name) {
            None => Ok(None),
            Some(list @ Attr::List(xs)) => xs
                .iter()
                .map(|x| match x {
                    Attr::Int(n) if *n >= 0 => Ok(*n as u64),
                    _ => Err(Self::mistyped(name, list, "a list of integers")),
                })
                .collect::<Result<_>>()
                .map(Some),
            Some(other) => Err(Self::mistyped(name, other, "a list of integers")),
        }
    }

    /// Integers of a list.
    pub fn get_ints(&self, name: &str) -> Result<Vec<u64>> {
        self.opt_ints(name)?.ok_or_else(|| Self::missing(name))
    }

    /// An integer of either sign that may be absent.
    pub fn opt_signed(&self, name: &str) -> Result<Option<i64>> {
        match self.get(name) {
            None => Ok(None),
            Some(Attr::Int(n)) => Ok(Some(*n)),
            Some(other) => Err(Self::mistyped(name, other, "an integer")),
        }
    }

    /// An integer of either sign.
    pub fn get_signed(&self, name: &str) -> Result<i64> {
        self.opt_signed(name)?.ok_or_else(|| Self::missing(name))
    }

    /// Integers of either sign of a list.
    pub fn get_signeds(&self, name: &str) -> Result<Vec<i64>> {
        self.list(name, "a list of integers", |x| match x {
            Attr::Int(n) => Some(*n),
            _ => None,
        })
    }

    /// An axis.
    pub fn get_axis(&self, name: &str) -> Result<usize> {
        let n = self.get_int(name)?;
        usize::try_from(n).map_err(|_| Self::mistyped(name, &Attr::Int(n as i64), "an axis"))
    }

    /// An axis that may be absent.
    pub fn opt_axis(&self, name: &str) -> Result<Option<usize>> {
        self.get(name).map(|_| self.get_axis(name)).transpose()
    }

    /// Axes of a list.
    pub fn get_axes(&self, name: &str) -> Result<Vec<usize>> {
        self.list(name, "a list of axes", |x| match x {
            Attr::Int(n) => usize::try_from(*n).ok(),
            _ => None,
        })
    }

    /// A size that may be absent.
    pub fn opt_dim(&self, name: &str) -> Result<Option<Dim>> {
        let Some(got) = self.get(name) else { return Ok(None) };
        size(got).map(Some).ok_or_else(|| Self::mistyped(name, got, "a size"))
    }

    /// A size.
    pub fn get_dim(&self, name: &str) -> Result<Dim> {
        self.opt_dim(name)?.ok_or_else(|| Self::missing(name))
    }

    /// Sizes of a list.
    pub fn get_dims(&self, name: &str) -> Result<Shape> {
        self.list(name, "a list of sizes", size).map(Shape)
    }

    /// An element type.
    pub fn get_dtype(&self, name: &str) -> Result<DType> {
        let text = self.get_name(name)?;
        DType::from_name(text)
            .ok_or_else(|| Self::mistyped(name, &Attr::Name(text.into()), "an element type"))
    }

    /// The elements of a list as `one` reads them.
    fn list<T>(&self, name: &str, need: &str, one: impl Fn(&Attr) -> Option<T>) -> Result<Vec<T>> {
        let got = self.get(name).ok_or_else(|| Self::missing(name))?;
        let Attr::List(xs) = got else { return Err(Self::mistyped(name, got, need)) };
        xs.iter().map(|x| one(x).ok_or_else(|| Self::mistyped(name, got, need))).collect()
    }

    /// Fails on an attribute that is not among `known`.
    pub fn only(&self, known: &[&str]) -> Result<()> {
        match self.0.iter().find(|a| !known.contains(&a.0.as_str())) {
            Some(a) => Err(Error::bad_graph(format!("unknown attribute {}", a.0))
                .hint(format!("known here: {}", known.join(", ")))),
            None => Ok(()),
        }
    }
}

/// The size that an attribute says.
fn size(attr: &Attr) -> Option<Dim> {
    match attr {
        Attr::Int(n) => u64::try_from(*n).ok().map(Dim::from),
        Attr::Name(text) => Dim::parse(text).ok(),
        _ => None,
    }
}

impl fmt::Display for Attrs {
    /// ` {eps = 1e-5, heads = 8}` with a leading blank, or nothing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        f.write_str(" {")?;
        for (i, (name, value)) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{name} = {value}")?;
        }
        f.write_str("}")
    }
}
