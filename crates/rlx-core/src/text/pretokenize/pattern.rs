//! What pre-tokenizers' expressions are made of: sets of characters, runs of them, alternatives.

use super::super::unicode::{Case, Class, case, class, is_white_space};

/// A set of characters, a bit for each of the groups below: no expression divides one of them.
pub(super) type Set = u32;

pub(super) const SPACE: Set = 1 << 0;
const CR: Set = 1 << 1;
pub(super) const LF: Set = 1 << 2;
/// White space other than these three.
const BLANK: Set = 1 << 3;
const UPPER: Set = 1 << 4;
const LOWER: Set = 1 << 5;
const CASELESS: Set = 1 << 6;
pub(super) const ASCII_UPPER: Set = 1 << 7;
pub(super) const ASCII_LOWER: Set = 1 << 8;
/// `\p{M}`
pub(super) const MARK: Set = 1 << 9;
const NUMBER: Set = 1 << 10;
/// `[0-9]`
pub(super) const DIGIT: Set = 1 << 11;
const PUNCTUATION: Set = 1 << 12;
pub(super) const SLASH: Set = 1 << 13;
/// Punctuation in ASCII other than the slash.
const ASCII_PUNCTUATION: Set = 1 << 14;
const SYMBOL: Set = 1 << 15;
/// Symbols in ASCII other than the backtick: `$+<=>^|~`.
pub(super) const ASCII_SYMBOL: Set = 1 << 16;
pub(super) const BACKTICK: Set = 1 << 17;
const OTHER: Set = 1 << 18;

pub(super) const ALL: Set = (1 << 19) - 1;
/// `[\r\n]`
pub(super) const LINE_BREAK: Set = CR | LF;
/// `\s`
pub(super) const WHITE: Set = SPACE | LINE_BREAK | BLANK;
/// `[\p{Lu}\p{Lt}]` and `\p{Ll}`
pub(super) const UPPERS: Set = UPPER | ASCII_UPPER;
pub(super) const LOWERS: Set = LOWER | ASCII_LOWER;
/// `\p{L}`
pub(super) const LETTER: Set = UPPERS | LOWERS | CASELESS;
/// `\p{N}`
pub(super) const NUMBERS: Set = NUMBER | DIGIT;
/// `\p{P}` and `\p{S}`
pub(super) const P: Set = PUNCTUATION | SLASH | ASCII_PUNCTUATION;
pub(super) const S: Set = SYMBOL | ASCII_SYMBOL | BACKTICK;
/// ``[!-/:-@\[-`{-~]``
pub(super) const ASCII_P_S: Set = SLASH | ASCII_PUNCTUATION | ASCII_SYMBOL | BACKTICK;

/// The group of a character.
fn group(c: char) -> Set {
    match c {
        'a'..='z' => ASCII_LOWER,
        'A'..='Z' => ASCII_UPPER,
        ' ' => SPACE,
        '0'..='9' => DIGIT,
        '\n' => LF,
        '\r' => CR,
        '/' => SLASH,
        '`' => BACKTICK,
        '$' | '+' | '<' | '=' | '>' | '^' | '|' | '~' => ASCII_SYMBOL,
        '!'..='~' => ASCII_PUNCTUATION,
        c if is_white_space(c) => BLANK,
        c => match class(c) {
            Class::Letter => match case(c) {
                Case::Upper => UPPER,
                Case::Lower => LOWER,
                Case::None => CASELESS,
            },
            Class::Mark => MARK,
            Class::Number => NUMBER,
            Class::Punctuation => PUNCTUATION,
            Class::Symbol => SYMBOL,
            Class::Other => OTHER,
        },
    }
}

