//! `attention`: causal or block-causal, over the cache.

use super::emit::{Emit, fill};
use super::kv::{Kv, Rows};
use super::rope::cache_dims;
use super::takes::{self, Taken};
use super::{Context, Launch, attention_tile, matrix, mismatch, word};
#[cfg(not(target_family = "wasm"))]
use crate::gpu::Form;
use rlx_core::ir::lir::Step;
use rlx_core::ops::{Attention, Op};
use rlx_core::target::Target;
use rlx_core::types::Type;
use rlx_core::{Error, Result};

/// A matrix of f32 over caches of any type that caches have, in heads of an even number of elements.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["head_dim", "scale", "window", "softcap", "sinks", "block", "ring"])?;
    takes::floats_and_caches(operands)?;
    takes::matrix(operands)?;
    match op {
        Op::Attention(op) if !op.head_dim.is_multiple_of(2) || op.head_dim > 640 => {
            Err(format!("its kernel takes heads of an even number up to 640, not {}", op.head_dim))
        }
        _ => Ok(()),
    }
}

/// Teams of 64 threads for one row: a long context is split among them.
const DECODE_TEAMS: u64 = 4;

/// Step constants of a score: the scale, the window and the softcap.
pub(super) fn score_words(op: &Attention) -> [u32; 3] {
    // A window as long as positions are is none.
    let window = op.window.map_or(u32::MAX, |w| u32::try_from(w).unwrap_or(u32::MAX));
    [op.scale.to_bits(), window, op.softcap.unwrap_or(0.0).to_bits()]
}

/// Where a head has a sink, the running maximum of the first team starts there: `var` has the sinks.
fn sink(var: &str) -> String {
    format!("if team == 0u {{ most = bitcast<f32>({var}[step.sinks + head]); total = 1.0; }}")
}

/// Positions of a block, 1 of none. One as long as positions are ends nowhere.
pub(super) fn block_of(op: &Attention) -> u64 {
    op.block.map_or(1, |b| b.clamp(1, 1 << 30))
}

/// In WGSL, the position behind the last of the block that the one at `position` is in.
pub(super) fn block_end(op: &Attention, position: &str) -> String {
    match block_of(op) {
        1 => format!("{position} + 1u"),
        b => format!("({position}) / {b}u * {b}u + {b}u"),
    }
}

