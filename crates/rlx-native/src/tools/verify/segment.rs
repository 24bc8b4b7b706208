//! Masks of a segmenting model against their record, and the stages of its networks if asked.
//!
//! The image is encoded once and its embedding stays on the device, where every prompt of the record reads it: no
//! number of it passes through the host, but for the copy that is compared.

use super::{Comparison, Record, detect};
use crate::block_on::block_on;
use crate::devices::DeviceRow;
use crate::network::{Folder, Network, run};
use rlx_core::models::{self, DETECT, IMAGE_EMBED, MASK, MASK_FROM_MASK, point_label};
use rlx_core::runtime::device::Device;
use rlx_core::runtime::session::{DeviceTensor, Given, Session, Tensor, TensorRef};
use rlx_core::target::CompileOptions;
use rlx_core::types::DType;
use rlx_core::{Error, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A run of the record: its name, and what it shows.
struct Shown {
    name: &'static str,
    points: bool,
    boxes: bool,
    mask: bool,
    /// Whether it asks for the one mask of a prompt that means one thing.
    single: bool,
}

const RUNS: [Shown; 3] = [
    Shown { name: "points", points: true, boxes: false, mask: false, single: false },
    Shown { name: "boxes", points: false, boxes: true, mask: false, single: true },
    Shown { name: "all", points: true, boxes: true, mask: true, single: false },
];

/// The stage that the last run was recorded for; all others are of the first.
const OF_MASK: &str = "sub.prompt_encoder.mask_embed.out";

/// A tensor of the host with its name.
pub(super) struct Host {
    pub name: &'static str,
    pub dtype: DType,
    pub dims: Vec<u64>,
    pub bytes: Vec<u8>,
}

impl Host {
    fn floats(name: &'static str, dims: Vec<u64>, list: &[f32]) -> Self {
        let bytes = list.iter().flat_map(|x| x.to_le_bytes()).collect();
        Host { name, dtype: DType::F32, dims, bytes }
    }

    /// An input of the record as it is.
    pub fn recorded(record: &Record, name: &'static str) -> Result<Self> {
        let key = format!("in.{name}");
        let dims = record.tensor(&key)?.0.shape.clone();
        Ok(Self::floats(name, dims, &record.floats(&key)?))
    }

    pub fn given(&self) -> Given<'_> {
        TensorRef { dtype: self.dtype, dims: &self.dims, bytes: &self.bytes }.into()
    }
}

/// The inputs of a run, as the network takes them: the points of each prompt, then the corners of its box, then one
/// point that is none where there are no boxes, or with `closed` always.
fn inputs(record: &Record, shown: &Shown, closed: bool) -> Result<Vec<Host>> {
    let (points, labels) = (record.floats("in.input_points")?, record.rows("in.input_labels")?);
    let boxes = record.floats("in.input_boxes")?;
    let each = labels.first().map_or(0, Vec::len);
    let whole = points.len() == labels.len() * each * 2 && boxes.len() == labels.len() * 4;
    if each == 0 || !whole {
        return Err(record.bad("points, labels and boxes are not of the same prompts".into()));
    }
    let (mut at, mut of) = (Vec::new(), Vec::new());
    for (prompt, labels) in labels.iter().enumerate() {
        if shown.points {
            at.extend(&points[prompt * each * 2..(prompt + 1) * each * 2]);
            for &label in labels {
                let label = i32::try_from(label);
                of.push(label.map_err(|_| record.bad("in.input_labels is no label".into()))?);
            }
        }
        if shown.boxes {
            at.extend(&boxes[prompt * 4..(prompt + 1) * 4]);
            of.extend([point_label::TOP_LEFT, point_label::BOTTOM_RIGHT]);
        }
        if closed || !shown.boxes {
            at.extend([0.0, 0.0]);
            of.push(point_label::NONE);
        }
    }
    let prompts = labels.len() as u64;
    let count = of.len() as u64 / prompts;
    let mut all = vec![
        Host::floats("input_points", vec![1, prompts, count, 2], &at),
        Host {
            name: "input_labels",
            dtype: DType::I32,
            dims: vec![1, prompts, count],
            bytes: of.iter().flat_map(|n| n.to_le_bytes()).collect(),
        },
    ];
    if shown.mask {
        all.push(Host::recorded(record, "input_masks")?);
    }
    Ok(all)
}

/// Compares every output of the record, and every stage that both have if asked, in the order of the model.
pub(super) fn outputs(
    folder: &Folder,
    record: &Record,
    row: &DeviceRow,
    device: &Arc<dyn Device>,
    tolerance: f64,
    with_stages: bool,
) -> Result<Vec<Comparison>> {
    let entries = Network::of(folder.checkpoint(), folder.maps(), None)?.0.entries;
    if entries.iter().any(|entry| entry.name == DETECT) {
        return detect::outputs(folder, record, row, device, tolerance, with_stages);
    }
    let plain = made(folder, record, row, device, false)?;
    let mut out = Vec::new();
    for name in record.header.tensors.keys().filter(|n| n.starts_with("out.")) {
        out.push(match plain.iter().find(|(have, _)| have == name) {
            Some((_, numbers)) => Comparison::of(name, numbers, &record.floats(name)?, tolerance),
            None if name == "out.image_positional_embeddings" => {
                positions(folder, record, row, device, name, tolerance)?
            }
            None if name.starts_with("out.boxes_first") => {
                Comparison::skip(name, "made with another configuration")
            }
            None => Comparison::skip(name, "the model has no such output"),
        });
    }
    if with_stages {
        for (name, numbers) in made(folder, record, row, device, true)? {
            if name.starts_with("sub.") && record.header.tensors.contains_key(&name) {
                out.push(Comparison::of(&name, &numbers, &record.floats(&name)?, tolerance));
            }
        }
    }
    Ok(out)
}

