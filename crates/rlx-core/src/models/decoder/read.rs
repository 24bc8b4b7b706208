//! What every decoder's configuration has, read by one code from GGUF files and from `config.json`.

use super::{Banks, Experts};
use crate::error::Result;
use crate::models::checkpoint::Checkpoint;
use crate::models::keys::{Keys, Neutral};
use crate::models::naming::TOKEN_EMBD;
use crate::models::transformers;
use crate::ops::{RopeStyle, Route, Unary};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// Experts that a layer may have: a file that says more is damaged, and costs no memory.
const EXPERTS_MAX: u64 = 1 << 12;

/// Sizes of a decoder, and what a configuration says of its embeddings and norms.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::models) struct Sizes {
    /// D.
    pub dim: u64,
    /// E.
    pub head_dim: u64,
    /// V.
    pub vocab: u64,
    /// Positions the model was trained for.
    pub context: u64,
    /// Added to the mean square in norms.
    pub eps: f32,
    /// What the gate of a feed-forward goes through.
    pub act: Unary,
    /// Whether the embeddings are the head; `None`: where the file has no head.
    pub tied: Option<bool>,
    /// H of each layer.
    pub heads: Vec<u64>,
    /// K of each layer.
    pub kv_heads: Vec<u64>,
    /// F of each layer.
    pub ffn: Vec<u64>,
}

impl Sizes {
    /// Reads them. `act` and `tied` hold where the configuration says nothing of them.
    ///
    /// # Errors
    /// `BadFile` naming the key that is missing, mistyped or 0.
    pub fn read(
        checkpoint: &Checkpoint<'_>,
        keys: &Keys<'_>,
        act: Unary,
        tied: Option<bool>,
    ) -> Result<Sizes> {
        let sizes = Self::read_of_some(checkpoint, keys, act, tied)?;
        let kv_key = keys.word("attention.head_count_kv", "num_key_value_heads");
        match sizes.kv_heads.iter().position(|&n| n == 0) {
            Some(i) => Err(keys.bad(kv_key, format!("{kv_key} is 0 in layer {i}"))),
            None => Ok(sizes),
        }
    }

    /// The same where layers without attention may have 0 key heads.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_of_some(
        checkpoint: &Checkpoint<'_>,
        keys: &Keys<'_>,
        act: Unary,
        tied: Option<bool>,
    ) -> Result<Sizes> {
        let heads_key = keys.word("attention.head_count", "num_attention_heads");
        let kv_key = keys.word("attention.head_count_kv", "num_key_value_heads");
        let n = keys.layers(keys.word("block_count", "num_hidden_layers"))?;
        let heads = keys.each(heads_key, n)?;
        let dim = keys.positive(keys.word("embedding_length", "hidden_size"))?;
        let head_dim = match keys.opt_positive(keys.word("attention.key_length", "head_dim"))? {
            Some(width) => width,
            None => match dim / heads[0] {
                0 => {
                    let what = format!("rows of {dim} do not give {} heads a width", heads[0]);
                    return Err(keys.bad(heads_key, what));
                }
                width => width,
            },
        };
        let kv_heads = keys.per_layer(kv_key, n)?.unwrap_or_else(|| heads.clone());
        if let Some((h, k)) = heads.iter().zip(&kv_heads).find(|(h, k)| **h % (**k).max(1) != 0) {
            let what = format!("{k} key heads do not divide {h} query heads");
            return Err(keys.bad(kv_key, what));
        }
        // The second one is LFM2's older name.
        let ffn_key = ["intermediate_size", "block_ff_dim"].into_iter().find(|key| keys.has(key));
        let ffn_key = ffn_key.unwrap_or("intermediate_size");
        let eps = match keys.is_gguf() {
            true => keys.f32("attention.layer_norm_rms_epsilon")?,
            false => match keys.opt_f32("rms_norm_eps")? {
                Some(eps) => eps,
                None => keys.opt_f32("norm_eps")?.unwrap_or(1e-6),
            },
        };
        let values = keys.opt_positive(keys.word("attention.value_length", "v_head_dim"))?;
        // Attention over latent rows has widths of its own.
        let latent = keys.has(keys.word("attention.kv_lora_rank", "kv_lora_rank"));
        if !latent && values.is_some_and(|width| width != head_dim) {
            return Err(keys.unsupported(
                keys.word("attention.value_length", "v_head_dim"),
                format!("heads of values are not as wide as those of keys, {head_dim}"),
                "use a model whose heads have one width",
            ));
        }
        Ok(Sizes {
            dim,
            head_dim,
            vocab: vocab(checkpoint, keys)?,
            context: keys.positive(keys.word("context_length", "max_position_embeddings"))?,
            eps,
            act: activation(keys, act)?,
            tied: if keys.is_gguf() {
                None
            } else {
                keys.opt_bool("tie_word_embeddings")?.or(tied)
            },
            heads,
            kv_heads,
            ffn: keys.each(keys.word("feed_forward_length", ffn_key), n)?,
        })
    }

    /// How many layers there are.
    pub fn layers(&self) -> usize {
        self.heads.len()
    }

    /// H, K and E of a layer.
    pub fn attention(&self, layer: usize) -> [u64; 3] {
        [self.heads[layer], self.kv_heads[layer], self.head_dim]
    }
}

