//! An encoder's rows, taps and vectors against their record.
//!
//! A record's batch is run as it is, padding included, and rows of padding, which are zero in the record, are
//! left out. Vectors are recorded normalised, of every kind of pooling.

use super::{Comparison, Record};
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
        tap if tap.starts_with("layer.") => tap.into(),
        other => format!("out.{other}"),
    }
}

/// Compares every output of the record, and every tap.
pub(super) fn outputs(
    folder: &Folder,
    record: &Record,
    row: &DeviceRow,
    device: &Arc<dyn Device>,
    tolerance: f64,
) -> Result<Vec<Comparison>> {
    let mut got: BTreeMap<String, (Vec<f32>, Vec<u64>)> = BTreeMap::new();
    for (kind, name) in KINDS {
        let checkpoint = folder.checkpoint().with_pooling(Pooling { kind, normalise: true });
        for t in encoded(checkpoint, folder.maps(), record, row, device)? {
            let name = if t.name == "embedding" { name.to_owned() } else { recorded(&t.name) };
            got.insert(name, (t.f32s()?, t.dims));
        }
    }
    let mask: Vec<i64> = record.rows("in.attention_mask")?.concat();
    let mut out = Vec::new();
    let names = record.header.tensors.keys();
    for name in names.filter(|n| n.starts_with("out.") || n.starts_with("layer.")) {
        let Some((rows, dims)) = got.get_mut(name) else {
            out.push(Comparison::skip(name, "the model has no such output"));
            continue;
        };
        let mut want = record.floats(name)?;
        if rows.len() != want.len() {
            let what = format!("{name} has {} numbers, the model makes {}", want.len(), rows.len());
            return Err(record.bad(what));
        }
        if let [_, _, width] = dims[..] {
            for side in [&mut want, rows] {
                let padding = side.chunks_mut(width.max(1) as usize).zip(&mask);
                padding.filter(|(_, m)| **m == 0).for_each(|(row, _)| row.fill(0.0));
            }
        }
        out.push(Comparison::of(name, rows, &want, tolerance));
    }
    Ok(out)
}

/// The outputs of the record's batch, taps included.
fn encoded(
    checkpoint: Checkpoint<'_>,
    maps: &[SharedBytes],
    record: &Record,
    row: &DeviceRow,
    device: &Arc<dyn Device>,
) -> Result<Vec<Tensor>> {
    let (mut network, _): (Network<'_>, Facts) = Network::of(checkpoint, maps, None)?;
    let entry = network.entries.first_mut().ok_or_else(|| Error::internal("no entry"))?;
    let (name, module) = (entry.name.clone(), entry.module.as_hir_mut()?);
    for (tap, x) in module.taps.clone() {
        module.output(tap, x);
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
