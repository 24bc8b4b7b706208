//! Types and attributes.

use super::lexer::Lexer;
use crate::error::{Error, Result};
use crate::ir::verify::is_name_char;
use crate::ops::{Attr, Attrs};
use crate::types::{DType, Dim, Kind, Shape, Type};
use alloc::format;
use alloc::vec::Vec;

/// Lists in lists at most.
const LIST_DEPTH: usize = 8;

impl Lexer<'_> {
    /// ` {eps = 1e-5, heads = 8}`, or nothing.
    pub(super) fn attrs(&mut self) -> Result<Attrs> {
        let mut attrs = Attrs::none();
        if !self.take("{") {
            return Ok(attrs);
        }
        while attrs.0.is_empty() || self.take(",") {
            self.blanks();
            let at = self.at;
            let name = self.name("an attribute's name")?;
            if attrs.0.iter().any(|a| a.0 == name) {
                return Err(Error::bad_graph(format!("attribute {name} stands here twice"))
                    .at(self.place(at)));
            }
            self.need("=")?;
            attrs = attrs.with(name, self.attr(LIST_DEPTH)?);
        }
        self.need("}")?;
        Ok(attrs)
    }

    fn attr(&mut self, depth: usize) -> Result<Attr> {
        if self.take("[") {
            let Some(depth) = depth.checked_sub(1) else {
                self.at -= 1;
                return self.unexpected(&format!("at most {LIST_DEPTH} nested lists"));
            };
            let mut list = Vec::new();
            while !self.take("]") {
                if !list.is_empty() {
                    self.need(",")?;
                }
                list.push(self.attr(depth)?);
            }
            return Ok(Attr::List(list));
        }
        self.blanks();
        let (rest, mut open) = (self.rest(), 0usize);
        // A size such as `ceildiv(SEQ,32)` is one word, its commas included.
        let end = rest.find(|c: char| match c {
            '(' => {
                open += 1;
                false
            }
            ')' => {
                open = open.saturating_sub(1);
                false
            }
            ',' => open == 0,
            c => !(is_name_char(c) || c == '*'),
        });
        let word = &rest[..end.unwrap_or(rest.len())];
        let number = word.trim_start_matches('-').starts_with(|c: char| c.is_ascii_digit());
        let attr = match word {
            "" => return self.unexpected("an attribute's value"),
            "true" => Attr::Bool(true),
            "false" => Attr::Bool(false),
            "inf" | "-inf" | "NaN" => Attr::Float(word.parse().unwrap_or(f64::NAN)),
            _ if number && word.bytes().all(|b| b.is_ascii_digit() || b == b'-') => {
                match word.parse() {
                    Ok(n) => Attr::Int(n),
                    Err(_) => return self.unexpected("an integer of 64 bits"),
                }
            }
            _ => match word.parse::<f64>() {
                Ok(x) if number => Attr::Float(x),
                _ => Attr::Name(word.into()),
            },
        };
        self.at += word.len();
        Ok(attr)
    }

    /// `tensor<1x2048xf32>`, `state<8x4096x64xf16>`.
    pub(super) fn ty(&mut self) -> Result<Type> {
        let kind = match () {
            () if self.take("tensor<") => Kind::Tensor,
            () if self.take("state<") => Kind::State,
            () => return self.unexpected("a type: tensor<…> or state<…>"),
        };
        let mut dims = Vec::new();
        loop {
            let rest = self.rest();
            let word = &rest[..rest.find(|c: char| !is_name_char(c)).unwrap_or(rest.len())];
            if let Some(dtype) = DType::from_name(word) {
                self.at += word.len();
                self.need(">")?;
                return Ok(Type { kind, dtype, shape: Shape(dims) });
            }
            // An element type begins with a lower-case letter and has no parenthesis.
            if word.starts_with(|c: char| c.is_ascii_lowercase()) && !word.contains('(') {
                return Err(Error::bad_graph(format!("unknown element type {word}"))
                    .at(self.place(self.at)));
            }
            let (dim, rest) = Dim::read(rest).map_err(|e| e.at(self.place(self.at)))?;
            self.at = self.text.len() - rest.len();
            dims.push(dim);
            if !self.rest().starts_with('x') {
                return self.unexpected("'x'");
            }
            self.at += 1;
        }
    }
}
