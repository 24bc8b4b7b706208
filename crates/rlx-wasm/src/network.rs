//! From a network's files, as they arrive, to the opening of a session.

use crate::answer::Object;
use crate::executor::{Executor, WASM_BYTES};
use crate::placing::Placing;
use crate::readers::{Readers, no_config};
use crate::request::parse;
use rlx_core::image::{ImageProcessor, SamProcessor};
use rlx_core::models::{
    ENCODE, EmbedOptions, Facts, FolderTexts, IMAGE_EMBED, PoolingKind, Task, Wav2Vec2Config,
    wordpiece,
};
use rlx_core::runtime::embed::Embedder;
use rlx_core::runtime::segment::{Segmenter, Words};
use rlx_core::runtime::session::network::{check_task, entries, graph, open};
use rlx_core::runtime::session::{Entry, Opening, Session};
use rlx_core::runtime::transcribe::{PIECE_SECONDS, Pieces, Transcriber};
use rlx_core::safetensors::json::Json;
use rlx_core::sound::{CtcVocabulary, SoundProcessor};
use rlx_core::target::{Activations, CompileOptions};
use rlx_core::text::WordPiece;
use rlx_core::weights::WeightFiles;
use rlx_core::{Code, Error, Result};
use std::sync::Arc;

/// The files that a page has read so far.
#[derive(Default)]
pub(crate) struct Files {
    pub readers: Readers,
    graph: Option<Entry>,
    texts: FolderTexts,
}

/// A session that is being opened, and what it will be used for.
pub(crate) struct Coming {
    pub opening: Opening,
    pub placing: Placing,
    /// Facts about the model; none for a graph.
    pub model: Option<Object>,
    pub weight_bytes: u64,
    /// How images are prepared, where vectors of them are computed.
    pub images: Option<Images>,
    encoder: Option<Encoder>,
    hearing: Option<Hearing>,
    /// How images are prepared for a model that finds things in them, its family, and how it reads words if it does.
    segmenter: Option<(SamProcessor, &'static str, Option<Words>)>,
}

struct Encoder {
    tokenizer: WordPiece,
    vocab: u64,
    limit: u64,
}

/// How images are prepared: as the folder says, else as its family does.
pub(crate) struct Images {
    said: Option<ImageProcessor>,
    family: &'static str,
}

struct Hearing {
    processor: SoundProcessor,
    vocabulary: CtcVocabulary,
    pieces: Pieces,
}

/// The headers of a network's files, or the text of a graph and the headers of its weights.
pub(crate) struct Headers {
    pub weights: Option<WeightFiles>,
    pub config: Json,
    pub graph: Option<Entry>,
}

/// An open network: a session, or what is around one.
pub(crate) enum Network {
    Session(Box<Session>),
    Embedder(Box<Embedder>),
    /// Besides, samples a second that it hears.
    Transcriber(Box<Transcriber>, u32),
    Segmenter(Box<Segmenter>),
}

/// What a network is opened for.
#[derive(Clone, Copy)]
pub(crate) enum Purpose {
    /// Runs of its entries.
    Session,
    /// Vectors of texts.
    Embed(EmbedOptions),
    /// Vectors of images.
    Features,
    /// Text of sounds, heard in pieces of so many seconds.
    Transcribe(f64),
    /// Masks of things in images.
    Segment,
    /// Pictures of prompts.
    Imagine,
}

/// What the options open a network for.
pub(crate) fn purpose(options_json: &str) -> Result<Purpose> {
    let options = parse(options_json)?;
    for (key, purpose) in [
        ("features", Purpose::Features),
        ("segment", Purpose::Segment),
        ("imagine", Purpose::Imagine),
    ] {
        if options.get(key).and_then(Json::as_bool) == Some(true) {
            return Ok(purpose);
        }
    }
    if let Some(hear) = options.get("hear").filter(|v| v.as_object().is_some()) {
        let seconds = hear.get("pieceSeconds").and_then(Json::as_f64);
        return Ok(Purpose::Transcribe(seconds.unwrap_or(PIECE_SECONDS)));
    }
    let Some(embed) = options.get("embed").filter(|v| v.as_object().is_some()) else {
        return Ok(Purpose::Session);
    };
    let pooling = match embed.get("pooling").and_then(Json::as_str) {
        None => None,
        Some("mean") => Some(PoolingKind::Mean),
        Some("cls") => Some(PoolingKind::Cls),
        Some("last") => Some(PoolingKind::Last),
        Some("max") => Some(PoolingKind::Max),
        Some(other) => return Err(Error::usage(format!("there is no pooling {other}"))),
    };
    Ok(Purpose::Embed(EmbedOptions {
        pooling,
        normalise: embed.get("normalise").and_then(Json::as_bool),
        max_tokens: embed.get("maxTokens").and_then(Json::as_u64),
        activations: None,
    }))
}

impl Files {
    /// Takes a graph's text, or one of a folder's small files. Errors name it `at`.
    pub fn text(&mut self, name: &str, at: &str, bytes: &[u8]) -> Result<()> {
        if name != "graph" {
            return self.texts.put(name, at, bytes);
        }
        let text = std::str::from_utf8(bytes);
        let text = text.map_err(|_| Error::bad_file("the graph is no text").at(at))?;
        let entry = graph(text).map_err(|e| {
            let line = if e.at.is_empty() { at.into() } else { format!("{at}, {}", e.at) };
            e.at(line)
        })?;
        self.graph = Some(entry);
        Ok(())
    }

