//! Things that words, or boxes around such things, mean: all that an image has.

use super::{Asked, Mask, Seen, Segmenter};
use crate::error::{Code, Error, Result};
use crate::image::SquareFit;
use crate::math;
use crate::models::{Checkpoint, DETECT, DETECT_FROM_BOXES, Sam3Config, SamPrompt, TEXT_EMBED};
use crate::order;
use crate::runtime::session::{DeviceTensor, Given, Run, Session, Tensor, TensorRef};
use crate::text::ClipTokenizer;
use crate::types::DType;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::task::{Context, Poll, ready};

/// What an image is to these models: features of three sizes.
pub(super) const FEATURES: [&str; 3] = ["fine_embeddings", "middle_embeddings", "image_embeddings"];
/// What the entries that find things read of words.
const TEXT: &str = "text_embeddings";
/// What the makers' program asks where boxes come without words.
const WITHOUT_WORDS: &str = "visual";
/// Boxes of a question at most.
const BOXES_MOST: usize = 256;

/// How a model reads words.
pub struct Words {
    tokenizer: ClipTokenizer,
    /// Tokens of a text at most, and tokens that the model knows.
    context: u64,
    vocab: u64,
}

/// What is asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Question {
    /// Words for it.
    pub words: Option<String>,
    /// Boxes in pixels (left, top, right, bottom), and whether each is around such a thing or around another.
    pub boxes: Vec<([f64; 4], bool)>,
    /// How sure the model must be: things of that score and less are left out.
    pub threshold: f32,
}

/// A question that is being answered. It borrows nothing: poll it with its segmenter. Dropping it cancels the call.
pub struct Finding {
    step: Step,
    /// Tokens of the words.
    tokens: u64,
    /// Middles and sizes of the boxes, and their labels, as the network takes them.
    boxes: Vec<u8>,
    labels: Vec<u8>,
    count: u64,
    kept: Vec<(String, DeviceTensor)>,
    fit: SquareFit,
    threshold: f32,
}

enum Step {
    /// Words are read, whose rows stay on the device.
    Read(Run, DeviceTensor),
    Find(Run),
}

/// A thing that was found.
pub struct Thing {
    /// Its pixels, and how sure the model is, from 0 to 1.
    pub mask: Mask,
    /// The model's box around it, in pixels of the image: left, top, right, bottom.
    pub frame: [f32; 4],
}

impl Words {
    /// How the model of a checkpoint reads words, by its folder's `tokenizer.json`, given as its name in errors and
    /// its text.
    ///
    /// # Errors
    /// `Io` for a folder without that file; as [`ClipTokenizer::read`] and [`Sam3Config::open`].
    pub fn of(checkpoint: &Checkpoint<'_>, tokenizer: Option<(&str, &[u8])>) -> Result<Self> {
        let config = Sam3Config::open(checkpoint)?;
        let Some((file, text)) = tokenizer else {
            let what = "the folder has no tokenizer.json, which says how words are read";
            return Err(Error::new(Code::Io, what).hint("copy the published file beside it"));
        };
        let tokenizer = ClipTokenizer::read(text, file)?;
        Ok(Words { tokenizer, context: config.text.context, vocab: config.text.vocab })
    }
}

impl Question {
    /// Fails for a question that asks for nothing, or whose boxes are not in an image of that width and height.
    ///
    /// # Errors
    /// `Usage`, as [`SamPrompt::check`].
    pub fn check(&self, image: [u32; 2]) -> Result<()> {
        let silent = self.words.as_ref().is_none_or(|words| words.trim().is_empty());
        if silent && self.boxes.is_empty() {
            let what = "nothing is said of what to find";
            return Err(
                Error::usage(what).hint("give words for it, or a box around one such thing")
            );
        }
        if self.boxes.len() > BOXES_MOST {
            let what = format!("{} boxes are too many", self.boxes.len());
            return Err(Error::usage(what).hint(format!("at most {BOXES_MOST} are read")));
        }
        self.boxes.iter().try_for_each(|&(frame, _)| {
            SamPrompt { points: Vec::new(), frame: Some(frame) }.check(image)
        })
    }
}

impl Segmenter {
    /// Starts to find every thing that is asked for, the surest first. This cancels a call that was started before.
    ///
    /// # Errors
    /// `Usage` for a model that is shown things by places, for a question without words and boxes, for more words than
    /// the model reads, and for boxes that are not in the image or are too many; as [`Session::start`].
    pub fn find(&mut self, seen: &Seen, question: &Question) -> Result<Finding> {
        let Asked::Words(words) = &self.asked else {
            let what = "the model knows no words: it is shown things by places";
            return Err(Error::usage(what).hint(
                "give a point of the thing or a box around it, or use a model such as sam3",
            ));
        };
        question.check(seen.fit.image)?;
        let said = question.words.as_deref().unwrap_or(WITHOUT_WORDS);
        let ids = words.tokenizer.encode(said, words.context as usize, words.vocab)?;
        let dims = [1, ids.len() as u64];
        let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
        let input = TensorRef { dtype: DType::U32, dims: &dims, bytes: &bytes };
        let mut run = self.session.start(TEXT_EMBED, &[("input_ids", input)])?;
        let text = run.keep(&mut self.session, TEXT)?;
        let middles = question.boxes.iter().flat_map(|(frame, _)| middle(frame, seen.fit.image));
        let labels = question.boxes.iter().map(|&(_, of_it)| i32::from(of_it));
        Ok(Finding {
            step: Step::Read(run, text),
            tokens: dims[1],
            boxes: middles.flat_map(f32::to_le_bytes).collect(),
            labels: labels.flat_map(i32::to_le_bytes).collect(),
            count: question.boxes.len() as u64,
            kept: seen.kept.clone(),
            fit: seen.fit,
            threshold: question.threshold,
        })
    }
}

