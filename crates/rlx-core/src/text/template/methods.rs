//! Methods that Python's texts, maps and lists have.

use super::filters::Args;
use super::meter::{Meter, Result, failed};
use super::print::write_str;
use super::value::{Builder, Text, TextBuilder, Value};
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// `value.name(arguments)`
pub(super) fn method(
    value: &Value,
    name: &str,
    args: &Args<'_>,
    meter: &Arc<Meter>,
) -> Result<Value> {
    let found = match value {
        Value::Text(text) => text_method(text, name, args, meter)?,
        Value::Map(map) => match name {
            "get" => {
                let found = map.get(meter, args.need(0, "key")?)?;
                let other = || args.get(1, "default").cloned().unwrap_or(Value::None);
                Some(found.cloned().unwrap_or_else(other))
            }
            "items" => Some(items(value, meter)?),
            "keys" => Some(Value::list(map.iter().map(|(key, _)| key.clone()), meter)?),
            "values" => Some(Value::list(map.iter().map(|(_, value)| value.clone()), meter)?),
            "copy" => Some(value.clone()),
            _ => None,
        },
        Value::List(items) => match name {
            "count" | "index" => {
                let wanted = args.need(0, "value")?;
                let mut places = Vec::new();
                for (at, item) in items.iter().enumerate() {
                    if item.same(wanted, meter)? {
                        places.push(at as i64);
                    }
                }
                match (name, places.first()) {
                    ("count", _) => Some(Value::Int(places.len() as i64)),
                    (_, Some(at)) => Some(Value::Int(*at)),
                    _ => return failed("the list does not have this value"),
                }
            }
            "copy" => Some(value.clone()),
            _ => None,
        },
        _ => None,
    };
    match found {
        Some(value) => Ok(value),
        None => failed(format!("{} has no method `{}`", value.kind(), short(name))),
    }
}

/// Keys and values of a map, in pairs.
pub(super) fn items(value: &Value, meter: &Arc<Meter>) -> Result<Value> {
    let Value::Map(map) = value else {
        return failed(format!("{} has no keys and values", value.kind()));
    };
    let mut out = Builder::new(meter);
    for (key, value) in &**map {
        out.push(Value::list([key.clone(), value.clone()], meter)?)?;
    }
    out.finish()
}

fn text_method(
    text: &Text,
    name: &str,
    args: &Args<'_>,
    meter: &Arc<Meter>,
) -> Result<Option<Value>> {
    meter.text(text.len())?;
    let all = |test: fn(char) -> bool| Value::Bool(!text.is_empty() && text.chars().all(test));
    Ok(Some(match name {
        "upper" | "lower" | "capitalize" | "title" => change_case(text, name, meter)?,
        "strip" | "lstrip" | "rstrip" => {
            let (start, end) = (name != "rstrip", name != "lstrip");
            strip(text, args.get(0, "chars"), start, end, meter)?
        }
        "startswith" | "endswith" => {
            let wanted = args.need(0, "prefix")?;
            let is_affix = |part: &Value| -> Result<bool> {
                let part = part.as_text()?;
                meter.text(part.len().min(text.len()))?;
                let found = if name == "startswith" {
                    text.starts_with(&**part)
                } else {
                    text.ends_with(&**part)
                };
                Ok(found)
            };
            let parts = match wanted {
                Value::List(parts) => parts,
                part => core::slice::from_ref(part),
            };
            for part in parts {
                if is_affix(part)? {
                    return Ok(Some(Value::Bool(true)));
                }
            }
            Value::Bool(false)
        }
        "removeprefix" | "removesuffix" => {
            let part = args.need(0, "affix")?.as_text()?;
            meter.text(part.len().min(text.len()))?;
            let rest = if name == "removeprefix" {
                text.strip_prefix(&**part)
            } else {
                text.strip_suffix(&**part)
            };
            Value::text(rest.unwrap_or(text), meter)?
        }
        "replace" => {
            let count = args.get(2, "count").map_or(Ok(-1), Value::as_int)?;
            replace(text, args.need(0, "old")?, args.need(1, "new")?, count, meter)?
        }
        "split" | "rsplit" => {
            let most = args.get(1, "maxsplit").map_or(Ok(-1), Value::as_int)?;
            split(text, args.get(0, "sep"), most, name == "rsplit", meter)?
        }
        "splitlines" => {
            let mut out = Builder::new(meter);
            for line in text.lines() {
                out.push(Value::text(line, meter)?)?;
            }
            out.finish()?
        }
        "join" => join(&args.need(0, "iterable")?.items(meter)?, text, meter)?,
        "count" => {
            let part = args.need(0, "value")?.as_text()?;
            meter.text(part.len())?;
            Value::Int(text.matches(&**part).count() as i64)
        }
        "find" | "rfind" | "index" | "rindex" => {
            let part = args.need(0, "value")?.as_text()?;
            meter.text(part.len())?;
            let found =
                if name.starts_with('r') { text.rfind(&**part) } else { text.find(&**part) };
            match found {
                Some(at) => Value::Int(text[..at].chars().count() as i64),
                None if name.ends_with("find") => Value::Int(-1),
                None => return failed("the text does not have this part"),
            }
        }
        "format" => format_braces(text, args, meter)?,
        "isdigit" | "isnumeric" | "isdecimal" => all(char::is_numeric),
        "isalpha" => all(char::is_alphabetic),
        "isalnum" => all(char::is_alphanumeric),
        "isspace" => all(char::is_whitespace),
        "isascii" => Value::Bool(text.is_ascii()),
        "islower" | "isupper" => Value::Bool(has_case(text, name == "isupper")),
        _ => return Ok(None),
    }))
}

