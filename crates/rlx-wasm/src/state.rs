//! The state of a session in a page, and its steps.

use crate::answer::{Object, Put, text};
use crate::executor::{Executor, where_it_runs};
use crate::gpu::GpuHost;
use crate::imagine::Imaginer;
use crate::inspect::Inspector;
use crate::network::{Coming, Files, Network, Purpose, purpose};
use crate::request::Options;
use crate::trace::Trace;
use core::task::{Context, Poll};
use rlx_core::image::{Image, ImageProcessor};
use rlx_core::runtime::device::table::{Ids, Table};
use rlx_core::runtime::embed::Embedding;
use rlx_core::runtime::segment::{Finding, Looking, Mask, Masking, Seen};
use rlx_core::runtime::session::{
    DeviceTensor, Given, Reading, Run, Session, Signature, Tensor, TensorRef,
};
use rlx_core::runtime::transcribe::Transcription;
use rlx_core::target::Activations;
use rlx_core::types::{DType, Dim, Shape, Type};
use rlx_core::{Code, Error, Result};
use wasm_bindgen::JsValue;

/// An input of the next run.
pub(crate) struct Input {
    pub name: String,
    pub dtype: DType,
    pub dims: Vec<u64>,
    pub elements: Elements,
}

/// The place of an input's elements.
pub(crate) enum Elements {
    Host(Vec<u8>),
    /// A page's own `GPUBuffer`.
    Buffer(JsValue),
    /// An output that is kept on the device.
    Kept(DeviceTensor),
}

impl Input {
    fn given(&self) -> Given<'_> {
        let Input { dtype, dims, .. } = self;
        match &self.elements {
            Elements::Host(bytes) => Given::Host(TensorRef { dtype: *dtype, dims, bytes }),
            Elements::Kept(tensor) => Given::Device(tensor),
            // `adopted` has already made it a tensor of the device.
            Elements::Buffer(_) => Given::Host(TensorRef { dtype: *dtype, dims, bytes: &[] }),
        }
    }
}

/// Work in progress.
pub(crate) enum Work {
    /// A run, and the outputs that it keeps on the device, each with its number.
    Run(Run, Vec<(u32, DeviceTensor)>),
    Read(Reading),
    Embed(Embedding),
    Look(Looking),
    Masks(Masking),
    Find(Finding),
}

pub(crate) struct State {
    options: Options,
    purpose: Purpose,
    pub executor: Executor,
    pub files: Files,
    pub coming: Option<Coming>,
    pub network: Option<Network>,
    /// A pipeline, in place of a network.
    pub imaginer: Option<Imaginer>,
    pub inspector: Option<Inspector>,
    pub trace: Option<Trace>,
    /// How images are prepared, where vectors of them are computed.
    images: Option<ImageProcessor>,
    model: Option<Object>,
    weight_bytes: u64,
    pub inputs: Vec<Input>,
    pub work: Option<Work>,
    /// Whether the work in progress is cancelled. The device still finishes what was submitted, and gets nothing
    /// new before that.
    pub cancelled: bool,
    pub outputs: Vec<Tensor>,
    /// Outputs that are kept on the device, by number.
    pub kept: Table<u32, DeviceTensor>,
    /// Sounds that are being heard, by number.
    pub sounds: Table<u32, Transcription>,
    /// Images that a segmenter has seen, by number, and the masks that it found last.
    pub seen: Table<u32, Seen>,
    pub masks: Vec<Mask>,
    pub numbers: Ids,
}

pub(crate) fn not_open() -> Error {
    Error::internal("called before `open`")
}

pub(crate) fn given_up() -> Error {
    Error::new(Code::Cancelled, "the call was cancelled")
}

