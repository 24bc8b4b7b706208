//! Options and requests, read from JSON.

#[cfg(feature = "chat")]
use rlx_core::runtime::generate::engine::{BlockOptions, GenerateOptions};
#[cfg(feature = "chat")]
use rlx_core::runtime::selftest::Verdict;
use rlx_core::safetensors::json::Json;
#[cfg(feature = "chat")]
use rlx_core::sample::SampleParams;
use rlx_core::target::ProgramActivations;
#[cfg(feature = "chat")]
use rlx_core::text::TemplateValue;
use rlx_core::types::DType;
use rlx_core::{Error, Result};
use rlx_webgpu::Tuning;
use rlx_webgpu::gpu::GpuInfo;
use rlx_webgpu::tuning::key;

/// The constructor's first argument.
#[cfg_attr(not(feature = "chat"), allow(dead_code))]
pub(crate) struct Options {
    pub device: String,
    pub fallback: Option<String>,
    pub context: Option<u64>,
    /// Positions of a block, of a model that fills blocks.
    pub block: Option<u64>,
    /// Bytes for the rows of conversations besides the current one.
    pub conversations: u64,
    pub kv: Option<DType>,
    pub activations: Option<ProgramActivations>,
    /// Threads of the CPU, the page's own included.
    pub threads: usize,
    /// The tuning that was asked for; then stored tunings, by [`key`](rlx_webgpu::tuning::key).
    pub tuning: Option<String>,
    pub tunings: Json,
    /// Stored verdicts of self-tests, by kernels.
    pub checks: Json,
    /// Stored times of forms, by device and kind of model.
    pub times: Json,
    /// For RLX's own checks: whether `done` has the tokens, and the logits after the prompt.
    pub logits: bool,
}

/// Reads what JavaScript wrote.
pub(crate) fn parse(json: &str) -> Result<Json> {
    let parsed = Json::parse(json.as_bytes(), "the text", 0);
    parsed.map_err(|e| Error::usage(format!("not JSON: {} ({})", e.what, e.at)))
}

impl Options {
    pub fn parse(json: &str) -> Result<Self> {
        let v = parse(json)?;
        let text = |key: &str| v.get(key).and_then(Json::as_str);
        Ok(Options {
            device: text("device").unwrap_or("cpu").into(),
            fallback: text("fallbackReason").map(Into::into),
            context: v.get("contextLength").and_then(Json::as_u64),
            block: v.get("blockLength").and_then(Json::as_u64),
            conversations: v.get("conversationBytes").and_then(Json::as_u64).unwrap_or(0),
            kv: text("kv").and_then(DType::from_name),
            activations: text("activations").and_then(ProgramActivations::from_names),
            threads: v.get("threads").and_then(Json::as_u64).map_or(1, |n| n as usize),
            tuning: text("tuning").map(Into::into),
            tunings: v.get("tunings").cloned().unwrap_or(Json::Null),
            checks: v.get("checks").cloned().unwrap_or(Json::Null),
            times: v.get("times").cloned().unwrap_or(Json::Null),
            logits: v.get("logits").and_then(Json::as_bool).unwrap_or(false),
        })
    }
}

impl Options {
    /// The stored verdict on these kernels.
    #[cfg(feature = "chat")]
    pub fn found(&self, kernels: &str) -> Option<Verdict> {
        Verdict::parse(self.checks.get(kernels)?.as_str()?)
    }

    /// The tuning that was asked for, or else the stored one for this GPU.
    ///
    /// # Errors
    /// `Usage` if the tuning that was asked for is for another device or version.
    pub fn tuning(&self, gpu: &GpuInfo) -> Result<Option<Tuning>> {
        if let Some(text) = &self.tuning {
            return Tuning::parse(text, gpu.wgsl).map(Some).map_err(|e| e.at("tuning"));
        }
        let kept = self.tunings.get(&key(gpu)).and_then(Json::as_str);
        Ok(kept.and_then(|text| Tuning::parse(text, gpu.wgsl).ok()))
    }
}

