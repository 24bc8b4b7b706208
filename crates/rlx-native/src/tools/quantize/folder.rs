//! A folder of a network into one whose matrices are packed: names, configuration and small files stay.
//!
//! What is packed is what products alone read, by the lowered graphs of the model's entries; convolutions, norms and
//! tables stay as they are. The file is safetensors with packed tensors as bytes
//! ([`PACKED`](rlx_core::safetensors::PACKED)).

use super::{Fallback, PIECE, QuantizeOptions, Quantized, SLAB, check_target, convert::Rows};
use crate::devices::{self, OpenOptions};
use crate::network::Folder;
use crate::new_file::NewFolder;
use crate::tools::mix::{Quant, Role, Traits};
use rlx_core::gguf::Sink;
use rlx_core::ir::mir::{Graph, ParamKind};
use rlx_core::ops::Op;
use rlx_core::runtime::session::Preview;
use rlx_core::runtime::session::network::entries;
use rlx_core::safetensors::PACKED;
use rlx_core::target::CompileOptions;
use rlx_core::types::{DType, Scalar};
use rlx_core::{Code, Error, Result};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// Endings of the small files of a folder that go with its weights.
const SMALL: [&str; 4] = ["json", "txt", "jinja", "model"];

/// A tensor of the folder: its file, type, sizes and bytes, and the type that it gets.
struct Planned<'a> {
    name: &'a str,
    from: DType,
    to: DType,
    shape: &'a [u64],
    bytes: &'a [u8],
}

/// Writes `folder`, whose path is `path`, to the new folder `out` with its matrices in `quant`. `progress` is told
/// tensor bytes of the source so far and of how many.
///
/// # Errors
/// As the family's reader and lowering; `Usage` for a quant that cannot be encoded, packed tensors without
/// `requantize`, and a folder in the way; `BadFile` for numbers that are not finite; `Io` where it cannot be written.
pub fn quantize_folder(
    (folder, path): (&Folder, &Path),
    quant: Quant,
    out: &Path,
    options: QuantizeOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Quantized> {
    check_target(quant)?;
    let matrices = matrices(folder)?;
    let (mut tensors, fallbacks) = plan(folder, quant, &matrices)?;
    // Floats first: their bytes are aligned there, and blocks need no more than two.
    tensors.sort_by_key(|t| t.to.is_block());
    for t in &tensors {
        if t.from.is_block() && t.from != t.to && !options.requantize {
            return Err(Error::usage(format!(
                "{} is packed as {} and would become {}",
                t.name, t.from, t.to
            ))
            .at(path.display().to_string())
            .hint("begin with the model in f32, f16 or bf16, or give --requantize and lose more"));
        }
    }
    let (header, size) = header(&tensors)?;
    let whole = header.len() as u64 + size;
    let made = NewFolder::create(out, whole)?;
    let mut file = made.file(weights_name(folder))?;
    file.put(&header)?;
    let (mut done, mut converted, mut slab) = (0, 0, Vec::new());
    let total = tensors.iter().map(|t| t.bytes.len() as u64).sum();
    for t in &tensors {
        converted += usize::from(t.from != t.to);
        let row = t.shape.last().copied().unwrap_or(1);
        let rows = if t.from == t.to { None } else { Some(Rows::of(t.name, row, t.from, t.to)?) };
        let at_once =
            rows.as_ref().map_or(PIECE, |r| (SLAB / r.elements.max(1)).max(1) * r.bytes.0);
        for piece in t.bytes.chunks(at_once) {
            match &rows {
                None => file.put(piece)?,
                Some(rows) => {
                    slab.resize(piece.len() / rows.bytes.0 * rows.bytes.1, 0);
                    rows.convert(piece, &mut slab, options.threads.max(1)).map_err(|e| {
                        let what = format!("{}: {}", t.name, e.what);
                        Error::new(e.code, what).at(path.display().to_string()).hint(e.hint)
                    })?;
                    file.put(&slab)?;
                }
            }
            done += piece.len() as u64;
            progress(done, total);
        }
    }
    file.commit()?;
    copy_small(path, &made)?;
    made.commit()?;
    Ok(Quantized { tensors: (tensors.len(), converted), bytes: (total, whole), fallbacks })
}

/// The name of the one file of weights: transformers' or diffusers', as the folder has it.
fn weights_name(folder: &Folder) -> &'static str {
    match folder.weights_name().contains("diffusion_pytorch_model") {
        true => "diffusion_pytorch_model.safetensors",
        false => "model.safetensors",
    }
}

/// Names of the weights that products alone read, in every entry of the model.
fn matrices(folder: &Folder) -> Result<BTreeMap<String, bool>> {
    let device = (devices::find("reference")?.open)(&OpenOptions::default())?;
    let (entries, _) = entries(&folder.checkpoint(), None).map_err(|e| folder.located(e))?;
    let mut only = BTreeMap::new();
    for entry in &entries {
        let preview = Preview::new(entry, device.target(), &CompileOptions::default())?;
        readers(preview.graph(), &mut only);
    }
    Ok(only)
}

