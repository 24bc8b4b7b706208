//! MIR from text: exactly what `print.rs` writes, and blank lines and lines that begin with `#`.
//!
//! A graph that parses has been verified. An error says line and column, what was found and what
//! was expected.

use super::mir::{Graph, ParamKind, ValueId};
use super::verify::{is_name_char, verify};
use crate::error::{Error, Result};
use crate::ops::{Attr, Attrs, CustomSet, Op};
use crate::types::{DType, Dim, Kind, Shape, Type};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Bytes of text at most: a decode program of 100 layers has 0.3 MB.
const TEXT_BYTES: usize = 16 << 20;
/// Lists in lists at most.
const LIST_DEPTH: usize = 8;
/// Regions in regions at most.
const REGION_DEPTH: usize = 16;

/// Reads one function.
///
/// # Errors
/// `BadGraph` with line and column: for text that `print` would not write, for operators, types
/// and attributes that are unknown, and for a graph that does not [`verify`].
pub fn parse(text: &str) -> Result<Graph> {
    parse_with(text, &CustomSet::new())
}

/// [`parse`] of text that names a user's operators.
///
/// # Errors
/// As `parse`.
pub fn parse_with(text: &str, custom: &CustomSet) -> Result<Graph> {
    if text.len() > TEXT_BYTES {
        return Err(Error::bad_graph(format!(
            "the text has {} bytes, {TEXT_BYTES} is the most",
            text.len()
        )));
    }
    let (names, g) = (BTreeMap::new(), Graph::default());
    let mut parser = Parser { text, at: 0, names, g, custom, depth: 0 };
    parser.function()?;
    parser.empty_lines();
    if !parser.rest().is_empty() {
        return parser.unexpected("the end of the text");
    }
    verify(&parser.g)?;
    Ok(parser.g)
}

