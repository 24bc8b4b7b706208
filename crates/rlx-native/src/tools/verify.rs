//! Comparing with recorded truth: a model's outputs with what PyTorch wrote, block formats with
//! what ggml decodes.
//!
//! A model's folder has `config.json`, `model.safetensors` and `io.safetensors`; the record's
//! metadata key `rlx` holds the family and the tolerance. A batch is run row by row and padding is
//! left out: rows are fed as their real tokens, on whichever side the padding was. Activations are f32,
//! as in the record, and so are K/V unless another type is asked for, which has a tolerance of its own
//! ([`cache_tolerance`]). What lies between layers is compared if asked: `verify/layers.rs`.
//!
//! Records of networks that generate no text are in `verify/encoder.rs` (vectors of texts), `verify/features.rs` (of
//! images), `verify/sound.rs` (transcripts), `verify/segment.rs` (masks), `verify/track.rs` (of films)
//! and `verify/imagine.rs` (images).
//!
//! A language model in a GGUF file is compared with what llama.cpp recorded: `verify/answers.rs`.
//!
//! A file of block formats is decoded by the reference executor, whichever device is named: other
//! executors read packed weights inside their matmuls, and parity tests compare those.

mod answers;
mod blocks;
mod detect;
mod encoder;
mod features;
mod imagine;
mod json;
mod layers;
mod lengths;
mod segment;
mod sound;
mod track;

pub use answers::{Wanted, verify_answers};
pub use json::Verified;

use crate::block_on::block_on;
use crate::devices::DeviceRow;
use crate::files::open_safetensors;
use crate::load::put;
use crate::network::Folder;
use rlx_core::compare::difference_of_any;
use rlx_core::formats::decode_row;
use rlx_core::lower::{CTL, PARAMS, ProgramSpec};
use rlx_core::models::{self, Task};
use rlx_core::runtime::device::{
    Device, DeviceInfo, Outputs, SharedBytes, Submission, Write, WriteTo,
};
use rlx_core::runtime::model::{CompiledModel, ModelOptions};
use rlx_core::runtime::session::Session;
use rlx_core::safetensors::{Header, Tensor, json::Json};
use rlx_core::sample::{Control, SampleParams};
use rlx_core::target::{Activations, CompileOptions};
use rlx_core::types::{BlockFormat, DType, Scalar};
use rlx_core::{Code, Error, Result};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Rows of a chunk: less than the longest recorded prompt, so that one spans chunks.
const CHUNK: u64 = 32;

/// The program that returns every row's logits, and the one that returns taps beside them.
const VERIFY: &str = "verify";
const LAYERS: &str = "verify_layers";

/// One output against its record.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// `out.logits`, `layer.0`, `Q4_K`.
    pub name: String,
    /// Numbers compared.
    pub elements: usize,
    /// The largest absolute difference; infinite if one side has NaN where the other has none, and NaN
    /// for what was skipped.
    pub difference: f64,
    /// The same over the largest absolute recorded value.
    pub relative: f64,
    /// Cosine of both as vectors.
    pub cosine: f64,
    /// The largest `relative` that passes; 0 for what must be equal.
    pub tolerance: f64,
    /// Why it was not compared.
    pub skipped: Option<String>,
}

impl Comparison {
    /// Compares two lists of equal length, by [`difference_of_any`].
    pub fn of(name: &str, got: &[f32], want: &[f32], tolerance: f64) -> Self {
        let found = difference_of_any(got, want);
        let (difference, relative) = (found.absolute, found.relative());
        let (mut dot, mut got2, mut want2) = (0f64, 0f64, 0f64);
        for (&a, &b) in got.iter().zip(want) {
            // Recorded formats hold NaN and infinities, which have no direction.
            if a.to_bits() == b.to_bits() && !b.is_finite() || a.is_nan() && b.is_nan() {
                continue;
            }
            let (a, b) = (f64::from(a), f64::from(b));
            (dot, got2, want2) = (dot + a * b, got2 + a * a, want2 + b * b);
        }
        let cosine = if got2 == 0.0 && want2 == 0.0 { 1.0 } else { dot / (got2 * want2).sqrt() };
        let (name, elements) = (name.to_owned(), want.len());
        Comparison { name, elements, difference, relative, cosine, tolerance, skipped: None }
    }

