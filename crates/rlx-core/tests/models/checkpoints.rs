//! Checkpoints in memory: small GGUF headers made here, and recorded folders where they are.

use crate::common::execute::{Data, interpreted};
use rlx_core::gguf::{HeaderReader, ModelFiles, TensorSpec, Value, Writer};
use rlx_core::ir::hir::Module;
use rlx_core::ir::mir::{Graph, ParamKind};
use rlx_core::lower::{ProgramSpec, lower};
use rlx_core::models::{self, Checkpoint};
use rlx_core::safetensors::{self, json::Json};
use rlx_core::sample::Control;
use rlx_core::types::{DType, Scalar};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub type Pairs = Vec<(String, Value)>;

pub fn text(s: &str) -> Value {
    Value::String(s.into())
}

/// A GGUF file of these pairs and f32 tensors.
pub fn gguf(pairs: &Pairs, tensors: &[(String, Vec<u64>)]) -> ModelFiles {
    let spec = |(name, dims): &(String, Vec<u64>)| TensorSpec {
        name: name.clone(),
        dtype: DType::F32,
        dims: dims.clone(),
    };
    let file = Writer::new(pairs, &tensors.iter().map(spec).collect::<Vec<_>>()).unwrap();
    let mut reader = HeaderReader::new("f.gguf", Some(file.file_bytes()));
    reader.push(file.header()).unwrap();
    ModelFiles::new(vec![reader.into_header().unwrap()]).unwrap()
}

/// A GGUF file's header, and bytes of its tensors.
pub fn gguf_file(path: &Path) -> (ModelFiles, Data) {
    let bytes = read(path);
    let mut reader = HeaderReader::new("f.gguf", Some(bytes.len() as u64));
    reader.push(&bytes).unwrap();
    let files = ModelFiles::new(vec![reader.into_header().unwrap()]).unwrap();
    let tensors = files.tensors.iter().map(|(name, (_, t))| {
        (name.clone(), bytes[t.offset as usize..(t.offset + t.bytes) as usize].to_vec())
    });
    let tensors = tensors.collect();
    (files, tensors)
}

/// A llama of two layers: D 32, H 4, K 2, F 64, V 8.
pub fn llama() -> (Pairs, Vec<(String, Vec<u64>)>) {
    let numbers = [
        ("block_count", 2),
        ("context_length", 128),
        ("embedding_length", 32),
        ("feed_forward_length", 64),
        ("attention.head_count", 4),
        ("attention.head_count_kv", 2),
    ];
    let mut pairs: Pairs = vec![("general.architecture".into(), text("llama"))];
    pairs.extend(numbers.map(|(key, n)| (format!("llama.{key}"), Value::U32(n))));
    pairs.push(("llama.attention.layer_norm_rms_epsilon".into(), Value::F32(1e-5)));
    let mut tensors: Vec<(String, Vec<u64>)> =
        [("token_embd.weight", vec![8, 32]), ("output_norm.weight", vec![32])]
            .map(|(name, dims)| (name.to_string(), dims))
            .into();
    for i in 0..2 {
        let parts: [(&str, &[u64]); 9] = [
            ("attn_norm", &[32]),
            ("attn_q", &[32, 32]),
            ("attn_k", &[16, 32]),
            ("attn_v", &[16, 32]),
            ("attn_output", &[32, 32]),
            ("ffn_norm", &[32]),
            ("ffn_gate", &[64, 32]),
            ("ffn_up", &[64, 32]),
            ("ffn_down", &[32, 64]),
        ];
        tensors.extend(parts.map(|(part, dims)| (format!("blk.{i}.{part}.weight"), dims.to_vec())));
    }
    (pairs, tensors)
}

/// The header of a transformers folder with the same f32 tensors, of a llama.
pub fn as_transformers(tensors: &[(String, Vec<u64>)]) -> safetensors::Header {
    let (mut json, mut end) = (Vec::new(), 0);
    for (name, dims) in tensors {
        let bytes = 4 * dims.iter().product::<u64>();
        let name = transformers_name(name);
        let offsets = [end, end + bytes];
        json.push(format!(
            r#""{name}":{{"dtype":"F32","shape":{dims:?},"data_offsets":{offsets:?}}}"#
        ));
        end += bytes;
    }
    let json = format!("{{{}}}", json.join(","));
    let mut bytes = (json.len() as u64).to_le_bytes().to_vec();
    bytes.extend(json.bytes());
    let mut reader = safetensors::HeaderReader::new("f", Some(bytes.len() as u64 + end));
    reader.push(&bytes).unwrap();
    reader.into_header().unwrap()
}

