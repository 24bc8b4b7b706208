//! `rlx transcribe`: what transformers' pipeline says of a sound, in every format and form, on every device.

use super::{SMALL, fails, folder, repository, rlx, run};
use rlx_core::sound::Resampler;
use rlx_native::sound::SoundReader;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

const MODEL: &str = "tests/fixtures/wav2vec2_stable";
const RATE: u32 = 16_000;

fn record() -> Value {
    serde_json::from_slice(&super::fixture("sound/pieces.json")).unwrap()
}

/// The tiny model with a vocabulary, in a folder of this test's own.
fn model(name: &str) -> PathBuf {
    let folder = folder(name);
    for file in ["config.json", "model.safetensors"] {
        std::fs::copy(repository(MODEL).join(file), folder.join(file)).unwrap();
    }
    for (file, text) in record()["files"].as_object().unwrap() {
        std::fs::write(folder.join(file), text.to_string()).unwrap();
    }
    folder
}

/// The sound of the record, which tools/transcripts.py computes in the same way.
fn sound(samples: usize) -> Vec<f32> {
    let mut state = 1u64;
    let next = |i: usize| {
        state = (state * 1_103_515_245 + 12_345) % (1 << 31);
        let loud = 1 + (i / 500) % 5;
        (((state >> 16) % 256) as f32 - 128.0) * loud as f32 / 1024.0
    };
    (0..samples).map(next).collect()
}

/// A WAV file of 16-bit numbers, or of f32; every sample stands in each channel.
fn wav(rate: u32, channels: u16, bits: u16, sound: &[f32]) -> Vec<u8> {
    let sample = |x: &f32| match bits {
        16 => ((x * 32768.0) as i16).to_le_bytes().to_vec(),
        _ => x.to_le_bytes().to_vec(),
    };
    let each = |x: &f32| sample(x).repeat(channels.into());
    let data: Vec<u8> = sound.iter().flat_map(each).collect();
    let block = channels * bits / 8;
    let mut out = b"RIFF".to_vec();
    out.extend((data.len() as u32 + 36).to_le_bytes());
    out.extend(b"WAVEfmt ");
    out.extend(16u32.to_le_bytes());
    out.extend([if bits == 16 { 1u16 } else { 3 }, channels].map(u16::to_le_bytes).concat());
    out.extend([rate, rate * u32::from(block)].map(u32::to_le_bytes).concat());
    out.extend([block, bits].map(u16::to_le_bytes).concat());
    out.extend(b"data");
    out.extend((data.len() as u32).to_le_bytes());
    out.extend(data);
    out
}

fn write(folder: &Path, name: &str, bytes: &[u8]) -> String {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_owned()
}

fn transcribe(model: &Path, args: &[&str]) -> Command {
    let mut command = rlx(&["transcribe", "--model", model.to_str().unwrap()]);
    command.args(args);
    command
}

/// What a command prints that says nothing on stderr.
#[track_caller]
fn printed(command: &mut Command) -> String {
    let (code, stdout, stderr) = run(command);
    assert_eq!((code, stderr.as_str()), (0, ""));
    stdout
}

#[test]
fn sounds_say_what_transformers_hears_on_every_device() {
    let model = model("transcribe");
    let record = record();
    let case = record["cases"].as_array().unwrap().iter().find(|c| c["samples"] == 9601).unwrap();
    let text = case["text"].as_str().unwrap();
    let sound = sound(9601);
    let mono = write(&model, "mono.wav", &wav(RATE, 1, 16, &sound));
    let stereo = write(&model, "stereo.wav", &wav(RATE, 2, 32, &sound));
    for device in ["reference", "cpu", "webgpu"] {
        let args = ["--device", device, "--piece-seconds", "0.3", "--json", &mono, &stereo];
        let got: Value = serde_json::from_str(&printed(&mut transcribe(&model, &args))).unwrap();
        assert_eq!(got["device"], device);
        for (heard, file) in got["sounds"].as_array().unwrap().iter().zip([&mono, &stereo]) {
            assert_eq!(heard["file"], file.as_str());
            assert_eq!(heard["text"], text, "{device} {file}");
            assert_eq!(heard["seconds"], 9601.0 / f64::from(RATE));
            let words = heard["words"].as_array().unwrap();
            let want = case["words"].as_array().unwrap();
            assert_eq!(words.len(), want.len());
            for (word, want) in words.iter().zip(want) {
                let got = [&word["word"], &word["start"], &word["end"]];
                assert_eq!(got, [&want[0], &want[1], &want[2]], "{device} {file}");
            }
        }
    }
    let args = ["--device", "cpu", "--piece-seconds", "0.3", &mono];
    assert_eq!(printed(&mut transcribe(&model, &args)), format!("{text}\n"));
    let both = printed(transcribe(&model, &args).arg(&stereo));
    assert_eq!(both, format!("{mono}:\n{text}\n{stereo}:\n{text}\n"));
    let lines = printed(transcribe(&model, &args).arg("--timestamps"));
    let want = case["words"].as_array().unwrap().iter().map(|w| {
        let seconds = |i: usize| w[i].as_f64().unwrap();
        format!("{:8.2} {:8.2}  {}\n", seconds(1), seconds(2), w[0].as_str().unwrap())
    });
    assert_eq!(lines, want.collect::<String>());
}

