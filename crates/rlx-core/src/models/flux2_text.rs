//! FLUX.2's reader of prompts: a language model whose rows between layers say what an image shows.
//!
//! D model   H query heads   K key and value heads   E width of a head   N chosen layers
//!
//! No text is generated, so the network ends behind the last layer that is chosen, and has neither caches nor a
//! head. It differs from the language model in what it returns: the rows of N layers, side by side.
//!
//! Batches are padded at their end. Rows of padding see the real tokens before them, and no row sees padding: the
//! transformer reads those rows too, so they must be what they were in training.

use super::checkpoint::Checkpoint;
use super::decoder::{
    Attention, BranchNorms, Decoder, FeedForward, KvSource, Layer, Mixer, Names, Part, QkNorm,
};
use super::diffusers::{Net, fixed};
use super::encoder::{self, TextInputs};
use super::entry::Entry;
use super::model::Task;
use super::registry::{open, presets};
use super::rotary::Rotary;
use super::tensors::Tensors;
use crate::error::{Code, Error, Result};
use crate::ir::hir::Tensor;
use crate::ops::{
    Binary, Cast, Compare, Comparison, Constant, Gather, Iota, Mask, RmsNorm, RopeStyle, Sdpa,
    Select,
};
use crate::types::{BATCH, DType, Dim, SEQ, Shape};
use alloc::format;
use alloc::string::String;
use alloc::vec;

/// The entry that makes rows of a prompt: `input_ids` and `attention_mask`, both `[BATCH, SEQ]` of u32, to `rows`
/// `[BATCH, SEQ, N * D]`.
pub const ENCODE_TEXT: &str = "encode_text";

/// Added to a score that does not count: its exponential is 0.
const HIDDEN: f64 = -1e9;

/// What is known of rows of prompts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PromptRows {
    /// N * D.
    pub width: u64,
    /// Tokens the model knows.
    pub vocab: u64,
    /// Positions it was trained for.
    pub context: u64,
}

/// The entry [`ENCODE_TEXT`] of a language model's folder or file. `layers` are counted as transformers counts
/// `hidden_states`: 0 are the embeddings, k what layer k - 1 makes of them.
///
/// # Errors
/// `Unsupported` for what is no language model, and for one with other layers than attention and a gated
/// feed-forward; `BadFile` for one of too few layers, and for a tensor that is missing or has another shape.
pub fn prompt_rows(checkpoint: &Checkpoint<'_>, layers: &[u64]) -> Result<(Entry, PromptRows)> {
    let model = open(checkpoint)?;
    let facts = model.facts();
    let refused = |what: String| {
        Err(Error::new(Code::Unsupported, what)
            .hint("rows of prompts come from a language model such as qwen3"))
    };
    let Some(decoder) = model.decoder().filter(|_| facts.task == Task::Generate) else {
        return refused(format!("a model of family {} {}", facts.family, facts.task.does()));
    };
    let last = layers.iter().copied().max().unwrap_or(0);
    // Rows behind the last layer are normalised, which no pipeline asks for.
    if last >= facts.layers || layers.is_empty() {
        let what = format!(
            "rows behind layer {last} are read, and the model has {} layers: expected more",
            facts.layers
        );
        return Err(Error::bad_file(what));
    }
    if let Some(part) = unlike(decoder, last) {
        let what = format!("a model of family {} has {part}", facts.family);
        return refused(format!("{what}: its rows are not made"));
    }
    let tensors = Tensors::new(checkpoint);
    let reader =
        Reader { decoder, names: Names { naming: tensors.naming(), renamed: decoder.renamed } };
    let mut net = Net::new(ENCODE_TEXT, &tensors);
    reader.build(&mut net, layers, last)?;
    let module = net.m;
    // What is behind the last layer that is read.
    let naming = tensors.naming();
    tensors.inert(|name| naming.layer_of(name).is_some_and(|(layer, _)| layer >= last));
    tensors.inert(|name| name.ends_with(".rotary_emb.inv_freq"));
    for rest in [reader.names.output_norm(), reader.names.head()] {
        tensors.inert(|name| name.strip_prefix(rest).is_some_and(|end| end == ".weight"));
    }
    tensors.finish()?;
    let entry = Entry {
        name: ENCODE_TEXT.into(),
        module: module.into(),
        profile: presets(facts.family).map(|p| p.rows.profile()),
    };
    let width = decoder.dim * layers.len() as u64;
    Ok((entry, PromptRows { width, vocab: facts.vocab, context: facts.context }))
}

