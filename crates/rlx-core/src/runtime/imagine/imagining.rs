//! A picture on its way: which run comes next, of which model, and what becomes of its answer.

use super::{Models, Part};
use crate::error::{Error, Result};
use crate::image::Image;
use crate::math;
use crate::models::{
    DECODE_IMAGE, DENOISE, DENOISE_STEP, ENCODE_TEXT, Flux2Pipeline, GUIDED_STEP, NOISE,
};
use crate::runtime::session::{DeviceTensor, Given, Reading, Run, Session, Tensor};
use crate::types::DType;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::task::{Context, Poll, ready};

/// How latents become those of a picture.
pub(super) struct Way {
    /// Times from 1 to 0.
    pub sigmas: Vec<f32>,
    pub guidance: Option<f32>,
    pub seed: u64,
    /// Rows and columns of latents.
    pub size: [u64; 2],
    pub channels: u64,
    pub preview: bool,
}

/// A picture on its way. It borrows nothing: poll it with its pipeline's models. Dropping it cancels it, once the
/// device has finished what was submitted.
pub struct Imagining {
    way: Way,
    /// Tokens of each text, and which of them are real.
    tokens: Vec<[Vec<u32>; 2]>,
    /// Rows of the texts that were read.
    rows: Vec<Tensor>,
    latents: Option<Latents>,
    /// Directions from these latents, of the texts so far.
    velocities: Vec<DeviceTensor>,
    /// Steps that are done.
    done: u64,
    next: Next,
    work: Option<Work>,
}

/// What became of a picture.
pub enum Imagined {
    /// The prompt was read.
    Prompt,
    /// A step is done.
    Step {
        /// Steps that are done.
        done: u64,
        /// All steps.
        all: u64,
        /// The picture so far, where previews were asked for and more steps come.
        preview: Option<Image>,
    },
    /// The picture. Nothing comes behind it.
    Picture(Image),
}

/// Latents on their way.
enum Latents {
    Host(Tensor),
    Device(DeviceTensor),
}

/// What is submitted next.
#[derive(Clone, Copy, PartialEq)]
enum Next {
    /// A text to rows.
    Encode,
    /// Noise to begin with.
    Noise,
    /// The direction of a text, where pictures are guided.
    Velocity,
    /// From these latents to the next.
    Step,
    /// The latents' bytes.
    Read,
    /// A picture of the latents so far.
    Preview,
    /// The picture.
    Decode,
}

enum Work {
    /// With the output that stays on the device, if one does.
    Run(Run, Option<DeviceTensor>),
    Read(Reading),
}

