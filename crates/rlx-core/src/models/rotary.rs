//! Rotary positions of a checkpoint: base, dimensions and scaling, in the words of GGUF files and of
//! transformers' configurations.

use super::keys::Keys;
use super::tensors::Tensors;
use crate::error::{Error, Result};
use crate::ir::hir::Weight;
use crate::math;
use crate::ops::{RopeScaling, RopeTable};
use alloc::format;
use alloc::vec::Vec;

/// Rotary positions of one checkpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct Rotary {
    /// Base of the frequencies.
    pub base: f32,
    /// Dimensions of a head that turn.
    pub dims: u64,
    /// Change of frequencies.
    pub scaling: RopeScaling,
    /// LongRoPE's divisors beyond the original context, which is the number; the scaling has those
    /// up to it.
    pub long: Option<(u64, Vec<f32>)>,
    /// Whether a GGUF file's divisors are for these positions.
    pub divided: bool,
}

/// Divides the frequency of a pair that does not turn: GGUF files of Gemma 4 have the same.
const STILL: f32 = 1e30;

/// Keys of GGUF files: the width of latent rows, and a tenth of DeepSeek's `mscale_all_dim`.
const LATENT: &str = "attention.kv_lora_rank";
const YARN_LOG: &str = "rope.scaling.yarn_log_multiplier";

/// Tensors of divisors in GGUF files: for every context, up to the original one, and beyond it.
const FREQS: &str = "rope_freqs.weight";
const SHORT: &str = "rope_factors_short.weight";
const LONG: &str = "rope_factors_long.weight";

/// The number of dimensions that turn, checked against the width of a head.
fn turning(keys: &Keys<'_>, name: &str, dims: u64, head_dim: u64) -> Result<u64> {
    if dims == 0 || !dims.is_multiple_of(2) || dims > head_dim {
        let what = format!(
            "{dims} rotary dimensions of {head_dim}, expected an even number of at most that"
        );
        return Err(keys.bad(name, what));
    }
    Ok(dims)
}

/// What YaRN multiplies cos and sin by where a file says nothing else.
pub(super) fn yarn_attention(factor: f64) -> f64 {
    if factor <= 1.0 { 1.0 } else { 0.1 * math::log(factor) + 1.0 }
}

/// What YaRN multiplies the scores of attention over latent rows by, in place of cos and sin: DeepSeek's.
///
/// # Errors
/// `BadFile` for values that are mistyped or impossible.
pub(super) fn yarn_score(keys: &Keys<'_>, context: u64) -> Result<f32> {
    let (by, factor) = if keys.is_gguf() {
        (keys.opt_f64(YARN_LOG)?, keys.opt_above_zero("rope.scaling.factor")?.map(f64::from))
    } else {
        let inner = match keys.object("rope_parameters")? {
            Some(inner) => Some(inner),
            None => keys.object("rope_scaling")?,
        };
        let Some(inner) = inner else { return Ok(1.0) };
        let original = inner.opt_positive("original_max_position_embeddings")?;
        let longer = original.map(|original| context as f64 / original as f64);
        let factor = inner.opt_above_zero("factor")?.map(f64::from).or(longer);
        (inner.opt_f64("mscale_all_dim")?.map(|scale| 0.1 * scale), factor)
    };
    let (Some(by), Some(factor)) = (by, factor) else { return Ok(1.0) };
    let one = if factor <= 1.0 { 1.0 } else { by * math::log(factor) + 1.0 };
    Ok((one * one) as f32)
}

impl Rotary {
    /// Plain positions of that base: every dimension of a head turns.
    pub fn plain(base: f32, head_dim: u64) -> Self {
        Rotary { base, dims: head_dim, scaling: RopeScaling::None, long: None, divided: false }
    }

    /// The keys of either form of configuration, for heads of that width and models of that context.
    ///
    /// # Errors
    /// `BadFile` for values that are mistyped or impossible; `Unsupported` for an unknown scaling.
    pub fn read(keys: &Keys<'_>, head_dim: u64, context: u64) -> Result<Self> {
        if keys.is_gguf() {
            Rotary::from_gguf(keys, head_dim)
        } else {
            Rotary::from_json(keys, head_dim, context)
        }
    }