/// What a model has that this network has not.
fn unlike(d: &Decoder, layers: u64) -> Option<&'static str> {
    let layers = d.layers.iter().take(layers as usize);
    let mut parts = layers.filter_map(|layer| match (&layer.mixer, &layer.feed_forward) {
        (Mixer::Attention(a), FeedForward::Gated { fused: false, .. }) => {
            let plain = Attention {
                qk_norm: a.qk_norm.filter(|&norm| norm == QkNorm::Head),
                rotary: Some(0),
                output_bias: a.output_bias,
                ..Attention::new([a.heads, a.kv_heads, a.head_dim], a.bias)
            };
            let norms = layer.norms == BranchNorms::Before && layer.residual_scale == 1.0;
            match (*a == plain, norms) {
                (true, true) => None,
                (false, _) => Some("other attention than this network"),
                (_, false) => Some("norms or factors of its branches"),
            }
        }
        (Mixer::Attention(_), _) => Some("other feed-forwards than this network"),
        _ => Some("layers without attention"),
    });
    parts.next().or_else(|| {
        let plain = d.norm_offset == 0.0
            && d.embedding_scale == 1.0
            && d.rope_style == RopeStyle::Half
            && d.layer_inputs.is_none()
            && !d.layer_scales
            && d.diffusion.is_none();
        (!plain).then_some("other rows than this network")
    })
}

struct Reader<'a> {
    decoder: &'a Decoder,
    names: Names,
}

impl Reader<'_> {
    fn build(&self, net: &mut Net<'_, '_>, layers: &[u64], last: u64) -> Result<()> {
        let d = self.decoder;
        let inputs = encoder::inputs(&mut net.m, false);
        let Some(rotary) = d.rotary.first() else {
            return Err(Error::internal("a model of attention has no positions"));
        };
        if rotary.divisors(net.tensors, d.context)?.is_some() {
            let what = "the file divides the frequencies of its positions by a tensor";
            return Err(Error::new(Code::Unsupported, what)
                .hint("give the transformers folder of the model"));
        }
        let table = net.tensors.weight(self.names.embedding(), &[d.vocab, d.dim])?;
        let dtype = table.ty.dtype;
        let table = net.m.weight(table);
        let mut x = net.m.op(Gather::default(), &[table, inputs.ids], "token_embd");
        if dtype != DType::F32 {
            x = net.m.op(Cast { to: DType::F32 }, &[x], "token_embd_f32");
        }
        let seen = seen(net, &inputs)?;
        // In the order of the list, which may have a layer twice.
        let mut behind = vec![x];
        for (i, layer) in d.layers.iter().enumerate().take(last as usize) {
            x = self.layer(net, x, seen, rotary, layer, i)?;
            net.tap(format!("layer.{i}"), x);
            behind.push(x);
        }
        let mut chosen = layers.iter().filter_map(|&k| behind.get(k as usize).copied());
        let first = chosen.next().ok_or_else(|| Error::internal("no layer is chosen"))?;
        let rows = chosen.fold(first, |rows, x| net.concat([rows, x], 2, "rows"));
        net.m.output("rows", rows);
        Ok(())
    }

    fn layer(
        &self,
        net: &mut Net<'_, '_>,
        x: Tensor,
        seen: Tensor,
        rotary: &Rotary,
        layer: &Layer,
        i: usize,
    ) -> Result<Tensor> {
        // Others were refused.
        let (Mixer::Attention(a), &FeedForward::Gated { width, act, bias, .. }) =
            (&layer.mixer, &layer.feed_forward)
        else {
            return Err(Error::internal("a layer of another kind"));
        };
        debug_assert_eq!(a.kv_source, KvSource::Own);
        let (dim, at) = (self.decoder.dim, |part| self.names.layer(i, part));
        let (q_dim, kv_dim) = (a.heads * a.head_dim, a.kv_heads * a.head_dim);
        let h = self.norm(net, x, &at(Part::AttnNorm), dim)?;
        let mut turned = |part, norm, heads: u64| -> Result<Tensor> {
            let name = at(part);
            let mut y = linear(net, h, &name, [heads * a.head_dim, dim], a.bias)?;
            if a.qk_norm.is_some() {
                let rows = |last: &[u64]| {
                    let last = last.iter().map(|&n| fixed(n));
                    [Dim::symbol(BATCH), Dim::symbol(SEQ)].into_iter().chain(last).collect()
                };
                y = net.reshape(y, rows(&[heads, a.head_dim]), &format!("{name}_heads"));
                y = self.norm(net, y, &at(norm), a.head_dim)?;
                y = net.reshape(y, rows(&[heads * a.head_dim]), &format!("{name}_rows"));
            }
            let table = rotary.table(self.decoder.context);
            Ok(net.m.encoder_rope(y, a.head_dim as usize, table, &format!("{name}_rope")))
        };
        let q = turned(Part::Q, Part::QNorm, a.heads)?;
        let k = turned(Part::K, Part::KNorm, a.kv_heads)?;
        let v = linear(net, h, &at(Part::V), [kv_dim, dim], a.bias)?;
        let sdpa = Sdpa {
            kv_heads: a.kv_heads as usize,
            mask: Mask::Bias,
            ..Sdpa::new(a.heads as usize, a.head_dim as usize)
        };
        let y = net.m.op(sdpa, &[q, k, v, seen], &format!("blk.{i}.attn"));
        let y = linear(net, y, &at(Part::O), [dim, q_dim], a.output_bias)?;
        let x = net.zip(Binary::Add, [x, y], &format!("blk.{i}.attn_residual"));
        let h = self.norm(net, x, &at(Part::FfnNorm), dim)?;
        let gate = linear(net, h, &at(Part::Gate), [width, dim], bias)?;
        let gate = net.map(act, gate, &format!("blk.{i}.ffn_act"));
        let up = linear(net, h, &at(Part::Up), [width, dim], bias)?;
        let y = net.zip(Binary::Mul, [gate, up], &format!("blk.{i}.ffn_glu"));
        let y = linear(net, y, &at(Part::Down), [dim, width], bias)?;
        Ok(net.zip(Binary::Add, [x, y], &format!("blk.{i}.ffn_residual")))
    }

    /// RMS norm of the last axis.
    fn norm(&self, net: &mut Net<'_, '_>, x: Tensor, name: &str, width: u64) -> Result<Tensor> {
        let w = net.wide(&format!("{name}.weight"), &[width])?;
        Ok(net.m.op(RmsNorm { eps: self.decoder.eps }, &[x, w], name))
    }
}

