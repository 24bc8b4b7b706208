//! Pre-tokenizers: cut text into the words that byte-pair encoding never merges across.
//!
//! Published tokenizers write this down as regular expressions, of which they need little: alternatives,
//! each a few runs of characters of some classes. Here an expression is a table of such parts
//! (`pattern.rs` says of which), and the tables have the names that llama.cpp gives them (`table.rs`).

mod pattern;
mod table;

use crate::{Code, Error, Result};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use pattern::Part;
use table::TABLE;

/// One expression: alternatives, of which the first that matches counts. What matches is a piece of its
/// own, and so is what lies between. Stages run one after the other, each on the pieces of the one before.
type Stage = &'static [&'static [Part]];

/// A row of the table of pre-tokenizers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pretokenizer {
    stages: &'static [Stage],
    /// The published tokenizer normalizes to NFC first (GGUF does not say so).
    pub nfc: bool,
    /// A word that is in the vocabulary is taken whole, merges or not.
    pub ignore_merges: bool,
    /// What a file that does not say means for its BOS.
    pub add_bos: bool,
}

impl Pretokenizer {
    /// What leaves a text whole.
    pub const NONE: Self = table::PLAIN;

    /// The pre-tokenizer of that name.
    ///
    /// # Errors
    /// [`Code::Unsupported`] for an unknown name; the hint lists the known ones.
    pub fn named(name: &str) -> Result<Self> {
        if let Some((_, found)) = TABLE.iter().find(|(names, _)| names.contains(&name)) {
            return Ok(*found);
        }
        let known: Vec<&str> =
            TABLE.iter().flat_map(|row| row.0).copied().filter(|name| !name.is_empty()).collect();
        let known: String = known.join(", ");
        Err(Error::new(Code::Unsupported, format!("pre-tokenizer `{name}` is not supported"))
            .at("tokenizer.ggml.pre")
            .hint(format!("known are {known}")))
    }

    /// Hands each word of `text` to `word`, in order; together they are the text.
    pub fn split<'a>(&self, text: &'a str, word: &mut dyn FnMut(&'a str)) {
        split(self.stages, text, word);
    }
}

/// The name of a pre-tokenizer that cuts text as the one of that name, and brings it to NFC and takes whole words as
/// is said; that name itself where it does. `None` where there is none.
///
/// # Errors
/// [`Code::Unsupported`] for an unknown name.
#[cfg(feature = "encode")]
pub fn pretokenizer_like(
    name: &str,
    nfc: Option<bool>,
    ignore_merges: Option<bool>,
) -> Result<Option<&'static str>> {
    let own = Pretokenizer::named(name)?;
    let nfc = nfc.unwrap_or(own.nfc);
    let ignore_merges = ignore_merges.unwrap_or(own.ignore_merges);
    let does =
        |p: &Pretokenizer| (p.stages, p.nfc, p.ignore_merges) == (own.stages, nfc, ignore_merges);
    let rows = TABLE.iter().filter(|(_, p)| does(p));
    let names: Vec<&'static str> = rows.flat_map(|row| row.0).copied().collect();
    Ok(names.iter().find(|n| **n == name).or(names.first()).copied())
}

/// The words of `text` by the pre-tokenizer of that name, as `tokenizer.ggml.pre` has it.
///
/// # Errors
/// [`Code::Unsupported`] for an unknown name; the hint lists the known ones.
pub fn words<'a>(pre: &str, text: &'a str) -> Result<Vec<&'a str>> {
    let mut words = Vec::new();
    Pretokenizer::named(pre)?.split(text, &mut |word| words.push(word));
    Ok(words)
}

fn split<'a>(stages: &[Stage], text: &'a str, word: &mut dyn FnMut(&'a str)) {
    if text.is_empty() {
        return;
    }
    let Some((&stage, rest)) = stages.split_first() else { return word(text) };
    let next: &mut dyn FnMut(&'a str) = &mut |piece| split(rest, piece, word);
    let (mut start, mut at) = (0, 0);
    // White space at the end is one piece, and is not looked for from every place before it.
    let end = if stage == table::TAIL { table::tail(text) } else { text.len() };
    while at < end {
        match pattern::matches(stage, &text[at..]) {
            Some(n) => {
                next(&text[start..at]);
                next(&text[at..at + n]);
                at += n;
                start = at;
            }
            None => at += text[at..].chars().next().map_or(1, char::len_utf8),
        }
    }
    next(&text[start..end]);
    next(&text[end..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn llama3_takes_three_digits_and_any_prefix() {
        let want = vec!["I", "'ve", " ", "123", "45", "\tx", "!!\n", "  \n", " ", " y"];
        assert_eq!(words("llama-bpe", "I've 12345\tx!!\n  \n  y").unwrap(), want);
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let error = words("klingon", "").unwrap_err();
        assert_eq!(error.code, Code::Unsupported);
        assert_eq!(error.what, "pre-tokenizer `klingon` is not supported");
        assert!(error.hint.contains("llama-bpe, llama3") && error.hint.contains("qwen35"));
    }

    #[test]
    fn white_space_of_a_million_blanks_is_scanned_once() {
        let text = " ".repeat(1_000_000) + "x";
        assert_eq!(words("gpt-2", &text).unwrap().len(), 2);
    }
}