/// Whether a text has letters of one case and none of the other.
pub(super) fn has_case(text: &str, upper: bool) -> bool {
    let (any_lower, any_upper) =
        (text.chars().any(char::is_lowercase), text.chars().any(char::is_uppercase));
    if upper { any_upper && !any_lower } else { any_lower && !any_upper }
}

/// `upper`, `lower`, `capitalize` or `title`.
pub(super) fn change_case(text: &str, how: &str, meter: &Arc<Meter>) -> Result<Value> {
    // A character of its own at a time: its other case may be several.
    meter.steps(text.len() / 4)?;
    let mut out = TextBuilder::new(meter);
    let mut word_begins = true;
    let mut piece = alloc::string::String::new();
    for c in text.chars() {
        let upper = how == "upper" || (how != "lower" && word_begins);
        match upper {
            true => piece.extend(c.to_uppercase()),
            false => piece.extend(c.to_lowercase()),
        }
        word_begins = how == "title" && (c.is_whitespace() || "-({[<".contains(c));
        // By pieces: paying for each character would cost more than the work.
        if piece.len() >= 64 {
            out.push(&piece)?;
            piece.clear();
        }
    }
    out.push(&piece)?;
    out.finish()
}

/// A text without white space, or without some characters, at its ends.
pub(super) fn strip(
    text: &str,
    chars: Option<&Value>,
    start: bool,
    end: bool,
    meter: &Arc<Meter>,
) -> Result<Value> {
    let chars = match chars {
        None | Some(Value::None | Value::Undefined) => None,
        Some(chars) => Some(chars.as_text()?),
    };
    // Each character is looked for among all of them.
    meter.steps((1 + text.len() / 16).saturating_mul(1 + chars.map_or(0, |c| c.len() / 4)))?;
    let goes = |c: char| chars.map_or(c.is_whitespace(), |chars| chars.contains(c));
    let mut text = text;
    if start {
        text = text.trim_start_matches(goes);
    }
    if end {
        text = text.trim_end_matches(goes);
    }
    Value::text(text, meter)
}

/// At most `count` places of `old` become `new`; all if it is negative.
pub(super) fn replace(
    text: &str,
    old: &Value,
    new: &Value,
    count: i64,
    meter: &Arc<Meter>,
) -> Result<Value> {
    let (old, new) = (old.as_text()?, new.as_text()?);
    meter.text(text.len() + old.len())?;
    let mut out = TextBuilder::new(meter);
    let mut from = 0;
    let most = usize::try_from(count).unwrap_or(usize::MAX);
    for (at, found) in text.match_indices(&**old).take(most) {
        out.push(&text[from..at])?;
        out.push(new)?;
        from = at + found.len();
    }
    out.push(&text[from..])?;
    out.finish()
}