impl State {
    /// A state without a network, on the device of the options.
    pub fn new(options_json: &str, gpu: Option<GpuHost>) -> Result<State> {
        let options = Options::parse(options_json)?;
        let purpose = purpose(options_json)?;
        let imaginer = match purpose {
            Purpose::Imagine => Some(Imaginer::new(options_json)?),
            _ => None,
        };
        Ok(State {
            purpose,
            imaginer,
            executor: Executor::new(&options, gpu)?,
            options,
            files: Files::default(),
            coming: None,
            network: None,
            inspector: None,
            trace: None,
            images: None,
            model: None,
            weight_bytes: 0,
            inputs: Vec::new(),
            work: None,
            cancelled: false,
            outputs: Vec::new(),
            kept: Table::new(),
            sounds: Table::new(),
            seen: Table::new(),
            masks: Vec::new(),
            numbers: Ids::default(),
        })
    }

    /// Takes a graph's text, or one of a folder's small files, by name. Errors name it `at`.
    pub fn text(&mut self, name: &str, at: &str, bytes: &[u8]) -> Result<()> {
        match &mut self.imaginer {
            Some(imaginer) => imaginer.files.put(name, at, bytes),
            None => self.files.text(name, at, bytes),
        }
    }

    pub fn coming(&mut self) -> Result<&mut Coming> {
        self.coming.as_mut().ok_or_else(not_open)
    }

    pub fn open(&mut self) -> Result<()> {
        let files = core::mem::take(&mut self.files);
        let activations = self.options.activations.map_or(Activations::F32, |a| a.prompts);
        let context = self.options.context;
        let mut coming = match &mut self.imaginer {
            Some(imaginer) => imaginer.open(files.readers, &self.executor, activations)?,
            None => files.open(&self.executor, activations, context, self.purpose)?,
        };
        self.weight_bytes = match &self.imaginer {
            Some(imaginer) => imaginer.weight_bytes(),
            None => coming.weight_bytes,
        };
        // Of a pipeline it is the one that makes the picture.
        self.model = coming.model.take().or(self.model.take());
        self.coming = Some(coming);
        Ok(())
    }

    /// Has the compiler look at the network, instead of `open`. Answers with what can be shown, as JSON.
    pub fn inspect(&mut self) -> Result<String> {
        let files = core::mem::take(&mut self.files);
        let inspector = Inspector::new(files, &self.executor, &self.options)?;
        let answer = inspector.about(&self.executor);
        self.inspector = Some(inspector);
        Ok(answer)
    }

    /// One of its programs, as JSON.
    pub fn program(&self, name: &str) -> Result<String> {
        self.inspector.as_ref().ok_or_else(not_open)?.program(name, &self.executor)
    }

    /// Takes memory for one of its programs behind so many positions, to time its kernels.
    pub fn trace(&mut self, name: &str, past: u64) -> Result<()> {
        self.trace = None; // its memory is free before more is asked for
        let inspector = self.inspector.as_ref().ok_or_else(not_open)?;
        let Some(webgpu) = &self.executor.webgpu else {
            let what = "kernels are timed by a GPU's clock, and this is compiled for the CPU";
            return Err(Error::new(Code::Unsupported, what).hint("use device: 'webgpu'"));
        };
        let traceable = inspector.traceable(name, &self.executor)?;
        self.trace = Some(Trace::new(webgpu.clone(), traceable, past)?);
        Ok(())
    }

    /// Polls the program that is traced, if it is not given up.
    pub fn poll_trace(
        &mut self,
        poll: impl FnOnce(&mut Trace) -> Poll<Result<String>>,
    ) -> Poll<Result<String>> {
        self.trace.as_mut().map_or_else(|| Poll::Ready(Err(given_up())), poll)
    }

    pub fn finish(&mut self) -> Result<()> {
        let mut coming = self.coming.take().ok_or_else(not_open)?;
        if let Some(imaginer) = &mut self.imaginer {
            return imaginer.finish(coming);
        }
        let images = coming.images.take();
        let network = coming.finish()?;
        self.images = images.map(|images| images.processor(network.session())).transpose()?;
        self.network = Some(network);
        Ok(())
    }