/// A llama's tensors in transformers' folders, and in GGUF files.
const NAMES: [(&str, &str); 13] = [
    ("model.embed_tokens", "token_embd"),
    ("model.norm", "output_norm"),
    ("lm_head", "output"),
    ("model.layers.", "blk."),
    ("input_layernorm", "attn_norm"),
    ("post_attention_layernorm", "ffn_norm"),
    ("self_attn.q_proj", "attn_q"),
    ("self_attn.k_proj", "attn_k"),
    ("self_attn.v_proj", "attn_v"),
    ("self_attn.o_proj", "attn_output"),
    ("mlp.gate_proj", "ffn_gate"),
    ("mlp.up_proj", "ffn_up"),
    ("mlp.down_proj", "ffn_down"),
];

/// The name in a GGUF file of a tensor of a folder.
pub fn gguf_name(name: &str) -> String {
    NAMES.iter().fold(name.into(), |name: String, (from, to)| name.replace(from, to))
}

/// The name in a folder of a tensor of a GGUF file.
fn transformers_name(name: &str) -> String {
    let (start, part) =
        name.strip_suffix(".weight").unwrap().rsplit_once('.').unwrap_or(("", name));
    let part = part.strip_suffix(".weight").unwrap_or(part);
    let to = NAMES.iter().find(|n| n.1 == part).unwrap().0;
    match start.strip_prefix("blk.") {
        Some(layer) => format!("model.layers.{layer}.{to}.weight"),
        None => format!("{to}.weight"),
    }
}

/// The module of a GGUF file, or why there is none.
pub fn module(files: &ModelFiles) -> rlx_core::Result<Module> {
    let checkpoint = Checkpoint::gguf(files);
    models::open(&checkpoint)?.module(&checkpoint, 64)
}

/// What is said of a GGUF file that is refused.
pub fn refusal(pairs: &Pairs, tensors: &[(String, Vec<u64>)]) -> String {
    module(&gguf(pairs, tensors)).unwrap_err().to_string()
}

/// The folder of recorded checkpoints: `shared/reference` beside the repository or above it.
pub fn recorded(name: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    root.ancestors().map(|a| a.join("shared/reference").join(name)).find(|p| p.exists())
}

/// A transformers folder in memory, and what was recorded of it.
pub struct Folder {
    pub config: Json,
    pub header: safetensors::Header,
    weights: Vec<u8>,
    io: (safetensors::Header, Vec<u8>),
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

pub fn header(bytes: &[u8]) -> safetensors::Header {
    let mut reader = safetensors::HeaderReader::new("f", Some(bytes.len() as u64));
    reader.push(bytes).unwrap();
    reader.into_header().unwrap()
}

pub fn json(bytes: &[u8]) -> Json {
    Json::parse(bytes, "config.json", 0).unwrap()
}

impl Folder {
    pub fn open(path: &Path, config: &str) -> Folder {
        let at = |name: &str| path.join(name);
        Folder::of([at(config), at("model.safetensors"), at("io.safetensors")])
    }

    /// The same of files that are not beside each other: configuration, weights, record.
    pub fn of(files: [PathBuf; 3]) -> Folder {
        let [config, weights, io] = files.map(|file| read(&file));
        Folder { config: json(&config), header: header(&weights), weights, io: (header(&io), io) }
    }

    pub fn checkpoint(&self) -> Checkpoint<'_> {
        Checkpoint::transformers(&self.config, &self.header)
    }

    /// Rounds every weight, which are f32, to f16 or bf16.
    pub fn narrow(&mut self, dtype: Scalar) {
        let round = |b: &[u8; 4]| match dtype {
            Scalar::F16 => half::f16::from_f32(f32::from_le_bytes(*b)).to_le_bytes(),
            _ => half::bf16::from_f32(f32::from_le_bytes(*b)).to_le_bytes(),
        };
        self.each(dtype, |bytes| bytes.as_chunks().0.iter().flat_map(round).collect());
    }

