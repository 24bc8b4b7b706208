//! Images of prompts on this machine: the folder of a FLUX.2 klein pipeline to a picture.
//!
//! ```text
//! prompt ─ chat template, tokens ─▶ text encoder ─ rows ─▶ transformer, step by step ─ latents ─▶ decoder ─▶ picture
//! ```
//!
//! One model after the other is on the device, so that memory holds the largest of them and not all. Latents stay on
//! the device between steps.

use crate::block_on::block_on;
use crate::devices::DeviceRow;
use crate::files::small_file;
use crate::network::{Folder, Network, PIPELINE, run, tokenizer_files};
use rlx_core::image::Image;
use rlx_core::models::{
    DECODE_IMAGE, DENOISE, DENOISE_STEP, ENCODE_TEXT, Entry, FlowMatch, Flux2Config, Flux2Pipeline,
    Flux2VaeConfig, GUIDED_STEP, Language, NOISE, PromptRows, prompt_rows,
};
use rlx_core::runtime::device::Device;
use rlx_core::runtime::session::{DeviceTensor, Given, Session, Tensor};
use rlx_core::safetensors::json::Json;
use rlx_core::target::CompileOptions;
use rlx_core::text::{Message, RenderOptions, TemplateValue, encode_chat};
use rlx_core::types::DType;
use rlx_core::{Code, Error, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Pixels along an edge at most: four times what the models were trained with.
pub const LONGEST: u64 = 4096;

/// Pixels along an edge where nobody says how many.
pub const USUAL_SIZE: u64 = 1024;

/// How strongly the prompt is preferred to no prompt, where nobody says so.
const USUAL_GUIDANCE: f32 = 4.0;

/// What a picture is made of beside its prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct ImagineOptions {
    /// Pixels in a row.
    pub width: u64,
    /// Rows of pixels.
    pub height: u64,
    /// Steps from noise to picture; `None`: as many as the pipeline is made for.
    pub steps: Option<u64>,
    /// Chooses the noise: a seed gives the same on every device.
    pub seed: u64,
    /// How strongly the prompt is preferred to no prompt, above 1; `None`: 4. A distilled pipeline takes none.
    pub guidance: Option<f32>,
    /// The latents to begin with in place of noise, `[latents, channels]`.
    pub latents: Option<Vec<f32>>,
}

impl Default for ImagineOptions {
    fn default() -> Self {
        ImagineOptions {
            width: USUAL_SIZE,
            height: USUAL_SIZE,
            steps: None,
            seed: 0,
            guidance: None,
            latents: None,
        }
    }
}

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Bytes of a model that is being loaded, so far and of how many.
    Loading(u64, u64),
    /// Steps that are done, and all.
    Step(u64, u64),
    /// Latents become a picture.
    Decoding,
}

/// A pipeline's files.
pub struct Pipeline {
    path: PathBuf,
    about: Flux2Pipeline,
    schedule: FlowMatch,
    language: Language,
    text: Folder,
    transformer: (Folder, Flux2Config),
    vae: (Folder, Flux2VaeConfig),
    /// What the text encoder is asked, and what its rows are like.
    reader: (Entry, PromptRows),
}

/// Where a session is opened.
struct Place<'a> {
    row: &'a DeviceRow,
    device: Arc<dyn Device>,
}

