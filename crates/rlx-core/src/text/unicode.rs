//! What pre-tokenizers ask of Unicode: general categories, white space, and NFC.

use super::unicode_tables::{CASES, CLASSES, COMBINING, COMPOSITIONS, DECOMPOSITIONS};
#[cfg(feature = "encoders")]
use super::unicode_tables::{CONTROLS, SPACING};
use crate::order;
use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

/// The major general category of a code point, as far as pre-tokenizers tell them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Separators, controls, unassigned.
    Other,
    /// `\p{L}`
    Letter,
    /// `\p{M}`
    Mark,
    /// `\p{N}`
    Number,
    /// `\p{P}`
    Punctuation,
    /// `\p{S}`
    Symbol,
}

/// The value of the last row that starts at or before `c`, in a table of `start << bits | value`.
fn lookup(table: &[u32], bits: u32, c: u32) -> u32 {
    let row = table.partition_point(|&row| row >> bits <= c);
    if row == 0 { 0 } else { table[row - 1] & ((1 << bits) - 1) }
}

/// The class of a code point.
pub fn class(c: char) -> Class {
    match lookup(&CLASSES, 3, c as u32) {
        1 => Class::Letter,
        2 => Class::Mark,
        3 => Class::Number,
        4 => Class::Punctuation,
        5 => Class::Symbol,
        _ => Class::Other,
    }
}

/// The case of a letter by its general category, as expressions ask for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// `\p{Lm}`, `\p{Lo}`, and what is no letter.
    None,
    /// `\p{Lu}`, `\p{Lt}`
    Upper,
    /// `\p{Ll}`
    Lower,
}

/// The case of a letter.
pub fn case(c: char) -> Case {
    let even = (c as u32).is_multiple_of(2);
    match (lookup(&CASES, 3, c as u32), even) {
        (1, _) | (3, true) | (4, false) => Case::Upper,
        (2, _) | (3, false) | (4, true) => Case::Lower,
        _ => Case::None,
    }
}

/// Whether a mark has room of its own or encloses: `\p{Mc}` or `\p{Me}`, and not `\p{Mn}`.
#[cfg(feature = "encoders")]
pub fn is_spacing_mark(c: char) -> bool {
    lookup(&SPACING, 1, c as u32) == 1
}

/// Whether a character is a control, a format or for private use; what is unassigned is none of them.
#[cfg(feature = "encoders")]
pub fn is_control(c: char) -> bool {
    lookup(&CONTROLS, 1, c as u32) == 1
}

/// The property White_Space, which is what `\s` means in every pre-tokenizer's expression.
pub fn is_white_space(c: char) -> bool {
    matches!(c, '\t'..='\r' | ' ' | '\u{85}' | '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}')
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202f}' | '\u{205f}' | '\u{3000}')
}

// Hangul syllables are arithmetic (the Unicode standard, section 3.12), so no table has them.
const SYLLABLES: u32 = 0xac00;
const LEADS: u32 = 0x1100;
const VOWELS: u32 = 0x1161;
const TAILS: u32 = 0x11a7;
const N_LEADS: u32 = 19;
const N_VOWELS: u32 = 21;
const N_TAILS: u32 = 28;
const N_SYLLABLES: u32 = N_LEADS * N_VOWELS * N_TAILS;

/// Normalization Form C. Text without a code point from U+0300 on comes back borrowed: nothing
/// below it decomposes to what would not compose again.
pub fn nfc(text: &str) -> Cow<'_, str> {
    if text.chars().all(|c| (c as u32) < 0x300) {
        return Cow::Borrowed(text);
    }
    let mut chars: Vec<(u8, u32)> = Vec::with_capacity(text.len());
    for c in text.chars() {
        decompose(c as u32, &mut chars);
    }
    // Canonical order: marks between two starters stand by their combining class.
    for run in chars.split_mut(|&(combining, _)| combining == 0) {
        order::sort_by_key(run, |&(combining, _)| combining);
    }
    Cow::Owned(compose(&chars))
}

/// Appends what a code point decomposes to, each with its combining class: a part of Normalization
/// Form D, before marks are put in order.
pub fn decompose(c: u32, out: &mut Vec<(u8, u32)>) {
    let index = c.wrapping_sub(SYLLABLES);
    if index < N_SYLLABLES {
        out.push((0, LEADS + index / (N_VOWELS * N_TAILS)));
        out.push((0, VOWELS + index / N_TAILS % N_VOWELS));
        if !index.is_multiple_of(N_TAILS) {
            out.push((0, TAILS + index % N_TAILS));
        }
    } else if let Ok(row) = DECOMPOSITIONS.binary_search_by_key(&c, |&row| (row >> 36) as u32) {
        let (_, first, second) = parts(row);
        decompose(first, out);
        if second != 0 {
            decompose(second, out);
        }
    } else {
        out.push((lookup(&COMBINING, 8, c) as u8, c));
    }
}

