//! Pictures of prompts in a page: a pipeline's models are loaded one after the other, as each is needed.

use crate::answer::Object;
use crate::executor::Executor;
use crate::network::{Coming, about};
use crate::readers::Readers;
use crate::request::parse;
use crate::state::{State, given_up, not_open};
use core::task::{Context, Poll};
use rlx_core::image::Image;
use rlx_core::models;
use rlx_core::runtime::imagine::{
    ImagineOptions, Imagined, Imagining, LONGEST, Models, Part, Pipeline, PipelineFiles,
};
use rlx_core::runtime::session::network::open;
use rlx_core::safetensors::json::Json;
use rlx_core::target::{Activations, CompileOptions};
use rlx_core::weights::WeightFiles;
use rlx_core::{Error, Result};

/// A pipeline, and the picture that it makes.
pub(crate) struct Imaginer {
    pub files: PipelineFiles,
    pipeline: Option<Pipeline>,
    pub models: Models,
    /// The model that is being loaded.
    part: Option<Part>,
    /// Bytes of each model's weights, once it was loaded.
    weight_bytes: [u64; 3],
    imagining: Option<Imagining>,
    /// The picture that came last, until it is taken.
    picture: Option<Image>,
    /// Whether models stay on the device when others are needed.
    resident: bool,
}

impl Imaginer {
    /// A pipeline of which nothing is known yet.
    pub fn new(options_json: &str) -> Result<Self> {
        let resident = parse(options_json)?.get("resident").and_then(Json::as_bool);
        Ok(Imaginer {
            files: PipelineFiles::default(),
            pipeline: None,
            models: Models::default(),
            part: None,
            weight_bytes: [0; 3],
            imagining: None,
            picture: None,
            resident: resident.unwrap_or(false),
        })
    }

    /// Bytes of the weights of all models that were loaded once.
    pub fn weight_bytes(&self) -> u64 {
        self.weight_bytes.iter().sum()
    }

    /// Plans the model whose headers these are, and asks the device for memory.
    pub fn open(
        &mut self,
        readers: Readers,
        executor: &Executor,
        activations: Activations,
    ) -> Result<Coming> {
        let (Some(pipeline), Some(part)) = (&self.pipeline, self.part) else {
            return Err(not_open());
        };
        let shards = readers.len();
        let files: WeightFiles = readers.files()?;
        let checkpoint = files.checkpoint(pipeline.config(part));
        let at = |e: Error| if e.at.is_empty() { e.at(part.folder()) } else { e };
        let entries = pipeline.entries(part, &checkpoint).map_err(at)?;
        let facts = models::open(&checkpoint)?.facts();
        let options = CompileOptions { activations, ..CompileOptions::default() };
        let opening = open(executor.device.clone(), entries, Some(&checkpoint), &options);
        let mut coming = Coming::new(opening.map_err(at)?, executor, shards)?;
        self.weight_bytes[part as usize] = coming.weight_bytes;
        if part == Part::Transformer {
            coming.model = Some(about(&facts));
        }
        Ok(coming)
    }

    /// Takes the model whose bytes are all there.
    pub fn finish(&mut self, coming: Coming) -> Result<()> {
        let part = self.part.take().ok_or_else(not_open)?;
        self.models.put(part, coming.opening.finish());
        Ok(())
    }

    /// Frees everything on the device.
    pub fn free(&mut self) {
        self.imagining = None;
        self.picture = None;
        self.models = Models::default();
    }
}

impl State {
    fn imaginer(&mut self) -> Result<&mut Imaginer> {
        self.imaginer.as_mut().ok_or_else(not_open)
    }

    /// Call after the small files: reads what they say. `name` is the folder's in errors. Answers with what is known
    /// of the pipeline, as JSON.
    pub fn open_pipeline(&mut self, name: &str) -> Result<String> {
        let imaginer = self.imaginer()?;
        let pipeline = Pipeline::open(name, core::mem::take(&mut imaginer.files))?;
        let about = Object::new()
            .with("scale", &pipeline.scale())
            .with("longest", &LONGEST)
            .with("steps", &pipeline.usual_steps())
            .with("distilled", &pipeline.is_distilled());
        imaginer.pipeline = Some(pipeline);
        Ok(about.text())
    }

