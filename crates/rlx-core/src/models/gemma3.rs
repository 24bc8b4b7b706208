//! Gemma 3 (Gemma Team 2025, arXiv:2503.19786), its text model: Gemma 2 without bounds, with norms of the heads of q
//! and k, five layers of a sliding window to one without, and rotary positions of their own in these.

use super::checkpoint::Checkpoint;
use super::decoder::{Attention, Decoder, QkNorm, Sizes, Sliding, windows};
use super::family::Family;
use super::gemma;
use super::gemma2::{attention, layers, softcap};
use super::keys::Keys;
use super::rotary::Rotary;
use crate::error::Result;
use crate::ops::Unary;
use crate::profile::{Preset, Presets};
use alloc::boxed::Box;
use alloc::vec;

/// The family's row.
pub(super) const FAMILY: Family = Family {
    name: "gemma3",
    presets: Presets { one_row: Preset::GemmaDecode, rows: Preset::GemmaPrefill },
    gguf: &["gemma3"],
    transformers: &["gemma3_text"],
    open: |checkpoint| Ok(Box::new(read(checkpoint)?)),
};

fn read(checkpoint: &Checkpoint<'_>) -> Result<Decoder> {
    let keys = checkpoint.keys()?;
    let sizes = Sizes::read(checkpoint, &keys, Unary::Gelu, Some(true))?;
    let windows = windows(&keys, sizes.layers(), Sliding::AllBut(6))?;
    let [full, sliding] = rotaries(&keys, &sizes)?;
    let layer = layers(&keys, &sizes, 62)?;
    let layer = |i: usize| {
        let attention = Attention {
            window: windows[i],
            rotary: Some(usize::from(windows[i].is_some())),
            qk_norm: Some(QkNorm::Head),
            ..attention(&sizes, i)
        };
        layer(attention, i)
    };
    let layers = (0..sizes.layers()).map(layer).collect();
    let logit_softcap = softcap(&keys, "final_logit_softcapping")?;
    let decoder = Decoder::new(FAMILY.name, &sizes, vec![full, sliding], layers);
    gemma::decoder(&keys, &sizes, Decoder { logit_softcap, ..decoder })
}

/// Rotary positions of layers without a window, and of those with one.
fn rotaries(keys: &Keys<'_>, sizes: &Sizes) -> Result<[Rotary; 2]> {
    let (width, context) = (sizes.head_dim, sizes.context);
    let swa = keys.word("rope.freq_base_swa", "rope_local_base_freq");
    let local = keys.opt_above_zero(swa)?.unwrap_or(10000.0);
    if let Some(both) = keys.object("rope_parameters")? {
        let of = |kind| Rotary::from_objects(keys, both.object(kind)?.as_ref(), width, context);
        return Ok([of("full_attention")?, of("sliding_attention")?]);
    }
    Ok([Rotary::read(keys, width, context)?, Rotary::plain(local, width)])
}
