//! Recorded answers of a model with LongRoPE (arXiv:2402.13753): it rotates by other angles once a text is longer
//! than the texts of its first training. An engine chooses the angles by its context. So a record has short and
//! long runs, and each kind is run with a context of its own.

use super::{Comparison, Record, Runner};
use rlx_core::error::{Error, Result};

/// The most positions of the short side, if the record has two.
pub(super) fn short(record: &Record) -> Result<Option<u64>> {
    if !record.header.tensors.contains_key("in.edge_input_ids") {
        return Ok(None);
    }
    // The edge is the first text of the long side.
    Ok(Some(record.ids("in.edge_input_ids")?.len().saturating_sub(1) as u64))
}

/// Whether an output is of the long side.
pub(super) fn is_long(name: &str) -> bool {
    name.starts_with("out.long_") || name.starts_with("out.edge_long_")
}

/// Makes an output that such a record alone has, and compares it; `None` for others. `sides`: the runners of the
/// short side and of the long one.
pub(super) fn output(
    sides: [&Runner; 2],
    record: &Record,
    name: &str,
    tolerance: f64,
) -> Result<Option<Comparison>> {
    let [short, long] = sides;
    let vocab = short.compiled.module.vocab as usize;
    let last = |ids: &[u32]| {
        let side = if ids.len() as u64 <= short.compiled.context { short } else { long };
        let logits = side.logits(ids)?;
        Ok::<_, Error>(logits[logits.len() - vocab..].to_vec())
    };
    let same = |got: &[u32]| Ok(Some(Comparison::of_ids(name, got, &record.ids(name)?)));
    let steps = || Ok::<_, Error>(record.floats("out.long_step_logits")?.len() / vocab);
    let got = match name {
        "out.edge_short_last_logits" => {
            let ids = record.ids("in.edge_input_ids")?;
            last(&ids[..ids.len().saturating_sub(1)])?
        }
        "out.edge_long_last_logits" => last(&record.ids("in.edge_input_ids")?)?,
        "out.long_step_logits" => long.greedy(&record.ids("in.long_prompt_ids")?, steps()?)?.1,
        "out.long_greedy" => {
            return same(&long.greedy(&record.ids("in.long_prompt_ids")?, steps()?)?.0);
        }
        // An answer that crosses the edge: each token from all of those before it, by the side they are on.
        "out.cross_step_logits" | "out.cross_greedy" => {
            let mut ids = record.ids("in.cross_prompt_ids")?;
            let prompt = ids.len();
            let (answer, mut all) = (record.ids("out.cross_greedy")?, Vec::new());
            for _ in &answer {
                let logits = last(&ids)?;
                let best = (0..vocab).max_by(|&a, &b| logits[a].total_cmp(&logits[b]));
                ids.push(best.unwrap_or(0) as u32);
                all.extend(logits);
            }
            if name == "out.cross_greedy" {
                return same(&ids[prompt..]);
            }
            all
        }
        _ => return Ok(None),
    };
    Ok(Some(Comparison::of(name, &got, &record.floats(name)?, tolerance)))
}
