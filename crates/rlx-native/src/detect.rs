//! Things in pictures by words, on this machine: a model's folder to the masks of every thing that words, or boxes
//! around such things, mean.
//!
//! A picture is encoded once. What that gives stays in the device's memory, where every question reads it.

use crate::block_on::block_on;
use crate::devices::DeviceRow;
use crate::network::{Folder, Network};
use crate::segment::processor;
use rlx_core::image::{Image, SamProcessor, SquareFit};
use rlx_core::models::{DETECT, DETECT_FROM_BOXES, IMAGE_EMBED, Sam3Config, SamPrompt, TEXT_EMBED};
use rlx_core::runtime::device::Device;
use rlx_core::runtime::session::{DeviceTensor, Given, Session, Tensor, TensorRef};
use rlx_core::target::CompileOptions;
use rlx_core::text::ClipTokenizer;
use rlx_core::types::DType;
use rlx_core::{Error, Result};
use std::sync::Arc;

const TOKENIZER: &str = "tokenizer.json";
/// What the makers' program asks where boxes come without words.
const WITHOUT_WORDS: &str = "visual";
/// Boxes of a question at most.
const BOXES_MOST: usize = 256;
/// What the entries that find things read of words.
const TEXT: &str = "text_embeddings";
const FEATURES: [&str; 3] = ["fine_embeddings", "middle_embeddings", "image_embeddings"];

/// A model that finds things by words, on a device.
pub struct Detector {
    session: Session,
    processor: SamProcessor,
    tokenizer: ClipTokenizer,
    /// Tokens of a text at most, and tokens that the model knows.
    context: u64,
    vocab: u64,
}

/// A picture that a model has seen.
pub struct Scene {
    fit: SquareFit,
    /// What is read of it, by name, on the device.
    kept: Vec<(String, DeviceTensor)>,
}

/// A thing that was found.
pub struct Thing {
    /// How sure the model is, from 0 to 1.
    pub score: f32,
    /// The model's box around it, in pixels of the picture: left, top, right, bottom.
    pub frame: [f32; 4],
    /// What its mask was made of.
    fit: SquareFit,
    /// `edge * edge` numbers of the whole square, above 0 where the thing is.
    mask: Vec<f32>,
    edge: u32,
}

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub struct Question<'a> {
    /// Words for it.
    pub words: Option<&'a str>,
    /// Boxes in pixels (left, top, right, bottom), and whether each is around such a thing or around another.
    pub boxes: &'a [([f64; 4], bool)],
    /// How sure the model must be: things of that score and less are left out.
    pub threshold: f32,
}