/// What the gate goes through: a GGUF file does not say, and `hidden_activation` goes before the older key.
fn activation(keys: &Keys<'_>, default: Unary) -> Result<Unary> {
    if keys.is_gguf() {
        return Ok(default);
    }
    let older = transformers::activation(keys, "hidden_act", default)?;
    transformers::activation(keys, "hidden_activation", older)
}

/// V. A GGUF file may say nothing, and then its table of embeddings does.
fn vocab(checkpoint: &Checkpoint<'_>, keys: &Keys<'_>) -> Result<u64> {
    if !keys.is_gguf() {
        return keys.positive("vocab_size");
    }
    Ok(checkpoint.tensor(TOKEN_EMBD).and_then(|t| t.1.first().copied()).unwrap_or(0))
}

/// A factor, 1 where there is none or it is 0, which is how GGUF files say so.
pub(in crate::models) fn factor(keys: &Keys<'_>, name: &str) -> Result<f32> {
    Ok(keys.opt_f32(name)?.filter(|&x| x != 0.0).unwrap_or(1.0))
}

/// Pairs of a head in GGUF files whose converter permutes the rows of q and k, so that they are adjacent.
pub(in crate::models) fn permuted_pairs(keys: &Keys<'_>) -> RopeStyle {
    if keys.is_gguf() { RopeStyle::Adjacent } else { RopeStyle::Half }
}

/// The experts of a layer, if the model has some: how many, how many a row uses, and F of each, which is
/// `width` where no key says otherwise.
///
/// # Errors
/// `BadFile` for a row that uses none, or more than there are.
pub(in crate::models) fn experts(
    keys: &Keys<'_>,
    width: u64,
    act: Unary,
) -> Result<Option<Experts>> {
    const NAMES: [&str; 3] = ["num_experts", "num_local_experts", "n_routed_experts"];
    const USED: [&str; 2] = ["num_experts_per_tok", "top_k_experts"];
    let count_key = match keys.is_gguf() {
        true => "expert_count",
        false => NAMES.into_iter().find(|key| keys.has(key)).unwrap_or(NAMES[0]),
    };
    let used_key = USED.into_iter().find(|key| keys.has(key)).unwrap_or(USED[0]);
    let used_key = keys.word("expert_used_count", used_key);
    let Some(count) = keys.opt_u64(count_key)?.filter(|&n| n > 0) else { return Ok(None) };
    if count > EXPERTS_MAX {
        let what = format!("{count} experts, at most {EXPERTS_MAX} are read");
        return Err(keys.bad(count_key, what));
    }
    let used = keys.positive(used_key)?;
    if used > count {
        return Err(keys.bad(used_key, format!("a row uses {used} experts of {count}")));
    }
    let own =
        keys.opt_positive(keys.word("expert_feed_forward_length", "moe_intermediate_size"))?;
    // These concern training.
    keys.inert(&["router_aux_loss_coef", "output_router_logits", "router_jitter_noise"]);
    let width = own.unwrap_or(width);
    let route = Route { normalise: true, ..Route::softmax(used as usize) };
    Ok(Some(Experts {
        count,
        route,
        width,
        act,
        limit: None,
        bias: false,
        weighted: false,
        folder: Banks::Apart,
        shared: None,
    }))
}

/// Which layers slide where a configuration has a window and says nothing of layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::models) enum Sliding {
    /// All of them.
    All,
    /// All but each n-th.
    AllBut(u64),
    /// None, unless `use_sliding_window` says so; then those from `max_window_layers` on.
    Asked,
}