    /// Makes every weight f32 again.
    pub fn widen(&mut self) {
        let f16 = |b: &[u8; 2]| half::f16::from_le_bytes(*b).to_f32().to_le_bytes();
        let bf16 = |b: &[u8; 2]| half::bf16::from_le_bytes(*b).to_f32().to_le_bytes();
        let is_f16 = self.header.tensors.values().any(|t| t.dtype == DType::Scalar(Scalar::F16));
        self.each(Scalar::F32, |bytes| {
            let halves = bytes.as_chunks().0.iter();
            halves.flat_map(|b| if is_f16 { f16(b) } else { bf16(b) }).collect()
        });
    }

    /// Gives every weight other bytes and a type.
    fn each(&mut self, dtype: Scalar, other: impl Fn(&[u8]) -> Vec<u8>) {
        let mut weights = Vec::new();
        for t in self.header.tensors.values_mut() {
            let bytes = other(&self.weights[t.offset as usize..(t.offset + t.bytes) as usize]);
            (t.dtype, t.offset, t.bytes) =
                (DType::Scalar(dtype), weights.len() as u64, bytes.len() as u64);
            weights.extend(bytes);
        }
        self.weights = weights;
    }

    /// A recorded tensor's bytes and sizes.
    fn io(&self, name: &str) -> (&[u8], Vec<u64>) {
        let t = &self.io.0.tensors[name];
        let range = t.offset as usize..(t.offset + t.bytes) as usize;
        (&self.io.1[range], t.shape.clone())
    }

    pub fn floats(&self, name: &str) -> Vec<f32> {
        self.io(name).0.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
    }

    /// A recorded tensor, if there is one of that name.
    pub fn maybe(&self, name: &str) -> Option<Vec<f32>> {
        self.io.0.tensors.contains_key(name).then(|| self.floats(name))
    }

    pub fn ids(&self, name: &str) -> Vec<u32> {
        self.ints(name).into_iter().map(|n| u32::try_from(n).unwrap()).collect()
    }

    /// A recorded tensor's bytes.
    pub fn bytes(&self, name: &str) -> &[u8] {
        self.io(name).0
    }

    pub fn ints(&self, name: &str) -> Vec<i64> {
        self.io(name).0.as_chunks().0.iter().map(|b| i64::from_le_bytes(*b)).collect()
    }

    /// Names of everything recorded.
    pub fn recorded(&self) -> impl Iterator<Item = &str> {
        self.io.0.tensors.keys().map(|n| n.as_str())
    }

    /// Bytes of every weight.
    pub fn weights(&self) -> Data {
        let tensors = self.header.tensors.iter();
        tensors
            .map(|(name, t)| {
                let range = t.offset as usize..(t.offset + t.bytes) as usize;
                (name.clone(), self.weights[range].to_vec())
            })
            .collect()
    }
}

/// Logits and taps of every row of a prompt, by the oracle.
pub fn rows(module: &Module, weights: &Data, ids: &[u32]) -> BTreeMap<String, Vec<f32>> {
    let g = lower(module, &ProgramSpec::verify(ids.len() as u64, true), DType::F32).unwrap();
    let ctl =
        Control { len: ids.len() as u32, capacity: module.context as u32, ..Control::default() };
    let words = |w: &[u32]| w.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
    let given = Data::from([("ids".into(), words(ids)), ("ctl".into(), words(&ctl.to_words()))]);
    outputs(&g, weights, &given)
}

/// Outputs of a graph by name; states that are not given are zeros.
pub fn outputs(g: &Graph, weights: &Data, given: &Data) -> BTreeMap<String, Vec<f32>> {
    let mut data = Data::new();
    for p in &g.params {
        let zeros = || vec![0; g.ty(p.value).bytes().unwrap() as usize];
        let bytes = match given.get(&p.name) {
            Some(bytes) => bytes.clone(),
            None if p.kind == ParamKind::State => zeros(),
            None => weights[&p.name].clone(),
        };
        data.insert(p.name.clone(), bytes);
    }
    let values = interpreted(g, &data).unwrap().0;
    let floats = |bytes: Vec<u8>| {
        bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect::<Vec<f32>>()
    };
    g.outputs.iter().map(|o| o.name.clone()).zip(values.into_iter().map(floats)).collect()
}
