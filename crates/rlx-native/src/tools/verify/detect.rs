//! What a model finds for words and boxes against its record, and the stages of its networks if asked.
//!
//! Images and texts are encoded once. What that gives stays on the device, where both runs of the record read it.

use super::segment::Host;
use super::{Comparison, Record};
use crate::block_on::block_on;
use crate::devices::DeviceRow;
use crate::network::{Folder, Network};
use rlx_core::Result;
use rlx_core::models::{DETECT, DETECT_FROM_BOXES, IMAGE_EMBED, TEXT_EMBED};
use rlx_core::runtime::device::Device;
use rlx_core::runtime::session::{DeviceTensor, Given, Session, Tensor};
use rlx_core::target::CompileOptions;
use rlx_core::types::DType;
use std::sync::Arc;

/// Features of an image, and what the record calls them.
const SEEN: [(&str, &str); 3] = [
    ("fine_embeddings", "out.fpn_hidden_states.0"),
    ("middle_embeddings", "out.fpn_hidden_states.1"),
    ("image_embeddings", "out.fpn_hidden_states.2"),
];
const TEXT: &str = "text_embeddings";
/// The stage of which rows of padding say nothing: nobody sees them, and the record's maker hid more from them.
const PADDED: &str = "sub.text_projection.out";
/// The stages of the run with boxes. In an image with fewer boxes than another the record's maker moved the last row.
const OF_BOXES: &str = "sub.geometry_encoder";
const MASK: &str = "in.attention_mask";

/// Compares every output of the record, and every stage that both have if asked, in the order of the model.
pub(super) fn outputs(
    folder: &Folder,
    record: &Record,
    row: &DeviceRow,
    device: &Arc<dyn Device>,
    tolerance: f64,
    with_stages: bool,
) -> Result<Vec<Comparison>> {
    let plain = made(folder, record, row, device, false)?;
    let mut out = Vec::new();
    for name in record.header.tensors.keys().filter(|n| n.starts_with("out.")) {
        out.push(match plain.iter().find(|(have, _)| have == name) {
            Some((_, numbers)) => Comparison::of(name, numbers, &record.floats(name)?, tolerance),
            None if name == "out.fpn_hidden_states.3" => {
                Comparison::skip(name, "nothing of the model reads these features")
            }
            None => Comparison::skip(name, "the model has no such output"),
        });
    }
    if with_stages {
        let real = record.rows(MASK)?.concat();
        for (name, got) in made(folder, record, row, device, true)? {
            if !name.starts_with("sub.") || !record.header.tensors.contains_key(&name) {
                continue;
            }
            let (mut got, mut want) = (got, record.floats(&name)?);
            if name == PADDED {
                let width = got.len() / real.len().max(1);
                for list in [&mut got, &mut want] {
                    let rows = list.chunks(width.max(1)).zip(&real).filter(|(_, real)| **real != 0);
                    *list = rows.flat_map(|(row, _)| row.to_vec()).collect();
                }
            } else if name.starts_with(OF_BOXES) {
                let images = record.tensor("in.input_boxes")?.0.shape.first().copied();
                let one = got.len() / images.unwrap_or(1).max(1) as usize;
                got.truncate(one);
                want.truncate(one);
            }
            out.push(Comparison::of(&name, &got, &want, tolerance));
        }
    }
    Ok(out)
}

