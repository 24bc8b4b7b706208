//! From files to a session: a checkpoint or a graph, its weights, a device.

use crate::block_on::block_on;
use crate::devices::DeviceRow;
use crate::files::{ModelSource, map, open_safetensors, small_file};
use crate::load::fill;
use crate::memory::free_bytes;
use rlx_core::models::{Checkpoint, Facts, FolderTexts, Language, TOKENIZER_FILES, TokenizerFiles};
use rlx_core::profile::{Mixed, PrecisionProfile};
use rlx_core::runtime::device::{Device, SharedBytes};
use rlx_core::runtime::session::network;
use rlx_core::runtime::session::{Entry, Session, Tensor, TensorRef};
use rlx_core::safetensors::{Header, check_apart, files_of_index, json::Json};
use rlx_core::target::{CompileOptions, Precision};
use rlx_core::{Code, Error, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A checkpoint's files.
pub enum CheckpointFiles {
    /// A GGUF file or its shards.
    Gguf(ModelSource),
    /// A folder with `config.json`, and `model.safetensors` or its shards.
    Folder(Folder),
}

/// Files of weights that are one file: transformers', and diffusers'.
const WEIGHTS: [&str; 2] = ["model.safetensors", "diffusion_pytorch_model.safetensors"];

/// What says which models are in the folders of a pipeline.
const PIPELINE: &str = "model_index.json";

/// A folder of transformers or diffusers.
pub struct Folder {
    path: PathBuf,
    config: Json,
    /// The names of its files of weights.
    names: Vec<String>,
    headers: Vec<Header>,
    maps: Vec<SharedBytes>,
}

impl Folder {
    /// Opens a folder.
    ///
    /// # Errors
    /// `Io` for a file that is not there; `BadFile` for what is in it.
    pub fn open(path: &Path) -> Result<Self> {
        let mut folder = Folder {
            path: path.into(),
            config: Json::Null,
            names: Vec::new(),
            headers: Vec::new(),
            maps: Vec::new(),
        };
        let Some(config) = folder.text("config.json")? else {
            if path.join(PIPELINE).exists() {
                let what = format!("the folder is a pipeline of several models: it has {PIPELINE}");
                return Err(Error::new(Code::Unsupported, what)
                    .at(path.display().to_string())
                    .hint("`rlx imagine` asks it; other commands take one of the folders in it"));
            }
            return Err(Error::new(Code::Io, "the folder has no config.json")
                .at(path.display().to_string())
                .hint("give a model file, or the folder of a transformers checkpoint"));
        };
        let at = path.join("config.json").display().to_string();
        folder.config = Json::parse(config.as_bytes(), &at, 0)?;
        folder.names = folder.weight_files()?;
        for name in &folder.names {
            let (header, map) = open_safetensors(&path.join(name))?;
            folder.headers.push(header);
            folder.maps.push(map);
        }
        check_apart(&folder.headers).map_err(|e| e.at(path.display().to_string()))?;
        Ok(folder)
    }

    /// The checkpoint.
    pub fn checkpoint(&self) -> Checkpoint<'_> {
        Checkpoint::transformers_shards(&self.config, &self.headers)
    }

    /// Its files of weights: one file, or those that an index beside it names; diffusers calls them otherwise than
    /// transformers.
    fn weight_files(&self) -> Result<Vec<String>> {
        for whole in WEIGHTS {
            if self.path.join(whole).exists() {
                return Ok(vec![whole.into()]);
            }
            let index = format!("{whole}.index.json");
            if let Some(text) = self.text(&index)? {
                let at = self.path.join(&index).display().to_string();
                return files_of_index(text.as_bytes(), &at);
            }
        }
        // What is missed by name.
        Ok(vec![WEIGHTS[0].into()])
    }

    /// The path of its first file of weights.
    pub fn weights_name(&self) -> String {
        let name = self.names.first().map_or(WEIGHTS[0], String::as_str);
        self.path.join(name).display().to_string()
    }

    /// Headers of its files of weights.
    pub fn headers(&self) -> &[Header] {
        &self.headers
    }

    /// What its small files say of text.
    ///
    /// # Errors
    /// As [`TokenizerFiles::put`] and [`Language::of_folder`].
    pub fn language(&self) -> Result<Language> {
        Language::of_folder(&self.tokenizer_files()?).map_err(|e| self.located(e))
    }

    /// The small files that say how it reads text, as far as they are there.
    ///
    /// # Errors
    /// As [`TokenizerFiles::put`].
    pub fn tokenizer_files(&self) -> Result<TokenizerFiles> {
        let mut files = TokenizerFiles::default();
        for name in TOKENIZER_FILES {
            let path = self.path.join(name);
            let Some(text) = small_file(&path)? else { continue };
            files.put(name, &path.display().to_string(), (*text).as_ref())?;
        }
        Ok(files)
    }

    /// An error about one of its files, at the folder where it names no place.
    pub fn located(&self, e: Error) -> Error {
        if e.at.is_empty() { e.at(self.path.display().to_string()) } else { e }
    }

    /// Its own name, without those of the folders that it is in.
    pub fn name(&self) -> Option<String> {
        let whole = self.path.canonicalize().unwrap_or_else(|_| self.path.clone());
        whole.file_name().map(|name| name.to_string_lossy().into_owned())
    }

    /// Bytes of its files of weights.
    pub fn maps(&self) -> &[SharedBytes] {
        &self.maps
    }

    /// The text of one of its files; `None` where there is no such file.
    ///
    /// # Errors
    /// `Io` for a file that cannot be read; `BadFile` for one that is too large or no text.
    pub fn text(&self, name: &str) -> Result<Option<String>> {
        let Some(bytes) = small_file(&self.path.join(name))? else { return Ok(None) };
        let at = self.path.join(name).display().to_string();
        let text = std::str::from_utf8((*bytes).as_ref());
        text.map(|t| Some(t.to_owned())).map_err(|_| Error::bad_file("the file is no text").at(at))
    }

    /// What its small files say of pooling, tokens and the longest text.
    ///
    /// # Errors
    /// As [`text`](Self::text) and [`FolderTexts::put`].
    pub fn texts(&self) -> Result<FolderTexts> {
        let mut texts = FolderTexts::default();
        let mut put = |name: &str| -> Result<bool> {
            let Some(text) = self.text(name)? else { return Ok(false) };
            texts.put(name, &self.path.join(name).display().to_string(), text.as_bytes())?;
            Ok(true)
        };
        for name in ["1_Pooling/config.json", "modules.json", "sentence_bert_config.json"] {
            put(name)?;
        }
        if !put("tokenizer.json")? {
            put("vocab.txt")?;
        }
        Ok(texts)
    }
}