    /// Compares two lists of tokens, which must be equal.
    fn of_ids(name: &str, got: &[u32], want: &[u32]) -> Self {
        // Ids are exact in f32: a vocabulary is far below 2^24.
        let float = |ids: &[u32]| ids.iter().map(|&id| id as f32).collect::<Vec<_>>();
        Self::of(name, &float(got), &float(want), 0.0)
    }

    fn skip(name: &str, why: impl Into<String>) -> Self {
        Comparison {
            name: name.to_owned(),
            elements: 0,
            difference: f64::NAN,
            relative: f64::NAN,
            cosine: f64::NAN,
            tolerance: 0.0,
            skipped: Some(why.into()),
        }
    }

    /// Whether it is within its tolerance. What was skipped is not.
    pub fn passes(&self) -> bool {
        self.skipped.is_none() && self.relative <= self.tolerance
    }
}

/// What was compared, and on what it ran.
#[derive(Clone, Debug)]
pub struct Report {
    /// The record's family; of a file of block formats `block formats`.
    pub family: String,
    /// Which executor ran.
    pub info: DeviceInfo,
    /// One row an output, then one a point between layers, in the order of the model.
    pub outputs: Vec<Comparison>,
}

impl Report {
    /// The first point between layers that is further from the record than it may be.
    pub fn first_layer_that_differs(&self) -> Option<&Comparison> {
        self.outputs.iter().find(|c| !c.name.starts_with("out.") && !c.passes())
    }
}

/// A safetensors file whose tensors are read as numbers.
struct Record {
    header: Header,
    bytes: SharedBytes,
    name: String,
}

impl Record {
    fn open(path: &Path) -> Result<Self> {
        let (header, bytes) = open_safetensors(path)?;
        Ok(Record { header, bytes, name: path.display().to_string() })
    }

    fn bad(&self, what: String) -> Error {
        Error::bad_file(what).at(self.name.clone()).hint("give a record that is whole")
    }

    fn tensor(&self, name: &str) -> Result<(&Tensor, &[u8])> {
        let t = self
            .header
            .tensors
            .get(name)
            .ok_or_else(|| self.bad(format!("tensor {name} is missing")))?;
        let (from, to) = (t.offset as usize, (t.offset + t.bytes) as usize);
        let bytes = (*self.bytes).as_ref().get(from..to);
        Ok((t, bytes.ok_or_else(|| self.bad(format!("tensor {name} lies outside the file")))?))
    }

    fn floats(&self, name: &str) -> Result<Vec<f32>> {
        let (t, bytes) = self.tensor(name)?;
        if t.dtype != DType::F32 {
            return Err(self.bad(format!("tensor {name} is {}, expected f32", t.dtype.name())));
        }
        Ok(bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect())
    }

    /// Integers of a matrix `[rows, columns]`, row by row; all of one row for other shapes.
    fn rows(&self, name: &str) -> Result<Vec<Vec<i64>>> {
        let (t, bytes) = self.tensor(name)?;
        let all: Vec<i64> = match t.dtype {
            DType::Scalar(Scalar::I64) => {
                bytes.as_chunks::<8>().0.iter().map(|b| i64::from_le_bytes(*b)).collect()
            }
            DType::Scalar(Scalar::U8) => bytes.iter().map(|&b| i64::from(b)).collect(),
            other => {
                return Err(self.bad(format!("tensor {name} is {}, expected i64", other.name())));
            }
        };
        let columns = t.shape.last().copied().unwrap_or(1).max(1) as usize;
        Ok(all.chunks(columns).map(<[i64]>::to_vec).collect())
    }

    fn ids(&self, name: &str) -> Result<Vec<u32>> {
        let rows = self.rows(name)?;
        rows.concat().into_iter().map(|id| self.id(name, id)).collect()
    }

