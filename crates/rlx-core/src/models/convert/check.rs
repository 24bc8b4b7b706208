//! Whether a GGUF file says all that a model is: its keys are read as any file's are, and what comes out is compared
//! with what the folder says. So a part that GGUF has no word for is found, whichever it is.

use super::keys::refused;
use super::tensors::Converted;
use crate::error::{Error, Result};
use crate::gguf::{HeaderReader, ModelFiles, TensorSpec, Value, Writer};
use crate::math;
use crate::models::checkpoint::Checkpoint;
use crate::models::decoder::{Attention, Banks, Decoder, FeedForward, Layer, Mixer, Projections};
use crate::models::registry::open;
use crate::models::rotary::Rotary;
use crate::ops::{RopeScaling, RopeStyle};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// Positions that the file's module is built over; how many makes no difference to what it reads.
const CONTEXT: u64 = 1;

/// Fails where a file of these keys and tensors would be another model than `model`. `paired`: rows of q and k
/// that turn together stand in pairs in it.
pub(super) fn check(
    model: &Decoder,
    keys: &[(String, Value)],
    tensors: &[Converted],
    paired: bool,
) -> Result<()> {
    let spec =
        |t: &Converted| TensorSpec { name: t.name.clone(), dtype: t.dtype, dims: t.dims.clone() };
    let specs: Vec<TensorSpec> = tensors.iter().map(spec).collect();
    let writer = Writer::new(keys, &specs)?;
    let mut reader = HeaderReader::new("the converted file", Some(writer.file_bytes()));
    reader.push(writer.header())?;
    let header = reader.into_header();
    let header = header.ok_or_else(|| Error::internal("a header that was written is not whole"))?;
    let files = ModelFiles::new(vec![header])?;
    let checkpoint = Checkpoint::gguf(&files);
    let read = open(&checkpoint)?;
    read.module(&checkpoint, CONTEXT)?;
    let read = read.decoder().ok_or_else(|| Error::internal("the file is of no decoder"))?;
    // What `tensors` did to the numbers is what the file is read as.
    let style = if paired { RopeStyle::Adjacent } else { model.rope_style };
    if read.rope_style != style || read.norm_offset != 0.0 {
        return Err(Error::internal("the file's tensors are read otherwise than they are written"));
    }
    compare(&alike(model), &alike(read))
}

/// A decoder without what files of the two kinds have in words of their own, and with the defaults filled in.
fn alike(model: &Decoder) -> Decoder {
    let layer = |layer: &Layer| Layer {
        mixer: match &layer.mixer {
            Mixer::Attention(a) => Mixer::Attention(Attention {
                scale: Some(a.scale.unwrap_or((1.0 / math::sqrt(a.head_dim as f64)) as f32)),
                bias: None,
                output_bias: None,
                ..a.clone()
            }),
            Mixer::DeltaNet(d) => {
                let mut d = *d;
                (d.tiled, d.projections) = (false, Projections::Apart);
                Mixer::DeltaNet(d)
            }
            other => other.clone(),
        },
        feed_forward: match layer.feed_forward.clone() {
            FeedForward::Gated { width, act, fused, .. } => {
                FeedForward::Gated { width, act, fused, bias: None }
            }
            FeedForward::Experts(mut e) => {
                e.folder = Banks::Apart;
                FeedForward::Experts(e)
            }
            FeedForward::Both { width, mut experts } => {
                experts.folder = Banks::Apart;
                FeedForward::Both { width, experts }
            }
        },
        ..layer.clone()
    };
    Decoder { layers: model.layers.iter().map(layer).collect(), ..model.clone() }
}

/// Equal but for the rounding of a logarithm.
fn near(a: f32, b: f32) -> bool {
    (a - b).abs() <= 1e-6 * a.abs()
}

