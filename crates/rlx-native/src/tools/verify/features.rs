//! The rows and vectors that a model makes of images against their record, and what lies between its
//! layers if asked.
//!
//! A record has `in.pixel_values`, and perhaps images of other sizes beside it: `in.pixel_values_42x70`
//! belongs to `out.last_hidden_state_42x70`. Layers are recorded of the first.

use super::{Comparison, Record, layers};
use crate::devices::DeviceRow;
use crate::network::{Folder, Network, run};
use rlx_core::models::ENCODE;
use rlx_core::runtime::device::Device;
use rlx_core::runtime::session::{Session, Tensor, TensorRef};
use rlx_core::target::CompileOptions;
use rlx_core::types::DType;
use rlx_core::{Error, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The model's input.
const PIXELS: &str = "pixel_values";

/// What the record calls an output of the images with that tag.
fn recorded(output: &str, tag: &str) -> String {
    match output {
        "hidden" => format!("out.last_hidden_state{tag}"),
        other => format!("out.{other}{tag}"),
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
    let first = format!("in.{PIXELS}");
    let names = || record.header.tensors.keys().map(String::as_str);
    let mut session = session(folder, row, device, false)?;
    let mut got: BTreeMap<String, Vec<f32>> = BTreeMap::new();
    for input in names().filter(|n| n.starts_with(&first)) {
        let tag = &input[first.len()..];
        for t in made(&mut session, record, input)? {
            got.insert(recorded(&t.name, tag), t.f32s()?);
        }
    }
    let mut out = Vec::new();
    for name in names().filter(|n| n.starts_with("out.")) {
        out.push(match got.get(name) {
            Some(values) => Comparison::of(name, values, &record.floats(name)?, tolerance),
            None => Comparison::skip(name, "the model has no such output"),
        });
    }
    if with_layers {
        let mut session = self::session(folder, row, device, true)?;
        let taps = made(&mut session, record, &first)?;
        let values = taps.iter().map(Tensor::f32s).collect::<Result<Vec<_>>>()?;
        let made: Vec<(&str, &[f32])> =
            taps.iter().zip(&values).map(|(t, v)| (t.name.as_str(), v.as_slice())).collect();
        out.extend(layers::compared(record, &made, tolerance)?);
    }
    Ok(out)
}

/// The model on the device; with `taps` those are outputs too, in the order of the model.
fn session(
    folder: &Folder,
    row: &DeviceRow,
    device: &Arc<dyn Device>,
    taps: bool,
) -> Result<Session> {
    let (mut network, _) = Network::of(folder.checkpoint(), folder.maps(), None)?;
    let entry = network.entries.first_mut().ok_or_else(|| Error::internal("no entry"))?;
    let module = entry.module.as_hir_mut()?;
    if taps {
        module.output_taps();
    }
    network.open(row, device.clone(), &CompileOptions::default(), &mut |_, _| {})
}

/// What the model makes of recorded pixels.
fn made(session: &mut Session, record: &Record, input: &str) -> Result<Vec<Tensor>> {
    let dims = record.tensor(input)?.0.shape.clone();
    let bytes: Vec<u8> = record.floats(input)?.iter().flat_map(|x| x.to_le_bytes()).collect();
    let pixels = TensorRef { dtype: DType::F32, dims: &dims, bytes: &bytes };
    run(session, ENCODE, &[(PIXELS, pixels)])
}