    /// Call after all headers: what has been read, for somebody who only looks at it.
    pub fn headers(self) -> Result<Headers> {
        let Files { readers, graph, texts } = self;
        let weights = if readers.len() == 0 { None } else { Some(readers.files()?) };
        let config = texts.config().cloned();
        if config.is_none()
            && graph.is_none()
            && matches!(weights, Some(WeightFiles::Safetensors(_)))
        {
            return Err(no_config());
        }
        Ok(Headers { weights, config: config.unwrap_or(Json::Null), graph })
    }

    /// Call after all headers: plans the network and asks the device for memory.
    pub fn open(
        self,
        executor: &Executor,
        activations: Activations,
        context: Option<u64>,
        purpose: Purpose,
    ) -> Result<Coming> {
        let Files { readers, graph, texts } = self;
        let shards = readers.len();
        let options = CompileOptions { activations, ..CompileOptions::default() };
        let device = executor.device.clone();
        let (mut model, mut encoder, mut images) = (None, None, None);
        let (mut hearing, mut segmenter, mut words) = (None, None, None);
        let opening = if let Some(entry) = graph {
            let files = if shards == 0 { None } else { Some(readers.files()?) };
            let checkpoint = files.as_ref().map(|f| f.checkpoint(&Json::Null));
            open(device, vec![entry], checkpoint.as_ref(), &options).map_err(|e| {
                match (e.code, shards) {
                    (Code::BadFile, 0) => e.hint("give the file that has it as `weights`"),
                    _ => e,
                }
            })?
        } else {
            let files = readers.files()?;
            let config = match (&files, texts.config()) {
                (WeightFiles::Safetensors(_), None) => return Err(no_config()),
                (_, config) => config.unwrap_or(&Json::Null),
            };
            let mut checkpoint = files.checkpoint(config);
            // Checked before the tokenizer, so that the error for another kind of model says so.
            let (mut all, facts) = entries(&checkpoint, context)?;
            if let Purpose::Features = purpose {
                check_task(&facts, Task::Features)?;
                let read = |(at, bytes)| ImageProcessor::read(bytes, at, facts.family);
                let said = texts.preprocessor().map(read).transpose()?;
                images = Some(Images { said, family: facts.family });
            }
            if let Purpose::Transcribe(seconds) = purpose {
                check_task(&facts, Task::Transcribe)?;
                let processor = texts.sound_processor()?;
                let vocabulary = texts.ctc_vocabulary(facts.vocab)?;
                let frame = Wav2Vec2Config::open(&checkpoint)?.frame();
                let pieces = Pieces::of_seconds(seconds, processor.rate, frame)
                    .map_err(|e| e.at("pieceSeconds"))?;
                hearing = Some(Hearing { processor, vocabulary, pieces });
            }
            if let Purpose::Embed(embed) = purpose {
                check_task(&facts, Task::Embed)?;
                let (tokenizer, own) = match &files {
                    WeightFiles::Gguf(files) => (wordpiece(files)?, None),
                    WeightFiles::Safetensors(_) => (texts.tokenizer()?, texts.pooling()?),
                };
                let limit = embed.limit(texts.max_tokens(), &facts)?;
                checkpoint = embed.pooled(checkpoint, own);
                all = entries(&checkpoint, None)?.0;
                encoder = Some(Encoder { tokenizer, vocab: facts.vocab, limit });
            }
            if let Purpose::Segment = purpose {
                check_task(&facts, Task::Segment)?;
                if Segmenter::takes_words(&facts) {
                    words = Some(Words::of(&checkpoint, texts.file("tokenizer.json"))?);
                }
            }
            model = Some(about(&facts));
            let opening = open(device, all, Some(&checkpoint), &options)?;
            if let Purpose::Segment = purpose {
                let inputs = opening.inputs(IMAGE_EMBED).unwrap_or_default();
                let said = texts.preprocessor().or_else(|| texts.file("processor_config.json"));
                let processor = Segmenter::processor(inputs, facts.family, said)?;
                segmenter = Some((processor, facts.family, words));
            }
            opening
        };
        let coming = Coming::new(opening, executor, shards)?;
        Ok(Coming { model, images, encoder, hearing, segmenter, ..coming })
    }
}

impl Coming {
    /// A session of which nothing is known yet but that it has so many files.
    ///
    /// # Errors
    /// `OutOfMemory` for more weights than wasm can address, where it has them.
    pub fn new(mut opening: Opening, executor: &Executor, shards: usize) -> Result<Self> {
        let weight_bytes = opening.loader().plan().bytes();
        if executor.webgpu.is_none() && weight_bytes > WASM_BYTES {
            let what = format!(
                "the weights have {weight_bytes} bytes; the CPU in a page has {WASM_BYTES} for them and all else"
            );
            return Err(Error::new(Code::OutOfMemory, what).hint("use WebGPU, or a smaller model"));
        }
        let placing = Placing::new(opening.loader().plan(), shards);
        Ok(Coming {
            opening,
            placing,
            weight_bytes,
            model: None,
            images: None,
            encoder: None,
            hearing: None,
            segmenter: None,
        })
    }

