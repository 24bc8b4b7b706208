//! What a session in a page is made of, and how it goes on.

use crate::executor::Executor;
use crate::gpu::GpuHost;
use crate::network::{Coming, Files, Network, embed_options};
use crate::request::Options;
use core::task::{Context, Poll};
use rlx_core::models::EmbedOptions;
use rlx_core::runtime::embed::Embedding;
use rlx_core::runtime::session::{Run, Signature, Tensor, TensorRef};
use rlx_core::target::Activations;
use rlx_core::types::DType;
use rlx_core::{Code, Error, Result};
use serde_json::{Value, json};

/// A tensor that a run was given, until it starts.
pub(crate) struct Input {
    pub name: String,
    pub dtype: DType,
    pub dims: Vec<u64>,
    pub bytes: Vec<u8>,
}

impl Input {
    fn tensor(&self) -> TensorRef<'_> {
        TensorRef { dtype: self.dtype, dims: &self.dims, bytes: &self.bytes }
    }
}

/// What is under way.
pub(crate) enum Work {
    Run(Run),
    Embed(Embedding),
}

pub(crate) struct State {
    options: Options,
    pub embed: Option<EmbedOptions>,
    pub executor: Executor,
    pub files: Files,
    pub coming: Option<Coming>,
    pub network: Option<Network>,
    model: Value,
    weight_bytes: u64,
    pub inputs: Vec<Input>,
    pub work: Option<Work>,
    /// What is under way is not wanted any more. A device goes on with what it was handed, and is not handed
    /// anything else before that has ended.
    pub cancelled: bool,
    pub outputs: Vec<Tensor>,
}

pub(crate) fn not_open() -> Error {
    Error::internal("called before `open`")
}

fn given_up() -> Error {
    Error::new(Code::Cancelled, "the call was cancelled")
}

impl State {
    /// Nothing yet, on the device of the options.
    pub fn new(options_json: &str, gpu: Option<GpuHost>) -> Result<State> {
        let options = Options::parse(options_json)?;
        Ok(State {
            embed: embed_options(options_json)?,
            executor: Executor::new(&options, gpu)?,
            options,
            files: Files::default(),
            coming: None,
            network: None,
            model: Value::Null,
            weight_bytes: 0,
            inputs: Vec::new(),
            work: None,
            cancelled: false,
            outputs: Vec::new(),
        })
    }

    pub fn coming(&mut self) -> Result<&mut Coming> {
        self.coming.as_mut().ok_or_else(not_open)
    }

    pub fn open(&mut self) -> Result<()> {
        let files = core::mem::take(&mut self.files);
        let activations = self.options.activations.unwrap_or(Activations::F32);
        let coming = files.open(&self.executor, activations, self.embed)?;
        self.model = coming.model.clone();
        self.weight_bytes = coming.weight_bytes;
        self.coming = Some(coming);
        Ok(())
    }

    pub fn finish(&mut self) -> Result<()> {
        self.network = Some(self.coming.take().ok_or_else(not_open)?.finish()?);
        Ok(())
    }

    pub fn entries(&self) -> Result<String> {
        let session = self.network.as_ref().ok_or_else(not_open)?.session();
        let mut all = Vec::new();
        for name in session.entries() {
            let (inputs, outputs) = (session.inputs(name)?, session.outputs(name)?);
            let listed = |of: &[Signature]| of.iter().map(signature).collect::<Vec<_>>();
            all.push(json!({ "name": name, "inputs": listed(inputs), "outputs": listed(outputs) }));
        }
        Ok(Value::Array(all).to_string())
    }

    pub fn start(&mut self, entry: &str, inputs: &[Input]) -> Result<()> {
        let Some(Network::Session(session)) = &mut self.network else { return Err(not_open()) };
        let given: Vec<_> = inputs.iter().map(|i| (i.name.as_str(), i.tensor())).collect();
        self.work = Some(Work::Run(session.start(entry, &given)?));
        self.cancelled = false;
        Ok(())
    }

    pub fn poll_run(&mut self, cx: &mut Context<'_>) -> Poll<Result<String>> {
        let (Some(Work::Run(run)), Some(Network::Session(session))) =
            (&mut self.work, &mut self.network)
        else {
            return Poll::Ready(Err(given_up()));
        };
        let Poll::Ready(answer) = run.poll(session, cx) else { return Poll::Pending };
        self.work = None;
        if self.cancelled {
            return Poll::Ready(Err(given_up()));
        }
        Poll::Ready(answer.map(|outputs| {
            let one =
                |t: &Tensor| json!({ "name": t.name, "type": t.dtype.name(), "dims": t.dims });
            let about = outputs.iter().map(one).collect();
            self.outputs = outputs;
            Value::Array(about).to_string()
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
        if answer.is_err() || self.cancelled {
            self.work = None;
        }
        if self.cancelled {
            return Poll::Ready(Err(given_up()));
        }
        Poll::Ready(
            answer.map(|over| {
                json!({ "over": over, "done": done, "truncated": truncated }).to_string()
            }),
        )
    }

    pub fn info(&self) -> Result<String> {
        let session = self.network.as_ref().ok_or_else(not_open)?.session();
        let about = session.info();
        let arena = session.programs().map(|(_, p)| p.arena_bytes).max().unwrap_or(0);
        Ok(json!({
            "device": about.kind,
            "adapter": about.adapter,
            "features": about.features,
            "demoted": about.demoted,
            "tuning": about.tuning,
            "fallbackReason": self.options.fallback,
            "target": self.executor.device.target().describe(),
            "model": self.model,
            "weightBytes": self.weight_bytes,
            "arenaBytes": arena,
            "programs": session.programs().count(),
        })
        .to_string())
    }
}

/// Sizes are numbers, or the texts of what has symbols.
fn signature(s: &Signature) -> Value {
    let size = |d: &rlx_core::types::Dim| match d.as_static() {
        Some(n) => json!(n),
        None => json!(d.to_string()),
    };
    let shape: Vec<Value> = s.ty.shape.0.iter().map(size).collect();
    json!({ "name": s.name, "type": s.ty.dtype.name(), "shape": shape })
}