/// Notes of each weight whether products alone read it, as their right-hand side.
fn readers(graph: &Graph, only: &mut BTreeMap<String, bool>) {
    let weights = graph.params.iter().filter(|p| p.kind == ParamKind::Weight);
    let names: BTreeMap<_, _> = weights.map(|p| (p.value, p.name.as_str())).collect();
    for node in &graph.nodes {
        let parts = match &node.op {
            Op::MatMul(op) => {
                let first = op.parts().weights;
                first..first + op.segments
            }
            _ => 0..0,
        };
        for (i, value) in node.inputs.iter().enumerate() {
            if let Some(name) = names.get(value) {
                *only.entry((*name).to_owned()).or_insert(true) &= parts.contains(&i);
            }
        }
    }
    for output in &graph.outputs {
        if let Some(name) = names.get(&output.value) {
            only.insert((*name).to_owned(), false);
        }
    }
}

/// What every tensor becomes, in the order of the files.
fn plan<'a>(
    folder: &'a Folder,
    quant: Quant,
    matrices: &BTreeMap<String, bool>,
) -> Result<(Vec<Planned<'a>>, Vec<Fallback>)> {
    let traits = Traits { layers: 0, values: 0, group: 1, experts: 0, tied: false, seventy: false };
    let (mut all, mut fallbacks) = (Vec::new(), Vec::new());
    for (header, map) in folder.headers().iter().zip(folder.maps()) {
        let mut tensors: Vec<_> = header.tensors.iter().collect();
        tensors.sort_by_key(|(_, t)| t.offset);
        for (name, t) in tensors {
            let range = t.offset as usize..(t.offset + t.bytes) as usize;
            let bytes = (**map).as_ref().get(range);
            let bytes = bytes.ok_or_else(|| {
                let what = format!("the bytes of tensor {name} are not in the file");
                folder.located(Error::bad_file(what).hint("the file is incomplete"))
            })?;
            let float = [Scalar::F32, Scalar::F16, Scalar::Bf16].map(DType::Scalar);
            let packs = float.contains(&t.dtype) || t.dtype.is_block();
            let (mut to, row) = (t.dtype, t.shape.last().copied().unwrap_or(1));
            if packs && t.shape.len() == 2 && matrices.get(name) == Some(&true) {
                let (got, wanted) = quant.of(&traits, Role::Matrix, row);
                if got != wanted {
                    fallbacks.push(Fallback { name: name.clone(), row, wanted, got });
                }
                to = got;
            }
            all.push(Planned { name, from: t.dtype, to, shape: &t.shape, bytes });
        }
    }
    Ok((all, fallbacks))
}

/// The bytes before the tensors, and how many bytes those have.
fn header(tensors: &[Planned<'_>]) -> Result<(Vec<u8>, u64)> {
    let (mut members, mut packed, mut at) = (Map::new(), Map::new(), 0u64);
    for t in tensors {
        let mut shape = t.shape.to_vec();
        let row = shape.last().copied().unwrap_or(1);
        let no_rows = || Error::internal(format!("{} has no rows of {}", t.name, t.to));
        let row_bytes = t.to.row_bytes(row).ok_or_else(no_rows)?;
        let rows: u64 = shape.iter().rev().skip(1).product();
        let bytes = rows * row_bytes;
        let dtype = match t.to {
            DType::Scalar(scalar) => scalar_name(scalar)?,
            DType::Block(_) => {
                packed.insert(t.name.to_owned(), Value::String(t.to.name().to_owned()));
                if let Some(last) = shape.last_mut() {
                    *last = row_bytes;
                }
                "U8"
            }
        };
        let value = json!({ "dtype": dtype, "shape": shape, "data_offsets": [at, at + bytes] });
        members.insert(t.name.to_owned(), value);
        at += bytes;
    }
    let packed = Value::Object(packed).to_string();
    members.insert("__metadata__".to_owned(), json!({ "format": "pt", PACKED: packed }));
    let mut text = Value::Object(members).to_string();
    // Tensors begin at a multiple of 64.
    text += &" ".repeat((64 - (text.len() + 8) % 64) % 64);
    Ok(([&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat(), at))
}

/// What safetensors calls an element type.
fn scalar_name(scalar: Scalar) -> Result<&'static str> {
    Ok(match scalar {
        Scalar::F64 => "F64",
        Scalar::F32 => "F32",
        Scalar::F16 => "F16",
        Scalar::Bf16 => "BF16",
        Scalar::I64 => "I64",
        Scalar::I32 => "I32",
        Scalar::I16 => "I16",
        Scalar::I8 => "I8",
        Scalar::U32 => "U32",
        Scalar::U8 => "U8",
        Scalar::Bool => "BOOL",
        // Complex numbers are read as pairs.
        Scalar::C64 => return Err(Error::internal("a tensor of complex numbers")),
    })
}

/// Copies configuration, tokenizer and the like.
fn copy_small(path: &Path, made: &NewFolder) -> Result<()> {
    let io = |e: std::io::Error| Error::new(Code::Io, e.to_string()).at(path.display().to_string());
    for entry in std::fs::read_dir(path).map_err(io)? {
        let entry = entry.map_err(io)?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let ending = Path::new(name).extension().and_then(|e| e.to_str()).unwrap_or("");
        // An index names files that are one file now.
        if !entry.path().is_file() || !SMALL.contains(&ending) || name.ends_with(".index.json") {
            continue;
        }
        let bytes = std::fs::read(entry.path()).map_err(io)?;
        let mut file = made.file(name)?;
        file.put(&bytes)?;
        file.commit()?;
    }
    Ok(())
}
