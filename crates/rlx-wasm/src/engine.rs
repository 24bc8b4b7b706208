//! A model on a device, from its first header byte to `dispose`.

use crate::answer::Object;
use crate::call::{Call, Speed};
use crate::executor::{Executor, WASM_BYTES, cpu, where_it_runs};
use crate::fault::{error, throw};
use crate::files::Files;
use crate::form::{hold, vocabulary};
use crate::gpu::GpuHost;
use crate::panic::tell_panics;
use crate::placing::Placing;
use crate::request::{Options, Prompt, conversation, parse, request};
use crate::trial::{Chosen, choose};
use crate::wait::{Pace, Platform, wait};
use core::cell::RefCell;
use core::task::{Context, Poll};
use js_sys::Promise;
use rlx_core::models::Language;
use rlx_core::runtime::device::Device;
use rlx_core::runtime::generate::engine::{Engine, Progress};
use rlx_core::runtime::generate::machine::Reason;
use rlx_core::runtime::generate::restore::Restore;
use rlx_core::runtime::memory::Fit;
use rlx_core::runtime::model::{CompiledModel, ModelOptions};
use rlx_core::runtime::selftest::check::Check;
use rlx_core::runtime::selftest::{SelfTest, Verdict};
use rlx_core::runtime::session::Opening;
use rlx_core::runtime::trial::Trial;
use rlx_core::safetensors::files_of_index;
use rlx_core::text::{ChatTemplate, RenderOptions, Special, TemplateValue, Tokenizer, encode_chat};
use rlx_core::types::DType;
use rlx_core::weights::WeightFiles;
use rlx_core::{Code, Error, Result};
use std::rc::Rc;
use std::sync::Arc;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::future_to_promise;

/// Tokens at the end of a prompt that say where its answer begins: inside a block of thoughts, for one.
const PROMPT_END: usize = 16;

/// A compiled model: the result of `open`.
struct Opened {
    compiled: Arc<CompiledModel>,
    fit: Fit,
    tokenizer: Arc<Tokenizer>,
    template: Result<ChatTemplate>,
    tool_template: Option<Result<ChatTemplate>>,
    name: String,
    architecture: String,
    trained_context: u64,
    temperature: f32,
    placing: Placing,
}

impl Opened {
    /// The template of a conversation, with tools or without.
    fn template(&self, tools: bool) -> Result<&ChatTemplate> {
        let own = self.tool_template.as_ref().filter(|_| tools);
        own.unwrap_or(&self.template).as_ref().map_err(Clone::clone)
    }

    /// The tokens of a conversation, up to where the answer begins.
    fn prompt(
        &self,
        messages: TemplateValue,
        variables: Vec<(String, TemplateValue)>,
    ) -> Result<Vec<u32>> {
        let template = self.template(variables.iter().any(|v| v.0 == "tools"))?;
        let render =
            RenderOptions { add_generation_prompt: true, variables, now: Some(local_time()) };
        Ok(encode_chat(&self.tokenizer, &template.render_json(messages, &render)?))
    }
}

/// The time that the page's user reads off the wall, in seconds since 1970 of that clock.
fn local_time() -> i64 {
    let now = js_sys::Date::new_0();
    (now.get_time() / 1e3 - now.get_timezone_offset() * 60.0).floor() as i64
}

/// The engine behind its methods.
pub(crate) struct State {
    platform: Rc<Platform>,
    pub options: Options,
    pub executor: Executor,
    pub files: Files,
    /// What the device is timed with, before the model is opened.
    pub trial: Option<Trial>,
    /// Why the model has its activation types, once the device was timed for them.
    pub chosen: Option<Chosen>,
    pub disposed: bool,
    opened: Option<Opened>,
    opening: Option<Opening>,
    /// The self-test of the GPU, until it has answered; then its verdict, until the page asks for it.
    check: Option<Check>,
    found: Option<(String, Verdict)>,
    engine: Option<Engine>,
    call: Option<Call>,
    restore: Option<Restore>,
    speed: Speed,
    reused: usize,
}

