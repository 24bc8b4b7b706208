//! Filters and tests.

use super::ast::{Comparison, Operator};
use super::eval::Run;
use super::meter::{Lease, Meter, Result, failed};
use super::methods::{
    change_case, has_case, items, join, method, printf, replace, short, split, strip,
};
use super::operators::{binary, compare};
use super::print::{JsonStyle, write_escaped, write_json, write_str};
use super::value::{Builder, List, TextBuilder, Value};
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Ordering;

/// The arguments of a call.
#[derive(Default)]
pub(super) struct Args<'a> {
    pub(super) values: Vec<Value>,
    pub(super) named: Vec<(&'a str, Value)>,
}

impl Args<'_> {
    /// An argument by its place or its name.
    pub(super) fn get(&self, at: usize, name: &str) -> Option<&Value> {
        self.values.get(at).or_else(|| self.named(name))
    }

    pub(super) fn named(&self, name: &str) -> Option<&Value> {
        self.named.iter().find(|(given, _)| *given == name).map(|(_, value)| value)
    }

    pub(super) fn need(&self, at: usize, name: &str) -> Result<&Value> {
        match self.get(at, name) {
            Some(value) => Ok(value),
            None => failed(format!("the argument `{name}` is missing")),
        }
    }

    fn is_true(&self, at: usize, name: &str) -> bool {
        self.get(at, name).is_some_and(Value::is_true)
    }
}

impl<'a> Run<'a> {
    /// `value | name(arguments)`
    pub(super) fn filter(&mut self, name: &str, value: &Value, args: &Args<'_>) -> Result<Value> {
        // `map` and `select` apply filters and tests in turn.
        self.enter()?;
        let meter = self.meter.clone();
        let out = match name {
            "map" => self.map(value, args)?,
            "select" | "reject" => self.select(value, None, args, name == "select")?,
            "selectattr" | "rejectattr" => {
                let attribute = args.need(0, "attribute")?.clone();
                self.select(value, Some(&attribute), args, name == "selectattr")?
            }
            "attr" => self.attribute_path(value, args.need(0, "name")?)?,
            "sort" => self.sort(value, args)?,
            "unique" => self.unique(value, args)?,
            "min" | "max" => self.extreme(value, name == "max")?,
            "sum" => self.sum(value, args)?,
            "groupby" => self.group_by(value, args)?,
            "dictsort" => self.sort_map(value, args)?,
            _ => text_filter(name, value, args, &meter)?,
        };
        self.leave();
        Ok(out)
    }

    /// The attribute a filter is given, `a.b` or a number.
    fn attribute_path(&mut self, value: &Value, path: &Value) -> Result<Value> {
        let Value::Text(path) = path else { return self.item(value, path) };
        let mut value = value.clone();
        for part in path.split('.') {
            value = match (&value, part.parse::<i64>()) {
                (Value::List(_), Ok(index)) => self.item(&value, &Value::Int(index))?,
                (Value::Undefined, _) => Value::Undefined,
                _ => self.attribute(&value, part)?,
            };
        }
        Ok(value)
    }

    fn map(&mut self, value: &Value, args: &Args<'_>) -> Result<Value> {
        let meter = self.meter.clone();
        // Jinja asks first whether there is something: of none it makes an empty list.
        if !value.is_true() {
            return Value::list([], &meter);
        }
        let mut out = Builder::new(&meter);
        let list = value.items(&meter)?;
        if let Some(attribute) = args.named("attribute") {
            for item in &*list {
                let mut found = self.attribute_path(item, attribute)?;
                if let (Value::Undefined, Some(default)) = (&found, args.named("default")) {
                    found = default.clone();
                }
                out.push(found)?;
            }
            return out.finish();
        }
        let name = args.need(0, "filter")?.as_text()?.clone();
        let rest = rest_of(args, 1);
        for item in &*list {
            out.push(self.filter(&name, item, &rest)?)?;
        }
        out.finish()
    }

    /// The elements that pass a test, or whose attribute does.
    fn select(
        &mut self,
        value: &Value,
        attribute: Option<&Value>,
        args: &Args<'_>,
        keep: bool,
    ) -> Result<Value> {
        let meter = self.meter.clone();
        let at = usize::from(attribute.is_some());
        let test = match args.values.get(at) {
            Some(name) => Some(name.as_text()?.clone()),
            None => None,
        };
        let rest = rest_of(args, at + 1);
        if !value.is_true() {
            return Value::list([], &meter); // as `map`
        }
        let mut out = Builder::new(&meter);
        for item in &*value.items(&meter)? {
            let subject = match attribute {
                Some(attribute) => self.attribute_path(item, attribute)?,
                None => item.clone(),
            };
            let passes = match &test {
                Some(test) => self.test(test, &subject, &rest)?,
                None => subject.is_true(),
            };
            if passes == keep {
                out.push(item.clone())?;
            }
        }
        out.finish()
    }

