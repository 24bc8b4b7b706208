//! The Jinja that chat templates are written for: Python's methods, `tojson` as Python prints
//! JSON, `raise_exception`, `strftime_now`, and the white-space rules of transformers.

use crate::{Code, Error};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{AutoEscape, Environment, ErrorKind};

type Result<T> = core::result::Result<T, minijinja::Error>;

pub(super) fn environment<'source>(now: Option<i64>) -> Environment<'source> {
    let mut env = Environment::new();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    // The builder only fails on delimiters that clash, and these are Jinja's own.
    env.set_syntax(syntax.unwrap_or_default());
    env.set_auto_escape_callback(|_| AutoEscape::None);
    env.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    env.add_filter("tojson", to_json);
    env.add_function("raise_exception", |message: String| -> Result<Value> {
        let what = "the template refused the conversation";
        Err(minijinja::Error::new(ErrorKind::InvalidOperation, what).with_source(Raised(message)))
    });
    if let Some(now) = now {
        env.add_function("strftime_now", move |format: String| strftime(&format, now));
    }
    env
}

/// What a template said to `raise_exception`.
#[derive(Debug)]
struct Raised(String);

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for Raised {}

/// A fault of rendering as ours: raised by the template, or a fault of the template.
pub(super) fn fault(error: &minijinja::Error) -> Error {
    let mut cause: Option<&(dyn core::error::Error + 'static)> = Some(error);
    while let Some(here) = cause {
        if let Some(Raised(message)) = here.downcast_ref() {
            return Error::usage(format!("the chat template refused the conversation: {message}"))
                .at("tokenizer.chat_template");
        }
        cause = here.source();
    }
    let detail = error.detail().map_or_else(|| error.kind().to_string(), ToString::to_string);
    let line = error.line().map_or_else(String::new, |line| format!(", line {line}"));
    Error::new(Code::BadFile, format!("the chat template failed: {detail}"))
        .at(format!("tokenizer.chat_template{line}"))
        .hint("use `--raw` to send the prompt as it is")
}

/// `{% generation %}` and `{% endgeneration %}` only mark the assistant's text for training, and
/// no Jinja but transformers' knows them: as comments they keep their white-space control.
pub(super) fn plain_source(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let Some(n) = rest[start..].find("%}") else { break };
        let inner = &rest[start + 2..start + n];
        let name = inner.trim_matches(['-', '+']).trim();
        out.push_str(&rest[..start]);
        if matches!(name, "generation" | "endgeneration") {
            let sign = |c: Option<char>| c.filter(|c| "+-".contains(*c));
            out.push_str("{#");
            out.extend(sign(inner.chars().next()));
            out.push(' ');
            out.extend(sign(inner.chars().next_back()));
            out.push_str("#}");
        } else {
            out.push_str(&rest[start..start + n + 2]);
        }
        rest = &rest[start + n + 2..];
    }
    out + rest
}

/// JSON as Python's `json.dumps(value, ensure_ascii=False, indent=…)` prints it.
fn to_json(value: &Value, options: Kwargs) -> Result<String> {
    let indent: Option<usize> = options.get("indent").unwrap_or(None);
    let mut out = String::new();
    write_json(value, indent, 1, &mut out)?;
    Ok(out)
}

fn write_json(value: &Value, indent: Option<usize>, depth: usize, out: &mut String) -> Result<()> {
    let items: Vec<Value> = match value.kind() {
        ValueKind::Map | ValueKind::Seq | ValueKind::Iterable => value.try_iter()?.collect(),
        ValueKind::Undefined | ValueKind::None => {
            out.push_str("null");
            return Ok(());
        }
        _ => {
            out.push_str(&scalar(value)?);
            return Ok(());
        }
    };
    let is_map = value.kind() == ValueKind::Map;
    let break_line = |depth: usize, out: &mut String| {
        if let Some(indent) = indent {
            out.push('\n');
            out.extend(core::iter::repeat_n(' ', indent * depth));
        }
    };
    out.push(if is_map { '{' } else { '[' });
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push_str(if indent.is_some() { "," } else { ", " });
        }
        break_line(depth, out);
        if is_map {
            out.push_str(&scalar(&Value::from(item.to_string()))?);
            out.push_str(": ");
            write_json(&value.get_item(item)?, indent, depth + 1, out)?;
        } else {
            write_json(item, indent, depth + 1, out)?;
        }
    }
    if !items.is_empty() {
        break_line(depth - 1, out);
    }
    out.push(if is_map { '}' } else { ']' });
    Ok(())
}

