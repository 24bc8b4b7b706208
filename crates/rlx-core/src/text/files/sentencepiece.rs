//! `tokenizer.model`, of SentencePiece: a protocol buffer, of which a few fields are read.
//!
//! ```text
//! ModelProto      1 pieces, repeated   2 trainer   3 normalizer
//! SentencePiece   1 text   2 score (f32)   3 type: 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte
//! TrainerSpec     3 model type: 1 Unigram, 2 BPE   40 unk id   41 bos id   42 eos id   43 pad id
//! NormalizerSpec  2 precompiled_charsmap   3 add_dummy_prefix   4 remove_extra_whitespaces
//! ```

use super::super::vocab::{BlankRuns, LeadingBlank, VocabData};
use crate::error::{Code, Error, Result};
use alloc::format;
use alloc::string::String;

/// The value of a field.
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    Word([u8; 4]),
    /// Eight bytes, which no field that is read has.
    Long,
}

/// Fields of a message, one after the other.
struct Fields<'a> {
    rest: &'a [u8],
    whole: usize,
}

impl<'a> Fields<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, whole: bytes.len() }
    }

    fn error(&self, what: &str) -> Error {
        Error::bad_file(format!("the file is no SentencePiece model: {what}")).at(format!(
            "byte {} of a message of {}",
            self.whole - self.rest.len(),
            self.whole
        ))
    }

    fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        let Some((head, rest)) = self.rest.split_at_checked(n) else {
            return Err(self.error("a field ends behind its message"));
        };
        self.rest = rest;
        Ok(head)
    }

    fn number(&mut self) -> Result<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(self.error("a number has more than ten bytes"))
    }

    /// The next field: its number and its value.
    fn next(&mut self) -> Result<Option<(u64, Value<'a>)>> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.number()?;
        let value = match tag & 7 {
            0 => Value::Number(self.number()?),
            1 => self.take(8).map(|_| Value::Long)?,
            2 => {
                let len = self.number()?;
                let len = usize::try_from(len).map_err(|_| self.error("a field is too long"))?;
                Value::Bytes(self.take(len)?)
            }
            5 => Value::Word(self.take(4)?.try_into().unwrap_or_default()),
            _ => return Err(self.error("a field is of no known type")),
        };
        Ok(Some((tag >> 3, value)))
    }
}

impl VocabData {
    /// Reads a `tokenizer.model`. Whether a text gets a BOS or an EOS is not in it: that is as the kind of
    /// tokenizer does.
    ///
    /// # Errors
    /// `BadFile` for what is no such model, `Unsupported` for one of words or characters.
    pub fn from_sentencepiece(bytes: &[u8]) -> Result<Self> {
        let mut data = VocabData { token_types: Some(Default::default()), ..Self::default() };
        let (mut kind, mut prefix, mut collapse) = (1, true, true);
        let id = |value: u64| u32::try_from(value).ok();
        let mut fields = Fields::new(bytes);
        while let Some((number, value)) = fields.next()? {
            let Value::Bytes(message) = value else { continue };
            let mut inner = Fields::new(message);
            match number {
                1 => piece(inner, &mut data)?,
                2 => {
                    (data.unk, data.bos, data.eos) = (Some(0), Some(1), Some(2));
                    while let Some((number, value)) = inner.next()? {
                        match (number, value) {
                            (3, Value::Number(value)) => kind = value,
                            (40, Value::Number(value)) => data.unk = id(value),
                            // Minus one is none.
                            (41, Value::Number(value)) => data.bos = id(value),
                            (42, Value::Number(value)) => data.eos = id(value),
                            (43, Value::Number(value)) => data.pad = id(value),
                            _ => {}
                        }
                    }
                }
                3 => {
                    while let Some((number, value)) = inner.next()? {
                        match (number, value) {
                            (2, Value::Bytes(map)) => data.charsmap = map.into(),
                            (3, Value::Number(value)) => prefix = value != 0,
                            (4, Value::Number(value)) => collapse = value != 0,
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
        if data.tokens.is_empty() {
            return Err(Error::bad_file("the file is no SentencePiece model: it has no pieces"));
        }
        data.model = match kind {
            1 => "t5",
            2 => "llama",
            _ => {
                let what = "a SentencePiece model of words or of characters is not supported";
                return Err(Error::new(Code::Unsupported, what).hint("supported: BPE and Unigram"));
            }
        }
        .into();
        data.blank_runs = Some(if collapse { BlankRuns::Joined } else { BlankRuns::Kept });
        data.user_defined_inside = true;
        data.leading_blank = Some(match (prefix, collapse) {
            (false, _) => LeadingBlank::Never,
            (true, true) => LeadingBlank::Missing,
            (true, false) => LeadingBlank::Always,
        });
        Ok(data)
    }
}

fn piece(mut fields: Fields<'_>, data: &mut VocabData) -> Result<()> {
    let (mut text, mut score, mut kind) = (String::new(), 0.0, 1);
    while let Some((number, value)) = fields.next()? {
        match (number, value) {
            (1, Value::Bytes(bytes)) => {
                let piece = core::str::from_utf8(bytes);
                text = piece.map_err(|_| fields.error("a piece is not UTF-8"))?.into();
            }
            (2, Value::Word(word)) => score = f32::from_le_bytes(word),
            (3, Value::Number(value)) => kind = i32::try_from(value).unwrap_or(0),
            _ => {}
        }
    }
    if kind == 4 {
        // It is looked for in text, which has blanks.
        text = text.replace('\u{2581}', " ");
    }
    data.tokens.push(text);
    data.scores.push(score);
    data.token_types.get_or_insert_default().push(kind);
    Ok(())
}
