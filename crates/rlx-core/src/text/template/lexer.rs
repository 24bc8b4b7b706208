//! The source of a template as tokens: text outside of tags, and what tags hold. White space
//! around tags goes as transformers has it (`trim_blocks`, `lstrip_blocks`).

use super::meter::MAX_NAME_BYTES;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// A piece of the source.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token<'s> {
    /// Text outside of tags.
    Data(&'s str),
    /// `{%`
    OpenBlock,
    /// `{{`
    OpenEmit,
    /// `%}` or `}}`
    Close,
    Name(&'s str),
    Text(String),
    Int(i64),
    Float(f64),
    Op(&'static str),
    /// The end of the source.
    End,
}

/// A fault of the source: its line and what it is.
pub(super) type SyntaxFault = (u32, String);

/// Operators, the longer first.
const OPERATORS: [&str; 27] = [
    "//", "**", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "~", "<", ">", "=", ".", ":", "|",
    ",", "(", ")", "[", "]", "{", "}", ";", "!",
];

struct Lexer<'s> {
    rest: &'s str,
    line: u32,
    /// Whether what was read last ended a line.
    at_line_start: bool,
    tokens: Vec<(Token<'s>, u32)>,
}

/// The tokens of a source, each with its line.
pub(super) fn tokens(source: &str) -> Result<Vec<(Token<'_>, u32)>, SyntaxFault> {
    // One line break at the end is the editor's.
    let rest = source.strip_suffix('\n').unwrap_or(source);
    let mut lexer = Lexer { rest, line: 1, at_line_start: true, tokens: Vec::new() };
    while lexer.data_and_opener()? {}
    let line = lexer.line;
    lexer.tokens.push((Token::End, line));
    Ok(lexer.tokens)
}

impl<'s> Lexer<'s> {
    /// Goes on by `n` bytes, which it returns.
    fn skip(&mut self, n: usize) -> &'s str {
        let (head, rest) = self.rest.split_at(n);
        self.line += head.bytes().filter(|&b| b == b'\n').count() as u32;
        self.rest = rest;
        head
    }

    fn push(&mut self, token: Token<'s>) {
        self.tokens.push((token, self.line));
    }

    fn fault<T>(&self, what: impl Into<String>) -> Result<T, SyntaxFault> {
        Err((self.line, what.into()))
    }

    /// Text, and the whole tag behind it; false at the end.
    fn data_and_opener(&mut self) -> Result<bool, SyntaxFault> {
        let is_opener =
            |at: &usize| matches!(self.rest.as_bytes().get(at + 1), Some(b'{' | b'%' | b'#'));
        let opener = self.rest.match_indices('{').map(|(at, _)| at).find(is_opener);
        let Some(at) = opener else {
            let data = self.skip(self.rest.len());
            self.data(data);
            return Ok(false);
        };
        let kind = self.rest.as_bytes()[at + 1];
        let sign = self.rest.as_bytes().get(at + 2).copied().filter(|b| b"+-".contains(b));
        let data = self.skip(at);
        self.data(before_tag(data, sign, kind == b'{', self.at_line_start));
        self.skip(2 + usize::from(sign.is_some()));
        self.at_line_start = false;
        match kind {
            b'#' => self.comment()?,
            b'%' if self.raw_length().is_some() => self.raw()?,
            b'%' => {
                self.push(Token::OpenBlock);
                self.tag("%}")?;
            }
            _ => {
                self.push(Token::OpenEmit);
                self.tag("}}")?;
            }
        }
        Ok(true)
    }

    fn data(&mut self, data: &'s str) {
        if !data.is_empty() {
            self.push(Token::Data(data));
        }
    }

    fn comment(&mut self) -> Result<(), SyntaxFault> {
        let Some(n) = self.rest.find("#}") else { return self.fault("a comment does not end") };
        let sign = self.skip(n).bytes().next_back().filter(|b| b"+-".contains(b));
        self.skip(2);
        self.after_tag(sign, true);
        Ok(())
    }

    /// White space behind a tag: `-` takes all, the end of a block its line break.
    fn after_tag(&mut self, sign: Option<u8>, is_block: bool) {
        let n = match sign {
            Some(b'-') => self.rest.len() - self.rest.trim_start().len(),
            None if is_block => usize::from(self.rest.starts_with('\n')),
            _ => 0,
        };
        self.at_line_start = self.skip(n).ends_with('\n');
    }

    /// What `raw` and its tag's end take, where the tag is one.
    fn raw_length(&self) -> Option<usize> {
        tag_of(self.rest, "raw").map(|(n, _)| n)
    }

    /// `{% raw %}`: text to `{% endraw %}`, tags and all.
    fn raw(&mut self) -> Result<(), SyntaxFault> {
        let (n, sign) = tag_of(self.rest, "raw").unwrap_or_default();
        self.skip(n);
        if sign == Some(b'-') {
            self.skip(self.rest.len() - self.rest.trim_start().len());
        }
        for (at, _) in self.rest.match_indices("{%") {
            let inner = &self.rest[at + 2..];
            let sign = inner.bytes().next().filter(|b| b"+-".contains(b));
            let signed = usize::from(sign.is_some());
            if let Some((n, end_sign)) = tag_of(&inner[signed..], "endraw") {
                let data = self.skip(at);
                self.data(before_tag(data, sign, false, false));
                self.skip(2 + signed + n);
                self.after_tag(end_sign, true);
                return Ok(());
            }
        }
        self.fault("a raw block does not end")
    }

    /// The tokens of a tag, to its end.
    fn tag(&mut self, end: &str) -> Result<(), SyntaxFault> {
        let mut n_open_braces = 0usize;
        loop {
            self.skip(self.rest.len() - self.rest.trim_start().len());
            let sign = self.rest.bytes().next().filter(|b| b"+-".contains(b));
            let signed = usize::from(sign.is_some());
            if n_open_braces == 0 && self.rest[signed..].starts_with(end) {
                self.push(Token::Close);
                self.skip(signed + 2);
                self.after_tag(sign, end == "%}");
                return Ok(());
            }
            let Some(c) = self.rest.chars().next() else {
                return self.fault(format!("a tag does not end with `{end}`"));
            };
            if c.is_ascii_digit() {
                self.number()?;
            } else if c == '"' || c == '\'' {
                self.text(c)?;
            } else if c == '_' || c.is_alphabetic() {
                let is_end = |c: char| c != '_' && !c.is_alphanumeric();
                let n = self.rest.find(is_end).unwrap_or(self.rest.len());
                if n > MAX_NAME_BYTES {
                    return self.fault(format!("a name has more than {MAX_NAME_BYTES} bytes"));
                }
                let name = self.skip(n);
                self.push(Token::Name(name));
            } else if let Some(op) = OPERATORS.into_iter().find(|op| self.rest.starts_with(op)) {
                match op {
                    "{" => n_open_braces += 1,
                    "}" => n_open_braces = n_open_braces.saturating_sub(1),
                    _ => {}
                }
                self.push(Token::Op(op));
                self.skip(op.len());
            } else {
                return self.fault(format!("`{c}` stands in a tag"));
            }
        }
    }

    fn number(&mut self) -> Result<(), SyntaxFault> {
        let digits =
            |text: &str| text.find(|c: char| c != '_' && !c.is_ascii_digit()).unwrap_or(text.len());
        let mut n = digits(self.rest);
        let mut is_float = false;
        // `1.5`, but not the end of `a.1.b`.
        let follows_dot = matches!(self.tokens.last(), Some((Token::Op("."), _)));
        let fraction = self.rest[n..].strip_prefix('.').map_or(0, digits);
        if fraction > 0 && !follows_dot {
            is_float = true;
            n += 1 + fraction;
        }
        if let Some(exponent) = self.rest[n..].strip_prefix(['e', 'E'])
            && !follows_dot
        {
            let sign = usize::from(exponent.starts_with(['+', '-']));
            let n_digits = digits(&exponent[sign..]);
            if n_digits > 0 {
                is_float = true;
                n += 1 + sign + n_digits;
            }
        }
        let text = self.skip(n).replace('_', "");
        let token = if is_float {
            text.parse().map(Token::Float).ok()
        } else {
            text.parse().map(Token::Int).ok()
        };
        match token {
            Some(token) => self.push(token),
            None => return self.fault("a number is too large"),
        }
        Ok(())
    }

    /// A text in quotes, with Python's escapes.
    fn text(&mut self, quote: char) -> Result<(), SyntaxFault> {
        let mut text = String::new();
        let mut chars = self.rest.char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            if c == quote {
                self.push(Token::Text(text));
                self.skip(at + 1);
                return Ok(());
            }
            if c != '\\' {
                text.push(c);
                continue;
            }
            let escaped = match chars.next().map(|(_, c)| c) {
                Some('n') => Some('\n'),
                Some('t') => Some('\t'),
                Some('r') => Some('\r'),
                Some('0') => Some('\0'),
                Some('b') => Some('\u{8}'),
                Some('f') => Some('\u{c}'),
                Some(c @ ('\\' | '\'' | '"')) => Some(c),
                Some(kind @ ('x' | 'u' | 'U')) => {
                    let n = match kind {
                        'x' => 2,
                        'u' => 4,
                        _ => 8,
                    };
                    let digits: String = chars.by_ref().take(n).map(|(_, c)| c).collect();
                    match u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32) {
                        Some(c) => Some(c),
                        None => return self.fault(format!("`\\{kind}` needs a character's code")),
                    }
                }
                Some('\n') | None => None,
                Some(other) => {
                    text.push('\\');
                    Some(other)
                }
            };
            text.extend(escaped);
        }
        self.fault("a text in quotes does not end")
    }
}

/// Text before a tag without what the tag takes of it.
fn before_tag(data: &str, sign: Option<u8>, is_emit: bool, at_line_start: bool) -> &str {
    match sign {
        Some(b'-') => data.trim_end(),
        None if !is_emit => {
            // A block that begins its line takes its indentation.
            let line = data.rfind('\n').map_or(0, |at| at + 1);
            let begins_line = line > 0 || at_line_start;
            let blank = data[line..].trim_start().is_empty();
            if begins_line && blank { &data[..line] } else { data }
        }
        _ => data,
    }
}

/// The length of ` name -%}` and its sign, where `text` begins with that.
fn tag_of(text: &str, name: &str) -> Option<(usize, Option<u8>)> {
    let inner = text.trim_start().strip_prefix(name)?.trim_start();
    let sign = inner.bytes().next().filter(|b| b"+-".contains(b));
    let rest = inner[usize::from(sign.is_some())..].strip_prefix("%}")?;
    Some((text.len() - rest.len(), sign))
}
