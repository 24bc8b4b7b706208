//! Things in pictures: a session of a model that segments, with what its maker did to images.
//!
//! A picture is encoded once. What that gives stays in the device's memory, where every prompt reads it.

use crate::error::{Error, Result};
use crate::image::{Image, SamProcessor, SquareFit};
use crate::models::{IMAGE_EMBED, MASK, SamPrompt};
use crate::runtime::session::{DeviceTensor, Given, Run, Session, Signature, Tensor, TensorRef};
use crate::types::DType;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::task::{Context, Poll, ready};

const PIXELS: &str = "pixel_values";
const POINTS: &str = "input_points";
const LABELS: &str = "input_labels";

/// A segmenting model on a device, and what its maker did to images before the model saw them.
pub struct Segmenter {
    session: Session,
    processor: SamProcessor,
    /// Whether a point that is none follows boxes too.
    closed: bool,
}

/// A picture that a model has seen. Dropping it frees what is kept of it on the device, once runs that read it ended.
pub struct Seen {
    fit: SquareFit,
    /// What the masks' network reads of it, by name, on the device.
    kept: Vec<(String, DeviceTensor)>,
}

/// A picture that is being looked at. It borrows nothing: poll it with its segmenter. Dropping it cancels the call.
pub struct Looking {
    run: Run,
    fit: SquareFit,
    kept: Vec<(String, DeviceTensor)>,
}

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

impl Segmenter {
    /// How images are prepared for a model whose entry [`IMAGE_EMBED`] has these inputs: as its folder's
    /// `preprocessor_config.json` says, given as its name in errors and its text, else as the family's models do.
    ///
    /// # Errors
    /// As [`SamProcessor::read`].
    pub fn processor(
        inputs: &[Signature],
        family: &str,
        file: Option<(&str, &[u8])>,
    ) -> Result<SamProcessor> {
        let input = inputs.iter().find(|i| i.name == PIXELS);
        let edge = input.and_then(|i| i.ty.shape.last().as_static());
        let Some(edge) = edge.and_then(|n| u32::try_from(n).ok()) else {
            return Err(Error::internal("a segmenting model has no size of its images"));
        };
        match file {
            Some((name, text)) => SamProcessor::read(text, name, family, edge),
            None => Ok(SamProcessor::of_family(family, edge)),
        }
    }

    /// A segmenter over a session with the entries [`IMAGE_EMBED`] and [`MASK`], of a model of that family.
    ///
    /// # Errors
    /// `Usage` for a session without these entries.
    pub fn new(session: Session, processor: SamProcessor, family: &str) -> Result<Self> {
        session.inputs(IMAGE_EMBED)?;
        session.inputs(MASK)?;
        Ok(Segmenter { session, processor, closed: family != "sam" })
    }

    /// The session of the model.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Starts to let the model see a picture. This cancels a call that was started before.
    ///
    /// # Errors
    /// As [`SamProcessor::prepare`] and [`Session::start`].
    pub fn look(&mut self, image: &Image) -> Result<Looking> {
        let (pixels, fit) = self.processor.prepare(image)?;
        let bytes: Vec<u8> = pixels.values.iter().flat_map(|x| x.to_le_bytes()).collect();
        let dims = [1, 3, u64::from(pixels.height), u64::from(pixels.width)];
        let input = TensorRef { dtype: DType::F32, dims: &dims, bytes: &bytes };
        let names: Vec<String> =
            self.session.inputs(MASK)?.iter().map(|i| i.name.clone()).collect();
        let mut run = self.session.start(IMAGE_EMBED, &[(PIXELS, input)])?;
        let mut kept = Vec::new();
        for name in names.into_iter().filter(|n| n != POINTS && n != LABELS) {
            let tensor = run.keep(&mut self.session, &name)?;
            kept.push((name, tensor));
        }
        Ok(Looking { run, fit, kept })
    }

    /// Starts to find masks of what a prompt shows, the best first: with `all` every mask that the model offers, else
    /// the one that answers the prompt. A prompt that means one thing has one answer; of one that may mean several,
    /// the answer is the mask of the highest score. This cancels a call that was started before.
    ///
    /// # Errors
    /// As [`SamPrompt::check`] and [`Session::start`].
    pub fn masks(&mut self, seen: &Seen, prompt: &SamPrompt, all: bool) -> Result<Masking> {
        let (places, labels) = prompt.rows(&seen.fit, self.closed)?;
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

impl Seen {
    /// Width and height of the picture, in pixels.
    pub fn size(&self) -> [u32; 2] {
        self.fit.image
    }
}

impl Looking {
    /// Works as far as possible without waiting. Answers once.
    ///
    /// # Errors
    /// As [`Run::poll`].
    pub fn poll(&mut self, segmenter: &mut Segmenter, cx: &mut Context<'_>) -> Poll<Result<Seen>> {
        let answer = ready!(self.run.poll(&mut segmenter.session, cx));
        let kept = core::mem::take(&mut self.kept);
        Poll::Ready(answer.map(|_| Seen { fit: self.fit, kept }))
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
        found.sort_by(|a, b| b.1.total_cmp(&a.1));
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
