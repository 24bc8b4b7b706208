//! Things in pictures, on this machine: a model's folder to a segmenter, and its answers, waited for.

use crate::block_on::block_on;
use crate::devices::DeviceRow;
use crate::network::{CheckpointFiles, Folder, Network};
use rlx_core::image::{Image, SamProcessor};
use rlx_core::models::{self, IMAGE_EMBED, SamPrompt, Task};
use rlx_core::runtime::device::Device;
use rlx_core::runtime::segment::Words;
pub use rlx_core::runtime::segment::{Mask, Question, Seen, Segmenter, Thing};
use rlx_core::runtime::session::Session;
use rlx_core::runtime::session::network::check_task;
use rlx_core::target::CompileOptions;
use rlx_core::{Error, Result};
use std::sync::Arc;

/// Where a folder says what was done to images: the first that there is.
const PROCESSORS: [&str; 2] = ["preprocessor_config.json", "processor_config.json"];

/// How a model that knows words reads them.
const TOKENIZER: &str = "tokenizer.json";

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
    let checkpoint = files.checkpoint();
    let facts = models::open(&checkpoint)?.facts();
    let words = match files {
        CheckpointFiles::Folder(folder) if Segmenter::takes_words(&facts) => {
            let text = folder.text(TOKENIZER)?;
            let file = text.as_ref().map(|text| (TOKENIZER, text.as_bytes()));
            Some(Words::of(&checkpoint, file).map_err(|e| folder.located(e))?)
        }
        _ => None,
    };
    let (session, processor, family) = open(files, row, device, progress)?;
    match words {
        Some(words) => Segmenter::with_words(session, processor, words),
        None => Segmenter::new(session, processor, family),
    }
}

/// The session of a segmenting model, what its maker did to images, and its family.
pub(crate) fn open(
    files: &CheckpointFiles,
    row: &DeviceRow,
    device: Arc<dyn Device>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(Session, SamProcessor, &'static str)> {
    let (network, facts) = Network::of(files.checkpoint(), files.maps(), None)?;
    check_task(&facts, Task::Segment)?;
    let CheckpointFiles::Folder(folder) = files else {
        return Err(Error::internal("a segmenting model is no folder"));
    };
    let said = said(folder)?;
    let session = network.open(row, device, &CompileOptions::default(), progress)?;
    let file = said.as_ref().map(|(name, text)| (*name, text.as_bytes()));
    let processor = Segmenter::processor(session.inputs(IMAGE_EMBED)?, facts.family, file);
    Ok((session, processor.map_err(|e| folder.located(e))?, facts.family))
}

/// What the folder says of images: the name of its file and the text.
fn said(folder: &Folder) -> Result<Option<(&'static str, String)>> {
    for name in PROCESSORS {
        if let Some(text) = folder.text(name)? {
            return Ok(Some((name, text)));
        }
    }
    Ok(None)
}

/// Lets the model see a picture.
///
/// # Errors
/// As [`Segmenter::look`] and a run.
pub fn look(segmenter: &mut Segmenter, image: &Image) -> Result<Seen> {
    let mut looking = segmenter.look(image)?;
    block_on(|cx| looking.poll(segmenter, cx))
}

/// Masks of what a prompt shows, the best first.
///
/// # Errors
/// As [`Segmenter::masks`] and a run.
pub fn masks(
    segmenter: &mut Segmenter,
    seen: &Seen,
    prompt: &SamPrompt,
    all: bool,
) -> Result<Vec<Mask>> {
    let mut masking = segmenter.masks(seen, prompt, all)?;
    block_on(|cx| masking.poll(segmenter, cx))
}

/// The things that a question asks for, the surest first.
///
/// # Errors
/// As [`Segmenter::find`] and a run.
pub fn find(segmenter: &mut Segmenter, seen: &Seen, question: &Question) -> Result<Vec<Thing>> {
    let mut finding = segmenter.find(seen, question)?;
    block_on(|cx| finding.poll(segmenter, cx))
}