fn scalar(value: &Value) -> Result<String> {
    serde_json::to_string(value)
        .map_err(|e| minijinja::Error::new(ErrorKind::BadSerialization, e.to_string()))
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// C's `strftime` for the directives that dates in prompts use; others stay as they are written.
fn strftime(format: &str, now: i64) -> String {
    let (days, second) = (now.div_euclid(86_400), now.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    let month_name = MONTHS[month as usize - 1];
    let weekday = WEEKDAYS[(days + 4).rem_euclid(7) as usize];
    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        out += &match chars.next() {
            Some('Y') => year.to_string(),
            Some('y') => format!("{:02}", year.rem_euclid(100)),
            Some('m') => format!("{month:02}"),
            Some('B') => month_name.into(),
            Some('b') => month_name[..3].into(),
            Some('d') => format!("{day:02}"),
            Some('A') => weekday.into(),
            Some('a') => weekday[..3].into(),
            Some('H') => format!("{hour:02}"),
            Some('I') => format!("{:02}", (hour + 11) % 12 + 1),
            Some('p') => String::from(if hour < 12 { "AM" } else { "PM" }),
            Some('M') => format!("{minute:02}"),
            Some('S') => format!("{:02}", second % 60),
            Some('F') => format!("{year}-{month:02}-{day:02}"),
            Some('%') | None => "%".into(),
            Some(other) => format!("%{other}"),
        };
    }
    out
}

/// (year, month, day) of a day counted from 1970-01-01. Years are counted from March, so that the
/// leap day is the last of its year, in eras of 400 years, which are 146,097 days.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let leaps = day_of_era / 1460 - day_of_era / 36_524 + day_of_era / 146_096;
    let year_of_era = (day_of_era - leaps) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = (from_march + 2) % 12 + 1;
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(source: &str) -> String {
        let source = plain_source(source);
        environment(Some(1_792_000_000)).render_str(&source, ()).unwrap()
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (days, date) in [
            (0, (1970, 1, 1)),
            (-1, (1969, 12, 31)),
            (11_016, (2000, 2, 29)),
            (20_778, (2026, 11, 21)),
            (47_540, (2100, 2, 28)),
            (47_541, (2100, 3, 1)),
        ] {
            assert_eq!(civil(days), date);
        }
        assert_eq!(
            strftime("%d %b %Y, %A %H:%M:%S %I%p %y%%", 0),
            "01 Jan 1970, Thursday 00:00:00 12AM 70%"
        );
        assert_eq!(render("{{ strftime_now('%Y') }}"), "2026");
    }

    #[test]
    fn json_is_printed_as_python_does() {
        let source = "{% set x = {'a': [1, 2.5, none, true], 'b': '<é\\n>'} %}";
        assert_eq!(
            render(&format!("{source}{{{{ x | tojson }}}}")),
            r#"{"a": [1, 2.5, null, true], "b": "<é\n>"}"#
        );
        assert_eq!(
            render("{{ {'a': [1], 'b': {}} | tojson(indent=2) }}"),
            "{\n  \"a\": [\n    1\n  ],\n  \"b\": {}\n}"
        );
    }

    #[test]
    fn methods_of_python_work() {
        let source = "{{ ' a b '.strip().split(' ')[1].upper() }}{{ 'xy'.startswith('x') }}\
            {{ 'ab cd'.title() }}{% for k, v in {'k': 1}.items() %}{{ k }}{{ v }}{% endfor %}\
            {{ '\nx\n'.lstrip('\n').rstrip('\n') }}";
        assert_eq!(render(source), "BTrueAb Cdk1x");
    }

    #[test]
    fn generation_tags_leave_their_text() {
        assert_eq!(render("a {%- generation -%} b {% endgeneration %}c"), "ab c");
    }

    #[test]
    fn blocks_take_their_line_with_them() {
        assert_eq!(render("  {% if true %}\nx\n  {% endif %}\ny"), "x\ny");
    }
}