fn compare(want: &Decoder, got: &Decoder) -> Result<()> {
    let (a, b) = (want, got);
    let said = [
        ("the width of rows", a.dim == b.dim),
        ("the vocabulary", a.vocab == b.vocab),
        ("the context", a.context == b.context),
        ("what norms add to the mean square", a.eps == b.eps),
        ("the factor of embeddings", a.embedding_scale == b.embedding_scale),
        ("the factor of logits", a.logit_scale == b.logit_scale),
        ("the bound of logits", a.logit_softcap == b.logit_softcap),
        ("what layers take of the token", a.layer_inputs == b.layer_inputs),
        ("the factors of layers", a.layer_scales == b.layer_scales),
        ("filling blocks by diffusion", a.diffusion == b.diffusion),
        ("the number of layers", a.layers.len() == b.layers.len()),
        ("rotary positions", positions(&a.rotary, &b.rotary)),
    ];
    if let Some((what, _)) = said.iter().find(|(_, same)| !same) {
        return Err(lost(what, None));
    }
    for (i, (a, b)) in a.layers.iter().zip(&b.layers).enumerate() {
        if let Some(what) = layer(a, b) {
            return Err(lost(what, Some(i)));
        }
    }
    Ok(())
}

fn lost(what: &str, layer: Option<usize>) -> Error {
    let of = layer.map_or(String::new(), |i| format!(" of layer {i}"));
    refused(format!("{what}{of} is not what a GGUF file of this architecture says or implies"))
}

fn positions(a: &[Rotary], b: &[Rotary]) -> bool {
    let same = |(a, b): (&Rotary, &Rotary)| {
        let scaling = match (&a.scaling, &b.scaling) {
            // The file has divisors in tensors.
            (RopeScaling::Llama3 { .. } | RopeScaling::LongRope { .. }, _) => true,
            (
                &RopeScaling::Yarn { factor, beta_fast, beta_slow, original, attention, truncate },
                RopeScaling::Yarn { attention: other, .. },
            ) => {
                let other = *other;
                let same = RopeScaling::Yarn {
                    factor,
                    beta_fast,
                    beta_slow,
                    original,
                    attention: other,
                    truncate,
                };
                b.scaling == same && near(attention, other)
            }
            (a, b) => a == b,
        };
        a.base == b.base && a.dims == b.dims && scaling
    };
    a.len() == b.len() && a.iter().zip(b).all(same)
}

/// What differs, if something does.
fn layer(a: &Layer, b: &Layer) -> Option<&'static str> {
    let parts = match (&a.mixer, &b.mixer) {
        (Mixer::Attention(a), Mixer::Attention(b)) => vec![
            ("heads", (a.heads, a.kv_heads, a.head_dim) == (b.heads, b.kv_heads, b.head_dim)),
            ("the window", a.window == b.window),
            ("which positions turn q and k", a.rotary == b.rotary),
            ("the factor of scores", a.scale.zip(b.scale).is_some_and(|(a, b)| near(a, b))),
            ("the bound of scores", a.softcap == b.softcap),
            ("attention sinks", a.sinks == b.sinks),
            ("norms of q and k", a.qk_norm == b.qk_norm),
            ("where keys and values come from", a.kv_source == b.kv_source),
            ("the norm of values", a.v_norm == b.v_norm),
            ("the gate of attention", a.gated == b.gated),
            ("the tensor of q, k and v", a.fused == b.fused),
        ],
        (Mixer::Latent(a), Mixer::Latent(b)) => {
            let scale = near(a.scale, b.scale);
            let mut like = *a;
            like.scale = b.scale;
            vec![("the factor of scores", scale), ("attention over latent rows", like == *b)]
        }
        (a, b) => vec![("the first branch", a == b)],
    };
    let norms = ("where branches are normalised", a.norms == b.norms);
    let scale = ("the factor of branches", a.residual_scale == b.residual_scale);
    let ffn = ("the feed-forward", a.feed_forward == b.feed_forward);
    parts.into_iter().chain([norms, scale, ffn]).find(|(_, same)| !same).map(|(what, _)| what)
}
