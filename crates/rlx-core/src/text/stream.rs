//! Text from tokens as they come: whole characters only, and nothing of a stop string.
//!
//! A token may end inside a character, and a stop string may begin in one token and end in
//! another. So the stream holds back an unfinished character and any end of the text that may be
//! the begin of a stop string; what is held is bounded by the longest stop string, and the work
//! for a token by its own length and that bound.

use super::Tokenizer;
use alloc::string::String;
use alloc::vec::Vec;

/// Bytes in, text out. The texts that [`push`](Self::push) and [`finish`](Self::finish) give,
/// joined, are the lossy text of all bytes, up to the first stop string.
#[derive(Clone, Debug, Default)]
pub struct TextStream {
    stops: Vec<String>,
    /// The begin of a character.
    bytes: Vec<u8>,
    /// Text that may be the begin of a stop string.
    held: String,
    /// What the last call gave.
    ready: String,
    stopped: bool,
    /// Whether a token has given text, or text stands before all of them.
    begun: bool,
}

impl TextStream {
    /// A stream that ends before the first of these strings. Empty ones are ignored.
    pub fn new(stops: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let stops = stops.into_iter().map(Into::into).filter(|s: &String| !s.is_empty()).collect();
        Self { stops, ..Self::default() }
    }

    /// The stream of tokens that follow the token `last`. Behind text the blank of a first word belongs to
    /// the text; else it is one that the tokenizer put there, where it is of that kind.
    #[must_use]
    pub fn behind(mut self, tokenizer: &Tokenizer, last: Option<u32>) -> Self {
        self.begun = last.is_some_and(|id| !tokenizer.is_control(id));
        self
    }

    /// Takes a token and gives the text that became certain. Control tokens have no text.
    pub fn push_token(&mut self, tokenizer: &Tokenizer, id: u32) -> &str {
        let mut piece = if tokenizer.is_control(id) { &[] } else { tokenizer.piece(id) };
        if !self.begun && !piece.is_empty() {
            self.begun = true;
            if tokenizer.drops_blank() {
                piece = piece.strip_prefix(b" ").unwrap_or(piece);
            }
        }
        self.push(piece)
    }

    /// Takes bytes and gives the text that became certain.
    pub fn push(&mut self, bytes: &[u8]) -> &str {
        self.ready.clear();
        if !self.stopped {
            self.bytes.extend_from_slice(bytes);
            self.take_characters();
            self.release();
        }
        &self.ready
    }

    /// The end of the bytes: gives what was held back, an unfinished character as U+FFFD.
    pub fn finish(&mut self) -> &str {
        self.ready.clear();
        if !self.stopped {
            self.held.push_str(&String::from_utf8_lossy(&self.bytes));
            self.release();
            if !self.stopped {
                self.ready.push_str(&self.held);
            }
        }
        self.held.clear();
        self.bytes.clear();
        &self.ready
    }

    /// Whether a stop string was met; from then on there is no more text.
    pub fn stopped(&self) -> bool {
        self.stopped
    }

    /// Moves whole characters from `bytes` to `held`.
    fn take_characters(&mut self) {
        let mut rest: &[u8] = &self.bytes;
        loop {
            match core::str::from_utf8(rest) {
                Ok(text) => {
                    self.held.push_str(text);
                    rest = &[];
                    break;
                }
                Err(error) => {
                    let (valid, after) = rest.split_at(error.valid_up_to());
                    self.held.push_str(core::str::from_utf8(valid).unwrap_or_default());
                    rest = after;
                    let Some(n) = error.error_len() else { break };
                    self.held.push('\u{fffd}');
                    rest = &rest[n..];
                }
            }
        }
        let taken = self.bytes.len() - rest.len();
        self.bytes.drain(..taken);
    }