    fn id(&self, name: &str, id: i64) -> Result<u32> {
        u32::try_from(id).map_err(|_| self.bad(format!("{name} holds {id}, which is no token")))
    }

    /// The real tokens of each row of `in.<batch>_input_ids`, and which positions they have.
    fn batch(&self, batch: &str) -> Result<Vec<Vec<(usize, u32)>>> {
        let name = format!("in.{batch}_input_ids");
        let ids = self.rows(&name)?;
        let mask = self.rows(&format!("in.{batch}_attention_mask"))?;
        let row = |(ids, mask): (&Vec<i64>, &Vec<i64>)| -> Result<Vec<(usize, u32)>> {
            let real = ids.iter().zip(mask).enumerate().filter(|(_, (_, m))| **m != 0);
            real.map(|(at, (&id, _))| Ok((at, self.id(&name, id)?))).collect()
        };
        ids.iter().zip(&mask).map(row).collect()
    }
}

/// A loaded model whose every row can be looked at.
struct Runner {
    compiled: CompiledModel,
    session: Session,
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
}

impl Runner {
    fn run(&self, program: &str, writes: &[Write]) -> Result<Outputs> {
        let ticket = self.session.submit(program, &Submission::new(writes))?;
        block_on(|cx| self.session.poll(ticket, cx))
    }

    fn state(&self, name: &str, bytes: Vec<u8>) -> Result<Write> {
        Ok(Write { to: WriteTo::State(self.session.state(name)?), offset: 0, bytes })
    }

    /// What a chunk writes first.
    fn chunk(&self, ids: &[u32], past: usize, limit: u32) -> Result<Vec<Write>> {
        let control = Control {
            past: past as u32,
            len: ids.len() as u32,
            limit,
            capacity: self.compiled.context as u32,
            ..Control::default()
        };
        let mut writes = vec![
            self.state(CTL, words(&control.to_words()))?,
            self.state(PARAMS, words(&SampleParams::default().to_words()))?,
            Write { to: WriteTo::Input(0), offset: 0, bytes: words(ids) },
        ];
        if past == 0 {
            let states = self.compiled.recurrences().into_iter();
            writes.extend(states.map(|(state, bytes)| Write::zeros(state, bytes)));
        }
        Ok(writes)
    }

    fn fits(&self, tokens: usize) -> Result<()> {
        if tokens as u64 > self.compiled.context || tokens == 0 {
            return Err(Error::bad_file(format!(
                "the record has a prompt of {tokens} tokens, the model takes 1 to {}",
                self.compiled.context
            )));
        }
        Ok(())
    }

    /// Every output of such a program over a prompt, by name: its real rows one after another.
    fn all_rows(&self, program: &str, ids: &[u32]) -> Result<BTreeMap<String, Vec<f32>>> {
        self.fits(ids.len())?;
        let names = self.session.outputs(program)?.iter().map(|o| o.name.clone());
        let names: Vec<String> = names.collect();
        let mut out: BTreeMap<String, Vec<f32>> = BTreeMap::new();
        for (i, piece) in ids.chunks(CHUNK as usize).enumerate() {
            let writes = self.chunk(piece, i * CHUNK as usize, u32::MAX)?;
            let outputs = self.run(program, &writes)?;
            for (name, bytes) in names.iter().zip(&outputs.values) {
                let rows = floats(bytes);
                let real = rows.len() / CHUNK as usize * piece.len();
                out.entry(name.clone()).or_default().extend(&rows[..real]);
            }
        }
        Ok(out)
    }

    fn logits(&self, ids: &[u32]) -> Result<Vec<f32>> {
        self.all_rows(VERIFY, ids)?
            .remove("logits")
            .ok_or_else(|| Error::internal("the program verify returns no logits"))
    }

