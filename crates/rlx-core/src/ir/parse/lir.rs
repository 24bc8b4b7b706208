//! LIR from text: what `print_lir.rs` writes.

use super::lexer::Lexer;
use super::mir::{function, operator, regions};
use crate::error::{Error, Result};
use crate::ir::lir::{
    ALIGNMENT, ControlDecl, InputDecl, OutputDecl, Part, Phase, Program, Slice, Space, StateDecl,
    Step, Template, WeightUse,
};
use crate::ir::mir::Graph;
use crate::ir::recipe::Recipe;
use crate::ir::verify::{is_name_char, verify};
use crate::ops::{CustomSet, Signature};
use crate::types::{Binding, Type};
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

/// Recipes in each other at most: text comes from anywhere, the stack is small.
const DEPTH: usize = 17;

/// Reads one program.
pub(super) fn program(lex: &mut Lexer<'_>, custom: &CustomSet) -> Result<Program> {
    let mut parser = Parser {
        lex,
        custom,
        p: Program {
            name: Default::default(),
            graph: Graph::default(),
            steps: Vec::new(),
            weights: Vec::new(),
            states: Vec::new(),
            control: None,
            inputs: Vec::new(),
            outputs: Vec::new(),
            arena_bytes: 0,
            arena_segments: Vec::new(),
            alignment: ALIGNMENT,
            largest_live_bytes: 0,
            unshared_bytes: 0,
            template: None,
            fingerprint: 0,
        },
    };
    parser.program()?;
    Ok(parser.p)
}

struct Parser<'a, 't> {
    lex: &'a mut Lexer<'t>,
    custom: &'a CustomSet,
    p: Program,
}