    /// What elements are sorted by: themselves or an attribute, texts in lower case.
    fn keys(&mut self, list: &List, args: &Args<'_>) -> Result<Vec<(Value, Value)>> {
        let meter = self.meter.clone();
        let mut keys = Vec::new();
        for item in &**list {
            meter.steps(2)?;
            let key = match args.named("attribute") {
                Some(attribute) => self.attribute_path(item, attribute)?,
                None => item.clone(),
            };
            keys.push((fold_case(key, args, &meter)?, item.clone()));
        }
        Ok(keys)
    }

    fn sort(&mut self, value: &Value, args: &Args<'_>) -> Result<Value> {
        let meter = self.meter.clone();
        let list = value.items(&meter)?;
        let mut lease = Lease::new(&meter);
        lease.grow(list.len() * 2 * size_of::<(Value, Value)>())?;
        let keys = self.keys(&list, args)?;
        let sorted = sorted(keys, args.is_true(0, "reverse"), &meter)?;
        Value::list(sorted.into_iter().map(|(_, item)| item), &meter)
    }

    fn sort_map(&mut self, value: &Value, args: &Args<'_>) -> Result<Value> {
        let meter = self.meter.clone();
        let Value::Map(map) = value else {
            return failed(format!("{} has no keys and values", value.kind()));
        };
        let by_value = matches!(args.get(1, "by"), Some(Value::Text(by)) if &**by == "value");
        let mut lease = Lease::new(&meter);
        lease.grow(map.len() * 2 * size_of::<(Value, Value)>())?;
        let mut keys = Vec::new();
        for (key, value) in &**map {
            meter.steps(2)?;
            let by = if by_value { value } else { key };
            let pair = Value::list([key.clone(), value.clone()], &meter)?;
            keys.push((fold_case(by.clone(), args, &meter)?, pair));
        }
        let sorted = sorted(keys, args.is_true(2, "reverse"), &meter)?;
        Value::list(sorted.into_iter().map(|(_, pair)| pair), &meter)
    }

    fn unique(&mut self, value: &Value, args: &Args<'_>) -> Result<Value> {
        let meter = self.meter.clone();
        let list = value.items(&meter)?;
        let mut lease = Lease::new(&meter);
        lease.grow(list.len() * 3 * size_of::<Value>())?;
        let (mut seen, mut out) = (Vec::new(), Builder::new(&meter));
        for (key, item) in self.keys(&list, args)? {
            let mut is_new = true;
            for other in &seen {
                if key.same(other, &meter)? {
                    is_new = false;
                    break;
                }
            }
            if is_new {
                seen.push(key);
                out.push(item)?;
            }
        }
        out.finish()
    }

    fn group_by(&mut self, value: &Value, args: &Args<'_>) -> Result<Value> {
        let meter = self.meter.clone();
        let list = value.items(&meter)?;
        let attribute = args.need(0, "attribute")?.clone();
        let by = Args { values: Vec::new(), named: alloc::vec![("attribute", attribute.clone())] };
        let mut lease = Lease::new(&meter);
        lease.grow(list.len() * 2 * size_of::<(Value, Value)>())?;
        let keys = sorted(self.keys(&list, &by)?, false, &meter)?;
        let mut out = Builder::new(&meter);
        let mut at = 0;
        while at < keys.len() {
            let mut group = Builder::new(&meter);
            let from = at;
            while at < keys.len() && keys[at].0.same(&keys[from].0, &meter)? {
                group.push(keys[at].1.clone())?;
                at += 1;
            }
            let name = self.attribute_path(&keys[from].1, &attribute)?;
            out.push(Value::list([name, group.finish()?], &meter)?)?;
            // A key that is not its own like, NaN.
            at = at.max(from + 1);
        }
        out.finish()
    }

    fn extreme(&mut self, value: &Value, largest: bool) -> Result<Value> {
        let mut best = Value::Undefined;
        for item in &*value.items(&self.meter)? {
            let wanted = if largest { Ordering::Greater } else { Ordering::Less };
            if matches!(best, Value::Undefined) || item.order(&best, &self.meter)? == wanted {
                best = item.clone();
            }
        }
        Ok(best)
    }

