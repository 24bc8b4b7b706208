//! `attention` of several rows: a tile of them, all heads of a group, shares what it reads.

use super::attention::score_words;
use super::emit::{Emit, fill};
use super::rope::cache_dims;
use super::{Launch, formats, is_f16, matrix, word};
use rlx_core::ir::lir::Step;
use rlx_core::ops::Attention;
use rlx_core::{Error, Result};

/// A workgroup's shape: what fits 16 kB.
struct Tile {
    queries: u64,
    /// Positions at a time.
    block: u64,
    threads: u64,
}

impl Tile {
    /// Of heads of `e` elements; `None` where no tile is made for them.
    fn of(e: u64, f16: bool) -> Option<Tile> {
        match (e, f16) {
            (64, true) => Some(Tile { queries: 32, block: 32, threads: 128 }),
            (64, false) | (128, true) => Some(Tile { queries: 16, block: 16, threads: 64 }),
            _ => None,
        }
    }
}

/// Whether a step of several rows has tiles: by its heads' elements, their group and its caches.
pub(super) fn fits(e: u64, group: u64, f16: bool) -> bool {
    Tile::of(e, f16).is_some_and(|t| (1..=t.queries).contains(&group))
}

pub(super) fn attention_tile(
    op: &Attention,
    step: &Step,
    emit: &mut Emit<'_>,
) -> Result<Option<Launch>> {
    let [q, k_cache, v_cache, ctl] = step.operands.as_slice() else {
        return Err(Error::internal("attention has four operands"));
    };
    let (rows, width) = matrix(q)?;
    let (kv_heads, capacity, e) = cache_dims(k_cache)?;
    let heads = width / e;
    let (group, f16) = (heads / kv_heads, is_f16(k_cache));
    let tile = Tile::of(e, f16).filter(|t| group <= t.queries);
    let tile = tile.ok_or_else(|| Error::internal("attention of several rows without a tile"))?;
    let Tile { queries, block, threads } = tile;
    let tile_rows = queries / group;
    let tiles = rows.div_ceil(tile_rows);
    let ctl = emit.read(ctl)?;
    let q_at = emit.read(q)?;
    let (k, v) = (emit.read_quads(k_cache)?, emit.read(v_cache)?);
    let y = emit.write(&step.results[0])?;
    let mut words = vec![
        word(heads)?,
        word(rows)?,
        word(tiles)?,
        word(capacity)?,
        q_at.word(),
        k.byte / 16,
        v.word(),
        y.word(),
        ctl.word(),
    ];
    words.extend(score_words(op));
    let quads = e / if f16 { 8 } else { 4 };
    let own = queries * (block / 4) / threads;
    let summed = queries * (e / 2) / threads;
    let list =
        |n: u64, f: &dyn Fn(u64) -> String| (0..n).map(f).collect::<Vec<_>>().join("\n        ");
    // Four positions' keys, 4 or 8 elements of each.
    let keys = list(4, &|j| {
        let w = format!("let w{j} = tile[(lane + {j}u * LANES) * PITCH + d];");
        if f16 {
            format!("{w} let a{j} = pair_f16(w{j}.xy); let b{j} = pair_f16(w{j}.zw);")
        } else {
            format!("{w} let a{j} = bitcast<vec4f>(w{j});")
        }
    });
    let score = list(own, &|i| {
        let at = |h: u64| {
            let n = if f16 { 2 } else { 1 };
            format!("query[(scores_of + {i}u) * FOURS + {n}u * d + {h}u]")
        };
        let four = |x: &str| {
            format!(
                "vec4f(dot(q{x}{i}, {x}0), dot(q{x}{i}, {x}1), dot(q{x}{i}, {x}2), dot(q{x}{i}, {x}3))"
            )
        };
        let low = format!("let qa{i} = {}; s{i} += {};", at(0), four("a"));
        if f16 { format!("{low} let qb{i} = {}; s{i} += {};", at(1), four("b")) } else { low }
    });
    let part = ["x", "y", "z", "w"];
    let cap = list(own, &|i| {
        let four: Vec<String> = part.iter().map(|c| format!("capped(s{i}.{c})")).collect();
        format!("s{i} = vec4f({});", four.join(", "))
    });
    let keep = list(own, &|i| {
        let one = |j: usize| {
            format!("scored(s{i}.{}, block + lane + {j}u * LANES, own{i}, end)", part[j])
        };
        let four: Vec<String> = (0..4).map(one).collect();
        format!(
            "let own{i} = past + row0 + (scores_of + {i}u) / GROUP;\n        \
             tile[(scores_of + {i}u) * LANES + lane] = bitcast<vec4u>(vec4f({}));",
            four.join(", ")
        )
    });
    let values = list(4, &|j| {
        let position = format!("min(block + i + {j}u * LANES, step.capacity - 1u)");
        if f16 {
            format!(
                "let v{j} = unpack2x16float({}[step.v + (cache + {position}) * COLUMNS + column]);",
                v.var
            )
        } else {
            format!(
                "let at{j} = step.v + (cache + {position}) * E + 2u * column;\n        \
                 let v{j} = bitcast<vec2f>(vec2u({0}[at{j}], {0}[at{j} + 1u]));",
                v.var
            )
        }
    });
    let add = list(summed, &|i| {
        format!(
            "let w{i} = bitcast<vec4f>(tile[(sums_of + {i}u) * LANES + i]); \
             sum{i} += w{i}.x * v0 + w{i}.y * v1 + w{i}.z * v2 + w{i}.w * v3;"
        )
    });
    let store = list(summed, &|i| {
        format!(
            "{{\n        let n = sums_of + {i}u;\n        let row = row0 + n / GROUP;\n        \
             if n < TILE * GROUP && row < step.rows {{\n            \
             let all = parts[n * 4u] + parts[n * 4u + 1u] + parts[n * 4u + 2u] + parts[n * 4u + 3u];\n            \
             let to = step.y + (row * step.heads + kv_head * GROUP + n % GROUP) * E + 2u * column;\n            \
             {y}[to] = bitcast<u32>(sum{i}.x / all);\n            {y}[to + 1u] = bitcast<u32>(sum{i}.y / all);\n        \
             }}\n    }}",
            y = y.var
        )
    });
    let text = |n: u64| n.to_string();
    let held = (block * (quads + 1)).max(queries * block / 4);
    let wgsl = fill(
        include_str!("attention_tile.wgsl"),
        &[
            ("kv", if f16 { "f16" } else { "f32" }),
            ("bindings", &emit.bindings()),
            ("e", &text(e)),
            ("group", &text(group)),
            ("tile", &text(tile_rows)),
            ("queries", &text(queries)),
            ("block", &text(block)),
            ("threads", &text(threads)),
            ("quads", &text(quads)),
            ("own", &text(own)),
            ("summed", &text(summed)),
            ("held", &text(held)),
            ("common", formats::COMMON),
            ("capped", include_str!("capped.wgsl")),
            ("ctl", &ctl.var),
            ("q", &q_at.var),
            ("k", &k.var),
            ("sums", &list(summed, &|i| format!("var sum{i} = vec2f();"))),
            ("scores", &list(own, &|i| format!("var s{i} = vec4f();"))),
            ("keys", &keys),
            ("score", &score),
            ("cap", if op.softcap.is_some() { &cap } else { "" }),
            ("keep", &keep),
            ("fade", &list(summed, &|i| format!("sum{i} *= fades[sums_of + {i}u];"))),
            ("values", &values),
            ("add", &add),
            ("store", &store),
        ],
    );
    Ok(Some(Launch { wgsl, entry: "attention_tile", words, groups: kv_heads * tiles }))
}