    /// The keys of a GGUF file, for heads of that width and models of that context.
    ///
    /// # Errors
    /// `BadFile` for values that are mistyped or impossible; `Unsupported` for an unknown scaling.
    pub fn from_gguf(keys: &Keys<'_>, head_dim: u64) -> Result<Self> {
        const DIMS: &str = "rope.dimension_count";
        const KIND: &str = "rope.scaling.type";
        let dims = turning(keys, DIMS, keys.opt_u64(DIMS)?.unwrap_or(head_dim), head_dim)?;
        let base = keys.opt_above_zero("rope.freq_base")?.unwrap_or(10000.0);
        // Whether the scaling was there in training, and its first context where nothing depends on it.
        keys.inert(&["rope.scaling.finetuned"]);
        let original = keys.opt_positive("rope.scaling.original_context_length")?;
        let attention = keys.opt_above_zero("rope.scaling.attn_factor")?;
        let scaling = match keys.opt_str(KIND)? {
            None | Some("none") => match attention {
                // Files of LongRoPE have its tensors, and often no type.
                Some(attention) => RopeScaling::LongRope { factors: Vec::new(), attention },
                None => RopeScaling::None,
            },
            Some("linear") => RopeScaling::Linear(keys.above_zero("rope.scaling.factor")?),
            Some("yarn") => {
                let factor = keys.above_zero("rope.scaling.factor")?;
                let own = keys.opt_above_zero("rope.scaling.yarn_attn_factor")?;
                keys.neutral(&[("rope.scaling.yarn_ext_factor", 1.0, "weakens YaRN")])?;
                let own = f64::from(attention.or(own).unwrap_or(1.0));
                let by_scores = keys.has(LATENT);
                if !by_scores {
                    keys.neutral(&[(YARN_LOG, 0.0, "scales attention by the context")])?;
                }
                RopeScaling::Yarn {
                    factor,
                    beta_fast: keys.opt_above_zero("rope.scaling.yarn_beta_fast")?.unwrap_or(32.0),
                    beta_slow: keys.opt_above_zero("rope.scaling.yarn_beta_slow")?.unwrap_or(1.0),
                    original: original.unwrap_or(keys.positive("context_length")?) as f32,
                    attention: match by_scores {
                        true => own as f32,
                        false => (own * yarn_attention(f64::from(factor))) as f32,
                    },
                    truncate: true,
                }
            }
            Some("longrope") => {
                let attention = attention.unwrap_or(1.0);
                RopeScaling::LongRope { factors: Vec::new(), attention }
            }
            Some(other) => {
                return Err(keys.unsupported(
                    KIND,
                    format!("rope scaling `{other}` is not supported"),
                    "supported: none, linear, yarn, longrope, and Llama 3's by rope_freqs.weight",
                ));
            }
        };
        // With another type the key says what no graph has.
        if !matches!(scaling, RopeScaling::Linear(_) | RopeScaling::Yarn { .. }) {
            keys.neutral(&[("rope.scaling.factor", 1.0, "divides rotary positions")])?;
        }
        // The divisors beyond it are a tensor: `divisors` takes it.
        let long = original.map(|n| (n, Vec::new()));
        Ok(Rotary { base, dims, scaling, long, divided: true })
    }

    /// The keys of a transformers configuration: `rope_parameters` (version 5), or `rope_theta` and
    /// `rope_scaling` (before), and `partial_rotary_factor` in either place.
    ///
    /// # Errors
    /// As [`from_gguf`](Self::from_gguf).
    pub fn from_json(keys: &Keys<'_>, head_dim: u64, context: u64) -> Result<Self> {
        let inner = match keys.object("rope_parameters")? {
            Some(inner) => Some(inner),
            None => keys.object("rope_scaling")?,
        };
        Self::from_objects(keys, inner.as_ref(), head_dim, context)
    }

