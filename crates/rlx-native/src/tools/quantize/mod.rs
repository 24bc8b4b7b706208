//! A model file into another element type, a tensor at a time.
//!
//! Inputs are memory maps and of the output a few megabytes are in memory. The file gets its name when
//! it is whole (`new_file.rs`); which tensor gets which type is `mix.rs`.

pub(super) mod convert;
mod folder;
pub(super) mod roles;

pub use folder::quantize_folder;

use crate::files::ModelSource;
use crate::new_file::create_gguf;
use crate::tools::mix::Quant;
use crate::tools::shards::{metadata, tensors};
use convert::Rows;
use rlx_core::formats::encode::ENCODABLE;
use rlx_core::gguf::{TensorInfo, TensorSpec, Value};
use rlx_core::types::DType;
use rlx_core::{Error, Result};
use std::path::Path;

/// Elements converted before they are written.
const SLAB: usize = 4 << 20;
/// Bytes copied at once.
const PIECE: usize = 4 << 20;
/// `general.quantization_version`: how blocks are laid out, as ggml counts.
pub(super) const QUANTIZATION_VERSION: u32 = 2;

/// Choices besides the quant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuantizeOptions {
    /// Threads that encode, at least 1. They make no difference to the file.
    pub threads: usize,
    /// Whether packed tensors are decoded and packed anew, which loses more than packing once.
    pub requantize: bool,
    /// Whether a file that is there is replaced.
    pub force: bool,
}

/// A tensor whose rows the blocks of its type do not fill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fallback {
    /// The tensor's name.
    pub name: String,
    /// Elements of a row.
    pub row: u64,
    /// The type that it should have.
    pub wanted: DType,
    /// The type that it got.
    pub got: DType,
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quantized {
    /// Tensors, and how many of them were converted; the others keep their bytes.
    pub tensors: (usize, usize),
    /// Bytes of all tensors before, and of the file.
    pub bytes: (u64, u64),
    /// Tensors with another type than the quant's.
    pub fallbacks: Vec<Fallback>,
}

/// Writes `source` to `out` with its matrices in `quant`. `progress` is told tensor bytes of the source
/// so far and of how many.
///
/// # Errors
/// `Usage` for a quant that cannot be encoded, packed tensors without `requantize`, and a file in the
/// way; `BadFile` for numbers that are not finite; `Io` where the file cannot be written.
pub fn quantize(
    source: &ModelSource,
    quant: Quant,
    out: &Path,
    options: QuantizeOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Quantized> {
    check_target(quant)?;
    check_names(source, out)?;
    let tensors = tensors(source);
    let (specs, fallbacks) = plan(source, quant, &tensors)?;
    if !options.requantize {
        check_sources(source, &tensors, &specs)?;
    }
    let mut stream = create_gguf(out, &pairs(source, quant), &specs, options.force)?;
    let (mut done, total) = (0, source.files.tensor_bytes());
    let (mut converted, mut slab) = (0, Vec::new());
    for ((file, tensor), spec) in tensors.iter().zip(&specs) {
        let bytes = data(source, *file, tensor)?;
        if tensor.dtype == spec.dtype {
            for piece in bytes.chunks(PIECE) {
                stream.write(piece)?;
                done += piece.len() as u64;
                progress(done, total);
            }
            continue;
        }
        converted += 1;
        let row = tensor.dims.last().copied().unwrap_or(1);
        let rows = Rows::of(&tensor.name, row, tensor.dtype, spec.dtype)?;
        let at_once = (SLAB / rows.elements.max(1)).max(1);
        for piece in bytes.chunks(at_once * rows.bytes.0) {
            slab.resize(piece.len() / rows.bytes.0 * rows.bytes.1, 0);
            rows.convert(piece, &mut slab, options.threads.max(1)).map_err(|e| {
                let what = format!("{}: {}", tensor.name, e.what);
                Error::new(e.code, what).at(file_name(source, *file)).hint(e.hint)
            })?;
            stream.write(&slab)?;
            done += piece.len() as u64;
            progress(done, total);
        }
    }
    let written = stream.layout().file_bytes();
    stream.end()?.commit()?;
    Ok(Quantized { tensors: (tensors.len(), converted), bytes: (total, written), fallbacks })
}

fn file_name(source: &ModelSource, file: usize) -> String {
    source.files.files.get(file).cloned().unwrap_or_default()
}

/// Names of quants that [`quantize`] makes.
pub fn names() -> Vec<&'static str> {
    ENCODABLE.iter().map(|dtype| dtype.name()).chain(["q4_k_m", "q5_k_m"]).collect()
}

