//! The page's WebGPU as a [`Gpu`]: every call is one call of `js/src/gpu_host.ts`.
//!
//! Slices given to JavaScript are views of wasm memory that are valid only during the call: the host
//! copies what it keeps.

use crate::request::parse;
use core::cell::{Cell, RefCell};
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use js_sys::{Promise, Uint8Array};
use rlx_core::runtime::device::table::Table;
use rlx_core::safetensors::json::Json;
use rlx_core::{Code, Error, Result};
use rlx_webgpu::gpu::{Binding, BindingKind, Command, Gpu, GpuInfo, Usage, Vendor, Wgsl, Width};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;

#[wasm_bindgen]
extern "C" {
    /// `GpuHost` of the package.
    pub type GpuHost;

    #[wasm_bindgen(method)]
    fn describe(this: &GpuHost) -> String;
    #[wasm_bindgen(method, js_name = adapterName)]
    fn adapter_name(this: &GpuHost) -> String;
    #[wasm_bindgen(method, js_name = isLost)]
    fn is_lost(this: &GpuHost) -> bool;
    #[wasm_bindgen(method, js_name = takeError)]
    fn take_error(this: &GpuHost) -> Option<String>;
    #[wasm_bindgen(method, catch, js_name = createBuffer)]
    fn create_buffer(
        this: &GpuHost,
        id: u32,
        size: f64,
        usage: u32,
        label: &str,
    ) -> core::result::Result<(), JsValue>;
    #[wasm_bindgen(method, js_name = adoptBuffer)]
    fn adopt_buffer(this: &GpuHost, id: u32, buffer: &JsValue);
    #[wasm_bindgen(method, js_name = destroyBuffer)]
    fn destroy_buffer(this: &GpuHost, id: u32);
    #[wasm_bindgen(method, catch, js_name = writeBuffer)]
    fn write_buffer(
        this: &GpuHost,
        id: u32,
        offset: f64,
        bytes: &[u8],
    ) -> core::result::Result<(), JsValue>;
    #[wasm_bindgen(method, js_name = createPipeline)]
    fn create_pipeline(this: &GpuHost, id: u32, wgsl: &str, entry: &str, kinds: &[u32]) -> Promise;
    #[wasm_bindgen(method, js_name = freePipeline)]
    fn free_pipeline(this: &GpuHost, id: u32);
    #[wasm_bindgen(method, catch, js_name = createBindGroup)]
    fn create_bind_group(
        this: &GpuHost,
        id: u32,
        kinds: &[u32],
        entries: &[f64],
    ) -> core::result::Result<(), JsValue>;
    #[wasm_bindgen(method, js_name = freeBindGroup)]
    fn free_bind_group(this: &GpuHost, id: u32);
    #[wasm_bindgen(method)]
    fn record(this: &GpuHost, list: u32, words: &[u32]);
    #[wasm_bindgen(method, js_name = freeList)]
    fn free_list(this: &GpuHost, list: u32);
    #[wasm_bindgen(method, catch)]
    fn submit(this: &GpuHost, lists: &[u32]) -> core::result::Result<(), JsValue>;
    /// Only where an inspection has set it: see `js/src/gpu_times.ts`.
    #[cfg(feature = "graphs")]
    #[wasm_bindgen(method, getter)]
    fn times(this: &GpuHost) -> Option<GpuTimes>;
    #[wasm_bindgen(method)]
    fn map(this: &GpuHost, buffer: u32, size: f64) -> Promise;
    #[wasm_bindgen(method, js_name = workDone)]
    fn work_done(this: &GpuHost) -> Promise;
    #[wasm_bindgen(method, js_name = pushErrorScopes)]
    fn push_error_scopes(this: &GpuHost);
    #[wasm_bindgen(method, js_name = popErrorScopes)]
    fn pop_error_scopes(this: &GpuHost) -> Promise;

    /// `GpuTimes` of the package.
    #[cfg(feature = "graphs")]
    type GpuTimes;

    #[cfg(feature = "graphs")]
    #[wasm_bindgen(method, catch)]
    fn submit(this: &GpuTimes, lists: &[u32]) -> core::result::Result<Promise, JsValue>;
}

