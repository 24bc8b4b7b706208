//! From files to an engine: compiles for the device, then puts every range where the plan says.

use crate::block_on::block_on;
use crate::choice::{self, Chosen};
use crate::devices::DeviceRow;
use crate::form::Form;
use crate::memory::free_bytes;
use crate::network::CheckpointFiles;
use crate::remembered::{CHECKS, remember, remembered};
use rlx_core::models::Language;
use rlx_core::profile::CompileProfile;
use rlx_core::runtime::device::{Bytes, Device, SharedBytes};
use rlx_core::runtime::generate::engine::Engine;
use rlx_core::runtime::memory::Fit;
use rlx_core::runtime::model::{CompiledModel, ModelOptions};
use rlx_core::runtime::selftest::check::Check;
use rlx_core::runtime::selftest::{SelfTest, Verdict};
use rlx_core::runtime::session::load::{Destination, placements};
use rlx_core::runtime::session::{Opening, Session};
use rlx_core::target::{Policy, ProgramActivations, Target};
use rlx_core::text::ChatTemplate;
use rlx_core::types::DType;
use rlx_core::{Code, Error, Result};
use rlx_cpu::{CpuDevice, CpuOptions};
use std::sync::Arc;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Bytes handed at once to a device that copies, so that a staging ring never has to hold more.
const SLICE: usize = 4 << 20;

/// Choices that a command line has and a file has not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadOptions {
    /// Positions of the caches; `None`: what the model was trained for, at most 4,096.
    pub context: Option<u64>,
    /// Element type of the caches; `None`: the device's usual.
    pub kv: Option<DType>,
    /// Activation type in matmuls of packed weights; `None`: the device's usual, or f32 where that is as fast.
    pub activations: Option<ProgramActivations>,
    /// Positions of a block, of a model that fills blocks; `None`: as many as it was trained with.
    pub block: Option<u64>,
    /// Rows of a prompt's chunk; `None`: the device's usual.
    pub chunk: Option<u64>,
    /// Bytes for the rows of conversations besides the one in the caches.
    pub conversations: u64,
    /// Whether the logits after a prompt may be asked for.
    pub logits: bool,
    /// What the compiler is asked for; `None`: what the presets of the model's family say.
    pub profile: Option<CompileProfile>,
    /// Bytes of this machine's memory that a model may take; `None`: what the system says is left.
    pub memory: Option<u64>,
}

impl LoadOptions {
    /// What to compile for that target, on a device of that row.
    pub fn model_options(&self, row: &DeviceRow, target: &Target) -> ModelOptions {
        let chunk = self.chunk.unwrap_or(target.policy.chunk);
        let mut options = ModelOptions::by(&Policy { chunk, ..target.policy });
        options.context = self.context;
        options.block = self.block;
        options.conversations = self.conversations;
        options.compile.kv = self.kv.unwrap_or(options.compile.kv);
        options.activations = self.activations.unwrap_or(options.activations);
        if let Some(profile) = &self.profile {
            options.presets = false;
            options.compile.fusion_target = row.backend;
            profile.apply(&mut options.compile);
        }
        if self.logits { options.with_logits() } else { options }
    }
}

/// A model that answers.
pub struct Model {
    /// Runs it.
    pub engine: Engine,
    /// Its chat template, or why there is none.
    pub template: Result<ChatTemplate>,
    /// The caches' element type.
    pub kv: DType,
    /// Activation types in matmuls of packed weights.
    pub activations: ProgramActivations,
    /// Why these, where the device was timed for them.
    pub chosen: Option<Chosen>,
    /// The temperature that the file asks for.
    pub temperature: Option<f32>,
    /// What form its answers have, if any is asked for.
    pub form: Option<Form>,
    /// From the first byte read to the engine.
    pub load_time: Duration,
}

