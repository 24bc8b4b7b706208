//! Which tensors a GGUF file of a decoder has, and how each is made of the folder's. This is the builder of
//! `models/decoder` written once more with the names of both kinds of file side by side.

use super::view::View;
use crate::error::{Code, Error, Result};
use crate::models::checkpoint::Checkpoint;
use crate::models::decoder::{
    Attention, Banks, BranchNorms, Decoder, DeltaNet, Experts, FeedForward, KvSource,
    LatentAttention, Mixer, Names, Part, Projections, QkNorm,
};
use crate::models::microscaled;
use crate::models::naming::Naming;
use crate::ops::{RopeScaling, RopeStyle};
use crate::types::{BlockFormat, DType, Scalar};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// What a tensor's numbers are.
#[derive(Clone, Debug, PartialEq)]
pub enum Numbers {
    /// Views one behind the other.
    Views(Vec<View>),
    /// A weight that the host packs of two tensors.
    Packed(String),
    /// These, which a folder has in its configuration.
    Values(Vec<f32>),
}

/// What happens to each number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// Nothing.
    None,
    /// This is added: GGUF files have norms whole that folders have as a difference from 1.
    Add(f32),
    /// `-exp(x)`: what a recurrence fades by.
    Decay,
}

/// A tensor of the GGUF file.
#[derive(Clone, Debug, PartialEq)]
pub struct Converted {
    /// Its name.
    pub name: String,
    /// Its sizes, outermost first.
    pub dims: Vec<u64>,
    /// Its element type in the folder.
    pub dtype: DType,
    /// What it is made of.
    pub numbers: Numbers,
    /// What happens to them.
    pub change: Change,
}

/// The tensors of a decoder, which `checkpoint` has and `model` was read from.
pub(super) fn tensors(
    checkpoint: &Checkpoint<'_>,
    model: &Decoder,
    architecture: &str,
) -> Result<Vec<Converted>> {
    let names = |naming| Names { naming, renamed: model.renamed };
    let mut plan = Plan {
        checkpoint,
        model,
        from: names(Naming::Transformers),
        to: names(Naming::Gguf),
        paired: paired(architecture),
        keys_apart: architecture == "deepseek2",
        out: Vec::new(),
    };
    plan.all()?;
    Ok(plan.out)
}

/// Whether files of that architecture have the rows of q and k in pairs that turn together.
pub(super) fn paired(architecture: &str) -> bool {
    matches!(architecture, "llama" | "granite" | "minicpm" | "smollm3")
}

struct Plan<'a> {
    checkpoint: &'a Checkpoint<'a>,
    model: &'a Decoder,
    from: Names,
    to: Names,
    /// Whether rows that turn together are put beside each other.
    paired: bool,
    /// Whether products of latent rows to keys and to values are tensors of their own.
    keys_apart: bool,
    out: Vec<Converted>,
}