/// A pipeline: its promise, or the result.
enum Making {
    Pending(JsFuture),
    Done(Result<()>),
}

struct Pipeline {
    making: Making,
    kinds: Vec<u32>,
}

/// A [`Gpu`] over the page's host.
pub struct HostGpu {
    host: GpuHost,
    info: GpuInfo,
    pipelines: RefCell<Table<u32, Pipeline>>,
    reads: RefCell<Table<u32, JsFuture>>,
    fences: RefCell<Table<u32, JsFuture>>,
    scopes: RefCell<Table<u32, JsFuture>>,
    #[cfg(feature = "graphs")]
    times: RefCell<Table<u32, JsFuture>>,
    /// The error of the first call that threw: WebGPU throws only for misuse and after a loss.
    thrown: RefCell<Option<Error>>,
    lost: Cell<bool>,
}

/// The error of a rejection: the host's JSON, or JavaScript's own text.
fn rejection(value: &JsValue) -> Error {
    let text = value.as_string().unwrap_or_else(|| {
        let message = js_sys::Reflect::get(value, &JsValue::from_str("message"));
        message.ok().and_then(|m| m.as_string()).unwrap_or_else(|| format!("{value:?}"))
    });
    let Ok(json) = parse(&text) else {
        return Error::internal(format!("WebGPU failed: {text}"));
    };
    if json.get("kind").is_some() {
        return scope_error(&text);
    }
    let field = |key: &str| json.get(key).and_then(Json::as_str).unwrap_or_default().to_owned();
    let code = match field("code").as_str() {
        "device_lost" => Code::DeviceLost,
        "out-of-memory" | "out_of_memory" => Code::OutOfMemory,
        _ => Code::Internal,
    };
    Error::new(code, field("what")).at(field("at")).hint(field("hint"))
}

/// The error of the host's `ScopeError`.
fn scope_error(json: &str) -> Error {
    let v = parse(json).unwrap_or(Json::Null);
    let text = |key: &str| v.get(key).and_then(Json::as_str).unwrap_or_default();
    if text("kind") == "out-of-memory" {
        Error::new(Code::OutOfMemory, format!("the GPU is out of memory: {}", text("message")))
            .hint("use a smaller model or contextLength, or close other tabs")
    } else {
        Error::internal(format!("WebGPU refused a call: {}", text("message")))
    }
}

impl HostGpu {
    /// A GPU over a host that has its device.
    pub fn new(host: GpuHost) -> Result<Self> {
        let text = host.describe();
        let json = parse(&text)
            .map_err(|e| Error::internal(format!("the GPU host describes itself badly: {e}")))?;
        let limit = |name: &str, otherwise: u64| {
            json.get("limits")
                .and_then(|limits| limits.get(name)?.as_f64())
                .map_or(otherwise, |n| n as u64)
        };
        let names = |key: &str| -> Vec<String> {
            let list = json.get(key).and_then(Json::as_array);
            list.into_iter().flatten().filter_map(Json::as_str).map(Into::into).collect()
        };
        let lanes = |name: &str| json.get(name).and_then(Json::as_u64).unwrap_or(0) as u32;
        let software = json.get("software").and_then(Json::as_bool) == Some(true);
        let adapter = json.get("adapter").and_then(|a| a.get("vendor")?.as_str());
        let vendor = match adapter {
            Some("apple") => Vendor::Apple,
            Some("intel") => Vendor::Intel,
            _ => Vendor::Other,
        };
        let width = match lanes("subgroupMinSize") {
            0 => Width::None,
            least => Width::of(least, lanes("subgroupMaxSize"), vendor),
        };
        let info = GpuInfo {
            adapter: host.adapter_name(),
            driver: String::new(), // no page is told
            max_buffer: limit("maxBufferSize", 256 << 20),
            max_binding: limit("maxStorageBufferBindingSize", 128 << 20),
            max_storage_buffers: limit("maxStorageBuffersPerShaderStage", 8) as u32,
            wgsl: Wgsl {
                packed_dot: names("wgslFeatures")
                    .iter()
                    .any(|f| f == "packed_4x8_integer_dot_product"),
                subgroup: width.lanes(),
                enable_subgroups: json.get("enableSubgroups").and_then(Json::as_bool) == Some(true),
                f16: names("features").iter().any(|f| f == "shader-f16"),
            },
            // Only an inspection times kernels; the build for chat has no code for that.
            timestamps: cfg!(feature = "graphs")
                && names("features").iter().any(|f| f == "timestamp-query"),
            features: names("features"),
            width,
            software,
        };
        Ok(HostGpu {
            host,
            info,
            pipelines: RefCell::default(),
            reads: RefCell::default(),
            fences: RefCell::default(),
            scopes: RefCell::default(),
            #[cfg(feature = "graphs")]
            times: RefCell::default(),
            thrown: RefCell::default(),
            lost: Cell::new(false),
        })
    }