/// Loads a language model onto a device: a GGUF file or its shards, or a transformers folder.
/// `progress` is told bytes so far and of how many.
///
/// # Errors
/// As the readers, the compiler and the device; `CheckFailed` for a device that computes wrong values
/// even without its optional features; `OutOfMemory` for a model that this machine's memory does not
/// hold, where that is what the device has.
pub fn load(
    source: &CheckpointFiles,
    row: &DeviceRow,
    device: Arc<dyn Device>,
    options: &LoadOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Model> {
    let start = Instant::now();
    let mut model_options = options.model_options(row, device.target());
    let chosen = match options.activations {
        Some(_) => None,
        None => choice::choose(&source.checkpoint(), &device, &mut model_options),
    };
    let compiled = compile(source, &*device, &model_options, options.memory)?;
    let Language { tokenizer, template, temperature, .. } = source.language()?;
    let tokenizer = Arc::new(tokenizer);
    let policy = device.target().policy;
    let session = open(&compiled, source, row, device, &model_options, progress)?;
    let mut engine = Engine::new(session, Arc::new(compiled), tokenizer)?;
    if policy.paced {
        engine.pace_by(Arc::new(milliseconds));
    }
    Ok(Model {
        engine,
        template,
        kv: model_options.compile.kv,
        activations: model_options.activations,
        chosen,
        temperature,
        form: None,
        load_time: start.elapsed(),
    })
}

/// Compiles a model for a device, and checks that this machine's memory holds it where that is what the device has.
///
/// # Errors
/// As the readers and the compiler; `OutOfMemory`.
pub fn compile(
    source: &CheckpointFiles,
    device: &dyn Device,
    options: &ModelOptions,
    memory: Option<u64>,
) -> Result<CompiledModel> {
    let target = device.target();
    let compiled = CompiledModel::new(&source.checkpoint(), target, options)?;
    // A GPU says what it has no room for when it is asked for buffers.
    if target.buffers.is_none()
        && let Some(available) = memory.or_else(free_bytes)
    {
        Fit::of(&compiled, target).within("this machine", available)?;
    }
    Ok(compiled)
}

/// Puts a compiled model on its device, which is compared with the CPU first where it may compute wrong values.
///
/// # Errors
/// What the device refuses; `CheckFailed` for a device that computes wrong values even without its optional features.
pub fn open(
    compiled: &CompiledModel,
    source: &CheckpointFiles,
    row: &DeviceRow,
    device: Arc<dyn Device>,
    options: &ModelOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Session> {
    let checked = device.target().policy.checked;
    let mut placed = |file: usize, offset: usize, len: usize| source.release(file, offset, len);
    let mut opening = Opening::programs(device, compiled)?;
    block_on(|cx| opening.poll_ready(cx))?;
    if checked {
        check(&mut opening, compiled, source, options)?;
    }
    fill(&mut opening, source.maps(), row.keeps_maps, &mut placed, progress)?;
    Ok(opening.finish())
}

/// Compares the device with the CPU, unless that was done before for what the model runs on.
fn check(
    opening: &mut Opening,
    compiled: &CompiledModel,
    source: &CheckpointFiles,
    options: &ModelOptions,
) -> Result<()> {
    let device = opening.weights().device().clone();
    let kept = |kernels: &str| Verdict::parse(&remembered(CHECKS, kernels)?);
    let test = || {
        let oracle: Arc<dyn Device> = Arc::new(CpuDevice::new(CpuOptions::default())?);
        SelfTest::new(&source.checkpoint(), compiled.context, options, device, &oracle)
    };
    let mut check = Check::new(opening, compiled, kept, test)?;
    let found = block_on(|cx| check.poll(opening, compiled, cx)).map_err(|e| match e.code {
        Code::CheckFailed => e.hint("use --device cpu; a newer driver may help"),
        _ => e,
    })?;
    if let Some((kernels, verdict)) = found {
        // Where it cannot be kept it is found again.
        let _ = remember(CHECKS, kernels, verdict.to_string());
    }
    Ok(())
}

/// Milliseconds since the process first asked.
pub(crate) fn milliseconds() -> f64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_secs_f64() * 1e3
}

/// Puts a compiled model's weights on a device, from files that are in memory.
///
/// # Errors
/// What the device refuses.
pub fn put(
    compiled: &CompiledModel,
    maps: &[SharedBytes],
    device: Arc<dyn Device>,
    keeps_maps: bool,
    placed: &mut dyn FnMut(usize, usize, usize),
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Session> {
    let mut opening = Opening::programs(device, compiled)?;
    block_on(|cx| opening.poll_ready(cx))?;
    fill(&mut opening, maps, keeps_maps, placed, progress)?;
    Ok(opening.finish())
}

/// Puts weights where a session on its way has room for them. `placed` is told what of which file the device has
/// (offset and bytes): memory of a map that a device has copied may go.
///
/// # Errors
/// What the device refuses; `Internal` for a range outside its file.
pub(crate) fn fill(
    opening: &mut Opening,
    maps: &[SharedBytes],
    keeps_maps: bool,
    placed: &mut dyn FnMut(usize, usize, usize),
    progress: &mut dyn FnMut(u64, u64),
) -> Result<()> {
    let loader = opening.loader();
    let ranges: Vec<_> =
        (0..maps.len() as u32).map(|shard| placements(loader.plan(), shard)).collect();
    let total = ranges.iter().flatten().map(|p| p.bytes).sum();
    let mut done = 0;
    for (file, (map, ranges)) in maps.iter().zip(&ranges).enumerate() {
        for range in ranges {
            let (offset, len) = (range.file_offset as usize, range.bytes as usize);
            let short = || Error::internal("a tensor lies outside its file");
            let end = offset.checked_add(len).ok_or_else(short)?;
            let all = (**map).as_ref().get(offset..end).ok_or_else(short)?;
            match &range.to {
                // A large weight is copied piece by piece, whose maps' pages go one by one too: a
                // device that keeps maps arranges it on the way, and would have it twice for a while.
                Destination::Device(_) if keeps_maps && len <= SLICE => {
                    block_on(|cx| {
                        let bytes = Bytes::Shared { map: map.clone(), offset, len };
                        loader.poll_put(&range.to, 0, bytes, cx)
                    })?;
                }
                Destination::Device(_) | Destination::Rows { .. } | Destination::Rank(..) => {
                    for (i, slice) in all.chunks(SLICE).enumerate() {
                        let skip = (i * SLICE) as u64;
                        block_on(|cx| loader.poll_put(&range.to, skip, Bytes::Slice(slice), cx))?;
                        placed(file, offset + i * SLICE, slice.len());
                        progress(done + skip + slice.len() as u64, total);
                    }
                }
                Destination::Host(_) => {
                    block_on(|cx| loader.poll_put(&range.to, 0, Bytes::Slice(all), cx))?;
                }
            }
            placed(file, offset, len);
            done += range.bytes;
            progress(done, total);
        }
    }
    block_on(|cx| opening.poll(cx))
}