    /// Greedy decoding as an engine does it: the prompt in chunks, then one step a token, which the
    /// device feeds itself. Returns the tokens and the logits each was chosen from.
    fn greedy(&self, prompt: &[u32], tokens: usize) -> Result<(Vec<u32>, Vec<f32>)> {
        self.fits(prompt.len() + tokens)?;
        let split = (prompt.len() - 1) / CHUNK as usize * CHUNK as usize;
        if split > 0 {
            self.all_rows(VERIFY, &prompt[..split])?;
        }
        let (mut ids, mut logits) = (Vec::new(), Vec::new());
        let mut writes = self.chunk(&prompt[split..], split, u32::MAX)?;
        for i in 0..tokens {
            let program = if i == 0 { "prefill_last_logits" } else { "decode_logits" };
            let outputs = self.run(program, &writes)?;
            writes.clear();
            let [token, row] = outputs.values.as_slice() else {
                return Err(Error::internal(format!("{program} has other outputs than two")));
            };
            let id = token.first_chunk::<4>().map(|b| u32::from_le_bytes(*b));
            ids.push(id.ok_or_else(|| Error::internal("a token of less than 4 bytes"))?);
            logits.extend(floats(row));
        }
        Ok((ids, logits))
    }
}

/// The family and the tolerance, from the record's metadata.
fn about(record: &Record) -> Result<(String, f64)> {
    let text = record.header.metadata.get("rlx");
    let text = text.ok_or_else(|| record.bad("the metadata key rlx is missing".into()))?;
    let json = Json::parse(text.as_bytes(), &record.name, 0)?;
    let tolerance = json.get("tolerance").and_then(|t| t.get("relative_to_largest"));
    let tolerance = tolerance.and_then(Json::as_f64);
    let family = json.get("family").and_then(Json::as_str).unwrap_or("unknown");
    Ok((
        family.to_owned(),
        tolerance.ok_or_else(|| record.bad("the record names no tolerance".into()))?,
    ))
}

/// The largest difference, relative to the largest value, that caches of a type may make.
///
/// Measured, CPU and reference alike: on the recorded random model of two layers f16 makes 7.3e-4 at
/// most and q8_0 2.16e-2 (a batch's logits), some 30 times as much, as its step is to f16's. On the
/// trained models of the tests q8_0 makes up to 4.3e-3 with f32 activations.
pub fn cache_tolerance(kv: DType) -> f64 {
    match kv {
        DType::F32 => 0.0,
        DType::F16 => 3e-3,
        DType::Block(BlockFormat::Q4_0) => 0.5,
        _ => 3e-2,
    }
}

/// Compares a model's folder with its record, with caches of type `kv`, and what lies between layers if asked.
///
/// # Errors
/// `Usage` for layers of a record that has none; `Io` and `BadFile` for files that are missing or malformed; what
/// the compiler and the device
/// meet. A difference is no error here: ask [`Comparison::passes`].
pub fn verify_model(
    dir: &Path,
    row: &DeviceRow,
    device: Arc<dyn Device>,
    kv: DType,
    layers: bool,
) -> Result<Report> {
    let folder = Folder::open(dir)?;
    let record = Record::open(&dir.join("io.safetensors"))?;
    let (family, tolerance) = about(&record)?;
    let info = device.info();
    let task = models::open(&folder.checkpoint())?.facts().task;
    let outputs = match task {
        Task::Embed => encoder::outputs(&folder, &record, row, &device, tolerance, layers)?,
        Task::Features => features::outputs(&folder, &record, row, &device, tolerance, layers)?,
        Task::Generate => {
            let tolerance = tolerance.max(cache_tolerance(kv));
            generated(&folder, &record, row, device, (tolerance, kv), layers)?
        }
        Task::Segment if track::has(&record) => {
            track::outputs(&folder, &record, row, &device, tolerance)?
        }
        Task::Segment => segment::outputs(&folder, &record, row, &device, tolerance, layers)?,
        Task::Transcribe => sound::outputs(&folder, &record, row, &device, tolerance, layers)?,
        Task::Imagine => imagine::outputs(&folder, &record, row, &device, tolerance, layers)?,
    };
    Ok(Report { family, info, outputs })
}

