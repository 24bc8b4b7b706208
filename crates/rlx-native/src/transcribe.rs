//! What is said in a sound, on this machine: a model's folder to a transcriber, and a file through it.

use crate::block_on::block_on;
use crate::devices::DeviceRow;
use crate::network::{CheckpointFiles, Folder, Network};
use crate::sound::SoundReader;
use rlx_core::models::{Task, Wav2Vec2Config};
use rlx_core::runtime::device::Device;
use rlx_core::runtime::session::network::check_task;
use rlx_core::runtime::transcribe::Pieces;
pub use rlx_core::runtime::transcribe::{Heard, PIECE_SECONDS, Transcriber, Transcription};
use rlx_core::sound::{CtcVocabulary, SoundProcessor, VocabularyFiles};
use rlx_core::target::CompileOptions;
use rlx_core::{Code, Error, Result};
use std::sync::Arc;

const VOCAB: &str = "vocab.json";

/// Opens a model that hears on a device; it hears a sound in pieces of so many seconds. `progress` is told bytes so
/// far and of how many.
///
/// # Errors
/// As the readers, the compiler and the device; `Unsupported` for a model that hears nothing; `Usage` for pieces
/// that are too short.
pub fn transcriber(
    files: &CheckpointFiles,
    row: &DeviceRow,
    device: Arc<dyn Device>,
    seconds: f64,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Transcriber> {
    let (network, facts) = Network::of(files.checkpoint(), files.maps(), None)?;
    check_task(&facts, Task::Transcribe)?;
    let CheckpointFiles::Folder(folder) = files else {
        return Err(Error::internal("a model that hears is no folder"));
    };
    let processor = processor(folder)?;
    let vocabulary = vocabulary(folder, facts.vocab)?;
    let frame = Wav2Vec2Config::open(&folder.checkpoint())?.frame();
    let pieces = Pieces::of_seconds(seconds, processor.rate, frame)?;
    let session = network.open(row, device, &CompileOptions::default(), progress)?;
    Transcriber::new(session, processor, vocabulary, pieces)
}

/// What the folder does to sounds: as its files say, else as models of its family do.
fn processor(folder: &Folder) -> Result<SoundProcessor> {
    for name in ["preprocessor_config.json", "processor_config.json"] {
        if let Some(text) = folder.text(name)? {
            return SoundProcessor::read(text.as_bytes(), name).map_err(|e| folder.located(e));
        }
    }
    Ok(SoundProcessor::default())
}

/// What the folder's tokens mean.
fn vocabulary(folder: &Folder, vocab: u64) -> Result<CtcVocabulary> {
    let Some(tokens) = folder.text(VOCAB)? else {
        let what = format!("the folder has no {VOCAB}");
        return Err(folder.located(
            Error::new(Code::Io, what)
                .hint("it has the letters that the model's numbers stand for"),
        ));
    };
    let [config, special, added] =
        ["tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"]
            .map(|name| folder.text(name));
    let (config, special, added) = (config?, special?, added?);
    let files = VocabularyFiles {
        vocab: tokens.as_bytes(),
        config: config.as_deref().map(str::as_bytes),
        special: special.as_deref().map(str::as_bytes),
        added: added.as_deref().map(str::as_bytes),
    };
    CtcVocabulary::read(&files, vocab).map_err(|e| folder.located(e))
}

/// What is called whenever a piece was heard, and at the end: it takes texts and words, is told how much of the sound
/// was read, from 0 to 1 if that is known, and answers whether to go on.
pub type Listener<'a> =
    &'a mut dyn FnMut(&mut Transcription, &Transcriber, Option<f64>) -> Result<bool>;

/// Hears a file to its end.
///
/// # Errors
/// As [`SoundReader::read`] and [`Transcription::poll`]; `Cancelled` where `heard` answered no. What was heard before
/// an error was told to `heard`.
pub fn transcribe(
    transcriber: &mut Transcriber,
    reader: &mut SoundReader,
    heard: Listener<'_>,
) -> Result<()> {
    let mut going = transcriber.start(reader.rate())?;
    let mut samples = Vec::new();
    loop {
        let step = block_on(|cx| going.poll(transcriber, cx))?;
        if step == Heard::NeedsSound {
            samples.clear();
            match reader.read(&mut samples)? {
                true => going.push(&samples),
                false => going.end(),
            }
            continue;
        }
        let (came, all) = reader.seconds();
        let share = all.filter(|&all| all > 0.0).map(|all| (came / all).min(1.0));
        if !heard(&mut going, transcriber, share)? {
            return Err(Error::new(Code::Cancelled, "transcribing was cancelled"));
        }
        if step == Heard::End {
            return Ok(());
        }
    }
}
