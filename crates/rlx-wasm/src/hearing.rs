//! Sounds that become text in a page, piece by piece. Several may be heard by turns: each piece is a call of its own.

use crate::answer::Object;
use crate::network::Network;
use crate::state::{State, given_up, not_open};
use core::task::{Context, Poll};
use rlx_core::runtime::transcribe::{Heard, Transcription};
use rlx_core::{Error, Result};

impl State {
    /// For a transcriber: samples a second that the model hears.
    pub fn sound_rate(&self) -> Option<u32> {
        match self.network {
            Some(Network::Transcriber(_, rate)) => Some(rate),
            _ => None,
        }
    }

    /// Begins to hear a sound of one channel with so many samples a second; answers with its number.
    pub fn hear(&mut self, rate: u32) -> Result<u32> {
        let Some(Network::Transcriber(transcriber, _)) = &self.network else {
            return Err(not_open());
        };
        let going = transcriber.start(rate)?;
        let number = self.numbers.next();
        self.sounds.insert(number, going);
        Ok(number)
    }

    /// A sound that is being heard.
    pub fn sound(&mut self, number: u32) -> Result<&mut Transcription> {
        self.sounds.get_mut(&number).ok_or_else(|| Error::internal("the sound is heard no more"))
    }

    /// Hears the next piece: as JSON what it needs, and the text and words that became known.
    pub fn poll_heard(&mut self, number: u32, cx: &mut Context<'_>) -> Poll<Result<String>> {
        let (Some(Network::Transcriber(transcriber, _)), Some(going)) =
            (&mut self.network, self.sounds.get_mut(&number))
        else {
            return Poll::Ready(Err(given_up()));
        };
        let Poll::Ready(answer) = going.poll(transcriber, cx) else { return Poll::Pending };
        if self.cancelled {
            return Poll::Ready(Err(given_up()));
        }
        Poll::Ready(answer.map(|heard| {
            let step = match heard {
                Heard::NeedsSound => "sound",
                Heard::Piece => "piece",
                Heard::End => "end",
            };
            let words = going.take_words().into_iter().map(|word| {
                let told = Object::new().with("word", &word.text);
                let (start, end) = (transcriber.seconds(word.start), transcriber.seconds(word.end));
                told.with("start", &start).with("end", &end)
            });
            let words: Vec<Object> = words.collect();
            let told = Object::new().with("step", &step).with("text", &going.take_text());
            let seconds = transcriber.seconds(going.frames());
            told.with("words", &words).with("seconds", &seconds).text()
        }))
    }
}
