//! Files of random weights with the shapes, types and metadata of real models: what speed and memory
//! are measured with where the real weights may not be had.
//!
//! Nothing is quantised: blocks are made at random, with scales that keep activations and logits
//! finite. A file is a function of shape, quant and seed.

mod contents;
mod folder;
mod llada2;
mod shapes;
mod tokens;

pub use contents::Tensor;
pub use folder::synth_folder;
pub use llada2::{FOLDERS, Llada2};
pub use rlx_core::weights::random::{Weights, formats};
pub use shapes::{Delta, Experts, Family, SHAPES, Shape};

use crate::new_file::create_gguf;
use crate::tools::mix::{Quant, Role};
use half::bf16;
use rlx_core::Result;
use rlx_core::gguf::{TensorSpec, Value, Writer};
use rlx_core::types::DType;
use std::path::Path;

/// Bytes made at once: all of the weights that are ever in memory.
const PIECE: usize = 1 << 20;

/// Writes a model of random weights. `progress` is told bytes so far and of how many. Returns the
/// file's size.
///
/// # Errors
/// As [`create_gguf`].
pub fn synth(
    shape: &Shape,
    quant: Quant,
    seed: u64,
    out: &Path,
    force: bool,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<u64> {
    let (tensors, specs) = tensors(shape, quant);
    let mut stream = create_gguf(out, &metadata(shape, quant, seed), &specs, force)?;
    let total = stream.layout().file_bytes();
    for (i, (tensor, spec)) in tensors.iter().zip(&specs).enumerate() {
        if tensor.role == Role::RopeFactors {
            stream.write(&stored(&shape.rope_factors(), spec.dtype))?;
            continue;
        }
        let (bytes, mut done) = (stream.layout().bytes(i), stream.layout().offset(i));
        pieces(tensor, spec.dtype, bytes, seed, i as u32, &mut |piece| {
            stream.write(piece)?;
            done += piece.len() as u64;
            progress(done, total);
            Ok(())
        })?;
    }
    stream.end()?.commit()?;
    Ok(total)
}

/// What such a file begins with and where its tensors lie, for whoever needs no tensor: a compiler.
///
/// # Errors
/// As [`Writer::new`].
pub fn header(shape: &Shape, quant: Quant) -> Result<Writer> {
    Writer::new(&metadata(shape, quant, 0), &tensors(shape, quant).1)
}

/// The tensors of a shape, and how a file of that quant holds them.
fn tensors(shape: &Shape, quant: Quant) -> (Vec<Tensor>, Vec<TensorSpec>) {
    let (tensors, traits) = (shape.tensors(), shape.traits());
    let spec = |t: &Tensor| TensorSpec {
        name: t.name.clone(),
        dtype: quant.of(&traits, t.role, t.dims.last().copied().unwrap_or(1)).0,
        dims: t.dims.clone(),
    };
    let specs = tensors.iter().map(spec).collect();
    (tensors, specs)
}

/// Makes the `bytes` bytes of a model's `i`-th tensor and gives them to `put`, in order.
fn pieces(
    tensor: &Tensor,
    dtype: DType,
    bytes: u64,
    seed: u64,
    i: u32,
    put: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    // Rows of unit length: what is summed over a row keeps its size.
    let row = tensor.dims.last().copied().unwrap_or(1) as f32;
    let weights = |dtype| Weights::new(dtype, row.sqrt().recip(), seed, i);
    if matches!(tensor.role, Role::Norm | Role::Decay) {
        let n = tensor.dims.iter().product::<u64>() as usize;
        let sign = if tensor.role == Role::Decay { -1.0 } else { 1.0 };
        let gains = gains(&weights(DType::F32)?, n, row);
        return put(&stored(&gains.iter().map(|g| sign * g).collect::<Vec<_>>(), dtype));
    }
    let weights = weights(dtype)?;
    let (piece, mut at, mut buffer) = (weights.piece(PIECE) as u64, 0, Vec::new());
    while at < bytes {
        let n = piece.min(bytes - at);
        buffer.resize(n as usize, 0);
        weights.fill(at, &mut buffer);
        put(&buffer)?;
        at += n;
    }
    Ok(())
}

/// Gains of a norm: 1, give or take a tenth.
fn gains(weights: &Weights, n: usize, row: f32) -> Vec<f32> {
    let mut bytes = vec![0; 4 * n];
    weights.fill(0, &mut bytes);
    let gain = |b: &[u8; 4]| 1.0 + 0.1 * f32::from_le_bytes(*b) * row.sqrt();
    bytes.as_chunks::<4>().0.iter().map(gain).collect()
}

/// Numbers as a file has them, in bf16 or f32.
fn stored(values: &[f32], dtype: DType) -> Vec<u8> {
    match dtype {
        DType::BF16 => values.iter().flat_map(|v| bf16::from_f32(*v).to_le_bytes()).collect(),
        _ => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
    }
}

fn metadata(shape: &Shape, quant: Quant, seed: u64) -> Vec<(String, Value)> {
    let text = |text: &str| Value::String(text.to_owned());
    let mut out = vec![
        ("general.architecture".to_owned(), text(shape.family.name())),
        ("general.type".to_owned(), text("model")),
        ("general.name".to_owned(), text(&format!("{}, random weights", shape.name))),
        ("general.description".to_owned(), text(&format!("made by rlx synth, seed {seed}"))),
    ];
    out.extend(shape.metadata());
    if let Some(n) = quant.file_type() {
        out.push(("general.file_type".to_owned(), Value::U32(n)));
    }
    if matches!(quant.base, DType::Block(_)) {
        out.push(("general.quantization_version".to_owned(), Value::U32(2)));
    }
    out.extend(tokens::metadata(shape));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::ModelSource;

    fn made(quant: &str, seed: u64, name: &str) -> Vec<u8> {
        let path =
            std::env::temp_dir().join(format!("rlx-synth-{name}-{}.gguf", std::process::id()));
        let shape = Shape::find("llama-tiny").unwrap();
        let quant = Quant::parse(quant, false).unwrap();
        let mut last = (0, 0);
        let bytes =
            synth(shape, quant, seed, &path, true, &mut |done, of| last = (done, of)).unwrap();
        let file = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(file.len() as u64, bytes);
        assert!(last.0 > 0 && last.0 <= last.1 && last.1 == bytes);
        file
    }

    #[test]
    fn a_file_is_a_function_of_shape_quant_and_seed() {
        let file = made("q4_k_m", 1, "a");
        assert!(file == made("q4_k_m", 1, "b"));
        assert!(file != made("q4_k_m", 2, "c"));
    }

    #[test]
    fn every_quant_gives_a_file_that_the_reader_takes() {
        for name in Quant::names() {
            let file = made(name, 0, "all");
            let source = ModelSource::from_bytes(vec![(name.into(), std::sync::Arc::new(file))]);
            let files = source.unwrap().files;
            assert_eq!(files.tensors.len(), 2 + 2 * 9, "{name}");
            assert_eq!(
                files.metadata.opt_strings("tokenizer.ggml.tokens").unwrap().unwrap().len(),
                320
            );
            let (_, q) = files.tensor("blk.0.attn_q.weight").unwrap();
            assert_eq!(q.dtype, Quant::parse(name, false).unwrap().base, "{name}");
        }
    }
}
