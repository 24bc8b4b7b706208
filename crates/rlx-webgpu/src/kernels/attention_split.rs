//! `attention_split` and `attention_join`: one row's attention over parts of its positions.

use super::attention::score_words;
use super::emit::{Emit, fill};
use super::rope::cache_dims;
use super::{Launch, formats, is_f16, matrix, unsupported, word};
use rlx_core::ir::lir::Step;
use rlx_core::ops::{AttentionJoin, AttentionSplit};
use rlx_core::{Error, Result};

/// Threads of a split: positions that are scored at a time.
const THREADS: u64 = 128;

pub(super) fn split(
    op: &AttentionSplit,
    step: &Step,
    emit: &mut Emit<'_>,
) -> Result<Option<Launch>> {
    let ([q, k_cache, v_cache, ctl], [acc, stats]) =
        (step.operands.as_slice(), step.results.as_slice())
    else {
        return Err(Error::internal("attention_split has four operands and two results"));
    };
    let (kv_heads, capacity, e) = cache_dims(k_cache)?;
    let (_, width) = matrix(q)?;
    let group = width / e.max(1) / kv_heads.max(1);
    let f16 = is_f16(k_cache);
    // Elements of 16 bytes.
    let per = if f16 { 8 } else { 4 };
    if !e.is_multiple_of(8) || e > 512 || !(1..=8).contains(&group) || group * e > 1024 {
        return Err(unsupported(format!("attention splits of {group} heads of {e}")));
    }
    let (quads, rows) = (e / per, kv_heads * op.splits as u64);
    let slices = THREADS / quads;
    let ctl = emit.read(ctl)?;
    let q_at = emit.read(q)?;
    let (k, v) = (emit.read_quads(k_cache)?, emit.read_quads(v_cache)?);
    let (acc, stats) = (emit.write(acc)?, emit.write(stats)?);
    if acc.var != stats.var {
        return Err(Error::internal("an attention split's results are in different buffers"));
    }
    let whole = &op.whole;
    let [scale, window, softcap] = score_words(whole);
    let words = vec![
        word(op.splits as u64)?,
        word(op.least as u64)?,
        word(capacity)?,
        q_at.word(),
        acc.word(),
        stats.word(),
        ctl.word(),
        scale,
        window,
        softcap,
        word(rows)?,
        k.byte / 16,
        v.byte / 16,
    ];
    let each = |f: &dyn Fn(u64) -> String| (0..group).map(f).collect::<Vec<_>>().join("\n        ");
    // Sixteen bytes are one or two times four elements.
    let (halves, unpacked): (&[&str], _) = if f16 {
        (&["low", "high"], "let low = pair_f16(w.xy);\n                let high = pair_f16(w.zw);")
    } else {
        (&["low"], "let low = bitcast<vec4f>(w);")
    };
    let n = halves.len();
    let joined = |between: &str, f: &dyn Fn(usize, &str) -> String| {
        halves.iter().enumerate().map(|(h, name)| f(h, name)).collect::<Vec<_>>().join(between)
    };
    let score = each(&|g| {
        let dot =
            |h: usize, name: &str| format!("dot(query[{g}u * FOURS + {n}u * d + {h}u], {name})");
        format!("s{g} += {};", joined(" + ", &dot))
    });
    let add = each(&|g| {
        let sums = joined(" ", &|_, name| format!("acc{g}_{name} += w{g} * {name};"));
        format!("let w{g} = weights[{g}u * THREADS + i]; {sums}")
    });
    let fade = each(&|g| {
        let acc = joined(" ", &|_, name| format!("acc{g}_{name} *= fade{g};"));
        format!(
            "let highest{g} = most_of({g}u, most{g});\n        let fade{g} = exp(most{g} - highest{g});\n        \
             most{g} = highest{g};\n        let w{g} = select(0.0, exp(s{g} - highest{g}), position < end);\n        \
             weights[{g}u * THREADS + thread] = w{g};\n        total{g} = total{g} * fade{g} + w{g}; {acc}"
        )
    });
    let finish = each(&|g| {
        let keep = joined(" ", &|h, name| {
            format!("sums[slice * FOURS + lane * {n}u + {h}u] = acc{g}_{name};")
        });
        format!(
            "if slice < SLICES {{ {keep} }}\n    workgroupBarrier();\n    \
             for (var d = thread; d < FOURS; d += THREADS) {{\n        var y = vec4f();\n        \
             for (var i = 0u; i < SLICES; i++) {{ y += sums[i * FOURS + d]; }}\n        \
             let at = step.acc + (row * GROUP + {g}u) * E + d * 4u;\n        \
             let bits = bitcast<vec4u>(y);\n        \
             {o}[at] = bits.x; {o}[at + 1u] = bits.y; {o}[at + 2u] = bits.z; {o}[at + 3u] = bits.w;\n    }}\n    \
             workgroupBarrier();",
            o = acc.var
        )
    });
    let text = |n: u64| n.to_string();
    let wgsl = fill(
        include_str!("attention_split.wgsl"),
        &[
            ("kv", if f16 { "f16" } else { "f32" }),
            ("bindings", &emit.bindings()),
            ("e", &text(e)),
            ("group", &text(group)),
            ("threads", &text(THREADS)),
            ("quads", &text(quads)),
            ("slices", &text(slices)),
            ("common", formats::COMMON),
            ("capped", include_str!("capped.wgsl")),
            ("block", &AttentionSplit::BLOCK.to_string()),
            ("halves", unpacked),
            ("k", &k.var),
            ("v", &v.var),
            ("ctl", &ctl.var),
            ("q", &q_at.var),
            ("out", &acc.var),
            (
                "state",
                &(each(&|g| format!("var most{g} = -3.0e38; var total{g} = 0.0;"))
                    + "\n        "
                    + &each(&|g| joined(" ", &|_, name| format!("var acc{g}_{name} = vec4f();")))),
            ),
            ("no_scores", &each(&|g| format!("var s{g} = 0.0;"))),
            ("score", &score),
            (
                "cap",
                &if whole.softcap.is_some() {
                    each(&|g| format!("s{g} = capped(s{g});"))
                } else {
                    String::new()
                },
            ),
            (
                "keep_scores",
                &each(&|g| {
                    format!(
                        "weights[{g}u * THREADS + thread] = select(-3.0e38, s{g}, position < end);"
                    )
                }),
            ),
            ("fade", &fade),
            ("add", &add),
            ("keep_totals", &each(&|g| format!("weights[{g}u * THREADS + thread] = total{g};"))),
            (
                "keep_most",
                &each(&|g| {
                    format!(
                        "{}[step.stats + (row * GROUP + {g}u) * 2u] = bitcast<u32>(most{g});",
                        acc.var
                    )
                }),
            ),
            ("finish", &finish),
        ],
    );
    Ok(Some(Launch { wgsl, entry: "attention_split", words, groups: rows }))
}

