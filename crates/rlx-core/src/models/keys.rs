//! Keys of a checkpoint's configuration, read strictly: what was asked for is remembered, and what
//! nobody asked for is an error that names it. A file is understood or refused, never nearly understood.

use crate::error::{Code, Error, Result};
use crate::gguf::{Array, Metadata, Value};
use crate::safetensors::json::{Json, member};
use alloc::borrow::ToOwned;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::RefCell;

/// Layers a model may have: a file that says more is damaged, and costs no memory.
const LAYERS_MAX: u64 = 1 << 12;

/// The keys of one model: those of its architecture in a GGUF file, or all of a `config.json`.
///
/// Names are without the architecture: `attention.head_count`, of a `config.json` as they stand there.
#[derive(Clone)]
pub struct Keys<'a> {
    source: Source<'a>,
    /// What stands before each name in the file, with its dot.
    prefix: String,
    /// Whole names that somebody asked for, or that are known to change nothing.
    asked: Rc<RefCell<BTreeSet<String>>>,
}

#[derive(Clone, Copy)]
enum Source<'a> {
    Gguf(&'a Metadata),
    /// Members, and the file's name in errors.
    Json(&'a [(String, Json)], &'a str),
}

/// A key that this family reads only to see that it changes nothing: its name, the value that does
/// so (false is 0, true is 1), and what another one would change.
pub type Neutral = (&'static str, f64, &'static str);

impl<'a> Keys<'a> {
    /// The keys of an architecture in a GGUF file's metadata.
    pub fn gguf(metadata: &'a Metadata, architecture: &str) -> Self {
        let prefix = format!("{architecture}.");
        Keys { source: Source::Gguf(metadata), prefix, asked: Rc::default() }
    }

    /// The keys of a configuration in a file of that name.
    ///
    /// # Errors
    /// `BadFile` for what is no object.
    pub fn json(config: &'a Json, file: &'a str) -> Result<Self> {
        let members = config
            .as_object()
            .ok_or_else(|| Error::bad_file("the configuration is no JSON object").at(file))?;
        Ok(Keys {
            source: Source::Json(members, file),
            prefix: String::new(),
            asked: Rc::default(),
        })
    }

