//! llama.cpp's grammars (GBNF, as its `grammars/README.md` describes them) in llguidance's dialect of Lark.
//!
//! A lexer that takes the longest match would not see every text of a GBNF grammar, which has no lexer. So each
//! character becomes a lexeme of its own: a string of three characters is a sequence of three.

use rlx_core::{Error, Result};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Groups within groups at most.
const DEEPEST: usize = 100;
/// Repetitions at most, as in llama.cpp.
const MOST_TIMES: u32 = 2000;

/// The grammar's rules in Lark: `root` is `start`, others are numbered.
///
/// # Errors
/// `Usage` that names the line of what is no GBNF, of a rule that is missing, or of one that is there twice.
pub(crate) fn to_lark(text: &str) -> Result<String> {
    let mut parser = Parser {
        text,
        at: 0,
        depth: 0,
        rules: BTreeMap::new(),
        out: String::with_capacity(2 * text.len()),
    };
    parser.blanks(true);
    while parser.at < text.len() {
        parser.rule()?;
        parser.blanks(true);
    }
    let mut missing = parser.rules.iter().filter(|(_, rule)| !rule.defined);
    if let Some((name, rule)) = missing.next() {
        return Err(said(rule.line, format!("the rule {name:?} is used and not there")));
    }
    if !parser.rules.contains_key("root") {
        return Err(
            Error::usage("the grammar has no rule \"root\"").hint("name the first rule root")
        );
    }
    Ok(parser.out)
}

fn said(line: usize, what: impl Into<String>) -> Error {
    Error::usage(what).at(format!("line {line} of the grammar"))
}

struct Rule {
    number: usize,
    defined: bool,
    /// Where it is first named.
    line: usize,
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    rules: BTreeMap<&'a str, Rule>,
    out: String,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn take(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn eat(&mut self, token: &str) -> bool {
        let is_there = self.rest().starts_with(token);
        if is_there {
            self.at += token.len();
        }
        is_there
    }

    fn error(&self, what: impl Into<String>) -> Error {
        said(self.text[..self.at].matches('\n').count() + 1, what)
    }

    /// An error about what comes next.
    fn expected(&self, what: &str) -> Error {
        let found = self.peek().map_or("the end".into(), |c| format!("{c:?}"));
        self.error(format!("expected {what}, found {found}"))
    }

    /// Goes past blanks and comments, and past ends of lines if they end nothing.
    fn blanks(&mut self, lines: bool) {
        while let Some(c) = self.peek() {
            match c {
                ' ' | '\t' => {}
                '\n' | '\r' if lines => {}
                '#' => {
                    self.at += self.rest().find(['\n', '\r']).unwrap_or(self.rest().len());
                    continue;
                }
                _ => return,
            }
            self.at += 1;
        }
    }

    fn name(&mut self) -> Result<&'a str> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let rest = self.rest();
        let name = &rest[..rest.find(|c| !is_part(c)).unwrap_or(rest.len())];
        if name.is_empty() {
            return Err(self.expected("the name of a rule"));
        }
        self.at += name.len();
        Ok(name)
    }

    /// The rule with this name, which may be defined later.
    fn numbered(&mut self, name: &'a str) -> &mut Rule {
        let (number, line) = (self.rules.len(), self.text[..self.at].matches('\n').count() + 1);
        self.rules.entry(name).or_insert(Rule { number, defined: false, line })
    }

    fn refer(&mut self, name: &'a str) {
        if name == "root" {
            self.numbered(name);
            self.out.push_str("start");
        } else {
            let number = self.numbered(name).number;
            // Writing to a string does not fail.
            let _ = write!(self.out, "r{number}");
        }
    }

    fn rule(&mut self) -> Result<()> {
        let name = self.name()?;
        self.blanks(false);
        if !self.eat("::=") {
            return Err(self.expected(&format!("::= after the rule's name {name:?}")));
        }
        self.blanks(true);
        let rule = self.numbered(name);
        if core::mem::replace(&mut rule.defined, true) {
            return Err(self.error(format!("the rule {name:?} is there twice")));
        }
        self.refer(name);
        self.out.push_str(": ");
        self.alternatives(false)?;
        self.out.push('\n');
        match self.peek() {
            None | Some('\n' | '\r') => Ok(()),
            _ => Err(self.expected("the end of the line")),
        }
    }

