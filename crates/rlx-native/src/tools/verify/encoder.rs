//! An encoder's rows and vectors against their record, and what lies between its layers if asked.
//!
//! A record's batch is run as it is, padding included, and rows of padding, which are zero in the record, are
//! left out. Vectors are recorded normalised, of every kind of pooling.

use super::{Comparison, Record, layers};
use crate::devices::DeviceRow;
use crate::network::{Folder, Network, run};
use rlx_core::models::{Checkpoint, Facts, Pooling, PoolingKind};
use rlx_core::runtime::device::{Device, SharedBytes};
use rlx_core::runtime::session::{Tensor, TensorRef};
use rlx_core::target::CompileOptions;
use rlx_core::types::DType;
use rlx_core::{Error, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Kinds of pooling with the names of their records.
const KINDS: [(PoolingKind, &str); 2] =
    [(PoolingKind::Mean, "out.mean_embedding"), (PoolingKind::Cls, "out.cls_embedding")];

/// What the record calls an output.
fn recorded(output: &str) -> String {
    match output {
        "hidden" => "out.last_hidden_state".into(),
        other => format!("out.{other}"),
    }
}

/// Compares every output of the record, and every point between layers if asked.
pub(super) fn outputs(
    folder: &Folder,
    record: &Record,
    row: &DeviceRow,
    device: &Arc<dyn Device>,
    tolerance: f64,
    with_layers: bool,
) -> Result<Vec<Comparison>> {
    let batch = |kind, taps| -> Result<Vec<Tensor>> {
        let checkpoint = folder.checkpoint().with_pooling(Pooling { kind, normalise: true });
        encoded(checkpoint, folder.maps(), record, row, device, taps)
    };
    let mask: Vec<i64> = record.rows("in.attention_mask")?.concat();
    let mut got: BTreeMap<String, Vec<f32>> = BTreeMap::new();
    for (kind, name) in KINDS {
        for t in batch(kind, false)? {
            let name = if t.name == "embedding" { name.to_owned() } else { recorded(&t.name) };
            got.insert(name, real(&t, &mask)?);
        }
    }
    let mut out = Vec::new();
    for name in record.header.tensors.keys().filter(|n| n.starts_with("out.")) {
        out.push(match got.get(name) {
            Some(rows) => Comparison::of(name, rows, &record.floats(name)?, tolerance),
            None => Comparison::skip(name, "the model has no such output"),
        });
    }
    if with_layers {
        let taps = batch(KINDS[0].0, true)?;
        let rows = taps.iter().map(|t| real(t, &mask)).collect::<Result<Vec<_>>>()?;
        let made: Vec<(&str, &[f32])> =
            taps.iter().zip(&rows).map(|(t, rows)| (t.name.as_str(), rows.as_slice())).collect();
        out.extend(layers::compared(record, &made, tolerance)?);
    }
    Ok(out)
}

/// An output's numbers with rows of padding zero, as they are in the record.
fn real(t: &Tensor, mask: &[i64]) -> Result<Vec<f32>> {
    let mut rows = t.f32s()?;
    if let [_, _, width] = t.dims[..] {
        let padding = rows.chunks_mut(width.max(1) as usize).zip(mask);
        padding.filter(|(_, m)| **m == 0).for_each(|(row, _)| row.fill(0.0));
    }
    Ok(rows)
}

/// The outputs of the record's batch; with `taps` those too, in the order of the model.
fn encoded(
    checkpoint: Checkpoint<'_>,
    maps: &[SharedBytes],
    record: &Record,
    row: &DeviceRow,
    device: &Arc<dyn Device>,
    taps: bool,
) -> Result<Vec<Tensor>> {
    let (mut network, _): (Network<'_>, Facts) = Network::of(checkpoint, maps, None)?;
    let entry = network.entries.first_mut().ok_or_else(|| Error::internal("no entry"))?;
    let (name, module) = (entry.name.clone(), entry.module.as_hir_mut()?);
    if taps {
        module.output_taps();
    }
    let options = CompileOptions::default();
    let mut session = network.open(row, device.clone(), &options, &mut |_, _| {})?;
    let mut inputs = Vec::new();
    for input in session.inputs(&name)? {
        let key = format!("in.{}", input.name);
        let dims = record.tensor(&key)?.0.shape.clone();
        let words = record.ids(&key)?.into_iter().flat_map(u32::to_le_bytes);
        inputs.push((input.name.clone(), dims, words.collect::<Vec<u8>>()));
    }
    let inputs: Vec<(&str, TensorRef<'_>)> = inputs
        .iter()
        .map(|(n, dims, bytes)| (n.as_str(), TensorRef { dtype: DType::U32, dims, bytes }))
        .collect();
    run(&mut session, &name, &inputs)
}