    fn sum(&mut self, value: &Value, args: &Args<'_>) -> Result<Value> {
        let mut sum = args.get(1, "start").cloned().unwrap_or(Value::Int(0));
        for item in &*value.items(&self.meter)? {
            let item = match args.get(0, "attribute") {
                Some(attribute) => self.attribute_path(item, attribute)?,
                None => item.clone(),
            };
            sum = binary(Operator::Add, &sum, &item, &self.meter)?;
        }
        Ok(sum)
    }

    /// `value is name(arguments)`
    pub(super) fn test(&mut self, name: &str, value: &Value, args: &Args<'_>) -> Result<bool> {
        let meter = &self.meter;
        meter.steps(1)?;
        let compared = |op| compare(op, value, args.need(0, "other")?, meter);
        let parity = || Ok(value.as_int()?.rem_euclid(2));
        Ok(match name {
            "defined" => !matches!(value, Value::Undefined),
            "undefined" => matches!(value, Value::Undefined),
            "none" => matches!(value, Value::None),
            "boolean" => matches!(value, Value::Bool(_)),
            "true" => matches!(value, Value::Bool(true)),
            "false" => matches!(value, Value::Bool(false)),
            "string" => matches!(value, Value::Text(_)),
            "number" => matches!(value, Value::Int(_) | Value::Float(_) | Value::Bool(_)),
            "integer" | "int" => matches!(value, Value::Int(_)),
            "float" => matches!(value, Value::Float(_)),
            "mapping" => matches!(value, Value::Map(_)),
            "sequence" | "iterable" => {
                matches!(value, Value::List(_) | Value::Map(_) | Value::Text(_) | Value::Undefined)
            }
            "callable" => matches!(value, Value::Macro(_) | Value::Function(_)),
            "odd" => parity()? == 1,
            "even" => parity()? == 0,
            "divisibleby" => match args.need(0, "num")?.as_int()? {
                0 => return failed("division by zero"),
                by => value.as_int()?.checked_rem(by).unwrap_or(0) == 0,
            },
            "eq" | "equalto" | "==" | "sameas" => compared(Comparison::Equal)?,
            "ne" | "!=" => compared(Comparison::NotEqual)?,
            "lt" | "lessthan" | "<" => compared(Comparison::Less)?,
            "le" | "<=" => compared(Comparison::LessEqual)?,
            "gt" | "greaterthan" | ">" => compared(Comparison::Greater)?,
            "ge" | ">=" => compared(Comparison::GreaterEqual)?,
            "in" => compared(Comparison::In)?,
            "lower" | "upper" => {
                let text = value.as_text()?;
                meter.text(text.len())?;
                has_case(text, name == "upper")
            }
            "startingwith" => method(value, "startswith", args, meter)?.is_true(),
            "endingwith" => method(value, "endswith", args, meter)?.is_true(),
            "safe" | "escaped" => false,
            _ => return failed(format!("there is no test `{}`", short(name))),
        })
    }
}

