//! A network on a device, from its first header byte to `dispose`: runs of its entries, vectors of texts if it is an
//! encoder, and masks of things in images if it finds them. A pipeline is several networks, loaded one after the other,
//! which make pictures of prompts.

use crate::fault::throw;
use crate::gpu::GpuHost;
use crate::network::{Files, Network};
use crate::panic::tell_panics;
use crate::state::{Elements, Input, State, Work, not_open};
use crate::wait::{Platform, wait};
use core::cell::RefCell;
use core::task::{Context, Poll};
use js_sys::Promise;
use rlx_core::runtime::device::table::Table;
use rlx_core::runtime::transcribe::Transcription;
use rlx_core::safetensors::files_of_index;
use rlx_core::types::DType;
use rlx_core::{Error, Result};
use std::rc::Rc;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::future_to_promise;

type Thrown<T> = core::result::Result<T, JsValue>;

/// A network on a device. The methods are those of `WasmSession` in `js/src/wasm_session.ts`.
#[wasm_bindgen]
pub struct RlxSession {
    state: Rc<RefCell<State>>,
    platform: Rc<Platform>,
}

fn thrown<T>(answer: Result<T>) -> Thrown<T> {
    answer.map_err(|e| throw(&e))
}

#[wasm_bindgen]
impl RlxSession {
    /// A session without a network. `gpu` is given if the device is `webgpu`.
    #[wasm_bindgen(constructor)]
    pub fn new(options_json: &str, platform: Platform, gpu: Option<GpuHost>) -> Thrown<RlxSession> {
        tell_panics();
        let state = thrown(State::new(options_json, gpu))?;
        Ok(RlxSession { state: Rc::new(RefCell::new(state)), platform: Rc::new(platform) })
    }

    /// Takes a graph's text or a small file of a model's folder, by name.
    pub fn text(&self, name: &str, at: &str, bytes: &[u8]) -> Thrown<()> {
        thrown(self.state.borrow_mut().text(name, at, bytes))
    }

    /// Takes the next bytes of a weight file; true when its header is complete.
    #[wasm_bindgen(js_name = pushHeader)]
    pub fn push_header(&self, shard: usize, name: &str, size: f64, chunk: &[u8]) -> Thrown<bool> {
        thrown(self.state.borrow_mut().files.readers.push(shard, name, size, chunk))
    }

    /// The files of weights that the text of a folder's index names.
    pub fn index(&self, at: &str, bytes: &[u8]) -> Thrown<Vec<String>> {
        thrown(files_of_index(bytes, at))
    }

    /// Call after all headers: plans the network, and asks the device for memory.
    pub fn open(&self) -> Promise {
        self.promise(
            |s, cx| s.executor.poll_probes(cx),
            |s| s.open(),
            |s, cx| s.coming().map_or_else(|e| Poll::Ready(Err(e)), |c| c.opening.poll_ready(cx)),
        )
    }

    /// Call after all headers in place of `open`: has the compiler look at the network, without memory for it.
    /// `{"model", "target", "programs"}` as JSON.
    pub fn inspect(&self) -> Promise {
        self.answer(|s, cx| {
            let ready = s.executor.poll_probes(cx);
            ready.map(|answer| answer.and_then(|()| s.inspect()))
        })
    }

    /// After `inspect`: what becomes of a program at every stage, as JSON (`InspectedProgram`).
    pub fn program(&self, name: &str) -> Thrown<String> {
        thrown(self.state.borrow().program(name))
    }

    /// After `inspect`: takes memory for a program behind so many positions, to time its kernels.
    pub fn trace(&self, name: &str, past: f64) -> Thrown<()> {
        thrown(self.state.borrow_mut().trace(name, past as u64))
    }

    /// After `trace`, once: what is traced, as JSON (`WasmTraced`), when it can be timed.
    #[wasm_bindgen(js_name = traceReady)]
    pub fn trace_ready(&self) -> Promise {
        self.answer(|s, cx| s.poll_trace(|t| t.poll_ready(cx)))
    }

    /// After `traceReady`: the times of a run, as JSON (`WasmLaunch[]`). One at a time.
    #[wasm_bindgen(js_name = traceRun)]
    pub fn trace_run(&self) -> Promise {
        self.answer(|s, cx| s.poll_trace(|t| t.poll_run(cx)))
    }

    /// Frees the memory of what is traced; a run that is waited for ends with `cancelled`.
    #[wasm_bindgen(js_name = endTrace)]
    pub fn end_trace(&self) {
        self.state.borrow_mut().trace = None;
    }

    /// The placements of a file: rows of file offset, bytes, target, offset.
    pub fn placements(&self, shard: usize) -> Thrown<Vec<f64>> {
        let s = &mut *self.state.borrow_mut();
        let coming = s.coming.as_mut().ok_or_else(|| throw(&not_open()))?;
        thrown(coming.placing.table(coming.opening.weights(), &s.executor, shard))
    }

