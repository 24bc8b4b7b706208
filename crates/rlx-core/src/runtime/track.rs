//! Things followed through a film: a session of a model that remembers what it saw (SAM 2).
//!
//! Frames are given one after another; a film of any length takes the memory of one frame and, for each thing, that of
//! its memories and pointers, whose number the model's configuration says. They stay on the device: what comes back of
//! a frame is each thing's mask and two numbers.
//!
//! ```text
//! frame ─▶ image_embed ─┬─▶ (first frame) ─────────▶ track ─▶ mask, score
//!                       └─▶ condition ─────────────▶   │
//!                              ▲                       ▼
//!                              └── memories ◀────── remember
//! ```
//!
//! The first slot of memories and of pointers is that of the frame where the thing was shown and is never replaced; the
//! others are a ring. The order of slots changes nothing: what says how old a memory is are the inputs beside it.

use crate::error::{Error, Result};
use crate::models::{CONDITION, IMAGE_EMBED, REMEMBER, Sam2Video, TRACK, point_label};
use crate::runtime::session::{DeviceTensor, Given, Reading, Run, Session, Tensor, TensorRef};
use crate::types::{DType, Shape, Type};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use core::task::{Context, Poll, ready};

const PIXELS: &str = "pixel_values";
const FEATURES: &str = "image_features";
const EMBEDDINGS: &str = "image_embeddings";
const FINER: [&str; 2] = ["middle_embeddings", "fine_embeddings"];
const OBJECT: &str = "object_score_logits";

/// A model that follows things, on a device.
pub struct Tracker {
    session: Session,
    rules: Sam2Video,
    /// Sizes of the pixels, the memories and the pointers.
    pixels: Vec<u64>,
    memories: Vec<u64>,
    pointers: Vec<u64>,
}

/// What is shown of a thing on a film's first frame, as the network takes it: see [`crate::models::point_label`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shown {
    /// Points and corners of a box: x and y in pixels of the square that the model sees.
    pub places: Vec<[f32; 2]>,
    /// What each is. A point that is none ends them, as [`crate::models::SamPrompt::rows`] makes it.
    pub labels: Vec<i32>,
}

/// A thing on a frame.
#[derive(Clone, Debug, PartialEq)]
pub struct Followed {
    /// `edge * edge` logits of the whole square; -1024 all over where the thing is not in sight.
    pub logits: Vec<f32>,
    /// Places along an edge of the mask.
    pub edge: u32,
    /// How much of the mask and the thing the model expects to be the same, from 0 to 1.
    pub score: f32,
    /// How sure the model is that the thing is in sight: it is above 0.
    pub object: f32,
}

/// A film whose things are followed. It borrows nothing: give it frames and poll it with its tracker.
pub struct Film {
    things: Vec<Thing>,
    /// Frames that are done.
    done: u64,
    /// Frames of the whole film, if that is known.
    frames: Option<u64>,
    work: Option<Work>,
}

struct Thing {
    shown: Shown,
    /// Memories and pointers, from the first frame on.
    bank: Option<[DeviceTensor; 2]>,
}

/// A frame in progress.
struct Work {
    step: Step,
    /// The features of the frame, once it was seen.
    features: Option<DeviceTensor>,
    embeddings: Option<DeviceTensor>,
    finer: Vec<DeviceTensor>,
    found: Vec<Followed>,
    /// What each thing is remembered by after this frame.
    banks: Vec<[DeviceTensor; 2]>,
}

/// What of a thing's mask stays on the device.
struct Made {
    mask: DeviceTensor,
    object: DeviceTensor,
    pointer: DeviceTensor,
}

enum Step {
    Look(Run),
    Condition(Run, DeviceTensor),
    Track(Run, Made),
    /// What is still to be read, the last first, and what was read.
    Read(Vec<Reading>, Vec<Vec<f32>>, f32, Made),
    Remember(Run, [DeviceTensor; 2]),
}

