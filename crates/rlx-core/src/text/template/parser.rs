//! Tokens to a [`Program`], as shallow as the stack of a page needs it.

use super::ast::{Arguments, Comparison, Expr, FilterCall, For, Macro, Name, Node, Operator};
use super::ast::{Program, Stmt, Target};
use super::lexer::{SyntaxFault, Token, tokens};
use super::meter::{MAX_ARGUMENTS, MAX_NESTING, MAX_TREE_HEIGHT};
use super::value::{Text, Value};
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

    // Expressions, from what binds least

    /// An expression, or several with commas between, which are a list.
    fn tuple(&mut self) -> Result<Node> {
        self.tuple_of(Self::expression)
    }

    fn tuple_of(&mut self, read: fn(&mut Self) -> Result<Node>) -> Result<Node> {
        let line = self.line();
        let first = read(self)?;
        if !self.is_op(",") {
            return Ok(first);
        }
        let mut items = alloc::vec![first];
        while self.take_op(",") {
            if matches!(self.peek(), Token::Close) || self.is_op(")") {
                break;
            }
            items.push(read(self)?);
        }
        self.node(line, Expr::List(items))
    }

    fn expression(&mut self) -> Result<Node> {
        self.nested(|this| {
            let line = this.line();
            let mut value = this.or()?;
            while this.take_name("if") {
                let condition = this.or()?;
                let otherwise =
                    if this.take_name("else") { Some(this.expression()?) } else { None };
                value = this.node(line, Expr::If(condition, value, otherwise))?;
            }
            Ok(value)
        })
    }

    fn or(&mut self) -> Result<Node> {
        let line = self.line();
        let mut left = self.and()?;
        while self.take_name("or") {
            let right = self.and()?;
            left = self.node(line, Expr::Or(left, right))?;
        }
        Ok(left)
    }

    fn and(&mut self) -> Result<Node> {
        let line = self.line();
        let mut left = self.not()?;
        while self.take_name("and") {
            let right = self.not()?;
            left = self.node(line, Expr::And(left, right))?;
        }
        Ok(left)
    }

    fn not(&mut self) -> Result<Node> {
        let line = self.line();
        if self.take_name("not") {
            let value = self.nested(Self::not)?;
            return self.node(line, Expr::Not(value));
        }
        self.comparison()
    }

    fn comparison(&mut self) -> Result<Node> {
        let line = self.line();
        let first = self.binary(0)?;
        let mut rest = Vec::new();
        loop {
            let comparison = match self.peek() {
                Token::Op("==") => Comparison::Equal,
                Token::Op("!=") => Comparison::NotEqual,
                Token::Op("<") => Comparison::Less,
                Token::Op("<=") => Comparison::LessEqual,
                Token::Op(">") => Comparison::Greater,
                Token::Op(">=") => Comparison::GreaterEqual,
                Token::Name("in") => Comparison::In,
                Token::Name("not")
                    if matches!(self.tokens.get(self.at + 1), Some((Token::Name("in"), _))) =>
                {
                    self.next();
                    Comparison::NotIn
                }
                _ if rest.is_empty() => return Ok(first),
                _ => return self.node(line, Expr::Compare(first, rest)),
            };
            self.next();
            rest.push((comparison, self.binary(0)?));
        }
    }

    /// `+ -`, then `~`, then `* / // %`, then `**`.
    fn binary(&mut self, level: usize) -> Result<Node> {
        const LEVELS: [&[(&str, Operator)]; 4] = [
            &[("+", Operator::Add), ("-", Operator::Subtract)],
            &[("~", Operator::Concat)],
            &[
                ("*", Operator::Multiply),
                ("//", Operator::FloorDivide),
                ("/", Operator::Divide),
                ("%", Operator::Remainder),
            ],
            &[("**", Operator::Power)],
        ];
        let Some(operators) = LEVELS.get(level) else { return self.unary(true) };
        let line = self.line();
        let mut left = self.binary(level + 1)?;
        while let Some(&(op, operator)) = operators.iter().find(|(op, _)| self.is_op(op)) {
            self.take_op(op);
            let right = self.binary(level + 1)?;
            left = self.node(line, Expr::Binary(operator, left, right))?;
        }
        Ok(left)
    }

    /// A sign binds closer than filters: `-1 | abs` is 1.
    fn unary(&mut self, with_filters: bool) -> Result<Node> {
        let line = self.line();
        let mut value = if self.take_op("-") {
            let value = self.nested(|this| this.unary(false))?;
            self.node(line, Expr::Negative(value))?
        } else if self.take_op("+") {
            self.nested(|this| this.unary(false))?
        } else {
            self.primary()?
        };
        value = self.postfix(value)?;
        if with_filters {
            value = self.filters_and_tests(value)?;
        }
        Ok(value)
    }

    fn primary(&mut self) -> Result<Node> {
        let line = self.line();
        let expr = match self.next() {
            Token::Int(value) => Expr::Const(Value::Int(value)),
            Token::Float(value) => Expr::Const(Value::Float(value)),
            Token::Text(mut text) => {
                // Texts beside each other are one.
                while let Token::Text(more) = self.peek() {
                    text.push_str(more);
                    self.next();
                }
                Expr::Const(Value::Text(Text::constant(&text)))
            }
            Token::Name(name) => match name {
                "true" | "True" => Expr::Const(Value::Bool(true)),
                "false" | "False" => Expr::Const(Value::Bool(false)),
                "none" | "None" => Expr::Const(Value::None),
                "if" | "else" | "and" | "or" | "in" | "is" => {
                    self.at -= 1;
                    return self.unexpected("a value");
                }
                _ => Expr::Name(self.name(name)),
            },
            Token::Op("(") => {
                if self.take_op(")") {
                    return self.node(line, Expr::List(Vec::new()));
                }
                let value = self.tuple()?;
                self.expect_op(")")?;
                return Ok(value);
            }
            Token::Op("[") => {
                let mut items = Vec::new();
                while !self.take_op("]") {
                    items.push(self.expression()?);
                    if !self.is_op("]") {
                        self.expect_op(",")?;
                    }
                }
                Expr::List(items)
            }
            Token::Op("{") => {
                let mut entries = Vec::new();
                while !self.take_op("}") {
                    let key = self.expression()?;
                    self.expect_op(":")?;
                    entries.push((key, self.expression()?));
                    if !self.is_op("}") {
                        self.expect_op(",")?;
                    }
                }
                Expr::Map(entries)
            }
            _ => {
                self.at = self.at.saturating_sub(1);
                return self.unexpected("a value");
            }
        };
        self.node(line, expr)
    }

    /// Attributes, items, slices and calls.
    fn postfix(&mut self, mut value: Node) -> Result<Node> {
        loop {
            let line = self.line();
            let expr = if self.take_op(".") {
                match self.next() {
                    Token::Name(name) => Expr::Attribute(value, Text::constant(name)),
                    Token::Int(index) => {
                        let index = self.node(line, Expr::Const(Value::Int(index)))?;
                        Expr::Item(value, index)
                    }
                    _ => return self.fault("a name must follow `.`"),
                }
            } else if self.take_op("[") {
                self.subscript(value)?
            } else if self.is_op("(") {
                Expr::Call(value, self.arguments()?)
            } else {
                return Ok(value);
            };
            value = self.node(line, expr)?;
        }
    }

    fn subscript(&mut self, value: Node) -> Result<Expr> {
        let mut parts: [Option<Node>; 3] = [None, None, None];
        let mut n_colons = 0;
        while !self.take_op("]") {
            if n_colons < 2 && self.take_op(":") {
                n_colons += 1;
            } else if parts[n_colons].is_none() {
                parts[n_colons] = Some(self.expression()?);
            } else {
                return self.unexpected("`]`");
            }
        }
        match parts {
            [Some(index), None, None] if n_colons == 0 => Ok(Expr::Item(value, index)),
            [None, ..] if n_colons == 0 => self.fault("`[]` needs an index"),
            parts => Ok(Expr::Slice(value, parts)),
        }
    }

    fn arguments(&mut self) -> Result<Arguments> {
        let mut arguments = Arguments::default();
        self.expect_op("(")?;
        while !self.take_op(")") {
            if self.is_op("*") || self.is_op("**") {
                return self.fault("`*` and `**` before arguments are not supported");
            }
            let named = matches!(self.tokens.get(self.at + 1), Some((Token::Op("="), _)));
            match *self.peek() {
                Token::Name(name) if named => {
                    self.next();
                    self.next();
                    arguments.named.push((name.into(), self.expression()?));
                }
                _ => arguments.values.push(self.expression()?),
            }
            self.next_of(arguments.values.len() + arguments.named.len())?;
        }
        Ok(arguments)
    }

    /// The comma behind an argument or a parameter, the `n`th, unless it is the last.
    fn next_of(&mut self, n: usize) -> Result<()> {
        if n > MAX_ARGUMENTS {
            return self.fault(format!("there are more than {MAX_ARGUMENTS} arguments"));
        }
        if self.is_op(")") { Ok(()) } else { self.expect_op(",") }
    }

    fn filter_call(&mut self) -> Result<FilterCall> {
        let name = self.expect_name()?.into();
        let arguments = if self.is_op("(") { self.arguments()? } else { Arguments::default() };
        Ok(FilterCall { name, arguments })
    }

    fn filters_and_tests(&mut self, mut value: Node) -> Result<Node> {
        loop {
            let line = self.line();
            let expr = if self.take_op("|") {
                Expr::Filter(value, self.filter_call()?)
            } else if self.take_name("is") {
                let negated = self.take_name("not");
                Expr::Test(value, self.test_call()?, negated)
            } else if self.is_op("(") {
                Expr::Call(value, self.arguments()?)
            } else {
                return Ok(value);
            };
            value = self.node(line, expr)?;
        }
    }

    /// A test's name and arguments; one argument may be without parentheses.
    fn test_call(&mut self) -> Result<FilterCall> {
        let name = match *self.peek() {
            // Tests that are spelled as operators.
            Token::Op(op @ ("==" | "!=" | "<" | "<=" | ">" | ">=")) => {
                self.next();
                op.into()
            }
            _ => self.expect_name()?.into(),
        };
        let mut arguments = Arguments::default();
        match self.peek() {
            Token::Op("(") => arguments = self.arguments()?,
            Token::Name("else" | "or" | "and" | "is" | "if" | "in" | "not") => {}
            Token::Name(_)
            | Token::Text(_)
            | Token::Int(_)
            | Token::Float(_)
            | Token::Op("[" | "{") => {
                let value = self.primary()?;
                arguments.values.push(self.postfix(value)?);
            }
            _ => {}
        }
        Ok(FilterCall { name, arguments })
    }
}

