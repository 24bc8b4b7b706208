//! What is said in a sound: a session of a model that hears, with what its maker did to sounds and with its tokens.
//!
//! A long sound is heard in pieces of one length, which overlap: the frames at a piece's ends, of which the
//! model heard one side only, are left out, and those of its neighbours count instead. So a sound of any length
//! takes the memory of two pieces, and few programs serve all of it: one for whole pieces, one for the last.

use crate::error::{Code, Error, Result};
use crate::math;
use crate::models::ENCODE;
use crate::runtime::session::{Run, Session, Tensor, TensorRef};
use crate::sound::{CtcDecoding, CtcVocabulary, Resampler, SoundProcessor, Word};
use crate::types::DType;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use core::task::{Context, Poll, ready};

const SOUND: &str = "input_values";
const MASK: &str = "attention_mask";
const LOGITS: &str = "logits";

/// Seconds of a piece where nobody says how many.
pub const PIECE_SECONDS: f64 = 30.0;

/// How samples become frames, and how long sounds are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pieces {
    /// Samples from one frame to the next, and samples that a frame is made of.
    frame: (u64, u64),
    /// Frames of a piece, by its strides.
    piece: u64,
    /// Frames at each end of it that its neighbours have too.
    overlap: u64,
}

impl Pieces {
    /// Pieces of so many seconds, at `rate` samples a second, for a model with a frame every `frame.0` samples, made
    /// of `frame.1`. A sixth at either end is what pieces have in common, as in transformers' pipeline.
    ///
    /// # Errors
    /// `Usage` for pieces that are too short to overlap by a frame, and for what is no length.
    pub fn of_seconds(seconds: f64, rate: u32, frame: (u64, u64)) -> Result<Self> {
        let (stride, reach) = (frame.0.max(1), frame.1.max(1));
        let frames = |seconds: f64| math::rint(seconds * f64::from(rate) / stride as f64);
        let all = frames(seconds);
        // Behind the last frame that counts stand all the samples that it is made of.
        let least = ((reach - 1) / stride).max(1);
        let overlap = frames(seconds / 6.0);
        if !(all <= f64::from(u32::MAX) && overlap >= least as f64 && all > 2.0 * overlap) {
            let least = (6 * least * stride) as f64 / f64::from(rate);
            let what = format!("pieces of {seconds} seconds cannot be made of a sound");
            let hint = format!("this model takes {least:.3} seconds and more");
            return Err(Error::usage(what).hint(hint));
        }
        Ok(Pieces { frame: (stride, reach), piece: all as u64, overlap: overlap as u64 })
    }

    /// Samples of a piece.
    pub fn samples(&self) -> u64 {
        self.piece * self.frame.0
    }

    /// Samples from the start of a piece to that of the next.
    pub fn step(&self) -> u64 {
        (self.piece - 2 * self.overlap) * self.frame.0
    }

    /// Frames that count of a piece that starts at this sample.
    fn kept(&self, start: u64, last: bool) -> Range<u64> {
        let left = if start == 0 { 0 } else { self.overlap };
        left..if last { u64::MAX } else { self.piece - self.overlap }
    }
}

/// A model that hears, on a device, with what is around it.
pub struct Transcriber {
    session: Session,
    processor: SoundProcessor,
    vocabulary: CtcVocabulary,
    pieces: Pieces,
}

/// A sound that is being heard. It borrows nothing: poll it with its transcriber. Dropping it cancels the call.
pub struct Transcription {
    resampler: Option<Resampler>,
    /// Samples from `start` on, which is where the next piece begins.
    samples: Vec<f32>,
    start: u64,
    run: Option<(Run, Range<u64>)>,
    decoding: CtcDecoding,
    /// Whether the last piece was heard.
    done: bool,
}

/// How far a transcription is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// It needs more of the sound, or to be told that the sound ended.
    NeedsSound,
    /// A piece was heard.
    Piece,
    /// All was heard.
    End,
}

impl Transcriber {
    /// A transcriber over a session with the entry [`ENCODE`].
    ///
    /// # Errors
    /// `Unsupported` for a model that does not make a score of every token from samples.
    pub fn new(
        session: Session,
        processor: SoundProcessor,
        vocabulary: CtcVocabulary,
        pieces: Pieces,
    ) -> Result<Self> {
        let hears = session.inputs(ENCODE)?.iter().any(|i| i.name == SOUND);
        if !hears || !session.outputs(ENCODE)?.iter().any(|o| o.name == LOGITS) {
            let what = "the model makes no scores of tokens from samples of a sound";
            return Err(Error::new(Code::Unsupported, what));
        }
        Ok(Transcriber { session, processor, vocabulary, pieces })
    }

    /// The session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The time of a frame, in seconds from the sound's start.
    pub fn seconds(&self, frame: u64) -> f64 {
        (frame * self.pieces.frame.0) as f64 / f64::from(self.processor.rate)
    }

