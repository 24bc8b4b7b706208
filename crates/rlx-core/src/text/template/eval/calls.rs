//! Calls: of methods, macros and functions of ours.

use super::super::ast::{Expr, Node};
use super::super::date::strftime;
use super::super::filters::Args;
use super::super::meter::{Fault, Lease, Result, failed};
use super::super::methods::{method, short};
use super::super::print::write_str;
use super::super::value::{Builder, Text, TextBuilder, Value};
use super::{Closure, Frame, Run, VARIABLE_BYTES};
use alloc::format;
use alloc::string::String;
use core::mem::take;

impl<'a> Run<'a> {
    /// A call, with the body of `{% call %}` where there is one.
    #[inline(never)]
    pub(super) fn call(&mut self, node: &'a Node, caller: Option<Value>) -> Result<Value> {
        let Expr::Call(callee, arguments) = &*node.expr else { return Ok(Value::Undefined) };
        if let Expr::Attribute(owner, name) = &*callee.expr {
            let owner = self.eval(owner)?;
            let mut args = self.arguments(arguments)?;
            args.named.extend(caller.map(|caller| ("caller", caller)));
            return self.call_method(&owner, name, &args);
        }
        let function = self.eval(callee)?;
        let mut args = self.arguments(arguments)?;
        args.named.extend(caller.map(|caller| ("caller", caller)));
        match function {
            Value::Macro(row) => self.call_macro(row, args),
            Value::Function(name) => self.call_function(name, &args),
            other => match &*callee.expr {
                Expr::Name(name) => {
                    failed(format!("`{}` is not a function", self.program.names[*name as usize]))
                }
                _ => failed(format!("{} is not a function", other.kind())),
            },
        }
    }

    fn call_method(&mut self, owner: &Value, name: &Text, args: &Args<'a>) -> Result<Value> {
        match owner {
            Value::Undefined => {
                failed(format!("an undefined value has no method `{}`", short(name)))
            }
            Value::Loop(state) if &**name == "cycle" => {
                let n = args.values.len();
                let at = state.index.checked_rem(n).unwrap_or(0);
                Ok(args.values.get(at).cloned().unwrap_or(Value::Undefined))
            }
            Value::Map(_) | Value::Namespace(_) => match self.attribute(owner, name)? {
                Value::Macro(row) => {
                    let args = Args { values: args.values.clone(), named: args.named.clone() };
                    self.call_macro(row, args)
                }
                Value::Function(function) => self.call_function(function, args),
                _ => method(owner, name, args, &self.meter),
            },
            owner => method(owner, name, args, &self.meter),
        }
    }

    #[inline(never)]
    fn call_macro(&mut self, row: usize, mut args: Args<'_>) -> Result<Value> {
        let Closure { definition, around } = &self.closures[row];
        let definition = &self.program.macros[*definition];
        let around = Some(around.clone());
        if args.values.len() > definition.parameters.len() {
            let name = &self.program.names[definition.name as usize];
            return failed(format!("`{name}` has fewer parameters than it is given"));
        }
        let base = core::mem::replace(&mut self.base, self.frames.len());
        let outside = core::mem::replace(&mut self.around, around);
        let text = self.captured(|run| {
            run.scoped(|run| {
                // The macro itself, wherever it was defined.
                run.set(definition.name, Value::Macro(row))?;
                let mut values = take(&mut args.values).into_iter();
                for (name, default) in &definition.parameters {
                    let text = &run.program.names[*name as usize];
                    let named = args.named.iter().position(|(given, _)| *given == text.as_str());
                    let value = match (values.next(), named, default) {
                        (Some(value), ..) => value,
                        (_, Some(at), _) => args.named.swap_remove(at).1,
                        (_, _, Some(default)) => run.eval(default)?,
                        _ => Value::Undefined,
                    };
                    run.set(*name, value)?;
                }
                for (given, value) in take(&mut args.named) {
                    if given != "caller" {
                        return failed(format!("there is no parameter `{given}`"));
                    }
                    if let Some(name) = run.program.caller_name {
                        run.set(name, value)?;
                    }
                }
                run.block(&definition.body).map(drop)
            })
        })?;
        self.base = base;
        self.around = outside;
        Ok(text)
    }

    #[inline(never)]
    fn call_function(&mut self, name: &str, args: &Args<'_>) -> Result<Value> {
        match name {
            "range" => {
                let bound = |at: usize| args.values.get(at).map(Value::as_int).transpose();
                let (from, to) = match (bound(0)?, bound(1)?) {
                    (Some(from), Some(to)) => (from, to),
                    (to, _) => (0, to.unwrap_or(0)),
                };
                let step = bound(2)?.unwrap_or(1);
                if step == 0 {
                    return failed("a range has the step 0");
                }
                let mut out = Builder::new(&self.meter);
                let mut at = from;
                while if step > 0 { at < to } else { at > to } {
                    out.push(Value::Int(at))?;
                    let Some(next) = at.checked_add(step) else { break };
                    at = next;
                }
                out.finish()
            }
            "dict" => {
                let mut out = Builder::new(&self.meter);
                if let Some(Value::Map(map)) = args.values.first() {
                    for (key, value) in &**map {
                        out.push((key.clone(), value.clone()))?;
                    }
                }
                for (name, value) in &args.named {
                    out.insert(Value::text(name, &self.meter)?, value.clone())?;
                }
                out.finish()
            }
            "namespace" => {
                let mut space = Frame::new(&self.meter);
                space.lease.grow(VARIABLE_BYTES)?;
                if let Some(Value::Map(map)) = args.values.first() {
                    for (key, value) in &**map {
                        self.meter.copy(key.as_text()?.len())?;
                        space.lease.grow(key.as_text()?.len())?;
                        space.set(String::from(&**key.as_text()?), value.clone())?;
                    }
                }
                for (name, value) in &args.named {
                    space.lease.grow(name.len())?;
                    space.set(String::from(*name), value.clone())?;
                }
                self.namespaces.push(space);
                Ok(Value::Namespace(self.namespaces.len() - 1))
            }
            "raise_exception" => {
                let mut out = TextBuilder::new(&self.meter);
                args.values.first().map_or(Ok(()), |value| write_str(value, &mut out))?;
                Err(Fault::Raised(out.into_string()))
            }
            "strftime_now" => {
                let format = args.need(0, "format")?.as_text()?;
                // A directive of two characters becomes some ten at most.
                self.meter.text(format.len().saturating_mul(16))?;
                let mut lease = Lease::new(&self.meter);
                lease.grow(format.len().saturating_mul(16))?;
                Value::text(&strftime(format, self.now.unwrap_or(0)), &self.meter)
            }
            _ => Ok(Value::Undefined),
        }
    }
}
