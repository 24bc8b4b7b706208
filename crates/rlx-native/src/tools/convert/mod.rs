//! A transformers folder into a GGUF file, a tensor at a time.
//!
//! Inputs are memory maps, and of the output a few megabytes are in memory. What the file has is
//! `rlx_core::models::convert`; which tensor gets which type is `mix.rs`, as for `rlx quantize`. The file gets its name
//! when it is whole (`new_file.rs`).

mod numbers;

use crate::network::Folder;
use crate::new_file::create_gguf;
use crate::tools::mix::{Quant, Traits};
use crate::tools::quantize::convert::Rows;
use crate::tools::quantize::{Fallback, QUANTIZATION_VERSION, check_target, roles};
use numbers::Source;
use rlx_core::gguf::{TensorInfo, TensorSpec, Value};
use rlx_core::models::Checkpoint;
use rlx_core::models::convert::{Conversion, Converted, conversion, tokenizer_keys};
use rlx_core::runtime::device::SharedBytes;
use rlx_core::types::{DType, Scalar};
use rlx_core::{Error, Result};
use std::path::Path;

/// Elements in memory before they are written.
const SLAB: usize = 4 << 20;

/// Choices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvertOptions {
    /// What matrices become; `None`: they keep their type.
    pub quant: Option<Quant>,
    /// Threads that encode, at least 1. They make no difference to the file.
    pub threads: usize,
    /// Whether a file that is there is replaced.
    pub force: bool,
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// `general.architecture`.
    pub architecture: &'static str,
    /// Tensors.
    pub tensors: usize,
    /// Bytes of the file.
    pub bytes: u64,
    /// Tensors with another type than the quant's.
    pub fallbacks: Vec<Fallback>,
}

