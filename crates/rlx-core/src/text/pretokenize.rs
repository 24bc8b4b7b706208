//! Pre-tokenizers: cut text into the words that byte-pair encoding never merges across.
//!
//! Published tokenizers write this down as regular expressions. The expressions differ in a few
//! places only, so one scanner with a [`Words`] of switches stands for all of them, after zero or
//! more [`Stage`]s that isolate runs (digits, punctuation) first. Each scan is linear in the text.

use super::unicode::{Class, class, is_white_space};
use crate::{Code, Error, Result};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// One cut. Stages run one after the other, each on the pieces the one before left.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    /// `\p{N}{1,max}` is a piece of its own, and so is what lies between.
    Numbers { max: usize },
    /// Runs of `\p{P}`, `$+<=>^~|`, and the backtick when `backtick`.
    Punctuation { backtick: bool },
    /// `[0-9][0-9][0-9]`
    DigitTriples,
    /// `[^\n]+|[\n]+`
    Lines,
    /// The alternatives of a word.
    Words(Words),
}

/// The alternatives of a word, in their order: contraction, letters, numbers, others, white space.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Words {
    contractions: Contractions,
    /// Letters may follow any one character but a line break, letter or number; else only a blank.
    any_prefix: bool,
    /// Combining marks count as letters.
    marks: bool,
    /// The longest run of numbers.
    max_numbers: usize,
    /// A blank may lead a run of numbers.
    blank_number: bool,
    /// Line breaks that follow a run of others belong to it.
    tail: bool,
    /// White space is cut behind its last line break.
    line_breaks: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Contractions {
    No,
    LowerCase,
    AnyCase,
}

const LLAMA3: Words = Words {
    contractions: Contractions::AnyCase,
    any_prefix: true,
    marks: false,
    max_numbers: 3,
    blank_number: false,
    tail: true,
    line_breaks: true,
};
const QWEN2: Words = Words { max_numbers: 1, ..LLAMA3 };
const QWEN35: Words = Words { marks: true, ..QWEN2 };
const SEED: Words = Words { tail: false, ..QWEN2 };
const UFAKZEKA: Words = Words { contractions: Contractions::No, ..QWEN2 };
const ANY_NUMBERS: Words = Words { max_numbers: usize::MAX, ..LLAMA3 };
const GPT2: Words = Words {
    contractions: Contractions::LowerCase,
    any_prefix: false,
    marks: false,
    max_numbers: usize::MAX,
    blank_number: true,
    tail: false,
    line_breaks: false,
};

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

const PLAIN: Pretokenizer =
    Pretokenizer { stages: &[], nfc: false, ignore_merges: false, add_bos: false };

/// Names in `tokenizer.ggml.pre` and what they mean.
const TABLE: &[(&[&str], Pretokenizer)] = &[
    (
        &[
            "llama-bpe",
            "llama3",
            "llama-v3",
            "falcon3",
            "falcon-h1",
            "pixtral",
            "midm-2.0",
            "lfm2",
            "jina-v5-nano",
        ],
        Pretokenizer {
            stages: &[Stage::Words(LLAMA3)],
            ignore_merges: true,
            add_bos: true,
            ..PLAIN
        },
    ),
    (
        &["dbrx", "smaug-bpe", "chatglm-bpe", "glm4", "glm5"],
        Pretokenizer { stages: &[Stage::Words(LLAMA3)], ..PLAIN },
    ),
    (&["qwen2"], Pretokenizer { stages: &[Stage::Words(QWEN2)], nfc: true, ..PLAIN }),
    (
        &[
            "deepseek-r1-qwen",
            "stablelm2",
            "kormo",
            "f2llmv2",
            "megrez",
            "hunyuan",
            "solar-open",
            "grok-2",
            "bailingmoe",
            "bailingmoe2",
            "llada-moe",
        ],
        Pretokenizer { stages: &[Stage::Words(QWEN2)], ..PLAIN },
    ),
    (&["qwen35"], Pretokenizer { stages: &[Stage::Words(QWEN35)], nfc: true, ..PLAIN }),
    (&["seed-coder"], Pretokenizer { stages: &[Stage::Words(SEED)], ..PLAIN }),
    (&["ufakzeka"], Pretokenizer { stages: &[Stage::Words(UFAKZEKA)], ..PLAIN }),
    (
        &["minicpm5"],
        Pretokenizer { stages: &[Stage::Numbers { max: 3 }, Stage::Words(ANY_NUMBERS)], ..PLAIN },
    ),
    (
        &[
            "gpt-2",
            "phi-2",
            "jina-es",
            "jina-de",
            "jina-v1-en",
            "jina-v2-es",
            "jina-v2-de",
            "jina-v2-code",
            "gigachat",
            "a.x-4.0",
            "mellum",
            "modern-bert",
            "roberta-bpe",
            "exaone4",
            "mpt",
            "olmo",
            "jais",
            "trillion",
            "granite-docling",
        ],
        Pretokenizer { stages: &[Stage::Words(GPT2)], ..PLAIN },
    ),
    (
        &[
            "smollm",
            "starcoder",
            "refact",
            "command-r",
            "codeshell",
            "exaone",
            "minerva-7b",
            "mellum2",
        ],
        Pretokenizer { stages: &[Stage::Numbers { max: 1 }, Stage::Words(GPT2)], ..PLAIN },
    ),
    (
        &["falcon"],
        Pretokenizer {
            stages: &[
                Stage::Punctuation { backtick: true },
                Stage::Words(GPT2),
                Stage::DigitTriples,
            ],
            ..PLAIN
        },
    ),
    (
        &["gemma4", "granite-embed-multi-311m", "sarvam-moe"],
        Pretokenizer { stages: &[Stage::Lines], ..PLAIN },
    ),
    (
        // Files from before `tokenizer.ggml.pre` say nothing.
        &["default", ""],
        Pretokenizer {
            stages: &[
                Stage::Punctuation { backtick: false },
                Stage::Words(GPT2),
                Stage::Numbers { max: usize::MAX },
                Stage::DigitTriples,
            ],
            ..PLAIN
        },
    ),
];