/// Everything that the record's runs make, by the record's names; with `stages` the points of comparison too.
fn made(
    folder: &Folder,
    record: &Record,
    row: &DeviceRow,
    device: &Arc<dyn Device>,
    stages: bool,
) -> Result<Vec<(String, Vec<f32>)>> {
    let (mut network, _) = Network::of(folder.checkpoint(), folder.maps(), None)?;
    if stages {
        for entry in &mut network.entries {
            let module = entry.module.as_hir_mut()?;
            module.output_taps();
        }
    }
    let mut session =
        network.open(row, device.clone(), &CompileOptions::default(), &mut |_, _| {})?;
    let mut out = Vec::new();
    let mut take = |tensors: Vec<Tensor>, name: &dyn Fn(&str) -> Option<String>| -> Result<()> {
        for t in tensors {
            if let Some(name) = name(&t.name) {
                out.push((name, t.f32s()?));
            }
        }
        Ok(())
    };
    let of_stage = |name: &str| name.starts_with("sub.").then(|| name.to_owned());
    let pixels = [Host::recorded(record, "pixel_values")?];
    let ids = [words(record, "input_ids")?];
    // Once to be compared, once to stay.
    take(ask(&mut session, IMAGE_EMBED, &pixels, &[])?, &|name| {
        let seen = SEEN.iter().find(|(own, _)| *own == name);
        seen.map(|(_, recorded)| (*recorded).to_owned()).or_else(|| of_stage(name))
    })?;
    take(ask(&mut session, TEXT_EMBED, &ids, &[])?, &of_stage)?;
    let mut kept = stay(&mut session, IMAGE_EMBED, &pixels, &SEEN.map(|(own, _)| own))?;
    kept.extend(stay(&mut session, TEXT_EMBED, &ids, &[TEXT])?);
    let mut hosts = vec![words(record, "attention_mask")?];
    for (entry, run) in [(DETECT, "text"), (DETECT_FROM_BOXES, "boxes")] {
        if entry == DETECT_FROM_BOXES {
            hosts.push(Host::recorded(record, "input_boxes")?);
            hosts.push(words(record, "input_boxes_labels")?);
        }
        let tensors = ask(&mut session, entry, &hosts, &kept)?;
        take(tensors, &|name| match of_stage(name) {
            None if name.contains('.') => None,
            None => Some(format!("out.{run}_{name}")),
            Some(stage) => {
                (stage.starts_with(OF_BOXES) == (entry == DETECT_FROM_BOXES)).then_some(stage)
            }
        })?;
    }
    Ok(out)
}

/// Integers of the record as the network takes them: ids and flags, or labels, which may be negative.
fn words(record: &Record, name: &'static str) -> Result<Host> {
    let key = format!("in.{name}");
    let dtype = if name == "input_boxes_labels" { DType::I32 } else { DType::U32 };
    let mut bytes = Vec::new();
    for n in record.rows(&key)?.concat() {
        let word = match dtype {
            DType::I32 => i32::try_from(n).map(i32::to_le_bytes),
            _ => u32::try_from(n).map(u32::to_le_bytes),
        };
        bytes.extend(word.map_err(|_| record.bad(format!("{key} has {n}")))?);
    }
    Ok(Host { name, dtype, dims: record.tensor(&key)?.0.shape.clone(), bytes })
}

/// Runs an entry to its end.
fn ask(
    session: &mut Session,
    entry: &str,
    hosts: &[Host],
    kept: &[(String, DeviceTensor)],
) -> Result<Vec<Tensor>> {
    let mut given: Vec<(&str, Given<'_>)> = hosts.iter().map(|h| (h.name, h.given())).collect();
    given.extend(kept.iter().map(|(name, tensor)| (name.as_str(), tensor.into())));
    let mut run = session.start(entry, &given)?;
    block_on(|cx| run.poll(session, cx))
}

/// Outputs of an entry, left on the device.
fn stay(
    session: &mut Session,
    entry: &str,
    hosts: &[Host],
    names: &[&str],
) -> Result<Vec<(String, DeviceTensor)>> {
    let given: Vec<(&str, Given<'_>)> = hosts.iter().map(|h| (h.name, h.given())).collect();
    let mut run = session.start(entry, &given)?;
    let mut kept = Vec::new();
    for name in names {
        kept.push(((*name).to_owned(), run.keep(session, name)?));
    }
    block_on(|cx| run.poll(session, cx))?;
    Ok(kept)
}
