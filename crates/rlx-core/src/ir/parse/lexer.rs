//! Words of text IR: what all three stages share.

use crate::error::{Error, Result};
use crate::ir::verify::is_name_char;
use alloc::format;
use alloc::string::String;

/// A text and how far it is read.
#[derive(Clone, Copy)]
pub(super) struct Lexer<'a> {
    pub(super) text: &'a str,
    /// Bytes read.
    pub(super) at: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// `line 3, column 9` of a byte; columns count characters from 1.
    pub(super) fn place(&self, at: usize) -> String {
        let before = &self.text[..at];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |l| l.chars().count()) + 1;
        format!("line {line}, column {column}")
    }

    pub(super) fn unexpected<T>(&self, need: &str) -> Result<T> {
        let word: String = self.rest().chars().take_while(|c| is_name_char(*c)).take(40).collect();
        let found = match self.rest().chars().next() {
            None => "the end of the text".into(),
            Some('\n' | '\r') => "the end of the line".into(),
            Some(c) if word.is_empty() => format!("'{c}'"),
            Some(_) => format!("'{word}'"),
        };
        Err(Error::bad_graph(format!("found {found}, expected {need}")).at(self.place(self.at)))
    }

    pub(super) fn blanks(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start_matches([' ', '\t']).len();
    }

    /// Takes a token if it is next, blanks before it included.
    pub(super) fn take(&mut self, token: &str) -> bool {
        self.blanks();
        let found = self.rest().starts_with(token);
        self.at += if found { token.len() } else { 0 };
        found
    }

    pub(super) fn need(&mut self, token: &str) -> Result<()> {
        if self.take(token) { Ok(()) } else { self.unexpected(&format!("'{token}'")) }
    }

    pub(super) fn name(&mut self, need: &str) -> Result<&'a str> {
        self.blanks();
        let rest = self.rest();
        let end = rest.find(|c| !is_name_char(c)).unwrap_or(rest.len());
        if end == 0 {
            return self.unexpected(need);
        }
        self.at += end;
        Ok(&rest[..end])
    }

    /// The end of a line, with the label that may stand before it.
    pub(super) fn end_of_line(&mut self) -> Result<&'a str> {
        self.blanks();
        let mut label = "";
        if self.take("//") {
            let rest = self.rest();
            let end = rest.find('\n').unwrap_or(rest.len());
            label = rest[..end].trim_end_matches('\r');
            label = label.strip_prefix(' ').unwrap_or(label);
            self.at += end;
        }
        self.take("\r");
        if !self.rest().is_empty() {
            self.need("\n").or_else(|_| self.unexpected("the end of the line"))?;
        }
        Ok(label)
    }

    /// Skips blank lines and lines that begin with `#`.
    pub(super) fn empty_lines(&mut self) {
        loop {
            let line = self.rest().split_inclusive('\n').next().unwrap_or("");
            let trimmed = line.trim();
            if line.is_empty() || !(trimmed.is_empty() || trimmed.starts_with('#')) {
                return;
            }
            self.at += line.len();
        }
    }

    /// An error at the byte `at`.
    pub(super) fn error<T>(&self, what: String, at: usize) -> Result<T> {
        Err(Error::bad_graph(what).at(self.place(at)))
    }

    /// A number in decimal digits.
    pub(super) fn number(&mut self, need: &str) -> Result<u64> {
        self.blanks();
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        match rest[..end].parse() {
            Ok(n) => {
                self.at += end;
                Ok(n)
            }
            Err(_) => self.unexpected(need),
        }
    }
}
