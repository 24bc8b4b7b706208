//! Filling the caches of a new engine with the rows that were lost with a device.
//!
//! The rows cannot be read back from a lost device. But they depend only on their tokens, so the prompt's
//! programs compute them again.

use crate::error::Result;
use crate::runtime::generate::engine::{Engine, GenerateOptions, Generation, Progress};
use crate::runtime::generate::machine::Reason;
use alloc::vec::Vec;
use core::task::{Context, Poll};

/// A prefill of tokens without an answer. It borrows nothing: poll it with its engine.
pub struct Restore {
    /// A generation whose one token is dropped; `None` if there are no tokens to compute.
    generation: Option<Generation>,
}

impl Engine {
    /// Starts to compute the rows of `tokens` in the caches, where a prompt that begins with them reuses them.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn restore(&mut self, tokens: Vec<u32>) -> Result<Restore> {
        if tokens.is_empty() {
            self.reset();
            return Ok(Restore { generation: None });
        }
        let one = GenerateOptions { max_tokens: Some(1), ..GenerateOptions::default() };
        Ok(Restore { generation: Some(self.start(tokens, &one)?) })
    }
}

impl Restore {
    /// Stops, as [`Generation::cancel`]: the caches keep the rows that are done.
    pub fn cancel(&mut self) {
        if let Some(generation) = &mut self.generation {
            generation.cancel();
        }
    }

    /// Works as far as possible without waiting; on a device that works inside `poll`, at most one
    /// submission.
    ///
    /// # Errors
    /// Why a submission failed.
    pub fn poll(&mut self, engine: &mut Engine, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let Some(generation) = &mut self.generation else { return Poll::Ready(Ok(())) };
        loop {
            return match generation.poll_next(engine, cx) {
                Poll::Pending => Poll::Pending,
                Poll::Ready(Some(Progress::Prompt(..))) => {
                    cx.waker().wake_by_ref();
                    Poll::Pending
                }
                Poll::Ready(Some(Progress::Text(_) | Progress::Control(_))) => continue,
                Poll::Ready(Some(Progress::Done(Reason::Failed(e)))) => Poll::Ready(Err(e)),
                Poll::Ready(Some(Progress::Done(_)) | None) => Poll::Ready(Ok(())),
            };
        }
    }
}