    /// The open network. Call it when every byte is there.
    pub fn finish(self) -> Result<Network> {
        let session = self.opening.finish();
        if let Some(Hearing { processor, vocabulary, pieces }) = self.hearing {
            let transcriber = Transcriber::new(session, processor, vocabulary, pieces)?;
            return Ok(Network::Transcriber(Box::new(transcriber), processor.rate));
        }
        if let Some((processor, family, words)) = self.segmenter {
            let segmenter = match words {
                Some(words) => Segmenter::with_words(session, processor, words)?,
                None => Segmenter::new(session, processor, family)?,
            };
            return Ok(Network::Segmenter(Box::new(segmenter)));
        }
        Ok(match self.encoder {
            Some(Encoder { tokenizer, vocab, limit }) => {
                let embedder = Embedder::new(session, Arc::new(tokenizer), vocab, limit)?;
                Network::Embedder(Box::new(embedder))
            }
            None => Network::Session(Box::new(session)),
        })
    }
}

impl Images {
    /// The processor for an open session: where the folder says nothing, the session may say the size.
    pub fn processor(self, session: &Session) -> Result<ImageProcessor> {
        if let Some(said) = self.said {
            return Ok(said);
        }
        let input = session.inputs(ENCODE)?.iter().find(|i| i.name == "pixel_values");
        let edge = input.and_then(|i| i.ty.shape.0.last()?.as_static());
        Ok(ImageProcessor::of_family(self.family, edge.and_then(|n| u32::try_from(n).ok())))
    }
}

/// What an answer says of a model.
pub(crate) fn about(facts: &Facts) -> Object {
    Object::new()
        .with("family", &facts.family)
        .with("layers", &facts.layers)
        .with("width", &facts.width)
        .with("vocab", &facts.vocab)
        .with("contextLength", &facts.context)
}

impl Network {
    pub fn session(&self) -> &Session {
        match self {
            Self::Session(session) => session,
            Self::Embedder(embedder) => embedder.session(),
            Self::Transcriber(transcriber, _) => transcriber.session(),
            Self::Segmenter(segmenter) => segmenter.session(),
        }
    }
}
