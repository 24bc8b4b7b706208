//! What a model is said to need before it is loaded, against what the GPU was asked for.

use crate::common;
use common::model::{block, generate, header, load};
use common::{TestDevice, device, device_with};
use rlx_core::ir::lir::{Program, StateDecl};
use rlx_core::plan::WeightPlan;
use rlx_core::runtime::device::{
    AnyId, Bytes, Copy, Counters, Device, DeviceInfo, Memory, ModelId, Outputs, Placed, ProgramId,
    SessionId, Submission, TensorId, Ticket,
};
use rlx_core::runtime::memory::Fit;
use rlx_core::runtime::model::{CompiledModel, ModelOptions};
use rlx_core::runtime::session::Opening;
use rlx_core::target::Activations;
use rlx_core::target::Target;
use rlx_core::types::{BlockFormat, DType};
use rlx_core::{Code, Error, Result};
use std::sync::Arc;
use std::task::{Context, Poll};

/// The GPU as if it bound and held no more than so many bytes.
fn narrow(most: u64) -> Arc<TestDevice> {
    device_with(|info| (info.max_buffer, info.max_binding) = (most, most))
}

#[test]
fn the_fit_is_what_the_gpu_is_asked_for() {
    let whole = device();
    for (file, activations, kv, context, logits, device) in [
        ("rustdoc-2m/rustdoc-2m-f16", Activations::F32, DType::F32, 1024, false, &whole),
        ("rustdoc-2m/rustdoc-2m-q4_k_m", Activations::Int8, DType::F16, 300, true, &whole),
        ("rustdoc-2m/rustdoc-2m-q8_0", Activations::Int8, DType::F16, 128, false, &narrow(150_000)),
        (
            "rustdoc-2m/rustdoc-2m-q4_k_m",
            Activations::Int8,
            DType::Block(BlockFormat::Q8_0),
            700,
            false,
            &whole,
        ),
        // So small that constants of steps are a fifth of it.
        ("gguf/llama-q4_k_m", Activations::Int8, DType::F32, 64, true, &whole),
    ]
    .into_iter()
    .take(if common::is_wide() { 5 } else { 2 })
    {
        let mut options = ModelOptions::chat(16);
        if logits {
            options = options.with_logits();
        }
        options.activations = activations.into();
        options.compile.kv = kv;
        options.context = Some(context);
        let mut engine = load(device.clone(), &format!("{file}.gguf"), &options);
        // More than a chunk, and more tokens than are ever ahead.
        let prompt = (0..20).collect();
        assert!(generate(&mut engine, prompt, 12, logits).0.len() > 4, "{file}");
        let fit = Fit::of(engine.compiled(), device.target());
        let (said, have) = (fit.total() - fit.staging, device.counters().live_bytes);
        assert_eq!(have, device.gpu().counts().live_bytes, "{file}");
        let off = (said as f64 - have as f64) / have as f64;
        assert!(off.abs() <= 0.05, "{file}: said {said}, have {have}: {fit:?}");
        drop(engine);
    }
}

#[test]
fn caches_that_the_gpu_does_not_bind_are_refused_with_the_context_that_it_does() {
    let device = narrow(150_000);
    let files = header("rustdoc-2m/rustdoc-2m-q8_0.gguf");
    let compiled = |context| {
        let mut options = ModelOptions::chat(16);
        options.context = Some(context);
        CompiledModel::from_gguf(&files, device.target(), &options).unwrap()
    };
    let e = Opening::programs(device.clone(), &compiled(1024)).err().expect("they are too large");
    assert_eq!(e.code, Code::OutOfMemory);
    assert!(e.what.starts_with("the caches of 1024 positions are larger than this device binds"));
    assert_eq!(device.gpu().counts().live_bytes, 0, "nothing was made");
    // Two heads of 64 f32: 512 bytes a position.
    assert_eq!(e.hint, "load with a context of 292 tokens or less (--context, contextLength)");
    let mut opening = Opening::programs(device.clone(), &compiled(292)).unwrap();
    block(|cx| opening.poll_ready(cx)).unwrap();
}

/// A GPU that has no memory left.
struct Full(Arc<TestDevice>);

impl Device for Full {
    fn target(&self) -> &Target {
        self.0.target()
    }
    fn info(&self) -> DeviceInfo {
        self.0.info()
    }
    fn allocate(&self, plan: Arc<WeightPlan>) -> Result<(ModelId, Ticket)> {
        self.0.allocate(plan)
    }
    fn extend(&self, m: ModelId, plan: Arc<WeightPlan>) -> Result<Ticket> {
        self.0.extend(m, plan)
    }
    fn poll_put(
        &self,
        m: ModelId,
        at: Placed,
        b: Bytes<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        self.0.poll_put(m, at, b, cx)
    }
    fn build(&self, m: ModelId, program: Arc<Program>) -> Result<(ProgramId, Ticket)> {
        self.0.build(m, program)
    }
    fn session(
        &self,
        m: ModelId,
        states: &[StateDecl],
        arena: &[u64],
    ) -> Result<(SessionId, Ticket)> {
        self.0.session(m, states, arena)
    }
    fn grow(&self, s: SessionId, arena: &[u64]) -> Result<Ticket> {
        self.0.grow(s, arena)
    }
    fn tensor(&self, s: SessionId, bytes: u64) -> Result<(TensorId, Ticket)> {
        self.0.tensor(s, bytes)
    }
    fn copy(&self, s: SessionId, copies: &[Copy]) -> Result<()> {
        self.0.copy(s, copies)
    }
    fn read(&self, s: SessionId, from: Memory, offset: u64, bytes: u64) -> Result<Ticket> {
        self.0.read(s, from, offset, bytes)
    }
    fn submit_with(&self, s: SessionId, p: ProgramId, how: &Submission<'_>) -> Result<Ticket> {
        self.0.submit_with(s, p, how)
    }
    fn begin(&self, s: SessionId, p: ProgramId) -> Result<bool> {
        self.0.begin(s, p)
    }
    fn poll(&self, _: Ticket, _: &mut Context<'_>) -> Poll<Result<Outputs>> {
        Poll::Ready(Err(Error::new(Code::OutOfMemory, "the driver's words")))
    }
    fn free(&self, id: AnyId) {
        self.0.free(id);
    }
    fn counters(&self) -> Counters {
        self.0.counters()
    }
}

#[test]
fn a_gpu_without_memory_is_answered_with_the_needs_and_a_context_to_try() {
    let device = Arc::new(Full(device()));
    let files = header("rustdoc-2m/rustdoc-2m-q8_0.gguf");
    let mut options = ModelOptions::chat(16);
    options.context = Some(1024);
    let compiled = CompiledModel::from_gguf(&files, device.target(), &options).unwrap();
    let mut opening = Opening::programs(device.clone(), &compiled).unwrap();
    let e = block(|cx| opening.poll_ready(cx)).unwrap_err();
    assert_eq!(e.code, Code::OutOfMemory);
    let needs = Fit::of(&compiled, device.target()).describe();
    assert_eq!(e.what, format!("the device has no memory left; this model needs {needs}"));
    assert_eq!(e.hint, "load with a context of 512 tokens or less (--context, contextLength)");
    assert_eq!(e.cause.map(|e| e.what), Some("the driver's words".into()));
    drop(opening);
    assert_eq!(device.counters().live_bytes, 0, "what was made is freed");
}