    /// Starts to hear a sound of one channel with so many samples a second. This cancels a call that was
    /// started before.
    ///
    /// # Errors
    /// As [`Resampler::new`].
    pub fn start(&self, rate: u32) -> Result<Transcription> {
        Ok(Transcription {
            resampler: Some(Resampler::new(rate, self.processor.rate)?),
            samples: Vec::new(),
            start: 0,
            run: None,
            decoding: CtcDecoding::default(),
            done: false,
        })
    }

    /// Starts to run a piece.
    fn hear(&mut self, piece: &[f32]) -> Result<Run> {
        let samples = self.processor.prepare(piece)?;
        let samples: Vec<u8> = samples.iter().flat_map(|x| x.to_le_bytes()).collect();
        let mask: Vec<u8> = vec![1u32; piece.len()].iter().flat_map(|x| x.to_le_bytes()).collect();
        let dims = [1, piece.len() as u64];
        let sound = TensorRef { dtype: DType::F32, dims: &dims, bytes: &samples };
        let mask = TensorRef { dtype: DType::U32, dims: &dims, bytes: &mask };
        self.session.start(ENCODE, &[(SOUND, sound), (MASK, mask)])
    }
}

impl Transcription {
    /// Takes the next samples. What is taken and not heard yet stays in memory, so give some, poll until more
    /// is needed, and go on. Samples behind the [end](Self::end) are left out.
    pub fn push(&mut self, sound: &[f32]) {
        if let Some(resampler) = &mut self.resampler {
            resampler.push(sound, &mut self.samples);
        }
    }

    /// The sound has no more samples.
    pub fn end(&mut self) {
        if let Some(resampler) = self.resampler.take() {
            resampler.finish(&mut self.samples);
        }
    }

    /// Works until a piece was heard, or until more of the sound is needed for one.
    ///
    /// # Errors
    /// As [`SoundProcessor::prepare`] and a run of the session; `BadFile` for weights with which the model's
    /// scores are no numbers.
    pub fn poll(
        &mut self,
        transcriber: &mut Transcriber,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Heard>> {
        if self.done {
            return Poll::Ready(Ok(Heard::End));
        }
        if self.run.is_none() {
            let pieces = transcriber.pieces;
            let whole = usize::try_from(pieces.samples()).unwrap_or(usize::MAX);
            // One sample more than a piece shows that it is not the last.
            let last = self.samples.len() <= whole;
            if last && self.resampler.is_some() {
                return Poll::Ready(Ok(Heard::NeedsSound));
            }
            let piece = &self.samples[..whole.min(self.samples.len())];
            if (piece.len() as u64) < pieces.frame.1 {
                // Nothing is said in less than a frame.
                return Poll::Ready(Ok(self.finish(transcriber)));
            }
            self.run = Some((transcriber.hear(piece)?, pieces.kept(self.start, last)));
        }
        let Some((run, kept)) = &mut self.run else { return Poll::Ready(Ok(Heard::NeedsSound)) };
        let outputs = ready!(run.poll(&mut transcriber.session, cx));
        let kept = kept.clone();
        self.run = None;
        let ids = likeliest(&outputs?, &kept)?;
        self.decoding.push(&transcriber.vocabulary, &ids);
        if kept.end == u64::MAX {
            return Poll::Ready(Ok(self.finish(transcriber)));
        }
        let step = transcriber.pieces.step();
        self.samples.drain(..(step as usize).min(self.samples.len()));
        self.start += step;
        Poll::Ready(Ok(Heard::Piece))
    }

    fn finish(&mut self, transcriber: &Transcriber) -> Heard {
        self.decoding.finish(&transcriber.vocabulary);
        self.samples = Vec::new();
        self.done = true;
        Heard::End
    }

    /// Frames that were heard: [`Transcriber::seconds`] says how long they are.
    pub fn frames(&self) -> u64 {
        self.decoding.frames()
    }

    /// What became known of the text since the last call.
    pub fn take_text(&mut self) -> String {
        self.decoding.take_text()
    }

    /// The words that ended since the last call.
    pub fn take_words(&mut self) -> Vec<Word> {
        self.decoding.take_words()
    }
}

/// The id with the largest score in each frame that counts, the first of equal ones.
fn likeliest(outputs: &[Tensor], kept: &Range<u64>) -> Result<Vec<u32>> {
    let logits = outputs.iter().find(|t| t.name == LOGITS);
    let logits = logits.ok_or_else(|| Error::internal("the model returned no logits"))?;
    let vocab = logits.dims.last().map_or(1, |&n| n.max(1) as usize);
    let scores = logits.f32s()?;
    let rows = scores.chunks_exact(vocab).enumerate();
    let rows = rows.filter(|(i, _)| kept.contains(&(*i as u64))).map(|(_, row)| row);
    rows.map(|row| {
        let mut best = 0;
        for (i, x) in row.iter().enumerate() {
            if x.is_nan() {
                let what = "a score that the model gave a token is no number";
                return Err(Error::bad_file(what).hint("the weights are damaged"));
            }
            if *x > row[best] {
                best = i;
            }
        }
        Ok(best as u32)
    })
    .collect()
}