/// Makes what is recorded of a language model, with caches of a type, and compares it.
fn generated(
    folder: &Folder,
    record: &Record,
    row: &DeviceRow,
    device: Arc<dyn Device>,
    (tolerance, kv): (f64, DType),
    layers: bool,
) -> Result<Vec<Comparison>> {
    let mut programs = vec![
        ProgramSpec::verify(CHUNK, false),
        ProgramSpec::prefill(CHUNK),
        ProgramSpec::prefill_last(CHUNK).with_logits(),
        ProgramSpec::decode().with_logits(),
    ];
    if layers {
        programs.push(ProgramSpec { name: LAYERS.into(), ..ProgramSpec::verify(CHUNK, true) });
    }
    let options = |block: Option<u64>, context: Option<u64>| ModelOptions {
        conversations: 0,
        block,
        context,
        chunk: CHUNK,
        compile: CompileOptions {
            kv,
            // Windows as short as the records' are rings.
            cache_spare: Some(CHUNK),
            ..CompileOptions::default()
        },
        activations: Activations::F32.into(),
        presets: true,
        programs: programs.clone(),
    };
    let runner = |block, context| -> Result<Runner> {
        let target = device.target();
        let compiled = CompiledModel::new(&folder.checkpoint(), target, &options(block, context))?;
        let (maps, keeps, device) = (folder.maps(), row.keeps_maps, device.clone());
        let session = put(&compiled, maps, device, keeps, &mut |_, _, _| {}, &mut |_, _| {})?;
        Ok(Runner { compiled, session })
    };
    // A record of block diffusion has logits under two lengths of blocks, one of LongRoPE under two contexts; its
    // layers are of the shorter one.
    let edge = lengths::short(record)?;
    let shorter = runner(blocks::length(record)?, edge)?;
    let runner = runner(None, None)?;
    let mut outputs = Vec::new();
    let names = || record.header.tensors.keys().map(String::as_str);
    for name in names().filter(|n| n.starts_with("out.")) {
        if let Some(sampled) = blocks::sampled(&shorter, record, name)? {
            outputs.push(sampled);
            continue;
        }
        if edge.is_some() {
            let sides = [&shorter, &runner];
            if let Some(made) = lengths::output(sides, record, name, tolerance)? {
                outputs.push(made);
                continue;
            }
        }
        let is_shorter = name == "out.block_logits" || edge.is_some() && !lengths::is_long(name);
        let runner = if is_shorter { &shorter } else { &runner };
        outputs.push(output(runner, record, name, tolerance)?);
    }
    if layers {
        let rows = shorter.all_rows(LAYERS, &record.ids("in.input_ids")?)?;
        let taps = shorter.compiled.module.taps.iter().map(|(tap, _)| tap.as_str());
        let made: Vec<(&str, &[f32])> =
            taps.filter_map(|tap| Some((tap, rows.get(tap)?.as_slice()))).collect();
        outputs.extend(layers::compared(record, &made, tolerance)?);
    }
    Ok(outputs)
}

/// Makes one recorded output and compares it.
fn output(runner: &Runner, record: &Record, name: &str, tolerance: f64) -> Result<Comparison> {
    let vocab = runner.compiled.module.vocab as usize;
    let got = match name {
        "out.logits" | "out.block_logits" => runner.logits(&record.ids("in.input_ids")?)?,
        "out.long_tail_logits" => {
            let all = runner.logits(&record.ids("in.long_input_ids")?)?;
            let tail = record.floats(name)?.len().min(all.len());
            all[all.len() - tail..].to_vec()
        }
        "out.batch_logits" => {
            // Rows of padding are zero in the record.
            let mut all = vec![0.0; record.floats(name)?.len()];
            let batch = record.batch("batch")?;
            let length = all.len() / vocab / batch.len().max(1);
            for (b, row) in batch.iter().enumerate() {
                let ids: Vec<u32> = row.iter().map(|&(_, id)| id).collect();
                let logits = runner.logits(&ids)?;
                for (&(at, _), one) in row.iter().zip(logits.chunks(vocab)) {
                    let to = (b * length + at) * vocab;
                    all[to..to + vocab].copy_from_slice(one);
                }
            }
            all
        }
        "out.left_last_logits" => {
            let mut all = Vec::new();
            for row in record.batch("left")? {
                let ids: Vec<u32> = row.iter().map(|&(_, id)| id).collect();
                let logits = runner.logits(&ids)?;
                all.extend(&logits[logits.len() - vocab..]);
            }
            all
        }
        "out.step_logits" => {
            let want = record.floats(name)?;
            runner.greedy(&record.ids("in.prompt_ids")?, want.len() / vocab)?.1
        }
        "out.greedy" => {
            let want = record.ids(name)?;
            let got = runner.greedy(&record.ids("in.prompt_ids")?, want.len())?.0;
            return Ok(Comparison::of_ids(name, &got, &want));
        }
        _ => return Ok(Comparison::skip(name, "this version does not know how to make it")),
    };
    Ok(Comparison::of(name, &got, &record.floats(name)?, tolerance))
}