/// The parts between separators, or between white space; `most` splits at most.
pub(super) fn split(
    text: &str,
    separator: Option<&Value>,
    most: i64,
    from_end: bool,
    meter: &Arc<Meter>,
) -> Result<Value> {
    let n_parts = usize::try_from(most).map_or(usize::MAX, |n| n.saturating_add(1));
    let mut out = Builder::new(meter);
    let separator = match separator {
        None | Some(Value::None | Value::Undefined) => None,
        Some(separator) => Some(separator.as_text()?),
    };
    meter.text(text.len() + separator.map_or(0, |s| s.len()))?;
    let mut push = |part: &str| out.push(Value::text(part, meter)?);
    match separator {
        Some(separator) if separator.is_empty() => return failed("the separator is empty"),
        Some(separator) if from_end => {
            text.rsplitn(n_parts, &**separator).try_for_each(&mut push)?;
            out.items().reverse();
        }
        Some(separator) => text.splitn(n_parts, &**separator).try_for_each(&mut push)?,
        None => {
            let mut rest = text.trim_start();
            for n in 1.. {
                if rest.is_empty() {
                    break;
                }
                let cut = if n < n_parts { rest.find(char::is_whitespace) } else { None };
                let (part, tail) = rest.split_at(cut.unwrap_or(rest.len()));
                push(part)?;
                rest = tail.trim_start();
            }
        }
    }
    out.finish()
}

/// Elements with a text between them.
pub(super) fn join(items: &[Value], between: &str, meter: &Arc<Meter>) -> Result<Value> {
    let mut out = TextBuilder::new(meter);
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            out.push(between)?;
        }
        write_str(item, &mut out)?;
    }
    out.finish()
}

/// `'{} and {name}'.format(…)`, without format specifications.
fn format_braces(text: &str, args: &Args<'_>, meter: &Arc<Meter>) -> Result<Value> {
    let mut out = TextBuilder::new(meter);
    let (mut rest, mut next) = (text, 0);
    while let Some(at) = rest.find(['{', '}']) {
        out.push(&rest[..at])?;
        let tail = &rest[at..];
        if tail.starts_with("{{") || tail.starts_with("}}") {
            out.push(&tail[..1])?;
            rest = &tail[2..];
            continue;
        }
        let Some(end) = tail.find('}').filter(|_| tail.starts_with('{')) else {
            return failed("a brace of a format has no other");
        };
        let name = &tail[1..end];
        let value = if name.is_empty() {
            next += 1;
            args.values.get(next - 1)
        } else if let Ok(index) = name.parse::<usize>() {
            args.values.get(index)
        } else {
            args.named(name)
        };
        match value {
            Some(value) => write_str(value, &mut out)?,
            None => return failed(format!("the format has no value for `{{{}}}`", short(name))),
        }
        rest = &tail[end + 1..];
    }
    out.push(rest)?;
    out.finish()
}

/// `'%s is %d' % values`, without widths.
pub(super) fn printf(text: &str, values: &[Value], meter: &Arc<Meter>) -> Result<Value> {
    let mut out = TextBuilder::new(meter);
    let (mut rest, mut values) = (text, values.iter());
    while let Some(at) = rest.find('%') {
        out.push(&rest[..at])?;
        let kind = rest[at + 1..].chars().next();
        match kind {
            Some('%') => out.push("%")?,
            Some('s' | 'd' | 'i') => {
                let Some(value) = values.next() else {
                    return failed("the format has more places than values");
                };
                match kind {
                    Some('s') => write_str(value, &mut out)?,
                    _ => write_str(&Value::Int(value.as_int()?), &mut out)?,
                }
            }
            _ => return failed("a format may have `%s`, `%d` and `%%`"),
        }
        rest = &rest[at + 2..];
    }
    out.push(rest)?;
    out.finish()
}

/// The beginning of a name, which may be a text that the template made.
pub(super) fn short(name: &str) -> &str {
    name.char_indices().nth(40).map_or(name, |(at, _)| &name[..at])
}
