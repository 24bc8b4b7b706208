//! `route`: the experts of each row, one workgroup a row, without a trip to the host.

use super::emit::{Emit, fill};
use super::takes::{self, Taken};
use super::{Context, Launch, matrix, mismatch, scalar, word};
use rlx_core::ir::lir::Step;
use rlx_core::ops::{LEAST_SUM, Op, Route, Unary};
use rlx_core::target::Target;
use rlx_core::types::{DType, Kind, Type};
use rlx_core::{Error, Result};

/// The most experts that a workgroup ranks: comparisons are their square, and four arrays of them fit the
/// 16 KiB of memory that every WebGPU workgroup has.
const MOST: u64 = 768;

/// Logits of f32.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    let known = [
        "top_k",
        "sigmoid",
        "normalise",
        "scale",
        "choice_bias",
        "groups",
        "top_groups",
        "group_sum",
    ];
    takes::knows(op, &known)?;
    for (i, ty) in operands.iter().enumerate() {
        if (ty.kind, ty.dtype) != (Kind::Tensor, DType::F32) {
            return Err(takes::not(i, ty));
        }
    }
    match operands.first().map(|logits| logits.shape.last().as_static()) {
        Some(Some(n)) if n > MOST => {
            Err(format!("its kernel ranks at most {MOST} experts, not {n}"))
        }
        _ => Ok(()),
    }
}

pub(super) fn route(step: &Step, cx: &Context<'_>, emit: &mut Emit<'_>) -> Result<Option<Launch>> {
    let (Op::Route(op), [ids, shares]) = (&step.op, &step.results[..]) else {
        return Err(mismatch(step));
    };
    let (rows, experts) = matrix(&step.operands[0])?;
    if rows == 0 {
        return Ok(None);
    }
    let logits = emit.read(&step.operands[0])?;
    let bias = step.operands.get(1).map(|b| emit.read(b)).transpose()?;
    let (ids, shares) = (emit.write(ids)?, emit.write(shares)?);
    let words = vec![
        word(rows)?,
        logits.word(),
        bias.as_ref().map_or(0, |b| b.word()),
        ids.word(),
        shares.word(),
        op.scale.unwrap_or(1.0).to_bits(),
        0,
        0,
    ];
    let (rows_len, skip) = cx.skip_rows(rows, "row", emit);
    let logit = format!("bitcast<f32>({}[first + e])", logits.var);
    let choice = match &bias {
        Some(bias) => format!("scores[e] + bitcast<f32>({}[step.bias + e])", bias.var),
        None if op.chooses_by_score() => "scores[e]".into(),
        None => logit.clone(),
    };
    let divisor = if op.normalise {
        format!(
            "var divisor = 0.0;\n    \
             for (var i = 0u; i < TOP_K; i++) {{ divisor += chosen[i]; }}\n    \
             divisor = max(divisor, {LEAST_SUM:e});"
        )
    } else {
        "let divisor = 1.0;".into()
    };
    let (arrays, keep) = if op.has_groups() { groups(op) } else { Default::default() };
    let wgsl = fill(
        wgsl!("route.wgsl"),
        &[
            ("bindings", &emit.bindings()),
            ("experts", &experts.to_string()),
            ("top_k", &op.top_k.to_string()),
            ("groups", &op.groups.to_string()),
            ("arrays", &arrays),
            ("rows_len", rows_len),
            ("skip", &skip),
            ("score", &score(op, &logit)?),
            ("choice", &choice),
            ("keep", &keep),
            ("ids", &ids.var),
            ("shares", &shares.var),
            ("divisor", &divisor),
        ],
    );
    Ok(Some(Launch { wgsl, entry: "route", words, groups: rows }))
}

/// `scores` of all experts.
fn score(op: &Route, logit: &str) -> Result<String> {
    let each = |line: &str| {
        format!("for (var e = thread; e < EXPERTS; e += 64u) {{\n        {line}\n    }}\n    ")
    };
    if op.sigmoid {
        let (_, sigmoid) =
            scalar::unary(Unary::Sigmoid).ok_or_else(|| Error::internal("WGSL has a sigmoid"))?;
        return Ok(each(&format!("let x = {logit};\n        scores[e] = {sigmoid};")));
    }
    // A logit of minus infinity is as far below the largest as counts.
    let steps = [
        "var largest = -3.4e38;\n    ".into(),
        each(&format!("largest = max(largest, {logit});")),
        "partial[thread] = largest;\n    workgroupBarrier();\n    \
         for (var i = 0u; i < 64u; i++) { largest = max(largest, partial[i]); }\n    \
         workgroupBarrier();\n    var sum = 0.0;\n    "
            .into(),
        each(&format!(
            "let power = exp(max({logit} - largest, -90.0));\n        \
             scores[e] = power;\n        sum += power;"
        )),
        "partial[thread] = sum;\n    workgroupBarrier();\n    sum = 0.0;\n    \
         for (var i = 0u; i < 64u; i++) { sum += partial[i]; }\n    "
            .into(),
        each("scores[e] /= sum;"),
    ];
    Ok(steps.concat())
}

/// Memory for groups, and what leaves the experts of those that are not among the best a key below all.
fn groups(op: &Route) -> (String, String) {
    let Route { top_groups, group_sum, .. } = op;
    // The sum of a group's largest: each is the next behind the one before.
    let best = format!(
        "for (var g = thread; g < GROUPS; g += 64u) {{\n        \
         var sum = 0.0;\n        var above = 0xffffffffu;\n        var at = 0u;\n        \
         for (var i = 0u; i < {group_sum}u; i++) {{\n            \
         var best = 0u;\n            var where_best = 0u;\n            var found = false;\n            \
         for (var e = 0u; e < EACH; e++) {{\n                let key = keys[g * EACH + e];\n                \
         let next = i == 0u || key < above || (key == above && e > at);\n                \
         if next && (!found || key > best) {{ best = key; where_best = e; found = true; }}\n            }}\n            \
         sum += value_of(best);\n            above = best;\n            at = where_best;\n        }}\n        \
         of_groups[g] = key_of(sum);\n    }}\n    workgroupBarrier();\n    "
    );
    let keep = format!(
        "for (var e = thread; e < EXPERTS; e += 64u) {{\n        let g = e / EACH;\n        \
         let own = of_groups[g];\n        var place = 0u;\n        \
         for (var other = 0u; other < GROUPS; other++) {{\n            let key = of_groups[other];\n            \
         if key > own || (key == own && other < g) {{ place += 1u; }}\n        }}\n        \
         if place >= {top_groups}u {{ keys[e] = 0u; }}\n    }}\n    workgroupBarrier();"
    );
    ("var<workgroup> of_groups: array<u32, GROUPS>;".into(), best + &keep)
}