    /// The same of a configuration's own keys and those of the object with rotary parameters, if it has one.
    ///
    /// # Errors
    /// As [`from_gguf`](Self::from_gguf).
    pub fn from_objects(
        keys: &Keys<'_>,
        inner: Option<&Keys<'_>>,
        head_dim: u64,
        context: u64,
    ) -> Result<Self> {
        // Of images; a text's three positions are equal.
        if let Some(k) = inner {
            k.inert(&["mrope_section", "mrope_interleaved"]);
        }
        let either = |name: &str| -> Result<Option<f32>> {
            let own = keys.opt_above_zero(name)?;
            let inner = inner.map(|k| k.opt_above_zero(name)).transpose()?.flatten();
            Ok(inner.or(own))
        };
        let base = either("rope_theta")?.unwrap_or(10000.0);
        let part = f64::from(either("partial_rotary_factor")?.unwrap_or(1.0));
        let dims = (head_dim as f64 * part) as u64;
        let dims = turning(keys, "partial_rotary_factor", dims, head_dim)?;
        let outer = keys.opt_positive("original_max_position_embeddings")?;
        let mut rotary =
            Rotary { base, dims, scaling: RopeScaling::None, long: None, divided: true };
        let Some(k) = inner else { return Ok(rotary) };
        let own = k.opt_positive("original_max_position_embeddings")?;
        let original = own.or(outer).unwrap_or(context);
        let old = k.opt_str("type")?;
        let kind = k.opt_str("rope_type")?.or(old).unwrap_or("default");
        let need = |name: &str| k.above_zero(name);
        rotary.scaling = match kind {
            "default" => {
                k.neutral(&[("factor", 1.0, "divides rotary positions")])?;
                RopeScaling::None
            }
            "linear" => RopeScaling::Linear(need("factor")?),
            // A part of all pairs turns, as fast as if all did.
            "proportional" => {
                k.neutral(&[("factor", 1.0, "divides rotary positions")])?;
                rotary.dims = turning(keys, "head_dim", head_dim, head_dim)?;
                let divisor = |pair: u64| if pair < dims / 2 { 1.0 } else { STILL };
                let factors = (0..head_dim / 2).map(divisor).collect();
                RopeScaling::LongRope { factors, attention: 1.0 }
            }
            "dynamic" => {
                RopeScaling::Dynamic { factor: need("factor")?, original: original as f32 }
            }
            "llama3" => RopeScaling::Llama3 {
                factor: need("factor")?,
                low: need("low_freq_factor")?,
                high: need("high_freq_factor")?,
                original: need("original_max_position_embeddings")?,
            },
            "yarn" => {
                k.inert(&["finetuned"]);
                let longer = context as f64 / original as f64;
                let factor = k.opt_above_zero("factor")?.map_or(longer, f64::from);
                let scale = |name: &str| k.opt_f64(name);
                let attention = match (scale("mscale")?, scale("mscale_all_dim")?) {
                    (Some(a), Some(b)) if a != 0.0 && b != 0.0 => {
                        (1.0 + a * (yarn_attention(factor) - 1.0))
                            / (1.0 + b * (yarn_attention(factor) - 1.0))
                    }
                    _ => yarn_attention(factor),
                };
                let said = k.opt_above_zero("attention_factor")?;
                RopeScaling::Yarn {
                    factor: factor as f32,
                    beta_fast: k.opt_above_zero("beta_fast")?.unwrap_or(32.0),
                    beta_slow: k.opt_above_zero("beta_slow")?.unwrap_or(1.0),
                    original: original as f32,
                    attention: said.unwrap_or(attention as f32),
                    truncate: k.opt_bool("truncate")?.unwrap_or(true),
                }
            }
            // The name it had first.
            "longrope" | "su" => {
                let divisors = |name: &str| -> Result<Vec<f32>> {
                    let list = k.opt_f64s(name)?.unwrap_or_default();
                    if list.len() as u64 != dims / 2 {
                        let what = format!("{name} has {} divisors of {}", list.len(), dims / 2);
                        return Err(k.bad(name, what));
                    }
                    Ok(list.into_iter().map(|x| x as f32).collect())
                };
                let longer = match k.opt_above_zero("factor")? {
                    Some(factor) => f64::from(factor),
                    None => context as f64 / original as f64,
                };
                let attention = if longer <= 1.0 {
                    1.0
                } else {
                    math::sqrt(1.0 + math::log(longer) / math::log(original as f64))
                };
                let said = k.opt_above_zero("attention_factor")?;
                rotary.long = Some((original, divisors("long_factor")?));
                let attention = said.unwrap_or(attention as f32);
                RopeScaling::LongRope { factors: divisors("short_factor")?, attention }
            }
            other => {
                return Err(k.unsupported(
                    "rope_type",
                    format!("rope_type `{other}` is not supported"),
                    "supported: default, linear, dynamic, llama3, yarn, longrope, proportional",
                ));
            }
        };
        rotary.scaling.check(rotary.dims as usize).map_err(|e| k.bad("rope_type", e.what))?;
        Ok(rotary)
    }

    /// Whether a file of this scaling may be planned for more positions than it names.
    pub fn longest(&self, context: u64) -> u64 {
        match self.scaling {
            RopeScaling::Dynamic { factor, .. } if factor > 1.0 => {
                (context as f64 * f64::from(factor)) as u64
            }
            _ => context,
        }
    }

    /// The table of angles over `context` positions.
    ///
    /// LongRoPE's divisors, like the base of dynamic NTK, are those of the planned context, for all
    /// texts: keys that a cache has cannot be turned again once a text grows longer.
    pub fn table(&self, context: u64) -> RopeTable {
        let mut scaling = self.scaling.clone();
        if let (RopeScaling::LongRope { factors, .. }, Some((original, long))) =
            (&mut scaling, &self.long)
            && context > *original
        {
            factors.clone_from(long);
        }
        RopeTable { base: self.base, dims: self.dims as usize, context, scaling }
    }

    /// The tensor of divisors that a GGUF file has for `context` positions: Llama 3's, or LongRoPE's.
    ///
    /// # Errors
    /// `BadFile` for a tensor of another shape, or one of LongRoPE's two alone.
    pub fn divisors(&self, tensors: &Tensors<'_>, context: u64) -> Result<Option<Weight>> {
        let dims = [self.dims / 2];
        if !self.divided {
            return Ok(None);
        }
        if tensors.has(FREQS) {
            return tensors.weight(FREQS, &dims).map(Some);
        }
        let own =
            matches!(&self.scaling, RopeScaling::LongRope { factors, .. } if factors.is_empty());
        if !own && !tensors.has(SHORT) && !tensors.has(LONG) {
            return Ok(None);
        }
        let (short, long) = (tensors.weight(SHORT, &dims)?, tensors.weight(LONG, &dims)?);
        match self.long {
            Some((original, _)) if context > original => Ok(Some(long)),
            Some(_) => Ok(Some(short)),
            None => Err(Error::bad_file(format!(
                "{LONG} is there, and rope.scaling.original_context_length is missing"
            ))
            .hint("convert the model again with a current converter")),
        }
    }
}