impl<'t> Parser<'_, 't> {
    fn program(&mut self) -> Result<()> {
        self.lex.empty_lines();
        self.lex.need("program")?;
        self.lex.need("@")?;
        self.p.name = self.lex.name("a program's name")?.into();
        self.p.graph.name = self.p.name.clone();
        self.lex.need("{")?;
        self.lex.end_of_line()?;
        loop {
            self.lex.empty_lines();
            self.lex.blanks();
            if self.lex.rest().starts_with(|c: char| c.is_ascii_digit()) {
                self.step()?;
                continue;
            }
            let at = self.lex.at;
            match self.lex.name("a declaration, a step or return")? {
                "input" => {
                    let (name, ty, bytes) = self.declaration(self.p.inputs.len())?;
                    self.p.inputs.push(InputDecl { name: name.into(), ty, bytes });
                }
                "state" => {
                    let (name, ty, bytes) = self.declaration(self.p.states.len())?;
                    self.p.states.push(StateDecl { name: name.into(), ty, bytes });
                }
                "control" => self.control()?,
                "weight" => self.weight()?,
                "arena" => {
                    self.p.arena_bytes = self.lex.number("bytes of the arena")?;
                    self.lex.need("bytes")?;
                    self.lex.need(",")?;
                    self.p.largest_live_bytes = self.lex.number("live bytes")?;
                    self.lex.need("live")?;
                    self.lex.need(",")?;
                    self.p.unshared_bytes = self.lex.number("unshared bytes")?;
                    self.lex.need("unshared")?;
                    if self.p.arena_bytes > 0 {
                        self.p.arena_segments = Vec::from([self.p.arena_bytes]);
                    }
                }
                "alignment" => self.p.alignment = self.lex.number("an alignment")?,
                "segments" => {
                    let mut segments = Vec::new();
                    while segments.is_empty() || self.lex.take(",") {
                        segments.push(self.lex.number("bytes of a segment")?);
                    }
                    let total = segments.iter().try_fold(0u64, |n, s| n.checked_add(*s));
                    if total != Some(self.p.arena_bytes) {
                        let what = "the segments are not as large as the arena";
                        return self.lex.error(what.into(), at);
                    }
                    self.p.arena_segments = segments;
                }
                "fingerprint" => {
                    let at = self.lex.at;
                    let word = self.lex.name("16 hexadecimal digits")?;
                    self.p.fingerprint = match u64::from_str_radix(word, 16) {
                        Ok(n) if word.len() == 16 => n,
                        _ => return self.lex.error(format!("{word} is no fingerprint"), at + 1),
                    };
                }
                "return" => break,
                _ => {
                    self.lex.at = at;
                    return self.lex.unexpected(
                        "a declaration, a step or return (input, state, control, \
                                     weight, arena, alignment, segments, fingerprint)",
                    );
                }
            }
            self.lex.end_of_line()?;
        }
        self.outputs()?;
        self.lex.empty_lines();
        self.lex.blanks();
        if self.lex.rest().starts_with("func") {
            self.p.graph = function(self.lex, self.custom, 0)?;
            verify(&self.p.graph)?;
            self.template()?;
        }
        self.lex.empty_lines();
        self.lex.need("}")?;
        self.lex.end_of_line().map(|_| ())
    }

    /// `bounds SEQ = 64, …` and the graph before they were bound, if they stand here.
    fn template(&mut self) -> Result<()> {
        self.lex.empty_lines();
        if !self.lex.take("bounds") {
            return Ok(());
        }
        let mut bounds = Binding::new();
        while bounds.is_empty() || self.lex.take(",") {
            let symbol = self.lex.name("a symbol")?;
            self.lex.need("=")?;
            bounds.insert(symbol.into(), self.lex.number("a bound")?);
        }
        self.lex.end_of_line()?;
        let graph = function(self.lex, self.custom, 0)?;
        verify(&graph)?;
        self.p.template = Some(Box::new(Template { graph, bounds }));
        Ok(())
    }

    /// `[3] ctl : state<16xu32>`, with its bytes.
    fn declaration(&mut self, at: usize) -> Result<(&'t str, Type, u64)> {
        self.lex.need(&format!("[{at}]"))?;
        let name = self.lex.name("a name")?;
        let (ty, bytes) = self.ty()?;
        Ok((name, ty, bytes))
    }

    /// ` state[0] slots 1 tokens 32`.
    fn control(&mut self) -> Result<()> {
        self.lex.need("state")?;
        self.lex.need("[")?;
        let state = self.word("a state's number")?;
        self.lex.need("]")?;
        self.lex.need("slots")?;
        let slots = self.word("a number of slots")?;
        self.lex.need("tokens")?;
        let tokens = self.lex.number("a number of tokens")?;
        self.p.control = Some(ControlDecl { state, slots, tokens });
        Ok(())
    }

    /// A number of 32 bits.
    fn word(&mut self, what: &str) -> Result<u32> {
        let n = self.lex.number(what)?;
        u32::try_from(n).or_else(|_| self.lex.unexpected("a number of 32 bits"))
    }

    /// ` : tensor<4xf32>` with its bytes.
    fn ty(&mut self) -> Result<(Type, u64)> {
        self.lex.need(":")?;
        self.lex.blanks();
        let at = self.lex.at;
        let ty = self.lex.ty()?;
        let bytes = ty.bytes().map_err(|e| e.at(self.lex.place(at)))?;
        Ok((ty, bytes))
    }

    fn weight(&mut self) -> Result<()> {
        if !self.lex.take("\"") {
            let name = self.lex.name("a weight's name")?.into();
            let (ty, _) = self.ty()?;
            self.p.weights.push(WeightUse { name, ty, made: None });
            return Ok(());
        }
        let rest = self.lex.rest();
        let Some(end) = rest.find(['"', '\n']).filter(|&i| rest[i..].starts_with('"')) else {
            return self.lex.unexpected("a name and '\"'");
        };
        let name = rest[..end].into();
        self.lex.at += end + 1;
        let (ty, _) = self.ty()?;
        self.lex.need("=")?;
        let at = self.lex.at;
        let made = self.recipe(DEPTH)?;
        if *made.ty() != ty {
            return self.lex.error(format!("the weight is {ty}, it is made as {}", made.ty()), at);
        }
        self.p.weights.push(WeightUse { name, ty, made: Some(made) });
        Ok(())
    }

    /// `cast a : tensor<64xf16> {to = f32}`, at most `depth` in each other.
    fn recipe(&mut self, depth: usize) -> Result<Recipe> {
        self.lex.blanks();
        let at = self.lex.at;
        let Some(depth) = depth.checked_sub(1) else {
            return self.lex.error(format!("more than {DEPTH} in each other"), at);
        };
        let op = self.lex.name("an operator")?;
        let mut of = Vec::new();
        self.lex.blanks();
        if self.lex.rest().starts_with(|c: char| c == '(' || is_name_char(c)) {
            while of.is_empty() || self.lex.take(",") {
                self.lex.blanks();
                if self.lex.take("(") {
                    of.push(self.recipe(depth)?);
                    self.lex.need(")")?;
                } else {
                    let name = self.lex.name("a weight's name")?.into();
                    let (ty, _) = self.ty()?;
                    of.push(Recipe::Tensor { name, ty });
                }
            }
        }
        let attrs = self.lex.attrs()?;
        let op = operator(self.lex, self.custom, (op, at), &attrs)?;
        let types: Vec<&Type> = of.iter().map(Recipe::ty).collect();
        let results = op.infer(&types).map_err(|e| e.at(self.lex.place(at)))?;
        let made = match results.as_slice() {
            [ty] => Recipe::made(&op, of, ty.clone()),
            _ => None,
        };
        match made {
            Some(recipe) => Ok(recipe),
            None => self.lex.error(format!("no weight is made by {} so", op.name()), at),
        }
    }

    /// `arena+512 : tensor<1x64xf32>`.
    fn slice(&mut self) -> Result<Slice> {
        self.lex.blanks();
        let at = self.lex.at;
        let spaces = [Space::Weight, Space::State, Space::Input];
        let space = match spaces.into_iter().find(|s| self.lex.take(&format!("{s}["))) {
            Some(space) => space,
            None if self.lex.take("arena") => Space::Arena,
            None => {
                return self.lex.unexpected("a place: weight[…], state[…], input[…] or arena+…");
            }
        };
        let mut index = 0;
        if space != Space::Arena || self.lex.take("[") {
            index = self.word("an index")?;
            self.lex.need("]")?;
        }
        let mut offset = 0;
        if space == Space::Arena || self.lex.rest().starts_with('+') {
            self.lex.need("+")?;
            offset = self.lex.number("an offset")?;
        }
        let (ty, bytes) = self.ty()?;
        let size = match space {
            // Its number is one of the model's plan, which is not known here.
            Space::Weight => None,
            Space::Arena => Some(self.p.arena_segments.get(index as usize).copied().unwrap_or(0)),
            Space::State => Some(self.p.states.get(index as usize).map_or(0, |s| s.bytes)),
            Space::Input => Some(self.p.inputs.get(index as usize).map_or(0, |s| s.bytes)),
        };
        let end = offset.checked_add(bytes);
        match (end, size) {
            (Some(end), Some(size)) if end > size => self
                .lex
                .error(format!("bytes {offset}..{end} lie outside the {size} of {space}"), at),
            (None, _) => self.lex.error(format!("{offset} and {bytes} bytes overflow 64 bits"), at),
            _ => Ok(Slice { space, index, offset, ty, bytes }),
        }
    }

    /// `3: sample arena+64 : …, state[1] : … {…} -> arena+0 : … // label`.
    fn step(&mut self) -> Result<()> {
        let at = self.lex.at;
        let n = self.lex.number("a step's number")?;
        if n != self.p.steps.len() as u64 {
            return self
                .lex
                .error(format!("step {n} stands where {} does", self.p.steps.len()), at);
        }
        self.lex.need(":")?;
        self.lex.blanks();
        let mut op_at = self.lex.at;
        let mut name = self.lex.name("an operator")?;
        let phases = [Phase::Prologue, Phase::Epilogue];
        let phase = phases.into_iter().find(|p| p.name() == name);
        if phase.is_some() {
            self.lex.blanks();
            op_at = self.lex.at;
            name = self.lex.name("an operator")?;
        }
        let mut operands = Vec::new();
        self.lex.blanks();
        if self.lex.rest().starts_with(|c: char| c.is_ascii_lowercase()) {
            while operands.is_empty() || self.lex.take(",") {
                operands.push(self.slice()?);
            }
        }
        let attrs = self.lex.attrs()?;
        let part = self.part()?;
        self.lex.blanks();
        let live = match self.lex.take("live") {
            true => Some(self.lex.number("rows for each token")?),
            false => None,
        };
        self.lex.need("->")?;
        let mut results = Vec::new();
        while results.is_empty() || self.lex.take(",") {
            results.push(self.slice()?);
        }
        let has_regions = self.lex.take("[");
        let label = self.lex.end_of_line()?.into();
        let regions = match has_regions {
            true => regions(self.lex, self.custom, 0)?,
            false => Vec::new(),
        };
        let op = operator(self.lex, self.custom, (name, op_at), &attrs)?;
        // The type rule is of whole weights.
        if part.is_none() {
            let types: Vec<&Type> = operands.iter().map(|s: &Slice| &s.ty).collect();
            let bodies: Vec<Signature> = regions.iter().map(Graph::signature).collect();
            let rule =
                op.infer_regions(&types, &bodies).map_err(|e| e.at(self.lex.place(op_at)))?;
            if !rule.iter().eq(results.iter().map(|s| &s.ty)) {
                let rule: Vec<_> = rule.iter().map(|t| format!("{t}")).collect();
                let what =
                    format!("results do not fit {name}, whose type rule gives {}", rule.join(", "));
                return Err(Error::bad_graph(what).at(self.lex.place(op_at)));
            }
        }
        let phase = phase.unwrap_or(Phase::Steady);
        self.p.steps.push(Step { op, operands, results, regions, part, live, phase, label });
        Ok(())
    }

    /// `rows 64, 32 of 96`, or nothing.
    fn part(&mut self) -> Result<Option<Part>> {
        self.lex.blanks();
        let at = self.lex.at;
        if !self.lex.take("rows") {
            return Ok(None);
        }
        let first = self.lex.number("the first row")?;
        self.lex.need(",")?;
        let rows = self.lex.number("how many rows")?;
        self.lex.need("of")?;
        let of = self.lex.number("rows of the whole")?;
        if first.checked_add(rows).is_none_or(|end| end > of) {
            return self.lex.error(format!("{rows} rows from {first} on are no part of {of}"), at);
        }
        Ok(Some(Part { first, rows, of }))
    }

    /// ` token = arena+64 : …`, or nothing.
    fn outputs(&mut self) -> Result<()> {
        self.lex.blanks();
        if self.lex.rest().starts_with(is_name_char) {
            let mut first = true;
            while core::mem::take(&mut first) || self.lex.take(",") {
                let name = self.lex.name("an output's name")?.into();
                self.lex.need("=")?;
                let slice = self.slice()?;
                self.p.outputs.push(OutputDecl { name, slice });
            }
        }
        self.lex.end_of_line().map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::GraphModule;
    use crate::ir::parse::parse_lir;
    use alloc::format;
    use alloc::string::ToString;

    const TEXT: &str = "\
program @f {
  input[0] x : tensor<2x6xf32>
  state[0] ctl : state<16xu32>
  control state[0] slots 1 tokens 2
  weight w : tensor<6xf32>
  weight \"rope_table() {…}\" : tensor<7x2x2xf32> = rope_table {base = 500.0, dims = 4, context = 9}
  arena 192 bytes, 96 live, 128 unshared
  fingerprint 00000000deadbeef
  0: rms_norm input[0] : tensor<2x6xf32>, weight[0] : tensor<6xf32> {eps = 1e-5} live 1 \
-> arena+0 : tensor<2x6xf32> // norm
  1: rope arena+0 : tensor<2x6xf32>, weight[1] : tensor<7x2x2xf32>, \
state[0] : state<16xu32> {style = half, head_dim = 6} -> arena+64 : tensor<2x6xf32>
  2: epilogue token state[0] : state<16xu32> -> state[0]+4 : tensor<1xu32> // token
  return y = arena+64 : tensor<2x6xf32>, token = state[0]+4 : tensor<1xu32>
}
";

    #[test]
    fn what_print_writes_reads_back() {
        let p = parse_lir(TEXT).unwrap();
        assert_eq!(p.to_string(), TEXT);
        assert_eq!(parse_lir(&p.to_string()).unwrap(), p);
        assert_eq!(parse_lir(&format!("{p:#}")).unwrap(), p);
        assert_eq!(GraphModule::parse(TEXT).unwrap().into_lir().unwrap(), p);
    }

    #[test]
    fn graphs_and_bounds_stand_behind_the_steps() {
        let graph = |rows: &str| {
            format!("func @f {{\n  input %x : tensor<{rows}x6xf32>\n  return y = %x\n}}\n")
        };
        let (end, graphs) = (TEXT.len() - 2, [graph("2"), graph("SEQ")]);
        let text = format!("{}{}  bounds SEQ = 2\n{}}}\n", &TEXT[..end], graphs[0], graphs[1]);
        let p = parse_lir(&text).unwrap();
        assert_eq!(p.graph.to_string(), graphs[0]);
        let template = p.template.as_ref().unwrap();
        assert_eq!((template.graph.to_string(), template.bounds["SEQ"]), (graphs[1].clone(), 2));
        assert_eq!(format!("{p:#}"), text);
        assert_eq!(p.to_string(), TEXT);
    }

    #[test]
    fn an_error_says_where_what_and_what_was_expected() {
        for (from, to, error) in [
            ("program @f", "func @f", "found 'func', expected 'program' (line 1, column 1)"),
            ("input[0]", "input[1]", "found '[', expected '[0]' (line 2, column 8)"),
            (
                "2x6xf32>\n",
                "SEQx6xf32>\n",
                "tensor<SEQx6xf32> has the unbound size SEQ (line 2, column 16)",
            ),
            ("\"rope", "rope", "found '{', expected ':' (line 6, column 23)"),
            ("{…}\"", "{…}", "found 'rope_table()', expected a name and '\"' (line 6, column 11)"),
            ("deadbeef", "deadbeet", "00000000deadbeet is no fingerprint (line 8, column 15)"),
            ("  1: rope", "  2: rope", "step 2 stands where 1 does (line 10, column 3)"),
            (
                "arena+0 : tensor<2x6xf32> // norm",
                "arena+192 : tensor<2x6xf32>",
                "bytes 192..240 lie outside the 192 of arena (line 9, column 92)",
            ),
            (
                "arena+0 : tensor<2x6xf32> // norm",
                "arena+18446744073709551615 : tensor<2x6xf32>",
                "18446744073709551615 and 48 bytes overflow 64 bits (line 9, column 92)",
            ),
            (
                "arena+0 : tensor<2x6xf32> // norm",
                "arena+0 : tensor<2x5xf32>",
                "results do not fit rms_norm, whose type rule gives tensor<2x6xf32> (line 9, column 6)",
            ),
            (
                "weight[0] :",
                "wait[0] :",
                "found 'wait', expected a place: weight[…], state[…], input[…] or arena+…",
            ),
            (
                "state[0] : state<16xu32> -> state[0]+4",
                "state[1] : state<16xu32> -> state[0]+4",
                "bytes 0..64 lie outside the 0 of state (line 11, column 21)",
            ),
            ("return y = arena+64", "return y = ", "found ':', expected a place"),
        ] {
            assert!(TEXT.contains(from), "{from}");
            let found = parse_lir(&TEXT.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(found.starts_with(error), "{from} -> {to}\n{found}\n{error}");
        }
    }

    #[test]
    fn no_cut_or_changed_byte_panics() {
        for at in
            (0..TEXT.len()).filter(|&at| TEXT.is_char_boundary(at) && TEXT.is_char_boundary(at + 1))
        {
            let _ = parse_lir(&TEXT[..at]);
            for other in ["", "%", "{", "[", "<", "9999999999999999999999", "\u{00e9}", "\n", "-"] {
                let _ = parse_lir(&(TEXT[..at].to_string() + other + &TEXT[at + 1..]));
            }
        }
    }
}