/// A model on a device. The methods are those of `WasmEngine` in `js/src/wasm.ts`.
#[wasm_bindgen]
pub struct RlxEngine {
    pub(crate) state: Rc<RefCell<State>>,
    pub(crate) platform: Rc<Platform>,
}

/// Fails for a model that 32-bit wasm memory cannot hold, before any tensor is fetched.
fn fits(fit: &Fit) -> Result<()> {
    fit.within("the CPU in a page", WASM_BYTES).map_err(|e| {
        let hint = format!("{}, or use WebGPU", e.hint);
        e.hint(hint)
    })
}

pub(crate) fn not_open() -> Error {
    Error::internal("called before `open`")
}

#[wasm_bindgen]
impl RlxEngine {
    /// An engine without a model. `gpu` is given if the device is `webgpu`.
    #[wasm_bindgen(constructor)]
    pub fn new(
        options_json: &str,
        platform: Platform,
        gpu: Option<GpuHost>,
    ) -> core::result::Result<RlxEngine, JsValue> {
        tell_panics();
        let platform = Rc::new(platform);
        let build = || -> Result<State> {
            let options = Options::parse(options_json)?;
            let executor = Executor::new(&options, gpu)?;
            Ok(State {
                platform: platform.clone(),
                options,
                executor,
                files: Files::default(),
                trial: None,
                chosen: None,
                disposed: false,
                opened: None,
                opening: None,
                check: None,
                found: None,
                engine: None,
                call: None,
                restore: None,
                speed: Speed::default(),
                reused: 0,
            })
        };
        let state = build().map_err(|e| throw(&e))?;
        Ok(RlxEngine { state: Rc::new(RefCell::new(state)), platform })
    }

    /// Takes the next bytes of a shard; true when its header is complete.
    #[wasm_bindgen(js_name = pushHeader)]
    pub fn push_header(
        &self,
        shard: usize,
        name: &str,
        file_bytes: f64,
        chunk: &[u8],
    ) -> core::result::Result<bool, JsValue> {
        let readers = &mut self.state.borrow_mut().files.readers;
        readers.push(shard, name, file_bytes, chunk).map_err(|e| throw(&e))
    }

    /// Takes a small file of a model's folder, by its name there.
    pub fn text(&self, name: &str, at: &str, bytes: &[u8]) -> core::result::Result<(), JsValue> {
        self.state.borrow_mut().files.text(name, at, bytes).map_err(|e| throw(&e))
    }

    /// The files of weights that the text of a folder's index names.
    pub fn index(&self, at: &str, bytes: &[u8]) -> core::result::Result<Vec<String>, JsValue> {
        files_of_index(bytes, at).map_err(|e| throw(&e))
    }

    /// Call after all headers: compiles the model, and asks the device for memory and pipelines.
    pub fn open(&self) -> Promise {
        let (state, platform) = (self.state.clone(), self.platform.clone());
        future_to_promise(async move {
            let pace = state.borrow().executor.pace;
            wait(&platform, pace, |cx| state.borrow_mut().executor.poll_probes(cx))
                .await
                .map_err(|e| throw(&e))?;
            choose(&state, &platform).await.map_err(|e| throw(&e))?;
            state.borrow_mut().open().map_err(|e| throw(&e))?;
            wait(&platform, pace, |cx| state.borrow_mut().poll_ready(cx))
                .await
                .map_err(|e| throw(&e))?;
            Ok(JsValue::UNDEFINED)
        })
    }

