//! `rlx inspect --stage file`: a model's configuration and tensors, as its files say them.

use crate::cli::{print_json, print_text};
use crate::files::ModelSource;
use crate::network::{CheckpointFiles, Folder};
use rlx_core::gguf::{Array, Value};
use rlx_core::models::Checkpoint;
use rlx_core::plan::{Located, Piece};
use rlx_core::types::{DType, Shape, Type};
use rlx_core::{Error, Result};
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;
use std::fmt::Write;

/// How many elements of an array the text shows.
const SHOWN: usize = 8;

/// How many characters of a text it shows.
const CHARACTERS: usize = 60;

/// What a model's files say.
struct Listing<'a> {
    /// Names, and bytes of each.
    files: Vec<(String, usize)>,
    /// The files in the order of their shards.
    order: Vec<usize>,
    /// Keys with their values. A long array is only its length and type.
    metadata: Vec<(String, Json)>,
    tensors: Vec<Tensor<'a>>,
}

struct Tensor<'a> {
    name: &'a str,
    dtype: DType,
    dims: &'a [u64],
    file: u32,
    offset: u64,
    bytes: u64,
}

/// Prints what a model's files say.
pub(super) fn print(files: &CheckpointFiles, as_json: bool) -> Result<()> {
    let listing = match files {
        CheckpointFiles::Gguf(source) => Listing::gguf(source),
        CheckpointFiles::Folder(folder) => Listing::folder(folder)?,
    };
    if as_json { print_json(&listing.json()) } else { print_text(&listing.text()) }
}

/// A metadata value as JSON. A long array is only its length and type.
fn value_json(value: &Value) -> Json {
    if let Some(n) = value.as_integer() {
        // Integers of GGUF are at most 64 bits wide.
        return u64::try_from(n).map_or_else(|_| json!(n as i64), |n| json!(n));
    }
    match value {
        Value::F32(v) => json!(v),
        Value::F64(v) => json!(v),
        Value::Bool(v) => json!(v),
        Value::String(v) => json!(v),
        Value::Array(Array::Strings(v)) if v.len() <= SHOWN => json!(v.iter().collect::<Vec<_>>()),
        Value::Array(v) => json!({ "type": value.type_name(), "length": v.len() }),
        other => json!(other.type_name()),
    }
}

/// Every tensor of a checkpoint.
fn tensors(checkpoint: Checkpoint<'_>) -> Vec<Tensor<'_>> {
    let one = |name| {
        let (dtype, dims) = checkpoint.tensor(name)?;
        let Located::File(Piece { shard: file, offset, bytes }) = checkpoint.locate(name)? else {
            return None;
        };
        Some(Tensor { name, dtype, dims, file, offset, bytes })
    };
    checkpoint.names().filter_map(one).collect()
}

impl Listing<'_> {
    fn gguf(source: &ModelSource) -> Listing<'_> {
        let files = &source.files;
        let sizes = source.maps.iter().map(|map| (**map).as_ref().len());
        let metadata = files.metadata.iter();
        Listing {
            files: files.files.iter().cloned().zip(sizes).collect(),
            order: files.order.clone(),
            metadata: metadata.map(|(key, e)| (key.to_owned(), value_json(&e.value))).collect(),
            tensors: tensors(Checkpoint::gguf(files)),
        }
    }

    fn folder(folder: &Folder) -> Result<Listing<'_>> {
        let config = folder.text("config.json")?.unwrap_or_default();
        let config: Map<String, Json> = serde_json::from_str(&config)
            .map_err(|e| Error::bad_file(format!("it is no object: {e}")).at("config.json"))?;
        let metadata = config.into_iter().map(|(key, value)| match value {
            Json::Array(v) if v.len() > SHOWN => {
                (key, json!({ "type": "array", "length": v.len() }))
            }
            value => (key, value),
        });
        let sizes = folder.maps().iter().map(|map| (**map).as_ref().len());
        Ok(Listing {
            files: sizes.map(|bytes| (folder.weights_name(), bytes)).collect(),
            order: (0..folder.maps().len()).collect(),
            metadata: metadata.collect(),
            tensors: tensors(folder.checkpoint()),
        })
    }

    fn tensor_bytes(&self) -> u64 {
        self.tensors.iter().map(|t| t.bytes).sum()
    }

    /// Of each element type: tensors and bytes.
    fn by_type(&self) -> BTreeMap<&'static str, (usize, u64)> {
        let mut types = BTreeMap::new();
        for t in &self.tensors {
            let row: &mut (usize, u64) = types.entry(t.dtype.name()).or_default();
            row.0 += 1;
            row.1 += t.bytes;
        }
        types
    }

    fn json(&self) -> Json {
        let tensor = |t: &Tensor<'_>| {
            json!({
                "name": t.name, "type": t.dtype.name(), "shape": t.dims,
                "file": t.file, "offset": t.offset, "bytes": t.bytes,
            })
        };
        let types = self.by_type().into_iter().map(|(name, (tensors, bytes))| {
            (name.to_owned(), json!({ "tensors": tensors, "bytes": bytes }))
        });
        json!({
            "stage": "file",
            "files": self.files.iter().map(|f| &f.0).collect::<Vec<_>>(),
            "order": self.order,
            "file_bytes": self.files.iter().map(|f| f.1).sum::<usize>(),
            "tensor_bytes": self.tensor_bytes(),
            "metadata": self.metadata.iter().cloned().collect::<Map<_, _>>(),
            "tensors": self.tensors.iter().map(tensor).collect::<Vec<_>>(),
            "types": types.collect::<Map<_, _>>(),
        })
    }

    fn text(&self) -> String {
        let mut out = String::new();
        // Writing to a String never fails.
        let mut line = |text: String| {
            let _ = writeln!(out, "{text}");
        };
        for (name, bytes) in self.order.iter().filter_map(|&i| self.files.get(i)) {
            line(format!("{name} ({bytes} bytes)"));
        }
        line(String::new());
        for (key, value) in &self.metadata {
            let text = match value {
                Json::Object(o) if o.contains_key("length") => {
                    format!("{} of {}", o["type"].as_str().unwrap_or_default(), o["length"])
                }
                Json::String(s) if s.chars().count() > CHARACTERS => {
                    format!("{:?}…", s.chars().take(CHARACTERS).collect::<String>())
                }
                other => other.to_string(),
            };
            line(format!("{key} = {text}"));
        }
        line(String::new());
        for t in &self.tensors {
            let ty = Type::tensor(t.dtype, Shape::of(t.dims));
            let (offset, file, bytes) = (t.offset, t.file, t.bytes);
            line(format!("{:<32} {ty} at {offset} of file {file}, {bytes} bytes", t.name));
        }
        line(String::new());
        for (name, (tensors, bytes)) in self.by_type() {
            line(format!("{name:<6} {tensors:>4} tensors {bytes:>12} bytes"));
        }
        let (tensors, bytes) = (self.tensors.len(), self.tensor_bytes());
        line(format!("all    {tensors:>4} tensors {bytes:>12} bytes"));
        out
    }
}