/// Each layer's window, in rows before a row's own: the files count the row itself.
///
/// # Errors
/// `BadFile` for lists of another length; `Unsupported` for layers of another type.
pub(in crate::models) fn windows(
    keys: &Keys<'_>,
    layers: usize,
    sliding: Sliding,
) -> Result<Vec<Option<u64>>> {
    const TYPES: &str = "layer_types";
    const PATTERN: &str = "attention.sliding_window_pattern";
    let n = layers as u64;
    let size = keys.opt_u64(keys.word("attention.sliding_window", "sliding_window"))?;
    let window = size.and_then(|size| size.checked_sub(1));
    let but_each = |every: u64| (0..n).map(|i| i % every.max(1) < every.max(1) - 1).collect();
    let by_family = || -> Result<Vec<bool>> {
        Ok(match sliding {
            Sliding::All => vec![true; layers],
            Sliding::AllBut(every) => but_each(every),
            Sliding::Asked => {
                let first = keys.opt_u64("max_window_layers")?.unwrap_or(0);
                (0..n).map(|i| i >= first).collect()
            }
        })
    };
    if keys.is_gguf() {
        let slides: Vec<bool> = match keys.opt_bools(PATTERN, n)? {
            Some(list) => list,
            None => match keys.opt_u64(PATTERN)? {
                None | Some(0) => by_family()?,
                Some(every) => but_each(every),
            },
        };
        return Ok(slides.into_iter().map(|slides| window.filter(|_| slides)).collect());
    }
    let default = sliding != Sliding::Asked;
    let used = keys.opt_bool("use_sliding_window")?.unwrap_or(default);
    let window = window.filter(|_| used);
    keys.inert(&["max_window_layers"]);
    let every = match keys.opt_positive("sliding_window_pattern")? {
        Some(every) => Some(every),
        None => keys.opt_positive("_sliding_window_pattern")?,
    };
    let Some(types) = keys.opt_strs(TYPES)? else {
        let slides = every.map_or_else(by_family, |every| Ok(but_each(every)))?;
        return Ok(slides.into_iter().map(|slides| window.filter(|_| slides)).collect());
    };
    keys.one_each(TYPES, types.len(), n)?;
    let of = |ty: &&str| match *ty {
        "full_attention" => Ok(None),
        "sliding_attention" if window.is_some() => Ok(window),
        "sliding_attention" => {
            Err(keys.bad(TYPES, "a layer slides, and sliding_window is missing"))
        }
        other => Err(keys.unsupported(
            TYPES,
            format!("layers of type `{other}` are not supported"),
            "supported: full_attention, sliding_attention",
        )),
    };
    types.iter().map(of).collect()
}

/// Keys of GGUF files of which one value is read: the others make another architecture.
const NEUTRAL: &[Neutral] = &[
    ("attention.clamp_kqv", 0.0, "bounds q, k and v"),
    ("attention.max_alibi_bias", 0.0, "adds the distance to the scores"),
    ("use_parallel_residual", 0.0, "computes attention and feed-forward side by side"),
];

/// Keys of GGUF files that change nothing: the vocabulary is counted in the table, an embedding's
/// pooling is for another use, and the layout is that of all files.
const INERT: &[&str] =
    &["vocab_size", "pooling_type", "tensor_data_layout", "attention.layer_norm_epsilon"];

/// The same where the family did not ask for it.
const CAUSAL: &[Neutral] = &[("attention.causal", 1.0, "lets rows see those after them")];

/// Keys of experts, of which a model without them has one value.
const NO_EXPERTS: &[Neutral] = &[
    ("expert_count", 0.0, "splits the feed-forward into experts"),
    ("expert_used_count", 0.0, "splits the feed-forward into experts"),
];

/// Reads what every decoder may have, and refuses what nobody asked for.
///
/// # Errors
/// `Unsupported` naming the key.
pub(in crate::models) fn finish(keys: &Keys<'_>) -> Result<()> {
    if keys.is_gguf() {
        keys.neutral(NEUTRAL)?;
        if !keys.was_asked("attention.causal") {
            keys.neutral(CAUSAL)?;
        }
        // A family with experts has read their number already.
        if !keys.was_asked("expert_count") {
            keys.neutral(NO_EXPERTS)?;
        }
        keys.inert(INERT);
    } else {
        transformers::common(keys)?;
    }
    keys.finish()
}