type Inputs = Vec<(&'static str, Tensor)>;

impl Imagining {
    pub(super) fn new(way: Way, tokens: Vec<[Vec<u32>; 2]>, start: Option<Tensor>) -> Self {
        Imagining {
            way,
            tokens,
            rows: Vec::new(),
            latents: start.map(Latents::Host),
            velocities: Vec::new(),
            done: 0,
            next: Next::Encode,
            work: None,
        }
    }

    /// The models that polling uses until it answers. One that is not among them may be freed.
    pub fn needs(&self) -> &'static [Part] {
        match self.next {
            Next::Encode => &[Part::TextEncoder],
            Next::Decode => &[Part::Decoder],
            _ if self.way.preview && self.steps() > 1 => &[Part::Transformer, Part::Decoder],
            _ => &[Part::Transformer],
        }
    }

    /// All steps.
    pub fn steps(&self) -> u64 {
        self.way.sigmas.len() as u64 - 1
    }

    /// Works until something became of the picture. Nothing is submitted before the next poll: who stops polling
    /// cancels within a step.
    ///
    /// # Errors
    /// `Usage` for a model that is needed and not there; as runs of a session. After an error it is over.
    pub fn poll(&mut self, models: &mut Models, cx: &mut Context<'_>) -> Poll<Result<Imagined>> {
        loop {
            let session = models.session(self.part())?;
            let mut outputs = match &mut self.work {
                None => {
                    self.work = Some(self.submit(session)?);
                    continue;
                }
                Some(Work::Run(run, _)) => ready!(run.poll(session, cx))?,
                Some(Work::Read(reading)) => vec![ready!(reading.poll(session, cx))?],
            };
            let kept = match self.work.take() {
                Some(Work::Run(_, kept)) => kept,
                _ => None,
            };
            if let Some(told) = self.take(outputs.pop(), kept)? {
                return Poll::Ready(Ok(told));
            }
        }
    }

    /// The model that is asked next.
    fn part(&self) -> Part {
        match self.next {
            Next::Encode => Part::TextEncoder,
            Next::Preview | Next::Decode => Part::Decoder,
            _ => Part::Transformer,
        }
    }

    /// What a step begins with.
    fn first(&self) -> Next {
        match (&self.latents, self.way.guidance) {
            (None, _) => Next::Noise,
            (_, Some(_)) => Next::Velocity,
            (_, None) => Next::Step,
        }
    }

    fn submit(&self, session: &mut Session) -> Result<Work> {
        match self.next {
            Next::Encode => {
                let text = self.tokens.get(self.rows.len());
                let [ids, real] = text.ok_or_else(|| missing("a text"))?;
                let dims = vec![1, ids.len() as u64];
                let inputs = vec![
                    ("input_ids", words(ids.clone(), dims.clone())),
                    ("attention_mask", words(real.clone(), dims)),
                ];
                run(session, ENCODE_TEXT, &given(&inputs))
            }
            Next::Noise => keep(session, NOISE, "latents", &given(&self.noise())),
            Next::Velocity => {
                let [sigma, _] = self.times()?;
                let mut inputs = self.about_text(self.velocities.len())?;
                inputs.push(("timestep", sigma));
                let mut inputs = given(&inputs);
                inputs.push(("hidden_states", self.now()?));
                keep(session, DENOISE_STEP, "sample", &inputs)
            }
            Next::Step => {
                let [sigma, next] = self.times()?;
                let mut inputs = match self.way.guidance {
                    Some(strength) => vec![("strength", one_number(strength))],
                    None => self.about_text(0)?,
                };
                inputs.extend([("sigma", sigma), ("sigma_next", next)]);
                let mut inputs = given(&inputs);
                inputs.push(("latents", self.now()?));
                if self.way.guidance.is_none() {
                    return keep(session, DENOISE, "latents", &inputs);
                }
                let [velocity, other] = self.velocities.as_slice() else {
                    return Err(missing("a direction"));
                };
                inputs.extend([("velocity", velocity.into()), ("other", other.into())]);
                keep(session, GUIDED_STEP, "latents", &inputs)
            }
            Next::Read => match &self.latents {
                Some(Latents::Device(latents)) => Ok(Work::Read(session.read(latents)?)),
                _ => Err(missing("latents on the device")),
            },
            Next::Preview | Next::Decode => {
                let Some(Latents::Host(latents)) = &self.latents else {
                    return Err(missing("latents"));
                };
                let [height, width] = self.way.size;
                let latents =
                    Tensor { dims: vec![1, height, width, self.way.channels], ..latents.clone() };
                run(session, DECODE_IMAGE, &[("latents", latents.as_ref().into())])
            }
        }
    }

    /// Takes what a run answered: an output, or a tensor that stays on the device.
    fn take(
        &mut self,
        output: Option<Tensor>,
        kept: Option<DeviceTensor>,
    ) -> Result<Option<Imagined>> {
        let output = || output.ok_or_else(|| missing("an output"));
        let kept = || kept.ok_or_else(|| missing("a kept output"));
        match self.next {
            Next::Encode => {
                self.rows.push(output()?);
                if self.rows.len() < self.tokens.len() {
                    return Ok(None);
                }
                self.next = self.first();
                return Ok(Some(Imagined::Prompt));
            }
            Next::Noise => {
                self.latents = Some(Latents::Device(kept()?));
                self.next = self.first();
            }
            Next::Velocity => {
                self.velocities.push(kept()?);
                if self.velocities.len() == self.tokens.len() {
                    self.next = Next::Step;
                }
            }
            Next::Step => {
                self.latents = Some(Latents::Device(kept()?));
                self.velocities.clear();
                self.done += 1;
                let last = self.done == self.steps();
                if last || self.way.preview {
                    self.next = Next::Read;
                } else {
                    self.next = self.first();
                    return Ok(Some(self.step(None)));
                }
            }
            Next::Read => {
                self.latents = Some(Latents::Host(output()?));
                if self.done == self.steps() {
                    self.next = Next::Decode;
                    return Ok(Some(self.step(None)));
                }
                self.next = Next::Preview;
            }
            Next::Preview => {
                let preview = picture(&output()?)?;
                self.next = self.first();
                return Ok(Some(self.step(Some(preview))));
            }
            Next::Decode => return Ok(Some(Imagined::Picture(picture(&output()?)?))),
        }
        Ok(None)
    }

    fn step(&self, preview: Option<Image>) -> Imagined {
        Imagined::Step { done: self.done, all: self.steps(), preview }
    }

    fn now(&self) -> Result<Given<'_>> {
        match &self.latents {
            Some(Latents::Host(t)) => Ok(t.as_ref().into()),
            Some(Latents::Device(t)) => Ok(t.into()),
            None => Err(missing("latents")),
        }
    }

    /// The time of these latents and of the next.
    fn times(&self) -> Result<[Tensor; 2]> {
        match self.way.sigmas.get(self.done as usize..) {
            Some(&[now, next, ..]) => Ok([one_number(now), one_number(next)]),
            _ => Err(missing("a time")),
        }
    }

    /// What the transformer is given of a text, and of where latents and rows of text are.
    fn about_text(&self, text: usize) -> Result<Inputs> {
        let rows = self.rows.get(text).ok_or_else(|| missing("rows of a text"))?;
        let count = Flux2Pipeline::TEXT_ROWS as u32;
        let places_of_text = (0..count).flat_map(|i| [0, 0, 0, i]).collect();
        Ok(vec![
            ("encoder_hidden_states", rows.clone()),
            ("img_ids", places(self.way.size)),
            ("txt_ids", words(places_of_text, vec![count.into(), 4])),
        ])
    }

    fn noise(&self) -> Inputs {
        let seed = self.way.seed;
        let [height, width] = self.way.size;
        let dims = vec![1, height * width, self.way.channels];
        // There is no picture to begin with: noise alone.
        let none = floats(&vec![0.0; dims.iter().product::<u64>() as usize], dims);
        vec![
            ("key", words(vec![seed as u32, (seed >> 32) as u32, 0, 0], vec![4])),
            ("latents", none),
            ("sigma", one_number(1.0)),
        ]
    }
}