/// A prompt.
#[cfg(feature = "chat")]
pub(crate) enum Prompt {
    /// Messages for the chat template, and its further variables.
    Messages(TemplateValue, Vec<(String, TemplateValue)>),
    /// Token ids.
    Tokens(Vec<u32>),
}

/// `start`'s argument: the prompt, and how to sample.
#[cfg(feature = "chat")]
pub(crate) fn request(json: &str, temperature: f32) -> Result<(Prompt, GenerateOptions)> {
    let v = parse(json)?;
    let number = |key: &str| v.get(key).and_then(Json::as_f64);
    let off = SampleParams::default();
    let float = |key: &str, otherwise: f32| number(key).map_or(otherwise, |x| x as f32);
    let params = SampleParams {
        temperature: float("temperature", temperature),
        top_k: number("top_k").map_or(off.top_k, |n| n as u32),
        top_p: float("top_p", off.top_p),
        min_p: float("min_p", off.min_p),
        repetition_penalty: float("repetition_penalty", off.repetition_penalty),
        frequency_penalty: float("frequency_penalty", off.frequency_penalty),
        presence_penalty: float("presence_penalty", off.presence_penalty),
        logit_bias: v.get("logit_bias").and_then(Json::as_array).map_or_else(Vec::new, |rows| {
            rows.iter().filter_map(Json::as_array).filter_map(bias).collect()
        }),
        seed: number("seed").map_or(0, |n| n as u64),
        stop_ids: Vec::new(),
    };
    let stops = v.get("stop").and_then(Json::as_array).map_or_else(Vec::new, |stops| {
        stops.iter().filter_map(Json::as_str).map(Into::into).collect()
    });
    let options = GenerateOptions {
        slide: v.get("slide_ids").map(ids),
        max_tokens: v.get("max_tokens").and_then(Json::as_u64).map(|n| n as usize),
        params,
        stops,
        ignore_stops: v.get("ignore_eos").and_then(Json::as_bool).unwrap_or(false),
        controls: v.get("controls").and_then(Json::as_bool).unwrap_or(false),
        logprobs: v.get("logprobs").and_then(Json::as_u64).map(|n| n as usize),
        blocks: BlockOptions {
            steps: number("steps").map(|n| n as u32),
            threshold: number("threshold").map(|x| x as f32),
            editing_threshold: number("editing_threshold").map(|x| x as f32),
            max_post_steps: number("max_post_steps").map(|n| n as u32),
        },
        ..GenerateOptions::default()
    };
    let prompt = match v.get("prompt_ids") {
        Some(prompt) => Prompt::Tokens(ids(prompt)),
        None => {
            let (messages, variables) = conversation(&v);
            Prompt::Messages(messages, variables)
        }
    };
    Ok((prompt, options))
}

/// The messages of a request, and what else its template is told.
#[cfg(feature = "chat")]
pub(crate) fn conversation(request: &Json) -> (TemplateValue, Vec<(String, TemplateValue)>) {
    let part = |key: &str| request.get(key).cloned().map(TemplateValue::from);
    let variables = match part("variables") {
        Some(TemplateValue::Map(entries)) => entries,
        _ => Vec::new(),
    };
    (part("messages").unwrap_or(TemplateValue::List(Vec::new())), variables)
}

/// Token ids.
#[cfg(feature = "chat")]
fn ids(list: &Json) -> Vec<u32> {
    let ids = list.as_array().unwrap_or(&[]);
    ids.iter().filter_map(Json::as_u64).map(|n| n as u32).collect()
}

/// A token and its bias.
#[cfg(feature = "chat")]
fn bias(row: &[Json]) -> Option<(u32, f32)> {
    let [id, bias] = row else { return None };
    Some((u32::try_from(id.as_u64()?).ok()?, bias.as_f64()? as f32))
}