/// (whole, first, second) of a row of the decomposition table.
fn parts(row: usize) -> (u32, u32, u32) {
    let field = |shift: u32| (DECOMPOSITIONS[row] >> shift) as u32 & 0x3_ffff;
    (field(36), field(18), field(0))
}

fn compose(chars: &[(u8, u32)]) -> String {
    let mut out: Vec<u32> = Vec::with_capacity(chars.len());
    let mut starter: Option<usize> = None;
    // Combining class of what stands last behind the starter and did not compose.
    let mut last: Option<u8> = None;
    for &(combining, c) in chars {
        // Blocked by an equal or higher class in between, a starter by anything in between.
        let blocked = last.is_some_and(|last| last >= combining);
        if let Some(at) = starter
            && !blocked
            && let Some(whole) = pair(out[at], c)
        {
            out[at] = whole;
            continue;
        }
        if combining == 0 {
            starter = Some(out.len());
            last = None;
        } else {
            last = Some(combining);
        }
        out.push(c);
    }
    // Every value is a char of the input or of the tables, so none is lost here.
    out.into_iter().filter_map(char::from_u32).collect()
}

fn pair(first: u32, second: u32) -> Option<u32> {
    let (lead, vowel) = (first.wrapping_sub(LEADS), second.wrapping_sub(VOWELS));
    if lead < N_LEADS && vowel < N_VOWELS {
        return Some(SYLLABLES + (lead * N_VOWELS + vowel) * N_TAILS);
    }
    let (syllable, tail) = (first.wrapping_sub(SYLLABLES), second.wrapping_sub(TAILS));
    if syllable < N_SYLLABLES && syllable.is_multiple_of(N_TAILS) && (1..N_TAILS).contains(&tail) {
        return Some(first + tail);
    }
    let key = (first, second);
    let found = COMPOSITIONS.binary_search_by_key(&key, |&row| {
        let (_, first, second) = parts(row as usize);
        (first, second)
    });
    found.ok().map(|at| parts(COMPOSITIONS[at] as usize).0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_behind_another_of_its_class_stays_apart() {
        assert_eq!(nfc("a\u{301}"), "\u{e1}");
        // An overline composes with nothing, and stands where the acute would have to pass it.
        assert_eq!(nfc("a\u{305}\u{301}"), "a\u{305}\u{301}");
        // A dot below is of another class.
        assert_eq!(nfc("a\u{316}\u{301}"), "\u{e1}\u{316}");
    }

    #[test]
    fn classes_of_ascii_and_beyond() {
        for (c, want) in [
            ('a', Class::Letter),
            ('Z', Class::Letter),
            ('0', Class::Number),
            ('_', Class::Punctuation),
            ('$', Class::Symbol),
            (' ', Class::Other),
            ('\u{0}', Class::Other),
            ('é', Class::Letter),
            ('½', Class::Number),
            ('٣', Class::Number),
            ('\u{301}', Class::Mark),
            ('中', Class::Letter),
            ('🙂', Class::Symbol),
            ('\u{e000}', Class::Other),
            ('\u{10ffff}', Class::Other),
        ] {
            assert_eq!(class(c), want, "{c:?}");
        }
    }

    #[test]
    fn white_space_is_what_the_standard_library_says() {
        for c in '\0'..=char::MAX {
            assert_eq!(is_white_space(c), c.is_whitespace(), "{c:?}");
        }
    }

    #[test]
    fn what_the_standard_library_calls_numeric_is_a_number() {
        // The other way round does not hold: Unicode versions only add.
        for c in ('\0'..=char::MAX).filter(|c| c.is_numeric()) {
            assert_eq!(class(c), Class::Number, "{c:?}");
        }
    }

    #[test]
    fn nfc_composes_reorders_and_respects_exclusions() {
        for (text, want) in [
            ("plain é", "plain é"),
            ("cafe\u{301}", "café"),
            ("\u{1112}\u{1161}\u{11ab}\u{1100}\u{1173}\u{11af}", "한글"),
            ("\u{212b} \u{2126}", "Å Ω"),
            // Excluded from composition, so it decomposes for good.
            ("\u{fb2a}", "\u{5e9}\u{5c1}"),
            // The dot below (220) comes before the acute (230), and composes first.
            ("a\u{301}\u{323}", "\u{1ea1}\u{301}"),
            // A second acute is blocked by the first mark of its class.
            ("q\u{301}\u{301}", "q\u{301}\u{301}"),
            ("\u{301}a", "\u{301}a"),
            ("\u{344}", "\u{308}\u{301}"),
        ] {
            assert_eq!(nfc(text), want);
        }
    }
}