struct Parser<'a> {
    text: &'a str,
    /// Bytes read.
    at: usize,
    names: BTreeMap<&'a str, ValueId>,
    g: Graph,
    custom: &'a CustomSet,
    /// Regions around this function.
    depth: usize,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// `line 3, column 9` of a byte; columns count characters from 1.
    fn place(&self, at: usize) -> String {
        let before = &self.text[..at];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |l| l.chars().count()) + 1;
        format!("line {line}, column {column}")
    }

    fn unexpected<T>(&self, need: &str) -> Result<T> {
        let word: String = self.rest().chars().take_while(|c| is_name_char(*c)).take(40).collect();
        let found = match self.rest().chars().next() {
            None => "the end of the text".into(),
            Some('\n' | '\r') => "the end of the line".into(),
            Some(c) if word.is_empty() => format!("'{c}'"),
            Some(_) => format!("'{word}'"),
        };
        Err(Error::bad_graph(format!("found {found}, expected {need}")).at(self.place(self.at)))
    }

    fn blanks(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start_matches([' ', '\t']).len();
    }

    /// Takes a token if it is next, blanks before it included.
    fn take(&mut self, token: &str) -> bool {
        self.blanks();
        let found = self.rest().starts_with(token);
        self.at += if found { token.len() } else { 0 };
        found
    }

    fn need(&mut self, token: &str) -> Result<()> {
        if self.take(token) { Ok(()) } else { self.unexpected(&format!("'{token}'")) }
    }

    fn name(&mut self, need: &str) -> Result<&'a str> {
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
    fn end_of_line(&mut self) -> Result<&'a str> {
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
    fn empty_lines(&mut self) {
        loop {
            let line = self.rest().split_inclusive('\n').next().unwrap_or("");
            let trimmed = line.trim();
            if line.is_empty() || !(trimmed.is_empty() || trimmed.starts_with('#')) {
                return;
            }
            self.at += line.len();
        }
    }

    fn function(&mut self) -> Result<()> {
        self.empty_lines();
        self.need("func")?;
        self.need("@")?;
        self.g.name = self.name("a function's name")?.into();
        self.need("{")?;
        self.end_of_line()?;
        loop {
            self.empty_lines();
            self.blanks();
            if self.rest().starts_with('%') {
                self.node()?;
                continue;
            }
            match self.name("a parameter, a node or return")? {
                "input" => self.param(ParamKind::Input)?,
                "weight" => self.param(ParamKind::Weight)?,
                "state" => self.param(ParamKind::State)?,
                "return" => break,
                other => {
                    self.at -= other.len();
                    return self.unexpected("input, weight, state, return or a node");
                }
            }
        }
        self.results()?;
        self.empty_lines();
        self.need("}")?;
        self.end_of_line().map(|_| ())
    }

    /// The functions of a node's regions, to the `]` behind them.
    fn regions(&mut self) -> Result<Vec<Graph>> {
        if self.depth == REGION_DEPTH {
            return self.unexpected(&format!("at most {REGION_DEPTH} nested regions"));
        }
        let mut regions = Vec::new();
        loop {
            self.empty_lines();
            if self.take("]") {
                self.end_of_line()?;
                return Ok(regions);
            }
            let mut body = Parser {
                text: self.text,
                at: self.at,
                names: BTreeMap::new(),
                g: Graph::default(),
                custom: self.custom,
                depth: self.depth + 1,
            };
            body.function()?;
            self.at = body.at;
            regions.push(body.g);
        }
    }

    fn define(&mut self, name: &'a str, at: usize, value: ValueId) -> Result<()> {
        match self.names.insert(name, value) {
            None => Ok(()),
            Some(_) => {
                Err(Error::bad_graph(format!("%{name} is defined twice")).at(self.place(at)))
            }
        }
    }

    fn param(&mut self, kind: ParamKind) -> Result<()> {
        self.need("%")?;
        let at = self.at;
        let name = self.name("a parameter's name")?;
        self.need(":")?;
        let ty = self.ty()?;
        let value = self.g.param(kind, name, ty);
        self.define(name, at, value)?;
        self.end_of_line().map(|_| ())
    }

    /// `%0`, as an operand.
    fn operand(&mut self) -> Result<ValueId> {
        self.need("%")?;
        let at = self.at;
        let name = self.name("a value's name")?;
        self.names
            .get(name)
            .copied()
            .ok_or_else(|| Error::bad_graph(format!("%{name} is not defined")).at(self.place(at)))
    }

    /// `%0, %1 = op %a, %b {x = 1} -> type, type // label`.
    fn node(&mut self) -> Result<()> {
        let line = self.at;
        let mut results = Vec::new();
        while results.is_empty() || self.take(",") {
            self.need("%")?;
            results.push((self.name("a value's name")?, self.at));
        }
        self.need("=")?;
        self.blanks();
        let op_at = self.at;
        let name = self.name("an operator")?;
        let mut operands = Vec::new();
        self.blanks();
        if self.rest().starts_with('%') {
            while operands.is_empty() || self.take(",") {
                operands.push(self.operand()?);
            }
        }
        let attrs = self.attrs()?;
        self.need("->")?;
        let mut types = Vec::new();
        while types.is_empty() || self.take(",") {
            self.blanks();
            types.push((self.at, self.ty()?));
        }
        let has_regions = self.take("[");
        let label = self.end_of_line()?;
        let regions = if has_regions { self.regions()? } else { Vec::new() };
        let op = match self.custom.get(name) {
            Some(make) => make(&attrs).map(Op::from),
            None => Op::from_text(name, &attrs),
        };
        let op = op.map_err(|e| e.at(self.place(op_at)))?;
        let values = self.g.push_regions(op, &operands, regions, label);
        let values = values.map_err(|e| e.at(self.place(op_at)))?;
        if values.len() != results.len() || values.len() != types.len() {
            let what = format!(
                "{name} gives {} results; {} names and {} types stand here",
                values.len(),
                results.len(),
                types.len()
            );
            return Err(Error::bad_graph(what).at(self.place(line)));
        }
        for ((value, (at, ty)), (name, name_at)) in values.into_iter().zip(types).zip(results) {
            if *self.g.ty(value) != ty {
                let what = format!("found {ty}, expected {} of the type rule", self.g.ty(value));
                return Err(Error::bad_graph(what).at(self.place(at)));
            }
            self.define(name, name_at - name.len(), value)?;
        }
        Ok(())
    }

    /// ` {eps = 1e-5, heads = 8}`, or nothing.
    fn attrs(&mut self) -> Result<Attrs> {
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
    fn ty(&mut self) -> Result<Type> {
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

    /// ` token = %1, logits = %2`, or nothing.
    fn results(&mut self) -> Result<()> {
        self.blanks();
        if self.rest().starts_with(is_name_char) {
            let mut first = true;
            while core::mem::take(&mut first) || self.take(",") {
                let name = self.name("an output's name")?;
                self.need("=")?;
                let value = self.operand()?;
                self.g.output(name, value);
            }
        }
        self.end_of_line().map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    const TEXT: &str = "\
func @f {
  weight %blk.0.attn_q.weight : tensor<8x6xf32>
  weight %scale : tensor<6xf32>
  state %ctl : state<16xu32>
  input %x : tensor<SEQx6xf32>
  %0 = rms_norm %x, %scale {eps = 1e-5} -> tensor<SEQx6xf32> // blk.0.attn_norm
  %1 = matmul %0, %blk.0.attn_q.weight -> tensor<SEQx8xf32> // blk.0.attn_q
  %2 = take_rows %1, %ctl {rows = ceildiv(SEQ,32)} -> tensor<ceildiv(SEQ,32)x8xf32>
  %3 = rope_table {base = 10000.0, dims = 4, context = 9, llama3 = [8.0, 1.0, 4.0, 8192.0]} -> tensor<7x2x2xf32>
  return y = %2, t = %3
}
";

    #[test]
    fn what_print_writes_reads_back() {
        let g = parse(TEXT).unwrap();
        assert_eq!(g.to_string(), TEXT);
        assert_eq!(g.nodes[0].label, "blk.0.attn_norm");
        assert_eq!(parse(&g.to_string()).unwrap(), g);
    }

    #[test]
    fn blank_lines_comments_and_carriage_returns_are_skipped() {
        let text = TEXT.replace("\n  weight %scale", "\n\n# a comment\n  weight %scale");
        assert_eq!(parse(&text).unwrap(), parse(TEXT).unwrap());
        assert_eq!(parse(&TEXT.replace('\n', "\r\n")).unwrap(), parse(TEXT).unwrap());
    }

    #[test]
    fn an_error_says_where_what_and_what_was_expected() {
        let say = |from: &str, to: &str| {
            assert!(TEXT.contains(from), "{from}");
            parse(&TEXT.replacen(from, to, 1)).unwrap_err().to_string()
        };
        for (from, to, error) in [
            ("func @f", "fn @f", "found 'fn', expected 'func' (line 1, column 1)"),
            (
                "state %ctl",
                "stat %ctl",
                "found 'stat', expected input, weight, state, return or a node (line 4, column 3)",
            ),
            ("= rms_norm", "= norm", "unknown operator norm (line 6, column 8)"),
            ("8x6xf32", "8x6xf99", "unknown element type f99 (line 2, column 44)"),
            ("8x6xf32", "8xmed(1,2)xf32", "unknown function med (line 2, column 42)"),
            ("%0, %blk", "%9, %blk", "%9 is not defined (line 7, column 16)"),
            ("%1 = matmul", "%0 = matmul", "%0 is defined twice (line 7, column 4)"),
            ("eps =", "epsilon =", "unknown attribute epsilon (line 6, column 8)"),
            ("{eps = 1e-5}", "", "attribute eps is missing (line 6, column 8)"),
            ("1e-5}", "1e-5, eps = 1e-5}", "attribute eps stands here twice (line 6, column 41)"),
            ("1e-5", "tiny", "attribute eps is tiny, expected a number (line 6, column 8)"),
            (
                "-> tensor<SEQx8xf32>",
                "-> tensor<SEQx9xf32>",
                "found tensor<SEQx9xf32>, expected tensor<SEQx8xf32> of the type rule (line 7, column 43)",
            ),
            (
                "-> tensor<SEQx8xf32>",
                "-> tensor<SEQx8xf32>, tensor<1xf32>",
                "matmul gives 1 results; 1 names and 2 types stand here (line 7, column 3)",
            ),
            ("{base = 10000.0,", "{base = [[[[[[[[[1]]]]]]]]],", "found '[', expected at most"),
            ("%ctl {rows", "%ctl, {rows", "found '{', expected '%' (line 8, column 28)"),
            ("}\n", "", "found the end of the text, expected '}' (line 11, column 1)"),
            ("return y", "return y =", "found '=', expected '%' (line 10, column 14)"),
        ] {
            let found = say(from, to);
            // What a hint adds behind is the operator's.
            assert!(found.starts_with(error), "{from} -> {to}\n{found}\n{error}");
        }
    }

    #[test]
    fn a_graph_that_breaks_an_invariant_does_not_parse() {
        let text = "func @f {
  state %k : state<2x9x4xf32>
  state %ctl : state<16xu32>
  input %x : tensor<1x8xf32>
  %0 = kv_write %k, %x, %ctl -> state<2x9x4xf32> // first
  %1 = kv_write %k, %x, %ctl -> state<2x9x4xf32> // second
  return
}";
        assert_eq!(
            parse(text).unwrap_err().to_string(),
            "operand 0 is a state that node 0 first has overwritten (@f, node 1 kv_write second)"
        );
    }

    #[test]
    fn no_cut_or_changed_byte_panics() {
        for at in 0..TEXT.len() {
            let _ = parse(&TEXT[..at]);
            for byte in
                ["", "%", "{", "(", "<", "x", "9999999999999999999999", "\u{00e9}", "\n", "-"]
            {
                let _ = parse(&(TEXT[..at].to_string() + byte + &TEXT[at + 1..]));
            }
        }
    }
}