    /// Takes bytes for a placement with target `PUT`.
    pub fn put(&self, shard: usize, file_offset: f64, bytes: &[u8]) -> Thrown<()> {
        let s = &mut *self.state.borrow_mut();
        let coming = s.coming.as_mut().ok_or_else(|| throw(&not_open()))?;
        let loader = coming.opening.loader();
        thrown(coming.placing.put(loader, shard, file_offset as u64, bytes))
    }

    /// Call after all bytes: opens the session.
    #[wasm_bindgen(js_name = finishLoad)]
    pub fn finish_load(&self) -> Promise {
        self.promise(
            |_, _| Poll::Ready(Ok(())),
            |s| {
                let State { coming, executor, .. } = s;
                let coming = coming.as_mut().ok_or_else(not_open)?;
                coming.placing.note_written(coming.opening.loader(), executor);
                Ok(())
            },
            |s, cx| match s.coming() {
                Ok(coming) => {
                    coming.opening.poll(cx).map(|answer| answer.and_then(|()| s.finish()))
                }
                Err(e) => Poll::Ready(Err(e)),
            },
        )
    }

    /// The entries, as JSON: `[{"name", "inputs": [{"name", "type", "shape"}], "outputs"}]`.
    pub fn entries(&self) -> Thrown<String> {
        thrown(self.state.borrow().entries())
    }

    /// Takes an input of the next run.
    pub fn input(&self, name: &str, dtype: &str, dims: Vec<f64>, bytes: &[u8]) -> Thrown<()> {
        self.given(name, dtype, dims, Elements::Host(bytes.to_vec()))
    }

    /// Takes a page's own `GPUBuffer` as an input of the next run.
    #[wasm_bindgen(js_name = inputBuffer)]
    pub fn input_buffer(
        &self,
        name: &str,
        dtype: &str,
        dims: Vec<f64>,
        buffer: JsValue,
    ) -> Thrown<()> {
        self.given(name, dtype, dims, Elements::Buffer(buffer))
    }

    /// For vectors of images: takes an image as an input of the next run, prepared as the model wants it. It has four
    /// bytes a pixel: red, green, blue, alpha.
    #[wasm_bindgen(js_name = inputImage)]
    pub fn input_image(&self, name: &str, width: u32, height: u32, rgba: &[u8]) -> Thrown<()> {
        thrown(self.state.borrow_mut().input_image(name, [width, height], rgba))
    }

    /// Takes an output that is kept on the device as an input of the next run.
    #[wasm_bindgen(js_name = inputKept)]
    pub fn input_kept(&self, name: &str, kept: u32) -> Thrown<()> {
        thrown(self.state.borrow_mut().input_kept(name, kept))
    }

    /// Starts to run an entry with the inputs given before; outputs of these names stay on the device. One run at
    /// a time.
    pub fn start(&self, entry: &str, keep: Vec<String>) -> Thrown<()> {
        let s = &mut *self.state.borrow_mut();
        let inputs = core::mem::take(&mut s.inputs);
        thrown(s.start(entry, inputs, &keep))
    }

    /// Starts to read an output that is kept on the device: `outputs` answers with it alone.
    pub fn read(&self, kept: u32) -> Thrown<()> {
        thrown(self.state.borrow_mut().read(kept))
    }

    /// The number of the GPU buffer of an output that is kept on the device; nothing on the CPU.
    #[wasm_bindgen(js_name = keptBuffer)]
    pub fn kept_buffer(&self, kept: u32) -> Option<u32> {
        self.state.borrow().kept_buffer(kept)
    }

    /// Frees an output that is kept on the device. Freeing twice is allowed.
    #[wasm_bindgen(js_name = freeKept)]
    pub fn free_kept(&self, kept: u32) {
        self.state.borrow_mut().kept.remove(&kept);
    }

    /// The outputs of the run, as JSON: `[{"name", "type", "dims", "kept"?}]`. Outputs without `kept`, the number of
    /// one on the device, have their bytes in `output`, in this order.
    pub fn outputs(&self) -> Promise {
        self.answer(State::poll_run)
    }

    /// The bytes of an output. Call it once.
    pub fn output(&self, i: usize) -> Vec<u8> {
        let outputs = &mut self.state.borrow_mut().outputs;
        outputs.get_mut(i).map_or_else(Vec::new, |t| core::mem::take(&mut t.bytes))
    }

    /// For an embedder: the width of a vector, and the most tokens of a text.
    pub fn embedder(&self) -> Option<Vec<f64>> {
        match &self.state.borrow().network {
            Some(Network::Embedder(e)) => Some(vec![e.width() as f64, e.limit() as f64]),
            _ => None,
        }
    }