#[test]
fn sounds_of_other_rates_are_heard_at_the_models() {
    let model = model("transcribe-rates");
    for (rate, channels) in [(8_000, 1), (48_000, 2), (44_100, 2), (RATE, 6)] {
        let sound = sound(rate as usize / 4);
        let mut resampled = Vec::new();
        let mut resampler = Resampler::new(rate, RATE).unwrap();
        resampler.push(&sound, &mut resampled);
        resampler.finish(&mut resampled);
        let given = write(&model, "given.wav", &wav(rate, channels, 32, &sound));
        let same = write(&model, "same.wav", &wav(RATE, 1, 32, &resampled));
        let args = ["--device", "cpu", "--timestamps"];
        let heard = printed(transcribe(&model, &args).arg(given));
        assert!(!heard.is_empty());
        assert_eq!(heard, printed(transcribe(&model, &args).arg(same)), "{rate} {channels}");
    }
}

#[test]
fn sounds_without_a_word_have_an_empty_line() {
    let model = model("transcribe-empty");
    for samples in [0, 1, 29] {
        let path = write(&model, "short.wav", &wav(RATE, 1, 16, &sound(samples)));
        assert_eq!(printed(&mut transcribe(&model, &["--device", "cpu", &path])), "\n");
    }
}

#[test]
fn what_cannot_be_heard_is_refused() {
    let model = model("transcribe-refused");
    let whole = wav(RATE, 1, 16, &sound(8_000));
    let path = |name: &str, bytes: &[u8]| write(&model, name, bytes);
    const FORMATS: &str = "give a WAV, FLAC, Ogg Vorbis or MP3 file";
    let refused = |args: &[&str], code, what: &str, hint| {
        fails(transcribe(&model, &["--device", "cpu"]).args(args), code, what, hint);
    };
    let empty = path("empty.wav", &[]);
    refused(&[&empty], 3, &format!("the file has no sound ({empty})"), FORMATS);
    let text = path("text.wav", b"this is a text, and no sound");
    let (code, _, said) = run(&mut transcribe(&model, &[&text]));
    assert!(code == 3 && said.ends_with(&format!("({text})\nhint: {FORMATS}\n")), "{said}");
    for (name, bytes) in [
        ("AIFF", &b"FORM\0\0\0\x10AIFFCOMM"[..]),
        ("MP4", &b"\0\0\0\x18ftypM4A \0\0\0\0"[..]),
        ("CAF", &b"caff\0\x01\0\0"[..]),
    ] {
        let other = path("other.wav", bytes);
        refused(&[&other], 3, &format!("a sound in {name} is not supported ({other})"), FORMATS);
    }
    let mut coded = whole.clone();
    coded[20] = 0x31; // GSM 6.10
    let coded = path("coded.wav", &coded);
    let what = format!("the sound is coded in a form that is not supported ({coded})");
    refused(&[&coded], 3, &what, FORMATS);
    let cut = path("cut.wav", &whole[..whole.len() / 2]);
    let (code, heard, said) = run(&mut transcribe(&model, &["--device", "cpu", &cut]));
    let ends = "error: the sound ends after 0.25 of 0.50 seconds";
    let want = format!("{ends} ({cut})\nhint: the file is incomplete\n");
    assert_eq!((code, said), (3, want), "{heard}");
    let mut floats = sound(1000);
    floats[500] = f32::NAN;
    let nan = path("nan.wav", &wav(RATE, 1, 32, &floats));
    let (code, _, said) = run(&mut transcribe(&model, &["--device", "cpu", &nan]));
    assert!(code == 3 && said.contains("is no finite number"), "{said}");
    let slow = path("slow.wav", &wav(100, 1, 16, &sound(100)));
    let what = format!("100 samples a second: 4000 to 384000 are supported ({slow})");
    refused(&[&slow], 3, &what, "convert the sound to 16000 Hz first");
    let missing = model.join("missing.wav").display().to_string();
    let (code, _, said) = run(&mut transcribe(&model, &[&missing]));
    assert!(code != 0 && said.contains(&missing), "{said}");
    let good = path("good.wav", &whole);
    let what = "pieces of 0 seconds cannot be made of a sound";
    let hint = "this model takes 0.007 seconds and more";
    refused(&["--piece-seconds", "0", &good], 2, what, hint);
    fails(
        &mut rlx(&["transcribe", "--model", SMALL, &good]),
        3,
        "a model of family llama32 generates text",
        "`rlx run` asks it; a transcript comes from a model such as wav2vec2",
    );
    std::fs::remove_file(model.join("vocab.json")).unwrap();
    let folder = model.display();
    let what = format!("the folder has no vocab.json ({folder})");
    refused(&[&good], 3, &what, "it has the letters that the model's numbers stand for");
}

