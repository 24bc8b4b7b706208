//! Keys of transformers' configurations that no family needs: they concern training, generation and
//! the library itself.

use super::keys::{Keys, Neutral};
use crate::error::Result;
use crate::ops::Unary;

/// Keys whose value never changes what a forward pass computes.
const INERT: &[&str] = &[
    "_attn_implementation_autoset",
    "_commit_hash",
    "_name_or_path",
    "architectures",
    "attention_dropout",
    "attention_probs_dropout_prob",
    "auto_map",
    "begin_suppress_tokens",
    "bos_token_id",
    "chunk_size_feed_forward",
    "classifier_dropout",
    "cls_token_id",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "dtype",
    "early_stopping",
    "encoder_no_repeat_ngram_size",
    "eos_token_id",
    "finetuning_task",
    "gradient_checkpointing",
    "hidden_dropout_prob",
    "id2label",
    "initializer_range",
    "label2id",
    "length_penalty",
    "mask_token_id",
    "max_length",
    "min_length",
    "model_type",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_scores",
    "pad_token_id",
    "pretraining_tp",
    "problem_type",
    "remove_invalid_values",
    "repetition_penalty",
    "return_dict",
    "return_dict_in_generate",
    "sep_token_id",
    "task_specific_params",
    "temperature",
    "tf_legacy_loss",
    "tie_encoder_decoder",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torch_dtype",
    "torchscript",
    "transformers_version",
    "typical_p",
    "unk_token_id",
    "unsloth_fixed",
    "unsloth_version",
    "use_bfloat16",
    "use_cache",
];

/// Keys that every architecture may have and of which one value only is read.
const NEUTRAL: &[Neutral] = &[
    ("is_encoder_decoder", 0.0, "adds an encoder"),
    ("add_cross_attention", 0.0, "adds attention over an encoder"),
];

/// Reads what every configuration may have.
///
/// # Errors
/// `Unsupported` for a value that changes the architecture.
pub(super) fn common(keys: &Keys<'_>) -> Result<()> {
    keys.inert(INERT);
    keys.neutral(NEUTRAL)
}

/// The function that a configuration names in `key`; `default` where it names none.
///
/// # Errors
/// `Unsupported` for one that is not known.
pub(super) fn activation(keys: &Keys<'_>, key: &str, default: Unary) -> Result<Unary> {
    Ok(match keys.opt_str(key)? {
        None => default,
        Some("silu" | "swish") => Unary::Silu,
        Some("gelu") => Unary::GeluErf,
        Some("gelu_new" | "gelu_pytorch_tanh" | "gelu_fast") => Unary::Gelu,
        Some("relu") => Unary::Relu,
        Some(other) => {
            return Err(keys.unsupported(
                key,
                alloc::format!("{key} `{other}` is not supported"),
                "supported: silu, gelu, gelu_new, gelu_pytorch_tanh, relu",
            ));
        }
    })
}
