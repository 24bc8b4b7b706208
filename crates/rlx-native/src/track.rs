//! Things followed through the pictures of a film, on this machine.
//!
//! Pictures are taken one after another, so that a film of any length takes the memory of one of them; what the model
//! remembers stays in the device's memory.

use crate::block_on::block_on;
use crate::devices::DeviceRow;
use crate::network::CheckpointFiles;
use crate::segment::{Mask, open};
use rlx_core::image::{Image, SamProcessor, SquareFit};
use rlx_core::models::{Sam2Config, SamPrompt};
use rlx_core::runtime::device::Device;
use rlx_core::runtime::session::Session;
use rlx_core::runtime::track::{Film, Shown, Tracker};
use rlx_core::{Code, Error, Result};
use std::sync::Arc;

/// A model that follows things, on a device, and what its maker did to images before the model saw them.
pub struct Follower {
    tracker: Tracker,
    processor: SamProcessor,
}

/// A film whose things are followed.
pub struct Following {
    film: Film,
    /// Where its pictures are in what the model sees.
    fit: SquareFit,
}

/// A thing on a picture.
pub struct OnFrame {
    /// Its pixels; none where it is not in sight.
    pub mask: Mask,
    /// Whether the model sees it.
    pub in_sight: bool,
}

/// Opens a model that follows things on a device. `progress` is told bytes so far and of how many.
///
/// # Errors
/// As the readers, the compiler and the device; `Unsupported` for a model that remembers nothing.
pub fn follower(
    files: &CheckpointFiles,
    row: &DeviceRow,
    device: Arc<dyn Device>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Follower> {
    let (session, processor, family) = open(files, row, device, progress)?;
    let rules = match family {
        "sam2" => Sam2Config::open(&files.checkpoint())?.video,
        _ => None,
    };
    let Some(rules) = rules else {
        let what = format!("this model of family {family} remembers nothing from frame to frame");
        return Err(Error::new(Code::Unsupported, what)
            .hint("things are followed by a model whose config.json says sam2_video"));
    };
    Ok(Follower { tracker: Tracker::new(session, rules)?, processor })
}

impl Follower {
    /// The session of the model.
    pub fn session(&self) -> &Session {
        self.tracker.session()
    }

    /// The model, for whoever has pixels as it takes them.
    pub fn tracker(&mut self) -> &mut Tracker {
        &mut self.tracker
    }

    /// Begins a film of `frames` pictures like `first`, on which the prompts show a thing each.
    ///
    /// # Errors
    /// As [`SamPrompt::check`] and [`SamProcessor::fit`].
    pub fn film(&self, first: &Image, prompts: &[SamPrompt], frames: u64) -> Result<Following> {
        let fit = self.processor.fit(first)?;
        let shown = |prompt: &SamPrompt| -> Result<Shown> {
            let (places, labels) = prompt.rows(&fit, true)?;
            Ok(Shown { places, labels })
        };
        let things = prompts.iter().map(shown).collect::<Result<_>>()?;
        Ok(Following { film: self.tracker.film(things, Some(frames))?, fit })
    }

    /// Things on the film's next picture, in the order of the prompts.
    ///
    /// # Errors
    /// `Usage` for a picture of another size than the first; as [`SamProcessor::prepare`] and a run.
    pub fn next(&mut self, film: &mut Following, image: &Image) -> Result<Vec<OnFrame>> {
        let size = [image.width(), image.height()];
        if size != film.fit.image {
            let [width, height] = film.fit.image;
            let what = format!("a picture of {} x {} pixels in a film", size[0], size[1]);
            return Err(Error::usage(what)
                .hint(format!("all of them are as the first: {width} x {height}")));
        }
        let (pixels, fit) = self.processor.prepare(image)?;
        film.film.frame(&mut self.tracker, &pixels.values)?;
        let found = block_on(|cx| film.film.poll(&mut self.tracker, cx))?;
        let of = found.into_iter().map(|thing| OnFrame {
            in_sight: thing.object > 0.0,
            mask: Mask::new(fit, thing.logits, thing.edge, thing.score),
        });
        Ok(of.collect())
    }
}
