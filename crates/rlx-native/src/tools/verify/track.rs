//! A thing that is followed through a film, against its record; and what a frame's features become where recorded
//! memories are seen.
//!
//! The record rounds memories to bfloat16, which RLX does not, so frames that follow others have a tolerance of their
//! own; with recorded memories given there is nothing to round.

use super::{Comparison, Record};
use crate::block_on::block_on;
use crate::devices::DeviceRow;
use crate::network::{Folder, Network, run};
use rlx_core::Result;
use rlx_core::models::{CONDITION, Sam2Config, Sam2Video, point_label};
use rlx_core::runtime::device::Device;
use rlx_core::runtime::session::{Session, Tensor, TensorRef};
use rlx_core::runtime::track::{Shown, Tracker};
use rlx_core::safetensors::json::Json;
use rlx_core::target::CompileOptions;
use rlx_core::types::{DType, Scalar};
use std::sync::Arc;

const FRAMES: &str = "in.track.frames_x16";
const MASKS: &str = "out.track.pred_masks";
const SCORES: &str = "out.track.object_score_logits";

/// Whether a record is of a film.
pub(super) fn has(record: &Record) -> bool {
    record.header.tensors.contains_key(FRAMES)
}

/// Compares every output of the record.
pub(super) fn outputs(
    folder: &Folder,
    record: &Record,
    row: &DeviceRow,
    device: &Arc<dyn Device>,
    tolerance: f64,
) -> Result<Vec<Comparison>> {
    let Some(rules) = Sam2Config::open(&folder.checkpoint())?.video else {
        return Err(record.bad("the record is of a film, the model of images".into()));
    };
    let (network, _) = Network::of(folder.checkpoint(), folder.maps(), None)?;
    let options = CompileOptions::default();
    let mut session = network.open(row, device.clone(), &options, &mut |_, _| {})?;
    let (frames, dims) = frames(record)?;
    let mut out = Vec::new();
    for at in 1..dims[0] {
        let name = format!("track.{at}.memory_attention.out");
        if record.header.tensors.contains_key(&name) {
            let got = conditioned(record, &mut session, &rules, [at, dims[0]])?;
            out.push(Comparison::of(&name, &got, &record.floats(&name)?, tolerance));
        }
    }
    let mut tracker = Tracker::new(session, rules)?;
    let points = record.floats("in.track.points")?;
    let labels = record.rows("in.track.labels")?.concat();
    let mut shown = Shown::default();
    for (at, &label) in points.as_chunks::<2>().0.iter().zip(&labels) {
        let label = i32::try_from(label);
        shown.labels.push(label.map_err(|_| record.bad("in.track.labels is no label".into()))?);
        shown.places.push(*at);
    }
    shown.labels.push(point_label::NONE);
    shown.places.push([0.0; 2]);
    let mut film = tracker.film(vec![shown], Some(dims[0]))?;
    let (mut masks, mut scores) = (Vec::new(), Vec::new());
    for pixels in frames.chunks_exact((frames.len() / dims[0] as usize).max(1)) {
        film.frame(&mut tracker, pixels)?;
        for thing in block_on(|cx| film.poll(&mut tracker, cx))? {
            masks.extend(thing.logits);
            scores.push(thing.object);
        }
    }
    let looser = looser(record)?.unwrap_or(tolerance);
    for name in record.header.tensors.keys().filter(|n| n.starts_with("out.")) {
        out.push(match name.as_str() {
            MASKS => Comparison::of(name, &masks, &record.floats(name)?, looser),
            SCORES => Comparison::of(name, &scores, &record.floats(name)?, looser),
            _ => Comparison::skip(name, "made of inputs that no film has"),
        });
    }
    Ok(out)
}

/// The recorded pixels, and their sizes: frames, colours, rows, columns.
fn frames(record: &Record) -> Result<(Vec<f32>, Vec<u64>)> {
    let (tensor, bytes) = record.tensor(FRAMES)?;
    if tensor.dtype != DType::Scalar(Scalar::I8)
        || tensor.shape.len() != 4
        || tensor.shape.contains(&0)
    {
        return Err(record.bad(format!("{FRAMES} is not of frames in steps of a sixteenth")));
    }
    let pixel = |&b: &u8| f32::from(i8::from_le_bytes([b])) / 16.0;
    Ok((bytes.iter().map(pixel).collect(), tensor.shape.clone()))
}