    fn note(&self, answer: core::result::Result<(), JsValue>) {
        if let Err(value) = answer {
            self.thrown.borrow_mut().get_or_insert_with(|| rejection(&value));
        }
    }

    /// Polls a promise of a table, and removes it once it has settled.
    fn poll_table(
        table: &RefCell<Table<u32, JsFuture>>,
        id: u32,
        cx: &mut Context<'_>,
    ) -> Poll<Result<JsValue>> {
        let mut table = table.borrow_mut();
        let Some(promise) = table.get_mut(&id) else {
            return Poll::Ready(Err(Error::internal(format!("no GPU promise {id}"))));
        };
        let Poll::Ready(answer) = Pin::new(promise).poll(cx) else { return Poll::Pending };
        table.remove(&id);
        Poll::Ready(answer.map_err(|value| rejection(&value)))
    }
}

fn kind(kind: BindingKind) -> u32 {
    match kind {
        BindingKind::Uniform => 0,
        BindingKind::ReadWrite => 1,
        BindingKind::Read => 2,
    }
}

impl HostGpu {
    /// Registers a page's own buffer under a number.
    #[cfg(feature = "graphs")]
    pub fn adopt(&self, id: u32, buffer: &JsValue) {
        self.host.adopt_buffer(id, buffer);
    }
}

impl Gpu for HostGpu {
    fn info(&self) -> GpuInfo {
        self.info.clone()
    }

    fn is_lost(&self) -> bool {
        if self.host.is_lost() {
            self.lost.set(true);
        }
        self.lost.get()
    }

    fn take_error(&self) -> Option<Error> {
        let thrown = self.thrown.borrow_mut().take();
        thrown.or_else(|| Some(scope_error(&self.host.take_error()?)))
    }

    fn create_buffer(&self, id: u32, size: u64, usage: Usage, label: &str) {
        self.note(self.host.create_buffer(id, size as f64, usage.bits(), label));
    }

    fn destroy_buffer(&self, id: u32) {
        self.host.destroy_buffer(id);
    }

    fn write_buffer(&self, id: u32, offset: u64, bytes: &[u8]) {
        self.note(self.host.write_buffer(id, offset as f64, bytes));
    }

    fn create_pipeline(&self, id: u32, wgsl: &str, entry: &str, bindings: &[BindingKind]) {
        let kinds: Vec<u32> = bindings.iter().map(|&k| kind(k)).collect();
        let promise = self.host.create_pipeline(id, wgsl, entry, &kinds);
        let making = Making::Pending(JsFuture::from(promise));
        self.pipelines.borrow_mut().insert(id, Pipeline { making, kinds });
    }

    fn poll_pipeline(&self, id: u32, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let mut pipelines = self.pipelines.borrow_mut();
        let Some(pipeline) = pipelines.get_mut(&id) else {
            return Poll::Ready(Err(Error::internal(format!("no GPU pipeline {id}"))));
        };
        if let Making::Pending(promise) = &mut pipeline.making {
            let Poll::Ready(answer) = Pin::new(promise).poll(cx) else { return Poll::Pending };
            pipeline.making = Making::Done(answer.map(|_| ()).map_err(|value| rejection(&value)));
        }
        match &pipeline.making {
            Making::Done(answer) => Poll::Ready(answer.clone()),
            Making::Pending(_) => Poll::Pending,
        }
    }

    fn free_pipeline(&self, id: u32) {
        self.pipelines.borrow_mut().remove(&id);
        self.host.free_pipeline(id);
    }

