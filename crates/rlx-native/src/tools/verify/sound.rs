//! Logits of a model that hears against their record, and what lies between its layers if asked.
//!
//! A record has one sound alone, and a batch whose shorter sound is padded at its end. Frames past
//! `out.batch_frames`, which reach into padding, are zero in the record and are left out.

use super::{Comparison, Record, layers};
use crate::devices::DeviceRow;
use crate::network::{Folder, Network, run};
use rlx_core::models::{Facts, Wav2Vec2Config};
use rlx_core::runtime::device::Device;
use rlx_core::runtime::session::{Session, Tensor, TensorRef};
use rlx_core::target::CompileOptions;
use rlx_core::types::DType;
use rlx_core::{Error, Result};
use std::sync::Arc;

/// Compares every output of the record, and every point between layers if asked.
pub(super) fn outputs(
    folder: &Folder,
    record: &Record,
    row: &DeviceRow,
    device: &Arc<dyn Device>,
    tolerance: f64,
    with_layers: bool,
) -> Result<Vec<Comparison>> {
    let checkpoint = folder.checkpoint();
    let (mut network, _): (Network<'_>, Facts) = Network::of(checkpoint, folder.maps(), None)?;
    let entry = network.entries.first_mut().ok_or_else(|| Error::internal("no entry"))?;
    let (name, module) = (entry.name.clone(), entry.module.as_hir_mut()?);
    if with_layers {
        module.output_taps();
    }
    let options = CompileOptions::default();
    let mut session = network.open(row, device.clone(), &options, &mut |_, _| {})?;
    let alone = heard(&mut session, &name, record, "")?;
    let mut batch = heard(&mut session, &name, record, "batch_")?;
    let frames = real_frames(folder, record)?;
    let each = batch.numbers.len() / frames.len().max(1);
    for (sound, &real) in batch.numbers.chunks_mut(each.max(1)).zip(&frames) {
        sound.iter_mut().skip(real as usize * batch.vocab).for_each(|x| *x = 0.0);
    }
    let mut out = Vec::new();
    for name in record.header.tensors.keys().filter(|n| n.starts_with("out.")) {
        out.push(match name.as_str() {
            "out.logits" => Comparison::of(name, &alone.numbers, &record.floats(name)?, tolerance),
            "out.ids" => {
                let ids: Vec<u32> = alone.numbers.chunks(alone.vocab).map(largest).collect();
                Comparison::of_ids(name, &ids, &record.ids(name)?)
            }
            "out.batch_logits" => {
                Comparison::of(name, &batch.numbers, &record.floats(name)?, tolerance)
            }
            "out.batch_frames" => Comparison::of_ids(name, &frames, &record.ids(name)?),
            _ => Comparison::skip(name, "this version does not know how to make it"),
        });
    }
    if with_layers {
        let rows = alone.outputs.iter().map(|t| Ok((t.name.as_str(), t.f32s()?)));
        let rows = rows.collect::<Result<Vec<_>>>()?;
        let made: Vec<(&str, &[f32])> =
            rows.iter().map(|(name, rows)| (*name, rows.as_slice())).collect();
        out.extend(layers::compared(record, &made, tolerance)?);
    }
    Ok(out)
}

/// What the model returned for a sound or a batch.
struct Heard {
    outputs: Vec<Tensor>,
    /// Logits, all frames of all sounds.
    numbers: Vec<f32>,
    /// Logits of a frame, 1 or more.
    vocab: usize,
}

/// Runs the record's sound, or its batch; samples of a sound alone are all real.
fn heard(session: &mut Session, entry: &str, record: &Record, which: &str) -> Result<Heard> {
    let key = format!("in.{which}input_values");
    let dims = record.tensor(&key)?.0.shape.clone();
    let sounds = record.floats(&key)?;
    let mask = match which {
        "" => vec![1; sounds.len()],
        _ => record.ids(&format!("in.{which}attention_mask"))?,
    };
    let samples: Vec<u8> = sounds.iter().flat_map(|x| x.to_le_bytes()).collect();
    let mask: Vec<u8> = mask.iter().flat_map(|x| x.to_le_bytes()).collect();
    let inputs = [
        ("input_values", TensorRef { dtype: DType::F32, dims: &dims, bytes: &samples }),
        ("attention_mask", TensorRef { dtype: DType::U32, dims: &dims, bytes: &mask }),
    ];
    let outputs = run(session, entry, &inputs)?;
    let logits = outputs.iter().find(|t| t.name == "logits");
    let logits = logits.ok_or_else(|| Error::internal("the model returns no logits"))?;
    let vocab = logits.dims.last().map_or(1, |&n| n.max(1) as usize);
    Ok(Heard { numbers: logits.f32s()?, vocab, outputs })
}

/// Frames of each sound of the batch that reach into no padding.
fn real_frames(folder: &Folder, record: &Record) -> Result<Vec<u32>> {
    let (stride, reach) = Wav2Vec2Config::open(&folder.checkpoint())?.frame();
    let frames = |mask: &Vec<i64>| {
        let real = mask.iter().filter(|&&m| m != 0).count() as u64;
        real.checked_sub(reach).map_or(0, |room| (room / stride + 1) as u32)
    };
    Ok(record.rows("in.batch_attention_mask")?.iter().map(frames).collect())
}

/// The place of the largest number, the first of equal ones.
fn largest(row: &[f32]) -> u32 {
    let mut best = 0;
    for (i, x) in row.iter().enumerate() {
        if *x > row[best] {
            best = i;
        }
    }
    best as u32
}
