//! Pictures of prompts on this machine: the folder of a FLUX.2 klein pipeline to a picture, waited for.

use crate::block_on::block_on;
use crate::devices::DeviceRow;
use crate::files::small_file;
use crate::network::{Folder, Network};
use rlx_core::image::Image;
use rlx_core::runtime::device::Device;
use rlx_core::runtime::imagine::{self, Imagined, Models, Part, PipelineFiles};
pub use rlx_core::runtime::imagine::{ImagineOptions, USUAL_SIZE};
use rlx_core::runtime::session::Session;
use rlx_core::target::CompileOptions;
use rlx_core::{Code, Error, Result};
use std::path::Path;
use std::sync::Arc;

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Bytes of a model that is being loaded, so far and of how many.
    Loading(u64, u64),
    /// Steps that are done, and all.
    Step(u64, u64),
    /// Latents become a picture.
    Decoding,
}

/// A pipeline's files.
pub struct Pipeline {
    about: imagine::Pipeline,
    /// The folders of its models.
    folders: [Folder; 3],
}

impl Pipeline {
    /// Opens a pipeline's folder.
    ///
    /// # Errors
    /// `Io` for a file that is not there; as [`imagine::Pipeline::open`].
    pub fn open(path: &Path) -> Result<Self> {
        let mut files = PipelineFiles::default();
        for name in PipelineFiles::names() {
            let file = path.join(&name);
            let Some(bytes) = small_file(&file)? else { continue };
            files.put(&name, &file.display().to_string(), (*bytes).as_ref())?;
        }
        let about = imagine::Pipeline::open(&path.display().to_string(), files)?;
        let folder = |part: Part| Folder::open(&path.join(part.folder()));
        let folders =
            [folder(Part::TextEncoder)?, folder(Part::Transformer)?, folder(Part::Decoder)?];
        // What is wrong with a model is said before another one is loaded.
        for (part, folder) in Part::ALL.into_iter().zip(&folders) {
            about.entries(part, &folder.checkpoint()).map_err(|e| folder.located(e))?;
        }
        Ok(Pipeline { about, folders })
    }

    /// Pixels along an edge of a latent: sizes of pictures are multiples of it.
    pub fn scale(&self) -> u64 {
        self.about.scale()
    }

    /// Whether the pipeline needs few steps and no guidance.
    pub fn is_distilled(&self) -> bool {
        self.about.is_distilled()
    }

    /// The picture of a prompt. `progress` is told what is being done; it answers whether to go on. One model after
    /// the other is on the device.
    ///
    /// # Errors
    /// As [`imagine::Pipeline::start`]; `Cancelled` where `progress` answered no; as the compiler and the device.
    pub fn imagine(
        &self,
        prompt: &str,
        options: &ImagineOptions,
        row: &DeviceRow,
        device: &Arc<dyn Device>,
        progress: &mut dyn FnMut(Stage) -> bool,
    ) -> Result<Image> {
        let mut imagining = self.about.start(prompt, options)?;
        let mut models = Models::default();
        loop {
            let needs = imagining.needs();
            models.keep(needs);
            for &part in needs {
                if !models.has(part) {
                    models.put(part, self.load(part, row, device, progress)?);
                }
            }
            if needs == [Part::Decoder] {
                go_on(progress(Stage::Decoding))?;
            }
            match block_on(|cx| imagining.poll(&mut models, cx))? {
                Imagined::Prompt => {}
                Imagined::Step { done, all, .. } => {
                    go_on(progress(Stage::Step(done, all)))?;
                }
                Imagined::Picture(image) => return Ok(image),
            }
        }
    }

    /// A model on the device.
    fn load(
        &self,
        part: Part,
        row: &DeviceRow,
        device: &Arc<dyn Device>,
        progress: &mut dyn FnMut(Stage) -> bool,
    ) -> Result<Session> {
        let folder = &self.folders[part as usize];
        let checkpoint = folder.checkpoint();
        let entries = self.about.entries(part, &checkpoint).map_err(|e| folder.located(e))?;
        let network = Network { entries, weights: Some(checkpoint), maps: folder.maps() };
        // A file is read to its end before anyone can say no.
        let mut wanted = true;
        let mut loading = |done, all| wanted &= progress(Stage::Loading(done, all));
        let options = CompileOptions::default();
        let session = network.open(row, device.clone(), &options, &mut loading)?;
        go_on(wanted)?;
        Ok(session)
    }
}

fn go_on(wanted: bool) -> Result<()> {
    match wanted {
        true => Ok(()),
        false => Err(Error::new(Code::Cancelled, "making the picture was cancelled")),
    }
}