/// A linear layer with a bias, without one, or as the file has it.
fn linear(
    net: &mut Net<'_, '_>,
    x: Tensor,
    name: &str,
    sizes: [u64; 2],
    bias: Option<bool>,
) -> Result<Tensor> {
    let bias = bias.unwrap_or_else(|| net.tensors.has(&format!("{name}.bias")));
    net.linear(x, name, sizes, bias)
}

/// What is added to scores: 0 for a real token that is not behind the row, else [`HIDDEN`] and more.
/// `[BATCH, 1, SEQ, SEQ]`.
fn seen(net: &mut Net<'_, '_>, inputs: &TextInputs) -> Result<Tensor> {
    let (seq, one) = (Dim::symbol(SEQ), fixed(1));
    let count = Iota { dtype: DType::F32, dims: Shape(vec![seq.clone()]), axis: 0 };
    let count = net.m.op(count, &[], "place");
    let row = vec![one.clone(), one.clone(), seq.clone(), one.clone()];
    let row = net.reshape(count, row, "place_of_row");
    let key = net.reshape(
        count,
        vec![one.clone(), one.clone(), one.clone(), seq.clone()],
        "place_of_key",
    );
    let before = net.m.op(Compare { f: Comparison::Ge }, &[row, key], "not_behind");
    let mut number = |x: f64, label: &str| -> Result<Tensor> {
        Ok(net.m.op(Constant::scalar(DType::F32, x)?, &[], label))
    };
    let (none, hidden) = (number(0.0, "seen")?, number(HIDDEN, "hidden")?);
    let causal = net.m.op(Select, &[before, none, hidden], "causal");
    // 1 for a real token and 0 for padding.
    let padding = net.with_number(Binary::Sub, inputs.mask, 1.0, "padding")?;
    let padding = net.with_number(Binary::Mul, padding, -HIDDEN, "padding_hidden")?;
    let dims = vec![Dim::symbol(BATCH), one.clone(), one, seq];
    let padding = net.reshape(padding, dims, "padding_of_keys");
    Ok(net.zip(Binary::Add, [causal, padding], "seen_keys"))
}
