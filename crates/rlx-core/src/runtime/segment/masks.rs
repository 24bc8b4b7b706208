//! Masks of what places show: points, and a box.

use super::{Asked, Seen, Segmenter};
use crate::error::{Error, Result};
use crate::image::SquareFit;
use crate::models::{MASK, SamPrompt};
use crate::order;
use crate::runtime::session::{Given, Run, Session, Tensor, TensorRef};
use crate::types::DType;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::task::{Context, Poll, ready};

const POINTS: &str = "input_points";
const LABELS: &str = "input_labels";

/// A prompt that is being answered. It borrows nothing: poll it with its segmenter. Dropping it cancels the call.
pub struct Masking {
    run: Run,
    fit: SquareFit,
    /// Whether the prompt means one thing, and one mask is wanted.
    single: bool,
    all: bool,
}

/// Pixels that a model takes for a thing.
pub struct Mask {
    /// What it was taken of.
    fit: SquareFit,
    /// `edge * edge` logits of the whole square.
    logits: Vec<f32>,
    edge: u32,
    /// How much of the mask and the thing the model expects to be the same, from 0 to 1 or a little beyond.
    pub score: f32,
}

/// What the masks' network reads of an image, by name.
pub(super) fn features(session: &Session) -> Result<Vec<String>> {
    let names = session.inputs(MASK)?.iter().map(|i| i.name.clone());
    Ok(names.filter(|n| n != POINTS && n != LABELS).collect())
}

impl Segmenter {
    /// Starts to find masks of what a prompt shows, the best first: with `all` every mask that the model offers, else
    /// the one that answers the prompt. A prompt that means one thing has one answer; of one that may mean several,
    /// the answer is the mask of the highest score. This cancels a call that was started before.
    ///
    /// # Errors
    /// `Usage` for a model that is told by words what to find; as [`SamPrompt::check`] and [`Session::start`].
    pub fn masks(&mut self, seen: &Seen, prompt: &SamPrompt, all: bool) -> Result<Masking> {
        let Asked::Places { closed } = self.asked else {
            let what = "the model is shown no thing by places: it finds things by words";
            return Err(Error::usage(what).hint(
                "give words for it, or a box around one such thing, or use a model such as sam2",
            ));
        };
        let (places, labels) = prompt.rows(&seen.fit, closed)?;
        let places: Vec<u8> = places.iter().flatten().flat_map(|x| x.to_le_bytes()).collect();
        let count = labels.len() as u64;
        let labels: Vec<u8> = labels.iter().flat_map(|n| n.to_le_bytes()).collect();
        let (points, each) = ([1, 1, count, 2], [1, 1, count]);
        let points = TensorRef { dtype: DType::F32, dims: &points, bytes: &places };
        let labels = TensorRef { dtype: DType::I32, dims: &each, bytes: &labels };
        let mut given: Vec<(&str, Given<'_>)> =
            Vec::from([(POINTS, points.into()), (LABELS, labels.into())]);
        given.extend(seen.kept.iter().map(|(name, tensor)| (name.as_str(), tensor.into())));
        let run = self.session.start(MASK, &given)?;
        Ok(Masking { run, fit: seen.fit, single: prompt.means_one() && !all, all })
    }
}

impl Masking {
    /// Works as far as possible without waiting. Answers once, with the best mask first.
    ///
    /// # Errors
    /// As [`Run::poll`]; `BadFile` for weights with which the model's scores are no numbers.
    pub fn poll(
        &mut self,
        segmenter: &mut Segmenter,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Vec<Mask>>> {
        let outputs = ready!(self.run.poll(&mut segmenter.session, cx));
        Poll::Ready(outputs.and_then(|outputs| self.read(&outputs)))
    }

    fn read(&self, outputs: &[Tensor]) -> Result<Vec<Mask>> {
        let [masks, scores] = match self.single {
            true => ["single_mask", "single_score"],
            false => ["pred_masks", "iou_scores"],
        };
        let named = |name: &str| {
            let tensor = outputs.iter().find(|t| t.name == name);
            tensor.ok_or_else(|| Error::internal(format!("there is no output {name}")))
        };
        let (logits, scores) = (named(masks)?, named(scores)?.f32s()?);
        if scores.iter().any(|score| !score.is_finite()) {
            let what = "the scores of the model's masks are no numbers";
            return Err(Error::bad_file(what).hint("the file's weights may be damaged"));
        }
        let edge = logits.dims.last().and_then(|&n| u32::try_from(n).ok()).unwrap_or(0);
        let logits = logits.f32s()?;
        let one = (edge as usize).pow(2).max(1);
        let mut found: Vec<(&[f32], f32)> = logits.chunks_exact(one).zip(scores).collect();
        order::sort_by(&mut found, |a, b| b.1.total_cmp(&a.1));
        if !self.all {
            found.truncate(1);
        }
        let mask =
            |(logits, score): (&[f32], f32)| Mask::new(self.fit, logits.to_vec(), edge, score);
        Ok(found.into_iter().map(mask).collect())
    }
}

impl Mask {
    /// A mask of an image that was fitted so: `edge * edge` logits of the whole square, and a score.
    pub fn new(fit: SquareFit, logits: Vec<f32>, edge: u32, score: f32) -> Self {
        Mask { fit, logits, edge, score }
    }

    /// Which pixels of the picture are covered, row by row.
    ///
    /// # Errors
    /// As [`SquareFit::covered`].
    pub fn covered(&self) -> Result<Vec<bool>> {
        self.fit.covered(&self.logits, self.edge)
    }
}
