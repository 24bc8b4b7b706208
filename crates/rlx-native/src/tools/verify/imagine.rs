//! A model that makes images against its record: the transformer's step, and its way from noise to latents; the
//! autoencoder's images and latents. If asked, the points between layers too, in the order of the model.
//!
//! On the way from noise latents stay on the device: a step's output is the next step's input.

use super::{Comparison, Record};
use crate::block_on::block_on;
use crate::devices::DeviceRow;
use crate::network::{Folder, Network};
use rlx_core::models::{DECODE_IMAGE, DENOISE, DENOISE_STEP, ENCODE_IMAGE, FlowMatch};
use rlx_core::runtime::device::Device;
use rlx_core::runtime::session::{DeviceTensor, Given, Session, Tensor, TensorRef};
use rlx_core::safetensors::json::Json;
use rlx_core::target::CompileOptions;
use rlx_core::types::{DType, Scalar};
use rlx_core::{Error, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Outputs by their names in the record.
type Made = BTreeMap<String, Vec<f32>>;

/// Compares every output of the record, and every point between layers if asked.
pub(super) fn outputs(
    folder: &Folder,
    record: &Record,
    row: &DeviceRow,
    device: &Arc<dyn Device>,
    tolerance: f64,
    with_layers: bool,
) -> Result<Vec<Comparison>> {
    let mut runner = Runner::open(folder, record, row, device, false)?;
    let mut tapped = Runner::open(folder, record, row, device, true)?;
    let mut made = Made::new();
    let mut points = Vec::new();
    if runner.has(DENOISE_STEP) {
        let inputs = runner.inputs(DENOISE_STEP)?;
        made.extend(recorded(runner.run(DENOISE_STEP, &inputs)?)?);
        points = tapped.run(DENOISE_STEP, &inputs)?;
        // Cosines and sines are points between layers, and outputs of the record.
        let is_rope = |t: &&Tensor| t.name.starts_with("rope_");
        let ropes: Vec<Tensor> = points.iter().filter(is_rope).cloned().collect();
        made.extend(recorded(ropes)?);
        runner.denoise(folder, &mut made)?;
    }
    for (entry, input) in [(DECODE_IMAGE, "in.latents"), (ENCODE_IMAGE, "in.image")] {
        if runner.has(entry) && record.header.tensors.contains_key(input) {
            let inputs = [(input[3..].to_owned(), runner.picture(input)?)];
            let outputs = runner.run(entry, &inputs)?;
            points.extend(tapped.run(entry, &inputs)?);
            made.extend(recorded(outputs)?);
        }
    }
    let mut out = Vec::new();
    for name in record.header.tensors.keys().filter(|n| n.starts_with("out.")) {
        out.push(match made.get(name) {
            Some(got) => Comparison::of(name, got, &record.floats(name)?, tolerance),
            None => Comparison::skip(name, "the model has no such output"),
        });
    }
    if with_layers {
        out.extend(layers(record, &points, tolerance)?);
    }
    Ok(out)
}

/// What the record calls an entry's outputs, in its order of axes.
fn recorded(outputs: Vec<Tensor>) -> Result<Made> {
    let name = |t: &Tensor| match (t.name.as_str(), t.dims.len()) {
        ("mean" | "logvar" | "latents", 4) => format!("out.encoded_{}", t.name),
        (name, _) => format!("out.{name}"),
    };
    let numbers = |t: &Tensor| -> Result<Vec<f32>> {
        let x = t.f32s()?;
        Ok(match (t.name.as_str(), t.dims.last()) {
            ("latents", Some(&channels)) if t.dims.len() == 4 => turned(&x, channels as usize),
            _ => x,
        })
    };
    outputs.iter().map(|t| Ok((name(t), numbers(t)?))).collect()
}

/// Rows of so many numbers as columns.
fn turned(x: &[f32], columns: usize) -> Vec<f32> {
    let columns = columns.max(1);
    (0..columns).flat_map(|c| x.iter().skip(c).step_by(columns).copied()).collect()
}

/// Compares points in the order of the model; a point of the record that the model has not is one that differs.
fn layers(record: &Record, points: &[Tensor], tolerance: f64) -> Result<Vec<Comparison>> {
    // `sub.<module>.in` is what a module was given, which is another's output.
    let is_output = |n: &str| {
        n.ends_with(".out")
            || n.rsplit_once('.')
                .is_some_and(|(n, last)| n.ends_with(".out") && last.parse::<u32>().is_ok())
    };
    let names = record.header.tensors.keys().map(String::as_str);
    let mut wanted: Vec<&str> = names.filter(|n| n.starts_with("sub.") && is_output(n)).collect();
    if wanted.is_empty() {
        let what = "--layers: the record has no tensor sub.*";
        return Err(Error::usage(what).at(record.name.clone()).hint("leave --layers out"));
    }
    let mut out = Vec::new();
    for point in points {
        let Some(at) = wanted.iter().position(|n| n[4..] == point.name) else { continue };
        let name = wanted.remove(at);
        out.push(Comparison::of(name, &point.f32s()?, &record.floats(name)?, tolerance));
    }
    out.extend(wanted.iter().map(|name| Comparison::skip(name, "the model has no such point")));
    Ok(out)
}

/// A session, and the record that it is given.
struct Runner<'a> {
    session: Session,
    record: &'a Record,
}