impl CheckpointFiles {
    /// Opens a file of weights alone, for a graph's text: GGUF, or one whose name ends in `.safetensors`.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn weights(path: &Path) -> Result<Self> {
        if path.extension().is_some_and(|e| e == "safetensors") {
            let (header, map) = open_safetensors(path)?;
            let path = path.parent().unwrap_or(Path::new(".")).into();
            let (names, headers, maps) = (Vec::new(), vec![header], vec![map]);
            return Ok(Self::Folder(Folder { path, config: Json::Null, names, headers, maps }));
        }
        ModelSource::open(path).map(Self::Gguf)
    }

    /// Opens a GGUF file or any of its shards, or a folder.
    ///
    /// # Errors
    /// `Io` for what cannot be read; as the readers for what is in it.
    pub fn open(path: &Path) -> Result<Self> {
        if path.is_dir() {
            return Folder::open(path).map(Self::Folder);
        }
        ModelSource::open(path).map(Self::Gguf)
    }

    /// The checkpoint.
    pub fn checkpoint(&self) -> Checkpoint<'_> {
        match self {
            Self::Gguf(source) => Checkpoint::gguf(&source.files),
            Self::Folder(folder) => folder.checkpoint(),
        }
    }

    /// Bytes of each file, as the checkpoint numbers them.
    pub fn maps(&self) -> &[SharedBytes] {
        match self {
            Self::Gguf(source) => &source.maps,
            Self::Folder(folder) => folder.maps(),
        }
    }

    /// What the files of a language model say of text.
    ///
    /// # Errors
    /// As [`Language::of_gguf`] and [`Folder::language`].
    pub fn language(&self) -> Result<Language> {
        match self {
            Self::Gguf(source) => Language::of_gguf(&source.files),
            Self::Folder(folder) => folder.language(),
        }
    }

    /// Lets go of the memory that a range of a file's map takes: a device has copied it.
    pub fn release(&self, file: usize, offset: usize, len: usize) {
        if let Self::Gguf(source) = self {
            source.release(file, offset, len);
        }
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.maps().iter().map(|map| (**map).as_ref().len() as u64).sum()
    }
}

