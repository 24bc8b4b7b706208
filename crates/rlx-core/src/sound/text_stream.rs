//! Text that is handed out while it grows, and is the same as if it had been made at once.
//!
//! What transformers does to a whole text here happens as it comes: blanks at both ends go, letters become small,
//! and blanks before punctuation go (`clean_up_tokenization_spaces`). All of these look at few characters
//! around a place, so whatever stands before a blank that no rule can touch is final.

use alloc::string::String;
use core::mem::take;

/// Blanks that go before punctuation and before what English contracts: from, to, one rule after the other.
const CLEAN: [[&str; 2]; 10] = [
    [" .", "."],
    [" ?", "?"],
    [" !", "!"],
    [" ,", ","],
    [" ' ", "'"],
    [" n't", "n't"],
    [" 'm", "'m"],
    [" 's", "'s"],
    [" 've", "'ve"],
    [" 're", "'re"],
];

/// A text that grows.
#[derive(Default)]
pub(super) struct TextStream {
    /// What is not final yet, as it came.
    held: String,
    /// Whether anything but blanks came: blanks before it are left out.
    begun: bool,
    /// What is final and was not taken.
    known: String,
}

/// What is done to a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Style {
    /// Letters become small.
    pub lower_case: bool,
    /// Blanks before punctuation go.
    pub clean: bool,
}

/// Whether Python counts a character among the blanks at a text's ends: four control characters more than Rust does.
fn blank(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

impl TextStream {
    /// Adds characters.
    pub(super) fn push(&mut self, text: &str) {
        match self.begun {
            true => self.held.push_str(text),
            false => self.held.push_str(text.trim_start_matches(blank)),
        }
        self.begun |= !self.held.is_empty();
    }

    /// Makes what stands before the last safe blank final.
    pub(super) fn settle(&mut self, style: Style) {
        // The character behind a blank decides whether a rule takes the blank away.
        let safe = |at: usize| {
            let rest = self.held[at + 1..].chars().next();
            let touched = |c: char| blank(c) || ".?!,'nN".contains(c);
            rest.is_some_and(|c| !touched(c)) && !self.held[..at].ends_with('\'')
        };
        let at = self.held.rmatch_indices(' ').map(|(at, _)| at).find(|&at| safe(at));
        if let Some(at) = at {
            let rest = self.held.split_off(at);
            let done = core::mem::replace(&mut self.held, rest);
            self.known += &styled(done, style);
        }
    }

    /// The text ends: all of it is final.
    pub(super) fn finish(&mut self, style: Style) {
        let held = take(&mut self.held);
        self.known += &styled(held.trim_end_matches(blank).into(), style);
    }

    /// What became final since the last call.
    pub(super) fn take(&mut self) -> String {
        take(&mut self.known)
    }
}

fn styled(mut text: String, style: Style) -> String {
    if style.lower_case {
        text = text.to_lowercase();
    }
    if style.clean {
        for [from, to] in CLEAN {
            text = text.replace(from, to);
        }
    }
    text
}
