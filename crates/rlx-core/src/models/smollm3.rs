//! SmolLM3 (Bakouch et al. 2025, huggingface.co/blog/smollm3): LLaMA whose every fourth layer has no positions
//! (arXiv:2501.18795).

use super::checkpoint::Checkpoint;
use super::decoder::{
    Attention, Decoder, FeedForward, Layer, Sizes, Sliding, finish, permuted_pairs, windows,
};
use super::family::Family;
use super::rotary::Rotary;
use crate::error::Result;
use crate::ops::Unary;
use crate::profile::{Preset, Presets};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// The family's row.
pub(super) const FAMILY: Family = Family {
    name: "smollm3",
    presets: Presets { one_row: Preset::Llama32Decode, rows: Preset::Llama32Prefill },
    gguf: &["smollm3"],
    transformers: &["smollm3"],
    open: |checkpoint| Ok(Box::new(read(checkpoint)?)),
};

fn read(checkpoint: &Checkpoint<'_>) -> Result<Decoder> {
    const WITH_ROPE: &str = "no_rope_layers";
    let keys = checkpoint.keys()?;
    let sizes = Sizes::read(checkpoint, &keys, Unary::Silu, None)?;
    let rotary = Rotary::read(&keys, sizes.head_dim, sizes.context)?;
    let windows = windows(&keys, sizes.layers(), Sliding::Asked)?;
    // In spite of its name, 1 is a layer whose q and k turn. GGUF files are of every fourth without.
    let every = keys.opt_positive("no_rope_layer_interval")?.unwrap_or(4);
    let turns = match keys.opt_u64s(WITH_ROPE)? {
        Some(list) => {
            keys.one_each(WITH_ROPE, list.len(), sizes.layers() as u64)?;
            list.into_iter().map(|n| n != 0).collect()
        }
        None => {
            (0..sizes.layers() as u64).map(|i| !(i + 1).is_multiple_of(every)).collect::<Vec<_>>()
        }
    };
    let [attention_bias, ffn_bias] = [keys.opt_bool("attention_bias")?, keys.opt_bool("mlp_bias")?];
    let layer = |i: usize| {
        let attention = Attention {
            window: windows[i],
            rotary: turns[i].then_some(0),
            ..Attention::new(sizes.attention(i), attention_bias)
        };
        let feed_forward = FeedForward::Gated {
            width: sizes.ffn[i],
            act: sizes.act,
            fused: false,
            bias: ffn_bias,
        };
        Layer::new(attention, feed_forward)
    };
    let layers = (0..sizes.layers()).map(layer).collect();
    finish(&keys)?;
    Ok(Decoder {
        rope_style: permuted_pairs(&keys),
        ..Decoder::new(FAMILY.name, &sizes, vec![rotary], layers)
    })
}