/// A network on its way to a device.
pub struct Network<'a> {
    /// What it can be asked.
    pub entries: Vec<Entry>,
    /// Where its weights are; `None` for a graph that has none.
    pub weights: Option<Checkpoint<'a>>,
    /// Bytes of the files of the weights.
    pub maps: &'a [SharedBytes],
}

impl<'a> Network<'a> {
    /// The network of a checkpoint, and what is known of it. `context` is how many positions the caches of a
    /// language model have.
    ///
    /// # Errors
    /// As [`network::entries`].
    pub fn of(
        checkpoint: Checkpoint<'a>,
        maps: &'a [SharedBytes],
        context: Option<u64>,
    ) -> Result<(Self, Facts)> {
        let (entries, facts) = network::entries(&checkpoint, context)?;
        Ok((Network { entries, weights: Some(checkpoint), maps }, facts))
    }

    /// Makes it compute in such floats, whatever its family's profile says.
    #[must_use]
    pub fn in_floats(mut self, compute: Precision, options: &mut CompileOptions) -> Self {
        let mixed = if compute == Precision::F32 { Mixed::None } else { Mixed::Auto };
        let precision = PrecisionProfile { compute, mixed };
        options.precision = precision.policy();
        // A profile's settings override options.
        for profile in self.entries.iter_mut().filter_map(|entry| entry.profile.as_mut()) {
            profile.precision = precision.clone();
        }
        self
    }

    /// Puts it on a device. `progress` is told bytes so far and of how many.
    ///
    /// # Errors
    /// As the compiler and the device; `BadFile` for a weight of another type than the graph's;
    /// `OutOfMemory` for weights that this machine's memory does not hold, where that is what the device has.
    pub fn open(
        self,
        row: &DeviceRow,
        device: Arc<dyn Device>,
        options: &CompileOptions,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Session> {
        let own_memory = device.target().buffers.is_none();
        let weights = self.weights.as_ref();
        let opening = network::open(device, self.entries, weights, options);
        let mut opening = opening.map_err(|e| missing(weights, e))?;
        let bytes = opening.loader().plan().bytes();
        if let Some(available) = free_bytes().filter(|n| own_memory && *n < bytes) {
            let what = format!("the weights have {bytes} bytes, this machine has {available} left");
            return Err(Error::new(Code::OutOfMemory, what)
                .hint("close other programs, or use a smaller model"));
        }
        block_on(|cx| opening.poll_ready(cx))?;
        fill(&mut opening, self.maps, row.keeps_maps, &mut |_, _, _| {}, progress)?;
        Ok(opening.finish())
    }
}

/// The error of a tensor that is not there: a graph's text may have been given without its weights.
pub(crate) fn missing(weights: Option<&Checkpoint<'_>>, e: Error) -> Error {
    match (weights, e.code) {
        (None, Code::BadFile) => e.hint("give the file that has it with --weights"),
        _ => e,
    }
}

/// Runs an entry to its end on this thread.
///
/// # Errors
/// As [`Session::start`] and a run's poll.
pub fn run(
    session: &mut Session,
    entry: &str,
    inputs: &[(&str, TensorRef<'_>)],
) -> Result<Vec<Tensor>> {
    let mut run = session.start(entry, inputs)?;
    block_on(|cx| run.poll(session, cx))
}

/// The entry that a file's graph is, by the graph's name.
///
/// # Errors
/// `Io`; else as [`network::graph`], with the file.
pub fn read_graph(path: &Path) -> Result<Entry> {
    let bytes = map(path)?;
    let at = || path.display().to_string();
    let text = std::str::from_utf8((*bytes).as_ref());
    let text = text.map_err(|_| {
        Error::bad_file("this is neither a model file nor a graph's text")
            .at(at())
            .hint("give a .gguf file, a folder with model.safetensors, or the text of a graph")
    })?;
    network::graph(text).map_err(|e| {
        let line = if e.at.is_empty() { at() } else { format!("{}, {}", at(), e.at) };
        e.at(line)
    })
}