    fn alternatives(&mut self, nested: bool) -> Result<()> {
        self.sequence(nested)?;
        while self.eat("|") {
            self.out.push_str(" | ");
            self.blanks(true);
            self.sequence(nested)?;
        }
        Ok(())
    }

    fn sequence(&mut self, nested: bool) -> Result<()> {
        let before = self.out.len();
        loop {
            let start = self.out.len();
            match self.peek() {
                Some('"') => self.string()?,
                Some('[') => self.class()?,
                Some('.') => {
                    self.at += 1;
                    self.out.push_str("/./s");
                }
                Some('(') => self.group()?,
                Some('<') => self.token()?,
                Some(c) if c.is_ascii_alphanumeric() => {
                    let name = self.name()?;
                    self.refer(name);
                }
                _ => break,
            }
            self.blanks(nested);
            self.times(start, nested)?;
            self.out.push(' ');
        }
        if self.out.len() == before {
            self.out.push_str("\"\"");
        }
        Ok(())
    }

    fn group(&mut self) -> Result<()> {
        self.at += 1;
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.error(format!("more than {DEEPEST} groups stand within each other")));
        }
        self.blanks(true);
        self.out.push('(');
        self.alternatives(true)?;
        self.out.push(')');
        self.depth -= 1;
        if !self.eat(")") {
            return Err(self.expected("\")\""));
        }
        Ok(())
    }

    /// A token by its number, `<[5]>`, which llguidance writes alike.
    fn token(&mut self) -> Result<()> {
        let rest = self.rest();
        let end = rest.find('>').map_or(rest.len(), |end| end + 1);
        let digits = rest[..end].strip_prefix("<[").and_then(|token| token.strip_suffix("]>"));
        match digits {
            Some(digits) if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) => {
                self.out.push_str(&rest[..end]);
                self.at += end;
                Ok(())
            }
            _ => Err(self.expected("a token by its number, as <[5]>")),
        }
    }

    /// Repetitions of what was written from `start` on.
    fn times(&mut self, start: usize, nested: bool) -> Result<()> {
        while let Some(c @ ('*' | '+' | '?' | '{')) = self.peek() {
            self.at += 1;
            // A repetition of a repetition.
            self.out.insert(start, '(');
            self.out.push(')');
            if c != '{' {
                self.out.push(c);
            } else {
                let (least, most) = self.bounds()?;
                match most {
                    Some(0) => self.out.replace_range(start.., "\"\""),
                    Some(most) => drop(write!(self.out, "{{{least},{most}}}")),
                    None => drop(write!(self.out, "{{{least},}}")),
                }
            }
            self.blanks(nested);
        }
        Ok(())
    }

    fn bounds(&mut self) -> Result<(u32, Option<u32>)> {
        self.blanks(true);
        let least = self.number()?;
        self.blanks(true);
        let most = if self.eat(",") {
            self.blanks(true);
            if self.peek() == Some('}') { None } else { Some(self.number()?) }
        } else {
            Some(least)
        };
        self.blanks(true);
        if !self.eat("}") {
            return Err(self.expected("\"}\""));
        }
        if most.is_some_and(|most| most < least) {
            return Err(self.error("the most repetitions are fewer than the least"));
        }
        Ok((least, most))
    }

    fn number(&mut self) -> Result<u32> {
        let rest = self.rest();
        let digits = &rest[..rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())];
        let Some(n) = digits.parse().ok().filter(|&n| n <= MOST_TIMES) else {
            return Err(self.expected(&format!("a number up to {MOST_TIMES}")));
        };
        self.at += digits.len();
        Ok(n)
    }

    /// A character of a string or class, its escape resolved.
    fn character(&mut self) -> Result<char> {
        let c = self.take().ok_or_else(|| self.expected("a character"))?;
        if c != '\\' {
            return Ok(c);
        }
        let escape = self.take().ok_or_else(|| self.expected("an escape"))?;
        let digits = match escape {
            'n' => return Ok('\n'),
            'r' => return Ok('\r'),
            't' => return Ok('\t'),
            '\\' | '"' | '[' | ']' | '-' | '^' => return Ok(escape),
            'x' => 2,
            'u' => 4,
            'U' => 8,
            _ => return Err(self.error(format!("unknown escape \\{escape}"))),
        };
        let code = self.rest().get(..digits).and_then(|hex| u32::from_str_radix(hex, 16).ok());
        let Some(c) = code.and_then(char::from_u32) else {
            return Err(self.expected(&format!("{digits} digits of a character after \\{escape}")));
        };
        self.at += digits;
        Ok(c)
    }

    fn string(&mut self) -> Result<()> {
        self.at += 1;
        let before = self.out.len();
        self.out.push('(');
        while !self.eat("\"") {
            let c = self.character()?;
            let _ = write!(self.out, "/\\x{{{:x}}}/ ", u32::from(c));
        }
        if self.out.len() == before + 1 {
            self.out.push_str("\"\"");
        }
        self.out.push(')');
        Ok(())
    }

    fn class(&mut self) -> Result<()> {
        self.at += 1;
        let negated = self.eat("^");
        let mut ranges = String::new();
        while !self.eat("]") {
            let first = self.character()?;
            let mut last = first;
            if self.peek() == Some('-') && !self.rest().starts_with("-]") {
                self.at += 1;
                last = self.character()?;
            }
            if last < first {
                return Err(self.error(format!("the range {first:?} to {last:?} is empty")));
            }
            let _ = write!(ranges, "\\x{{{:x}}}-\\x{{{:x}}}", u32::from(first), u32::from(last));
        }
        match (ranges.is_empty(), negated) {
            (true, true) => self.out.push_str("/./s"),
            (true, false) => return Err(self.error("[] matches nothing")),
            (false, true) => drop(write!(self.out, "/[^{ranges}]/")),
            (false, false) => drop(write!(self.out, "/[{ranges}]/")),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        to_lark(text).expect_err("no grammar").to_string()
    }

    #[test]
    fn rules_become_rules_and_characters_lexemes() {
        let text = "root ::= pair+ # comment\n\
            pair ::= | (\"a\\n\" |\n [^x-z\\]]) num{2,3}\n\nnum ::= [0-9]{1,} .?";
        let want = "start: (r1)+ \n\
            r1: \"\" | ((/\\x{61}/ /\\x{a}/ )  | /[^\\x{78}-\\x{7a}\\x{5d}-\\x{5d}]/ ) (r2){2,3} \n\
            r2: (/[\\x{30}-\\x{39}]/){1,} (/./s)? \n";
        assert_eq!(to_lark(text).unwrap(), want);
    }

    #[test]
    fn what_is_no_gbnf_is_told_with_its_line() {
        assert!(error("").contains("no rule \"root\""));
        assert!(
            error("root = \"a\"")
                .contains("expected ::= after the rule's name \"root\", found '='")
        );
        assert!(error("root ::= a\n").contains("the rule \"a\" is used and not there"));
        assert!(
            error("root ::= \"a\"\nroot ::= \"b\"").contains("the rule \"root\" is there twice")
        );
        assert!(error("root ::= \"a\"\n\nx ::= (\"b\"").contains("line 3 of the grammar"));
        assert!(error("root ::= \"a").contains("expected a character, found the end"));
        assert!(error("root ::= \"\\q\"").contains("unknown escape \\q"));
        assert!(error("root ::= [z-a]").contains("is empty"));
        assert!(error("root ::= \"a\"{9999999}").contains("a number up to 2000"));
        assert!(error("root ::= <think>").contains("a token by its number"));
        let deep = format!("root ::= {}\"a\"{}", "(".repeat(200), ")".repeat(200));
        assert!(error(&deep).contains("more than 100 groups"));
    }
}
