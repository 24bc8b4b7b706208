//! Things in pictures, on this machine: a model's folder to masks of what points and boxes show.
//!
//! A picture is encoded once. What that gives stays in the device's memory, where every prompt reads it.

use crate::block_on::block_on;
use crate::devices::DeviceRow;
use crate::network::{CheckpointFiles, Folder, Network};
use rlx_core::image::{Image, SamProcessor, SquareFit};
use rlx_core::models::{self, IMAGE_EMBED, MASK, SamPrompt, Task};
use rlx_core::runtime::device::Device;
use rlx_core::runtime::session::{DeviceTensor, Given, Session, Tensor, TensorRef};
use rlx_core::target::CompileOptions;
use rlx_core::types::DType;
use rlx_core::{Code, Error, Result};
use std::sync::Arc;

/// Where a folder says what was done to images: the first that there is.
const PROCESSORS: [&str; 2] = ["preprocessor_config.json", "processor_config.json"];
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

/// A picture that a model has seen.
pub struct Seen {
    fit: SquareFit,
    /// What the masks' network reads of it, by name, on the device.
    kept: Vec<(String, DeviceTensor)>,
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

/// Opens a segmenting model on a device. `progress` is told bytes so far and of how many.
///
/// # Errors
/// As the readers, the compiler and the device; `Unsupported` for a model that segments nothing.
pub fn segmenter(
    files: &CheckpointFiles,
    row: &DeviceRow,
    device: Arc<dyn Device>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Segmenter> {
    let facts = models::open(&files.checkpoint())?.facts();
    let folder = match files {
        CheckpointFiles::Folder(folder) if facts.task == Task::Segment => folder,
        _ => {
            let what = format!("a model of family {} {}", facts.family, facts.task.does());
            return Err(Error::new(Code::Unsupported, what)
                .hint(format!("{} masks come from a model such as sam", facts.task.asked())));
        }
    };
    let (network, _) = Network::of(files.checkpoint(), files.maps(), None)?;
    let session = network.open(row, device, &CompileOptions::default(), progress)?;
    let input = session.inputs(IMAGE_EMBED)?.iter().find(|i| i.name == PIXELS);
    let edge = input.and_then(|i| i.ty.shape.0.last()?.as_static());
    let edge = edge.and_then(|n| u32::try_from(n).ok());
    let Some(edge) = edge else {
        return Err(Error::internal("a segmenting model has no size of its images"));
    };
    let processor = processor(folder, facts.family, edge)?;
    Ok(Segmenter { session, processor, closed: facts.family != "sam" })
}

/// What the folder says of images; what its family's models use where it says nothing.
pub(crate) fn processor(folder: &Folder, family: &str, edge: u32) -> Result<SamProcessor> {
    for name in PROCESSORS {
        if let Some(text) = folder.text(name)? {
            let read = SamProcessor::read(text.as_bytes(), name, family, edge);
            return read.map_err(|e| folder.located(e));
        }
    }
    Ok(SamProcessor::of_family(family, edge))
}

impl Segmenter {
    /// The session of the model.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Lets the model see a picture.
    ///
    /// # Errors
    /// As [`SamProcessor::prepare`] and a run.
    pub fn look(&mut self, image: &Image) -> Result<Seen> {
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
        block_on(|cx| run.poll(&mut self.session, cx))?;
        Ok(Seen { fit, kept })
    }

    /// Masks of what a prompt shows, the best first: with `all` every mask that the model offers, else the one that
    /// answers the prompt. A prompt that means one thing has one answer; of one that may mean several, the answer is
    /// the mask of the highest score.
    ///
    /// # Errors
    /// As [`SamPrompt::check`] and a run.
    pub fn masks(&mut self, seen: &Seen, prompt: &SamPrompt, all: bool) -> Result<Vec<Mask>> {
        let (places, labels) = prompt.rows(&seen.fit, self.closed)?;
        let places: Vec<u8> = places.iter().flatten().flat_map(|x| x.to_le_bytes()).collect();
        let count = labels.len() as u64;
        let labels: Vec<u8> = labels.iter().flat_map(|n| n.to_le_bytes()).collect();
        let (points, each) = ([1, 1, count, 2], [1, 1, count]);
        let points = TensorRef { dtype: DType::F32, dims: &points, bytes: &places };
        let labels = TensorRef { dtype: DType::I32, dims: &each, bytes: &labels };
        let mut given: Vec<(&str, Given<'_>)> =
            vec![(POINTS, points.into()), (LABELS, labels.into())];
        given.extend(seen.kept.iter().map(|(name, tensor)| (name.as_str(), tensor.into())));
        let mut run = self.session.start(MASK, &given)?;
        let outputs = block_on(|cx| run.poll(&mut self.session, cx))?;
        let single = prompt.means_one() && !all;
        let [masks, scores] =
            if single { ["single_mask", "single_score"] } else { ["pred_masks", "iou_scores"] };
        let named = |name: &str| {
            let tensor = outputs.iter().find(|t: &&Tensor| t.name == name);
            tensor.ok_or_else(|| Error::internal(format!("there is no output {name}")))
        };
        let (logits, scores) = (named(masks)?, named(scores)?.f32s()?);
        let edge = logits.dims.last().and_then(|&n| u32::try_from(n).ok()).unwrap_or(0);
        let logits = logits.f32s()?;
        let one = (edge as usize).pow(2).max(1);
        let mut made: Vec<Mask> = logits
            .chunks_exact(one)
            .zip(scores)
            .map(|(logits, score)| Mask { fit: seen.fit, logits: logits.to_vec(), edge, score })
            .collect();
        made.sort_by(|a, b| b.score.total_cmp(&a.score));
        if !all {
            made.truncate(1);
        }
        Ok(made)
    }
}

impl Mask {
    /// Which pixels of the picture are covered, row by row.
    ///
    /// # Errors
    /// As [`SquareFit::covered`].
    pub fn covered(&self) -> Result<Vec<bool>> {
        self.fit.covered(&self.logits, self.edge)
    }
}