    /// Call after all headers, in place of `open`: the memory that the model needs on this device, as JSON.
    pub fn estimate(&self) -> Promise {
        let (state, platform) = (self.state.clone(), self.platform.clone());
        future_to_promise(async move {
            let pace = state.borrow().executor.pace;
            wait(&platform, pace, |cx| state.borrow_mut().executor.poll_probes(cx))
                .await
                .map_err(|e| throw(&e))?;
            let estimate = state.borrow_mut().estimate().map_err(|e| throw(&e))?;
            Ok(JsValue::from_str(&estimate))
        })
    }

    /// The placements of a shard: rows of file offset, bytes, target, offset.
    pub fn placements(&self, shard: usize) -> core::result::Result<Vec<f64>, JsValue> {
        self.state.borrow().placements(shard).map_err(|e| throw(&e))
    }

    /// Takes bytes for a placement with target `PUT`.
    pub fn put(
        &self,
        shard: usize,
        file_offset: f64,
        bytes: &[u8],
    ) -> core::result::Result<(), JsValue> {
        let mut s = self.state.borrow_mut();
        s.put(shard, file_offset as u64, bytes).map_err(|e| throw(&e))
    }

    /// Call after all bytes: makes the constants, and waits for pipelines.
    #[wasm_bindgen(js_name = finishLoad)]
    pub fn finish_load(&self) -> Promise {
        let (state, platform) = (self.state.clone(), self.platform.clone());
        future_to_promise(async move {
            let pace = state.borrow().executor.pace;
            state.borrow_mut().note_written();
            wait(&platform, pace, |cx| state.borrow_mut().poll_finish(cx))
                .await
                .map_err(|e| throw(&e))?;
            state.borrow_mut().finish().map_err(|e| throw(&e))?;
            Ok(JsValue::UNDEFINED)
        })
    }

    /// Whether `finishLoad` runs a self-test first, which compares the GPU with the CPU.
    pub fn checks(&self) -> bool {
        self.state.borrow().check.as_ref().is_some_and(Check::is_open)
    }

    /// The self-test's verdict, for the page to keep: `{"kernels", "verdict"}` as JSON. `None` if
    /// no self-test ran, as when its verdict was known.
    pub fn found(&self) -> Option<String> {
        let (kernels, verdict) = self.state.borrow_mut().found.take()?;
        let verdict = verdict.to_string();
        Some(Object::new().with("kernels", &kernels).with("verdict", &verdict).text())
    }

    /// The tokens of a text; with `special` as the text of a whole prompt.
    pub fn tokenize(&self, text: &str, special: bool) -> core::result::Result<Vec<u32>, JsValue> {
        let s = self.state.borrow();
        let tokenizer = &s.opened.as_ref().ok_or_else(|| throw(&not_open()))?.tokenizer;
        Ok(match special {
            true => tokenizer.encode_document(text, Special::Parse),
            false => tokenizer.encode(text, Special::Literal),
        })
    }

    /// The text of the chat template, of conversations with tools or without; empty if the model has none that can be
    /// read.
    pub fn template(&self, tools: bool) -> String {
        let s = self.state.borrow();
        let template = s.opened.as_ref().and_then(|opened| opened.template(tools).ok());
        template.map_or_else(String::new, |template| template.source().into())
    }

    /// The tokens of the prompt that a call with these messages and variables has.
    #[wasm_bindgen(js_name = tokenizeMessages)]
    pub fn tokenize_messages(&self, request_json: &str) -> core::result::Result<Vec<u32>, JsValue> {
        let s = self.state.borrow();
        let prompt = || {
            let opened = s.opened.as_ref().ok_or_else(not_open)?;
            let (messages, variables) = conversation(&parse(request_json)?);
            opened.prompt(messages, variables)
        };
        prompt().map_err(|e| throw(&e))
    }