    pub fn entries(&self) -> Result<String> {
        let session = self.network.as_ref().ok_or_else(not_open)?.session();
        let mut all = Vec::new();
        for name in session.entries() {
            let (inputs, outputs) = (session.inputs(name)?, session.outputs(name)?);
            let listed = |of: &[Signature]| of.iter().map(signature).collect::<Vec<_>>();
            let entry = Object::new().with("name", &name);
            all.push(entry.with("inputs", &listed(inputs)).with("outputs", &listed(outputs)));
        }
        Ok(text(&all))
    }

    /// Takes an image as the next run's input of this name, prepared as the model wants it: four bytes a pixel, red,
    /// green, blue, alpha, row by row.
    pub fn input_image(
        &mut self,
        name: &str,
        [width, height]: [u32; 2],
        rgba: &[u8],
    ) -> Result<()> {
        let processor = self.images.as_ref().ok_or_else(not_open)?;
        let pixels = processor.prepare(&Image::from_rgba(width, height, rgba)?)?;
        self.inputs.push(Input {
            name: name.into(),
            dtype: DType::F32,
            dims: vec![1, 3, u64::from(pixels.height), u64::from(pixels.width)],
            elements: Elements::Host(pixels.values.iter().flat_map(|x| x.to_le_bytes()).collect()),
        });
        Ok(())
    }

    /// Takes an output that is kept on the device as an input of the next run.
    pub fn input_kept(&mut self, name: &str, kept: u32) -> Result<()> {
        let Some(tensor) = self.kept.get(&kept).cloned() else {
            self.inputs.clear();
            return Err(freed(name));
        };
        let (dtype, dims) = (tensor.dtype(), tensor.dims().to_vec());
        let elements = Elements::Kept(tensor);
        self.inputs.push(Input { name: name.into(), dtype, dims, elements });
        Ok(())
    }

    pub fn start(&mut self, entry: &str, mut inputs: Vec<Input>, keep: &[String]) -> Result<()> {
        let Some(Network::Session(session)) = &mut self.network else { return Err(not_open()) };
        for input in &mut inputs {
            if let Elements::Buffer(buffer) = &input.elements {
                let tensor = adopted(session, &self.executor, input, buffer)?;
                input.elements = Elements::Kept(tensor);
            }
        }
        let given: Vec<_> = inputs.iter().map(|i| (i.name.as_str(), i.given())).collect();
        let mut run = session.start(entry, &given)?;
        let mut kept = Vec::new();
        for name in keep {
            kept.push((self.numbers.next(), run.keep(session, name)?));
        }
        self.work = Some(Work::Run(run, kept));
        self.cancelled = false;
        Ok(())
    }

    /// Starts to read an output that is kept on the device.
    pub fn read(&mut self, kept: u32) -> Result<()> {
        let Some(Network::Session(session)) = &self.network else { return Err(not_open()) };
        let tensor = self.kept.get(&kept).ok_or_else(|| freed("an output"))?;
        self.work = Some(Work::Read(session.read(tensor)?));
        self.cancelled = false;
        Ok(())
    }

    pub fn kept_buffer(&self, kept: u32) -> Option<u32> {
        let (session, tensor) = self.kept.get(&kept)?.place();
        self.executor.webgpu.as_ref()?.tensor_buffer(session, tensor)
    }