pub(super) fn join(op: &AttentionJoin, step: &Step, emit: &mut Emit<'_>) -> Result<Option<Launch>> {
    let [acc, stats] = step.operands.as_slice() else {
        return Err(Error::internal("attention_join has two operands"));
    };
    let (rows, columns) = matrix(acc)?;
    let (_, pairs) = matrix(stats)?;
    let (group, splits) = (pairs / 2, op.splits as u64);
    let (heads, e) = (rows / splits.max(1) * group, columns / group.max(1));
    if heads * e == 0 {
        return Ok(None);
    }
    let (acc, stats) = (emit.read(acc)?, emit.read(stats)?);
    let y = emit.write(&step.results[0])?;
    let words = vec![word(heads)?, word(group)?, acc.word(), stats.word(), y.word()];
    let width = e.min(256);
    let text = |n: u64| n.to_string();
    let wgsl = fill(
        include_str!("attention_join.wgsl"),
        &[
            ("bindings", &emit.bindings()),
            ("acc", &acc.var),
            ("stats", &stats.var),
            ("y", &y.var),
            ("e", &text(e)),
            ("splits", &text(splits)),
            ("width", &text(width)),
            ("slices", &text(256 / width)),
        ],
    );
    Ok(Some(Launch { wgsl, entry: "attention_join", words, groups: heads }))
}