/// Characters that a run takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Chars {
    Of(Set),
    /// Ranges, in order, both ends of each.
    In(&'static [(char, char)]),
    /// Neither white space nor one of these.
    Except(&'static str),
}

impl Chars {
    fn has(self, c: char) -> bool {
        match self {
            Self::Of(set) => group(c) & set != 0,
            Self::In(ranges) => {
                let after = ranges.partition_point(|range| range.0 <= c);
                after > 0 && c <= ranges[after - 1].1
            }
            Self::Except(chars) => !is_white_space(c) && !chars.contains(c),
        }
    }
}

/// A part of an alternative.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Part {
    /// From so many to so many characters, as many as the parts behind it leave.
    Run(Chars, usize, usize),
    /// `'s 't 're 've 'm 'll 'd`, in lower case.
    Contraction,
    /// The same in any case.
    AnyContraction,
    /// The same, or nothing.
    MaybeContraction,
    /// `(?!\S)`
    BeforeWhite,
    /// These characters.
    Text(&'static str),
    /// `(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+`
    SpacedLetters,
}

/// Bytes of the match at the start of a text, by the first of the alternatives that matches.
///
/// A run gives back what the parts behind it need, a character at a time. No expression has two runs one
/// after the other that could both take many characters of a text and then fail, so this is linear in what
/// is scanned; and what an alternative scans in vain another one takes.
pub(super) fn matches(alternatives: &[&[Part]], text: &str) -> Option<usize> {
    alternatives.iter().find_map(|parts| length(parts, text)).filter(|&n| n > 0)
}

fn length(parts: &[Part], text: &str) -> Option<usize> {
    let Some((&part, rest)) = parts.split_first() else { return Some(0) };
    let then = |n: usize| length(rest, &text[n..]).map(|m| n + m);
    match part {
        Part::Run(chars, min, max) => {
            let mut count = 0;
            let mut end = 0;
            for c in text.chars().take(max).take_while(|&c| chars.has(c)) {
                count += 1;
                end += c.len_utf8();
            }
            loop {
                if count < min {
                    return None;
                }
                if let Some(n) = then(end) {
                    return Some(n);
                }
                count = count.checked_sub(1)?;
                end -= text[..end].chars().next_back().map_or(0, char::len_utf8);
            }
        }
        Part::Contraction => then(contraction(text, false)?),
        Part::AnyContraction => then(contraction(text, true)?),
        Part::MaybeContraction => then(contraction(text, true).unwrap_or(0)),
        Part::BeforeWhite => {
            let white = text.chars().next().is_none_or(is_white_space);
            if white { then(0) } else { None }
        }
        Part::Text(word) => text.starts_with(word).then(|| then(word.len()))?,
        Part::SpacedLetters => then(spaced_letters(text)?),
    }
}

/// Bytes of `'s 't 're 've 'm 'll 'd` at the start of `text`.
fn contraction(text: &str, any_case: bool) -> Option<usize> {
    let rest = text.strip_prefix('\'')?.as_bytes();
    let lower = |at: usize| -> u8 {
        let byte = rest.get(at).copied().unwrap_or(0);
        if any_case { byte.to_ascii_lowercase() } else { byte }
    };
    match (lower(0), lower(1)) {
        (b's' | b't' | b'm' | b'd', _) => Some(2),
        (b'r' | b'v', b'e') | (b'l', b'l') => Some(3),
        // Without regard to case the long s is an s.
        (0xc5, 0xbf) if any_case => Some(3),
        _ => None,
    }
}

/// Bytes of letters with their marks, a space between two of them at most.
fn spaced_letters(text: &str) -> Option<usize> {
    let letter = |text: &str| {
        let c = text.chars().next().filter(|&c| group(c) & LETTER != 0)?;
        let marks = text[c.len_utf8()..].chars().take_while(|&c| group(c) & MARK != 0);
        Some(c.len_utf8() + marks.map(char::len_utf8).sum::<usize>())
    };
    let mut end = letter(text)?;
    loop {
        let rest = &text[end..];
        let spaced = || rest.strip_prefix(' ').and_then(letter).map(|n| n + 1);
        match letter(rest).or_else(spaced) {
            Some(n) => end += n,
            None => return Some(end),
        }
    }
}