    pub fn poll_run(&mut self, cx: &mut Context<'_>) -> Poll<Result<String>> {
        let Some(Network::Session(session)) = &mut self.network else {
            return Poll::Ready(Err(given_up()));
        };
        let answer = match &mut self.work {
            Some(Work::Run(run, _)) => run.poll(session, cx),
            Some(Work::Read(reading)) => reading.poll(session, cx).map_ok(|t| vec![t]),
            _ => return Poll::Ready(Err(given_up())),
        };
        let Poll::Ready(answer) = answer else { return Poll::Pending };
        let work = self.work.take();
        if self.cancelled {
            return Poll::Ready(Err(given_up()));
        }
        Poll::Ready(answer.map(|outputs| {
            let about = |name: &str, dtype: DType, dims: &[u64]| {
                Object::new().with("name", &name).with("type", &dtype.name()).with("dims", &dims)
            };
            let mut all: Vec<Object> =
                outputs.iter().map(|t| about(&t.name, t.dtype, &t.dims)).collect();
            if let Some(Work::Run(_, kept)) = work {
                for (n, t) in kept {
                    all.push(about(t.name(), t.dtype(), t.dims()).with("kept", &n));
                    self.kept.insert(n, t);
                }
            }
            self.outputs = outputs;
            text(&all)
        }))
    }

    pub fn poll_batch(&mut self, cx: &mut Context<'_>) -> Poll<Result<String>> {
        let (Some(Work::Embed(embedding)), Some(Network::Embedder(embedder))) =
            (&mut self.work, &mut self.network)
        else {
            return Poll::Ready(Err(given_up()));
        };
        let Poll::Ready(answer) = embedding.poll(embedder, cx) else { return Poll::Pending };
        let (done, truncated) = (embedding.progress().0, embedding.truncated());
        let tokens = embedding.tokens();
        if answer.is_err() || self.cancelled {
            self.work = None;
        }
        if self.cancelled {
            return Poll::Ready(Err(given_up()));
        }
        Poll::Ready(answer.map(|over| {
            let batch = Object::new().with("over", &over);
            batch.with("done", &done).with("truncated", &truncated).with("tokens", &tokens).text()
        }))
    }

    pub fn info(&self) -> Result<String> {
        let sessions: Vec<&Session> = match (&self.network, &self.imaginer) {
            (Some(network), _) => vec![network.session()],
            (None, Some(imaginer)) => imaginer.models.sessions().collect(),
            (None, None) => return Err(not_open()),
        };
        let programs = || sessions.iter().flat_map(|session| session.programs());
        let arena = programs().map(|(_, p)| p.arena_bytes).max().unwrap_or(0);
        let device = &self.executor.device;
        Ok(where_it_runs(&device.info(), &self.options, device.target())
            .with("model", &self.model)
            .with("weightBytes", &self.weight_bytes)
            .with("arenaBytes", &arena)
            .with("programs", &programs().count())
            .text())
    }
}

fn freed(name: &str) -> Error {
    Error::usage(format!("{name}: the tensor was disposed"))
}

/// A page's buffer as a tensor of the session.
fn adopted(
    session: &mut Session,
    executor: &Executor,
    input: &Input,
    buffer: &JsValue,
) -> Result<DeviceTensor> {
    let Input { name, dtype, dims, .. } = input;
    let Some(webgpu) = &executor.webgpu else {
        let what = format!("input {name} is a GPUBuffer, and the session runs on the CPU");
        return Err(Error::usage(what).hint("read it, and give a typed array"));
    };
    let bytes = Type::tensor(*dtype, Shape::of(dims)).bytes()?;
    session.adopt(name, *dtype, dims, |s| webgpu.adopt(s, bytes, |gpu, id| gpu.adopt(id, buffer)))
}

/// A size: a number, or the text of one with symbols.
enum Size {
    Number(u64),
    Text(String),
}

impl Put for Size {
    fn put(&self, out: &mut String) {
        match self {
            Self::Number(n) => n.put(out),
            Self::Text(text) => text.put(out),
        }
    }
}

/// An input or an output, and its type.
fn signature(s: &Signature) -> Object {
    let size = |d: &Dim| d.as_static().map_or_else(|| Size::Text(d.to_string()), Size::Number);
    let shape: Vec<Size> = s.ty.shape.0.iter().map(size).collect();
    Object::new().with("name", &s.name).with("type", &s.ty.dtype.name()).with("shape", &shape)
}
