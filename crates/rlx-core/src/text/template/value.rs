//! Values of a template: shared, never changed, and paid for.

use super::input::TemplateValue;
use super::meter::{Fault, Lease, MAX_HEIGHT, Meter, Result, failed};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::ops::Deref;

/// What an allocation costs besides its elements: the allocator's, `Arc`'s and the lease's words.
const HEADER_BYTES: usize = 64;

/// A value.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// A name or an attribute that is not there.
    Undefined,
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Text),
    /// Lists and tuples.
    List(List),
    Map(Map),
    /// A row of the run's table of namespaces.
    Namespace(usize),
    /// A row of the run's table of macros: the definition, and the variables around it.
    Macro(usize),
    /// A function of ours.
    Function(&'static str),
    /// What `loop` is in a loop.
    Loop(Arc<Loop>),
}

/// Where a loop is.
#[derive(Debug)]
pub(super) struct Loop {
    pub(super) items: List,
    pub(super) index: usize,
    pub(super) depth: usize,
}

#[derive(Debug)]
struct Leased<T> {
    value: T,
    height: u8,
    _lease: Lease,
}

/// A text.
#[derive(Clone, Debug)]
pub(super) struct Text(Arc<Leased<String>>);

impl Text {
    /// A text of the template itself, which its length bounds.
    pub(super) fn constant(text: &str) -> Self {
        Self(Arc::new(Leased { value: text.into(), height: 0, _lease: Lease::default() }))
    }
}

impl Deref for Text {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0.value
    }
}

/// A list or a tuple.
#[derive(Clone, Debug)]
pub(super) struct List(Arc<Leased<Vec<Value>>>);

impl Deref for List {
    type Target = [Value];
    fn deref(&self) -> &[Value] {
        &self.0.value
    }
}

/// Keys and values in the order they were given.
#[derive(Clone, Debug)]
pub(super) struct Map(Arc<Leased<Vec<(Value, Value)>>>);

impl Deref for Map {
    type Target = [(Value, Value)];
    fn deref(&self) -> &[(Value, Value)] {
        &self.0.value
    }
}