impl Expr {
    /// The height of the highest part.
    fn height_below(&self) -> u16 {
        fn of<'n>(nodes: impl IntoIterator<Item = &'n Node>) -> u16 {
            nodes.into_iter().map(|node| node.height).max().unwrap_or(0)
        }
        let arguments = |a: &Arguments| of(a.values.iter().chain(a.named.iter().map(|(_, n)| n)));
        match self {
            Self::Const(_) | Self::Name(_) => 0,
            Self::List(items) => of(items),
            Self::Map(entries) => of(entries.iter().flat_map(|(key, value)| [key, value])),
            Self::Attribute(value, _) | Self::Not(value) | Self::Negative(value) => value.height,
            Self::Item(a, b) | Self::Binary(_, a, b) | Self::And(a, b) | Self::Or(a, b) => {
                of([a, b])
            }
            Self::Slice(value, parts) => value.height.max(of(parts.iter().flatten())),
            Self::Call(value, a) => value.height.max(arguments(a)),
            Self::Filter(value, call) | Self::Test(value, call, _) => {
                value.height.max(arguments(&call.arguments))
            }
            Self::Compare(value, rest) => value.height.max(of(rest.iter().map(|(_, n)| n))),
            Self::If(a, b, c) => of([a, b].into_iter().chain(c)),
        }
    }
}