    /// The object at a key of a `config.json`, whose keys are read as strictly. `None` where there is
    /// none, and always in a GGUF file, which has no objects.
    ///
    /// # Errors
    /// `BadFile` where the key holds something else.
    pub fn object(&self, name: &str) -> Result<Option<Keys<'a>>> {
        let Some(value) = self.member(name) else { return Ok(None) };
        let (Json::Object(members), Source::Json(_, file)) = (value, self.source) else {
            return Err(self.wrong(name, "an object"));
        };
        let prefix = format!("{}{name}.", self.prefix);
        Ok(Some(Keys { source: Source::Json(members, file), prefix, asked: self.asked.clone() }))
    }

    /// Whether these are keys of a GGUF file.
    pub fn is_gguf(&self) -> bool {
        matches!(self.source, Source::Gguf(_))
    }

    /// One of two names: that in GGUF files, or that in transformers' configurations.
    pub fn word<'n>(&self, gguf: &'n str, json: &'n str) -> &'n str {
        match self.source {
            Source::Gguf(_) => gguf,
            Source::Json(..) => json,
        }
    }

    /// The name as the file has it.
    fn whole(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// The name as the file has it, and remembers that it was asked for.
    fn ask(&self, name: &str) -> String {
        let whole = self.whole(name);
        self.asked.borrow_mut().insert(whole.clone());
        whole
    }

    /// A member of a `config.json`; null is as good as absent.
    fn member(&self, name: &str) -> Option<&'a Json> {
        self.ask(name);
        match self.source {
            Source::Gguf(_) => None,
            Source::Json(members, _) => member(members, name).filter(|v| **v != Json::Null),
        }
    }

    /// Whether somebody asked for that key.
    pub fn was_asked(&self, name: &str) -> bool {
        self.asked.borrow().contains(&self.whole(name))
    }

    /// Whether the file has a value at that key.
    pub fn has(&self, name: &str) -> bool {
        let whole = self.ask(name);
        match self.source {
            Source::Gguf(meta) => meta.get(&whole).is_some(),
            Source::Json(..) => self.member(name).is_some(),
        }
    }

    /// The error for a key that must be there and is not.
    fn missing(&self, name: &str) -> Error {
        match self.source {
            Source::Gguf(meta) => meta.missing(&self.whole(name)),
            Source::Json(_, file) => Error::bad_file(format!("{} is missing", self.whole(name)))
                .at(file)
                .hint("use the config.json that belongs to the weights"),
        }
    }

    fn wrong(&self, name: &str, need: &str) -> Error {
        self.bad(name, format!("{} is not {need}", self.whole(name)))
    }

    /// A `BadFile` error about the value of a key.
    pub fn bad(&self, name: &str, what: impl Into<String>) -> Error {
        match self.source {
            Source::Gguf(meta) => meta.bad_value(&self.whole(name), what),
            Source::Json(_, file) => Error::bad_file(what).at(file),
        }
    }

    /// An `Unsupported` error about the value of a key: what it would change, and what to do.
    pub fn unsupported(&self, name: &str, what: impl Into<String>, hint: &str) -> Error {
        let mut error = self.bad(name, what).hint(hint);
        error.code = Code::Unsupported;
        error
    }

    /// A non-negative integer below 2^32 that may be absent.
    ///
    /// # Errors
    /// `BadFile` where the key holds something else.
    pub fn opt_u64(&self, name: &str) -> Result<Option<u64>> {
        match self.source {
            Source::Gguf(meta) => Ok(meta.opt_u32(&self.ask(name))?.map(u64::from)),
            Source::Json(..) => match self.member(name) {
                None => Ok(None),
                Some(value) => {
                    let n = value.as_u64().filter(|&n| n <= u64::from(u32::MAX));
                    n.map(Some).ok_or_else(|| self.wrong(name, "a non-negative integer"))
                }
            },
        }
    }

    /// An integer of 1 or more that may be absent.
    ///
    /// # Errors
    /// `BadFile` where the key holds something else.
    pub fn opt_positive(&self, name: &str) -> Result<Option<u64>> {
        match self.opt_u64(name)? {
            Some(0) => Err(self.bad(name, format!("{} is 0", self.whole(name)))),
            n => Ok(n),
        }
    }

    /// An integer of 1 or more.
    ///
    /// # Errors
    /// `BadFile` where the key is missing or holds something else.
    pub fn positive(&self, name: &str) -> Result<u64> {
        self.opt_positive(name)?.ok_or_else(|| self.missing(name))
    }

    /// The number of layers at a key.
    ///
    /// # Errors
    /// As [`positive`](Self::positive), and for more than any model has.
    pub fn layers(&self, name: &str) -> Result<u64> {
        match self.positive(name)? {
            n if n > LAYERS_MAX => Err(self.bad(
                name,
                format!("{} is {n}, at most {LAYERS_MAX} layers are read", self.whole(name)),
            )),
            n => Ok(n),
        }
    }

    /// A finite number that may be absent.
    ///
    /// # Errors
    /// `BadFile` where the key holds something else.
    pub fn opt_f64(&self, name: &str) -> Result<Option<f64>> {
        let number = match self.source {
            Source::Gguf(meta) => meta.opt_f32(&self.ask(name))?.map(f64::from),
            Source::Json(..) => match self.member(name) {
                None => None,
                Some(v) => Some(v.as_f64().ok_or_else(|| self.wrong(name, "a number"))?),
            },
        };
        match number {
            Some(x) if !(x.is_finite() && (x as f32).is_finite()) => {
                Err(self.wrong(name, "a finite number"))
            }
            number => Ok(number),
        }
    }

    /// A finite number that may be absent, as f32.
    ///
    /// # Errors
    /// As [`opt_f64`](Self::opt_f64).
    pub fn opt_f32(&self, name: &str) -> Result<Option<f32>> {
        Ok(self.opt_f64(name)?.map(|x| x as f32))
    }

    /// A finite number.
    ///
    /// # Errors
    /// `BadFile` where the key is missing or holds something else.
    pub fn f32(&self, name: &str) -> Result<f32> {
        self.opt_f32(name)?.ok_or_else(|| self.missing(name))
    }

    /// A number above 0 that may be absent.
    ///
    /// # Errors
    /// As [`opt_f64`](Self::opt_f64), and for 0 and below.
    pub fn opt_above_zero(&self, name: &str) -> Result<Option<f32>> {
        match self.opt_f32(name)? {
            Some(x) if x <= 0.0 => Err(self.wrong(name, "above 0")),
            x => Ok(x),
        }
    }

    /// A number above 0.
    ///
    /// # Errors
    /// As [`opt_above_zero`](Self::opt_above_zero), and where the key is missing.
    pub fn above_zero(&self, name: &str) -> Result<f32> {
        self.opt_above_zero(name)?.ok_or_else(|| self.missing(name))
    }

    /// A truth value that may be absent.
    ///
    /// # Errors
    /// `BadFile` where the key holds something else.
    pub fn opt_bool(&self, name: &str) -> Result<Option<bool>> {
        match self.source {
            Source::Gguf(meta) => meta.opt_bool(&self.ask(name)),
            Source::Json(..) => match self.member(name) {
                None => Ok(None),
                Some(v) => v.as_bool().map(Some).ok_or_else(|| self.wrong(name, "true or false")),
            },
        }
    }

    /// A string that may be absent.
    ///
    /// # Errors
    /// `BadFile` where the key holds something else.
    pub fn opt_str(&self, name: &str) -> Result<Option<&'a str>> {
        match self.source {
            Source::Gguf(meta) => meta.opt_str(&self.ask(name)),
            Source::Json(..) => match self.member(name) {
                None => Ok(None),
                Some(v) => v.as_str().map(Some).ok_or_else(|| self.wrong(name, "a string")),
            },
        }
    }

    /// Numbers that may be absent.
    ///
    /// # Errors
    /// `BadFile` where the key holds something else, or a number that is not finite.
    pub fn opt_f64s(&self, name: &str) -> Result<Option<Vec<f64>>> {
        let list: Option<Vec<f64>> = match self.source {
            Source::Gguf(meta) => meta
                .opt_f32s(&self.ask(name))?
                .map(|list| list.iter().map(|&x| f64::from(x)).collect()),
            Source::Json(..) => match self.list(name)? {
                None => None,
                Some(list) => Some(
                    list.iter()
                        .map(|x| x.as_f64().ok_or_else(|| self.wrong(name, "a list of numbers")))
                        .collect::<Result<_>>()?,
                ),
            },
        };
        match list {
            Some(list) if list.iter().any(|x| !(*x as f32).is_finite()) => {
                Err(self.wrong(name, "a list of finite numbers"))
            }
            list => Ok(list),
        }
    }

    /// Strings of a `config.json` that may be absent.
    ///
    /// # Errors
    /// `BadFile` where the key holds something else.
    pub fn opt_strs(&self, name: &str) -> Result<Option<Vec<&'a str>>> {
        let Some(list) = self.list(name)? else { return Ok(None) };
        let strings = list.iter().map(Json::as_str).collect::<Option<Vec<_>>>();
        strings.map(Some).ok_or_else(|| self.wrong(name, "a list of strings"))
    }

    /// Non-negative integers of a `config.json` that may be absent.
    ///
    /// # Errors
    /// `BadFile` where the key holds something else.
    pub fn opt_u64s(&self, name: &str) -> Result<Option<Vec<u64>>> {
        let Some(list) = self.list(name)? else { return Ok(None) };
        let numbers = list.iter().map(Json::as_u64).collect::<Option<Vec<_>>>();
        numbers.map(Some).ok_or_else(|| self.wrong(name, "a list of non-negative integers"))
    }

    fn list(&self, name: &str) -> Result<Option<&'a [Json]>> {
        match self.member(name) {
            None => Ok(None),
            Some(v) => v.as_array().map(Some).ok_or_else(|| self.wrong(name, "a list")),
        }
    }

    /// A number of every layer: one for all, or a list with one each. Absent: nothing.
    ///
    /// # Errors
    /// `BadFile` for a list of another length and for what are no non-negative integers.
    pub fn per_layer(&self, name: &str, layers: u64) -> Result<Option<Vec<u64>>> {
        let list: Vec<u64> = match self.source {
            Source::Gguf(meta) => match meta.opt_u32s(&self.ask(name))? {
                None => return Ok(None),
                Some(list) => list.into_iter().map(u64::from).collect(),
            },
            Source::Json(..) => match self.member(name) {
                None => return Ok(None),
                Some(Json::Array(list)) => {
                    let n = |x: &Json| x.as_u64().filter(|&n| n <= u64::from(u32::MAX));
                    let list: Option<Vec<u64>> = list.iter().map(n).collect();
                    list.ok_or_else(|| self.wrong(name, "a list of non-negative integers"))?
                }
                Some(_) => self.opt_u64(name)?.into_iter().collect(),
            },
        };
        let is_list = match self.source {
            Source::Gguf(meta) => {
                meta.get(&self.whole(name)).is_some_and(|e| matches!(e.value, Value::Array(_)))
            }
            Source::Json(..) => matches!(self.member(name), Some(Json::Array(_))),
        };
        if !is_list {
            return Ok(list.first().map(|&n| alloc::vec![n; layers as usize]));
        }
        self.one_each(name, list.len(), layers)?;
        Ok(Some(list))
    }

    /// The same for numbers of 1 or more.
    ///
    /// # Errors
    /// As [`per_layer`](Self::per_layer), and for a 0.
    pub fn opt_each(&self, name: &str, layers: u64) -> Result<Option<Vec<u64>>> {
        let list = self.per_layer(name, layers)?;
        if let Some(i) = list.iter().flatten().position(|&n| n == 0) {
            let whole = self.whole(name);
            return Err(self.bad(name, format!("{whole} is 0 in layer {i}")));
        }
        Ok(list)
    }

    /// The same for a key that must be there.
    ///
    /// # Errors
    /// As [`opt_each`](Self::opt_each), and where the key is missing.
    pub fn each(&self, name: &str, layers: u64) -> Result<Vec<u64>> {
        self.opt_each(name, layers)?.ok_or_else(|| self.missing(name))
    }

    /// Truth values of a GGUF file, one a layer. `None` where the key is absent or no list of them.
    ///
    /// # Errors
    /// `BadFile` for a list of another length.
    pub fn opt_bools(&self, name: &str, layers: u64) -> Result<Option<Vec<bool>>> {
        let whole = self.ask(name);
        let Source::Gguf(meta) = self.source else { return Ok(None) };
        match meta.get(&whole).map(|e| &e.value) {
            Some(Value::Array(Array::Bool(list))) => {
                self.one_each(name, list.len(), layers)?;
                Ok(Some(list.clone()))
            }
            _ => Ok(None),
        }
    }

    /// An error unless a list has one value a layer.
    pub fn one_each(&self, name: &str, values: usize, layers: u64) -> Result<()> {
        if values as u64 == layers {
            return Ok(());
        }
        let whole = self.whole(name);
        Err(self.bad(name, format!("{whole} has {values} values for {layers} layers")))
    }

    /// Reads keys of which this family has one value only.
    ///
    /// # Errors
    /// `Unsupported` for another value, saying what it would change.
    pub fn neutral(&self, keys: &[Neutral]) -> Result<()> {
        for &(name, neutral, changes) in keys {
            let whole = self.ask(name);
            let (value, text) = match self.source {
                Source::Gguf(meta) => match meta.get(&whole).map(|e| &e.value) {
                    None => continue,
                    Some(value) => gguf_number(value),
                },
                Source::Json(..) => match self.member(name) {
                    None => continue,
                    Some(value) => json_number(value),
                },
            };
            if value != Some(neutral) {
                return Err(self.unsupported(
                    name,
                    format!("{whole} is {text}: it {changes}, which is not supported"),
                    "use a model without it, or another runtime",
                ));
            }
        }
        Ok(())
    }

    /// Marks keys whose value never changes what the model computes.
    pub fn inert(&self, names: &[&str]) {
        for name in names {
            self.ask(name);
        }
    }

    /// Fails for a key of the model that nobody asked for.
    ///
    /// # Errors
    /// `Unsupported` naming the key and its value: results might differ from what its maker meant.
    pub fn finish(&self) -> Result<()> {
        let asked = self.asked.borrow();
        match self.source {
            Source::Gguf(meta) => {
                for (key, entry) in meta.iter().filter(|(key, _)| key.starts_with(&self.prefix)) {
                    if !asked.contains(key) {
                        return Err(self.unread(key, &gguf_number(&entry.value).1));
                    }
                }
            }
            Source::Json(members, _) => self.finish_object(members, &self.prefix, &asked)?,
        }
        Ok(())
    }

    /// The same of an object: members of objects that were opened are looked at too.
    fn finish_object(
        &self,
        members: &[(String, Json)],
        prefix: &str,
        asked: &BTreeSet<String>,
    ) -> Result<()> {
        for (key, value) in members {
            let whole = format!("{prefix}{key}");
            let empty = match value {
                Json::Null => true,
                Json::Array(list) => list.is_empty(),
                Json::Object(members) => members.is_empty(),
                _ => false,
            };
            if !asked.contains(&whole) {
                if empty {
                    continue;
                }
                return Err(self.unread(&whole, &json_number(value).1));
            }
            let inner = format!("{whole}.");
            let opened = asked.range(inner.clone()..).next().is_some_and(|k| k.starts_with(&inner));
            if let (Json::Object(members), true) = (value, opened) {
                self.finish_object(members, &inner, asked)?;
            }
        }
        Ok(())
    }

    fn unread(&self, whole: &str, value: &str) -> Error {
        let what = format!("{whole} is {value}, and this version does not know what it changes");
        let name = whole.strip_prefix(&self.prefix).unwrap_or(whole);
        self.unsupported(
            name,
            what,
            "update RLX; results without it would not be those of the model's maker",
        )
    }
}

/// A value as a number, if it is one or a truth value, and as an error shows it.
fn gguf_number(value: &Value) -> (Option<f64>, String) {
    match value {
        Value::Bool(v) => (Some(f64::from(u8::from(*v))), v.to_string()),
        Value::F32(v) => (Some(f64::from(*v)), v.to_string()),
        Value::F64(v) => (Some(*v), v.to_string()),
        Value::String(v) => (None, quoted(v)),
        other => match other.as_integer() {
            Some(n) => (Some(n as f64), n.to_string()),
            None => (None, other.type_name().to_string()),
        },
    }
}

fn json_number(value: &Json) -> (Option<f64>, String) {
    match value {
        Json::Null => (None, "null".to_owned()),
        Json::Bool(v) => (Some(f64::from(u8::from(*v))), v.to_string()),
        Json::Integer(v) => (Some(*v as f64), v.to_string()),
        Json::Float(v) => (Some(*v), v.to_string()),
        Json::String(v) => (None, quoted(v)),
        Json::Array(_) => (None, "a list".to_owned()),
        Json::Object(_) => (None, "an object".to_owned()),
    }
}

/// A string of the file, its beginning if it is long.
fn quoted(text: &str) -> String {
    const SHOWN: usize = 40;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}