impl Pipeline {
    /// Opens a pipeline's folder.
    ///
    /// # Errors
    /// `Io` for a file that is not there; `BadFile` for what is in it, and for models that do not belong together;
    /// `Unsupported` for another pipeline than FLUX.2 klein's.
    pub fn open(path: &Path) -> Result<Self> {
        let json = |name: &str| -> Result<(Json, String)> {
            let file = path.join(name);
            let at = file.display().to_string();
            let Some(bytes) = small_file(&file)? else {
                let what = format!("the folder has no {name}");
                return Err(Error::new(Code::Io, what)
                    .at(path.display().to_string())
                    .hint("give the folder of a pipeline, such as FLUX.2 klein's"));
            };
            Ok((Json::parse((*bytes).as_ref(), &at, 0)?, at))
        };
        let (index, at) = json(PIPELINE)?;
        let about = Flux2Pipeline::open(&index, &at)?;
        let (config, at) = json("scheduler/scheduler_config.json")?;
        let schedule = FlowMatch::open(&config, &at)?;
        let tokenizer = path.join("tokenizer");
        let located = |e: Error, path: &Path| match e.at.is_empty() {
            true => e.at(path.display().to_string()),
            false => e,
        };
        pads_at_the_end(&tokenizer)?;
        let language = tokenizer_files(&tokenizer)
            .and_then(|files| Language::of_folder(&files))
            .map_err(|e| located(e, &tokenizer))?;
        let folder = |name: &str| Folder::open(&path.join(name));
        let (text, transformer, vae) =
            (folder("text_encoder")?, folder("transformer")?, folder("vae")?);
        let reader = prompt_rows(&text.checkpoint(), &Flux2Pipeline::TEXT_LAYERS)
            .map_err(|e| text.located(e))?;
        let network =
            Flux2Config::open(&transformer.checkpoint()).map_err(|e| transformer.located(e))?;
        let decoder = Flux2VaeConfig::open(&vae.checkpoint()).map_err(|e| vae.located(e))?;
        let pipeline = Pipeline {
            path: path.into(),
            about,
            schedule,
            language,
            text,
            transformer: (transformer, network),
            vae: (vae, decoder),
            reader,
        };
        pipeline.check()?;
        Ok(pipeline)
    }

    /// Fails for models that do not belong together.
    fn check(&self) -> Result<()> {
        let (network, decoder, rows) = (&self.transformer.1, &self.vae.1, self.reader.1);
        let bad = |what: String| {
            Err(Error::bad_file(what)
                .at(self.path.display().to_string())
                .hint("use the folders of one pipeline"))
        };
        if network.guidance {
            let what = "the transformer reads a strength of guidance, which klein's do not";
            return Err(Error::new(Code::Unsupported, what)
                .at(self.path.join("transformer").display().to_string())
                .hint("supported: transformers with guidance_embeds false"));
        }
        let latents = 4 * decoder.latent_channels;
        if [network.in_channels, network.out_channels] != [latents; 2] {
            return bad(format!(
                "the transformer makes {} channels of {}, the decoder reads {latents}",
                network.out_channels, network.in_channels
            ));
        }
        if rows.width != network.text_dim {
            return bad(format!(
                "the text encoder makes rows of {}, the transformer reads rows of {}",
                rows.width, network.text_dim
            ));
        }
        if decoder.out_channels != 3 {
            return bad(format!("the decoder makes {} colours, not 3", decoder.out_channels));
        }
        let tokens = Flux2Pipeline::TEXT_ROWS as u64;
        if rows.context < tokens {
            return bad(format!(
                "the text encoder has {} positions, expected {tokens} or more",
                rows.context
            ));
        }
        Ok(())
    }

    /// Pixels along an edge of a latent: sizes of pictures are multiples of it.
    pub fn scale(&self) -> u64 {
        self.vae.1.scale()
    }

    /// Whether the pipeline needs few steps and no guidance.
    pub fn is_distilled(&self) -> bool {
        self.about.distilled
    }

    /// The picture of a prompt. `progress` is told what is being done; it answers whether to go on.
    ///
    /// # Errors
    /// `Usage` for a size that is no multiple of [`scale`](Self::scale) or larger than [`LONGEST`], and for options
    /// that the pipeline does not take; `Cancelled` where `progress` answered no; as the compiler and the device.
    pub fn imagine(
        &self,
        prompt: &str,
        options: &ImagineOptions,
        row: &DeviceRow,
        device: &Arc<dyn Device>,
        progress: &mut dyn FnMut(Stage) -> bool,
    ) -> Result<Image> {
        let place = Place { row, device: device.clone() };
        let size = self.latent_size(options)?;
        let steps = options.steps.unwrap_or_else(|| self.about.usual_steps());
        let way = Way {
            sigmas: self.schedule.sigmas(size[0] * size[1], steps)?,
            guidance: self.guidance(options)?,
            seed: options.seed,
            start: self.start(options, size)?,
            size,
        };
        // Without guidance there is one text, else another one to be unlike.
        let prompts = if way.guidance.is_some() { vec![prompt, ""] } else { vec![prompt] };
        let rows = self.rows(&prompts, &place, progress)?;
        let latents = self.latents(&rows, &way, &place, progress)?;
        self.picture(&latents, size, &place, progress)
    }