impl<'a> Runner<'a> {
    /// With points between layers the entries answer with those alone.
    fn open(
        folder: &Folder,
        record: &'a Record,
        row: &DeviceRow,
        device: &Arc<dyn Device>,
        taps: bool,
    ) -> Result<Self> {
        let (mut network, _) = Network::of(folder.checkpoint(), folder.maps(), None)?;
        if taps {
            network
                .entries
                .retain(|e| [DENOISE_STEP, DECODE_IMAGE, ENCODE_IMAGE].contains(&&*e.name));
            for entry in &mut network.entries {
                let module = entry.module.as_hir_mut()?;
                module.outputs.clear();
                module.output_taps();
            }
        }
        let options = CompileOptions::default();
        let session = network.open(row, device.clone(), &options, &mut |_, _| {})?;
        Ok(Runner { session, record })
    }

    fn has(&self, entry: &str) -> bool {
        self.session.entries().any(|e| e == entry)
    }

    /// What an entry is given, by the names of its inputs. Positions are the same for every image of a batch, and
    /// recorded with an axis of images.
    fn inputs(&self, entry: &str) -> Result<Vec<(String, Tensor)>> {
        let mut out = Vec::new();
        for input in self.session.inputs(entry)? {
            let key = format!("in.{}", input.name);
            if !self.record.header.tensors.contains_key(&key) {
                continue;
            }
            let recorded = self.record.tensor(&key)?.0;
            let (mut dims, ids) =
                (recorded.shape.clone(), recorded.dtype == DType::Scalar(Scalar::I64));
            let bytes = match ids {
                true => self.record.ids(&key)?.into_iter().flat_map(u32::to_le_bytes).collect(),
                false => bytes_of(&self.record.floats(&key)?),
            };
            if ids && dims.len() == 3 && dims[0] == 1 {
                dims.remove(0);
            }
            let dtype = if ids { DType::U32 } else { DType::F32 };
            out.push((input.name.clone(), Tensor { name: input.name.clone(), dtype, dims, bytes }));
        }
        Ok(out)
    }

    /// A recorded picture; latents are given as rows of channels.
    fn picture(&self, key: &str) -> Result<Tensor> {
        let (mut dims, mut x) =
            (self.record.tensor(key)?.0.shape.clone(), self.record.floats(key)?);
        let &[1, c, h, w] = dims.as_slice() else {
            return Err(self.record.bad(format!("tensor {key} is no picture [1, C, H, W]")));
        };
        if key == "in.latents" {
            x = turned(&x, (h * w) as usize);
            dims = vec![1, h, w, c];
        }
        Ok(Tensor { name: key[3..].into(), dtype: DType::F32, dims, bytes: bytes_of(&x) })
    }