fn words<T, const N: usize>(list: &[T], of: impl Fn(&T) -> [u8; N]) -> Vec<u8> {
    list.iter().flat_map(of).collect()
}

fn floats(list: &[f32]) -> Vec<u8> {
    words(list, |x| x.to_le_bytes())
}

/// A tensor of the host with its name.
struct Host {
    name: &'static str,
    dtype: DType,
    dims: Vec<u64>,
    bytes: Vec<u8>,
}

impl Host {
    fn floats(name: &'static str, dims: &[u64], list: &[f32]) -> Self {
        Host { name, dtype: DType::F32, dims: dims.into(), bytes: floats(list) }
    }

    fn integers(name: &'static str, dims: &[u64], list: &[i32]) -> Self {
        let bytes = words(list, |n| n.to_le_bytes());
        Host { name, dtype: DType::I32, dims: dims.into(), bytes }
    }

    fn given(&self) -> (&str, Given<'_>) {
        let tensor = TensorRef { dtype: self.dtype, dims: &self.dims, bytes: &self.bytes };
        (self.name, tensor.into())
    }
}

/// The slot of a frame's memory among so many: the first is the first frame's.
fn slot(frame: u64, slots: u64) -> Option<u64> {
    match (frame, slots) {
        (0, _) => Some(0),
        (_, 0 | 1) => None,
        _ => Some(1 + (frame - 1) % (slots - 1)),
    }
}

/// How many frames before `frame` what is in each slot was made; `None` for a slot that has nothing yet.
fn ages(frame: u64, slots: u64) -> Vec<Option<u64>> {
    let mut all = vec![None; slots as usize];
    let oldest = frame.saturating_sub(slots.saturating_sub(1)).max(1);
    for at in (oldest..frame).chain((frame > 0).then_some(0)) {
        if let Some(age) = slot(at, slots).and_then(|s| all.get_mut(s as usize)) {
            *age = Some(frame - at);
        }
    }
    all
}

impl Tracker {
    /// A tracker over a session of a model's networks, whose configuration is `rules`.
    ///
    /// # Errors
    /// `Usage` for a session without the networks that follow things.
    pub fn new(session: Session, rules: Sam2Video) -> Result<Self> {
        let dims = |entry: &str, name: &str| -> Result<Vec<u64>> {
            let input = session.inputs(entry)?.iter().find(|i| i.name == name);
            let input =
                input.ok_or_else(|| Error::usage(format!("{entry} has no input {name}")))?;
            // The batch is one frame.
            Ok(input.ty.shape.0.iter().map(|d| d.as_static().unwrap_or(1)).collect())
        };
        let pixels = dims(IMAGE_EMBED, PIXELS)?;
        let (memories, pointers) = (dims(REMEMBER, "memories")?, dims(REMEMBER, "pointers")?);
        Ok(Tracker { session, rules, pixels, memories, pointers })
    }

    /// The session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// A film on whose first frame these things are shown. `frames` is how many it has, if that is known: the model
    /// counts times as parts of a short film.
    ///
    /// # Errors
    /// `Usage` for no things, and for a thing without points or with more or fewer labels than points.
    pub fn film(&self, things: Vec<Shown>, frames: Option<u64>) -> Result<Film> {
        if things.is_empty() {
            return Err(Error::usage("nothing is shown of what to follow")
                .hint("give points of a thing, or a box around it"));
        }
        if let Some(t) =
            things.iter().find(|t| t.labels.is_empty() || t.labels.len() != t.places.len())
        {
            let (labels, points) = (t.labels.len(), t.places.len());
            let what = format!("a thing is shown by {points} points with {labels} labels");
            return Err(Error::usage(what).hint("give each point its label"));
        }
        let things = things.into_iter().map(|shown| Thing { shown, bank: None }).collect();
        Ok(Film { things, done: 0, frames, work: None })
    }
}

impl Film {
    /// How many frames are done.
    pub fn frames_done(&self) -> u64 {
        self.done
    }

