//! Recorded answers of block diffusion: the blocks that a record's samplers fill.

use super::{CHUNK, Comparison, Record, Runner, words};
use rlx_core::error::{Error, Result};
use rlx_core::lower::CANVAS;
use rlx_core::safetensors::json::Json;
use rlx_core::sample::canvas::{FINISHED, Filling, IDS};

/// Passes over a block, at most: more than any canvas asks for.
const PASSES: usize = 10_000;

/// A sampler's settings in the record's metadata.
fn sampler(record: &Record, key: &str) -> Result<Option<Json>> {
    let text = record.header.metadata.get("rlx").map_or("{}", |text| text);
    Ok(Json::parse(text.as_bytes(), &record.name, 0)?.get(key).cloned())
}

fn number(sampler: &Json, key: &str) -> Option<f64> {
    sampler.get(key).and_then(Json::as_f64)
}

/// The length of blocks that the record's samplers have, if it is a record of block diffusion.
pub(super) fn length(record: &Record) -> Result<Option<u64>> {
    let sampler = sampler(record, "sampler")?;
    Ok(sampler.and_then(|s| number(&s, "block_length")).map(|n| n as u64))
}

/// A recorded answer of a sampler, and what the model makes of its prompt; `None` for other outputs.
pub(super) fn sampled(runner: &Runner, record: &Record, name: &str) -> Result<Option<Comparison>> {
    let key = match name {
        "out.sampled" => "sampler",
        "out.edit_sampled" => "edit_sampler",
        _ => return Ok(None),
    };
    let (Some(sampler), Some(model)) = (sampler(record, key)?, runner.compiled.diffusion) else {
        return Ok(None);
    };
    let number = |key: &str| number(&sampler, key);
    let filling = Filling {
        steps: number("steps").map(|n| n as u32),
        threshold: number("threshold").map_or(model.threshold, |x| x as f32),
        editing: number("editing_threshold").map(|x| x as f32),
        post: number("max_post_steps").map_or(0, |n| n as u32),
    };
    filling.validate()?;
    let (prompt, want) = (record.ids("in.prompt_ids")?, record.ids(name)?);
    let block = model.block as usize;
    runner.fits(want.len())?;
    let whole = prompt.len() / block * block;
    for (i, piece) in prompt[..whole].chunks(CHUNK as usize).enumerate() {
        runner.run("prefill", &runner.chunk(piece, i * CHUNK as usize, u32::MAX)?)?;
    }
    let mut got = prompt[..whole].to_vec();
    while got.len() < want.len() {
        let begun = prompt.get(got.len()..).unwrap_or(&[]);
        let canvas = filling.canvas(model.mask, got.len() as u32, begun, block);
        // The control block and the parameters of a step of so many rows; its ids are the canvas.
        let mut writes = runner.chunk(&canvas[IDS..], got.len(), u32::MAX)?;
        writes.truncate(2);
        writes.push(runner.state(CANVAS, words(&canvas))?);
        let mut passes = 0;
        let tokens = loop {
            let outputs = runner.run("denoise_logits", &writes)?;
            writes.clear();
            let bytes = outputs.values.first().map_or(&[][..], |b| b);
            let said: Vec<u32> =
                bytes.as_chunks().0.iter().map(|b| u32::from_le_bytes(*b)).collect();
            passes += 1;
            if said.len() != IDS + block || passes > PASSES {
                return Err(Error::internal("a block does not end"));
            }
            if said[FINISHED] != 0 {
                break said[IDS..].to_vec();
            }
        };
        // The caches have the finished block behind one pass more.
        runner.run("denoise_logits", &[])?;
        got.extend(tokens);
    }
    Ok(Some(Comparison::of_ids(name, &got, &want)))
}