    fn run(&mut self, entry: &str, inputs: &[(String, Tensor)]) -> Result<Vec<Tensor>> {
        let inputs: Vec<(&str, TensorRef<'_>)> =
            inputs.iter().map(|(n, t)| (n.as_str(), t.as_ref())).collect();
        crate::network::run(&mut self.session, entry, &inputs)
    }

    /// The record's way from noise, with the times that the folder's scheduler gives.
    fn denoise(&mut self, folder: &Folder, made: &mut Made) -> Result<()> {
        const SCHEDULER: &str = "scheduler_config.json";
        let Some(text) = folder.text(SCHEDULER)? else { return Ok(()) };
        let schedule = FlowMatch::open(&Json::parse(text.as_bytes(), SCHEDULER, 0)?, SCHEDULER)?;
        let steps = self.record.floats("out.timesteps")?.len() as u64;
        let start = self.record.tensor("in.hidden_states")?.0.shape.clone();
        let &[1, rows, channels] = start.as_slice() else {
            return Err(self.record.bad("in.hidden_states is not [1, latents, channels]".into()));
        };
        let sigmas = schedule.sigmas(rows, steps)?;
        made.insert("out.timesteps".into(), schedule.timesteps(rows, steps)?);
        let mut shared = self.inputs(DENOISE)?;
        let first = self.inputs(DENOISE_STEP)?;
        let first = first.into_iter().find(|(name, _)| name == "hidden_states");
        let first = first.ok_or_else(|| Error::internal("denoise_step without hidden_states"))?.1;
        shared.retain(|(name, _)| !["latents", "sigma", "sigma_next"].contains(&name.as_str()));
        let mut kept: Option<DeviceTensor> = None;
        let (mut predictions, mut latents) = (Vec::new(), Vec::new());
        let number = |x: f32| Tensor {
            name: String::new(),
            dtype: DType::F32,
            dims: vec![1],
            bytes: x.to_le_bytes().to_vec(),
        };
        for pair in sigmas.windows(2) {
            let (sigma, next) = (number(pair[0]), number(pair[1]));
            let now: Given<'_> = match &kept {
                None => first.as_ref().into(),
                Some(t) => t.into(),
            };
            let common = || shared.iter().map(|(n, t)| (n.as_str(), t.as_ref().into()));
            let step: Vec<(&str, Given<'_>)> =
                [("hidden_states", now), ("timestep", sigma.as_ref().into())]
                    .into_iter()
                    .chain(common())
                    .collect();
            let mut run = self.session.start(DENOISE_STEP, &step)?;
            for t in block_on(|cx| run.poll(&mut self.session, cx))? {
                predictions.extend(t.f32s()?);
            }
            let (sigma, next) = (sigma.as_ref().into(), next.as_ref().into());
            let step: Vec<(&str, Given<'_>)> =
                [("latents", now), ("sigma", sigma), ("sigma_next", next)]
                    .into_iter()
                    .chain(common())
                    .collect();
            let mut run = self.session.start(DENOISE, &step)?;
            let made = run.keep(&mut self.session, "latents")?;
            block_on(|cx| run.poll(&mut self.session, cx))?;
            let mut reading = self.session.read(&made)?;
            latents.extend(block_on(|cx| reading.poll(&mut self.session, cx))?.f32s()?);
            kept = Some(made);
        }
        let last = &latents[latents.len() - (rows * channels) as usize..];
        made.insert("out.latents".into(), turned(last, channels as usize));
        made.insert("out.sigmas".into(), sigmas);
        made.insert("out.denoise_predictions".into(), predictions);
        made.insert("out.denoise_latents".into(), latents);
        Ok(())
    }
}

fn bytes_of(x: &[f32]) -> Vec<u8> {
    x.iter().flat_map(|x| x.to_le_bytes()).collect()
}