    /// Begins to load the model of one of the pipeline's folders: its headers come next.
    pub fn load_part(&mut self, folder: &str) -> Result<()> {
        let part = Part::of_folder(folder)
            .ok_or_else(|| Error::internal(format!("a pipeline has no {folder}")))?;
        let imaginer = self.imaginer()?;
        if !imaginer.resident {
            let needs = imaginer.imagining.as_ref().map_or(&[][..], Imagining::needs);
            imaginer.models.keep(needs);
        }
        imaginer.part = Some(part);
        self.files.readers = Readers::default();
        self.coming = None;
        Ok(())
    }

    /// Begins a picture.
    pub fn imagine(&mut self, prompt: &str, options_json: &str) -> Result<()> {
        let options = parse(options_json)?;
        let whole = |key: &str| options.get(key).and_then(Json::as_u64);
        let usual = ImagineOptions::default();
        let options = ImagineOptions {
            width: whole("width").unwrap_or(usual.width),
            height: whole("height").unwrap_or(usual.height),
            steps: whole("steps"),
            seed: whole("seed").unwrap_or(usual.seed),
            guidance: options.get("guidance").and_then(Json::as_f64).map(|x| x as f32),
            latents: None,
            preview: options.get("preview").and_then(Json::as_bool).unwrap_or(false),
        };
        self.cancelled = false;
        let imaginer = self.imaginer()?;
        imaginer.imagining = None;
        let pipeline = imaginer.pipeline.as_ref().ok_or_else(not_open)?;
        imaginer.imagining = Some(pipeline.start(prompt, &options)?);
        Ok(())
    }

    /// The folders of the models that come next and are not on the device.
    pub fn needed_parts(&mut self) -> Result<Vec<String>> {
        let imaginer = self.imaginer()?;
        let needs = imaginer.imagining.as_ref().ok_or_else(given_up)?.needs();
        let missing = needs.iter().filter(|part| !imaginer.models.has(**part));
        Ok(missing.map(|part| part.folder().into()).collect())
    }

    /// Works until something became of the picture: as JSON what that is.
    pub fn poll_imagined(&mut self, cx: &mut Context<'_>) -> Poll<Result<String>> {
        let cancelled = self.cancelled;
        let Some(imaginer) = &mut self.imaginer else { return Poll::Ready(Err(not_open())) };
        let Some(imagining) = &mut imaginer.imagining else {
            return Poll::Ready(Err(given_up()));
        };
        let Poll::Ready(answer) = imagining.poll(&mut imaginer.models, cx) else {
            return Poll::Pending;
        };
        if cancelled || answer.is_err() {
            imaginer.imagining = None;
        }
        if cancelled {
            return Poll::Ready(Err(given_up()));
        }
        Poll::Ready(answer.map(|imagined| {
            let (told, picture) = match imagined {
                Imagined::Prompt => (Object::new(), None),
                Imagined::Step { done, all, preview } => {
                    (Object::new().with("step", &done).with("steps", &all), preview)
                }
                Imagined::Picture(picture) => {
                    imaginer.imagining = None;
                    (Object::new().with("over", &true), Some(picture))
                }
            };
            let told = match &picture {
                Some(of) => told.with("width", &of.width()).with("height", &of.height()),
                None => told,
            };
            imaginer.picture = picture;
            told.text()
        }))
    }

    /// The picture that came last: four bytes a pixel, row by row. Call it once.
    pub fn picture(&mut self) -> Vec<u8> {
        let picture = self.imaginer.as_mut().and_then(|imaginer| imaginer.picture.take());
        let Some(picture) = picture else { return Vec::new() };
        let (rgb, _) = picture.pixels().as_chunks::<3>();
        rgb.iter().flat_map(|&[r, g, b]| [r, g, b, 255]).collect()
    }
}
