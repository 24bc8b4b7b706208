//! An engine's device is timed: for its tuning, for a model's activation types before it is opened, and where `auto`
//! compares devices (see `js/src/contest.ts`).

use crate::answer::Object;
use crate::engine::{RlxEngine, State, not_open};
use crate::executor::where_it_runs;
use crate::fault::throw;
use crate::wait::{Pace, Platform, wait};
use core::cell::RefCell;
use core::task::{Context, Poll};
use js_sys::Promise;
use rlx_core::runtime::choice::{Choice, Times};
use rlx_core::runtime::device::Device;
use rlx_core::runtime::trial::{Excerpt, Timed};
use rlx_core::safetensors::json::Json;
use rlx_core::target::ProgramActivations;
use rlx_core::{Code, Error, Result};
use rlx_webgpu::device::tune;
use rlx_webgpu::gpu::Gpu;
use rlx_webgpu::tuning::{KERNELS, key};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::future_to_promise;

/// Why a model has its activation types.
pub(crate) struct Chosen {
    /// What the executor recommends.
    pub recommended: ProgramActivations,
    pub times: Times,
    /// Whether this load measured it, to be kept under `key`.
    pub measured: bool,
    pub key: String,
}

impl Chosen {
    /// As `info` has it.
    pub fn tell(&self) -> Object {
        let pair = |times: Option<[f64; 2]>| times.map(Vec::from);
        Object::new()
            .with("from", &if self.measured { "measured" } else { "remembered" })
            .with("recommended", &self.recommended.to_string())
            .with("decodeMs", &pair(self.times.decode))
            .with("promptMs", &pair(self.times.prompts))
    }
}

/// Finds which activation types are faster on the device, or was remembered to be, unless an option names them. Where
/// that fails the recommended ones are used: what is wrong with the model or the device, `open` says.
pub(crate) async fn choose(state: &RefCell<State>, platform: &Platform) -> Result<()> {
    let Some((choice, kept)) = state.borrow_mut().choice() else { return Ok(()) };
    let (recommended, key) = (choice.recommended(), choice.key().to_owned());
    let found = choice.times(kept.as_deref(), &|| platform.now()).await;
    let mut state = state.borrow_mut();
    if state.disposed {
        return Err(not_open());
    }
    state.chosen = found.ok().map(|(times, measured)| Chosen { recommended, times, measured, key });
    Ok(())
}

#[wasm_bindgen]
impl RlxEngine {
    /// Measures which tuning is fastest on the GPU: `WasmTuned` as JSON. `progress` is called with numbers from 0 to 1.
    /// An engine that tunes is opened for no model; `trial` works.
    pub fn tune(&self, progress: js_sys::Function) -> Promise {
        let (state, platform) = (self.state.clone(), self.platform.clone());
        future_to_promise(async move {
            let webgpu = state.borrow().executor.webgpu.clone();
            let webgpu = webgpu.ok_or_else(|| {
                throw(&Error::new(Code::DeviceUnavailable, "no WebGPU device was given"))
            })?;
            wait(&platform, Pace::Promises, |cx| state.borrow_mut().executor.poll_probes(cx))
                .await
                .map_err(|e| throw(&e))?;
            // Errors of the listener are ignored.
            let tell = |share: f64| drop(progress.call1(&JsValue::NULL, &share.into()));
            let found = tune(&webgpu, &|| platform.now(), &tell).await.map_err(|e| throw(&e))?;
            let tried = found.tried.iter().map(|t| format!("{} {}", t.choice, t.tuning));
            let tried: Vec<String> = tried.collect();
            let ms: Vec<f64> = found.tried.iter().map(|t| t.ms).collect();
            let state = state.borrow();
            let answer = where_it_runs(&webgpu.info(), &state.options, webgpu.target())
                .with("key", &key(&webgpu.gpu().info()))
                .with("version", &env!("CARGO_PKG_VERSION"))
                .with("kernels", &KERNELS)
                .with("tried", &tried)
                .with("ms", &ms);
            Ok(answer.text().into())
        })
    }

    /// What the device was timed with for the model's activation types, for the page to keep: `{"key", "times"}` as
    /// JSON, with what it recommends and the faster types. `None` if it was not, as when that was known.
    pub fn timed(&self) -> Option<String> {
        let s = self.state.borrow();
        let chosen = s.chosen.as_ref().filter(|c| c.measured)?;
        let faster = chosen.times.choose(chosen.recommended).to_string();
        let answer = chosen.tell().with("key", &chosen.key).with("chosen", &faster);
        Some(answer.with("times", &chosen.times.to_string()).text())
    }

    /// Call after all headers, before `open`: what the device is, and what of the model it would be timed with.
    pub fn excerpt(&self) -> core::result::Result<String, JsValue> {
        self.state.borrow_mut().excerpt().map_err(|e| throw(&e))
    }

    /// Runs steps of the excerpt on the device; it is put there first.
    pub fn trial(&self, mut steps: u32) -> Promise {
        let (state, platform) = (self.state.clone(), self.platform.clone());
        future_to_promise(async move {
            let pace = state.borrow().executor.pace;
            wait(&platform, pace, |cx| state.borrow_mut().executor.poll_probes(cx))
                .await
                .map_err(|e| throw(&e))?;
            choose(&state, &platform).await.map_err(|e| throw(&e))?;
            wait(&platform, pace, |cx| state.borrow_mut().poll_trial(&mut steps, cx))
                .await
                .map_err(|e| throw(&e))?;
            Ok(JsValue::UNDEFINED)
        })
    }
}

impl State {
    /// What is to be timed, and what is kept of it.
    fn choice(&mut self) -> Option<(Choice, Option<String>)> {
        if self.options.activations.is_some() || self.chosen.is_some() {
            return None;
        }
        let options = self.model_options();
        let checkpoint = self.files.checkpoint().ok()?;
        let choice = Choice::new(&checkpoint, &self.executor.device, &options).ok()??;
        let kept = self.options.times.get(choice.key()).and_then(Json::as_str).map(Into::into);
        Some((choice, kept))
    }

    /// The activation types that were asked for, or found to be faster, or else the recommended ones.
    pub fn activations(&self, recommended: ProgramActivations) -> ProgramActivations {
        let chosen = || self.chosen.as_ref().map(|c| c.times.choose(c.recommended));
        self.options.activations.or_else(chosen).unwrap_or(recommended)
    }

    fn excerpt(&mut self) -> Result<String> {
        let options = self.model_options();
        let excerpt = Excerpt::new(&self.files.checkpoint()?, &options)?;
        let device = match &self.executor.webgpu {
            Some(webgpu) => key(&webgpu.gpu().info()),
            None => self.executor.device.info().adapter,
        };
        let (class, scale) = (excerpt.class(), excerpt.scale());
        Ok(Object::new().with("device", &device).with("class", &class).with("scale", &scale).text())
    }

    /// Puts the excerpt on the device, and runs steps there: those that have not begun.
    fn poll_trial(&mut self, steps: &mut u32, cx: &mut Context<'_>) -> Poll<Result<()>> {
        if self.trial.is_none() {
            let options = self.model_options();
            let excerpt = Excerpt::new(&self.files.checkpoint()?, &options)?;
            let timed = Timed { rows: 1, activations: options.activations.decode };
            self.trial = Some(excerpt.start(&self.executor.device, &options, &[timed])?);
        }
        let trial = self.trial.as_mut().ok_or_else(not_open)?;
        if *steps > 0 {
            trial.run(0, core::mem::take(steps));
        }
        trial.poll(cx)
    }
}
