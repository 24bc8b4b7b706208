//! Masks of things in images: an image is seen once, and asked of many times.

use crate::answer::text;
use crate::network::Network;
use crate::state::{State, Work, given_up, not_open};
use core::task::{Context, Poll};
use rlx_core::image::Image;
use rlx_core::models::SamPrompt;
use rlx_core::{Error, Result};

impl State {
    /// Starts to let the segmenter see an image: four bytes a pixel, red, green, blue, alpha, row by row.
    pub fn look(&mut self, [width, height]: [u32; 2], rgba: &[u8]) -> Result<()> {
        let Some(Network::Segmenter(segmenter)) = &mut self.network else {
            return Err(not_open());
        };
        let looking = segmenter.look(&Image::from_rgba(width, height, rgba)?)?;
        self.work = Some(Work::Look(looking));
        self.cancelled = false;
        Ok(())
    }

    /// Answers with the image's number.
    pub fn poll_look(&mut self, cx: &mut Context<'_>) -> Poll<Result<String>> {
        let (Some(Work::Look(looking)), Some(Network::Segmenter(segmenter))) =
            (&mut self.work, &mut self.network)
        else {
            return Poll::Ready(Err(given_up()));
        };
        let Poll::Ready(answer) = looking.poll(segmenter, cx) else { return Poll::Pending };
        self.work = None;
        if self.cancelled {
            return Poll::Ready(Err(given_up()));
        }
        Poll::Ready(answer.map(|seen| {
            let number = self.numbers.next();
            self.seen.insert(number, seen);
            number.to_string()
        }))
    }

    /// Starts to find masks in an image that was seen.
    pub fn find_masks(
        &mut self,
        seen: u32,
        points: &[f64],
        frame: &[f64],
        all: bool,
    ) -> Result<()> {
        let Some(Network::Segmenter(segmenter)) = &mut self.network else {
            return Err(not_open());
        };
        let seen = self.seen.get(&seen).ok_or_else(|| Error::usage("the image was disposed"))?;
        let (points, _) = points.as_chunks::<3>();
        let points = points.iter().map(|&[x, y, label]| ([x, y], label != 0.0)).collect();
        let prompt = SamPrompt { points, frame: frame.try_into().ok() };
        self.masks.clear();
        self.work = Some(Work::Masks(segmenter.masks(seen, &prompt, all)?));
        self.cancelled = false;
        Ok(())
    }

    /// Answers with the masks' scores.
    pub fn poll_masks(&mut self, cx: &mut Context<'_>) -> Poll<Result<String>> {
        let (Some(Work::Masks(masking)), Some(Network::Segmenter(segmenter))) =
            (&mut self.work, &mut self.network)
        else {
            return Poll::Ready(Err(given_up()));
        };
        let Poll::Ready(answer) = masking.poll(segmenter, cx) else { return Poll::Pending };
        self.work = None;
        if self.cancelled {
            return Poll::Ready(Err(given_up()));
        }
        Poll::Ready(answer.map(|masks| {
            let scores: Vec<f32> = masks.iter().map(|mask| mask.score).collect();
            self.masks = masks;
            text(&scores)
        }))
    }

    /// The pixels of a mask.
    pub fn mask(&self, i: usize) -> Result<Vec<u8>> {
        let mask = self.masks.get(i).ok_or_else(not_open)?;
        Ok(mask.covered()?.into_iter().map(u8::from).collect())
    }
}