/// Filters that call nothing of the template's.
fn text_filter(name: &str, value: &Value, args: &Args<'_>, meter: &Arc<Meter>) -> Result<Value> {
    let as_string = |value: &Value| -> Result<Value> {
        if let Value::Text(_) = value {
            return Ok(value.clone());
        }
        let mut out = TextBuilder::new(meter);
        write_str(value, &mut out)?;
        out.finish()
    };
    match name {
        "tojson" => to_json(value, args, meter),
        "string" | "safe" => as_string(value),
        "trim" => strip(as_string(value)?.as_text()?, args.get(0, "chars"), true, true, meter),
        "upper" | "lower" | "capitalize" | "title" => {
            change_case(as_string(value)?.as_text()?, name, meter)
        }
        "replace" => {
            let count = args.get(2, "count").map_or(Ok(-1), Value::as_int)?;
            let (old, new) = (args.need(0, "old")?, args.need(1, "new")?);
            replace(as_string(value)?.as_text()?, old, &as_string(new)?, count, meter)
        }
        "split" => {
            let most = args.get(1, "maxsplit").map_or(Ok(-1), Value::as_int)?;
            split(value.as_text()?, args.get(0, "sep"), most, false, meter)
        }
        "join" => join_filter(value, args, meter),
        "indent" => indent(as_string(value)?.as_text()?, args, meter),
        "escape" | "e" => {
            let mut out = TextBuilder::new(meter);
            write_escaped(as_string(value)?.as_text()?, &mut out, &|c| match c {
                '&' => Some("&amp;"),
                '<' => Some("&lt;"),
                '>' => Some("&gt;"),
                '"' => Some("&#34;"),
                '\'' => Some("&#39;"),
                _ => None,
            })?;
            out.finish()
        }
        "format" => printf(value.as_text()?, &args.values, meter),
        "default" | "d" => {
            let missing = match value {
                Value::Undefined => true,
                value => args.is_true(1, "boolean") && !value.is_true(),
            };
            if !missing {
                return Ok(value.clone());
            }
            args.get(0, "default_value").map_or_else(|| Value::text("", meter), |v| Ok(v.clone()))
        }
        "length" | "count" => Ok(Value::Int(match value {
            Value::Text(text) => {
                meter.text(text.len())?;
                text.chars().count()
            }
            Value::Map(map) => map.len(),
            value => value.items(meter)?.len(),
        } as i64)),
        "list" => Ok(Value::List(value.items(meter)?)),
        "items" => match value {
            Value::Undefined => Value::list([], meter),
            value => items(value, meter),
        },
        "first" | "last" => {
            if let Value::Text(text) = value {
                let c =
                    if name == "first" { text.chars().next() } else { text.chars().next_back() };
                return c.map_or(Ok(Value::Undefined), |c| {
                    Value::text(c.encode_utf8(&mut [0; 4]), meter)
                });
            }
            let items = value.items(meter)?;
            let found = if name == "first" { items.first() } else { items.last() };
            Ok(found.cloned().unwrap_or(Value::Undefined))
        }
        "reverse" => match value {
            Value::Text(_) => super::operators::slice(value, [None, None, Some(-1)], meter),
            value => Value::list(value.items(meter)?.iter().rev().cloned(), meter),
        },
        "batch" | "slice" => in_pieces(value, args, name == "batch", meter),
        "abs" => match value {
            Value::Float(value) => Ok(Value::Float(value.abs())),
            value => match value.as_int()?.checked_abs() {
                Some(value) => Ok(Value::Int(value)),
                None => failed("a number is too large"),
            },
        },
        "int" | "float" => to_number(value, args, name == "int", meter),
        "bool" => Ok(Value::Bool(value.is_true())),
        "round" => round(value, args),
        _ => failed(format!("there is no filter `{}`", short(name))),
    }
}

fn to_json(value: &Value, args: &Args<'_>, meter: &Arc<Meter>) -> Result<Value> {
    let indent = match args.named("indent") {
        None | Some(Value::None) => None,
        Some(indent) => Some(usize::try_from(indent.as_int()?).unwrap_or(0)),
    };
    let separators = match args.named("separators") {
        Some(Value::List(pair)) if pair.len() == 2 => {
            Some((pair[0].as_text()?.clone(), pair[1].as_text()?.clone()))
        }
        _ => None,
    };
    let separators = match &separators {
        Some((item, key)) => (&**item, &**key),
        None if indent.is_some() => (",", ": "),
        None => (", ", ": "),
    };
    let style = JsonStyle { indent, separators, ascii: args.is_true(usize::MAX, "ensure_ascii") };
    let mut out = TextBuilder::new(meter);
    write_json(value, &style, 0, &mut out)?;
    out.finish()
}

fn join_filter(value: &Value, args: &Args<'_>, meter: &Arc<Meter>) -> Result<Value> {
    let between = match args.get(0, "d") {
        Some(between) => between.as_text()?.clone(),
        None => Value::text("", meter)?.as_text()?.clone(),
    };
    let list = value.items(meter)?;
    let Some(attribute) = args.get(1, "attribute") else { return join(&list, &between, meter) };
    let attribute = attribute.as_text()?;
    let mut parts = Builder::new(meter);
    for item in &*list {
        let found = match item {
            Value::Map(map) => map.get_text(meter, attribute)?.cloned(),
            _ => None,
        };
        parts.push(found.unwrap_or(Value::Undefined))?;
    }
    join(&parts.list()?, &between, meter)
}

/// Blanks, or a text, before every line but the first and those that are empty.
fn indent(text: &str, args: &Args<'_>, meter: &Arc<Meter>) -> Result<Value> {
    let (first, blank) = (args.is_true(1, "first"), args.is_true(2, "blank"));
    let mut out = TextBuilder::new(meter);
    for (i, line) in text.split('\n').enumerate() {
        if i > 0 {
            out.push("\n")?;
        }
        if (i > 0 || first) && (blank || !line.is_empty()) {
            match args.get(0, "width") {
                Some(Value::Text(width)) => out.push(width)?,
                Some(width) => out.pad(usize::try_from(width.as_int()?).unwrap_or(0))?,
                None => out.pad(4)?,
            }
        }
        out.push(line)?;
    }
    out.finish()
}