    /// The text of tokens; control tokens have none.
    pub fn detokenize(&self, ids: Vec<u32>) -> core::result::Result<String, JsValue> {
        let s = self.state.borrow();
        let tokenizer = &s.opened.as_ref().ok_or_else(|| throw(&not_open()))?.tokenizer;
        let n = tokenizer.vocab_size();
        match ids.iter().find(|&&id| id as usize >= n) {
            Some(id) => {
                let what = format!("token {id} is outside the {n} tokens");
                Err(throw(&Error::usage(what).at("ids")))
            }
            None => Ok(tokenizer.decode(&ids, true)),
        }
    }

    /// Tokens whose rows are in the caches, or were when the device was lost.
    pub fn cached(&self) -> Vec<u32> {
        let s = self.state.borrow();
        s.engine.as_ref().map_or_else(Vec::new, |engine| engine.cached_tokens().to_vec())
    }

    /// Computes the rows of tokens in the caches, for the next call to reuse.
    pub fn restore(&self, tokens: Vec<u32>) -> Promise {
        let (state, platform) = (self.state.clone(), self.platform.clone());
        future_to_promise(async move {
            let pace = {
                let mut s = state.borrow_mut();
                s.restore(tokens).map_err(|e| throw(&e))?;
                s.executor.pace
            };
            let answer = wait(&platform, pace, |cx| state.borrow_mut().poll_restore(cx)).await;
            state.borrow_mut().restore = None;
            answer.map(|()| JsValue::UNDEFINED).map_err(|e| throw(&e))
        })
    }

    /// Starts a call; gives the end of its prompt, control tokens by their names. One runs at a time.
    pub fn start(
        &self,
        request_json: &str,
        constraint: Option<js_sys::Function>,
    ) -> core::result::Result<String, JsValue> {
        self.state.borrow_mut().start(request_json, constraint).map_err(|e| throw(&e))
    }

    /// The tokens' bytes, as `rlx-grammar` reads them.
    pub fn vocabulary(&self) -> core::result::Result<Vec<u8>, JsValue> {
        let s = self.state.borrow();
        let opened = s.opened.as_ref().ok_or_else(|| throw(&not_open()))?;
        Ok(vocabulary(&opened.tokenizer))
    }

    /// The next event of the running call, as JSON.
    #[wasm_bindgen(js_name = nextEvent)]
    pub fn next_event(&self) -> Promise {
        let (state, platform) = (self.state.clone(), self.platform.clone());
        future_to_promise(async move {
            let pace = state.borrow().executor.pace;
            let event = wait(&platform, pace, |cx| state.borrow_mut().poll_event(cx)).await;
            event.map(|json| JsValue::from_str(&json)).map_err(|e| throw(&e))
        })
    }

    /// Cancels the running call or `restore`: it submits nothing more.
    pub fn cancel(&self) {
        let s = &mut *self.state.borrow_mut();
        if let Some(call) = &mut s.call {
            call.generation.cancel();
        }
        if let Some(restore) = &mut s.restore {
            restore.cancel();
        }
    }

    /// What runs where, as JSON.
    pub fn info(&self) -> core::result::Result<String, JsValue> {
        self.state.borrow().info().map_err(|e| throw(&e))
    }

    /// Frees everything on the device.
    pub fn dispose(&self) {
        let mut s = self.state.borrow_mut();
        s.disposed = true;
        s.call = None;
        s.trial = None;
        s.check = None;
        s.opening = None;
        s.engine = None;
        s.opened = None;
    }
}

impl State {
    /// The options of a compilation for the device, which become those of the engine.
    pub fn model_options(&mut self) -> ModelOptions {
        let mut options = ModelOptions::by(&self.executor.device.target().policy);
        if self.options.logits {
            options = options.with_logits();
        }
        (options.context, options.block) = (self.options.context, self.options.block);
        options.conversations = self.options.conversations;
        options.compile.kv = *self.options.kv.get_or_insert(options.compile.kv);
        options.activations = self.activations(options.activations);
        options
    }