impl Finding {
    /// Works as far as possible without waiting. Answers once, with the surest thing first.
    ///
    /// # Errors
    /// As [`Run::poll`]; `BadFile` for weights with which the model's scores are no numbers.
    pub fn poll(
        &mut self,
        segmenter: &mut Segmenter,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Vec<Thing>>> {
        let session = &mut segmenter.session;
        loop {
            let text = match &mut self.step {
                Step::Read(run, text) => {
                    ready!(run.poll(session, cx))?;
                    text.clone()
                }
                Step::Find(run) => {
                    let outputs = ready!(run.poll(session, cx))?;
                    return Poll::Ready(found(&outputs, self.fit, self.threshold));
                }
            };
            self.step = Step::Find(self.submit(session, &text)?);
        }
    }

    fn submit(&self, session: &mut Session, text: &DeviceTensor) -> Result<Run> {
        // Nothing is padded: every token is seen.
        let real: Vec<u8> = (0..self.tokens).flat_map(|_| 1u32.to_le_bytes()).collect();
        let row = [1, self.tokens];
        let real = TensorRef { dtype: DType::U32, dims: &row, bytes: &real };
        let mut given: Vec<(&str, Given<'_>)> =
            Vec::from([("attention_mask", real.into()), (TEXT, text.into())]);
        given.extend(self.kept.iter().map(|(name, t)| (name.as_str(), t.into())));
        if self.count == 0 {
            return session.start(DETECT, &given);
        }
        let (four, one) = ([1, self.count, 4], [1, self.count]);
        let boxes = TensorRef { dtype: DType::F32, dims: &four, bytes: &self.boxes };
        let labels = TensorRef { dtype: DType::I32, dims: &one, bytes: &self.labels };
        given.extend([("input_boxes", boxes.into()), ("input_boxes_labels", labels.into())]);
        session.start(DETECT_FROM_BOXES, &given)
    }
}

/// A box's middle and size, of a picture that is 1 wide and 1 high.
fn middle([left, top, right, bottom]: &[f64; 4], image: [u32; 2]) -> [f32; 4] {
    let [width, height] = image.map(f64::from);
    let across = [(left + right) / 2.0 / width, (right - left) / width];
    let down = [(top + bottom) / 2.0 / height, (bottom - top) / height];
    [across[0], down[0], across[1], down[1]].map(|x| x as f32)
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + math::exp(-f64::from(x)) as f32)
}

/// The things of a run's outputs that the model is surer of than `threshold`.
fn found(outputs: &[Tensor], fit: SquareFit, threshold: f32) -> Result<Vec<Thing>> {
    let named = |name: &str| {
        let tensor = outputs.iter().find(|t: &&Tensor| t.name == name);
        tensor.ok_or_else(|| Error::internal(format!("there is no output {name}")))
    };
    let masks = named("pred_masks")?;
    let edge = masks.dims.last().and_then(|&n| u32::try_from(n).ok()).unwrap_or(0);
    let (masks, boxes) = (masks.f32s()?, named("pred_boxes")?.f32s()?);
    let any = named("presence_logits")?.f32s()?.first().map_or(0.0, |&x| sigmoid(x));
    let [width, height] = fit.image.map(|n| n as f32);
    let one = (edge as usize).pow(2).max(1);
    let parts = masks.chunks_exact(one).zip(boxes.as_chunks::<4>().0);
    let scores: Vec<f32> =
        named("pred_logits")?.f32s()?.into_iter().map(|logit| sigmoid(logit) * any).collect();
    if scores.iter().any(|score| !score.is_finite()) {
        let what = "the scores of the things that the model finds are no numbers";
        return Err(Error::bad_file(what).hint("the file's weights may be damaged"));
    }
    let sure = scores.into_iter().zip(parts).filter(|(score, _)| *score > threshold);
    let mut things: Vec<Thing> = sure
        .map(|(score, (mask, &[left, top, right, bottom]))| {
            // The makers make shares finer, not logits: half of a pixel is its edge.
            let shares = mask.iter().map(|&x| sigmoid(x) - 0.5).collect();
            Thing {
                mask: Mask::new(fit, shares, edge, score),
                frame: [left * width, top * height, right * width, bottom * height],
            }
        })
        .collect();
    order::sort_by(&mut things, |a, b| b.mask.score.total_cmp(&a.mask.score));
    Ok(things)
}