pub(super) fn attention(
    step: &Step,
    _: &Context<'_>,
    emit: &mut Emit<'_>,
) -> Result<Option<Launch>> {
    let Op::Attention(op) = &step.op else { return Err(mismatch(step)) };
    let [q, k_cache, v_cache, ctl, sinks @ ..] = step.operands.as_slice() else {
        return Err(Error::internal("attention has four operands or five"));
    };
    let (rows, width) = matrix(q)?;
    let e = op.head_dim as u64;
    if rows * width == 0 {
        return Ok(None);
    }
    let (kv_heads, capacity, _) = cache_dims(k_cache)?;
    let heads = width / e;
    let kv = Kv::of(k_cache);
    if rows > 1 && attention_tile::fits(e, heads / kv_heads.max(1)) {
        return attention_tile::attention_tile(op, None, step, emit);
    }
    let teams = if rows == 1 { DECODE_TEAMS } else { 1 };
    let dims = e.div_ceil(64);
    let ctl = emit.read(ctl)?;
    let q_at = emit.read(q)?;
    let (k, v) = (emit.read(k_cache)?, emit.read(v_cache)?);
    let sinks = sinks.first().map(|sinks| emit.read(sinks)).transpose()?;
    let y = emit.write(&step.results[0])?;
    let mut words = vec![
        word(heads)?,
        word(rows)?,
        word(heads / kv_heads.max(1))?,
        word(capacity)?,
        q_at.word(),
        k.word(),
        v.word(),
        y.word(),
        ctl.word(),
    ];
    words.extend(score_words(op));
    words.push(sinks.as_ref().map_or(0, |sinks| sinks.word()));
    let readers = match kv {
        Kv::F16 => format!(
            "fn k_pair(at: u32) -> vec2f {{ return unpack2x16float({}[step.k + at / 2u]); }}\n\
             fn v_at(at: u32) -> f32 {{\n    let pair = unpack2x16float({}[step.v + at / 2u]);\n    \
             return select(pair.x, pair.y, at % 2u == 1u);\n}}\n",
            k.var, v.var
        ),
        Kv::F32 => format!(
            "fn k_pair(at: u32) -> vec2f {{\n    \
             return bitcast<vec2f>(vec2u({0}[step.k + at], {0}[step.k + at + 1u]));\n}}\n\
             fn v_at(at: u32) -> f32 {{ return bitcast<f32>({1}[step.v + at]); }}\n",
            k.var, v.var
        ),
        Kv::Q8_0 | Kv::Q4_0 => format!(
            "{2}fn k_pair(at: u32) -> vec2f {{ return pair_of_{0}(step.k, at / 2u); }}\n\
             fn v_at(at: u32) -> f32 {{\n    let pair = pair_of_{1}(step.v, at / 2u);\n    \
             return select(pair.x, pair.y, at % 2u == 1u);\n}}\n",
            k.var,
            v.var,
            kv.readers(&[&k.var, &v.var])
        ),
    };
    let held = Rows::of(op.ring, capacity);
    let end = format!("min({}, ctl.x + min(ctl.y, step.rows))", block_end(op, "own"));
    let each = |f: &dyn Fn(u64) -> String| (0..dims).map(f).collect::<Vec<_>>().join("\n        ");
    // A dimension past the head's last reads another row's first: never stored.
    let finish = if teams == 1 {
        each(&|d| {
            format!(
                "if lane + {0}u < E {{ {1}[step.y + at * E + lane + {0}u] = bitcast<u32>(acc{d} / total); }}",
                d * 64,
                y.var
            )
        })
    } else {
        let keep = each(&|d| {
            format!("if lane + {0}u < E {{ sums[team * E + lane + {0}u] = acc{d}; }}", d * 64)
        });
        format!(
            "{keep}\n    if lane == 0u {{ most_of[team] = most; total_of[team] = total; }}\n    \
             workgroupBarrier();\n    \
             for (var d = thread; d < E; d += {threads}u) {{\n        \
             var highest = most_of[0];\n        \
             for (var t = 1u; t < TEAMS; t++) {{ highest = max(highest, most_of[t]); }}\n        \
             var sum = 0.0;\n        var all = 0.0;\n        \
             for (var t = 0u; t < TEAMS; t++) {{\n            \
             let w = exp(most_of[t] - highest);\n            \
             sum += w * sums[t * E + d];\n            all += w * total_of[t];\n        }}\n        \
             {y}[step.y + at * E + d] = bitcast<u32>(sum / all);\n    }}",
            threads = teams * 64,
            y = y.var
        )
    };
    let wgsl = fill(
        wgsl!("attention.wgsl"),
        &[
            ("kv", kv.name()),
            ("bindings", &emit.bindings()),
            ("e", &e.to_string()),
            ("end", &held.end(&end)),
            ("key_row", &held.row("position")),
            ("value_row", &held.row("(first + j)")),
            ("teams", &teams.to_string()),
            ("dims", &dims.to_string()),
            ("threads", &(teams * 64).to_string()),
            ("joined", &if teams == 1 { 1 } else { teams * e }.to_string()),
            ("readers", &readers),
            ("capped", wgsl!("capped.wgsl")),
            ("ctl", &ctl.var),
            ("q", &q_at.var),
            ("cap", if op.softcap.is_some() { "score = capped(score);" } else { "" }),
            ("acc_vars", &each(&|d| format!("var acc{d} = 0.0;"))),
            ("acc_fade", &each(&|d| format!("acc{d} *= fade;"))),
            ("acc_add", &each(&|d| format!("acc{d} += p * v_at(v + {}u);", d * 64))),
            ("sink", &sinks.as_ref().map_or(String::new(), |s| sink(&s.var))),
            ("finish", &finish),
        ],
    );
    // No page has a text of its own, and pages download each function.
    #[cfg(not(target_family = "wasm"))]
    if rows == 1 {
        let parameters = vec![
            ("kv", kv.name().into()),
            ("e", e.to_string()),
            ("ring", op.ring.to_string()),
            ("softcap", op.softcap.is_some().to_string()),
            ("block", block_of(op).to_string()),
            ("ctl", ctl.var),
            ("q", q_at.var),
            ("k", k.var),
            ("v", v.var),
            ("sinks", sinks.map_or(String::new(), |sinks| sinks.var)),
            ("y", y.var),
        ];
        emit.form = Some(Form { name: "attention", parameters });
    }
    Ok(Some(Launch { wgsl, entry: "attention", words, groups: heads * rows }))
}