    /// Rows of text for each prompt, `[1, 512, width]`.
    ///
    /// # Errors
    /// As the chat template, the compiler and the device.
    pub fn prompt_rows(
        &self,
        prompts: &[&str],
        row: &DeviceRow,
        device: &Arc<dyn Device>,
    ) -> Result<Vec<Tensor>> {
        self.rows(prompts, &Place { row, device: device.clone() }, &mut |_| true)
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

    /// The given latents, if there are any.
    fn start(&self, options: &ImagineOptions, [height, width]: [u64; 2]) -> Result<Option<Tensor>> {
        let Some(latents) = &options.latents else { return Ok(None) };
        let dims = vec![1, height * width, self.transformer.1.in_channels];
        let wanted = dims.iter().product::<u64>();
        if latents.len() as u64 != wanted {
            let what = format!("{} numbers of latents, expected {wanted}", latents.len());
            return Err(Error::usage(what));
        }
        Ok(Some(floats(latents, dims)))
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
                .at(self.path.join("tokenizer").display().to_string())
                .hint("tokenizer_config.json names it as pad_token")
        })?;
        ids.resize(all, pad);
        if let Some(id) = ids.iter().find(|&&id| u64::from(id) >= self.reader.1.vocab) {
            let what = format!("the tokenizer makes token {id}, which the text encoder has not");
            return Err(Error::bad_file(what).hint("use the folders of one pipeline"));
        }
        Ok([ids, real])
    }

    fn rows(
        &self,
        prompts: &[&str],
        place: &Place<'_>,
        progress: &mut dyn FnMut(Stage) -> bool,
    ) -> Result<Vec<Tensor>> {
        let tokens =
            prompts.iter().map(|prompt| self.tokens(prompt)).collect::<Result<Vec<_>>>()?;
        let network = Network {
            entries: vec![self.reader.0.clone()],
            weights: Some(self.text.checkpoint()),
            maps: self.text.maps(),
        };
        let mut session = place.session(network, progress)?;
        let mut out = Vec::new();
        for [ids, mask] in tokens {
            let dims = vec![1, ids.len() as u64];
            let (ids, mask) = (words(ids, dims.clone()), words(mask, dims));
            let inputs = [("input_ids", ids.as_ref()), ("attention_mask", mask.as_ref())];
            out.push(one(run(&mut session, ENCODE_TEXT, &inputs)?)?);
        }
        Ok(out)
    }

    /// From noise, or the given latents, to those of a picture.
    fn latents(
        &self,
        rows: &[Tensor],
        way: &Way,
        place: &Place<'_>,
        progress: &mut dyn FnMut(Stage) -> bool,
    ) -> Result<Vec<f32>> {
        let folder = &self.transformer.0;
        let (mut network, _) =
            Network::of(folder.checkpoint(), folder.maps(), None).map_err(|e| folder.located(e))?;
        let asked: &[&str] = match way.guidance {
            Some(_) => &[NOISE, DENOISE_STEP, GUIDED_STEP],
            None => &[NOISE, DENOISE],
        };
        network.entries.retain(|e| asked.contains(&e.name.as_str()));
        let mut session = place.session(network, progress)?;
        let text = Flux2Pipeline::TEXT_ROWS as u32;
        let shared = [
            ("img_ids", places(way.size)),
            (
                "txt_ids",
                words((0..text).flat_map(|i| [0, 0, 0, i]).collect(), vec![text.into(), 4]),
            ),
        ];
        let mut steps = Steps { session: &mut session, shared, rows };
        let mut latents = match &way.start {
            Some(start) => Latents::Given(start.clone()),
            None => {
                let [height, width] = way.size;
                let dims = [1, height * width, self.transformer.1.in_channels];
                Latents::Kept(steps.noise(way.seed, dims)?)
            }
        };
        let all = way.sigmas.len() as u64 - 1;
        for (pair, done) in way.sigmas.windows(2).zip(1..) {
            let times = [one_number(pair[0]), one_number(pair[1])];
            let next = match way.guidance {
                None => steps.denoise(&latents, &times)?,
                Some(strength) => steps.guided(&latents, &times, strength)?,
            };
            latents = Latents::Kept(next);
            go_on(progress(Stage::Step(done, all)))?;
        }
        let Latents::Kept(latents) = latents else {
            return Err(Error::internal("no step was made"));
        };
        let mut reading = session.read(&latents)?;
        block_on(|cx| reading.poll(&mut session, cx))?.f32s()
    }

    /// The picture of latents.
    fn picture(
        &self,
        latents: &[f32],
        [height, width]: [u64; 2],
        place: &Place<'_>,
        progress: &mut dyn FnMut(Stage) -> bool,
    ) -> Result<Image> {
        let (folder, config) = &self.vae;
        let (mut network, _) =
            Network::of(folder.checkpoint(), folder.maps(), None).map_err(|e| folder.located(e))?;
        network.entries.retain(|e| e.name == DECODE_IMAGE);
        let mut session = place.session(network, progress)?;
        go_on(progress(Stage::Decoding))?;
        let latents = floats(latents, vec![1, height, width, 4 * config.latent_channels]);
        let image = one(run(&mut session, DECODE_IMAGE, &[("latents", latents.as_ref())])?)?;
        let &[1, 3, height, width] = image.dims.as_slice() else {
            return Err(Error::internal("the decoder makes no picture of three colours"));
        };
        let pixels = pixels(&image.f32s()?);
        let edge = |n: u64| u32::try_from(n).map_err(|_| Error::internal("a picture too large"));
        Image::new(edge(width)?, edge(height)?, pixels)
    }
}

