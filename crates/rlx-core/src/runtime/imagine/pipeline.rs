//! A pipeline: what its files say, and whether its models belong together. All of it is known before a byte of weights.

use super::files::{INDEX, SCHEDULER};
use super::imagining::{Imagining, Way, floats};
use super::{ImagineOptions, LONGEST, Part, PipelineFiles};
use crate::error::{Code, Error, Result};
use crate::models::{
    self, Checkpoint, DECODE_IMAGE, DENOISE, DENOISE_STEP, Entry, Facts, FlowMatch, Flux2Config,
    Flux2Pipeline, Flux2VaeConfig, GUIDED_STEP, Language, NOISE, prompt_rows,
};
use crate::runtime::session::network::entries;
use crate::safetensors::json::Json;
use crate::text::{Message, RenderOptions, TemplateValue, encode_chat};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// How strongly the prompt is preferred to no prompt, where nobody says so.
const USUAL_GUIDANCE: f32 = 4.0;

/// A FLUX.2 klein pipeline.
pub struct Pipeline {
    /// What errors call its folder.
    name: String,
    about: Flux2Pipeline,
    schedule: FlowMatch,
    language: Language,
    /// Configurations of the models, behind what errors call them.
    configs: [(String, Json); 3],
    text: Facts,
    network: Flux2Config,
    decoder: Flux2VaeConfig,
}

impl Pipeline {
    /// Reads what the small files say. `name` is what errors call the folder.
    ///
    /// # Errors
    /// `Io` for a file that was not given; `BadFile` for what is in it, and for models that do not belong together;
    /// `Unsupported` for another pipeline than FLUX.2 klein's.
    pub fn open(name: &str, mut files: PipelineFiles) -> Result<Self> {
        let located = |at: String| {
            move |e: Error| match e.at.is_empty() {
                true => e.at(at),
                false => e,
            }
        };
        let here = located(name.into());
        let (at, index) = files.take(INDEX).map_err(here.clone())?;
        let about = Flux2Pipeline::open(&index, &at)?;
        let (at, schedule) = files.take(SCHEDULER).map_err(here.clone())?;
        let schedule = FlowMatch::open(&schedule, &at)?;
        pads_at_the_end(&files)?;
        let tokenizer = format!("{}/tokenizer", name.trim_end_matches('/'));
        let language = Language::of_folder(&files.tokenizer).map_err(located(tokenizer))?;
        let mut config = |part: Part| files.take(part.config()).map_err(here.clone());
        let configs =
            [config(Part::TextEncoder)?, config(Part::Transformer)?, config(Part::Decoder)?];
        // Errors of a configuration name its key alone.
        let in_file = |at: &str, e: Error| {
            let place = if e.at.is_empty() { at.into() } else { format!("{at}: {}", e.at) };
            e.at(place)
        };
        let [text, network, decoder] = [0, 1, 2]
            .map(|i| (&*configs[i].0, Checkpoint::transformers_shards(&configs[i].1, &[])));
        let pipeline = Pipeline {
            about,
            schedule,
            language,
            text: models::open(&text.1).map_err(|e| in_file(text.0, e))?.facts(),
            network: Flux2Config::open(&network.1).map_err(|e| in_file(network.0, e))?,
            decoder: Flux2VaeConfig::open(&decoder.1).map_err(|e| in_file(decoder.0, e))?,
            name: name.into(),
            configs,
        };
        pipeline.check()?;
        Ok(pipeline)
    }

    /// Fails for models that do not belong together.
    fn check(&self) -> Result<()> {
        let (network, decoder) = (&self.network, &self.decoder);
        let bad = |what: String| {
            Err(Error::bad_file(what).at(self.name.clone()).hint("use the folders of one pipeline"))
        };
        if network.guidance {
            let what = "the transformer reads a strength of guidance, which klein's do not";
            return Err(Error::new(Code::Unsupported, what)
                .at(self.configs[Part::Transformer as usize].0.clone())
                .hint("supported: transformers with guidance_embeds false"));
        }
        let latents = 4 * decoder.latent_channels;
        if [network.in_channels, network.out_channels] != [latents; 2] {
            return bad(format!(
                "the transformer makes {} channels of {}, the decoder reads {latents}",
                network.out_channels, network.in_channels
            ));
        }
        let width = self.text.width * Flux2Pipeline::TEXT_LAYERS.len() as u64;
        if width != network.text_dim {
            return bad(format!(
                "the text encoder makes rows of {width}, the transformer reads rows of {}",
                network.text_dim
            ));
        }
        if decoder.out_channels != 3 {
            return bad(format!("the decoder makes {} colours, not 3", decoder.out_channels));
        }
        let tokens = Flux2Pipeline::TEXT_ROWS as u64;
        if self.text.context < tokens {
            return bad(format!(
                "the text encoder has {} positions, expected {tokens} or more",
                self.text.context
            ));
        }
        Ok(())
    }

    /// Pixels along an edge of a latent: sizes of pictures are multiples of it.
    pub fn scale(&self) -> u64 {
        self.decoder.scale()
    }

    /// Whether the pipeline needs few steps and no guidance.
    pub fn is_distilled(&self) -> bool {
        self.about.distilled
    }

    /// Steps where nobody says how many.
    pub fn usual_steps(&self) -> u64 {
        self.about.usual_steps()
    }

    /// The configuration of a model, as its file says it.
    pub fn config(&self, part: Part) -> &Json {
        &self.configs[part as usize].1
    }

