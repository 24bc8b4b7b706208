//! Tokens that are recognised in a text before it is cut into words.

use super::prefixes::Prefixes;
use super::unicode::{Class, class, is_white_space};
use crate::order;
use crate::{Error, Result};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Bytes of such a token at most. A text is compared with them at each of its bytes.
const LONGEST: usize = 1024;

/// What a file says of a token that is recognised in a text (`added_tokens` of a `tokenizer.json`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenRule {
    /// White space before it is part of it.
    pub left: bool,
    /// White space behind it is part of it.
    pub right: bool,
    /// It is none inside a word: beside a letter, a mark, a number or an underscore.
    pub whole_word: bool,
}

/// A token and the text that is recognised as it.
#[derive(Clone, Debug)]
pub(super) struct Special {
    pub id: u32,
    pub text: String,
    /// Whether it is structure, which a text may be forbidden to hold.
    pub control: bool,
    pub rule: TokenRule,
}

/// All of a vocabulary.
#[derive(Clone, Debug, Default)]
pub(super) struct Specials {
    list: Vec<Special>,
    /// Control tokens come after the others, so that of two equal texts the user-defined one is found.
    prefixes: Prefixes,
}

impl Specials {
    /// # Errors
    /// `BadFile` for a text that is too long to look for.
    pub(super) fn new(mut list: Vec<Special>) -> Result<Self> {
        list.retain(|special| !special.text.is_empty());
        if let Some(long) = list.iter().find(|special| special.text.len() > LONGEST) {
            let what = format!("special token {} has {} bytes", long.id, long.text.len());
            return Err(Error::bad_file(format!("{what}, {LONGEST} is the most"))
                .at("tokenizer.ggml.tokens"));
        }
        order::sort_by_key(&mut list, |special| (special.control, special.id));
        let prefixes =
            Prefixes::new((0..list.len() as u32).collect(), |n| list[n as usize].text.as_bytes());
        Ok(Self { list, prefixes })
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Special> {
        self.list.iter()
    }

    /// The longest token that begins at byte `at` of a text, control tokens only when asked for.
    pub(super) fn at(&self, text: &str, at: usize, control: bool) -> Option<&Special> {
        let mut found = None;
        let bytes = |n: u32| self.list[n as usize].text.as_bytes();
        self.prefixes.each(&text.as_bytes()[at..], bytes, |n, len| {
            let special = &self.list[n as usize];
            let inside = special.rule.whole_word
                && (text[..at].chars().next_back().is_some_and(is_word)
                    || text[at + len..].chars().next().is_some_and(is_word));
            if (control || !special.control) && !inside {
                found = Some(special);
            }
        });
        found
    }
}

/// A part of a text: a token's, or what lies between tokens.
pub(super) enum Cut<'a> {
    Token(u32),
    Text(&'a str),
}

impl Specials {
    /// Cuts a text at the tokens in it.
    pub(super) fn cut<'a>(&self, text: &'a str, put: &mut dyn FnMut(Cut<'a>)) {
        let (mut start, mut at) = (0, 0);
        while at < text.len() && !self.list.is_empty() {
            match self.at(text, at, true) {
                Some(found) => {
                    put(Cut::Text(&text[start..at]));
                    put(Cut::Token(found.id));
                    at += found.text.len();
                    start = at;
                }
                None => at += 1,
            }
        }
        put(Cut::Text(&text[start..]));
    }
}

fn is_word(c: char) -> bool {
    c == '_' || matches!(class(c), Class::Letter | Class::Mark | Class::Number)
}

/// Bytes of white space at the start of a text.
pub(super) fn blank_len(text: &str) -> usize {
    text.len() - text.trim_start_matches(is_white_space).len()
}