/// Writes a folder's model, tokenizer and chat template to `out`. `progress` is told bytes of the file so far and of
/// how many.
///
/// # Errors
/// As [`Plan::new`], [`text_keys`] and [`Plan::write`].
pub fn convert(
    folder: &Folder,
    out: &Path,
    options: ConvertOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Written> {
    let checkpoint = folder.checkpoint();
    let plan = Plan::new(&checkpoint, options.quant)?;
    let keys = text_keys(folder, plan.architecture(), plan.vocab())?;
    plan.write(&checkpoint, folder.maps(), keys, out, options, progress)
}

/// Keys of a folder's name, tokenizer and chat template, and of the temperature that it asks for.
///
/// # Errors
/// `Io` without a tokenizer; as the readers of its files, and [`tokenizer_keys`].
pub fn text_keys(folder: &Folder, architecture: &str, rows: u64) -> Result<Vec<(String, Value)>> {
    let files = folder.tokenizer_files()?;
    let vocabulary = files.vocabulary().map_err(|e| folder.located(e))?;
    let name = folder.name().unwrap_or_default();
    let mut keys = vec![("general.name".to_owned(), Value::String(name.clone()))];
    if let Some(temperature) = files.temperature() {
        keys.push(("general.sampling.temp".to_owned(), Value::F32(temperature)));
    }
    let scores = files.sentencepiece();
    keys.extend(
        tokenizer_keys(&vocabulary, scores, architecture, &name, rows)
            .map_err(|e| folder.located(e))?,
    );
    if let Some(template) = files.chat_template_text(false) {
        keys.push(("tokenizer.chat_template".to_owned(), Value::String(template.to_owned())));
        let tools = files.chat_template_text(true).filter(|tools| *tools != template);
        keys.extend(tools.map(|tools| {
            ("tokenizer.chat_template.tool_use".to_owned(), Value::String(tools.to_owned()))
        }));
    }
    Ok(keys)
}

/// A folder's model that can be written, before any byte is.
pub struct Plan {
    conversion: Conversion,
    specs: Vec<TensorSpec>,
    fallbacks: Vec<Fallback>,
    quant: Option<Quant>,
}

impl Plan {
    /// Plans the file of a folder.
    ///
    /// # Errors
    /// As [`conversion`]; `Usage` for a quant that cannot be encoded.
    pub fn new(checkpoint: &Checkpoint<'_>, quant: Option<Quant>) -> Result<Plan> {
        quant.map_or(Ok(()), check_target)?;
        let conversion = conversion(checkpoint)?;
        let (specs, fallbacks) = specs(&conversion, quant);
        Ok(Plan { conversion, specs, fallbacks, quant })
    }

    /// `general.architecture`.
    pub fn architecture(&self) -> &'static str {
        self.conversion.architecture
    }

    /// Rows of the table of embeddings.
    pub fn vocab(&self) -> u64 {
        self.conversion.vocab
    }

    /// Writes the file. `more` are keys of the tokenizer and the like; `maps` are the bytes of the folder's files, as
    /// `checkpoint` numbers them. `progress` is told tensor bytes so far and of how many.
    ///
    /// # Errors
    /// `Usage` for a file in the way; `BadFile` for numbers that are not finite; `Io` where the file cannot be
    /// written.
    pub fn write(
        self,
        checkpoint: &Checkpoint<'_>,
        maps: &[SharedBytes],
        more: Vec<(String, Value)>,
        out: &Path,
        options: ConvertOptions,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Written> {
        let pairs = self.pairs(more);
        let mut stream = create_gguf(out, &pairs, &self.specs, options.force)?;
        let source = Source { checkpoint, maps };
        let total = stream.layout().file_bytes();
        let mut done = 0;
        for (tensor, spec) in self.conversion.tensors.iter().zip(&self.specs) {
            let mut packed = Vec::new();
            source.rows(tensor, SLAB, &mut |from, rows| {
                let piece = match from == spec.dtype {
                    true => rows,
                    false => {
                        let row = tensor.dims.last().copied().unwrap_or(1);
                        let work = Rows::of(&spec.name, row, from, spec.dtype)?;
                        packed.resize(rows.len() / work.bytes.0 * work.bytes.1, 0);
                        work.convert(rows, &mut packed, options.threads.max(1)).map_err(|e| {
                            let what = format!("{}: {}", spec.name, e.what);
                            Error::new(e.code, what).hint(e.hint)
                        })?;
                        &packed
                    }
                };
                stream.write(piece)?;
                done += piece.len() as u64;
                progress(done, total);
                Ok(())
            })?;
        }
        stream.end()?.commit()?;
        Ok(Written {
            architecture: self.conversion.architecture,
            tensors: self.specs.len(),
            bytes: total,
            fallbacks: self.fallbacks,
        })
    }

    /// All keys of the file, the architecture first.
    fn pairs(&self, more: Vec<(String, Value)>) -> Vec<(String, Value)> {
        let mut pairs = self.conversion.keys.clone();
        pairs.push(("general.type".into(), Value::String("model".into())));
        pairs.push(("general.quantization_version".into(), Value::U32(QUANTIZATION_VERSION)));
        let file_type = match self.quant {
            Some(quant) => quant.file_type(),
            None => kept(&self.specs).file_type(),
        };
        if let Some(file_type) = file_type {
            pairs.push(("general.file_type".into(), Value::U32(file_type)));
        }
        pairs.extend(more);
        pairs
    }
}

/// The type of most matrices, of a file whose weights keep theirs.
fn kept(specs: &[TensorSpec]) -> Quant {
    let of = |dtype: DType| {
        let all = specs.iter().filter(|spec| spec.dtype == dtype && spec.dims.len() > 1);
        all.map(|spec| spec.dims.iter().product::<u64>()).sum::<u64>()
    };
    let base = [DType::F32, DType::F16, DType::BF16].into_iter().max_by_key(|&dtype| of(dtype));
    Quant { base: base.unwrap_or(DType::F32), medium: false, pure: false }
}

/// The tensors to write, each with its type: what is no matrix is f32, as llama.cpp wants it.
fn specs(conversion: &Conversion, quant: Option<Quant>) -> (Vec<TensorSpec>, Vec<Fallback>) {
    let info = |t: &Converted| {
        let (name, dims) = (t.name.clone(), t.dims.clone());
        (0, TensorInfo { name, dtype: t.dtype, dims, offset: 0, bytes: 0, at: 0 })
    };
    let infos: Vec<(usize, TensorInfo)> = conversion.tensors.iter().map(info).collect();
    let infos: Vec<&(usize, TensorInfo)> = infos.iter().collect();
    let roles = roles::roles(&infos);
    let traits = traits(conversion, &roles);
    let (mut specs, mut fallbacks) = (Vec::new(), Vec::new());
    for (tensor, role) in conversion.tensors.iter().zip(roles) {
        let row = tensor.dims.last().copied().unwrap_or(1);
        let (dtype, wanted) = match (role, quant) {
            (None, _) => (DType::Scalar(Scalar::F32), DType::Scalar(Scalar::F32)),
            (Some(role), Some(quant)) => quant.of(&traits, role, row),
            (Some(_), None) => (tensor.dtype, tensor.dtype),
        };
        let name = tensor.name.clone();
        if dtype != wanted {
            fallbacks.push(Fallback { name: name.clone(), row, wanted, got: dtype });
        }
        specs.push(TensorSpec { name, dtype, dims: tensor.dims.clone() });
    }
    (specs, fallbacks)
}

/// What a mix asks of the model.
fn traits(conversion: &Conversion, roles: &[Option<crate::tools::mix::Role>]) -> Traits {
    let number = |name: &str| {
        let key = format!("{}.{name}", conversion.architecture);
        let value = conversion.keys.iter().find(|pair| pair.0 == key).map(|pair| &pair.1);
        let first = match value {
            Some(Value::Array(rlx_core::gguf::Array::U32(list))) => list.first().copied(),
            Some(value) => value.as_integer().and_then(|n| u32::try_from(n).ok()),
            None => None,
        };
        first.unwrap_or(0)
    };
    let tied = !conversion.tensors.iter().any(|t| t.name == "output.weight");
    roles::traits_of(
        conversion.architecture,
        number("block_count"),
        [number("attention.head_count"), number("attention.head_count_kv")],
        number("expert_count"),
        tied,
        roles,
    )
}