impl Map {
    pub(super) fn get(&self, meter: &Meter, key: &Value) -> Result<Option<&Value>> {
        for (name, value) in &**self {
            if name.same(key, meter)? {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    /// The value of a key that is a text.
    pub(super) fn get_text(&self, meter: &Meter, key: &str) -> Result<Option<&Value>> {
        meter.steps(self.len())?;
        for (name, value) in &**self {
            if let Value::Text(name) = name
                && same_text(name, key, meter)?
            {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }
}

fn same_text(a: &str, b: &str, meter: &Meter) -> Result<bool> {
    if a.len() != b.len() {
        return Ok(false);
    }
    meter.text(a.len())?;
    Ok(a == b)
}

/// A text that grows.
pub(super) struct TextBuilder {
    meter: Arc<Meter>,
    text: String,
    lease: Lease,
}

impl TextBuilder {
    pub(super) fn new(meter: &Arc<Meter>) -> Self {
        Self { meter: meter.clone(), text: String::new(), lease: Lease::new(meter) }
    }

    /// Pays for `n` more bytes and makes room for them.
    fn reserve(&mut self, n: usize) -> Result<()> {
        self.meter.copy(n)?;
        let needed = self.text.len().saturating_add(n);
        if needed > self.text.capacity() {
            let capacity = needed.max(self.text.capacity() * 2);
            self.lease.resize(capacity.saturating_add(HEADER_BYTES))?;
            let more = capacity - self.text.len();
            self.text.try_reserve_exact(more).map_err(|_| no_memory())?;
        }
        Ok(())
    }

    pub(super) fn push(&mut self, text: &str) -> Result<()> {
        self.reserve(text.len())?;
        self.text.push_str(text);
        Ok(())
    }

    pub(super) fn push_char(&mut self, c: char) -> Result<()> {
        self.push(c.encode_utf8(&mut [0; 4]))
    }

    /// `n` blanks.
    pub(super) fn pad(&mut self, n: usize) -> Result<()> {
        self.reserve(n)?;
        self.text.extend(core::iter::repeat_n(' ', n));
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<Value> {
        if self.text.capacity() == 0 {
            self.lease.resize(HEADER_BYTES)?;
        }
        let inner = Leased { value: self.text, height: 0, _lease: self.lease };
        Ok(Value::Text(Text(Arc::new(inner))))
    }

    /// The text alone, at the end of the run.
    pub(super) fn into_string(self) -> String {
        self.text
    }
}

fn no_memory() -> Fault {
    Fault::Limit("needs more memory than there is".into())
}

/// Elements that grow in number.
pub(super) struct Builder<T> {
    meter: Arc<Meter>,
    items: Vec<T>,
    lease: Lease,
}

impl<T> Builder<T> {
    pub(super) fn new(meter: &Arc<Meter>) -> Self {
        Self { meter: meter.clone(), items: Vec::new(), lease: Lease::new(meter) }
    }

    pub(super) fn push(&mut self, item: T) -> Result<()> {
        self.meter.steps(1)?;
        if self.items.len() == self.items.capacity() {
            let capacity = (self.items.capacity() * 2).max(4);
            self.lease.resize(capacity * size_of::<T>() + HEADER_BYTES)?;
            let more = capacity - self.items.len();
            self.items.try_reserve_exact(more).map_err(|_| no_memory())?;
        }
        self.items.push(item);
        Ok(())
    }

    pub(super) fn items(&mut self) -> &mut Vec<T> {
        &mut self.items
    }

    fn leased(mut self, height: u8) -> Result<Arc<Leased<Vec<T>>>> {
        if height > MAX_HEIGHT {
            let what = format!("nests lists deeper than {MAX_HEIGHT}");
            return Err(Fault::Limit(what));
        }
        if self.items.capacity() == 0 {
            self.lease.resize(HEADER_BYTES)?;
        }
        Ok(Arc::new(Leased { value: self.items, height, _lease: self.lease }))
    }
}

impl Builder<Value> {
    pub(super) fn list(self) -> Result<List> {
        let height = self.items.iter().map(Value::height).max().unwrap_or(0);
        self.leased(height + 1).map(List)
    }

    pub(super) fn finish(self) -> Result<Value> {
        self.list().map(Value::List)
    }
}

impl Builder<(Value, Value)> {
    /// Sets a key, which may be there.
    pub(super) fn insert(&mut self, key: Value, value: Value) -> Result<()> {
        if !key.is_scalar() {
            return failed(format!("{} cannot be a key of a map", key.kind()));
        }
        for at in 0..self.items.len() {
            if self.items[at].0.same(&key, &self.meter)? {
                self.items[at].1 = value;
                return Ok(());
            }
        }
        self.push((key, value))
    }

    pub(super) fn finish(self) -> Result<Value> {
        let heights = self.items.iter().map(|(_, value)| value.height());
        let height = heights.max().unwrap_or(0);
        self.leased(height + 1).map(|map| Value::Map(Map(map)))
    }
}

impl Value {
    /// A text of these bytes.
    pub(super) fn text(text: &str, meter: &Arc<Meter>) -> Result<Self> {
        let mut out = TextBuilder::new(meter);
        out.push(text)?;
        out.finish()
    }

    /// A list of these values.
    pub(super) fn list(items: impl IntoIterator<Item = Self>, meter: &Arc<Meter>) -> Result<Self> {
        let mut out = Builder::new(meter);
        items.into_iter().try_for_each(|item| out.push(item))?;
        out.finish()
    }

    pub(super) fn from_json(json: &TemplateValue, meter: &Arc<Meter>) -> Result<Self> {
        Ok(match json {
            TemplateValue::Null => Self::None,
            TemplateValue::Bool(value) => Self::Bool(*value),
            TemplateValue::Int(value) => Self::Int(*value),
            TemplateValue::Float(value) => Self::Float(*value),
            TemplateValue::Text(text) => Self::text(text, meter)?,
            TemplateValue::List(items) => {
                let mut out = Builder::new(meter);
                for item in items {
                    out.push(Self::from_json(item, meter)?)?;
                }
                out.finish()?
            }
            TemplateValue::Map(entries) => {
                let mut out = Builder::new(meter);
                for (key, value) in entries {
                    // The keys of an object differ: no search.
                    out.push((Self::text(key, meter)?, Self::from_json(value, meter)?))?;
                }
                out.finish()?
            }
        })
    }

    fn height(&self) -> u8 {
        match self {
            Self::List(list) => list.0.height,
            Self::Map(map) => map.0.height,
            // It holds the list; only a list made of `loop` itself could grow by it.
            Self::Loop(state) => state.items.0.height + 1,
            _ => 0,
        }
    }

    /// What it is, in messages.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Undefined => "an undefined value",
            Self::None => "none",
            Self::Bool(_) => "a boolean",
            Self::Int(_) | Self::Float(_) => "a number",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
            Self::Namespace(_) => "a namespace",
            Self::Macro(_) | Self::Function(_) => "a function",
            Self::Loop(_) => "a loop",
        }
    }

    fn is_scalar(&self) -> bool {
        matches!(self, Self::None | Self::Bool(_) | Self::Int(_) | Self::Float(_) | Self::Text(_))
    }

    pub(super) fn is_true(&self) -> bool {
        match self {
            Self::Undefined | Self::None => false,
            Self::Bool(value) => *value,
            Self::Int(value) => *value != 0,
            Self::Float(value) => *value != 0.0,
            Self::Text(text) => !text.is_empty(),
            Self::List(list) => !list.is_empty(),
            Self::Map(map) => !map.is_empty(),
            Self::Namespace(_) | Self::Macro(_) | Self::Function(_) | Self::Loop(_) => true,
        }
    }

    pub(super) fn as_text(&self) -> Result<&Text> {
        match self {
            Self::Text(text) => Ok(text),
            other => failed(format!("{} stands where a text must", other.kind())),
        }
    }

    pub(super) fn as_int(&self) -> Result<i64> {
        match self {
            Self::Int(value) => Ok(*value),
            Self::Bool(value) => Ok(i64::from(*value)),
            Self::Float(value) if value.fract() == 0.0 && value.abs() < 9e15 => Ok(*value as i64),
            other => failed(format!("{} stands where a whole number must", other.kind())),
        }
    }

    pub(super) fn as_float(&self) -> Option<f64> {
        match self {
            Self::Int(value) => Some(*value as f64),
            Self::Bool(value) => Some(f64::from(u8::from(*value))),
            Self::Float(value) => Some(*value),
            _ => None,
        }
    }

    /// Whether two values are equal, as Python has it: `1 == 1.0 == true`.
    pub(super) fn same(&self, other: &Self, meter: &Meter) -> Result<bool> {
        meter.steps(1)?;
        Ok(match (self, other) {
            (Self::Undefined, Self::Undefined) | (Self::None, Self::None) => true,
            (Self::Text(a), Self::Text(b)) => same_text(a, b, meter)?,
            (Self::Int(a), Self::Int(b)) => a == b,
            (Self::List(a), Self::List(b)) => {
                if a.len() != b.len() {
                    return Ok(false);
                }
                for (a, b) in a.iter().zip(&**b) {
                    if !a.same(b, meter)? {
                        return Ok(false);
                    }
                }
                true
            }
            (Self::Map(a), Self::Map(b)) => {
                if a.len() != b.len() {
                    return Ok(false);
                }
                for (key, value) in &**a {
                    let Some(other) = b.get(meter, key)? else { return Ok(false) };
                    if !value.same(other, meter)? {
                        return Ok(false);
                    }
                }
                true
            }
            (Self::Namespace(a), Self::Namespace(b)) | (Self::Macro(a), Self::Macro(b)) => a == b,
            (Self::Function(a), Self::Function(b)) => a == b,
            (a, b) => match (a.as_float(), b.as_float()) {
                (Some(a), Some(b)) => a == b,
                _ => false,
            },
        })
    }

    /// Which of two values comes first: numbers, texts, and lists of them.
    pub(super) fn order(&self, other: &Self, meter: &Meter) -> Result<Ordering> {
        meter.steps(1)?;
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => return Ok(a.cmp(b)),
            (Self::Text(a), Self::Text(b)) => {
                meter.text(a.len().min(b.len()))?;
                return Ok(a.cmp(b));
            }
            (Self::List(a), Self::List(b)) => {
                for (a, b) in a.iter().zip(&**b) {
                    let order = a.order(b, meter)?;
                    if order.is_ne() {
                        return Ok(order);
                    }
                }
                return Ok(a.len().cmp(&b.len()));
            }
            _ => {}
        }
        let numbers = self.as_float().zip(other.as_float());
        match numbers.map(|(a, b)| a.partial_cmp(&b)) {
            Some(order) => Ok(order.unwrap_or(Ordering::Equal)),
            None => failed(format!("{} and {} have no order", self.kind(), other.kind())),
        }
    }

    /// The elements that a loop visits: of a list, keys of a map, characters of a text.
    pub(super) fn items(&self, meter: &Arc<Meter>) -> Result<List> {
        let mut out = Builder::new(meter);
        match self {
            Self::List(list) => return Ok(list.clone()),
            Self::Undefined => {}
            Self::Map(map) => map.iter().try_for_each(|(key, _)| out.push(key.clone()))?,
            Self::Text(text) => {
                for c in text.chars() {
                    out.push(Self::text(c.encode_utf8(&mut [0; 4]), meter)?)?;
                }
            }
            other => return failed(format!("{} has no elements", other.kind())),
        }
        out.list()
    }

    /// A number as Python prints it.
    pub(super) fn number(value: f64) -> String {
        if value.is_nan() {
            "nan".into()
        } else if value.is_infinite() {
            if value > 0.0 { "inf".into() } else { "-inf".into() }
        } else if value != 0.0 && !(1e-4..1e16).contains(&value.abs()) {
            // Python's exponents have a sign and at least two digits.
            let text = format!("{value:e}");
            let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
            let exponent: i32 = exponent.parse().unwrap_or(0);
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.abs())
        } else if value.fract() == 0.0 {
            format!("{value:.1}")
        } else {
            value.to_string()
        }
    }
}