/// Opens a model that finds things by words on a device. `progress` is told bytes so far and of how many.
///
/// # Errors
/// As the readers, the compiler and the device; `Io` for a folder without a `tokenizer.json`.
pub fn detector(
    folder: &Folder,
    row: &DeviceRow,
    device: Arc<dyn Device>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Detector> {
    let config = Sam3Config::open(&folder.checkpoint())?;
    let Some(text) = folder.text(TOKENIZER)? else {
        let what = format!("the folder has no {TOKENIZER}, which says how words are read");
        return Err(Error::new(rlx_core::Code::Io, what).hint("copy the published file beside it"));
    };
    let tokenizer = ClipTokenizer::read(text.as_bytes(), TOKENIZER);
    let tokenizer = tokenizer.map_err(|e| folder.located(e))?;
    let edge = u32::try_from(config.image.size)
        .map_err(|_| Error::internal("a model's images are larger than any picture"))?;
    let processor = processor(folder, "sam3", edge)?;
    let (network, _) = Network::of(folder.checkpoint(), folder.maps(), None)?;
    let session = network.open(row, device, &CompileOptions::default(), progress)?;
    let (context, vocab) = (config.text.context, config.text.vocab);
    Ok(Detector { session, processor, tokenizer, context, vocab })
}

impl Detector {
    /// The session of the model.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Lets the model see a picture.
    ///
    /// # Errors
    /// As [`SamProcessor::prepare`] and a run.
    pub fn look(&mut self, image: &Image) -> Result<Scene> {
        let (pixels, fit) = self.processor.prepare(image)?;
        let bytes = floats(&pixels.values);
        let dims = [1, 3, u64::from(pixels.height), u64::from(pixels.width)];
        let pixels = TensorRef { dtype: DType::F32, dims: &dims, bytes: &bytes };
        let kept = self.stay(IMAGE_EMBED, ("pixel_values", pixels), &FEATURES)?;
        Ok(Scene { fit, kept })
    }

    /// The things that are asked for, the surest first.
    ///
    /// # Errors
    /// `Usage` for a question without words and boxes, for more words than the model reads, and for boxes that are not
    /// in the picture or are too many; as a run.
    pub fn things(&mut self, scene: &Scene, question: &Question<'_>) -> Result<Vec<Thing>> {
        question.check(scene.fit.image)?;
        let words = question.words.unwrap_or(WITHOUT_WORDS);
        let ids = self.tokenizer.encode(words, self.context as usize, self.vocab)?;
        let dims = [1, ids.len() as u64];
        let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
        let input = TensorRef { dtype: DType::U32, dims: &dims, bytes: &bytes };
        let text = self.stay(TEXT_EMBED, ("input_ids", input), &[TEXT])?;
        // Nothing is padded: every token is seen.
        let seen: Vec<u8> = ids.iter().flat_map(|_| 1u32.to_le_bytes()).collect();
        let seen = TensorRef { dtype: DType::U32, dims: &dims, bytes: &seen };
        let mut given: Vec<(&str, Given<'_>)> = vec![("attention_mask", seen.into())];
        given.extend(scene.kept.iter().chain(&text).map(|(name, t)| (name.as_str(), t.into())));
        let boxes: Vec<f32> =
            question.boxes.iter().flat_map(|(frame, _)| middle(frame, scene.fit.image)).collect();
        let labels = question.boxes.iter().flat_map(|&(_, of_it)| i32::from(of_it).to_le_bytes());
        let (boxes, labels) = (floats(&boxes), labels.collect::<Vec<u8>>());
        let count = question.boxes.len() as u64;
        let (four, one) = ([1, count, 4], [1, count]);
        let entry = if count == 0 {
            DETECT
        } else {
            let boxes = TensorRef { dtype: DType::F32, dims: &four, bytes: &boxes };
            let labels = TensorRef { dtype: DType::I32, dims: &one, bytes: &labels };
            given.extend([("input_boxes", boxes.into()), ("input_boxes_labels", labels.into())]);
            DETECT_FROM_BOXES
        };
        let mut run = self.session.start(entry, &given)?;
        let outputs = block_on(|cx| run.poll(&mut self.session, cx))?;
        found(&outputs, scene.fit, question.threshold)
    }

    /// Runs an entry of one input, and leaves outputs on the device.
    fn stay(
        &mut self,
        entry: &str,
        input: (&str, TensorRef<'_>),
        names: &[&str],
    ) -> Result<Vec<(String, DeviceTensor)>> {
        let mut run = self.session.start(entry, &[input])?;
        let mut kept = Vec::new();
        for name in names {
            kept.push(((*name).to_owned(), run.keep(&mut self.session, name)?));
        }
        block_on(|cx| run.poll(&mut self.session, cx))?;
        Ok(kept)
    }
}

impl Question<'_> {
    /// Fails for a question that asks for nothing, or whose boxes are not in an image of that width and height.
    ///
    /// # Errors
    /// `Usage`, as [`SamPrompt::check`].
    pub fn check(&self, image: [u32; 2]) -> Result<()> {
        if self.words.is_none_or(|words| words.trim().is_empty()) && self.boxes.is_empty() {
            let what = "nothing is said of what to find";
            return Err(Error::usage(what)
                .hint("give --text with words for it, or --box around one such thing"));
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

/// A box's middle and size, of a picture that is 1 wide and 1 high.
fn middle([left, top, right, bottom]: &[f64; 4], image: [u32; 2]) -> [f32; 4] {
    let [width, height] = image.map(f64::from);
    let across = [(left + right) / 2.0 / width, (right - left) / width];
    let down = [(top + bottom) / 2.0 / height, (bottom - top) / height];
    [across[0], down[0], across[1], down[1]].map(|x| x as f32)
}

fn floats(list: &[f32]) -> Vec<u8> {
    list.iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
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
    let mut things: Vec<Thing> = named("pred_logits")?
        .f32s()?
        .into_iter()
        .zip(parts)
        .map(|(logit, of_it)| (sigmoid(logit) * any, of_it))
        .filter(|(score, _)| *score > threshold)
        .map(|(score, (mask, &[left, top, right, bottom]))| Thing {
            score,
            frame: [left * width, top * height, right * width, bottom * height],
            fit,
            // The makers make shares finer, not logits: half of a pixel is its edge.
            mask: mask.iter().map(|&x| sigmoid(x) - 0.5).collect(),
            edge,
        })
        .collect();
    things.sort_by(|a, b| b.score.total_cmp(&a.score));
    Ok(things)
}

impl Thing {
    /// Which pixels of the picture are covered, row by row.
    ///
    /// # Errors
    /// As [`SquareFit::covered`].
    pub fn covered(&self) -> Result<Vec<bool>> {
        self.fit.covered(&self.mask, self.edge)
    }
}