/// Every byte of a header broken in several ways: an error or a sound, and not more of it than the file has.
#[test]
fn damaged_headers_are_errors_or_sounds() {
    let whole = wav(RATE, 2, 16, &sound(300));
    let tag = [&b"ID3\x04\x00\x00\x00\x00\x02\x01"[..], &[0xff; 257], &whole].concat();
    for (file, header) in [(&whole, 48), (&tag, 10)] {
        let read = |bytes: Vec<u8>| -> rlx_core::Result<Vec<f32>> {
            let (mut reader, mut out) = (SoundReader::of_bytes(bytes)?, Vec::new());
            while reader.read(&mut out)? {
                assert!(out.len() <= file.len() * 8, "more than the file has");
            }
            Ok(out)
        };
        assert_eq!(read(file.clone()).unwrap(), sound(300));
        for at in 0..header {
            for value in [0, 1, 2, 16, 64, 127, 128, 254, 255] {
                let mut broken = file.clone();
                broken[at] = value;
                let _ = read(broken);
            }
        }
        for len in 0..file.len().min(320) {
            assert!(read(file[..len].to_vec()).is_err(), "{len} bytes");
        }
    }
}

#[test]
fn files_have_the_samples_that_libsndfile_reads() {
    let record: Value = serde_json::from_slice(&super::fixture("sound/files.json")).unwrap();
    for case in record["cases"].as_array().unwrap() {
        let name = case["what"].as_str().unwrap();
        let path = repository("tests/fixtures/sound").join(name);
        let (mut reader, mut got) = (SoundReader::open(&path).unwrap(), Vec::new());
        assert_eq!(u64::from(reader.rate()), case["rate"].as_u64().unwrap());
        while reader.read(&mut got).unwrap() {}
        let list = case["samples"].as_array().unwrap().iter();
        // Recorded are sums of two channels of 16 bits.
        let want: Vec<f32> = list.map(|x| x.as_f64().unwrap() as f32 / 65536.0).collect();
        assert_eq!(got.len(), want.len(), "{name}");
        let off = got.iter().zip(&want).map(|(a, b)| (a - b).abs()).fold(0f32, f32::max);
        println!("{name}: {off:e}");
        // FLAC is exact. The others are recorded to 16 bits.
        let most = if name.ends_with("flac") { 0.0 } else { 1.0 / 32768.0 };
        assert!(off <= most, "{name}: {off:e}");
        // Broken anywhere they are errors or other sounds, and never more than some seconds.
        let whole = std::fs::read(&path).unwrap();
        for at in (0..whole.len()).step_by(7) {
            let mut broken = whole.clone();
            broken[at] ^= 0x55;
            let read = |reader: &mut SoundReader| -> rlx_core::Result<usize> {
                let mut out = Vec::new();
                while reader.read(&mut out)? {}
                Ok(out.len())
            };
            if let Ok(n) = SoundReader::of_bytes(broken).and_then(|mut r| read(&mut r)) {
                assert!(n < 1 << 20, "{name} {at}: {n}");
            }
        }
    }
}
