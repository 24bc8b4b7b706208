//! Conversations that are longer than the context: the oldest turns are left out, each whole.
//!
//! `js/src/openai/slide.ts` does the same for a page's messages.

use crate::generate::Answer;
use rlx_core::runtime::generate::engine::GenerateOptions;
use rlx_core::{Code, Error, Result};
use serde::Serialize;

/// What was left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Questions with their answers.
    pub turns: usize,
    /// Tokens of these, and of the answer.
    pub tokens: usize,
}

/// A prompt that fits the context.
pub struct Fitted {
    /// Its tokens.
    pub prompt: Vec<u32>,
    /// What is left out of it, and what is once the context is full, but for tokens of the answer.
    left_out: [LeftOut; 2],
}

impl Fitted {
    /// Of which nothing is left out.
    pub fn whole(prompt: Vec<u32>) -> Self {
        Fitted { prompt, left_out: [LeftOut { turns: 0, tokens: 0 }; 2] }
    }

    /// What was left out when the answer ended, if anything was.
    pub fn left_out(&self, answer: &Answer) -> Option<LeftOut> {
        let mut out = self.left_out[usize::from(answer.left_out.is_some())];
        out.tokens += answer.left_out.unwrap_or(0);
        (out.tokens > 0).then_some(out)
    }
}

/// Fits a conversation into a context of so many tokens, and has it slide where an answer fills it. `without` gives
/// the prompt without so many of the oldest turns, of which there are `turns`.
///
/// What is left out grows by a quarter of the context at a time: the next prompts then begin as this one does.
///
/// # Errors
/// `ContextFull` where what cannot be left out is too long; those of `without`.
pub fn fit(
    context: usize,
    turns: usize,
    without: &dyn Fn(usize) -> Result<Vec<u32>>,
    options: &mut GenerateOptions,
) -> Result<Fitted> {
    let quarter = (context / 4).max(1);
    let room = options.max_tokens.unwrap_or(quarter).min(quarter);
    let most = context.saturating_sub(room);
    let all = without(0)?.len();
    // With the least number of turns left out that makes it so short, or with all of them.
    let at_most = |from: usize, most: usize| -> Result<(usize, Vec<u32>)> {
        let (mut low, mut high) = (from, turns);
        while low < high {
            let middle = low.midpoint(high);
            if without(middle)?.len() <= most { high = middle } else { low = middle + 1 }
        }
        Ok((low, without(low)?))
    };
    let over = all.saturating_sub(most).next_multiple_of(quarter);
    let (left, prompt) = at_most(0, if over == 0 { most } else { all.saturating_sub(over) })?;
    if prompt.len() > most {
        let what = format!(
            "what cannot be left out has {} tokens, and an answer takes {room}: the context holds {context}",
            prompt.len()
        );
        return Err(Error::new(Code::ContextFull, what)
            .hint("shorten the system turn or the question, or load with a longer context"));
    }
    let (later, stays) = at_most(left, context / 2)?;
    let left_out = |turns, tokens: usize| LeftOut { turns, tokens: all.saturating_sub(tokens) };
    let left_out = [left_out(left, prompt.len()), left_out(later, stays.len())];
    options.slide = Some(stays);
    Ok(Fitted { prompt, left_out })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Turns of ten tokens behind a system turn of five; the newest question has five.
    fn conversation(turns: usize) -> impl Fn(usize) -> Result<Vec<u32>> {
        move |left| {
            let kept = (left as u32 * 10..turns as u32 * 10).map(|i| 100 + i);
            Ok((0..5).chain(kept).chain(10..15).collect())
        }
    }

    fn fitted(turns: usize, max_tokens: Option<usize>) -> (Fitted, GenerateOptions) {
        let mut options = GenerateOptions { max_tokens, ..GenerateOptions::default() };
        let fitted = fit(100, turns, &conversation(turns), &mut options).expect("it fits");
        (fitted, options)
    }

    #[test]
    fn what_fits_beside_room_for_an_answer_stays() {
        let (fitted, options) = fitted(6, None);
        assert_eq!(fitted.prompt, conversation(6)(0).expect("a prompt"));
        assert_eq!(options.slide.expect("slides"), conversation(6)(2).expect("a prompt"));
        assert_eq!(
            fitted.left_out,
            [LeftOut { turns: 0, tokens: 0 }, LeftOut { turns: 2, tokens: 20 }]
        );
    }

    #[test]
    fn oldest_turns_are_left_out_by_quarters_so_that_prompts_begin_alike() {
        let left = |turns| fitted(turns, None).0.left_out[0].turns;
        // 75 tokens are for the prompt: 25 tokens are left out, in three turns, then 50 in five.
        assert_eq!((6..14).map(left).collect::<Vec<_>>(), [0, 3, 3, 3, 5, 5, 8, 8]);
        // A short answer leaves more to the prompt.
        assert_eq!(fitted(8, Some(4)).0.left_out[0].turns, 0);
    }

    #[test]
    fn what_cannot_be_left_out_is_told_where_it_does_not_fit() {
        let mut options = GenerateOptions::default();
        let long = |_| Ok(vec![0; 80]);
        let error = fit(100, 3, &long, &mut options).err().expect("an error");
        assert_eq!(error.code, Code::ContextFull);
        assert_eq!(
            error.what,
            "what cannot be left out has 80 tokens, and an answer takes 25: the context holds 100"
        );
    }
}