/// Checks block formats bit for bit: `<TYPE>.bytes` decoded must be `<TYPE>.f32`. NaN equals NaN.
/// With `types` only those are looked at; letter case does not matter.
///
/// # Errors
/// `Usage` for a type that the file does not have; `Io` and `BadFile` for the file.
pub fn verify_formats(path: &Path, types: &[String]) -> Result<Report> {
    let record = Record::open(path)?;
    let names: Vec<&str> =
        record.header.tensors.keys().filter_map(|n| n.strip_suffix(".bytes")).collect();
    if names.is_empty() {
        return Err(record.bad("no tensor is named <TYPE>.bytes".into()));
    }
    for wanted in types {
        if !names.iter().any(|n| n.eq_ignore_ascii_case(wanted)) {
            return Err(Error::usage(format!("--types {wanted}: the file has no such type"))
                .at(record.name.clone())
                .hint(format!("it has {}", names.join(", "))));
        }
    }
    let wanted = |n: &&&str| types.is_empty() || types.iter().any(|t| t.eq_ignore_ascii_case(n));
    let mut outputs = Vec::new();
    for &name in names.iter().filter(wanted) {
        let lower = name.to_lowercase();
        let Some(dtype) =
            BlockFormat::from_name(&lower).map(DType::Block).or_else(|| DType::from_name(&lower))
        else {
            outputs.push(Comparison::skip(name, "unknown type"));
            continue;
        };
        let want = record.floats(&format!("{name}.f32"))?;
        let mut got = vec![0.0; want.len()];
        outputs.push(
            match decode_row(dtype, record.tensor(&format!("{name}.bytes"))?.1, &mut got) {
                Ok(()) => Comparison::of(name, &got, &want, 0.0),
                Err(e) if e.code == Code::Unsupported => {
                    Comparison::skip(name, "not supported yet")
                }
                Err(e) => return Err(e.at(record.name.clone())),
            },
        );
    }
    let info = DeviceInfo { kind: "reference".into(), ..DeviceInfo::default() };
    Ok(Report { family: "block formats".into(), info, outputs })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_difference_is_relative_to_the_largest_recorded_value() {
        let c = Comparison::of("x", &[1.0, -4.5], &[1.0, -4.0], 0.2);
        assert_eq!((c.difference, c.relative, c.passes()), (0.5, 0.125, true));
        assert!(!Comparison { tolerance: 0.1, ..c }.passes());
    }

    #[test]
    fn a_nan_on_one_side_never_passes() {
        let c = Comparison::of("x", &[f32::NAN], &[1.0], 1e9);
        assert!(c.difference.is_infinite() && !c.passes());
        let c = Comparison::of("x", &[1.0], &[f32::INFINITY], 1e9);
        assert!(!c.passes());
        assert!(Comparison::of("x", &[f32::NAN, 1.0], &[f32::NAN, 1.0], 0.0).passes());
        // Nothing is compared where all is NaN, whatever the tolerance.
        assert!(!Comparison::of("x", &[f32::NAN; 2], &[f32::NAN; 2], f64::MAX).passes());
    }

    #[test]
    fn other_lengths_never_pass() {
        assert!(!Comparison::of("x", &[1.0], &[1.0, 2.0], 1e9).passes());
    }
}
