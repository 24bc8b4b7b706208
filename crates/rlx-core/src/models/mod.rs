//! Model families. A family is a file, and its row in [`FAMILIES`] here.

#[cfg(feature = "encoders")]
mod bert;
mod checkpoint;
#[cfg(feature = "encode")]
pub mod convert;
mod decoder;
mod deepseek;
#[cfg(feature = "vision")]
mod diffusers;
#[cfg(all(feature = "vision", feature = "encoders"))]
mod dinov2;
#[cfg(feature = "encoders")]
mod encoder;
#[cfg(feature = "encoders")]
mod encoder_files;
mod entries;
mod entry;
mod family;
#[cfg(feature = "vision")]
mod flow_match;
#[cfg(feature = "vision")]
mod flux2;
#[cfg(feature = "vision")]
mod flux2_pipeline;
#[cfg(all(feature = "vision", feature = "encoders"))]
mod flux2_text;
#[cfg(feature = "vision")]
mod flux2_vae;
mod gemma;
mod gemma2;
mod gemma3;
mod gemma4;
mod gpt_oss;
mod granite;
mod keys;
#[cfg(feature = "jinja")]
mod language;
mod lfm2;
mod llada;
mod llada2;
mod llada_moe;
mod llama;
mod microscaled;
mod minicpm;
mod minicpm3;
mod mistral;
mod mixtral;
mod model;
#[cfg(feature = "encoders")]
mod modernbert;
mod naming;
#[cfg(feature = "encoders")]
mod nomic_bert;
mod olmo2;
mod phi3;
mod pooling;
#[cfg(all(feature = "vision", feature = "encoders"))]
mod position_grid;
mod qwen2;
mod qwen3;
mod qwen35;
mod qwen3_moe;
mod qwen3_next;
mod registry;
mod rotary;
#[cfg(feature = "vision")]
mod sam;
#[cfg(feature = "vision")]
mod sam2;
#[cfg(feature = "vision")]
mod sam3;
mod smollm3;
mod tensors;
#[cfg(feature = "text")]
mod tokenizer;
#[cfg(feature = "text")]
mod tokenizer_files;
mod transformers;
#[cfg(all(feature = "vision", feature = "encoders"))]
mod vision_transformer;
#[cfg(all(feature = "vision", feature = "encoders"))]
mod vit;
#[cfg(feature = "audio")]
mod wav2vec2;
mod widen;
#[cfg(feature = "encoders")]
mod wordpiece;

#[cfg(feature = "encoders")]
pub use bert::BertConfig;
pub use checkpoint::Checkpoint;
pub use decoder::{
    Attention, Banks, BranchNorms, Decoder, DeltaNet, Experts, FeedForward, KvSource,
    LatentAttention, Layer, Mixer, Projections, QkNorm, Shared, ShortConv,
};
#[cfg(feature = "encoders")]
pub use encoder_files::{EmbedOptions, FolderTexts};
pub use entry::Entry;
pub use family::Family;
#[cfg(feature = "vision")]
pub use flow_match::FlowMatch;
#[cfg(feature = "vision")]
pub use flux2::{DENOISE, DENOISE_STEP, Flux2Config, GUIDED_STEP, NOISE};
#[cfg(feature = "vision")]
pub use flux2_pipeline::Flux2Pipeline;
#[cfg(all(feature = "vision", feature = "encoders"))]
pub use flux2_text::{ENCODE_TEXT, PromptRows, prompt_rows};
#[cfg(feature = "vision")]
pub use flux2_vae::{DECODE_IMAGE, ENCODE_IMAGE, Flux2VaeConfig};
pub use keys::{Keys, Neutral};
#[cfg(feature = "jinja")]
pub use language::Language;
pub use model::{Diffusion, ENCODE, Facts, Model, Task, USUAL_CONTEXT};
#[cfg(feature = "encoders")]
pub use modernbert::{ModernBertConfig, ModernBertLayer};
pub use naming::Naming;
#[cfg(feature = "encoders")]
pub use nomic_bert::NomicBertConfig;
pub use pooling::{Pooling, PoolingKind};
pub use registry::{open, presets};
pub use rotary::Rotary;
#[cfg(feature = "vision")]
pub use sam::{
    IMAGE_EMBED, MASK, MASK_FROM_MASK, MaskDecoder, MaskNetwork, SamConfig, SamPrompt, Second,
    label as point_label,
};
#[cfg(feature = "vision")]
pub use sam2::{
    CONDITION, HieraBlock, MemoryAttention, MemoryEncoder, REMEMBER, Sam2Config, Sam2Video,
    Several, TRACK,
};
#[cfg(feature = "vision")]
pub use sam3::{
    DETECT, DETECT_FROM_BOXES, NO_BOX, Sam3Config, Sam3Image, Sam3Layers, Sam3Text, TEXT_EMBED,
};
pub use tensors::Tensors;
#[cfg(feature = "jinja")]
pub use tokenizer::chat_template;
#[cfg(feature = "text")]
pub use tokenizer::{tokenizer, vocabulary};
#[cfg(feature = "text")]
pub use tokenizer_files::{TOKENIZER_FILES, TokenizerFiles};
#[cfg(all(feature = "vision", feature = "encoders"))]
pub use vision_transformer::{ImageEncoder, ImageLayers};
#[cfg(feature = "audio")]
pub use wav2vec2::{FrameConv, SAMPLES, Wav2Vec2Config};
#[cfg(feature = "encoders")]
pub use wordpiece::wordpiece;

/// Every family, by the row in its own file.
pub const FAMILIES: &[Family] = &[
    llama::FAMILY,
    llada::FAMILY,
    llada_moe::FAMILY,
    llada2::FAMILY,
    mistral::FAMILY,
    mixtral::FAMILY,
    granite::FAMILY,
    gpt_oss::FAMILY,
    minicpm::FAMILY,
    minicpm3::FAMILY,
    deepseek::FAMILY,
    smollm3::FAMILY,
    olmo2::FAMILY,
    phi3::FAMILY,
    qwen2::FAMILY,
    qwen3::FAMILY,
    qwen3_moe::FAMILY,
    qwen3_next::FAMILY,
    qwen35::FAMILY,
    lfm2::FAMILY,
    gemma::FAMILY,
    gemma2::FAMILY,
    gemma3::FAMILY,
    gemma4::FAMILY,
    #[cfg(feature = "encoders")]
    bert::FAMILY,
    #[cfg(feature = "encoders")]
    nomic_bert::FAMILY,
    #[cfg(feature = "encoders")]
    modernbert::FAMILY,
    #[cfg(all(feature = "vision", feature = "encoders"))]
    vit::FAMILY,
    #[cfg(all(feature = "vision", feature = "encoders"))]
    dinov2::FAMILY,
    #[cfg(feature = "vision")]
    sam::FAMILY,
    #[cfg(feature = "vision")]
    sam2::FAMILY,
    #[cfg(feature = "vision")]
    sam3::FAMILY,
    #[cfg(feature = "audio")]
    wav2vec2::FAMILY,
    #[cfg(feature = "vision")]
    flux2::FAMILY,
    #[cfg(feature = "vision")]
    flux2_vae::FAMILY,
];
