//! Things in pictures: a session of a model that segments, with what its maker did to images.
//!
//! A picture is encoded once. What that gives stays in the device's memory, where every prompt reads it. What a prompt
//! is depends on the model: one is shown a thing by places ([`Segmenter::masks`]), another is told what to find by
//! words, and by boxes around such things ([`Segmenter::find`]).

mod find;
mod masks;

pub use find::{Finding, Question, Thing, Words};
pub use masks::{Mask, Masking};

use crate::error::{Error, Result};
use crate::image::{Image, SamProcessor, SquareFit};
use crate::models::{DETECT, Facts, IMAGE_EMBED, MASK, Task};
use crate::runtime::session::{DeviceTensor, Run, Session, Signature, TensorRef};
use crate::types::DType;
use alloc::string::String;
use alloc::vec::Vec;
use core::task::{Context, Poll, ready};

const PIXELS: &str = "pixel_values";

/// A segmenting model on a device, and what its maker did to images before the model saw them.
pub struct Segmenter {
    session: Session,
    processor: SamProcessor,
    asked: Asked,
}

/// What a model is asked by.
enum Asked {
    /// By places; whether a point that is none follows boxes too.
    Places {
        closed: bool,
    },
    Words(Words),
}

/// A picture that a model has seen. Dropping it frees what is kept of it on the device, once runs that read it ended.
pub struct Seen {
    fit: SquareFit,
    /// What prompts read of it, by name, on the device.
    kept: Vec<(String, DeviceTensor)>,
}

/// A picture that is being looked at. It borrows nothing: poll it with its segmenter. Dropping it cancels the call.
pub struct Looking {
    run: Run,
    fit: SquareFit,
    kept: Vec<(String, DeviceTensor)>,
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

    /// Whether a model of these facts is told by words what to find.
    pub fn takes_words(facts: &Facts) -> bool {
        facts.task == Task::Segment && facts.vocab > 0
    }

    /// A segmenter over a session with the entries [`IMAGE_EMBED`] and [`MASK`], of a model of that family.
    ///
    /// # Errors
    /// `Usage` for a session without these entries.
    pub fn new(session: Session, processor: SamProcessor, family: &str) -> Result<Self> {
        session.inputs(IMAGE_EMBED)?;
        session.inputs(MASK)?;
        let asked = Asked::Places { closed: family != "sam" };
        Ok(Segmenter { session, processor, asked })
    }

    /// A segmenter over a session with the entries [`IMAGE_EMBED`] and [`DETECT`], which is told by words what to
    /// find.
    ///
    /// # Errors
    /// `Usage` for a session without these entries.
    pub fn with_words(session: Session, processor: SamProcessor, words: Words) -> Result<Self> {
        session.inputs(IMAGE_EMBED)?;
        session.inputs(DETECT)?;
        Ok(Segmenter { session, processor, asked: Asked::Words(words) })
    }

    /// Whether it is told by words what to find: it answers [`find`](Self::find), else [`masks`](Self::masks).
    pub fn knows_words(&self) -> bool {
        matches!(self.asked, Asked::Words(_))
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
        let names = match self.asked {
            Asked::Places { .. } => masks::features(&self.session)?,
            Asked::Words(_) => find::FEATURES.map(String::from).into(),
        };
        let mut run = self.session.start(IMAGE_EMBED, &[(PIXELS, input)])?;
        let mut kept = Vec::new();
        for name in names {
            let tensor = run.keep(&mut self.session, &name)?;
            kept.push((name, tensor));
        }
        Ok(Looking { run, fit, kept })
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
