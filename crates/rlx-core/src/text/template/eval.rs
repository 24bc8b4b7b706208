//! Runs a [`Program`]. Whatever calls itself goes through [`Run::enter`], whatever is made pays
//! first: see [`meter`](super::meter).

mod calls;

use super::ast::{Arguments, Expr, FilterCall, For, Name, Node, Operator, Program, Stmt, Target};
use super::filters::Args;
use super::meter::{Fault, Lease, MAX_DEPTH, Meter, Result, failed};
use super::methods::short;
use super::operators::{binary, compare, slice};
use super::print::write_str;
use super::value::{Builder, Loop, TextBuilder, Value};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// What a variable or an attribute of a namespace counts.
const VARIABLE_BYTES: usize = 96;

/// Names with values.
struct Frame<K> {
    values: BTreeMap<K, Value>,
    lease: Lease,
}

impl<K: Ord> Frame<K> {
    fn new(meter: &Arc<Meter>) -> Self {
        Self { values: BTreeMap::new(), lease: Lease::new(meter) }
    }

    fn set(&mut self, name: K, value: Value) -> Result<()> {
        if self.values.insert(name, value).is_none() {
            self.lease.grow(VARIABLE_BYTES)?;
        }
        Ok(())
    }
}

/// A macro with the variables around it.
struct Closure {
    definition: usize,
    around: Arc<Frame<Name>>,
}

/// How statements ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    Next,
    Break,
    Continue,
}

/// A run of a template.
pub(super) struct Run<'a> {
    program: &'a Program,
    pub(super) meter: Arc<Meter>,
    now: Option<i64>,
    /// The template's own variables, and those of the loops and blocks that are under way.
    frames: Vec<Frame<Name>>,
    /// The first of them that the macro under way sees, besides the template's own.
    base: usize,
    /// What the macro under way saw where it was defined.
    around: Option<Arc<Frame<Name>>>,
    namespaces: Vec<Frame<String>>,
    closures: Vec<Closure>,
    /// What is written: the prompt, and above it what blocks and macros that are under way wrote.
    out: Vec<TextBuilder>,
    depth: u32,
    n_loops: usize,
    /// Where the run is, for faults.
    pub(super) line: u32,
}

impl<'a> Run<'a> {
    pub(super) fn new(program: &'a Program, meter: &Arc<Meter>, now: Option<i64>) -> Self {
        Self {
            program,
            meter: meter.clone(),
            now,
            frames: alloc::vec![Frame::new(meter)],
            base: 0,
            around: None,
            namespaces: Vec::new(),
            closures: Vec::new(),
            out: alloc::vec![TextBuilder::new(meter)],
            depth: 0,
            n_loops: 0,
            line: 1,
        }
    }

    /// Renders the template with variables, which `value_of` makes where they are used.
    pub(super) fn render(
        &mut self,
        value_of: &mut dyn FnMut(&str) -> Result<Option<Value>>,
    ) -> Result<String> {
        for (name, text) in self.program.names.iter().enumerate() {
            if let Some(value) = value_of(text)? {
                self.frames[0].set(name as Name, value)?;
            }
        }
        self.block(&self.program.body)?;
        Ok(self.out.pop().map_or_else(String::new, TextBuilder::into_string))
    }

