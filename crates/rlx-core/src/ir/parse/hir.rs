//! HIR from text: what `hir/print.rs` writes.

use super::lexer::Lexer;
use super::mir::{operator, regions, undefined};
use crate::error::Result;
use crate::ir::hir::{Block, FusionPolicy, Module, Tensor};
use crate::ir::mir::ParamKind;
use crate::ir::verify::is_name_char;
use crate::ops::CustomSet;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;

/// A module's names and what they stand for.
struct Parser<'a, 't> {
    lex: &'a mut Lexer<'t>,
    names: BTreeMap<&'t str, Tensor>,
    m: Module,
    custom: &'a CustomSet,
}

/// Reads one module.
pub(super) fn module(lex: &mut Lexer<'_>, custom: &CustomSet) -> Result<Module> {
    let mut parser = Parser { lex, names: BTreeMap::new(), m: Module::default(), custom };
    parser.module()?;
    Ok(parser.m)
}

impl<'t> Parser<'_, 't> {
    fn module(&mut self) -> Result<()> {
        self.lex.empty_lines();
        self.lex.need("module")?;
        self.lex.need("@")?;
        self.m.name = self.lex.name("a module's name")?.into();
        self.header()?;
        self.lex.need("{")?;
        self.lex.end_of_line()?;
        loop {
            self.lex.empty_lines();
            self.lex.blanks();
            if self.lex.rest().starts_with('%') {
                self.node()?;
                continue;
            }
            match self.lex.name("a parameter, a block, tap or return")? {
                "input" => self.param(ParamKind::Input)?,
                "weight" => self.param(ParamKind::Weight)?,
                "state" => self.param(ParamKind::State)?,
                "tap" => {
                    let (name, x) = self.named()?;
                    self.m.tap(name, x);
                    self.lex.end_of_line()?;
                }
                "return" => break,
                other => {
                    self.lex.at -= other.len();
                    return self.lex.unexpected("input, weight, state, tap, return or a block");
                }
            }
        }
        self.lex.blanks();
        if self.lex.rest().starts_with(is_name_char) {
            let mut first = true;
            while core::mem::take(&mut first) || self.lex.take(",") {
                let (name, x) = self.named()?;
                self.m.output(name, x);
            }
        }
        self.lex.end_of_line()?;
        self.lex.empty_lines();
        self.lex.need("}")?;
        self.lex.end_of_line().map(|_| ())
    }

    /// ` {policy = direct, context = 512, vocab = 600}`.
    fn header(&mut self) -> Result<()> {
        self.lex.blanks();
        let at = self.lex.at;
        let attrs = self.lex.attrs()?;
        let mut read = || -> Result<()> {
            attrs.only(&["policy", "context", "vocab"])?;
            let policy = attrs.get_name("policy")?;
            self.m.fusion_policy = FusionPolicy::from_name(policy).ok_or_else(|| {
                crate::Error::bad_graph(format!("unknown policy {policy}"))
                    .hint("known: direct, fusable")
            })?;
            self.m.context = attrs.opt_int("context")?.unwrap_or(0);
            self.m.vocab = attrs.opt_int("vocab")?.unwrap_or(0);
            Ok(())
        };
        read().map_err(|e| e.at(self.lex.place(at)))
    }

    fn define(&mut self, name: &'t str, at: usize, x: Tensor) -> Result<()> {
        match self.names.insert(name, x) {
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
        let x = self.m.param(kind, name, ty);
        self.define(name, at, x)?;
        self.lex.end_of_line().map(|_| ())
    }

    /// `%0`, as an input.
    fn input(&mut self) -> Result<Tensor> {
        self.lex.need("%")?;
        let at = self.lex.at;
        let name = self.lex.name("a tensor's name")?;
        match self.names.get(name) {
            Some(&x) => Ok(x),
            None => undefined(self.lex, name, at),
        }
    }

    /// `logits = %2`.
    fn named(&mut self) -> Result<(&'t str, Tensor)> {
        let name = self.lex.name("a result's name")?;
        self.lex.need("=")?;
        Ok((name, self.input()?))
    }

    /// `%0, %1 = block %a, %b {x = 1} // label`.
    fn node(&mut self) -> Result<()> {
        let line = self.lex.at;
        let mut results = Vec::new();
        while results.is_empty() || self.lex.take(",") {
            self.lex.need("%")?;
            let at = self.lex.at;
            results.push((self.lex.name("a tensor's name")?, at));
        }
        self.lex.need("=")?;
        self.lex.blanks();
        let at = self.lex.at;
        let name = self.lex.name("a block")?;
        let mut inputs = Vec::new();
        self.lex.blanks();
        if self.lex.rest().starts_with('%') {
            while inputs.is_empty() || self.lex.take(",") {
                inputs.push(self.input()?);
            }
        }
        let attrs = self.lex.attrs()?;
        let has_regions = self.lex.take("[");
        let label = self.lex.end_of_line()?;
        let bodies = match has_regions {
            true => regions(self.lex, self.custom, 0)?,
            false => Vec::new(),
        };
        let block = match name.strip_prefix("mir.") {
            Some(op) => {
                let op = operator(self.lex, self.custom, (op, at + "mir.".len()), &attrs)?;
                Block::Op(op, bodies)
            }
            None if has_regions => {
                return self
                    .lex
                    .error(format!("{name} is a block, and blocks have no regions"), at);
            }
            None => Block::from_text(name, &attrs).map_err(|e| e.at(self.lex.place(at)))?,
        };
        if !matches!(block, Block::Op(..)) && block.results() != results.len() {
            let what = format!(
                "{name} gives {} results; {} names stand here",
                block.results(),
                results.len()
            );
            return self.lex.error(what, line);
        }
        let tensors = self.m.push_n(block, &inputs, results.len(), label);
        for ((name, at), x) in results.into_iter().zip(tensors) {
            self.define(name, at, x)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::GraphModule;
    use crate::ir::parse::parse_hir;
    use alloc::string::ToString;

    const TEXT: &str = "\
module @f {policy = fusable, context = 9, vocab = 7} {
  input %x : tensor<SEQx6xf32>
  weight %w : tensor<8x6xf32>
  weight %v : tensor<8x6xf32>
  weight %embd : tensor<7x6xf32>
  %0 = linear %x, %w {act = silu} // fc
  %1, %2 = shared_linear_pair %x, %w, %v // pair
  %3 = mir.map %1 {f = neg}
  %4 = ids // ids
  %5 = embedding %4, %embd // token_embd
  %6 = rope %5 {style = half, head_dim = 6, base = 500.0, dims = 4, context = 9, linear = 2.0} // rope
  tap early = %0
  return y = %3, z = %2, r = %6
}
";

    #[test]
    fn what_print_writes_reads_back() {
        let m = parse_hir(TEXT).unwrap();
        assert_eq!(m.to_string(), TEXT);
        assert_eq!(parse_hir(&m.to_string()).unwrap(), m);
        assert_eq!(GraphModule::parse(TEXT).unwrap().into_hir().unwrap(), m);
    }

    #[test]
    fn an_error_says_where_what_and_what_was_expected() {
        for (from, to, error) in [
            ("module @f", "func @f", "found 'func', expected 'module' (line 1, column 1)"),
            ("fusable", "fused", "unknown policy fused (line 1, column 11)"),
            (
                "context = 9, vocab",
                "content = 9, vocab",
                "unknown attribute content (line 1, column 11)",
            ),
            ("= linear %x", "= liner %x", "unknown block liner (line 6, column 8)"),
            ("= mir.map", "= mir.mop", "unknown operator mop (line 8, column 12)"),
            ("act = silu", "act = silly", "unknown function silly (line 6, column 8)"),
            (
                "%1, %2 =",
                "%1 =",
                "shared_linear_pair gives 2 results; 1 names stand here (line 7, column 3)",
            ),
            ("linear %x", "linear %3", "%3 is used before it is defined (line 6, column 16)"),
            ("linear %x", "linear %0", "%0 is used before it is defined (line 6, column 16)"),
            ("linear %x", "linear %9", "%9 is not defined (line 6, column 16)"),
            ("%2 = shared", "%0 = shared", "%0 is defined twice (line 7, column 8)"),
            ("// fc", "[ // fc", "found '%', expected 'func' (line 7, column 3)"),
            (
                "tap early",
                "top early",
                "found 'top', expected input, weight, state, tap, return or a block",
            ),
        ] {
            assert!(TEXT.contains(from), "{from}");
            let found = parse_hir(&TEXT.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(found.starts_with(error), "{from} -> {to}\n{found}\n{error}");
        }
    }

    #[test]
    fn no_cut_or_changed_byte_panics() {
        for at in 0..TEXT.len() {
            let _ = parse_hir(&TEXT[..at]);
            for other in ["", "%", "{", "[", "<", "9999999999999999999999", "\u{00e9}", "\n", "-"] {
                let _ = parse_hir(&(TEXT[..at].to_string() + other + &TEXT[at + 1..]));
            }
        }
    }
}