    /// Starts the next frame: pixels `[3, S, S]` as the model takes them. A frame that was started and did not answer,
    /// or failed, is forgotten.
    ///
    /// # Errors
    /// `Usage` for pixels of another number, and for a frame after the last; as [`Session::start`].
    pub fn frame(&mut self, tracker: &mut Tracker, pixels: &[f32]) -> Result<()> {
        self.work = None;
        if let Some(all) = self.frames.filter(|&all| self.done >= all) {
            let what = format!("the film has {all} frames, and all of them are done");
            return Err(Error::usage(what).hint("begin another film"));
        }
        let input = Host::floats(PIXELS, &tracker.pixels, pixels);
        let session = &mut tracker.session;
        let mut run = session.start(IMAGE_EMBED, &[input.given()])?;
        let features = Some(run.keep(session, FEATURES)?);
        let embeddings = Some(run.keep(session, EMBEDDINGS)?);
        let mut finer = Vec::new();
        for name in FINER {
            finer.push(run.keep(session, name)?);
        }
        let (found, banks) = (Vec::new(), Vec::new());
        let step = Step::Look(run);
        self.work = Some(Work { step, features, embeddings, finer, found, banks });
        Ok(())
    }

    /// Works until every thing's mask on the frame is there, and answers with them in the order of the things.
    ///
    /// # Errors
    /// `Usage` where no frame was started; as a run's poll. After an error the frame may be given again.
    pub fn poll(
        &mut self,
        tracker: &mut Tracker,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Vec<Followed>>> {
        let Some(mut work) = self.work.take() else {
            return Poll::Ready(Err(Error::usage("no frame of the film was started")));
        };
        loop {
            match self.step(&mut work, tracker, cx) {
                Poll::Pending => {
                    self.work = Some(work);
                    return Poll::Pending;
                }
                Poll::Ready(Err(e)) => return Poll::Ready(Err(e)),
                Poll::Ready(Ok(false)) => {}
                Poll::Ready(Ok(true)) => break,
            }
        }
        for (thing, bank) in self.things.iter_mut().zip(work.banks) {
            thing.bank = Some(bank);
        }
        self.done += 1;
        Poll::Ready(Ok(work.found))
    }

    /// Does one step; `true` after the last.
    fn step(
        &self,
        work: &mut Work,
        tracker: &mut Tracker,
        cx: &mut Context<'_>,
    ) -> Poll<Result<bool>> {
        let session = &mut tracker.session;
        let next = match &mut work.step {
            Step::Look(run) => {
                ready!(run.poll(session, cx))?;
                self.begin(work, tracker)?
            }
            Step::Condition(run, embeddings) => {
                ready!(run.poll(session, cx))?;
                let embeddings = embeddings.clone();
                self.track(work, tracker, &embeddings)?
            }
            Step::Track(run, made) => {
                let rest = ready!(run.poll(session, cx))?;
                let score = rest.iter().find(|t: &&Tensor| t.name == "score");
                let score = score.map(Tensor::f32s).transpose()?;
                let score = score.and_then(|list| list.first().copied()).unwrap_or(0.0);
                let readings = vec![session.read(&made.object)?, session.read(&made.mask)?];
                let Made { mask, object, pointer } = made;
                let made =
                    Made { mask: mask.clone(), object: object.clone(), pointer: pointer.clone() };
                Step::Read(readings, Vec::new(), score, made)
            }
            Step::Read(readings, read, score, made) => {
                if let Some(reading) = readings.last_mut() {
                    read.push(ready!(reading.poll(session, cx))?.f32s()?);
                    readings.pop();
                    return Poll::Ready(Ok(false));
                }
                let object = read.pop().and_then(|list| list.first().copied()).unwrap_or(0.0);
                let logits = read.pop().unwrap_or_default();
                let edge = made.mask.dims().last().and_then(|&n| u32::try_from(n).ok());
                let edge = edge.unwrap_or(0);
                work.found.push(Followed { logits, edge, score: *score, object });
                let inputs = [&made.mask, &made.object, &made.pointer].map(DeviceTensor::clone);
                self.remember(work, tracker, &inputs)?
            }
            Step::Remember(run, bank) => {
                ready!(run.poll(session, cx))?;
                let bank = bank.clone();
                work.banks.push(bank);
                if work.banks.len() == self.things.len() {
                    return Poll::Ready(Ok(true));
                }
                self.begin(work, tracker)?
            }
        };
        work.step = next;
        Poll::Ready(Ok(false))
    }

    /// The thing whose turn it is.
    fn thing(&self, work: &Work) -> Result<&Thing> {
        let thing = self.things.get(work.banks.len());
        thing.ok_or_else(|| Error::internal("a film has fewer things than it follows"))
    }

    /// The first step of a thing: what is remembered of it changes the frame's features.
    fn begin(&self, work: &Work, tracker: &mut Tracker) -> Result<Step> {
        let Some([memories, pointers]) = &self.thing(work)?.bank else {
            let embeddings = work.embeddings.clone();
            let embeddings = embeddings.ok_or_else(|| Error::internal("a frame was not seen"))?;
            return self.track(work, tracker, &embeddings);
        };
        let rules = &tracker.rules;
        let (k, p) = (rules.memories, rules.pointers);
        let of_memories = ages(self.done, k);
        let mut of_pointers = ages(self.done, p);
        // The first frame's pointer stays, however old; the others are as many as the film is long.
        let span = self.frames.map_or(p, |n| n.min(p)).saturating_sub(1).max(1);
        for age in of_pointers.iter_mut().skip(1) {
            *age = age.filter(|&age| age <= span);
        }
        let seen = |ages: &[Option<u64>]| -> Vec<f32> {
            ages.iter().map(|age| if age.is_some() { 1.0 } else { 0.0 }).collect()
        };
        // The last time of the table is that of the frame where the thing was shown.
        let time = |(i, age): (usize, &Option<u64>)| match age {
            Some(age) if i > 0 => (age - 1) as i32,
            _ => (k - 1) as i32,
        };
        let times: Vec<i32> = of_memories.iter().enumerate().map(time).collect();
        let mut times = Host::integers("memory_times", &[k], &times);
        times.dtype = DType::U32;
        let part = |age: &Option<u64>| age.map_or(0.0, |n| n as f32 / span as f32);
        let parts: Vec<f32> = of_pointers.iter().map(part).collect();
        let mut hosts = vec![
            times,
            Host::floats("memories_seen", &[k], &seen(&of_memories)),
            Host::floats("pointers_seen", &[p], &seen(&of_pointers)),
        ];
        if rules.pointer_times {
            hosts.push(Host::floats("pointer_times", &[p], &parts));
        }
        let mut given: Vec<(&str, Given<'_>)> = hosts.iter().map(Host::given).collect();
        given.push((FEATURES, features(work)?.into()));
        given.push(("memories", memories.into()));
        given.push(("pointers", pointers.into()));
        let mut run = tracker.session.start(CONDITION, &given)?;
        let embeddings = run.keep(&mut tracker.session, EMBEDDINGS)?;
        Ok(Step::Condition(run, embeddings))
    }

    /// The step that makes a thing's mask.
    fn track(&self, work: &Work, tracker: &mut Tracker, embeddings: &DeviceTensor) -> Result<Step> {
        let first = self.done == 0;
        let shown = &self.thing(work)?.shown;
        // Where nothing is shown the makers give a point that is none, and end it with another.
        let none = Shown { places: vec![[0.0; 2]; 2], labels: vec![point_label::NONE; 2] };
        let shown = if first { shown } else { &none };
        let points = shown.labels.iter().filter(|&&label| label != point_label::NONE).count();
        let several = tracker.rules.several.of(points as u64, first);
        let count = shown.labels.len() as u64;
        let places: Vec<f32> = shown.places.iter().flatten().copied().collect();
        let hosts = [
            Host::floats("input_points", &[1, 1, count, 2], &places),
            Host::integers("input_labels", &[1, 1, count], &shown.labels),
            Host::integers("several", &[1], &[i32::from(several)]),
        ];
        let mut given: Vec<(&str, Given<'_>)> = hosts.iter().map(Host::given).collect();
        given.push((EMBEDDINGS, embeddings.into()));
        given.extend(FINER.into_iter().zip(work.finer.iter().map(Given::from)));
        let session = &mut tracker.session;
        let mut run = session.start(TRACK, &given)?;
        let mut keep = |name: &str| run.keep(session, name);
        let made = Made { mask: keep("mask")?, object: keep(OBJECT)?, pointer: keep("pointer")? };
        Ok(Step::Track(run, made))
    }

    /// The step that remembers a thing.
    fn remember(
        &self,
        work: &Work,
        tracker: &mut Tracker,
        [mask, object, pointer]: &[DeviceTensor; 3],
    ) -> Result<Step> {
        let rules = &tracker.rules;
        let place = |slots| slot(self.done, slots).map_or(-1, |s| s as i32);
        let mut hosts = vec![
            Host::integers("shown", &[1], &[i32::from(self.done == 0)]),
            Host::integers("memory_slot", &[1], &[place(rules.memories)]),
            Host::integers("pointer_slot", &[1], &[place(rules.pointers)]),
        ];
        let bank = self.thing(work)?.bank.as_ref();
        if bank.is_none() {
            // Nothing is remembered yet.
            for (name, dims) in [("memories", &tracker.memories), ("pointers", &tracker.pointers)] {
                let bytes = Type::tensor(DType::F32, Shape::of(dims)).bytes()?;
                let bytes = usize::try_from(bytes)
                    .map_err(|_| Error::internal("memories are larger than this machine's"))?;
                let (dims, bytes) = (dims.clone(), vec![0; bytes]);
                hosts.push(Host { name, dtype: DType::F32, dims, bytes });
            }
        }
        let mut given: Vec<(&str, Given<'_>)> = hosts.iter().map(Host::given).collect();
        if let Some([memories, pointers]) = bank {
            given.push(("memories", memories.into()));
            given.push(("pointers", pointers.into()));
        }
        given.push((FEATURES, features(work)?.into()));
        given.push(("mask", mask.into()));
        given.push((OBJECT, object.into()));
        given.push(("pointer", pointer.into()));
        let session = &mut tracker.session;
        let mut run = session.start(REMEMBER, &given)?;
        let memories = run.keep(session, "new_memories")?;
        let pointers = run.keep(session, "new_pointers")?;
        Ok(Step::Remember(run, [memories, pointers]))
    }
}

fn features(work: &Work) -> Result<&DeviceTensor> {
    work.features.as_ref().ok_or_else(|| Error::internal("a frame has no features"))
}

#[cfg(test)]
mod tests {
    use super::{ages, slot};
    use alloc::vec::Vec;

    #[test]
    fn the_first_frame_stays_and_the_last_ones_follow_each_other() {
        let slots: Vec<_> = (0..6).map(|frame| slot(frame, 3)).collect();
        assert_eq!(slots, [0, 1, 2, 1, 2, 1].map(Some));
        assert_eq!([slot(0, 1), slot(5, 1)], [Some(0), None]);
        assert_eq!(ages(0, 3), [None; 3]);
        assert_eq!(ages(1, 3), [Some(1), None, None]);
        assert_eq!(ages(2, 3), [Some(2), Some(1), None]);
        assert_eq!(ages(3, 3), [Some(3), Some(2), Some(1)]);
        assert_eq!(ages(4, 3), [Some(4), Some(1), Some(2)]);
        assert_eq!(ages(9, 1), [Some(9)]);
        assert_eq!(ages(2, 2), [Some(2), Some(1)]);
    }
}