impl Plan<'_> {
    fn all(&mut self) -> Result<()> {
        let model = self.model;
        self.copy(self.from.embedding(), self.to.embedding())?;
        self.rotary()?;
        if model.layer_inputs.is_some() {
            let both = self.from.layer_inputs().into_iter().zip(self.to.layer_inputs());
            for (from, to) in both {
                self.copy(&format!("{from}.weight"), &format!("{to}.weight"))?;
            }
        }
        for (i, layer) in model.layers.iter().enumerate() {
            match layer.norms {
                BranchNorms::Before => self.norms(i, &[Part::AttnNorm, Part::FfnNorm])?,
                BranchNorms::After => self.norms(i, &[Part::AttnPostNorm, Part::FfnPostNorm])?,
                BranchNorms::Both => {
                    self.norms(i, &[Part::AttnNorm, Part::AttnPostNorm])?;
                    self.norms(i, &[Part::FfnPreNorm, Part::FfnPostNorm])?;
                }
            }
            match &layer.mixer {
                Mixer::Attention(a) => self.attention(i, a)?,
                Mixer::Latent(a) => self.latent(i, a)?,
                Mixer::DeltaNet(d) => self.delta_net(i, d)?,
                Mixer::ShortConv(_) => {
                    self.linear(i, Part::ConvIn)?;
                    self.linear(i, Part::ConvOut)?;
                    let taps = self.layer(i, Part::Conv, ".weight")?;
                    let dims = without_ones(&taps);
                    self.put(i, Part::Conv, ".weight", dims, vec![taps])?;
                }
            }
            self.feed_forward(i, &layer.feed_forward)?;
            if model.layer_inputs.is_some() {
                self.linear(i, Part::LayerInputGate)?;
                self.linear(i, Part::LayerInputUp)?;
                self.norms(i, &[Part::LayerInputNorm])?;
            }
            if model.layer_scales {
                self.whole(i, Part::LayerScale)?;
            }
        }
        let [from, to] = [&self.from, &self.to].map(|n| format!("{}.weight", n.output_norm()));
        self.norm(&from, to)?;
        let own = format!("{}.weight", self.from.head());
        if model.tied != Some(true) && self.has(&own) {
            for end in ["weight", "bias"] {
                let [from, to] = [&self.from, &self.to].map(|n| format!("{}.{end}", n.head()));
                if self.has(&from) {
                    self.copy(&from, &to)?;
                }
            }
        }
        Ok(())
    }

    fn has(&self, name: &str) -> bool {
        self.checkpoint.tensor(name).is_some()
    }

    /// A tensor of the folder, whose elements must be floats.
    fn view(&self, name: &str) -> Result<View> {
        let Some((dtype, dims)) = self.checkpoint.tensor(name) else {
            return Err(Error::bad_file(format!("tensor {name} is missing"))
                .hint("the folder is incomplete, or of another architecture"));
        };
        let floats = [Scalar::F32, Scalar::F16, Scalar::Bf16].map(DType::Scalar);
        if !floats.contains(&dtype) {
            let what = format!("tensor {name} is of type {dtype}, which is not converted");
            return Err(Error::new(Code::Unsupported, what)
                .at(name)
                .hint("use a checkpoint in f32, f16 or bf16"));
        }
        Ok(View::whole(name, dims))
    }

    /// A layer's tensor in the folder.
    fn layer(&self, i: usize, part: Part, end: &str) -> Result<View> {
        let name = format!("{}{end}", self.from.layer(i, part));
        self.view(&name)
    }

    fn push(&mut self, name: String, dims: Vec<u64>, views: Vec<View>, change: Change) {
        let dtype = views.first().and_then(|v| self.checkpoint.tensor(&v.tensor));
        let dtype = dtype.map_or(DType::F32, |t| t.0);
        self.out.push(Converted { name, dims, dtype, numbers: Numbers::Views(views), change });
    }

    /// A layer's tensor in the GGUF file.
    fn put(
        &mut self,
        i: usize,
        part: Part,
        end: &str,
        dims: Vec<u64>,
        views: Vec<View>,
    ) -> Result<()> {
        let name = self.to.layer(i, part);
        if name.ends_with('.') {
            let what = format!("layer {i} has {part:?}, which GGUF files have no tensor for");
            return Err(Error::new(Code::Unsupported, what).hint("use the folder itself"));
        }
        self.push(format!("{name}{end}"), dims, views, Change::None);
        Ok(())
    }

    fn copy(&mut self, from: &str, to: &str) -> Result<()> {
        let view = self.view(from)?;
        self.push(to.into(), sizes(&view), vec![view], Change::None);
        Ok(())
    }

    /// A layer's tensor whose name is whole in both files.
    fn whole(&mut self, i: usize, part: Part) -> Result<()> {
        let (from, to) = (self.from.layer(i, part), self.to.layer(i, part));
        self.copy(&from, &to)
    }

    /// A linear layer's weight, and its bias where there is one.
    fn linear(&mut self, i: usize, part: Part) -> Result<()> {
        for end in [".weight", ".bias"] {
            if end == ".bias" && !self.has(&format!("{}{end}", self.from.layer(i, part))) {
                continue;
            }
            let view = self.layer(i, part, end)?;
            self.put(i, part, end, sizes(&view), vec![view])?;
        }
        Ok(())
    }

    /// A norm to which the model adds its offset.
    fn norm(&mut self, from: &str, to: String) -> Result<()> {
        let view = self.view(from)?;
        self.normed(view, to);
        Ok(())
    }

    fn normed(&mut self, view: View, to: String) {
        let change = match self.model.norm_offset {
            0.0 => Change::None,
            offset => Change::Add(offset),
        };
        let dims = vec![view.elements()];
        self.push(to, dims, vec![view], change);
    }

    fn norms(&mut self, i: usize, parts: &[Part]) -> Result<()> {
        for &part in parts {
            let [from, to] = [&self.from, &self.to].map(|n| format!("{}.weight", n.layer(i, part)));
            self.norm(&from, to)?;
        }
        Ok(())
    }

    /// Rows (or elements) of `heads` heads of which the first `dims` turn: rows that turn together stand half of
    /// these apart in folders, and in pairs in GGUF files of some architectures.
    fn turning(&self, view: View, heads: u64, width: u64) -> Vec<View> {
        let halves = self.model.rope_style == RopeStyle::Half;
        if !(self.paired && halves) {
            return vec![view];
        }
        let dims = self.model.rotary.first().map_or(width, |r| r.dims);
        let pairs = |view: View, axis| view.split(axis, &[2, dims / 2]).swap(axis, axis + 1);
        if dims == width {
            return vec![pairs(view.split(0, &[heads, width]), 1)];
        }
        let each = view.split(0, &[heads, width]);
        let of = |head: u64| {
            let head = each.clone().slice(0, head, 1);
            [pairs(head.clone().slice(1, 0, dims), 1), head.slice(1, dims, width - dims)]
        };
        (0..heads).flat_map(of).collect()
    }

    fn attention(&mut self, i: usize, a: &Attention) -> Result<()> {
        if a.fused {
            self.linear(i, Part::Qkv)?;
        } else if a.gated {
            self.linear(i, Part::Q)?;
        } else {
            self.turned(i, Part::Q, a.heads, a.head_dim)?;
        }
        let own = |part| format!("{}.weight", self.from.layer(i, part));
        // Of a layer that shares another's caches a folder may hold what no one reads.
        let [has_k, has_v, has_norm] = [Part::K, Part::V, Part::KNorm].map(|p| self.has(&own(p)));
        let shares = matches!(a.kv_source, KvSource::Shared(_));
        if !a.fused {
            if !shares || has_k {
                self.turned(i, Part::K, a.kv_heads, a.head_dim)?;
            }
            if a.kv_source == KvSource::Own || (shares && has_v) {
                self.linear(i, Part::V)?;
            }
        }
        self.linear(i, Part::O)?;
        if let Some(over) = a.qk_norm {
            for (part, heads) in [(Part::QNorm, a.heads), (Part::KNorm, a.kv_heads)] {
                if part == Part::KNorm && shares && !has_norm {
                    continue;
                }
                let heads = if over == QkNorm::Head { 1 } else { heads };
                let view = self.layer(i, part, ".weight")?;
                let mut views = self.turning(view, heads, a.head_dim);
                let to = format!("{}.weight", self.to.layer(i, part));
                match (views.len(), views.pop()) {
                    (1, Some(view)) => self.normed(view, to),
                    _ => {
                        let what = "a norm of heads that turn in part cannot be written in pairs";
                        return Err(Error::new(Code::Unsupported, what).at(to));
                    }
                }
            }
        }
        if a.sinks {
            self.whole(i, Part::Sinks)?;
        }
        Ok(())
    }

    /// A projection to heads that turn, with its bias.
    fn turned(&mut self, i: usize, part: Part, heads: u64, width: u64) -> Result<()> {
        for end in [".weight", ".bias"] {
            if end == ".bias" && !self.has(&format!("{}{end}", self.from.layer(i, part))) {
                continue;
            }
            let view = self.layer(i, part, end)?;
            let dims = sizes(&view);
            let views = self.turning(view, heads, width);
            self.put(i, part, end, dims, views)?;
        }
        Ok(())
    }

    fn latent(&mut self, i: usize, a: &LatentAttention) -> Result<()> {
        for part in [Part::LatentKv, Part::LatentKvNorm, Part::O] {
            self.linear(i, part)?;
        }
        match a.query_latent {
            None => self.linear(i, Part::Q)?,
            Some(_) => {
                for part in [Part::LatentQ, Part::LatentQNorm, Part::LatentQUp] {
                    self.linear(i, part)?;
                }
            }
        }
        if !self.keys_apart {
            return self.linear(i, Part::LatentKvUp);
        }
        let both = self.layer(i, Part::LatentKvUp, ".weight")?;
        let both = both.split(0, &[a.heads, a.plain + a.value]);
        let keys = both.clone().slice(1, 0, a.plain).swap(1, 2);
        let values = both.slice(1, a.plain, a.value);
        self.put(i, Part::LatentKeys, ".weight", sizes(&keys), vec![keys])?;
        self.put(i, Part::LatentValues, ".weight", sizes(&values), vec![values])
    }

    fn delta_net(&mut self, i: usize, d: &DeltaNet) -> Result<()> {
        let group = d.heads / d.key_heads;
        let (keys, values) = (d.key_heads * d.key_dim, d.heads * d.value_dim);
        // Files whose gates have rows of their own put value heads of one key head K apart.
        let tiled = d.projections == Projections::Apart;
        let heads = |view: View, axis: usize, width: u64| match tiled {
            true => view.split(axis, &[d.key_heads, group, width]).swap(axis, axis + 1),
            false => view,
        };
        let dim = self.model.dim;
        match d.projections {
            Projections::ByHead | Projections::GatesByHead => {
                if d.projections == Projections::ByHead {
                    let all = self.layer(i, Part::DeltaQkvz, ".weight")?;
                    let each = group * d.value_dim;
                    let all = all.split(0, &[d.key_heads, 2 * (d.key_dim + each)]);
                    let part = |start, len| all.clone().slice(1, start, len);
                    let (q, k) = (part(0, d.key_dim), part(d.key_dim, d.key_dim));
                    let v = part(2 * d.key_dim, each);
                    let z = part(2 * d.key_dim + each, each);
                    let rows = vec![2 * keys + values, dim];
                    self.put(i, Part::DeltaQkv, ".weight", rows, vec![q, k, v])?;
                    self.put(i, Part::DeltaZ, ".weight", vec![values, dim], vec![z])?;
                }
                self.linear(i, Part::DeltaBa)?;
            }
            Projections::Apart => {
                let all = self.layer(i, Part::DeltaQkv, ".weight")?;
                let qk = all.clone().slice(0, 0, 2 * keys);
                let v = heads(all.slice(0, 2 * keys, values), 0, d.value_dim);
                let rows = vec![2 * keys + values, dim];
                self.put(i, Part::DeltaQkv, ".weight", rows, vec![qk, v])?;
                let parts = [(Part::DeltaZ, d.value_dim), (Part::DeltaA, 1), (Part::DeltaB, 1)];
                for (part, width) in parts {
                    let view = self.layer(i, part, ".weight")?;
                    let dims = sizes(&view);
                    self.put(i, part, ".weight", dims, vec![heads(view, 0, width)])?;
                }
            }
        }
        let taps = self.layer(i, Part::Conv, ".weight")?;
        let dims = without_ones(&taps);
        let qk = taps.clone().slice(0, 0, 2 * keys);
        let v = heads(taps.slice(0, 2 * keys, values), 0, d.value_dim);
        self.put(i, Part::Conv, ".weight", dims, vec![qk, v])?;
        let decay = heads(self.layer(i, Part::DeltaDecay, "")?, 0, 1);
        let name = self.to.layer(i, Part::DeltaDecay);
        self.push(name, vec![d.heads], vec![decay], Change::Decay);
        let time = heads(self.layer(i, Part::DeltaTime, "")?, 0, 1);
        self.put(i, Part::DeltaTime, "", vec![d.heads], vec![time])?;
        self.linear(i, Part::DeltaNorm)?;
        let out = self.layer(i, Part::DeltaOut, ".weight")?;
        let dims = sizes(&out);
        self.put(i, Part::DeltaOut, ".weight", dims, vec![heads(out, 1, d.value_dim)])
    }

    fn feed_forward(&mut self, i: usize, ffn: &FeedForward) -> Result<()> {
        match ffn {
            FeedForward::Gated { fused, .. } => {
                match fused {
                    true => self.linear(i, Part::GateUp)?,
                    false => {
                        self.linear(i, Part::Gate)?;
                        self.linear(i, Part::Up)?;
                    }
                }
                self.linear(i, Part::Down)
            }
            FeedForward::Experts(e) => self.experts(i, e),
            FeedForward::Both { experts, .. } => {
                for part in [Part::Gate, Part::Up, Part::Down] {
                    self.linear(i, part)?;
                }
                let norms = [Part::DensePostNorm, Part::ExpertsNorm, Part::ExpertsPostNorm];
                self.norms(i, &norms)?;
                self.whole(i, Part::RouterScale)?;
                self.experts(i, experts)
            }
        }
    }

    fn experts(&mut self, i: usize, e: &Experts) -> Result<()> {
        self.linear(i, Part::Router)?;
        match e.folder {
            Banks::Apart => {
                for part in [Part::GateExperts, Part::UpExperts, Part::DownExperts] {
                    let one = self.from.layer(i, part);
                    let of = |n: u64| format!("{one}.weight").replace('#', &format!("{n}"));
                    let each = (0..e.count).map(|n| self.view(&of(n)));
                    let each = each.collect::<Result<Vec<View>>>()?;
                    let first = each.first().map(sizes).unwrap_or_default();
                    let dims = core::iter::once(e.count).chain(first).collect();
                    self.put(i, part, ".weight", dims, each)?;
                }
            }
            Banks::Halves => {
                self.whole(i, Part::GateUpExperts)?;
                let down = self.layer(i, Part::DownExperts, "")?;
                self.put(i, Part::DownExperts, ".weight", sizes(&down), vec![down])?;
            }
            Banks::TransposedPairs => self.transposed_pairs(i, e)?,
        }
        if e.route.choice_bias {
            self.whole(i, Part::ChoiceBias)?;
        }
        if e.weighted {
            self.whole(i, Part::ExpertScale)?;
        }
        if let Some(shared) = e.shared {
            for part in [Part::SharedGate, Part::SharedUp, Part::SharedDown] {
                self.linear(i, part)?;
            }
            if shared.scored {
                self.linear(i, Part::SharedScore)?;
            }
        }
        Ok(())
    }

    /// Banks of which the gates' and the ups' columns stand in turn: each a tensor of rows of its own.
    fn transposed_pairs(&mut self, i: usize, e: &Experts) -> Result<()> {
        let packed =
            |from: &Names, part| microscaled::is_microscaled(self.checkpoint, &from.layer(i, part));
        let [pairs, down] = [Part::GateUpExperts, Part::DownExperts].map(|p| packed(&self.from, p));
        for (n, part) in (0..).zip([Part::GateExperts, Part::UpExperts]) {
            let dims = vec![e.count, e.width, self.model.dim];
            if pairs {
                self.packed(i, [Part::GateUpExperts, part], dims, [n, 2]);
            } else {
                let both = self.layer(i, Part::GateUpExperts, "")?;
                let rows = both.split(2, &[e.width, 2]).slice(3, n, 1).swap(1, 2);
                self.put(i, part, ".weight", dims, vec![rows])?;
            }
            if e.bias {
                let both = self.layer(i, Part::GateUpExperts, "_bias")?;
                let bias = both.split(1, &[e.width, 2]).slice(2, n, 1);
                self.put(i, part, ".bias", vec![e.count, e.width], vec![bias])?;
            }
        }
        if down {
            let dims = vec![e.count, self.model.dim, e.width];
            self.packed(i, [Part::DownExperts; 2], dims, [0, 1]);
        } else {
            let down = self.layer(i, Part::DownExperts, "")?.swap(1, 2);
            self.put(i, Part::DownExperts, ".weight", sizes(&down), vec![down])?;
        }
        if e.bias {
            let bias = self.layer(i, Part::DownExperts, "_bias")?;
            self.put(i, Part::DownExperts, ".bias", sizes(&bias), vec![bias])?;
        }
        Ok(())
    }

    /// A bank that the folder has in MXFP4, and so the file: these rows of a part, as another one.
    fn packed(&mut self, i: usize, [from, to]: [Part; 2], dims: Vec<u64>, rows: [u64; 2]) {
        self.out.push(Converted {
            name: format!("{}.weight", self.to.layer(i, to)),
            dims,
            dtype: DType::Block(BlockFormat::Mxfp4),
            numbers: Numbers::Packed(microscaled::weight(&self.from.layer(i, from), rows)),
            change: Change::None,
        });
    }

    /// What the frequencies of the first rotary positions are divided by, where keys do not say it.
    fn rotary(&mut self) -> Result<()> {
        let Some(rotary) = self.model.rotary.first() else { return Ok(()) };
        let mut put = |name: &str, values: &[f32]| {
            self.out.push(Converted {
                name: name.into(),
                dims: vec![values.len() as u64],
                dtype: DType::F32,
                numbers: Numbers::Values(values.to_vec()),
                change: Change::None,
            });
        };
        match (&rotary.scaling, &rotary.long) {
            (scaling @ RopeScaling::Llama3 { .. }, _) => {
                put("rope_freqs.weight", &scaling.divisors(rotary.base, rotary.dims as usize));
            }
            (RopeScaling::LongRope { factors, .. }, Some((_, long))) => {
                put("rope_factors_short.weight", factors);
                put("rope_factors_long.weight", long);
            }
            (RopeScaling::LongRope { factors, .. }, None) => put("rope_freqs.weight", factors),
            _ => {}
        }
        Ok(())
    }
}

/// Sizes of a view's axes.
fn sizes(view: &View) -> Vec<u64> {
    view.axes.iter().map(|axis| axis.0).collect()
}

/// The same without those in the middle that are 1: of a convolution whose channels have one input each.
fn without_ones(view: &View) -> Vec<u64> {
    let dims = sizes(view);
    match dims.as_slice() {
        [channels, 1, taps] => vec![*channels, *taps],
        _ => dims,
    }
}
