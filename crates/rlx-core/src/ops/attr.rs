//! Attributes of operators as text IR prints them.

use crate::error::{Error, Result};
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

    fn get(&self, name: &str) -> Option<&Attr> {
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

    /// Fails on an attribute that is not among `known`.
    pub fn only(&self, known: &[&str]) -> Result<()> {
        match self.0.iter().find(|a| !known.contains(&a.0.as_str())) {
            Some(a) => Err(Error::bad_graph(format!("unknown attribute {}", a.0))
                .hint(format!("known here: {}", known.join(", ")))),
            None => Ok(()),
        }
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
