//! Pooling: what makes one vector of a text's rows, and how files say it.

use super::keys::Keys;
use crate::error::{Code, Error, Result};
use crate::safetensors::json::Json;
use alloc::format;

/// What makes one row of a text's rows, of which a mask says which are real.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolingKind {
    /// Nothing: the model gives rows alone.
    None,
    /// The mean of the real rows.
    Mean,
    /// The first row, of the token `[CLS]`.
    Cls,
    /// The last real row.
    Last,
    /// The largest element of the real rows, in each column.
    Max,
}

/// How one vector is made of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pooling {
    /// What is made of the rows.
    pub kind: PoolingKind,
    /// Whether the vector is divided by its length.
    pub normalise: bool,
}

impl Pooling {
    /// The mean, as it is: what files mean that say nothing.
    pub const MEAN: Pooling = Pooling { kind: PoolingKind::Mean, normalise: false };

    /// Reads `pooling_type` of a GGUF file.
    ///
    /// # Errors
    /// `Unsupported` for a kind that this version does not know.
    pub(super) fn from_gguf(keys: &Keys<'_>) -> Result<Self> {
        const KEY: &str = "pooling_type";
        let kind = match keys.opt_u64(KEY)? {
            None | Some(1) => PoolingKind::Mean,
            Some(0) => PoolingKind::None,
            Some(2) => PoolingKind::Cls,
            Some(3) => PoolingKind::Last,
            Some(other) => {
                return Err(keys.unsupported(
                    KEY,
                    format!("pooling of type {other} is not supported"),
                    "supported: 0 none, 1 mean, 2 CLS, 3 last; 4 ranks pairs of texts",
                ));
            }
        };
        Ok(Pooling { kind, normalise: false })
    }

    /// Reads the files of a sentence-transformers folder: `1_Pooling/config.json`, and
    /// `modules.json`, which says whether vectors are normalised.
    ///
    /// # Errors
    /// `BadFile` for files of another form; `Unsupported` for kinds and modules that this version
    /// does not know, and for several kinds at once.
    pub fn from_sentence_transformers(pooling: &Json, modules: &Json) -> Result<Self> {
        const POOLING: &str = "1_Pooling/config.json";
        const MODULES: &str = "modules.json";
        let keys = Keys::json(pooling, POOLING)?;
        keys.inert(&["word_embedding_dimension", "embedding_dimension"]);
        keys.neutral(&[
            ("include_prompt", 1.0, "leaves a prompt's rows out"),
            ("pooling_mode_mean_sqrt_len_tokens", 0.0, "divides by the root of the length"),
            ("pooling_mode_weightedmean_tokens", 0.0, "weights rows by their position"),
        ])?;
        let kinds = [
            ("pooling_mode_cls_token", PoolingKind::Cls),
            ("pooling_mode_mean_tokens", PoolingKind::Mean),
            ("pooling_mode_max_tokens", PoolingKind::Max),
            ("pooling_mode_lasttoken", PoolingKind::Last),
        ];
        let mut kind = None;
        for (key, this) in kinds {
            if keys.opt_bool(key)? == Some(true) && kind.replace(this).is_some() {
                let what =
                    format!("{key}: vectors of several kinds side by side are not supported");
                return Err(keys.unsupported(key, what, "use a model with one kind of pooling"));
            }
        }
        keys.finish()?;
        let bad = || Error::bad_file("expected a list of modules with types").at(MODULES);
        let mut normalise = false;
        for module in modules.as_array().ok_or_else(bad)? {
            let ty = module.get("type").and_then(Json::as_str).ok_or_else(bad)?;
            match ty.rsplit('.').next().unwrap_or(ty) {
                "Transformer" | "Pooling" => {}
                "Normalize" => normalise = true,
                other => {
                    let what = format!("the module {other} is not supported");
                    let e = Error::new(Code::Unsupported, what).at(MODULES);
                    return Err(e.hint("supported: Transformer, Pooling, Normalize"));
                }
            }
        }
        Ok(Pooling { kind: kind.unwrap_or(PoolingKind::Mean), normalise })
    }
}