pub(super) fn check_target(quant: Quant) -> Result<()> {
    if ENCODABLE.contains(&quant.base) {
        return Ok(());
    }
    Err(Error::usage(format!("{} can be read, not written", quant.name()))
        .hint(format!("give one of {}", names().join(", "))))
}

/// The file to write is none of those that are read.
fn check_names(source: &ModelSource, out: &Path) -> Result<()> {
    let Ok(same) = out.canonicalize() else { return Ok(()) }; // there is no such file
    let read = |file: &String| Path::new(file).canonicalize().is_ok_and(|path| path == same);
    if !source.files.files.iter().any(read) {
        return Ok(());
    }
    Err(Error::usage("the file to write is the file to read")
        .at(out.display().to_string())
        .hint("give another name"))
}

/// The tensors to write.
fn plan(
    source: &ModelSource,
    quant: Quant,
    tensors: &[&(usize, TensorInfo)],
) -> Result<(Vec<TensorSpec>, Vec<Fallback>)> {
    let roles = roles::roles(tensors);
    let traits = roles::traits(source, &roles)?;
    let (mut specs, mut fallbacks) = (Vec::new(), Vec::new());
    for ((_, tensor), role) in tensors.iter().zip(roles) {
        let row = tensor.dims.last().copied().unwrap_or(1);
        let (dtype, wanted) = match role {
            Some(role) => quant.of(&traits, role, row),
            None => (tensor.dtype, tensor.dtype),
        };
        let name = tensor.name.clone();
        if dtype != wanted {
            fallbacks.push(Fallback { name: name.clone(), row, wanted, got: dtype });
        }
        specs.push(TensorSpec { name, dtype, dims: tensor.dims.clone() });
    }
    Ok((specs, fallbacks))
}

/// What is packed already is not packed anew.
fn check_sources(
    source: &ModelSource,
    tensors: &[&(usize, TensorInfo)],
    specs: &[TensorSpec],
) -> Result<()> {
    let packed = tensors.iter().zip(specs).find(|((_, tensor), spec)| {
        matches!(tensor.dtype, DType::Block(_)) && tensor.dtype != spec.dtype
    });
    let Some(((file, tensor), spec)) = packed else { return Ok(()) };
    Err(Error::usage(format!(
        "{} is packed as {} and would become {}",
        tensor.name, tensor.dtype, spec.dtype
    ))
    .at(file_name(source, *file))
    .hint("begin with the model in f32, f16 or bf16, or give --requantize and lose more"))
}

/// The source's metadata with what is said of quantisation, in place or at the end.
fn pairs(source: &ModelSource, quant: Quant) -> Vec<(String, Value)> {
    let mut pairs = metadata(source);
    let mut set = |key: &str, value: u32| match pairs.iter_mut().find(|pair| pair.0 == key) {
        Some(pair) => pair.1 = Value::U32(value),
        None => pairs.push((key.to_owned(), Value::U32(value))),
    };
    set("general.quantization_version", QUANTIZATION_VERSION);
    if let Some(file_type) = quant.file_type() {
        set("general.file_type", file_type);
    }
    pairs
}

fn data<'a>(source: &'a ModelSource, file: usize, tensor: &TensorInfo) -> Result<&'a [u8]> {
    let range = tensor.offset as usize..(tensor.offset + tensor.bytes) as usize;
    let bytes = source.maps.get(file).and_then(|map| (**map).as_ref().get(range));
    bytes.ok_or_else(|| Error::internal(format!("tensor {} is outside its file", tensor.name)))
}
