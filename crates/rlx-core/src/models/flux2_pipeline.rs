//! What the `model_index.json` of a FLUX.2 klein folder says: which models are in its folders, and how a prompt
//! becomes rows for the transformer.

use super::diffusers;
use super::keys::Keys;
use crate::error::Result;
use crate::safetensors::json::Json;
use alloc::format;

/// A pipeline of FLUX.2 klein.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flux2Pipeline {
    /// Whether its transformer was trained to need few steps, and no second text to guide it.
    pub distilled: bool,
}

/// What each folder has, in the library and in its words.
const PARTS: [(&str, &[&str]); 5] = [
    ("scheduler", &["FlowMatchEulerDiscreteScheduler"]),
    ("text_encoder", &["Qwen3ForCausalLM"]),
    ("tokenizer", &["Qwen2Tokenizer", "Qwen2TokenizerFast"]),
    ("transformer", &["Flux2Transformer2DModel"]),
    ("vae", &["AutoencoderKLFlux2"]),
];

impl Flux2Pipeline {
    /// Layers of the text encoder whose rows the transformer reads, as transformers counts them: the pipeline's own
    /// choice, which no file has.
    pub const TEXT_LAYERS: [u64; 3] = [9, 18, 27];
    /// Rows of text that the transformer reads; shorter prompts are padded, longer ones cut.
    pub const TEXT_ROWS: usize = 512;

    /// Reads the file's object. `at` names it in errors.
    ///
    /// # Errors
    /// `Unsupported` for another pipeline, another model in a folder, and a key that this version does not know;
    /// `BadFile` for a key that is missing or mistyped.
    pub fn open(index: &Json, at: &str) -> Result<Self> {
        const CLASS: &str = "_class_name";
        const KLEIN: &str = "Flux2KleinPipeline";
        let keys = Keys::json(index, at)?;
        diffusers::common(&keys);
        if let Some(other) = keys.opt_str(CLASS)?.filter(|&class| class != KLEIN) {
            let what = format!("a pipeline of class `{other}` is not supported");
            return Err(keys.unsupported(CLASS, what, &format!("supported: {KLEIN}")));
        }
        if !keys.has(CLASS) {
            return Err(keys.bad(CLASS, format!("{CLASS} is missing")));
        }
        for (part, known) in PARTS {
            let Some(words) = keys.opt_strs(part)? else {
                return Err(keys.bad(part, format!("{part} is missing")));
            };
            let [_, class] = words.as_slice() else {
                let what = format!("{part} is not a pair of a library and a class");
                return Err(keys.bad(part, what));
            };
            if !known.contains(class) {
                let what = format!("{part} `{class}` is not supported");
                return Err(keys.unsupported(part, what, &format!("supported: {}", known[0])));
            }
        }
        let distilled = keys.opt_bool("is_distilled")?.unwrap_or(false);
        keys.finish()?;
        Ok(Flux2Pipeline { distilled })
    }

    /// Steps where nobody says how many: few for a distilled transformer.
    pub fn usual_steps(self) -> u64 {
        if self.distilled { 4 } else { 50 }
    }
}
