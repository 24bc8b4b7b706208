//! Masks of things in images: an image is seen once, and asked of many times.

use crate::answer::{Object, text};
use crate::network::Network;
use crate::state::{State, Work, given_up, not_open};
use core::task::{Context, Poll};
use rlx_core::image::Image;
use rlx_core::models::SamPrompt;
use rlx_core::runtime::segment::Question;
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

    /// For a segmenter: whether it is told by words what to find.
    pub fn knows_words(&self) -> Option<bool> {
        match &self.network {
            Some(Network::Segmenter(segmenter)) => Some(segmenter.knows_words()),
            _ => None,
        }
    }

    /// Starts to find the things in an image that was seen which words and boxes mean.
    pub fn find_things(
        &mut self,
        seen: u32,
        words: Option<String>,
        boxes: &[f64],
        threshold: f32,
    ) -> Result<()> {
        let Some(Network::Segmenter(segmenter)) = &mut self.network else {
            return Err(not_open());
        };
        let seen = self.seen.get(&seen).ok_or_else(|| Error::usage("the image was disposed"))?;
        let (boxes, _) = boxes.as_chunks::<5>();
        let labelled = |&[left, top, right, bottom, label]: &[f64; 5]| {
            ([left, top, right, bottom], label != 0.0)
        };
        let boxes = boxes.iter().map(labelled).collect();
        self.masks.clear();
        let finding = segmenter.find(seen, &Question { words, boxes, threshold })?;
        self.work = Some(Work::Find(finding));
        self.cancelled = false;
        Ok(())
    }

    /// Answers with the things' scores and boxes.
    pub fn poll_things(&mut self, cx: &mut Context<'_>) -> Poll<Result<String>> {
        let (Some(Work::Find(finding)), Some(Network::Segmenter(segmenter))) =
            (&mut self.work, &mut self.network)
        else {
            return Poll::Ready(Err(given_up()));
        };
        let Poll::Ready(answer) = finding.poll(segmenter, cx) else { return Poll::Pending };
        self.work = None;
        if self.cancelled {
            return Poll::Ready(Err(given_up()));
        }
        Poll::Ready(answer.map(|things| {
            let told = things.iter().map(|thing| {
                Object::new().with("score", &thing.mask.score).with("box", &thing.frame.as_slice())
            });
            let told: Vec<Object> = told.collect();
            self.masks = things.into_iter().map(|thing| thing.mask).collect();
            text(&told)
        }))
    }

    /// The pixels of a mask.
    pub fn mask(&self, i: usize) -> Result<Vec<u8>> {
        let mask = self.masks.get(i).ok_or_else(not_open)?;
        Ok(mask.covered()?.into_iter().map(u8::from).collect())
    }
}
