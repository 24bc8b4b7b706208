//! Sounds from files: WAV, FLAC, Ogg Vorbis and MP3, packet by packet, as samples of one channel.
//!
//! Channels are mixed to their mean. A file is read as far as it is needed, so its length takes no memory.

use rlx_core::sound::one_channel;
use rlx_core::{Code, Error, Result};
use std::fs::File;
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::path::Path;
use symphonia::core::codecs::audio::{AudioDecoder, AudioDecoderOptions};
use symphonia::core::errors::Error as Refused;
use symphonia::core::formats::probe::Hint;
use symphonia::core::formats::{FormatOptions, FormatReader, TrackType};
use symphonia::core::io::{MediaSource, MediaSourceStream};
use symphonia::core::meta::MetadataOptions;

const FORMATS: &str = "give a WAV, FLAC, Ogg Vorbis or MP3 file";
const NO_SOUND: &str = "the file is not a sound in a supported format";
const OTHER_CODING: &str = "the sound is coded in a form that is not supported";
const DAMAGED: &str = "the file is damaged or incomplete";

/// Formats of sounds that are not read: their names, and what stands in their files and where.
const OTHERS: [(&str, usize, &[u8]); 15] = [
    ("AIFF", 8, b"AIFF"),
    ("AIFF", 8, b"AIFC"),
    ("AU", 0, b".snd"),
    ("CAF", 0, b"caff"),
    ("RF64", 0, b"RF64"),
    ("Wave64", 0, b"riff"),
    ("MP4", 4, b"ftyp"),
    ("WebM or Matroska", 0, b"\x1a\x45\xdf\xa3"),
    ("Windows Media", 0, b"\x30\x26\xb2\x75"),
    ("Opus", 28, b"OpusHead"),
    ("Speex", 28, b"Speex"),
    ("AMR", 0, b"#!AMR"),
    ("MIDI", 0, b"MThd"),
    ("WavPack", 0, b"wvpk"),
    ("Monkey's Audio", 0, b"MAC "),
];
/// Bytes of a file's beginning that show which it is.
const HEAD: u64 = 36;

/// Tags that may stand before a sound, one behind the other.
const TAGS: usize = 16;

/// A sound that is being read.
pub struct SoundReader {
    format: Box<dyn FormatReader>,
    decoder: Box<dyn AudioDecoder>,
    track: u32,
    rate: u32,
    /// Samples of a channel that the file says it has, and those that came.
    all: Option<u64>,
    came: u64,
    /// Whether a packet that cannot be decoded is passed over: broadcasts are cut anywhere.
    lenient: bool,
    /// Packets that could not be decoded.
    refused: u64,
    packet: Vec<f32>,
}

/// A file without the tags before its sound, whose pictures nobody reads here.
struct Untagged<S> {
    source: S,
    start: u64,
    len: u64,
    /// The beginning of what is behind the tags.
    head: Vec<u8>,
}

impl<S: Read + Seek> Untagged<S> {
    fn new(mut source: S) -> io::Result<Self> {
        let len = source.seek(SeekFrom::End(0))?;
        let mut start = 0;
        for _ in 0..TAGS {
            source.seek(SeekFrom::Start(start))?;
            let mut head = Vec::new();
            source.by_ref().take(10).read_to_end(&mut head)?;
            // ID3v2: its name, version, flags, and its length in four times seven bits.
            let &[b'I', b'D', b'3', _, _, flags, a, b, c, d] = head.as_slice() else { break };
            let size = [a, b, c, d].iter().fold(0, |n, &x| n << 7 | u64::from(x & 127));
            let footer = if flags & 16 != 0 { 10 } else { 0 };
            start = (start + 10 + size + footer).min(len);
        }
        source.seek(SeekFrom::Start(start))?;
        let mut head = Vec::new();
        source.by_ref().take(HEAD).read_to_end(&mut head)?;
        source.seek(SeekFrom::Start(start))?;
        Ok(Untagged { source, start, len: len - start, head })
    }
}

impl<S: Read> Read for Untagged<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.source.read(buffer)
    }
}

impl<S: Seek> Seek for Untagged<S> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let to = match to {
            SeekFrom::Start(at) => SeekFrom::Start(at.saturating_add(self.start)),
            to => to,
        };
        // A place within the tags is before the start.
        let before = || io::Error::new(io::ErrorKind::InvalidInput, "before the sound");
        self.source.seek(to)?.checked_sub(self.start).ok_or_else(before)
    }
}

impl<S: Read + Seek + Send + Sync> MediaSource for Untagged<S> {
    fn is_seekable(&self) -> bool {
        true
    }

    fn byte_len(&self) -> Option<u64> {
        Some(self.len)
    }
}

impl SoundReader {
    /// Opens a file.
    ///
    /// # Errors
    /// `Io` for a file that cannot be read; `BadFile` for one that is empty or damaged; `Unsupported` for other
    /// formats.
    pub fn open(path: &Path) -> Result<Self> {
        let at = || path.display().to_string();
        let io = |e: io::Error| Error::new(Code::Io, format!("{e}")).at(at());
        let file = File::open(path).map_err(io)?;
        if file.metadata().map_err(io)?.is_dir() {
            return Err(Error::new(Code::Io, "this is a folder").at(at()).hint(FORMATS));
        }
        Self::of(file).map_err(|e| e.at(at()))
    }

