//! Experts as DeepSeek's families have them: scores by softmax or sigmoid, groups, a scale, experts of all rows
//! (DeepSeek-V2, arXiv:2405.04434, section 2.2; DeepSeek-V3, arXiv:2412.19437, section 2.1.2).

use super::{Experts, Shared, Sizes, experts};
use crate::error::Result;
use crate::models::keys::Keys;
use crate::ops::Route;
use alloc::format;

/// Numbers of `expert_gating_func` in GGUF files, and whether scores are sigmoids: otherwise they are a softmax.
const GATES: [(u64, bool); 2] = [(1, false), (2, true)];

/// Reads them. `default` says what holds where no key says it: scores, normalisation, and whether the choice has a
/// bias, which no key says.
///
/// # Errors
/// `BadFile` for groups that do not fit; `Unsupported` for other scores.
pub(in crate::models) fn routed(
    keys: &Keys<'_>,
    sizes: &Sizes,
    default: Route,
) -> Result<Option<Experts>> {
    let groups_key = keys.word("expert_group_count", "n_group");
    let top_key = keys.word("expert_group_used_count", "topk_group");
    let sigmoid = sigmoid(keys)?.unwrap_or(default.sigmoid);
    let normalise = keys.opt_bool(keys.word("expert_weights_norm", "norm_topk_prob"))?;
    let scale = keys.opt_above_zero(keys.word("expert_weights_scale", "routed_scaling_factor"))?;
    let groups = keys.opt_positive(groups_key)?.unwrap_or(1);
    let top_groups = keys.opt_positive(top_key)?.unwrap_or(groups);
    let shared_key = ["n_shared_experts", "num_shared_experts"].into_iter().find(|k| keys.has(k));
    let shared_key = keys.word("expert_shared_count", shared_key.unwrap_or("n_shared_experts"));
    let shared = keys.opt_u64(shared_key)?.unwrap_or(0);
    let Some(experts) = experts(keys, sizes.ffn[0], sizes.act)? else { return Ok(None) };
    let each = experts.count / groups;
    if each * groups != experts.count || (top_groups < groups && each < 2) {
        let what = format!(
            "{} experts in {groups} groups, expected equal groups of two or more",
            experts.count
        );
        return Err(keys.bad(groups_key, what));
    }
    if top_groups > groups || each * top_groups < experts.route.top_k as u64 {
        let what = format!(
            "a row chooses {} experts in {top_groups} of {groups} groups of {each}",
            experts.route.top_k
        );
        return Err(keys.bad(top_key, what));
    }
    let route = Route {
        sigmoid,
        normalise: normalise.unwrap_or(default.normalise),
        scale: scale.filter(|&s| s != 1.0),
        choice_bias: default.choice_bias,
        groups: groups as usize,
        top_groups: top_groups as usize,
        // V2 ranks groups by their best score, V3 by the sum of their two best.
        group_sum: if top_groups < groups && sigmoid { 2 } else { 1 },
        ..experts.route
    };
    let width = experts.width.checked_mul(shared);
    let width = width.ok_or_else(|| keys.bad(shared_key, "shared experts are too wide"))?;
    let shared = (shared > 0).then_some(Shared { width, scored: false });
    Ok(Some(Experts { route, shared, ..experts }))
}

/// Whether scores are sigmoids, if a key says so.
fn sigmoid(keys: &Keys<'_>) -> Result<Option<bool>> {
    const GATE: &str = "expert_gating_func";
    if keys.is_gguf() {
        let Some(gate) = keys.opt_u64(GATE)?.filter(|&gate| gate != 0) else { return Ok(None) };
        let known = GATES.iter().find(|known| known.0 == gate);
        return known.map(|known| Some(known.1)).ok_or_else(|| {
            let what = format!("scores of experts of kind {gate} are not supported");
            keys.unsupported(GATE, what, "supported: 1, softmax, and 2, sigmoid")
        });
    }
    let mut said = None;
    for key in ["scoring_func", "score_function"] {
        said = match keys.opt_str(key)? {
            None => said,
            Some("softmax") => Some(false),
            Some("sigmoid") => Some(true),
            Some(other) => {
                let what = format!("scores of experts by `{other}` are not supported");
                return Err(keys.unsupported(key, what, "supported: softmax, sigmoid"));
            }
        };
    }
    Ok(said)
}