    fn estimate(&mut self) -> Result<String> {
        let mut texts = core::mem::take(&mut self.files);
        let (weights, _) = texts.take_weights()?;
        let checkpoint = weights.checkpoint(texts.config(&weights)?);
        let options = self.model_options();
        let target = self.executor.device.target();
        let compiled = CompiledModel::new(&checkpoint, target, &options)?;
        let fit = Fit::of(&compiled, target);
        let (within, available) = match self.executor.webgpu {
            Some(_) => (fit.bound(), None),
            None => (fits(&fit), Some(WASM_BYTES)),
        };
        let mut estimate = Object::new()
            .with("contextLength", &compiled.context)
            .with("weightBytes", &fit.weights)
            .with("stateBytes", &fit.states)
            .with("memoryBytes", &(fit.total() - fit.staging))
            .with("loadingBytes", &fit.total())
            .with("availableBytes", &available);
        if let Err(e) = within {
            estimate.set("refusal", &error(&e));
        }
        Ok(estimate.text())
    }

    fn open(&mut self) -> Result<()> {
        self.trial = None;
        let mut texts = core::mem::take(&mut self.files);
        let (weights, shards) = texts.take_weights()?;
        let checkpoint = weights.checkpoint(texts.config(&weights)?);
        let device = self.executor.device.clone();
        let options = self.model_options();
        // Compiled before the tokenizer is read, so that the error for another kind of model says so.
        let compiled = CompiledModel::new(&checkpoint, device.target(), &options)?;
        let fit = Fit::of(&compiled, device.target());
        if self.executor.webgpu.is_none() {
            fits(&fit)?;
        }
        let Language { tokenizer, template, tool_template, temperature } =
            texts.language(&weights)?;
        let architecture = checkpoint.architecture()?;
        let name = match &weights {
            WeightFiles::Gguf(files) => files.metadata.opt_str("general.name")?,
            WeightFiles::Safetensors(_) => None,
        };
        // The likeliest tokens of a block are what its thresholds are for.
        let usual = if compiled.diffusion.is_some() { 0.0 } else { 0.7 };
        let opened = Opened {
            template,
            tool_template,
            tokenizer: Arc::new(tokenizer),
            name: name.unwrap_or(architecture).into(),
            trained_context: rlx_core::models::open(&checkpoint)?.facts().context,
            architecture: architecture.into(),
            temperature: temperature.unwrap_or(usual),
            placing: Placing::new(&compiled.plan, shards),
            compiled: Arc::new(compiled),
            fit,
        };
        let mut opening = Opening::programs(device.clone(), &opened.compiled)?;
        let compiled = &opened.compiled;
        let test = || {
            let oracle: Arc<dyn Device> = Arc::new(cpu(1)?);
            SelfTest::new(&checkpoint, compiled.context, &options, device.clone(), &oracle)
        };
        let kept = |kernels: &str| self.options.found(kernels);
        if device.target().policy.checked {
            self.check = Some(Check::new(&mut opening, compiled, kept, test)?);
        }
        self.opening = Some(opening);
        self.opened = Some(opened);
        Ok(())
    }

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        match &mut self.opening {
            Some(opening) => opening.poll_ready(cx),
            None => Poll::Ready(Err(not_open())),
        }
    }

    fn placements(&self, shard: usize) -> Result<Vec<f64>> {
        let (opened, opening) =
            self.opened.as_ref().zip(self.opening.as_ref()).ok_or_else(not_open)?;
        opened.placing.table(opening.weights(), &self.executor, shard)
    }

    fn put(&mut self, shard: usize, file_offset: u64, bytes: &[u8]) -> Result<()> {
        let (opened, opening) =
            self.opened.as_ref().zip(self.opening.as_mut()).ok_or_else(not_open)?;
        opened.placing.put(opening.loader(), shard, file_offset, bytes)
    }

    fn note_written(&mut self) {
        if let (Some(opened), Some(opening)) = (&self.opened, &mut self.opening) {
            opened.placing.note_written(opening.loader(), &self.executor);
        }
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let (Some(opened), Some(opening)) = (&self.opened, &mut self.opening) else {
            return Poll::Ready(Err(not_open()));
        };
        if let Some(check) = &mut self.check {
            match check.poll(opening, &opened.compiled, cx) {
                Poll::Ready(Ok(found)) => self.found = found,
                Poll::Ready(Err(e)) if e.code == Code::CheckFailed => {
                    let e = e.hint("use the device cpu; a newer driver may help");
                    return Poll::Ready(Err(e));
                }
                other => return other.map_ok(|_| ()),
            }
            self.check = None;
        }
        opening.poll(cx)
    }

    fn finish(&mut self) -> Result<()> {
        let opened = self.opened.as_ref().ok_or_else(not_open)?;
        let session = self.opening.take().ok_or_else(not_open)?.finish();
        let mut engine = Engine::new(session, opened.compiled.clone(), opened.tokenizer.clone())?;
        if self.executor.device.target().policy.paced {
            let platform = self.platform.clone();
            engine.pace_by(Arc::new(move || platform.now()));
        }
        self.engine = Some(engine);
        Ok(())
    }

    fn restore(&mut self, tokens: Vec<u32>) -> Result<()> {
        let engine = self.engine.as_mut().ok_or_else(not_open)?;
        self.restore = Some(engine.restore(tokens)?);
        Ok(())
    }

    fn poll_restore(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        match (&mut self.restore, &mut self.engine) {
            (Some(restore), Some(engine)) => restore.poll(engine, cx),
            _ => Poll::Ready(Err(not_open())),
        }
    }

    fn start(
        &mut self,
        request_json: &str,
        constraint: Option<js_sys::Function>,
    ) -> Result<String> {
        let (opened, engine) =
            self.opened.as_ref().zip(self.engine.as_mut()).ok_or_else(not_open)?;
        if self.call.is_some() {
            return Err(Error::internal("a call is running"));
        }
        let started = self.platform.now();
        let (prompt, mut options) = request(request_json, opened.temperature)?;
        options.logits = self.options.logits;
        // The CPU gains nothing from steps in flight, and a stop would drop their work. A browser may report
        // a GPU's steps only every 100 ms: 64 steps of 1.6 ms cover that.
        (options.ahead, options.ahead_most) =
            if self.executor.webgpu.is_some() { (4, 64) } else { (1, 1) };
        let prompt = match prompt {
            Prompt::Tokens(ids) => ids,
            Prompt::Messages(messages, variables) => opened.prompt(messages, variables)?,
        };
        let end = &prompt[prompt.len().saturating_sub(PROMPT_END)..];
        let end = opened.tokenizer.decode(end, false);
        let mut generation = engine.start(prompt, &options)?;
        hold(&mut generation, engine, constraint)?;
        self.reused = generation.reused_tokens();
        self.call = Some(Call { generation, started, first: None, told: 0 });
        Ok(end)
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Result<String>> {
        let (Some(call), Some(engine), Some(opened)) =
            (&mut self.call, &mut self.engine, &self.opened)
        else {
            return Poll::Ready(Err(Error::internal("no call is running")));
        };
        loop {
            let progress = match call.generation.poll_next(engine, cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(progress)) => progress,
                Poll::Ready(None) => {
                    return Poll::Ready(Err(Error::internal("the call has ended")));
                }
            };
            if call.first.is_none() && !call.generation.tokens().is_empty() {
                call.first = Some(self.platform.now());
            }
            let reason = match progress {
                // A chunk may have used up the slice; the next poll begins another one.
                Progress::Prompt(..) if self.executor.pace == Pace::Slices => {
                    return Poll::Pending;
                }
                Progress::Prompt(..) => continue,
                Progress::Control(name) => {
                    let event = Object::new().with("type", &"control").with("text", &name);
                    return Poll::Ready(Ok(call.tell(event, &opened.tokenizer)));
                }
                Progress::Text(text) => {
                    let event = Object::new().with("type", &"text").with("text", &text);
                    return Poll::Ready(Ok(call.tell(event, &opened.tokenizer)));
                }
                Progress::Done(reason) => reason,
            };
            let (prompt, answer) =
                (call.generation.prompt_tokens(), call.generation.tokens().len());
            let rate = |n: usize, from: f64, to: f64| {
                (n > 0 && to > from).then(|| n as f64 * 1000.0 / (to - from))
            };
            let ended = self.platform.now();
            let first = call.first.unwrap_or(ended);
            self.speed = Speed {
                first: call.first.map(|first| first - call.started),
                prefill: rate(prompt - call.generation.reused_tokens(), call.started, first),
                decode: rate(answer.saturating_sub(1), first, ended),
            };
            let passes: Vec<u32> = call.generation.passes().iter().map(|p| p.fixed).collect();
            let checked = self.options.logits.then(|| {
                (call.generation.tokens().to_vec(), call.generation.logits().map(<[f32]>::to_vec))
            });
            let name = match reason {
                Reason::Stop => "stop",
                Reason::Length => "length",
                Reason::Cancelled => "cancelled",
                Reason::Failed(e) => {
                    self.call = None;
                    return Poll::Ready(Err(e));
                }
            };
            let mut done = Object::new()
                .with("type", &"done")
                .with("reason", &name)
                .with("promptTokens", &prompt)
                .with("completionTokens", &answer)
                .with("speed", &self.speed.tell(Object::new()));
            if !passes.is_empty() {
                done.set("tokensPerPass", &passes);
            }
            if let Some(left_out) = call.generation.left_out() {
                done.set("leftOut", &left_out);
            }
            if let Some((tokens, logits)) = checked {
                done.set("tokens", &tokens);
                done.set("logits", &logits);
            }
            let event = call.tell(done, &opened.tokenizer);
            self.call = None;
            return Poll::Ready(Ok(event));
        }
    }

    fn info(&self) -> Result<String> {
        let opened = self.opened.as_ref().ok_or_else(not_open)?;
        let (compiled, device) = (&opened.compiled, &self.executor.device);
        let about = device.info();
        let fingerprint = |name: &str| {
            compiled.program(name).map(|i| format!("{:016x}", compiled.programs[i].fingerprint))
        };
        // A model that fills blocks has a pass over a block in place of a step of one token.
        let (prefill, decode) = match compiled.diffusion {
            Some(_) => ("prefill", "denoise"),
            None => ("prefill_last", "decode"),
        };
        let steps =
            |name: &str| compiled.program(name).map_or(0, |i| compiled.programs[i].steps.len());
        let dispatches = if self.executor.webgpu.is_some() { steps(decode) } else { 0 };
        let model = Object::new()
            .with("name", &opened.name)
            .with("architecture", &opened.architecture)
            .with("contextLength", &opened.trained_context);
        let fingerprints = Object::new()
            .with("prefill", &fingerprint(prefill))
            .with("decode", &fingerprint(decode));
        let activations = self.activations(device.target().policy.activations);
        let info = where_it_runs(&about, &self.options, device.target())
            .with("model", &model)
            .with("contextLength", &compiled.context)
            .with("kv", &self.options.kv.map(DType::name))
            .with("activations", &activations.to_string())
            .with("activationTimes", &self.chosen.as_ref().map(Chosen::tell))
            .with("weightBytes", &compiled.plan.bytes())
            .with("stateBytes", &compiled.state_bytes())
            .with("arenaBytes", &compiled.arena_bytes())
            .with("memoryBytes", &(opened.fit.total() - opened.fit.staging))
            .with("fingerprint", &fingerprints)
            .with("dispatchesPerToken", &dispatches)
            .with("reusedTokens", &self.reused);
        Ok(self.speed.tell(info).text())
    }
}
