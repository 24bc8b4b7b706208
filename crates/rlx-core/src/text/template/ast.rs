//! A parsed template.

use super::value::{Text, Value};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

/// A name of a variable: its place in [`Program::names`].
pub(super) type Name = u32;

/// A template.
#[derive(Debug, Default)]
pub(super) struct Program {
    pub(super) body: Vec<Stmt>,
    pub(super) names: Vec<String>,
    /// `loop` and `caller`, where they are used.
    pub(super) loop_name: Option<Name>,
    pub(super) caller_name: Option<Name>,
    pub(super) macros: Vec<Macro>,
}

/// `{% macro name(parameters) %}`, or the body of `{% call %}`.
#[derive(Debug)]
pub(super) struct Macro {
    pub(super) name: Name,
    /// With what they are when the caller gives none.
    pub(super) parameters: Vec<(Name, Option<Node>)>,
    pub(super) body: Vec<Stmt>,
}

/// What a template does.
#[derive(Debug)]
pub(super) enum Stmt {
    Data(String),
    Emit(Node),
    /// Conditions with their bodies; the last may be without.
    If(Vec<(Option<Node>, Vec<Stmt>)>),
    For(Box<For>),
    Set(Target, Node),
    /// `{% set x %}…{% endset %}`
    SetBlock(Target, Vec<Stmt>),
    /// `{% with a = 1 %}`
    With(Vec<(Name, Node)>, Vec<Stmt>),
    /// `{% filter upper %}`
    Filter(Vec<FilterCall>, Vec<Stmt>),
    /// A row of [`Program::macros`].
    Macro(usize),
    /// `{% call f(x) %}`: the call, and its body as a macro.
    Call(Node, usize),
    Break,
    Continue,
}

/// `{% for targets in items if condition %}`
#[derive(Debug)]
pub(super) struct For {
    pub(super) targets: Vec<Name>,
    pub(super) items: Node,
    pub(super) condition: Option<Node>,
    pub(super) body: Vec<Stmt>,
    /// What is done when there is no element.
    pub(super) otherwise: Vec<Stmt>,
}

/// What is set.
#[derive(Debug)]
pub(super) enum Target {
    Names(Vec<Name>),
    /// An attribute of a namespace.
    Attribute(Name, Text),
}

/// A filter with its arguments.
#[derive(Debug)]
pub(super) struct FilterCall {
    pub(super) name: String,
    pub(super) arguments: Arguments,
}

/// Arguments of a call.
#[derive(Debug, Default)]
pub(super) struct Arguments {
    pub(super) values: Vec<Node>,
    pub(super) named: Vec<(String, Node)>,
}

/// An expression with its line and how many nodes are below each other in it.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) expr: Box<Expr>,
    pub(super) line: u32,
    pub(super) height: u16,
}

/// An expression.
#[derive(Debug)]
pub(super) enum Expr {
    Const(Value),
    Name(Name),
    List(Vec<Node>),
    Map(Vec<(Node, Node)>),
    Attribute(Node, Text),
    Item(Node, Node),
    /// From, to, step.
    Slice(Node, [Option<Node>; 3]),
    Call(Node, Arguments),
    Filter(Node, FilterCall),
    /// `is name(…)`, or `is not`.
    Test(Node, FilterCall, bool),
    Not(Node),
    Negative(Node),
    Binary(Operator, Node, Node),
    And(Node, Node),
    Or(Node, Node),
    /// `a < b < c`
    Compare(Node, Vec<(Comparison, Node)>),
    /// Condition, then, otherwise.
    If(Node, Node, Option<Node>),
}

/// Operators of two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    FloorDivide,
    Remainder,
    Power,
    /// `~`
    Concat,
}

/// Comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    In,
    NotIn,
}
