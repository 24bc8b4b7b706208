//! The normalization table of SentencePiece: what a sequence of characters is replaced by.
//!
//! `precompiled_charsmap` is the length of a trie in bytes, the trie, and the replacements, each ended by
//! a zero byte. The trie is a double array of 32-bit units, in the layout of Darts-clone: bits 10 and up
//! are an offset (times 256 where bit 9 is set), bit 8 says that a value follows, and the low byte is the
//! label. A unit with bit 31 is a value: where the replacement begins.
//!
//! As SentencePiece does, the longest sequence at each place is replaced. Hugging Face's tokenizers look at a
//! whole grapheme cluster of less than six bytes, take the shortest sequence that begins it for all of it,
//! and else replace single characters: clusters of several marks come out otherwise there.

use crate::{Error, Result};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

const KEY: &str = "tokenizer.ggml.precompiled_charsmap";
/// Bytes of a replaced sequence at most. The longest of published tables have 18; a broken trie with a
/// cycle would otherwise be walked to the end of the text from every character.
const KEY_MAX: usize = 64;
/// Bytes of a replacement at most; that of U+FDFA has 33.
const VALUE_MAX: usize = 256;

/// A table of replacements.
#[derive(Clone, Debug, Default)]
pub(super) struct Charsmap {
    units: Vec<u32>,
    replacements: String,
}

impl Charsmap {
    /// Reads a table; no bytes are one that replaces nothing.
    ///
    /// # Errors
    /// `BadFile` for lengths that do not fit, and for replacements that are no text.
    pub(super) fn new(bytes: &[u8]) -> Result<Self> {
        if bytes.is_empty() {
            return Ok(Self::default());
        }
        let bad = |what: String| Error::bad_file(what).at(KEY);
        let Some((len, rest)) = bytes.split_first_chunk() else {
            return Err(bad(format!("the table has {} bytes, its length has 4", bytes.len())));
        };
        let len = u32::from_le_bytes(*len) as usize;
        let Some((trie, text)) = rest.split_at_checked(len).filter(|_| len.is_multiple_of(4))
        else {
            return Err(bad(format!("the trie has {len} bytes of {}", rest.len())));
        };
        let text = core::str::from_utf8(text);
        let text = text.map_err(|_| bad("the replacements are not UTF-8".into()))?;
        let unit = |b: &[u8]| u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
        Ok(Self { units: trie.chunks_exact(4).map(unit).collect(), replacements: text.into() })
    }

    /// Whether nothing is replaced.
    pub(super) fn is_empty(&self) -> bool {
        self.units.is_empty()
    }

    /// Appends the text with the longest sequence at each place replaced.
    pub(super) fn apply(&self, text: &str, out: &mut String) {
        let mut at = 0;
        while let Some(c) = text[at..].chars().next() {
            match self.longest(&text[at..]) {
                Some((len, value)) => {
                    out.push_str(value);
                    at += len;
                }
                None => {
                    out.push(c);
                    at += c.len_utf8();
                }
            }
        }
    }

    /// The bytes of the longest sequence at the start of a text that is replaced, and by what.
    fn longest(&self, text: &str) -> Option<(usize, &str)> {
        let mut found = None;
        let mut node = offset(*self.units.first()?);
        for (at, &byte) in text.as_bytes().iter().take(KEY_MAX).enumerate() {
            node ^= u32::from(byte);
            let Some(&unit) = self.units.get(node as usize) else { break };
            if unit & (1 << 31 | 0xff) != u32::from(byte) {
                break;
            }
            node ^= offset(unit);
            if unit >> 8 & 1 == 1
                && text.is_char_boundary(at + 1)
                && let Some(&value) = self.units.get(node as usize)
                && let Some(value) = self.replacement(value & !(1 << 31))
            {
                found = Some((at + 1, value));
            }
        }
        found
    }

    fn replacement(&self, start: u32) -> Option<&str> {
        let text = self.replacements.get(start as usize..)?;
        let end = text.bytes().take(VALUE_MAX).position(|byte| byte == 0)?;
        text.get(..end)
    }
}

fn offset(unit: u32) -> u32 {
    (unit >> 10) << ((unit & 1 << 9) >> 6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    /// A trie in which `a` becomes `bc`: the root's offset is 0, so its child stands at 97 and the child's
    /// value at 97 ^ 1.
    fn table() -> Vec<u8> {
        let mut units = vec![0_u32; 256];
        units[97] = 1 << 10 | 1 << 8 | 97;
        units[96] = 1 << 31;
        let mut bytes = 1024_u32.to_le_bytes().to_vec();
        units.iter().for_each(|unit| bytes.extend(unit.to_le_bytes()));
        bytes.extend(b"bc\0");
        bytes
    }

    fn apply(bytes: &[u8], text: &str) -> String {
        let mut out = String::new();
        Charsmap::new(bytes).unwrap().apply(text, &mut out);
        out
    }

    #[test]
    fn sequences_are_replaced_and_the_rest_stays() {
        assert_eq!(apply(&table(), "xaé"), "xbcé");
        assert_eq!(apply(&[], "xa"), "xa");
    }

    #[test]
    fn broken_tables_are_refused_or_replace_nothing() {
        for bytes in [&[1, 0][..], &[9, 0, 0, 0, 1], &[1, 0, 0, 0, 1], &[0, 0, 0, 0, 0xff]] {
            assert!(Charsmap::new(bytes).is_err(), "{bytes:?}");
        }
        // A replacement without an end.
        let whole = table();
        assert_eq!(apply(&whole[..whole.len() - 1], "a"), "a");
        // A cycle: `a` leads to itself.
        let mut cycle = table();
        cycle[4 + 4 * 97..][..4].copy_from_slice(&(97_u32 ^ 97 << 10).to_le_bytes());
        assert_eq!(apply(&cycle, &"a".repeat(100_000)).len(), 100_000);
    }
}
