//! The text of a [`Dim`] and its reading: `4096`, `SEQ`, `2*SEQ+1`, `SEQ-2`, `ceildiv(SEQ,32)`.
//!
//! Symbols are upper case, so that `SEQx64xf32` has one reading.

use super::dim::Atom;
use super::{Dim, DimOp};
use crate::error::{Error, Result};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

/// Functions in functions at most: text comes from anywhere, the stack is small.
const DEPTH: usize = 16;

impl Dim {
    /// The dim that `text` says.
    ///
    /// # Errors
    /// `BadGraph` for anything that is not the text of a dim, or overflows 64 bits.
    pub fn parse(text: &str) -> Result<Dim> {
        match Self::read(text)? {
            (dim, "") => Ok(dim),
            (_, rest) => Err(unexpected(rest, "the end of the size")),
        }
    }

    /// The dim that `text` begins with, and what follows it.
    pub(crate) fn read(text: &str) -> Result<(Dim, &str)> {
        sum(text, DEPTH)
    }
}

impl fmt::Display for Dim {
    /// What is added comes before what is taken, and numbers come last: `SEQ*T-SEQ+1`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.terms.is_empty() {
            return f.write_str("0");
        }
        // Symbols that are added, symbols that are taken, the number.
        let place = |t: &(Vec<Atom>, i128)| if t.0.is_empty() { 2 } else { u8::from(t.1 < 0) };
        let all = || self.terms.iter();
        let order = if all().any(|t| place(t) == 0) { [0, 1, 2] } else { [2, 1, 0] };
        let terms = order.into_iter().flat_map(|at| all().filter(move |t| place(t) == at));
        for (i, (atoms, n)) in terms.enumerate() {
            f.write_str(if *n < 0 {
                "-"
            } else if i > 0 {
                "+"
            } else {
                ""
            })?;
            let n = n.unsigned_abs();
            if n != 1 || atoms.is_empty() {
                write!(f, "{n}")?;
                f.write_str(if atoms.is_empty() { "" } else { "*" })?;
            }
            for (j, atom) in atoms.iter().enumerate() {
                if j > 0 {
                    f.write_str("*")?;
                }
                match atom {
                    Atom::Symbol(s) => f.write_str(&s.0)?,
                    Atom::Op(op, a, b) => write!(f, "{}({a},{b})", op.name())?,
                }
            }
        }
        Ok(())
    }
}

fn unexpected(rest: &str, need: &str) -> Error {
    match rest.chars().next() {
        Some(c) => Error::bad_graph(format!("found '{c}', expected {need}")),
        None => Error::bad_graph(format!("found the end of the text, expected {need}")),
    }
}

fn sum(text: &str, depth: usize) -> Result<(Dim, &str)> {
    let (first, mut rest) = product(text, depth)?;
    let mut terms = vec![(false, first)];
    while let Some(sign) = rest.chars().next().filter(|c| matches!(c, '+' | '-')) {
        // The arrow behind attributes is none of the size.
        if rest.starts_with("->") {
            break;
        }
        let (term, after) = product(&rest[1..], depth)?;
        terms.push((sign == '-', term));
        rest = after;
    }
    Ok((Dim::signed_sum(&terms)?, rest))
}

fn product(text: &str, depth: usize) -> Result<(Dim, &str)> {
    let (mut total, mut rest) = factor(text, depth)?;
    while let Some(after) = rest.strip_prefix('*') {
        let (next, after) = factor(after, depth)?;
        total = total.mul(&next)?;
        rest = after;
    }
    Ok((total, rest))
}

fn factor(text: &str, depth: usize) -> Result<(Dim, &str)> {
    let symbol = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let split = |end: fn(char) -> bool| text.split_at(text.find(end).unwrap_or(text.len()));
    match text.chars().next() {
        Some('0'..='9') => {
            let (digits, rest) = split(|c| !c.is_ascii_digit());
            let n: u64 = digits
                .parse()
                .map_err(|_| Error::bad_graph(format!("{digits} does not fit 64 bits")))?;
            Ok((Dim::from(n), rest))
        }
        Some('A'..='Z' | '_') => {
            let (name, rest) = text.split_at(text.find(|c| !symbol(c)).unwrap_or(text.len()));
            Ok((Dim::symbol(name), rest))
        }
        Some('a'..='z') => {
            let (name, rest) = split(|c| !c.is_ascii_lowercase());
            let op = DimOp::from_name(name).ok_or_else(|| {
                Error::bad_graph(format!("unknown function {name}"))
                    .hint("known: floordiv, ceildiv, mod, min, max")
            })?;
            let depth = depth
                .checked_sub(1)
                .ok_or_else(|| Error::bad_graph(format!("more than {DEPTH} nested functions")))?;
            let rest = rest.strip_prefix('(').ok_or_else(|| unexpected(rest, "'('"))?;
            let (a, rest) = sum(rest, depth)?;
            let rest = rest.strip_prefix(',').ok_or_else(|| unexpected(rest, "','"))?;
            let (b, rest) = sum(rest, depth)?;
            let rest = rest.strip_prefix(')').ok_or_else(|| unexpected(rest, "')'"))?;
            Ok((a.apply(op, &b)?, rest))
        }
        _ => Err(unexpected(text, "a size: a number, an upper-case symbol or a function")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn every_printed_form_reads_back() {
        for text in [
            "0",
            "4096",
            "SEQ",
            "2*SEQ+1",
            "ceildiv(SEQ,32)",
            "BATCH*SEQ+3*max(PAST_SEQ+1,mod(SEQ,7))+12",
            "SEQ-2",
            "SEQ*T-2*SEQ-T+2",
            "7-SEQ",
            "floordiv(SEQ-1,2)",
        ] {
            assert_eq!(Dim::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn other_text_is_an_error_that_says_what_was_expected() {
        let say = |text: &str| Dim::parse(text).unwrap_err().to_string();
        assert_eq!(say("2*"), {
            "found the end of the text, expected a size: a number, an upper-case symbol or a function"
        });
        assert_eq!(say("SEQ-SEQ-1"), "a size of -1 is below 0");
        assert_eq!(say("2-4*SEQ-2"), "a size of -4*SEQ is below 0");
        assert_eq!(say("SEQ-"), {
            "found the end of the text, expected a size: a number, an upper-case symbol or a function"
        });
        assert_eq!(say("-SEQ"), {
            "found '-', expected a size: a number, an upper-case symbol or a function"
        });
        assert_eq!(say("SEQ seq"), "found ' ', expected the end of the size");
        assert_eq!(say("ceildiv(SEQ)"), "found ')', expected ','");
        assert_eq!(say("99999999999999999999"), "99999999999999999999 does not fit 64 bits");
        assert_eq!(say("mod(4,0)"), "a size of 4 is divided by 0");
        assert_eq!(
            say("half(SEQ)"),
            "unknown function half; known: floordiv, ceildiv, mod, min, max"
        );
        assert_eq!(say(&"min(".repeat(99)), "more than 16 nested functions");
    }
}