    fn create_bind_group(&self, id: u32, pipeline: u32, bindings: &[Binding]) {
        let kinds =
            self.pipelines.borrow().get(&pipeline).map(|p| p.kinds.clone()).unwrap_or_default();
        let rows: Vec<f64> = bindings
            .iter()
            .enumerate()
            .flat_map(|(i, b)| [i as f64, f64::from(b.buffer), b.offset as f64, b.size as f64])
            .collect();
        self.note(self.host.create_bind_group(id, &kinds, &rows));
    }

    fn free_bind_group(&self, id: u32) {
        self.host.free_bind_group(id);
    }

    fn record(&self, list: u32, commands: &[Command]) {
        let words: Vec<u32> = commands
            .iter()
            .flat_map(|c| match *c {
                Command::Dispatch { pipeline, bind_group, groups: [x, y, z] } => {
                    [1, pipeline, bind_group, x, y, z]
                }
                // Arena, states and read-back buffers are below 4 GiB.
                Command::Copy { from, from_offset, to, to_offset, bytes } => {
                    [2, from, from_offset as u32, to, to_offset as u32, bytes as u32]
                }
            })
            .collect();
        self.host.record(list, &words);
    }

    fn free_list(&self, list: u32) {
        self.host.free_list(list);
    }

    fn submit(&self, lists: &[u32]) {
        self.note(self.host.submit(lists));
    }

    #[cfg(feature = "graphs")]
    fn submit_timed(&self, id: u32, lists: &[u32]) {
        let Some(times) = self.host.times() else { return self.submit(lists) };
        match times.submit(lists) {
            Ok(promise) => {
                self.times.borrow_mut().insert(id, JsFuture::from(promise));
            }
            Err(value) => self.note(Err(value)),
        }
    }

    #[cfg(feature = "graphs")]
    fn poll_times(&self, id: u32, cx: &mut Context<'_>) -> Poll<Result<Vec<[u64; 2]>>> {
        let bytes = core::task::ready!(Self::poll_table(&self.times, id, cx))?;
        let bytes = bytes.unchecked_into::<Uint8Array>().to_vec();
        let times = bytes.as_chunks::<8>().0.as_chunks::<2>().0;
        Poll::Ready(Ok(times.iter().map(|pair| pair.map(u64::from_le_bytes)).collect()))
    }

    #[cfg(not(feature = "graphs"))]
    fn submit_timed(&self, _: u32, lists: &[u32]) {
        self.submit(lists);
    }

    #[cfg(not(feature = "graphs"))]
    fn poll_times(&self, id: u32, _: &mut Context<'_>) -> Poll<Result<Vec<[u64; 2]>>> {
        Poll::Ready(Err(Error::internal(format!("the page has no times {id}"))))
    }

    fn read(&self, id: u32, buffer: u32, bytes: u64) {
        let promise = self.host.map(buffer, bytes as f64);
        self.reads.borrow_mut().insert(id, JsFuture::from(promise));
    }

    fn poll_read(&self, id: u32, cx: &mut Context<'_>) -> Poll<Result<Vec<u8>>> {
        Self::poll_table(&self.reads, id, cx)
            .map_ok(|value| value.unchecked_into::<Uint8Array>().to_vec())
    }

    fn fence(&self, id: u32) {
        self.fences.borrow_mut().insert(id, JsFuture::from(self.host.work_done()));
    }

    fn poll_fence(&self, id: u32, cx: &mut Context<'_>) -> Poll<()> {
        // A lost device rejects its fences; they count as reached, because nothing is in flight any more.
        Self::poll_table(&self.fences, id, cx).map(|_| ())
    }

    fn push_scopes(&self) {
        self.host.push_error_scopes();
    }

    fn pop_scopes(&self, id: u32) {
        self.scopes.borrow_mut().insert(id, JsFuture::from(self.host.pop_error_scopes()));
    }

    fn poll_scopes(&self, id: u32, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let Poll::Ready(answer) = Self::poll_table(&self.scopes, id, cx) else {
            return Poll::Pending;
        };
        Poll::Ready(
            answer.and_then(|value| value.as_string().map_or(Ok(()), |e| Err(scope_error(&e)))),
        )
    }
}