/// `batch`: lists of so many elements; `slice`: so many lists. Short ones may be filled up.
fn in_pieces(value: &Value, args: &Args<'_>, batch: bool, meter: &Arc<Meter>) -> Result<Value> {
    let list = value.items(meter)?;
    let n = usize::try_from(args.need(0, "count")?.as_int()?).unwrap_or(0);
    if n == 0 {
        return failed("the count must be 1 or more");
    }
    let fill = args.get(1, "fill_with");
    let mut out = Builder::new(meter);
    let n_pieces = if batch { list.len().div_ceil(n) } else { n };
    let mut from = 0;
    for piece in 0..n_pieces {
        let (len, full) = if batch {
            (n.min(list.len() - from), n)
        } else {
            let extra = usize::from(piece < list.len() % n);
            (list.len() / n + extra, list.len().div_ceil(n))
        };
        let mut items = Builder::new(meter);
        list[from..from + len].iter().try_for_each(|item| items.push(item.clone()))?;
        if let Some(fill) = fill {
            for _ in len..full {
                items.push(fill.clone())?;
            }
        }
        out.push(items.finish()?)?;
        from += len;
    }
    out.finish()
}

fn to_number(value: &Value, args: &Args<'_>, whole: bool, meter: &Arc<Meter>) -> Result<Value> {
    let parsed = match value {
        Value::Text(text) => {
            meter.text(text.len())?;
            let text = text.trim();
            match text.parse::<i64>() {
                Ok(value) => Some(Value::Int(value)),
                Err(_) => text.parse::<f64>().ok().map(Value::Float),
            }
        }
        value => value.as_float().map(|_| value.clone()),
    };
    Ok(match parsed {
        Some(Value::Float(value)) if whole => Value::Int(value as i64),
        Some(Value::Bool(value)) if whole => Value::Int(i64::from(value)),
        Some(value) if whole => value,
        Some(value) => Value::Float(value.as_float().unwrap_or(0.0)),
        None => match args.get(0, "default") {
            Some(default) => default.clone(),
            None if whole => Value::Int(0),
            None => Value::Float(0.0),
        },
    })
}

fn round(value: &Value, args: &Args<'_>) -> Result<Value> {
    let Some(number) = value.as_float() else {
        return failed(format!("{} cannot be rounded", value.kind()));
    };
    let places = args.get(0, "precision").map_or(Ok(0), Value::as_int)?.clamp(-300, 300);
    let scale = libm::pow(10.0, places as f64);
    let scaled = number * scale;
    let rounded = match args.get(1, "method") {
        Some(Value::Text(how)) if &**how == "ceil" => libm::ceil(scaled),
        Some(Value::Text(how)) if &**how == "floor" => libm::floor(scaled),
        _ => libm::rint(scaled),
    };
    Ok(Value::Float(if rounded.is_finite() { rounded / scale } else { number }))
}

/// Arguments from a place on, for a filter or test that another one calls.
fn rest_of<'a>(args: &Args<'a>, from: usize) -> Args<'a> {
    let values = args.values.iter().skip(from).cloned().collect();
    let names = args.named.iter().filter(|(name, _)| *name != "attribute");
    Args { values, named: names.cloned().collect() }
}

/// Texts in lower case, unless the arguments ask for `case_sensitive`.
fn fold_case(key: Value, args: &Args<'_>, meter: &Arc<Meter>) -> Result<Value> {
    match &key {
        Value::Text(text) if !args.named("case_sensitive").is_some_and(Value::is_true) => {
            change_case(text, "lower", meter)
        }
        _ => Ok(key),
    }
}

/// Pairs by their first values; equal ones keep their order. The library's sort cannot stop in the
/// middle, and may panic where an order is none.
fn sorted(
    mut pairs: Vec<(Value, Value)>,
    reverse: bool,
    meter: &Arc<Meter>,
) -> Result<Vec<(Value, Value)>> {
    let mut width = 1;
    while width < pairs.len() {
        let mut out = Vec::with_capacity(pairs.len());
        for run in pairs.chunks(2 * width) {
            let (mut a, mut b) = run.split_at(width.min(run.len()));
            while let ([first, ..], [second, ..]) = (a, b) {
                let order = first.0.order(&second.0, meter)?;
                let take_b = if reverse { order.is_lt() } else { order.is_gt() };
                let from = if take_b { &mut b } else { &mut a };
                out.push(from[0].clone());
                *from = &from[1..];
            }
            out.extend_from_slice(a);
            out.extend_from_slice(b);
        }
        meter.steps(pairs.len())?;
        pairs = out;
        width *= 2;
    }
    Ok(pairs)
}