/// The tolerance that the record's metadata name for frames that follow others.
fn looser(record: &Record) -> Result<Option<f64>> {
    let text = record.header.metadata.get("rlx").map_or("{}", String::as_str);
    let json = Json::parse(text.as_bytes(), &record.name, 0)?;
    Ok(json.get("looser").and_then(|l| l.get("out.track")).and_then(Json::as_f64))
}

/// What frame `at` of so many becomes where the recorded memories are seen: those of the frame where the thing was
/// shown, then from the oldest to the last; pointers likewise, but that the last comes first.
fn conditioned(
    record: &Record,
    session: &mut Session,
    rules: &Sam2Video,
    [at, frames]: [u64; 2],
) -> Result<Vec<f32>> {
    let of = |part: &str| format!("track.{at}.memory_attention.{part}");
    let dims = |name: &str| -> Result<Vec<u64>> {
        let input = session.inputs(CONDITION)?.iter().find(|i| i.name == name);
        let dims = input.map_or(&[][..], |i| &i.ty.shape.0);
        Ok(dims.iter().map(|d| d.as_static().unwrap_or(1)).collect())
    };
    let bad = || record.bad(format!("{} is not of this model's memories", of("memory")));
    let (memory, pointer, image) = (dims("memories")?, dims("pointers")?, dims("image_features")?);
    let size = |dims: &[u64]| dims.iter().product::<u64>() as usize;
    let behind_first = |dims: &[u64]| size(dims.get(1..).unwrap_or_default()).max(1);
    let (one, each) = (behind_first(&memory), behind_first(&pointer));
    let all = record.floats(&of("memory"))?;
    let tokens = record.rows(&of("num_object_pointer_tokens"))?.concat();
    let tokens = tokens.first().and_then(|&n| usize::try_from(n).ok()).ok_or_else(bad)?;
    let behind = tokens.checked_mul(rules.width as usize).ok_or_else(bad)?;
    let spatial = all.len().checked_sub(behind).ok_or_else(bad)?;
    let (have, pointers) = (spatial / one, behind / each);
    let whole = spatial == have * one && behind == pointers * each;
    let (k, p) = (rules.memories as usize, rules.pointers as usize);
    if !whole || have == 0 || have > k || pointers > p {
        return Err(bad());
    }
    let padded = |list: &[f32], n: usize| -> Vec<f32> {
        list.iter().copied().chain(std::iter::repeat(0.0)).take(n).collect()
    };
    let time = |i: usize| if (1..have).contains(&i) { have - 1 - i } else { k - 1 };
    let times: Vec<u8> = (0..k).flat_map(|i| (time(i) as u32).to_le_bytes()).collect();
    let seen = |have: usize, of: usize| padded(&vec![1.0; have], of);
    let span = frames.min(rules.pointers).saturating_sub(1).max(1) as f32;
    let age = |i: usize| if i == 0 { at } else { i as u64 };
    let ages: Vec<f32> = (0..p).map(|i| age(i) as f32 / span).collect();
    // Rows of places with all channels, where the network has channels of all places.
    let rows = record.floats(&of("current_vision_features"))?;
    let channels = image.get(1).copied().unwrap_or(1).max(1) as usize;
    let features: Vec<f32> =
        (0..channels).flat_map(|c| rows.iter().skip(c).step_by(channels).copied()).collect();
    let mut hosts = vec![
        ("image_features", image, features),
        ("memories", memory.clone(), padded(&all[..spatial], size(&memory))),
        ("memories_seen", vec![rules.memories], seen(have, k)),
        ("pointers", pointer.clone(), padded(&all[spatial..], size(&pointer))),
        ("pointers_seen", vec![rules.pointers], seen(pointers, p)),
    ];
    if rules.pointer_times {
        hosts.push(("pointer_times", vec![rules.pointers], ages));
    }
    let bytes: Vec<Vec<u8>> =
        hosts.iter().map(|h| h.2.iter().flat_map(|x| x.to_le_bytes()).collect()).collect();
    let mut given: Vec<(&str, TensorRef<'_>)> = hosts
        .iter()
        .zip(&bytes)
        .map(|((name, dims, _), bytes)| (*name, TensorRef { dtype: DType::F32, dims, bytes }))
        .collect();
    let slots = [rules.memories];
    given.push(("memory_times", TensorRef { dtype: DType::U32, dims: &slots, bytes: &times }));
    let made = run(session, CONDITION, &given)?;
    let made = made.first().map(Tensor::f32s).transpose()?.unwrap_or_default();
    // The record has rows of places again.
    let places = made.len() / channels;
    Ok((0..places).flat_map(|i| made.iter().skip(i).step_by(places.max(1)).copied()).collect())
}
