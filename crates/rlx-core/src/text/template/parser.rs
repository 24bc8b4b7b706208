//! Tokens to a [`Program`], as shallow as the stack of a page needs it.

mod expressions;

use super::ast::{Expr, For, Macro, Name, Node};
use super::ast::{Program, Stmt, Target};
use super::lexer::{SyntaxFault, Token, tokens};
use super::meter::{MAX_NESTING, MAX_TREE_HEIGHT};
use super::value::Text;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

type Result<T> = core::result::Result<T, SyntaxFault>;

struct Parser<'s> {
    tokens: Vec<(Token<'s>, u32)>,
    at: usize,
    names: BTreeMap<&'s str, Name>,
    program: Program,
    /// Statements and expressions that are being read, one inside the other.
    depth: u16,
    n_loops: usize,
}

/// Parses a template.
pub(super) fn parse(source: &str) -> Result<Program> {
    let mut parser = Parser {
        tokens: tokens(source)?,
        at: 0,
        names: BTreeMap::new(),
        program: Program::default(),
        depth: 0,
        n_loops: 0,
    };
    let (body, end) = parser.body(&[])?;
    debug_assert!(end.is_empty());
    let mut program = parser.program;
    program.body = body;
    program.loop_name = parser.names.get("loop").copied();
    program.caller_name = parser.names.get("caller").copied();
    program.names = alloc::vec![String::new(); parser.names.len()];
    for (name, at) in parser.names {
        program.names[at as usize] = name.into();
    }
    Ok(program)
}

impl<'s> Parser<'s> {
    fn line(&self) -> u32 {
        self.tokens[self.at].1
    }