    /// The same of a file's bytes.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn of_bytes(bytes: Vec<u8>) -> Result<Self> {
        Self::of(Cursor::new(bytes))
    }

    fn of(source: impl Read + Seek + Send + Sync + 'static) -> Result<Self> {
        let source = Untagged::new(source).map_err(|e| refused(&Refused::IoError(e)))?;
        if source.len == 0 {
            return Err(Error::bad_file("the file has no sound").hint(FORMATS));
        }
        let head = source.head.clone();
        let refused = |e: Refused, what: &str| match e {
            Refused::Unsupported(_) => unsupported(&head, what),
            e => refused(&e),
        };
        let stream = MediaSourceStream::new(Box::new(source), Default::default());
        let format = symphonia::default::get_probe().probe(
            &Hint::new(),
            stream,
            FormatOptions::default(),
            MetadataOptions::default(),
        );
        let what = if head.starts_with(b"RIFF") { OTHER_CODING } else { NO_SOUND };
        let format = format.map_err(|e| refused(e, what))?;
        let track = format.default_track(TrackType::Audio);
        let codec = track.and_then(|t| t.codec_params.as_ref()?.audio().map(|codec| (t, codec)));
        let (track, codec) = codec.ok_or_else(|| unsupported(&head, NO_SOUND))?;
        let rate = codec.sample_rate.filter(|&rate| rate > 0).ok_or_else(|| {
            Error::bad_file("the file does not say how many samples a second has").hint(DAMAGED)
        })?;
        let decoder = symphonia::default::get_codecs()
            .make_audio_decoder(codec, &AudioDecoderOptions::default());
        let decoder = decoder.map_err(|e| refused(e, OTHER_CODING))?;
        let name = format.format_info().short_name;
        let (track, all) = (track.id, track.num_frames);
        Ok(SoundReader {
            // Others do not say, or guess, how long they are.
            all: all.filter(|_| matches!(name, "wave" | "flac")),
            lenient: matches!(name, "mp1" | "mp2" | "mp3"),
            format,
            decoder,
            track,
            rate,
            came: 0,
            refused: 0,
            packet: Vec::new(),
        })
    }

    /// Samples a second.
    pub fn rate(&self) -> u32 {
        self.rate
    }

    /// Seconds that came, and all that the file says it has, if it does.
    pub fn seconds(&self) -> (f64, Option<f64>) {
        let seconds = |samples: u64| samples as f64 / f64::from(self.rate);
        (seconds(self.came), self.all.map(seconds))
    }

    /// Adds the samples of the next packet to `out`; `false` at the end.
    ///
    /// # Errors
    /// `Io` for a file that cannot be read; `BadFile` for one that is damaged or ends too soon; `Unsupported` for
    /// sounds that change their rate or follow each other in one file.
    pub fn read(&mut self, out: &mut Vec<f32>) -> Result<bool> {
        let packet = match self.format.next_packet() {
            Ok(Some(packet)) => packet,
            Ok(None) => return self.ended(),
            Err(Refused::IoError(e)) if e.kind() == io::ErrorKind::UnexpectedEof => {
                return self.ended();
            }
            Err(Refused::ResetRequired) => {
                let what = "several sounds stand behind each other in the file";
                return Err(Error::new(Code::Unsupported, what).hint("give each as a file"));
            }
            Err(e) => return Err(refused(&e)),
        };
        if packet.track_id != self.track {
            return Ok(true);
        }
        let sound = match self.decoder.decode(&packet) {
            Ok(sound) => sound,
            Err(Refused::DecodeError(_)) if self.lenient => {
                self.refused += 1;
                return Ok(true);
            }
            Err(e) => return Err(refused(&e)),
        };
        if sound.spec().rate() != self.rate {
            let (was, is) = (self.rate, sound.spec().rate());
            let what = format!("the sound changes from {was} to {is} samples a second");
            return Err(Error::new(Code::Unsupported, what).hint("convert it to one rate"));
        }
        let channels = sound.spec().channels().count();
        self.came += sound.frames() as u64;
        sound.copy_to_vec_interleaved(&mut self.packet);
        one_channel(&self.packet, channels, out);
        Ok(true)
    }

    /// No packet is left: an error where there should be.
    fn ended(&self) -> Result<bool> {
        if self.came == 0 && self.refused > 0 {
            return Err(Error::bad_file("nothing of the sound can be read").hint(DAMAGED));
        }
        match self.seconds() {
            (came, Some(all)) if self.all.is_some_and(|all| self.came < all) => {
                let what = format!("the sound ends after {came:.2} of {all:.2} seconds");
                Err(Error::bad_file(what).hint("the file is incomplete"))
            }
            _ => Ok(false),
        }
    }
}

/// What is not read, by its name if the file's beginning shows it.
fn unsupported(head: &[u8], what: &str) -> Error {
    let is = |at: usize, begins: &[u8]| head.get(at..).is_some_and(|h| h.starts_with(begins));
    let what = match OTHERS.iter().find(|(_, at, begins)| is(*at, begins)) {
        Some((name, ..)) => format!("a sound in {name} is not supported"),
        None => what.to_owned(),
    };
    Error::new(Code::Unsupported, what).hint(FORMATS)
}

fn refused(e: &Refused) -> Error {
    match e {
        Refused::IoError(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
            Error::bad_file("the file ends before its sound begins").hint(FORMATS)
        }
        Refused::IoError(e) => Error::new(Code::Io, format!("the sound cannot be read: {e}")),
        Refused::Unsupported(_) => unsupported(&[], OTHER_CODING),
        e => Error::bad_file(format!("the sound cannot be read: {e}")).hint(DAMAGED),
    }
}