/// Fails for a tokenizer that pads before the text: rows of padding would be others.
fn pads_at_the_end(tokenizer: &Path) -> Result<()> {
    let file = tokenizer.join("tokenizer_config.json");
    let at = file.display().to_string();
    let Some(bytes) = small_file(&file)? else { return Ok(()) };
    let config = Json::parse((*bytes).as_ref(), &at, 0)?;
    match config.get("padding_side").and_then(Json::as_str) {
        None | Some("right") => Ok(()),
        Some(side) => {
            let what = format!("padding_side `{side}` is not supported");
            Err(Error::new(Code::Unsupported, what).at(at).hint("supported: right"))
        }
    }
}

/// How latents become those of a picture.
struct Way {
    /// Times from 1 to 0.
    sigmas: Vec<f32>,
    guidance: Option<f32>,
    seed: u64,
    /// What to begin with in place of noise.
    start: Option<Tensor>,
    /// Rows and columns of latents.
    size: [u64; 2],
}

/// Latents on their way: those of the caller, or those of a step, which are on the device.
enum Latents {
    Given(Tensor),
    Kept(DeviceTensor),
}

impl Latents {
    fn given(&self) -> Given<'_> {
        match self {
            Latents::Given(t) => t.as_ref().into(),
            Latents::Kept(t) => t.into(),
        }
    }
}