fn missing(what: &str) -> Error {
    Error::internal(alloc::format!("a picture is made without {what}"))
}

/// Runs an entry whose output is read.
fn run(session: &mut Session, entry: &str, inputs: &[(&str, Given<'_>)]) -> Result<Work> {
    Ok(Work::Run(session.start(entry, inputs)?, None))
}

/// Runs an entry whose output stays on the device.
fn keep(
    session: &mut Session,
    entry: &str,
    output: &str,
    inputs: &[(&str, Given<'_>)],
) -> Result<Work> {
    let mut run = session.start(entry, inputs)?;
    let kept = run.keep(session, output)?;
    Ok(Work::Run(run, Some(kept)))
}

fn given(inputs: &Inputs) -> Vec<(&'static str, Given<'_>)> {
    inputs.iter().map(|(name, t)| (*name, t.as_ref().into())).collect()
}

/// The picture of a decoder's output: colours from -1 to 1, one plane after the other.
fn picture(output: &Tensor) -> Result<Image> {
    let &[1, 3, height, width] = output.dims.as_slice() else {
        return Err(Error::internal("the decoder makes no picture of three colours"));
    };
    let planes = output.f32s()?;
    // A number that is none is black.
    let byte = |x: f32| math::rint(f64::from((x / 2.0 + 0.5).clamp(0.0, 1.0) * 255.0)) as u8;
    let all = planes.len() / 3;
    let pixels = (0..all).flat_map(|i| [0, 1, 2].map(|c| byte(planes[c * all + i]))).collect();
    let edge = |n: u64| u32::try_from(n).map_err(|_| Error::internal("a picture too large"));
    Image::new(edge(width)?, edge(height)?, pixels)
}

/// Places of latents: time, row, column, place in the text.
fn places([height, width]: [u64; 2]) -> Tensor {
    let (height, width) = (height as u32, width as u32);
    let row = |y| (0..width).flat_map(move |x| [0, y, x, 0]);
    words((0..height).flat_map(row).collect(), vec![u64::from(height) * u64::from(width), 4])
}

fn tensor(dtype: DType, dims: Vec<u64>, bytes: Vec<u8>) -> Tensor {
    Tensor { name: String::new(), dtype, dims, bytes }
}

fn words(words: Vec<u32>, dims: Vec<u64>) -> Tensor {
    tensor(DType::U32, dims, words.into_iter().flat_map(u32::to_le_bytes).collect())
}

/// Numbers as a tensor.
pub(super) fn floats(x: &[f32], dims: Vec<u64>) -> Tensor {
    tensor(DType::F32, dims, x.iter().flat_map(|x| x.to_le_bytes()).collect())
}

fn one_number(x: f32) -> Tensor {
    floats(&[x], vec![1])
}
