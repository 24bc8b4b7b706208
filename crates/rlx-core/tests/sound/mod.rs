//! Sounds: at another rate, as a model takes them, and what their tokens say.
#![cfg(feature = "audio")]

mod ctc;
mod processor;
mod resample;

pub use ctc::vocabulary;

use serde_json::Value;

/// A record of transformers or torchaudio: tools/transcripts.py made those of tokens and pieces.
pub fn record(name: &str) -> Value {
    let path = format!("{}/../../tests/fixtures/sound/{name}", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

pub fn floats(list: &Value) -> Vec<f32> {
    list.as_array().unwrap().iter().map(|x| x.as_f64().unwrap() as f32).collect()
}