    /// Starts to compute the vectors of texts.
    pub fn embed(&self, texts: Vec<String>) -> Thrown<()> {
        let s = &mut *self.state.borrow_mut();
        let Some(Network::Embedder(embedder)) = &s.network else {
            return Err(throw(&not_open()));
        };
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        s.work = Some(Work::Embed(embedder.start(&texts)));
        s.cancelled = false;
        Ok(())
    }

    /// Waits for the next batch: `{"over", "done", "truncated"}` as JSON. After the last one call `vectors`.
    pub fn batch(&self) -> Promise {
        self.answer(State::poll_batch)
    }

    /// The vectors, concatenated. Call it once.
    pub fn vectors(&self) -> Vec<f32> {
        match self.state.borrow_mut().work.take() {
            Some(Work::Embed(embedding)) => embedding.finish(),
            _ => Vec::new(),
        }
    }

    /// For a transcriber: samples a second that the model hears.
    #[wasm_bindgen(js_name = soundRate)]
    pub fn sound_rate(&self) -> Option<u32> {
        self.state.borrow().sound_rate()
    }

    /// Begins to hear a sound of one channel with so many samples a second; answers with its number.
    pub fn hear(&self, rate: u32) -> Thrown<u32> {
        thrown(self.state.borrow_mut().hear(rate))
    }

    /// Takes the next samples of a sound.
    #[wasm_bindgen(js_name = pushSound)]
    pub fn push_sound(&self, sound: u32, samples: &[f32]) -> Thrown<()> {
        thrown(self.state.borrow_mut().sound(sound).map(|sound| sound.push(samples)))
    }

    /// The sound has no more samples.
    #[wasm_bindgen(js_name = endSound)]
    pub fn end_sound(&self, sound: u32) -> Thrown<()> {
        thrown(self.state.borrow_mut().sound(sound).map(Transcription::end))
    }

    /// Hears the next piece of a sound: `{"step", "text", "words", "seconds"}` as JSON (`WasmHeard`). One call at
    /// a time.
    pub fn heard(&self, sound: u32) -> Promise {
        self.state.borrow_mut().cancelled = false;
        self.answer(move |s, cx| s.poll_heard(sound, cx))
    }

    /// Hears a sound no further. Freeing twice is allowed.
    #[wasm_bindgen(js_name = freeSound)]
    pub fn free_sound(&self, sound: u32) {
        self.state.borrow_mut().sounds.remove(&sound);
    }

    /// Starts to let a segmenter see an image. It has four bytes a pixel: red, green, blue, alpha.
    pub fn look(&self, width: u32, height: u32, rgba: &[u8]) -> Thrown<()> {
        thrown(self.state.borrow_mut().look([width, height], rgba))
    }

    /// The number of the image, when the segmenter has seen it.
    pub fn seen(&self) -> Promise {
        self.answer(State::poll_look)
    }

    /// Starts to find masks in an image that was seen, by its number. `points` has three numbers a point: x, y, and 0
    /// for one that is beside the thing; `frame` is empty or left, top, right and bottom of a box.
    #[wasm_bindgen(js_name = findMasks)]
    pub fn find_masks(&self, seen: u32, points: &[f64], frame: &[f64], all: bool) -> Thrown<()> {
        thrown(self.state.borrow_mut().find_masks(seen, points, frame, all))
    }

    /// The scores of the masks, the best first, as JSON.
    pub fn masks(&self) -> Promise {
        self.answer(State::poll_masks)
    }

    /// For a segmenter: whether it is told by words what to find.
    #[wasm_bindgen(js_name = knowsWords)]
    pub fn knows_words(&self) -> Option<bool> {
        self.state.borrow().knows_words()
    }

    /// Starts to find every thing that words and boxes mean in an image that was seen, by its number. `boxes` has five
    /// numbers a box: left, top, right, bottom, and 0 for one around another thing. Things of a score up to `threshold`
    /// are left out.
    #[wasm_bindgen(js_name = findThings)]
    pub fn find_things(
        &self,
        seen: u32,
        words: Option<String>,
        boxes: &[f64],
        threshold: f32,
    ) -> Thrown<()> {
        thrown(self.state.borrow_mut().find_things(seen, words, boxes, threshold))
    }

    /// The things, the surest first, as JSON: `[{"score", "box"}]`. Their pixels are the masks of these numbers.
    pub fn things(&self) -> Promise {
        self.answer(State::poll_things)
    }

    /// The pixels of a mask, row by row: 1 where it covers the image, else 0.
    pub fn mask(&self, i: usize) -> Thrown<Vec<u8>> {
        thrown(self.state.borrow().mask(i))
    }

