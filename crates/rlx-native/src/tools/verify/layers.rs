//! What a model has between its layers, against the record.
//!
//! The points are taps that the model's builder sets. Asked for, they are outputs of a program of their own beside
//! the one that makes the logits, of the same module and through the same passes. Nothing is fused across a point
//! there, so every executor has it in memory; outputs are still compared as a run without points makes them.

use super::{Comparison, Record};
use rlx_core::error::{Error, Result};

/// The tap that a recorded tensor is compared with: `layer.*` have their names, and of recorded modules the output
/// of a layer's mixer and of its feed-forward network are points.
fn tap_of(recorded: &str) -> Option<String> {
    if recorded.starts_with("layer.") {
        return Some(recorded.to_owned());
    }
    let (layer, module) = recorded.strip_prefix("sub.model.layers.")?.split_once('.')?;
    let point = match module.strip_suffix(".out")? {
        "self_attn" | "attention" | "linear_attn" | "conv" => "mixer",
        "mlp" | "feed_forward" => "feed_forward",
        _ => return None,
    };
    Some(format!("layer.{layer}.{point}"))
}

/// Compares the points that a model has, in the order in which it makes them, with those of the record.
pub(super) fn compared(
    record: &Record,
    made: &[(&str, &[f32])],
    tolerance: f64,
) -> Result<Vec<Comparison>> {
    let names = record.header.tensors.keys().map(String::as_str);
    let mut wanted: Vec<(&str, String)> =
        names.filter_map(|name| Some((name, tap_of(name)?))).collect();
    if wanted.is_empty() {
        let what = "--layers: the record has no tensor layer.*";
        return Err(Error::usage(what).at(record.name.clone()).hint("leave --layers out"));
    }
    let mut out = Vec::new();
    for (tap, got) in made {
        while let Some(at) = wanted.iter().position(|(_, of)| of == tap) {
            let (name, _) = wanted.remove(at);
            out.push(Comparison::of(name, got, &record.floats(name)?, tolerance));
        }
    }
    out.extend(
        wanted.iter().map(|(name, _)| Comparison::skip(name, "the model has no such point")),
    );
    Ok(out)
}