    /// Moves what is certain from `held` to `ready`. Of several stop strings the one that ends
    /// first counts, so that the text does not depend on how it was cut into tokens.
    fn release(&mut self) {
        let found = self.stops.iter().filter_map(|stop| {
            let start = self.held.find(stop.as_str())?;
            Some((start + stop.len(), start))
        });
        if let Some((_, start)) = found.min() {
            self.ready.push_str(&self.held[..start]);
            self.held.clear();
            self.bytes.clear();
            self.stopped = true;
            return;
        }
        let keep = self.stops.iter().map(|stop| overlap(&self.held, stop)).max().unwrap_or(0);
        self.ready.extend(self.held.drain(..self.held.len() - keep));
    }
}

/// Bytes of the longest end of `text` with which `stop` begins.
fn overlap(text: &str, stop: &str) -> usize {
    let longest = text.len().min(stop.len() - 1);
    let fits = |&n: &usize| text.as_bytes().ends_with(&stop.as_bytes()[..n]);
    // An end that is equal byte for byte to a begin of `stop` may still cut a character of it.
    (1..=longest).rev().find(|n| fits(n) && stop.is_char_boundary(*n)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run(stops: &[&str], cuts: &[&[u8]]) -> (String, bool) {
        let mut stream = TextStream::new(stops.iter().copied());
        let mut text = String::new();
        for cut in cuts {
            text.push_str(stream.push(cut));
        }
        text.push_str(stream.finish());
        (text, stream.stopped())
    }

    #[test]
    fn half_a_character_waits_for_the_other_half() {
        let mut stream = TextStream::new([""]);
        let rocket = "🚀".as_bytes();
        assert_eq!(stream.push(b"a"), "a");
        assert_eq!(stream.push(&rocket[..3]), "");
        assert_eq!(stream.push(&rocket[3..]), "🚀");
        assert_eq!(stream.push(&rocket[..2]), "");
        assert_eq!(stream.push(b"b"), "\u{fffd}b");
        assert_eq!(stream.push(&rocket[..1]), "");
        assert_eq!(stream.finish(), "\u{fffd}");
    }

    #[test]
    fn a_stop_string_is_found_across_tokens_and_never_shown() {
        let mut stream = TextStream::new(["\nUser:", "é!"]);
        assert_eq!(stream.push(b"Hi\nUs"), "Hi");
        assert_eq!(stream.push(b"ual"), "\nUsual");
        assert_eq!(stream.push("\u{e9}".as_bytes()), "");
        assert_eq!(stream.push(b"\n"), "é");
        assert_eq!(stream.push(b"User"), "");
        assert!(!stream.stopped());
        assert_eq!(stream.push(b": more"), "");
        assert!(stream.stopped());
        assert_eq!((stream.push(b"x").len(), stream.finish().len()), (0, 0));
    }

    #[test]
    fn what_was_held_comes_at_the_end() {
        assert_eq!(run(&["STOP"], &[b"aST", b"O"]), ("aSTO".into(), false));
    }

    #[test]
    fn the_stop_string_that_ends_first_counts_however_the_text_is_cut() {
        let whole = run(&["abcd", "bc"], &[b"xabcd"]);
        assert_eq!(whole, ("xa".into(), true));
        assert_eq!(run(&["abcd", "bc"], &[b"x", b"ab", b"c", b"d"]), whole);
    }

    proptest! {
        #[test]
        fn without_stops_the_pieces_join_to_the_lossy_text(bytes: Vec<u8>, cut in 1_usize..5) {
            let cuts: Vec<&[u8]> = bytes.chunks(cut).collect();
            let (text, _) = run(&[], &cuts);
            prop_assert_eq!(text, String::from_utf8_lossy(&bytes).into_owned());
        }

        #[test]
        fn with_stops_the_cuts_do_not_matter(text in "[abé🚀]{0,40}", cut in 1_usize..7) {
            let stops = ["abab", "bé", "🚀🚀a"];
            let cuts: Vec<&[u8]> = text.as_bytes().chunks(cut).collect();
            let (got, stopped) = run(&stops, &cuts);
            let ends = stops.iter().filter_map(|s| Some((text.find(s)? + s.len(), text.find(s)?)));
            let want = ends.min().map_or(text.as_str(), |(_, start)| &text[..start]);
            prop_assert_eq!(got, want);
            prop_assert_eq!(stopped, want.len() < text.len());
        }
    }
}