impl Pretokenizer {
    /// What leaves a text whole.
    pub const NONE: Self = PLAIN;

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
    let Some((stage, rest)) = stages.split_first() else {
        if !text.is_empty() {
            word(text);
        }
        return;
    };
    let next: &mut dyn FnMut(&'a str) = &mut |piece| split(rest, piece, word);
    match *stage {
        Stage::Numbers { max } => {
            isolate(text, next, |rest| prefix(rest, max, |c| class(c) == Class::Number))
        }
        Stage::Punctuation { backtick } => isolate(text, next, |rest| {
            prefix(rest, usize::MAX, |c| {
                class(c) == Class::Punctuation || "$+<=>^~|".contains(c) || (backtick && c == '`')
            })
        }),
        Stage::DigitTriples => isolate(text, next, |rest| {
            let n = prefix(rest, 3, |c| c.is_ascii_digit());
            if n == 3 { 3 } else { 0 }
        }),
        Stage::Lines => isolate(text, next, |rest| prefix(rest, usize::MAX, |c| c == '\n')),
        Stage::Words(words) => {
            let mut rest = text;
            while !rest.is_empty() {
                let (piece, after) = rest.split_at(words.next(rest));
                next(piece);
                rest = after;
            }
        }
    }
}

/// Cuts out every match; `matches` gives the length of the one at the start of its text, or 0.
fn isolate<'a>(text: &'a str, next: &mut dyn FnMut(&'a str), matches: impl Fn(&str) -> usize) {
    let (mut start, mut at) = (0, 0);
    while at < text.len() {
        let n = matches(&text[at..]);
        if n == 0 {
            at += char_len(text, at);
            continue;
        }
        next(&text[start..at]);
        next(&text[at..at + n]);
        at += n;
        start = at;
    }
    next(&text[start..]);
}

/// Bytes of the first up to `max` characters that `is` holds for.
fn prefix(text: &str, max: usize, is: impl Fn(char) -> bool) -> usize {
    text.chars().take(max).take_while(|&c| is(c)).map(char::len_utf8).sum()
}

fn char_len(text: &str, at: usize) -> usize {
    text[at..].chars().next().map_or(0, char::len_utf8)
}

fn is_line_break(c: char) -> bool {
    c == '\r' || c == '\n'
}

impl Words {
    fn is_letter(&self, c: char) -> bool {
        match class(c) {
            Class::Letter => true,
            Class::Mark => self.marks,
            _ => false,
        }
    }

    fn is_other(&self, c: char) -> bool {
        !is_white_space(c)
            && match class(c) {
                Class::Letter | Class::Number => false,
                Class::Mark => !self.marks,
                _ => true,
            }
    }

    /// Bytes of the first word of `text`, which is not empty.
    fn next(&self, text: &str) -> usize {
        let mut chars = text.chars();
        let Some(first) = chars.next() else { return 0 };
        if first == '\''
            && let n @ 1.. = self.contraction(&text[1..])
        {
            return 1 + n;
        }
        let (n, rest) = (first.len_utf8(), chars.as_str());
        let second = chars.next();
        let is_second = |is: &dyn Fn(char) -> bool| second.is_some_and(is);

        if self.is_letter(first) {
            return prefix(text, usize::MAX, |c| self.is_letter(c));
        }
        let leads_letters = if self.any_prefix {
            !is_line_break(first) && class(first) != Class::Number
        } else {
            first == ' '
        };
        if leads_letters && is_second(&|c| self.is_letter(c)) {
            return n + prefix(rest, usize::MAX, |c| self.is_letter(c));
        }
        let is_number = |c| class(c) == Class::Number;
        if is_number(first) {
            return prefix(text, self.max_numbers, is_number);
        }
        if self.blank_number && first == ' ' && is_second(&is_number) {
            return n + prefix(rest, self.max_numbers, is_number);
        }
        if self.is_other(first) || (first == ' ' && is_second(&|c| self.is_other(c))) {
            let n = n + prefix(rest, usize::MAX, |c| self.is_other(c));
            return n + if self.tail { prefix(&text[n..], usize::MAX, is_line_break) } else { 0 };
        }
        self.white_space(text)
    }

    /// `text` begins with white space: up to its last line break, or else all of it but the last
    /// character, which goes to the word that follows.
    fn white_space(&self, text: &str) -> usize {
        let run = &text[..prefix(text, usize::MAX, is_white_space)];
        if self.line_breaks
            && let Some(at) = run.rfind(is_line_break)
        {
            return at + 1;
        }
        match run.char_indices().next_back() {
            Some((last, _)) if run.len() < text.len() && last > 0 => last,
            _ => run.len(),
        }
    }

    /// Bytes of `s t re ve m ll d` at the start of `text`, or 0.
    fn contraction(&self, text: &str) -> usize {
        let (first, second) = match *text.as_bytes() {
            [a, b, ..] => (a, b),
            [a] => (a, 0),
            [] => return 0,
        };
        let (first, second) = match self.contractions {
            Contractions::No => return 0,
            Contractions::LowerCase => (first, second),
            Contractions::AnyCase => (first.to_ascii_lowercase(), second.to_ascii_lowercase()),
        };
        match (first, second) {
            (b's' | b't' | b'm' | b'd', _) => 1,
            (b'r' | b'v', b'e') | (b'l', b'l') => 2,
            _ => 0,
        }
    }
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