/// A transformer that is asked again and again, and what it is given each time.
struct Steps<'a> {
    session: &'a mut Session,
    /// Places of latents and of rows of text.
    shared: [(&'static str, Tensor); 2],
    /// Rows of the prompt, and of the text that a guided picture is unlike.
    rows: &'a [Tensor],
}

impl Steps<'_> {
    /// Runs an entry whose output stays on the device.
    fn keep(
        &mut self,
        entry: &'static str,
        output: &str,
        inputs: &[(&str, Given<'_>)],
    ) -> Result<DeviceTensor> {
        let mut run = self.session.start(entry, inputs)?;
        let kept = run.keep(self.session, output)?;
        block_on(|cx| run.poll(self.session, cx))?;
        Ok(kept)
    }

    fn noise(&mut self, seed: u64, latents: [u64; 3]) -> Result<DeviceTensor> {
        let key = words(vec![seed as u32, (seed >> 32) as u32, 0, 0], vec![4]);
        // There is no picture to begin with: noise alone.
        let (sigma, none) = (
            one_number(1.0),
            floats(&vec![0.0; latents.iter().product::<u64>() as usize], latents.into()),
        );
        let inputs = [
            ("key", key.as_ref().into()),
            ("latents", none.as_ref().into()),
            ("sigma", sigma.as_ref().into()),
        ];
        self.keep(NOISE, "latents", &inputs)
    }

    /// What every step is given beside latents and times.
    fn shared(&self, text: usize) -> Result<Tensors> {
        let rows = self.rows.get(text).ok_or_else(|| Error::internal("a text without rows"))?;
        let mut all = vec![("encoder_hidden_states", rows.clone())];
        all.extend(self.shared.iter().cloned());
        Ok(all)
    }

    fn denoise(&mut self, latents: &Latents, [sigma, next]: &[Tensor; 2]) -> Result<DeviceTensor> {
        let shared = self.shared(0)?;
        let mut inputs = given(&shared);
        inputs.push(("latents", latents.given()));
        inputs.push(("sigma", sigma.as_ref().into()));
        inputs.push(("sigma_next", next.as_ref().into()));
        self.keep(DENOISE, "latents", &inputs)
    }

    fn guided(
        &mut self,
        latents: &Latents,
        [sigma, next]: &[Tensor; 2],
        strength: f32,
    ) -> Result<DeviceTensor> {
        let mut velocity = |text| -> Result<DeviceTensor> {
            let shared = self.shared(text)?;
            let mut inputs = given(&shared);
            inputs.push(("hidden_states", latents.given()));
            inputs.push(("timestep", sigma.as_ref().into()));
            self.keep(DENOISE_STEP, "sample", &inputs)
        };
        let (velocity, other) = (velocity(0)?, velocity(1)?);
        let strength = one_number(strength);
        let inputs = [
            ("latents", latents.given()),
            ("velocity", (&velocity).into()),
            ("other", (&other).into()),
            ("strength", strength.as_ref().into()),
            ("sigma", sigma.as_ref().into()),
            ("sigma_next", next.as_ref().into()),
        ];
        self.keep(GUIDED_STEP, "latents", &inputs)
    }
}

type Tensors = Vec<(&'static str, Tensor)>;

fn given(tensors: &Tensors) -> Vec<(&'static str, Given<'_>)> {
    tensors.iter().map(|(name, t)| (*name, t.as_ref().into())).collect()
}

impl Place<'_> {
    fn session(
        &self,
        network: Network<'_>,
        progress: &mut dyn FnMut(Stage) -> bool,
    ) -> Result<Session> {
        // A file is read to its end before anyone can say no.
        let mut wanted = true;
        let mut loading = |done, all| wanted &= progress(Stage::Loading(done, all));
        let options = CompileOptions::default();
        let session = network.open(self.row, self.device.clone(), &options, &mut loading)?;
        go_on(wanted)?;
        Ok(session)
    }
}

fn go_on(wanted: bool) -> Result<()> {
    match wanted {
        true => Ok(()),
        false => Err(Error::new(Code::Cancelled, "making the picture was cancelled")),
    }
}

/// The one output of an entry.
fn one(outputs: Vec<Tensor>) -> Result<Tensor> {
    let first = outputs.into_iter().next();
    first.ok_or_else(|| Error::internal("an entry without an output"))
}

/// Colours from -1 to 1, one after the other, as bytes of pixels.
fn pixels(planes: &[f32]) -> Vec<u8> {
    // A number that is none is black.
    let byte = |x: f32| ((x / 2.0 + 0.5).clamp(0.0, 1.0) * 255.0).round_ties_even() as u8;
    let all = planes.len() / 3;
    (0..all).flat_map(|i| [0, 1, 2].map(|c| byte(planes[c * all + i]))).collect()
}

/// Places of latents: time, row, column, place in the text.
fn places([height, width]: [u64; 2]) -> Tensor {
    let (height, width) = (height as u32, width as u32);
    let row = |y| (0..width).flat_map(move |x| [0, y, x, 0]);
    words((0..height).flat_map(row).collect(), vec![u64::from(height) * u64::from(width), 4])
}

fn tensor(dtype: DType, dims: Vec<u64>, bytes: Vec<u8>) -> Tensor {
    Tensor { name: String::new(), dtype, dims, bytes }
}

fn words(words: Vec<u32>, dims: Vec<u64>) -> Tensor {
    tensor(DType::U32, dims, words.into_iter().flat_map(u32::to_le_bytes).collect())
}

fn floats(x: &[f32], dims: Vec<u64>) -> Tensor {
    tensor(DType::F32, dims, x.iter().flat_map(|x| x.to_le_bytes()).collect())
}

fn one_number(x: f32) -> Tensor {
    floats(&[x], vec![1])
}
