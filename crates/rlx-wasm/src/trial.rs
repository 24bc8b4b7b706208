//! An engine's device is timed, before the model is opened: see `js/src/contest.ts`.

use crate::answer::Object;
use crate::engine::{RlxEngine, State, not_open};
use crate::fault::throw;
use crate::wait::wait;
use core::task::{Context, Poll, ready};
use js_sys::Promise;
use rlx_core::Result;
use rlx_core::runtime::trial::Excerpt;
use rlx_webgpu::gpu::Gpu;
use rlx_webgpu::tuning::key;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::future_to_promise;

#[wasm_bindgen]
impl RlxEngine {
    /// Call after all headers, before `open`: what the device is, and what of the model it would be timed with.
    pub fn excerpt(&self) -> core::result::Result<String, JsValue> {
        self.state.borrow_mut().excerpt().map_err(|e| throw(&e))
    }

    /// Runs steps of the excerpt on the device; it is put there first.
    pub fn trial(&self, mut steps: u32) -> Promise {
        let (state, platform) = (self.state.clone(), self.platform.clone());
        future_to_promise(async move {
            let pace = state.borrow().executor.pace;
            wait(&platform, pace, |cx| state.borrow_mut().poll_trial(&mut steps, cx))
                .await
                .map_err(|e| throw(&e))?;
            Ok(JsValue::UNDEFINED)
        })
    }
}

impl State {
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
        ready!(self.executor.poll_probes(cx))?;
        if self.trial.is_none() {
            let options = self.model_options();
            let excerpt = Excerpt::new(&self.files.checkpoint()?, &options)?;
            self.trial = Some(excerpt.start(&self.executor.device, &options)?);
        }
        let trial = self.trial.as_mut().ok_or_else(not_open)?;
        if *steps > 0 {
            trial.run(core::mem::take(steps));
        }
        trial.poll(cx)
    }
}
