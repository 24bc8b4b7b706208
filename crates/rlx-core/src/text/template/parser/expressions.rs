//! Expressions, from the operators that bind least.

use super::super::ast::{Arguments, Comparison, Expr, FilterCall, Node, Operator};
use super::super::lexer::Token;
use super::super::meter::MAX_ARGUMENTS;
use super::super::value::{Text, Value};
use super::{Parser, Result};
use alloc::format;
use alloc::vec::Vec;

impl<'s> Parser<'s> {
    /// An expression, or several with commas between, which are a list.
    pub(super) fn tuple(&mut self) -> Result<Node> {
        self.tuple_of(Self::expression)
    }

    pub(super) fn tuple_of(&mut self, read: fn(&mut Self) -> Result<Node>) -> Result<Node> {
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

    pub(super) fn expression(&mut self) -> Result<Node> {
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

    pub(super) fn or(&mut self) -> Result<Node> {
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

    pub(super) fn arguments(&mut self) -> Result<Arguments> {
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
    pub(super) fn next_of(&mut self, n: usize) -> Result<()> {
        if n > MAX_ARGUMENTS {
            return self.fault(format!("there are more than {MAX_ARGUMENTS} arguments"));
        }
        if self.is_op(")") { Ok(()) } else { self.expect_op(",") }
    }

    pub(super) fn filter_call(&mut self) -> Result<FilterCall> {
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
    pub(super) fn height_below(&self) -> u16 {
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