    /// What a model is asked for pictures, of its checkpoint.
    ///
    /// # Errors
    /// As the readers of models: `BadFile` for a tensor that is missing or has another shape, `Unsupported` for one
    /// that no weight named.
    pub fn entries(&self, part: Part, checkpoint: &Checkpoint<'_>) -> Result<Vec<Entry>> {
        let asked: &[&str] = match part {
            Part::TextEncoder => {
                let (entry, _) = prompt_rows(checkpoint, &Flux2Pipeline::TEXT_LAYERS)?;
                return Ok(vec![entry]);
            }
            Part::Transformer if self.about.distilled => &[NOISE, DENOISE],
            Part::Transformer => &[NOISE, DENOISE, DENOISE_STEP, GUIDED_STEP],
            Part::Decoder => &[DECODE_IMAGE],
        };
        let (mut all, _) = entries(checkpoint, None)?;
        all.retain(|e| asked.contains(&e.name.as_str()));
        Ok(all)
    }

    /// Begins the picture of a prompt.
    ///
    /// # Errors
    /// `Usage` for a size that is no multiple of [`scale`](Self::scale) or larger than [`LONGEST`], and for options
    /// that the pipeline does not take; as the chat template.
    pub fn start(&self, prompt: &str, options: &ImagineOptions) -> Result<Imagining> {
        let size = self.latent_size(options)?;
        let steps = options.steps.unwrap_or_else(|| self.usual_steps());
        let channels = self.network.in_channels;
        let dims = vec![1, size[0] * size[1], channels];
        let start = match &options.latents {
            None => None,
            Some(x) if x.len() as u64 == dims.iter().product::<u64>() => Some(floats(x, dims)),
            Some(x) => {
                let wanted = size[0] * size[1] * channels;
                let what = format!("{} numbers of latents, expected {wanted}", x.len());
                return Err(Error::usage(what));
            }
        };
        let way = Way {
            sigmas: self.schedule.sigmas(size[0] * size[1], steps)?,
            guidance: self.guidance(options)?,
            seed: options.seed,
            size,
            channels,
            preview: options.preview,
        };
        // Without guidance there is one text, else another one to be unlike.
        let prompts = if way.guidance.is_some() { vec![prompt, ""] } else { vec![prompt] };
        let tokens = prompts.iter().map(|prompt| self.tokens(prompt)).collect::<Result<_>>()?;
        Ok(Imagining::new(way, tokens, start))
    }

    /// Rows and columns of latents.
    fn latent_size(&self, options: &ImagineOptions) -> Result<[u64; 2]> {
        let scale = self.scale();
        for edge in [options.width, options.height] {
            if edge == 0 || edge % scale != 0 || edge > LONGEST {
                let what = format!(
                    "a picture of {} x {} pixels is not possible",
                    options.width, options.height
                );
                let hint = format!("give multiples of {scale}, at most {LONGEST}");
                return Err(Error::usage(what).hint(hint));
            }
        }
        Ok([options.height / scale, options.width / scale])
    }

    fn guidance(&self, options: &ImagineOptions) -> Result<Option<f32>> {
        match (options.guidance, self.about.distilled) {
            (None, distilled) => Ok((!distilled).then_some(USUAL_GUIDANCE)),
            (Some(_), true) => Err(Error::usage("the pipeline is distilled: it takes no guidance")
                .hint("leave it out, or use the pipeline that is not distilled")),
            // As much as 1 is no guidance.
            (Some(by), false) if by.is_finite() && by >= 1.0 => Ok((by > 1.0).then_some(by)),
            (Some(by), false) => Err(Error::usage(format!("guidance of {by} is not possible"))
                .hint("give a number from 1 on")),
        }
    }

    /// Tokens of a prompt, and which of them are real.
    fn tokens(&self, prompt: &str) -> Result<[Vec<u32>; 2]> {
        let all = Flux2Pipeline::TEXT_ROWS;
        // Without its template a prompt would be another one than in training.
        let hint = "use the tokenizer folder that belongs to the pipeline";
        let template = self.language.template.as_ref();
        let template = template.map_err(|e| {
            let mut e = e.clone().hint(hint);
            e.code = Code::BadFile;
            e
        })?;
        let options = RenderOptions {
            add_generation_prompt: true,
            variables: vec![("enable_thinking".into(), TemplateValue::parse("false")?)],
            now: None,
        };
        let rendered = template.render(&[Message::new("user", prompt)], &options);
        let rendered = rendered.map_err(|e| e.hint(hint))?;
        let mut ids = encode_chat(&self.language.tokenizer, &rendered);
        ids.truncate(all);
        let real = (0..all).map(|i| u32::from(i < ids.len())).collect();
        let pad = self.language.tokenizer.pad();
        let pad = pad.or(if ids.len() == all { Some(0) } else { None }).ok_or_else(|| {
            Error::bad_file("the tokenizer has no token for padding")
                .at(format!("{}/tokenizer", self.name.trim_end_matches('/')))
                .hint("tokenizer_config.json names it as pad_token")
        })?;
        ids.resize(all, pad);
        if let Some(id) = ids.iter().find(|&&id| u64::from(id) >= self.text.vocab) {
            let what = format!("the tokenizer makes token {id}, which the text encoder has not");
            return Err(Error::bad_file(what).hint("use the folders of one pipeline"));
        }
        Ok([ids, real])
    }
}

/// Fails for a tokenizer that pads before the text: rows of padding would be others.
fn pads_at_the_end(files: &PipelineFiles) -> Result<()> {
    match files.tokenizer.padding_side() {
        None | Some("right") => Ok(()),
        Some(side) => {
            let what = format!("padding_side `{side}` is not supported");
            Err(Error::new(Code::Unsupported, what)
                .at(files.tokenizer_config.clone())
                .hint("supported: right"))
        }
    }
}