    fn peek(&self) -> &Token<'s> {
        &self.tokens[self.at].0
    }

    fn next(&mut self) -> Token<'s> {
        let token = self.tokens[self.at].0.clone();
        // The end stays, whoever asks.
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    fn fault<T>(&self, what: impl Into<String>) -> Result<T> {
        Err((self.line(), what.into()))
    }

    fn unexpected<T>(&self, wanted: &str) -> Result<T> {
        let found = match self.peek() {
            Token::Data(_) | Token::OpenBlock | Token::OpenEmit => "a tag".into(),
            Token::Close => "the end of the tag".into(),
            Token::Name(name) => format!("`{}`", name),
            Token::Text(_) => "a text".into(),
            Token::Int(_) | Token::Float(_) => "a number".into(),
            Token::Op(op) => format!("`{op}`"),
            Token::End => "the end of the template".into(),
        };
        self.fault(format!("{found} stands where {wanted} must"))
    }

    fn is_op(&self, op: &str) -> bool {
        matches!(self.peek(), Token::Op(found) if *found == op)
    }

    fn take_op(&mut self, op: &str) -> bool {
        let found = self.is_op(op);
        if found {
            self.next();
        }
        found
    }

    fn expect_op(&mut self, op: &str) -> Result<()> {
        if self.take_op(op) { Ok(()) } else { self.unexpected(&format!("`{op}`")) }
    }

    fn is_name(&self, name: &str) -> bool {
        matches!(self.peek(), Token::Name(found) if *found == name)
    }

    fn take_name(&mut self, name: &str) -> bool {
        let found = self.is_name(name);
        if found {
            self.next();
        }
        found
    }

    fn expect_name(&mut self) -> Result<&'s str> {
        match *self.peek() {
            Token::Name(name) => {
                self.next();
                Ok(name)
            }
            _ => self.unexpected("a name"),
        }
    }

    fn close(&mut self) -> Result<()> {
        match self.peek() {
            Token::Close => {
                self.next();
                Ok(())
            }
            _ => self.unexpected("the end of the tag"),
        }
    }

    fn name(&mut self, name: &'s str) -> Name {
        let next = self.names.len() as Name;
        *self.names.entry(name).or_insert(next)
    }

    /// Reads something that may hold itself.
    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth == MAX_NESTING {
            return self.fault(format!("it nests deeper than {MAX_NESTING}"));
        }
        self.depth += 1;
        let out = read(self);
        self.depth -= 1;
        out
    }

    /// A node over others. Long chains of operators are high trees too.
    fn node(&self, line: u32, expr: Expr) -> Result<Node> {
        let height = 1 + expr.height_below();
        if height > MAX_TREE_HEIGHT {
            return self.fault(format!("an expression has more than {MAX_TREE_HEIGHT} steps"));
        }
        Ok(Node { expr: Box::new(expr), line, height })
    }

    // Statements

    /// Statements to one of the tags `ends`, whose name is read, or to the end of the source.
    fn body(&mut self, ends: &[&str]) -> Result<(Vec<Stmt>, &'s str)> {
        self.nested(|this| {
            let mut body = Vec::new();
            loop {
                match this.next() {
                    Token::Data(text) => body.push(Stmt::Data(text.into())),
                    Token::OpenEmit => {
                        body.push(Stmt::Emit(this.tuple()?));
                        this.close()?;
                    }
                    Token::OpenBlock => {
                        let line = this.line();
                        let tag = this.expect_name()?;
                        if ends.contains(&tag) {
                            return Ok((body, tag));
                        }
                        if let Some(stmt) = this.statement(tag, line)? {
                            body.push(stmt);
                        }
                    }
                    _ if ends.is_empty() => return Ok((body, "")),
                    _ => return this.fault(format!("`{}` is missing", ends[ends.len() - 1])),
                }
            }
        })
    }

    /// The body of a tag to its end.
    fn body_to(&mut self, end: &str) -> Result<Vec<Stmt>> {
        self.close()?;
        let (body, _) = self.body(&[end])?;
        self.close()?;
        Ok(body)
    }

    fn statement(&mut self, tag: &str, line: u32) -> Result<Option<Stmt>> {
        let stmt = match tag {
            "if" => self.parse_if()?,
            "for" => self.parse_for()?,
            "set" => self.parse_set()?,
            "macro" => {
                let name = self.expect_name()?;
                let name = self.name(name);
                let parameters = self.parameters()?;
                let body = self.isolated(|this| this.body_to("endmacro"))?;
                self.program.macros.push(Macro { name, parameters, body });
                Stmt::Macro(self.program.macros.len() - 1)
            }
            "call" => {
                let parameters = if self.is_op("(") { self.parameters()? } else { Vec::new() };
                let call = self.expression()?;
                if !matches!(*call.expr, Expr::Call(..)) {
                    return self.fault("`call` needs a call");
                }
                let body = self.isolated(|this| this.body_to("endcall"))?;
                let name = self.name("caller");
                self.program.macros.push(Macro { name, parameters, body });
                Stmt::Call(call, self.program.macros.len() - 1)
            }
            "with" => {
                let mut variables = Vec::new();
                while !matches!(self.peek(), Token::Close) {
                    let name = self.expect_name()?;
                    let name = self.name(name);
                    self.expect_op("=")?;
                    variables.push((name, self.expression()?));
                    if !self.take_op(",") {
                        break;
                    }
                }
                Stmt::With(variables, self.body_to("endwith")?)
            }
            "filter" => {
                let mut filters = alloc::vec![self.filter_call()?];
                while self.take_op("|") {
                    filters.push(self.filter_call()?);
                }
                Stmt::Filter(filters, self.body_to("endfilter")?)
            }
            "break" | "continue" => {
                if self.n_loops == 0 {
                    return Err((line, format!("`{tag}` stands outside of a loop")));
                }
                self.close()?;
                if tag == "break" { Stmt::Break } else { Stmt::Continue }
            }
            // `do` evaluates and writes nothing; as no value can be changed, nothing is left of it
            // but its faults.
            "do" => {
                let node = self.tuple()?;
                self.close()?;
                Stmt::With(Vec::new(), alloc::vec![Stmt::Set(Target::Names(Vec::new()), node)])
            }
            // They mark the assistant's text for training.
            "generation" | "endgeneration" => {
                self.close()?;
                return Ok(None);
            }
            _ => return Err((line, format!("the tag `{}` is unknown", tag))),
        };
        Ok(Some(stmt))
    }

    /// A body that loops around it cannot be left from.
    fn isolated<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let n_loops = core::mem::take(&mut self.n_loops);
        let out = read(self);
        self.n_loops = n_loops;
        out
    }

    fn parse_if(&mut self) -> Result<Stmt> {
        let mut branches = Vec::new();
        let mut condition = Some(self.tuple()?);
        loop {
            self.close()?;
            let ends: &[&str] =
                if condition.is_some() { &["elif", "else", "endif"] } else { &["endif"] };
            let (body, end) = self.body(ends)?;
            branches.push((condition.take(), body));
            match end {
                "elif" => condition = Some(self.tuple()?),
                "else" => {}
                _ => {
                    self.close()?;
                    return Ok(Stmt::If(branches));
                }
            }
        }
    }

    fn parse_for(&mut self) -> Result<Stmt> {
        let targets = self.targets()?;
        if !self.take_name("in") {
            return self.unexpected("`in`");
        }
        let items = self.tuple_of(Self::or)?;
        let condition = if self.take_name("if") { Some(self.expression()?) } else { None };
        if self.is_name("recursive") {
            return self.fault("recursive loops are not supported");
        }
        self.close()?;
        self.n_loops += 1;
        let (body, end) = self.body(&["else", "endfor"])?;
        self.n_loops -= 1;
        let otherwise = if end == "else" {
            self.body_to("endfor")?
        } else {
            self.close()?;
            Vec::new()
        };
        Ok(Stmt::For(Box::new(For { targets, items, condition, body, otherwise })))
    }

    /// `a`, `a, b` or `(a, b)`.
    fn targets(&mut self) -> Result<Vec<Name>> {
        let in_parentheses = self.take_op("(");
        let mut targets = Vec::new();
        loop {
            let name = self.expect_name()?;
            targets.push(self.name(name));
            if !self.take_op(",") || self.is_op(")") {
                break;
            }
        }
        if in_parentheses {
            self.expect_op(")")?;
        }
        Ok(targets)
    }

    fn parse_set(&mut self) -> Result<Stmt> {
        let names = self.targets()?;
        let target = match names.as_slice() {
            [name] if self.take_op(".") => {
                let attribute = self.expect_name()?;
                Target::Attribute(*name, Text::constant(attribute))
            }
            _ => Target::Names(names),
        };
        if self.take_op("=") {
            let value = self.tuple()?;
            self.close()?;
            return Ok(Stmt::Set(target, value));
        }
        let mut filters = Vec::new();
        while self.take_op("|") {
            filters.push(self.filter_call()?);
        }
        let body = self.body_to("endset")?;
        let body = match filters.is_empty() {
            true => body,
            false => alloc::vec![Stmt::Filter(filters, body)],
        };
        Ok(Stmt::SetBlock(target, body))
    }

    fn parameters(&mut self) -> Result<Vec<(Name, Option<Node>)>> {
        let mut parameters = Vec::new();
        self.expect_op("(")?;
        while !self.take_op(")") {
            let name = self.expect_name()?;
            let name = self.name(name);
            let default = if self.take_op("=") { Some(self.expression()?) } else { None };
            parameters.push((name, default));
            self.next_of(parameters.len())?;
        }
        Ok(parameters)
    }
}
