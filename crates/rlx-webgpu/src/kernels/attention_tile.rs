//! `attention` of several rows: a tile of them, all heads of a group, shares what it reads.

use super::attention::{block_end, score_words, sink};
use super::emit::{Emit, fill};
use super::kv::{self, Kv, Rows};
use super::rope::cache_dims;
use super::{Launch, formats, matrix, word};
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
    fn of(e: u64, kv: Kv) -> Option<Tile> {
        match (e, kv) {
            (64, Kv::F16 | Kv::Q8_0) => Some(Tile { queries: 32, block: 32, threads: 128 }),
            (64, Kv::F32) | (128, Kv::F16 | Kv::Q8_0) => {
                Some(Tile { queries: 16, block: 16, threads: 64 })
            }
            _ => None,
        }
    }
}

/// Whether a step of several rows has tiles: by its heads' elements, their group and its caches.
pub(super) fn fits(e: u64, group: u64, kv: Kv) -> bool {
    Tile::of(e, kv).is_some_and(|t| (1..=t.queries).contains(&group))
}

pub(super) fn attention_tile(
    op: &Attention,
    step: &Step,
    emit: &mut Emit<'_>,
) -> Result<Option<Launch>> {
    let [q, k_cache, v_cache, ctl, sinks @ ..] = step.operands.as_slice() else {
        return Err(Error::internal("attention has four operands or five"));
    };
    let (rows, width) = matrix(q)?;
    let (kv_heads, capacity, e) = cache_dims(k_cache)?;
    let heads = width / e;
    let (group, kv) = (heads / kv_heads, Kv::of(k_cache));
    let tile = Tile::of(e, kv).filter(|t| group <= t.queries);
    let tile = tile.ok_or_else(|| Error::internal("attention of several rows without a tile"))?;
    let Tile { queries, block, threads } = tile;
    let tile_rows = queries / group;
    let tiles = rows.div_ceil(tile_rows);
    let ctl = emit.read(ctl)?;
    let q_at = emit.read(q)?;
    let k = if kv == Kv::Q8_0 { emit.read(k_cache)? } else { emit.read_quads(k_cache)? };
    let v = emit.read(v_cache)?;
    let sinks = sinks.first().map(|sinks| emit.read(sinks)).transpose()?;
    let y = emit.write(&step.results[0])?;
    let mut words = vec![
        word(heads)?,
        word(rows)?,
        word(tiles)?,
        word(capacity)?,
        q_at.word(),
        if kv == Kv::Q8_0 { k.word() } else { k.byte / 16 },
        v.word(),
        y.word(),
        ctl.word(),
    ];
    words.extend(score_words(op));
    words.push(sinks.as_ref().map_or(0, |sinks| sinks.word()));
    let sink = |s: &str| sink(s, "thread % 4u == 0u", "kv_head * GROUP + stats_of % GROUP");
    // Four elements each of 16 bytes.
    let fours: &[&str] = match kv {
        Kv::F32 => &["a"],
        Kv::F16 => &["a", "b"],
        Kv::Q8_0 => &["a", "b", "c", "d"],
    };
    let n = fours.len();
    let quads = e / (4 * n as u64);
    let own = queries * (block / 4) / threads;
    let summed = queries * (e / 2) / threads;
    let list =
        |n: u64, f: &dyn Fn(u64) -> String| (0..n).map(f).collect::<Vec<_>>().join("\n        ");
    // Sixteen bytes of four positions' keys each.
    let held = Rows::of(op.ring, capacity);
    let last = block_end(op, "past + min(row0 + TILE, ctl.y) - 1u");
    let end = format!("min({last}, past + min(ctl.y, step.rows))");
    // Positions from the end on are read, and weigh nothing.
    let read = |position: &str| match op.ring {
        true => held.row(position),
        false => format!("min({position}, step.capacity - 1u)"),
    };
    let keys = list(4, &|j| {
        let at = format!("(lane + {j}u * LANES) * PITCH");
        let w = format!("let w{j} = tile[{at} + piece];");
        match kv {
            Kv::F32 => format!("{w} let a{j} = bitcast<vec4f>(w{j});"),
            Kv::F16 => {
                format!("{w} let a{j} = pair_f16(w{j}.xy); let b{j} = pair_f16(w{j}.zw);")
            }
            Kv::Q8_0 => format!(
                "{w} let scale{j} = bitcast<f32>(tile[{at} + QUADS][piece / 2u]); let a{j} = bytes_of(w{j}.x); \
                 let b{j} = bytes_of(w{j}.y); let c{j} = bytes_of(w{j}.z); let d{j} = bytes_of(w{j}.w);"
            ),
        }
    });
    let score = list(own, &|i| {
        let query = |(h, x): (usize, &&str)| {
            format!("let q{x}{i} = query[(scores_of + {i}u) * FOURS + {n}u * piece + {h}u];")
        };
        let queries: Vec<String> = fours.iter().enumerate().map(query).collect();
        let four = |x: &&str| {
            format!(
                "vec4f(dot(q{x}{i}, {x}0), dot(q{x}{i}, {x}1), dot(q{x}{i}, {x}2), dot(q{x}{i}, {x}3))"
            )
        };
        let sums: Vec<String> = fours.iter().map(four).collect();
        let sum = match kv {
            // A block's scale once for 16 products.
            Kv::Q8_0 => {
                format!("s{i} += vec4f(scale0, scale1, scale2, scale3) * ({});", sums.join(" + "))
            }
            _ => sums.iter().map(|sum| format!("s{i} += {sum}; ")).collect(),
        };
        format!("{} {sum}", queries.join(" "))
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
        let position = read(&format!("block + i + {j}u * LANES"));
        let v = &v.var;
        match kv {
            Kv::F16 => format!(
                "let v{j} = unpack2x16float({v}[step.v + (cache + {position}) * COLUMNS + column]);"
            ),
            Kv::F32 => format!(
                "let at{j} = step.v + (cache + {position}) * E + 2u * column;\n        \
                 let v{j} = bitcast<vec2f>(vec2u({v}[at{j}], {v}[at{j} + 1u]));"
            ),
            Kv::Q8_0 => {
                format!("let v{j} = pair_of_{v}(step.v, (cache + {position}) * COLUMNS + column);")
            }
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
    let memory = (block * (quads + 1)).max(queries * block / 4);
    let (mut readers, mut load) = (String::new(), format!("{}[step.k + at]", k.var));
    let mut scales = String::new();
    if kv == Kv::Q8_0 {
        readers = kv::readers(&[&k.var, &v.var]);
        load = format!("sixteen_of_{}(step.k, at)", k.var);
        let four: Vec<String> = (0..4u64)
            .map(|b| {
                if b < e / 32 {
                    format!("scale_of_{}(step.k, row + {b}u)", k.var)
                } else {
                    "0.0".into()
                }
            })
            .collect();
        scales = format!(
            "for (var i = thread; i < BLOCK; i += THREADS) {{\n            \
             let row = (cache + {}) * (E / 32u);\n            \
             tile[i * PITCH + QUADS] = bitcast<vec4u>(vec4f({}));\n        }}",
            read("block + i"),
            four.join(", ")
        );
    }
    let wgsl = fill(
        wgsl!("attention_tile.wgsl"),
        &[
            ("kv", kv.name()),
            ("bindings", &emit.bindings()),
            ("e", &text(e)),
            ("block_end", &block_end(op, "own")),
            ("end", &held.end(&end)),
            ("key_row", &read("block + i / QUADS")),
            ("group", &text(group)),
            ("tile", &text(tile_rows)),
            ("queries", &text(queries)),
            ("block", &text(block)),
            ("threads", &text(threads)),
            ("quads", &text(quads)),
            ("own", &text(own)),
            ("summed", &text(summed)),
            ("held", &text(memory)),
            ("common", formats::COMMON),
            ("capped", wgsl!("capped.wgsl")),
            ("ctl", &ctl.var),
            ("q", &q_at.var),
            ("readers", &readers),
            ("load_key", &load),
            ("load_scales", &scales),
            ("sink", &sinks.map_or(String::new(), |s| sink(&s.var))),
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