    /// Frees what is kept of an image that was seen. Freeing twice is allowed.
    #[wasm_bindgen(js_name = freeSeen)]
    pub fn free_seen(&self, seen: u32) {
        self.state.borrow_mut().seen.remove(&seen);
    }

    /// Of a pipeline, after its small files: reads what they say. `name` is the folder's in errors. Answers with
    /// `{"scale", "longest", "steps", "distilled"}` as JSON.
    #[wasm_bindgen(js_name = openPipeline)]
    pub fn open_pipeline(&self, name: &str) -> Thrown<String> {
        thrown(self.state.borrow_mut().open_pipeline(name))
    }

    /// Begins to load the model of one of the pipeline's folders: `pushHeader` and what follows are of it.
    #[wasm_bindgen(js_name = loadPart)]
    pub fn load_part(&self, folder: &str) -> Thrown<()> {
        thrown(self.state.borrow_mut().load_part(folder))
    }

    /// Begins a picture. The options are JSON: `width`, `height`, `steps`, `seed`, `guidance`, `preview`.
    pub fn imagine(&self, prompt: &str, options_json: &str) -> Thrown<()> {
        thrown(self.state.borrow_mut().imagine(prompt, options_json))
    }

    /// The folders of the models that the picture needs next and that are not loaded.
    #[wasm_bindgen(js_name = neededParts)]
    pub fn needed_parts(&self) -> Thrown<Vec<String>> {
        thrown(self.state.borrow_mut().needed_parts())
    }

    /// What became of the picture, as JSON (`WasmImagined`), when something did. One call at a time.
    pub fn imagined(&self) -> Promise {
        self.answer(State::poll_imagined)
    }

    /// The picture, or the preview, that came last: four bytes a pixel, row by row. Call it once.
    pub fn picture(&self) -> Vec<u8> {
        self.state.borrow_mut().picture()
    }

    /// Cancels the work in progress: it ends with `cancelled`, once the device has finished what was submitted.
    pub fn cancel(&self) {
        self.state.borrow_mut().cancelled = true;
    }

    /// What runs where, as JSON.
    pub fn info(&self) -> Thrown<String> {
        thrown(self.state.borrow().info())
    }

    /// Frees everything on the device.
    pub fn dispose(&self) {
        let mut s = self.state.borrow_mut();
        s.work = None;
        s.sounds = Table::new();
        s.coming = None;
        s.network = None;
        if let Some(imaginer) = &mut s.imaginer {
            imaginer.free();
        }
        s.inspector = None;
        s.trace = None;
        s.files = Files::default();
        s.inputs.clear();
        s.outputs.clear();
        s.kept = Table::new();
        s.seen = Table::new();
        s.masks.clear();
    }
}

impl RlxSession {
    fn given(&self, name: &str, dtype: &str, dims: Vec<f64>, elements: Elements) -> Thrown<()> {
        let inputs = &mut self.state.borrow_mut().inputs;
        let Some(dtype) = DType::from_name(dtype) else {
            inputs.clear();
            return Err(throw(&Error::usage(format!("there is no element type {dtype}"))));
        };
        let dims = dims.into_iter().map(|n| n as u64).collect();
        inputs.push(Input { name: name.into(), dtype, dims, elements });
        Ok(())
    }

    /// A promise that polls `before`, calls `work`, and polls `after`.
    fn promise(
        &self,
        mut before: impl FnMut(&mut State, &mut Context<'_>) -> Poll<Result<()>> + 'static,
        work: impl FnOnce(&mut State) -> Result<()> + 'static,
        mut after: impl FnMut(&mut State, &mut Context<'_>) -> Poll<Result<()>> + 'static,
    ) -> Promise {
        let (state, platform) = (self.state.clone(), self.platform.clone());
        future_to_promise(async move {
            let pace = state.borrow().executor.pace;
            thrown(wait(&platform, pace, |cx| before(&mut state.borrow_mut(), cx)).await)?;
            thrown(work(&mut state.borrow_mut()))?;
            thrown(wait(&platform, pace, |cx| after(&mut state.borrow_mut(), cx)).await)?;
            Ok(JsValue::UNDEFINED)
        })
    }

    /// A promise of the text that `poll` gives.
    fn answer(
        &self,
        mut poll: impl FnMut(&mut State, &mut Context<'_>) -> Poll<Result<String>> + 'static,
    ) -> Promise {
        let (state, platform) = (self.state.clone(), self.platform.clone());
        future_to_promise(async move {
            let pace = state.borrow().executor.pace;
            let answer = wait(&platform, pace, |cx| poll(&mut state.borrow_mut(), cx)).await;
            thrown(answer).map(|text| JsValue::from_str(&text))
        })
    }
}
