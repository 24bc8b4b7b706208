//! `rlx transcribe`: writes down what is said in sounds.

use super::options::DeviceArgs;
use super::progress::ProgressLine;
use super::{print_json, print_text};
use crate::network::CheckpointFiles;
use crate::sound::SoundReader;
use crate::transcribe::{PIECE_SECONDS, Transcriber, transcribe as hear, transcriber};
use clap::Args;
use rlx_core::Result;
use rlx_core::sound::Word;
use serde::Serialize;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Args)]
pub struct TranscribeArgs {
    /// A model that hears: a folder with config.json, model.safetensors and vocab.json
    #[arg(long, value_name = "PATH")]
    model: PathBuf,
    #[command(flatten)]
    device: DeviceArgs,
    /// Print each word on a line, behind the seconds at which it begins and ends
    #[arg(long)]
    timestamps: bool,
    /// A long sound is heard in pieces of so many seconds, which overlap
    #[arg(long, value_name = "SECONDS", default_value_t = PIECE_SECONDS, allow_negative_numbers = true)]
    piece_seconds: f64,
    /// Print one line of JSON for all sounds: device, sounds with their text and words
    #[arg(long)]
    json: bool,
    /// WAV, FLAC, Ogg Vorbis or MP3 files
    #[arg(value_name = "SOUND", required = true)]
    sounds: Vec<PathBuf>,
}

#[derive(Serialize)]
struct Transcripts<'a> {
    device: &'a str,
    adapter: &'a str,
    sounds: Vec<Transcript>,
}

#[derive(Serialize)]
struct Transcript {
    file: String,
    seconds: f64,
    text: String,
    words: Vec<Spoken>,
}

#[derive(Serialize)]
struct Spoken {
    word: String,
    start: f64,
    end: f64,
}

impl Spoken {
    fn new(word: Word, transcriber: &Transcriber) -> Self {
        let seconds = |frame| transcriber.seconds(frame);
        Spoken { word: word.text, start: seconds(word.start), end: seconds(word.end) }
    }

    fn line(&self) -> String {
        format!("{:8.2} {:8.2}  {}\n", self.start, self.end, self.word)
    }
}

pub fn transcribe(args: &TranscribeArgs) -> Result<ExitCode> {
    args.device.check()?;
    let files = CheckpointFiles::open(&args.model)?;
    let mut transcriber = args.device.load(|(row, device), progress| {
        transcriber(&files, row, device, args.piece_seconds, progress)
    })?;
    let mut sounds = Vec::new();
    for path in &args.sounds {
        let file = path.display().to_string();
        let mut reader = SoundReader::open(path)?;
        if args.sounds.len() > 1 && !args.json {
            print_text(&format!("{file}:\n"))?;
        }
        let transcript = sound(args, &mut transcriber, &mut reader, &file);
        let transcript = transcript.map_err(|e| if e.at.is_empty() { e.at(&file) } else { e })?;
        sounds.push(transcript);
    }
    if args.json {
        let info = transcriber.session().info();
        print_json(&Transcripts { device: &info.kind, adapter: &info.adapter, sounds })?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Hears one sound. Without `--json` its text or its words are printed as they are known, and nothing is kept.
fn sound(
    args: &TranscribeArgs,
    transcriber: &mut Transcriber,
    reader: &mut SoundReader,
    file: &str,
) -> Result<Transcript> {
    let mut out =
        Transcript { file: file.into(), seconds: 0.0, text: String::new(), words: Vec::new() };
    // On a terminal the text itself shows how far it is.
    let mut line =
        (args.json || !std::io::stdout().is_terminal()).then(|| ProgressLine::new("listening"));
    let mut open_line = false;
    let heard = hear(transcriber, reader, &mut |going, transcriber, share| {
        let (text, words) = (going.take_text(), going.take_words());
        let mut words = words.into_iter().map(|word| Spoken::new(word, transcriber));
        match (args.json, args.timestamps) {
            (true, _) => {
                out.text += &text;
                out.words.extend(words);
            }
            (false, true) => words.try_for_each(|word| print_text(&word.line()))?,
            (false, false) => {
                open_line |= !text.is_empty();
                print_text(&text)?;
            }
        }
        if let (Some(line), Some(share)) = (&mut line, share) {
            line.share(share);
        }
        Ok(true)
    });
    drop(line);
    // A sound in which nothing is said has a line too; an error stands on its own.
    if !args.json && !args.timestamps && (open_line || heard.is_ok()) {
        print_text("\n")?;
    }
    heard?;
    out.seconds = reader.seconds().0;
    Ok(out)
}
