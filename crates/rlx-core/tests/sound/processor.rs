//! What a model reads of a sound: as transformers computes it, and a folder's file key by key.

use super::{floats, record};
use rlx_core::Code;
use rlx_core::sound::{SoundProcessor, one_channel};

#[test]
fn inputs_are_those_of_transformers() {
    for case in record("inputs.json")["cases"].as_array().unwrap() {
        let (sound, want) = (floats(&case["sound"]), floats(&case["input"]));
        let got = SoundProcessor::default().prepare(&sound).unwrap();
        assert_eq!(got.len(), want.len());
        let largest = want.iter().fold(1f32, |a, x| a.max(x.abs()));
        for (i, (a, b)) in got.iter().zip(&want).enumerate() {
            // Sums of f32 there, of f64 here.
            assert!((a - b).abs() <= 4e-6 * largest, "{} {i}: {a}, recorded {b}", case["what"]);
        }
        let plain = SoundProcessor { normalise: false, ..SoundProcessor::default() };
        assert_eq!(plain.prepare(&sound).unwrap(), sound);
    }
}

#[test]
fn sounds_of_hostile_numbers_are_errors_or_finite() {
    let processor = SoundProcessor::default();
    assert!(processor.prepare(&[]).unwrap().is_empty());
    let loud = processor.prepare(&[f32::MAX, f32::MIN, 0.0, f32::MAX]).unwrap();
    assert!(loud.iter().all(|x| x.is_finite()), "{loud:?}");
    for bad in [f32::NAN, f32::INFINITY] {
        let e = processor.prepare(&[0.0, bad]).unwrap_err();
        assert_eq!((e.code, e.what.contains("sample 1")), (Code::BadFile, true), "{e}");
    }
}

#[test]
fn channels_become_their_mean() {
    let mixed = |sound: &[f32], channels| {
        let mut out = Vec::new();
        one_channel(sound, channels, &mut out);
        out
    };
    assert_eq!(mixed(&[0.5, -0.25], 1), [0.5, -0.25]);
    assert_eq!(mixed(&[0.5, 0.25, 1.0, -1.0], 2), [0.375, 0.0]);
    assert_eq!(mixed(&[1.0, 2.0, 6.0, 4.0], 3), [3.0]);
    assert!(mixed(&[1.0], 0).is_empty());
}

#[test]
fn every_key_of_a_processor_is_read_or_refused() {
    let read = |text: &str| SoundProcessor::read(text.as_bytes(), "preprocessor_config.json");
    let usual = r#""do_normalize": true, "feature_size": 1, "padding_side": "right", "padding_value": 0.0,
        "return_attention_mask": false, "feature_extractor_type": "Wav2Vec2FeatureExtractor""#;
    let all = format!(r#"{{{usual}, "sampling_rate": 8000}}"#);
    let nested =
        format!(r#"{{"processor_class": "Wav2Vec2Processor", "feature_extractor": {all}}}"#);
    for text in [&all, &nested] {
        assert_eq!(read(text).unwrap(), SoundProcessor { rate: 8000, normalise: true });
    }
    assert_eq!(read("{}").unwrap(), SoundProcessor::default());
    assert!(!read(r#"{"do_normalize": false}"#).unwrap().normalise);
    for (text, code, said) in [
        ("[]", Code::BadFile, "no JSON object"),
        ("{", Code::BadFile, "byte 1"),
        (r#"{"sampling_rate": 0}"#, Code::BadFile, "sampling_rate is 0"),
        (r#"{"sampling_rate": -1}"#, Code::BadFile, "sampling_rate"),
        (r#"{"sampling_rate": 1e99}"#, Code::BadFile, "sampling_rate"),
        (r#"{"feature_size": 80}"#, Code::Unsupported, "feature_size is 80"),
        (r#"{"feature_extractor_type": "WhisperFeatureExtractor"}"#, Code::Unsupported, "Whisper"),
        (r#"{"n_fft": 400}"#, Code::Unsupported, "n_fft is 400"),
        (r#"{"feature_extractor": {"hop": 2}}"#, Code::Unsupported, "feature_extractor.hop is 2"),
        (r#"{"feature_extractor": {}, "hop": 2}"#, Code::Unsupported, "hop is 2"),
        (r#"{"feature_extractor": 3}"#, Code::BadFile, "feature_extractor is not an object"),
    ] {
        let e = read(text).unwrap_err();
        assert_eq!((e.code, e.to_string().contains(said)), (code, true), "{text}: {e}");
    }
}
