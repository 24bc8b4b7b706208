//! MIR from text: what `print.rs` writes.

use super::lexer::Lexer;
use crate::error::{Error, Result};
use crate::ir::mir::{Graph, ParamKind, ValueId};
use crate::ir::verify::is_name_char;
use crate::ops::{Attrs, CustomSet, Op};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;

/// Regions in regions at most.
const REGION_DEPTH: usize = 16;

/// A function's names and what they stand for.
struct Parser<'a, 't> {
    lex: &'a mut Lexer<'t>,
    names: BTreeMap<&'t str, ValueId>,
    g: Graph,
    custom: &'a CustomSet,
    /// Regions around this function.
    depth: usize,
}

/// Reads one function, `depth` regions deep.
pub(super) fn function(lex: &mut Lexer<'_>, custom: &CustomSet, depth: usize) -> Result<Graph> {
    let mut parser = Parser { lex, names: BTreeMap::new(), g: Graph::default(), custom, depth };
    parser.function()?;
    Ok(parser.g)
}

/// Reads the functions of a node's regions, to the `]` behind them; `depth` of them stand around
/// the node.
pub(super) fn regions(lex: &mut Lexer<'_>, custom: &CustomSet, depth: usize) -> Result<Vec<Graph>> {
    if depth == REGION_DEPTH {
        return lex.unexpected(&format!("at most {REGION_DEPTH} nested regions"));
    }
    let mut regions = Vec::new();
    loop {
        lex.empty_lines();
        if lex.take("]") {
            lex.end_of_line()?;
            return Ok(regions);
        }
        regions.push(function(lex, custom, depth + 1)?);
    }
}

/// The operator of that name, a user's or ours.
pub(super) fn operator(
    lex: &Lexer<'_>,
    custom: &CustomSet,
    (name, at): (&str, usize),
    attrs: &Attrs,
) -> Result<Op> {
    let op = match custom.get(name) {
        Some(make) => make(attrs).map(Op::from),
        None => Op::from_text(name, attrs),
    };
    op.map_err(|e| e.at(lex.place(at)))
}

/// The error of a name that stands for nothing yet: a graph has no cycles, so what is defined
/// further down is told apart.
pub(super) fn undefined<T>(lex: &Lexer<'_>, name: &str, at: usize) -> Result<T> {
    let names = |line: &str| {
        let results = line.split_once(" = ").map_or("", |(results, _)| results);
        results.split(',').any(|r| r.trim().strip_prefix('%') == Some(name))
    };
    let later = lex.text[at..].lines().skip(1).take_while(|l| l.trim() != "}").any(names);
    let this = lex.text[..at].lines().next_back().is_some_and(names);
    match later || this {
        true => Err(Error::bad_graph(format!("%{name} is used before it is defined"))
            .at(lex.place(at))
            .hint("a graph has no cycles: every operand stands above")),
        false => lex.error(format!("%{name} is not defined"), at),
    }
}

impl<'t> Parser<'_, 't> {
    fn function(&mut self) -> Result<()> {
        self.lex.empty_lines();
        self.lex.need("func")?;
        self.lex.need("@")?;
        self.g.name = self.lex.name("a function's name")?.into();
        self.lex.need("{")?;
        self.lex.end_of_line()?;
        loop {
            self.lex.empty_lines();
            self.lex.blanks();
            if self.lex.rest().starts_with('%') {
                self.node()?;
                continue;
            }
            match self.lex.name("a parameter, a node or return")? {
                "input" => self.param(ParamKind::Input)?,
                "weight" => self.param(ParamKind::Weight)?,
                "state" => self.param(ParamKind::State)?,
                "return" => break,
                other => {
                    self.lex.at -= other.len();
                    return self.lex.unexpected("input, weight, state, return or a node");
                }
            }
        }
        self.results()?;
        self.lex.empty_lines();
        self.lex.need("}")?;
        self.lex.end_of_line().map(|_| ())
    }

    fn define(&mut self, name: &'t str, at: usize, value: ValueId) -> Result<()> {
        match self.names.insert(name, value) {
            None => Ok(()),
            Some(_) => self.lex.error(format!("%{name} is defined twice"), at),
        }
    }

    fn param(&mut self, kind: ParamKind) -> Result<()> {
        self.lex.need("%")?;
        let at = self.lex.at;
        let name = self.lex.name("a parameter's name")?;
        self.lex.need(":")?;
        let ty = self.lex.ty()?;
        let value = self.g.param(kind, name, ty);
        self.define(name, at, value)?;
        self.lex.end_of_line().map(|_| ())
    }

    /// `%0`, as an operand.
    fn operand(&mut self) -> Result<ValueId> {
        self.lex.need("%")?;
        let at = self.lex.at;
        let name = self.lex.name("a value's name")?;
        match self.names.get(name) {
            Some(&value) => Ok(value),
            None => undefined(self.lex, name, at),
        }
    }

    /// `%0, %1 = op %a, %b {x = 1} -> type, type // label`.
    fn node(&mut self) -> Result<()> {
        let line = self.lex.at;
        let mut results = Vec::new();
        while results.is_empty() || self.lex.take(",") {
            self.lex.need("%")?;
            results.push((self.lex.name("a value's name")?, self.lex.at));
        }
        self.lex.need("=")?;
        self.lex.blanks();
        let op_at = self.lex.at;
        let name = self.lex.name("an operator")?;
        let mut operands = Vec::new();
        self.lex.blanks();
        if self.lex.rest().starts_with('%') {
            while operands.is_empty() || self.lex.take(",") {
                operands.push(self.operand()?);
            }
        }
        let attrs = self.lex.attrs()?;
        self.lex.need("->")?;
        let mut types = Vec::new();
        while types.is_empty() || self.lex.take(",") {
            self.lex.blanks();
            types.push((self.lex.at, self.lex.ty()?));
        }
        let has_regions = self.lex.take("[");
        let label = self.lex.end_of_line()?;
        let regions = match has_regions {
            true => regions(self.lex, self.custom, self.depth)?,
            false => Vec::new(),
        };
        let op = operator(self.lex, self.custom, (name, op_at), &attrs)?;
        let values = self.g.push_regions(op, &operands, regions, label);
        let values = values.map_err(|e| e.at(self.lex.place(op_at)))?;
        if values.len() != results.len() || values.len() != types.len() {
            let what = format!(
                "{name} gives {} results; {} names and {} types stand here",
                values.len(),
                results.len(),
                types.len()
            );
            return self.lex.error(what, line);
        }
        for ((value, (at, ty)), (name, name_at)) in values.into_iter().zip(types).zip(results) {
            if *self.g.ty(value) != ty {
                let what = format!("found {ty}, expected {} of the type rule", self.g.ty(value));
                return self.lex.error(what, at);
            }
            self.define(name, name_at - name.len(), value)?;
        }
        Ok(())
    }

    /// ` token = %1, logits = %2`, or nothing.
    fn results(&mut self) -> Result<()> {
        self.lex.blanks();
        if self.lex.rest().starts_with(is_name_char) {
            let mut first = true;
            while core::mem::take(&mut first) || self.lex.take(",") {
                let name = self.lex.name("an output's name")?;
                self.lex.need("=")?;
                let value = self.operand()?;
                self.g.output(name, value);
            }
        }
        self.lex.end_of_line().map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::parse::parse;
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