    /// Begins an evaluation inside another.
    pub(super) fn enter(&mut self) -> Result<()> {
        self.meter.steps(1)?;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Fault::Limit(format!("nests deeper than {MAX_DEPTH} calls")));
        }
        Ok(())
    }

    pub(super) fn leave(&mut self) {
        self.depth -= 1;
    }

    // Variables

    fn lookup(&mut self, name: Name) -> Result<Value> {
        let inner = self.frames.get(self.base.max(1)..).unwrap_or_default();
        self.meter.steps(inner.len() / 8)?;
        let found = inner.iter().rev().find_map(|frame| frame.values.get(&name));
        let found = found
            .or_else(|| self.around.as_ref()?.values.get(&name))
            .or_else(|| self.frames[0].values.get(&name));
        if let Some(value) = found {
            return Ok(value.clone());
        }
        Ok(match self.program.names[name as usize].as_str() {
            "range" => Value::Function("range"),
            "dict" => Value::Function("dict"),
            "namespace" => Value::Function("namespace"),
            "raise_exception" => Value::Function("raise_exception"),
            "strftime_now" if self.now.is_some() => Value::Function("strftime_now"),
            _ => Value::Undefined,
        })
    }

    fn set(&mut self, name: Name, value: Value) -> Result<()> {
        match self.frames.last_mut() {
            Some(frame) => frame.set(name, value),
            None => Ok(()),
        }
    }

    fn assign(&mut self, target: &Target, value: Value) -> Result<()> {
        match target {
            Target::Names(names) => self.unpack(names, value),
            Target::Attribute(name, attribute) => match self.lookup(*name)? {
                Value::Namespace(row) => {
                    self.namespaces[row].set(String::from(&**attribute), value)
                }
                other => failed(format!("{} has no attributes to set", other.kind())),
            },
        }
    }

    fn unpack(&mut self, names: &[Name], value: Value) -> Result<()> {
        match names {
            [] => Ok(()),
            [name] => self.set(*name, value),
            _ => {
                let items = value.items(&self.meter)?;
                if items.len() != names.len() {
                    let (n, wanted) = (items.len(), names.len());
                    return failed(format!("{n} values stand where {wanted} must"));
                }
                names.iter().zip(&*items).try_for_each(|(name, item)| self.set(*name, item.clone()))
            }
        }
    }

    /// Runs something with variables of its own.
    fn scoped<T>(&mut self, run: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.frames.push(Frame::new(&self.meter));
        let out = run(self)?;
        self.frames.pop();
        Ok(out)
    }

    /// What something writes, as a value.
    fn captured(&mut self, run: impl FnOnce(&mut Self) -> Result<()>) -> Result<Value> {
        self.out.push(TextBuilder::new(&self.meter));
        run(self)?;
        match self.out.pop() {
            Some(text) => text.finish(),
            None => Ok(Value::Undefined),
        }
    }

    fn write(&mut self, text: &str) -> Result<()> {
        match self.out.last_mut() {
            Some(out) => out.push(text),
            None => Ok(()),
        }
    }

    // Statements

    fn block(&mut self, body: &'a [Stmt]) -> Result<Flow> {
        self.enter()?;
        for stmt in body {
            let flow = self.statement(stmt)?;
            if flow != Flow::Next {
                self.leave();
                return Ok(flow);
            }
        }
        self.leave();
        Ok(Flow::Next)
    }

    fn statement(&mut self, stmt: &'a Stmt) -> Result<Flow> {
        self.meter.steps(1)?;
        match stmt {
            Stmt::Data(text) => self.write(text)?,
            Stmt::Emit(node) => {
                let value = self.eval(node)?;
                if let Some(out) = self.out.last_mut() {
                    write_str(&value, out)?;
                }
            }
            Stmt::If(branches) => {
                for (condition, body) in branches {
                    let holds = match condition {
                        Some(condition) => self.eval(condition)?.is_true(),
                        None => true,
                    };
                    if holds {
                        return self.block(body);
                    }
                }
            }
            Stmt::For(each) => return self.run_for(each),
            Stmt::Set(target, node) => {
                let value = self.eval(node)?;
                self.assign(target, value)?;
            }
            Stmt::SetBlock(target, body) => {
                let text = self.captured(|run| run.scoped(|run| run.block(body).map(drop)))?;
                self.assign(target, text)?;
            }
            Stmt::With(variables, body) => {
                return self.scoped(|run| {
                    for (name, node) in variables {
                        let value = run.eval(node)?;
                        run.set(*name, value)?;
                    }
                    run.block(body)
                });
            }
            Stmt::Filter(filters, body) => {
                let mut text = self.captured(|run| run.scoped(|run| run.block(body).map(drop)))?;
                for call in filters {
                    let args = self.arguments(&call.arguments)?;
                    text = self.filter(&call.name, &text, &args)?;
                }
                if let Some(out) = self.out.last_mut() {
                    write_str(&text, out)?;
                }
            }
            Stmt::Macro(definition) => {
                let closure = self.close_over(*definition)?;
                self.set(self.program.macros[*definition].name, closure)?;
            }
            Stmt::Call(call, definition) => {
                let caller = self.close_over(*definition)?;
                let text = self.call(call, Some(caller))?;
                if let Some(out) = self.out.last_mut() {
                    write_str(&text, out)?;
                }
            }
            Stmt::Break => return Ok(Flow::Break),
            Stmt::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::Next)
    }

    fn run_for(&mut self, each: &'a For) -> Result<Flow> {
        let mut items = self.eval(&each.items)?.items(&self.meter)?;
        if let Some(condition) = &each.condition {
            let mut kept = Builder::new(&self.meter);
            for item in &*items {
                let keep = self.scoped(|run| {
                    run.unpack(&each.targets, item.clone())?;
                    Ok(run.eval(condition)?.is_true())
                })?;
                if keep {
                    kept.push(item.clone())?;
                }
            }
            items = kept.list()?;
        }
        if items.is_empty() {
            return self.block(&each.otherwise);
        }
        self.n_loops += 1;
        for (index, item) in items.iter().enumerate() {
            self.meter.steps(1)?;
            let flow = self.scoped(|run| {
                if let Some(name) = run.program.loop_name {
                    let state = Loop { items: items.clone(), index, depth: run.n_loops };
                    run.set(name, Value::Loop(Arc::new(state)))?;
                }
                run.unpack(&each.targets, item.clone())?;
                run.block(&each.body)
            })?;
            if flow == Flow::Break {
                break;
            }
        }
        self.n_loops -= 1;
        Ok(Flow::Next)
    }

    /// A macro with the variables it sees here; the template's own are looked up when it runs.
    fn close_over(&mut self, definition: usize) -> Result<Value> {
        let mut around = Frame::new(&self.meter);
        let outer = self.around.clone();
        let frames = self.frames.get(self.base.max(1)..).unwrap_or_default();
        for frame in outer.as_deref().into_iter().chain(frames) {
            for (name, value) in &frame.values {
                self.meter.steps(1)?;
                around.set(*name, value.clone())?;
            }
        }
        around.lease.grow(VARIABLE_BYTES)?;
        self.closures.push(Closure { definition, around: Arc::new(around) });
        Ok(Value::Macro(self.closures.len() - 1))
    }

    // Expressions

    fn eval(&mut self, node: &'a Node) -> Result<Value> {
        self.enter()?;
        self.line = node.line;
        let value = match &*node.expr {
            Expr::Const(value) => value.clone(),
            Expr::Name(name) => self.lookup(*name)?,
            Expr::Attribute(value, name) => {
                let value = self.eval(value)?;
                self.attribute(&value, name)?
            }
            Expr::Item(value, key) => {
                let (value, key) = (self.eval(value)?, self.eval(key)?);
                self.item(&value, &key)?
            }
            Expr::Call(..) => self.call(node, None)?,
            Expr::Filter(value, call) => self.eval_filter(value, call)?,
            Expr::Test(value, call, negated) => {
                let value = self.eval(value)?;
                Value::Bool(self.eval_test(&value, call)? != *negated)
            }
            Expr::Not(value) => Value::Bool(!self.eval(value)?.is_true()),
            Expr::And(a, b) => {
                let a = self.eval(a)?;
                if a.is_true() { self.eval(b)? } else { a }
            }
            Expr::Or(a, b) => {
                let a = self.eval(a)?;
                if a.is_true() { a } else { self.eval(b)? }
            }
            Expr::If(condition, then, otherwise) => {
                if self.eval(condition)?.is_true() {
                    self.eval(then)?
                } else {
                    otherwise.as_ref().map_or(Ok(Value::Undefined), |node| self.eval(node))?
                }
            }
            Expr::Binary(Operator::Concat, ..) => {
                let mut out = TextBuilder::new(&self.meter);
                self.concat(node, &mut out)?;
                out.finish()?
            }
            Expr::Binary(op, a, b) => {
                let (a, b) = (self.eval(a)?, self.eval(b)?);
                binary(*op, &a, &b, &self.meter)?
            }
            other => self.eval_rare(other)?,
        };
        self.leave();
        Ok(value)
    }

    /// What is less often inside other expressions: kept apart, for a small frame of `eval`.
    #[inline(never)]
    fn eval_rare(&mut self, expr: &'a Expr) -> Result<Value> {
        match expr {
            Expr::List(nodes) => {
                let mut out = Builder::new(&self.meter);
                for node in nodes {
                    out.push(self.eval(node)?)?;
                }
                out.finish()
            }
            Expr::Map(entries) => {
                let mut out = Builder::new(&self.meter);
                for (key, value) in entries {
                    let (key, value) = (self.eval(key)?, self.eval(value)?);
                    out.insert(key, value)?;
                }
                out.finish()
            }
            Expr::Slice(value, parts) => {
                let value = self.eval(value)?;
                let mut bounds = [None; 3];
                for (bound, part) in bounds.iter_mut().zip(parts) {
                    if let Some(part) = part {
                        let part = self.eval(part)?;
                        *bound = match part {
                            Value::None => None,
                            part => Some(part.as_int()?),
                        };
                    }
                }
                slice(&value, bounds, &self.meter)
            }
            Expr::Negative(value) => match self.eval(value)? {
                Value::Float(value) => Ok(Value::Float(-value)),
                value => value
                    .as_int()?
                    .checked_neg()
                    .map_or_else(|| failed("a number is too large"), |value| Ok(Value::Int(value))),
            },
            Expr::Compare(first, rest) => {
                let mut left = self.eval(first)?;
                for (op, node) in rest {
                    let right = self.eval(node)?;
                    if !compare(*op, &left, &right, &self.meter)? {
                        return Ok(Value::Bool(false));
                    }
                    left = right;
                }
                Ok(Value::Bool(true))
            }
            _ => Ok(Value::Undefined),
        }
    }

    /// `a ~ b ~ c` in one text: templates that collect a prompt so would copy it for each part.
    #[inline(never)]
    fn concat(&mut self, node: &'a Node, out: &mut TextBuilder) -> Result<()> {
        let Expr::Binary(Operator::Concat, a, b) = &*node.expr else {
            return write_str(&self.eval(node)?, out);
        };
        self.enter()?;
        self.concat(a, out)?;
        self.concat(b, out)?;
        self.leave();
        Ok(())
    }

    #[inline(never)]
    fn eval_filter(&mut self, value: &'a Node, call: &'a FilterCall) -> Result<Value> {
        let value = self.eval(value)?;
        let args = self.arguments(&call.arguments)?;
        self.filter(&call.name, &value, &args)
    }

    #[inline(never)]
    fn eval_test(&mut self, value: &Value, call: &'a FilterCall) -> Result<bool> {
        let args = self.arguments(&call.arguments)?;
        self.test(&call.name, value, &args)
    }

    #[inline(never)]
    fn arguments(&mut self, arguments: &'a Arguments) -> Result<Args<'a>> {
        let mut args = Args::default();
        for node in &arguments.values {
            args.values.push(self.eval(node)?);
        }
        for (name, node) in &arguments.named {
            args.named.push((name, self.eval(node)?));
        }
        Ok(args)
    }

    /// `value.name`
    pub(super) fn attribute(&mut self, value: &Value, name: &str) -> Result<Value> {
        let found = match value {
            Value::Undefined => {
                return failed(format!("an undefined value has no attribute `{}`", short(name)));
            }
            Value::Map(map) => map.get_text(&self.meter, name)?.cloned(),
            Value::Namespace(row) => self.namespaces[*row].values.get(name).cloned(),
            Value::Loop(state) => loop_attribute(state, name),
            _ => None,
        };
        Ok(found.unwrap_or(Value::Undefined))
    }

    /// `value[key]`
    pub(super) fn item(&mut self, value: &Value, key: &Value) -> Result<Value> {
        match (value, key) {
            (Value::Undefined, _) => failed("an undefined value has no items"),
            (Value::Map(map), key) => {
                Ok(map.get(&self.meter, key)?.cloned().unwrap_or(Value::Undefined))
            }
            (Value::List(items), key @ (Value::Int(_) | Value::Float(_) | Value::Bool(_))) => {
                let at = from_end(key.as_int()?, items.len());
                Ok(at.and_then(|at| items.get(at)).cloned().unwrap_or(Value::Undefined))
            }
            (Value::Text(text), Value::Int(at)) => {
                self.meter.text(text.len())?;
                let c = from_end(*at, text.chars().count()).and_then(|at| text.chars().nth(at));
                c.map_or(Ok(Value::Undefined), |c| {
                    Value::text(c.encode_utf8(&mut [0; 4]), &self.meter)
                })
            }
            (value, Value::Text(name)) => self.attribute(value, name),
            _ => Ok(Value::Undefined),
        }
    }
}

fn loop_attribute(state: &Loop, name: &str) -> Option<Value> {
    let (at, n) = (state.index, state.items.len());
    let int = |value: usize| Some(Value::Int(value as i64));
    match name {
        "index" => int(at + 1),
        "index0" => int(at),
        "revindex" => int(n - at),
        "revindex0" => int(n - at - 1),
        "first" => Some(Value::Bool(at == 0)),
        "last" => Some(Value::Bool(at + 1 == n)),
        "length" => int(n),
        "depth" => int(state.depth),
        "depth0" => int(state.depth - 1),
        "previtem" => state.items.get(at.wrapping_sub(1)).cloned(),
        "nextitem" => state.items.get(at + 1).cloned(),
        _ => None,
    }
}

/// A place that may count from the end.
fn from_end(at: i64, len: usize) -> Option<usize> {
    usize::try_from(if at < 0 { at.saturating_add(len as i64) } else { at }).ok()
}
