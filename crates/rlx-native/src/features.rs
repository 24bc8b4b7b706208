//! What a model of images sees, on this machine: a model's folder to rows and vectors of pictures.

use crate::devices::DeviceRow;
use crate::network::{CheckpointFiles, Folder, Network, run};
use rlx_core::image::{Image, ImageProcessor};
use rlx_core::models::{self, Checkpoint, ENCODE, Task};
use rlx_core::runtime::device::Device;
use rlx_core::runtime::session::network::check_task;
use rlx_core::runtime::session::{Session, Tensor, TensorRef};
use rlx_core::target::CompileOptions;
use rlx_core::types::DType;
use rlx_core::{Error, Result};
use std::sync::Arc;

const PROCESSOR: &str = "preprocessor_config.json";
const PIXELS: &str = "pixel_values";

/// A model of images on a device, and what its maker did to images before the model saw them.
pub struct Extractor {
    session: Session,
    processor: ImageProcessor,
    /// Height and width of its images, if they are of one size.
    size: [Option<u64>; 2],
    /// Pixels along an edge of a patch: an image has one at least.
    patch: u64,
}

/// What a model makes of one picture.
pub struct Features {
    /// Numbers of each row, row by row: the first row, registers if there are any, then patches.
    pub rows: Vec<f32>,
    /// Numbers of a row.
    pub width: usize,
    /// One vector of the whole, where the model makes one.
    pub pooled: Option<Vec<f32>>,
}

/// Opens a model of images on a device. `progress` is told bytes so far and of how many.
///
/// # Errors
/// As the readers, the compiler and the device; `Unsupported` for a model that sees no images.
pub fn extractor(
    files: &CheckpointFiles,
    row: &DeviceRow,
    device: Arc<dyn Device>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Extractor> {
    let facts = models::open(&files.checkpoint())?.facts();
    check_task(&facts, Task::Features)?;
    let CheckpointFiles::Folder(folder) = files else {
        return Err(Error::internal("no family of images has GGUF files"));
    };
    let (network, _) = Network::of(files.checkpoint(), files.maps(), None)?;
    let session = network.open(row, device, &CompileOptions::default(), progress)?;
    let input = session.inputs(ENCODE)?.iter().find(|i| i.name == PIXELS);
    let Some([_, _, height, width]) = input.map(|i| i.ty.shape.0.as_slice()) else {
        return Err(Error::internal("a model of images has no pixels for input"));
    };
    let size = [height.as_static(), width.as_static()];
    let own = size[0].and_then(|n| u32::try_from(n).ok());
    let patch = patch(&files.checkpoint());
    Ok(Extractor { processor: processor(folder, facts.family, own)?, session, size, patch })
}

/// Pixels along an edge of a patch, which are sizes of the weights that read one.
fn patch(checkpoint: &Checkpoint<'_>) -> u64 {
    let mut names = checkpoint.names();
    let reads = names.find(|n| n.ends_with("embeddings.patch_embeddings.projection.weight"));
    let dims = reads.and_then(|name| checkpoint.tensor(name)).map_or(&[][..], |t| t.1);
    dims.last().copied().unwrap_or(1)
}

/// What the folder says of images; what its family's models use where it says nothing.
fn processor(folder: &Folder, family: &str, size: Option<u32>) -> Result<ImageProcessor> {
    match folder.text(PROCESSOR)? {
        Some(text) => {
            let read = ImageProcessor::read(text.as_bytes(), PROCESSOR, family);
            read.map_err(|e| folder.located(e))
        }
        None => Ok(ImageProcessor::of_family(family, size)),
    }
}

impl Extractor {
    /// The session of the model.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// What the model makes of a picture.
    ///
    /// # Errors
    /// As [`ImageProcessor::prepare`] and a run; `BadFile` for a folder whose processor makes images of a size
    /// that the model does not take, and for an image that is smaller than a patch.
    pub fn features(&mut self, image: &Image) -> Result<Features> {
        let pixels = self.processor.prepare(image)?;
        let made = [u64::from(pixels.height), u64::from(pixels.width)];
        if self.size.iter().zip(made).any(|(own, made)| own.is_some_and(|own| own != made)) {
            let own = self.size.map(|n| n.unwrap_or_default());
            let what = format!(
                "the model takes images of {} x {} pixels, {PROCESSOR} makes {} x {}",
                own[1], own[0], made[1], made[0]
            );
            return Err(Error::bad_file(what).hint("use the files that belong to one model"));
        }
        if made.iter().any(|&n| n < self.patch) {
            let patch = self.patch;
            let what = format!(
                "{} x {} pixels are less than a patch, which has {patch} x {patch}",
                made[1], made[0]
            );
            let hint = format!("give a larger image, or a {PROCESSOR} that makes it larger");
            return Err(Error::bad_file(what).hint(hint));
        }
        let bytes: Vec<u8> = pixels.values.iter().flat_map(|x| x.to_le_bytes()).collect();
        let dims = [1, 3, made[0], made[1]];
        let input = TensorRef { dtype: DType::F32, dims: &dims, bytes: &bytes };
        let outputs = run(&mut self.session, ENCODE, &[(PIXELS, input)])?;
        let named = |name: &str| outputs.iter().find(|t: &&Tensor| t.name == name);
        let hidden = named("hidden").ok_or_else(|| Error::internal("there is no output hidden"))?;
        Ok(Features {
            rows: hidden.f32s()?,
            width: hidden.dims.last().copied().unwrap_or(0) as usize,
            pooled: named("pooler_output").map(Tensor::f32s).transpose()?,
        })
    }
}
