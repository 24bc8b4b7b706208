//! LLaDA (Nie et al. 2025, arXiv:2502.09992): a decoder of Llama's layers whose rows see all others. Text is made of
//! masks behind the prompt, which become tokens in any order: a masked diffusion model. The logits at a position are
//! of that position, not of the next.

use super::checkpoint::{Checkpoint, Source};
use super::decoder::{Attention, Decoder, FeedForward, Layer, Sizes, finish, permuted_pairs};
use super::family::Family;
use super::keys::Keys;
use super::model::Diffusion;
use super::rotary::Rotary;
use crate::error::{Code, Error, Result};
use crate::ops::Unary;
use crate::profile::{Preset, Presets};
use alloc::boxed::Box;
use alloc::format;
use alloc::vec;

/// The family's row.
pub(super) const FAMILY: Family = Family {
    name: "llada",
    presets: Presets { one_row: Preset::Llama32Decode, rows: Preset::Llama32Prefill },
    gguf: &["llada"],
    transformers: &[],
    open: |checkpoint| Ok(Box::new(read(checkpoint)?)),
};

fn read(checkpoint: &Checkpoint<'_>) -> Result<Decoder> {
    let keys = checkpoint.keys()?;
    let sizes = Sizes::read(checkpoint, &keys, Unary::Silu, None)?;
    let rotary = Rotary::read(&keys, sizes.head_dim, sizes.context)?;
    let layer = |i: usize| {
        let attention = Attention::new(sizes.attention(i), Some(false));
        Layer::new(attention, FeedForward::gated(sizes.ffn[i], sizes.act))
    };
    let layers = (0..sizes.layers()).map(layer).collect();
    let diffusion = Some(diffusion(checkpoint, &keys, &sizes)?);
    finish(&keys)?;
    Ok(Decoder {
        diffusion,
        rope_style: permuted_pairs(&keys),
        ..Decoder::new(FAMILY.name, &sizes, vec![rotary], layers)
    })
}

/// How masks become tokens. The keys are llama.cpp's.
pub(super) fn diffusion(
    checkpoint: &Checkpoint<'_>,
    keys: &Keys<'_>,
    sizes: &Sizes,
) -> Result<Diffusion> {
    const MASK: &str = "tokenizer.ggml.mask_token_id";
    const SHIFT: &str = "diffusion.shift_logits";
    let Source::Gguf(files) = checkpoint.source else {
        return Err(Error::new(Code::Unsupported, "LLaDA is read from GGUF files alone")
            .hint("convert the folder with llama.cpp's convert_hf_to_gguf.py"));
    };
    keys.neutral(&[("attention.causal", 0.0, "hides rows from those before them")])?;
    if files.metadata.opt_bool(SHIFT)? == Some(true) {
        let what = format!("{SHIFT} is true: logits at a position are of the next one");
        let mut error = files.metadata.bad_value(SHIFT, what);
        error.code = Code::Unsupported;
        return Err(error.hint("use a LLaDA file, whose logits at a position are of that position"));
    }
    let mask = files.metadata.u32(MASK)?;
    // There is a token beside the mask.
    if u64::from(mask) >= sizes.vocab || sizes.vocab < 2 {
        let what = format!("the mask is token {mask}, and there are {} tokens", sizes.vocab);
        return Err(files.metadata.bad_value(MASK, what));
    }
    // A pass fixes the likeliest token and no other, unless somebody says otherwise: none is likelier than 1.
    Ok(Diffusion { block: sizes.context, whole: true, mask, threshold: 1.0 })
}