/// Positions of the image's places, which the network has as rows and the record as channels.
fn positions(
    folder: &Folder,
    record: &Record,
    row: &DeviceRow,
    device: &Arc<dyn Device>,
    name: &str,
    tolerance: f64,
) -> Result<Comparison> {
    let all: BTreeMap<String, Vec<f32>> =
        made(folder, record, row, device, true)?.into_iter().collect();
    let want = record.floats(name)?;
    let channels = record.tensor(name)?.0.shape.get(1).copied().unwrap_or(1).max(1) as usize;
    let Some(rows) = all.get("image_positions") else {
        return Ok(Comparison::skip(name, "the model has no such output"));
    };
    let of = |c: usize| rows.iter().skip(c).step_by(channels).copied();
    let got: Vec<f32> = (0..channels).flat_map(of).collect();
    Ok(Comparison::of(name, &got, &want, tolerance))
}

/// Everything that the record's runs make, by the record's names; with `stages` the points of comparison alone.
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
    // SAM 2 ends prompts with a box too, and sees an image in three sizes.
    let closed = models::open(&folder.checkpoint())?.facts().family != "sam";
    let options = CompileOptions::default();
    let mut session = network.open(row, device.clone(), &options, &mut |_, _| {})?;
    let pixels = Host::recorded(record, "pixel_values")?;
    let mut out = Vec::new();
    let mut take = |tensors: Vec<Tensor>, name: &dyn Fn(&str) -> Option<String>| -> Result<()> {
        for t in tensors {
            if let Some(name) = name(&t.name) {
                out.push((name, t.f32s()?));
            }
        }
        Ok(())
    };
    let pixels =
        [(pixels.name, TensorRef { dtype: DType::F32, dims: &pixels.dims, bytes: &pixels.bytes })];
    take(run(&mut session, IMAGE_EMBED, &pixels)?, &|name| {
        Some(match name {
            _ if name.contains('.') => name.to_owned(),
            "image_embeddings" if closed => "out.image_embeddings.2".to_owned(),
            "middle_embeddings" => "out.image_embeddings.1".to_owned(),
            "fine_embeddings" => "out.image_embeddings.0".to_owned(),
            _ => format!("out.{name}"),
        })
    })?;
    let seen = kept(&mut session, &pixels)?;
    for shown in &RUNS {
        let entry = if shown.mask { MASK_FROM_MASK } else { MASK };
        let hosts = inputs(record, shown, closed)?;
        let mut given: Vec<(&str, Given<'_>)> = hosts.iter().map(|h| (h.name, h.given())).collect();
        given.extend(seen.iter().map(|(name, tensor)| (name.as_str(), tensor.into())));
        let mut run = session.start(entry, &given)?;
        let tensors = block_on(|cx| run.poll(&mut session, cx))?;
        let [masks, scores] = match shown.single {
            true => ["single_mask", "single_score"],
            false => ["pred_masks", "iou_scores"],
        };
        take(tensors, &|name| match name {
            _ if name == masks => Some(format!("out.{}_pred_masks", shown.name)),
            _ if name == scores => Some(format!("out.{}_iou_scores", shown.name)),
            "object_score_logits" => Some(format!("out.{}_object_score_logits", shown.name)),
            OF_MASK => Some(name.to_owned()),
            _ if shown.name == RUNS[0].name
                && (name.contains('.') || name == "image_positions") =>
            {
                Some(name.to_owned())
            }
            _ => None,
        })?;
    }
    Ok(out)
}

/// What the masks' network reads of the image, by name, left on the device.
fn kept(
    session: &mut Session,
    pixels: &[(&str, TensorRef<'_>)],
) -> Result<Vec<(String, DeviceTensor)>> {
    let names: Vec<String> = session.inputs(MASK)?.iter().map(|i| i.name.clone()).collect();
    let mut run = session.start(IMAGE_EMBED, pixels)?;
    let mut kept = Vec::new();
    for name in names.into_iter().filter(|n| !n.starts_with("input_")) {
        let tensor = run.keep(session, &name)?;
        kept.push((name, tensor));
    }
    let rest = block_on(|cx| run.poll(session, cx))?;
    match rest.iter().any(|t| kept.iter().any(|(name, _)| *name == t.name)) {
        false => Ok(kept),
        true => Err(Error::internal("what stays on the device was answered too")),
    }
}
