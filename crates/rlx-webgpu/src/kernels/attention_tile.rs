//! `attention` and `attention_split` of several rows: a tile of them, all heads of a group, shares what it reads.

#[cfg(not(target_family = "wasm"))]
use super::attention::block_of;
use super::attention::{block_end, score_words};
use super::emit::{Emit, Place, fill};
use super::kv::{Kv, Rows};
use super::rope::cache_dims;
use super::{Launch, formats, matrix, word};
#[cfg(not(target_family = "wasm"))]
use crate::gpu::Form;
use rlx_core::ir::lir::{Slice, Step};
use rlx_core::ops::{Attention, AttentionSplit};
use rlx_core::{Error, Result};

/// Queries of a workgroup, eight to each quarter of its threads.
const QUERIES: u64 = AttentionSplit::QUERIES;
/// Positions whose weights are in the workgroup's memory at a time.
const WEIGHTS: u64 = 32;
/// Floats of the workgroup's memory for keys, and for values: half of the 16 KiB that every device has.
const FLOATS: u64 = 2048;
/// Elements of a head at most: more are more sums than a thread has registers.
const HEAD: u64 = 512;

/// Whether a step of several rows has tiles: by its heads' elements and their group.
pub(super) fn fits(e: u64, group: u64) -> bool {
    e.is_multiple_of(4) && (4..=HEAD).contains(&e) && (1..=QUERIES).contains(&group)
}

/// A workgroup's shape.
struct Tile {
    /// Elements of a head.
    e: u64,
    threads: u64,
    /// Dimensions of keys and queries in memory at a time.
    chunk: u64,
    /// Positions whose values are in memory at a time.
    values: u64,
    /// Threads that sum a position's values, four dimensions each at a time.
    columns: u64,
    /// Fours of dimensions that such a thread has.
    fours: u64,
}

impl Tile {
    fn of(e: u64) -> Tile {
        let threads = if e <= 256 { 128 } else { 256 };
        let lanes = threads / 4;
        let values = (FLOATS / e).min(WEIGHTS);
        Tile {
            e,
            threads,
            chunk: FLOATS / threads,
            values: 1 << values.ilog2(),
            columns: (e / 4).next_power_of_two().min(lanes),
            fours: (e / 4).div_ceil(lanes),
        }
    }

    /// Threads that share the positions of eight queries.
    fn slices(&self) -> u64 {
        self.threads / 4 / self.columns
    }

    /// Fours of floats of the workgroup's memory.
    fn held(&self) -> u64 {
        let lanes = self.threads / 4;
        let keys = self.chunk * (lanes + 1) + self.chunk * QUERIES / 4;
        let maxima = lanes * QUERIES / 4;
        let values = WEIGHTS * 9 + self.values * self.e / 4;
        let sums = if self.slices() > 1 { QUERIES * self.columns } else { 0 };
        keys.max(maxima).max(values).max(sums)
    }

    /// The threads for which `i` is one of the first `n`, in WGSL: a condition, or all.
    fn among(&self, n: u64, text: String) -> String {
        if n < self.threads { format!("if thread < {n}u {{ {text} }}") } else { text }
    }

    /// Loads of four dimensions of keys and queries, from dimension `chunk` on.
    fn load_keys(&self, chunk: &str, q: &str) -> String {
        let (c, e) = (self.chunk, self.e);
        let rest = !e.is_multiple_of(c);
        let four = match rest {
            true => format!("min({chunk} / 4u, FOURS - 1u - thread % {}u)", c / 4),
            false => format!("{chunk} / 4u"),
        };
        let keys: Vec<String> =
            (0..4).map(|i| format!("raw{i} = key_four(key_at[{i}] + {four});")).collect();
        let d = match rest {
            true => format!("min({chunk} + thread % {c}u, E - 1u)"),
            false => format!("{chunk} + thread % {c}u"),
        };
        let one = |i: u64| format!("{q}[query_at[{i}] + d]");
        let query = format!(
            "let d = {d}; query = step.scale * bitcast<vec4f>(vec4u({}, {}, {}, {}));",
            one(0),
            one(1),
            one(2),
            one(3)
        );
        let keys = self.among(self.threads * c / 16, keys.join(" "));
        format!("{keys}\n        {}", self.among(c * QUERIES / 4, format!("{{ {query} }}")))
    }

    /// Keys go to memory with four positions side by side, and queries with four queries.
    fn keep_keys(&self) -> String {
        let (c, part) = (self.chunk, ["x", "y", "z", "w"]);
        let fours: Vec<String> = (0..4).map(|i| format!("let k{i} = four_of(raw{i});")).collect();
        let rows: Vec<String> = (0..4)
            .map(|d| {
                let x = part[d];
                format!(
                    "memory[(thread % {n}u * 4u + {d}u) * PITCH + thread / {n}u] = vec4f(k0.{x}, k1.{x}, k2.{x}, k3.{x});",
                    n = c / 4
                )
            })
            .collect();
        let keys = format!("{}\n            {}", fours.join(" "), rows.join("\n            "));
        let query = format!("memory[QUERIES + thread % {c}u * 8u + thread / {c}u] = query;");
        let keys = self.among(self.threads * c / 16, keys);
        format!("{keys}\n            {}", self.among(c * QUERIES / 4, query))
    }

    /// Values that a thread moves at a time.
    fn moves(&self) -> u64 {
        (self.values * self.e / 4).div_ceil(self.threads)
    }

    /// Loads of values from position `start` of a step on. Weights of a thread's four positions are eight apart.
    fn load_values(&self, read: &dyn Fn(&str) -> String) -> String {
        let row = read("position");
        let one = |j: u64| {
            format!(
                "{{ let i = thread + {}u; let n = start % 32u + i / FOURS; \
                 let position = block + start / 32u * 32u + n % 8u * 4u + n / 8u; \
                 raw{j} = value_four((cache + {row}) * FOURS + i % FOURS); }}",
                j * self.threads
            )
        };
        (0..self.moves()).map(one).collect::<Vec<_>>().join("\n        ")
    }

    fn keep_values(&self) -> String {
        let all = self.values * self.e / 4;
        let one = |j: u64| {
            let before = j * self.threads;
            let keep = format!("memory[WEIGHTS + thread + {before}u] = four_of(raw{j});");
            self.among(all - before, keep)
        };
        (0..self.moves()).map(one).collect::<Vec<_>>().join("\n            ")
    }
}

/// Caches in a kernel: where they are, and the functions that read four elements of a row and decode them.
struct Caches {
    k: Place,
    v: Place,
    /// Bytes of what `step.k` and `step.v` count.
    unit: u32,
    readers: String,
}

impl Caches {
    fn of(k: &Slice, v: &Slice, emit: &mut Emit<'_>) -> Result<Caches> {
        let kv = Kv::of(k);
        let mut place = |cache: &Slice| match kv {
            Kv::F32 => emit.read_quads(cache),
            Kv::F16 => emit.read_pairs(cache),
            Kv::Q8_0 | Kv::Q4_0 => emit.read(cache),
        };
        let (k, v) = (place(k)?, place(v)?);
        let (unit, raw, decoded) = match kv {
            Kv::F32 => (16, "vec4u", "bitcast<vec4f>(raw)"),
            Kv::F16 => (8, "vec2u", "pair_f16(raw)"),
            Kv::Q8_0 | Kv::Q4_0 => (4, "vec2u", "bitcast<f32>(raw.y) * bytes_of(raw.x)"),
        };
        let mut readers = kv.readers(&[&k.var, &v.var]);
        readers +=
            &format!("alias Raw = {raw};\nfn four_of(raw: Raw) -> vec4f {{ return {decoded}; }}\n");
        for (name, field, var) in [("key", "k", &k.var), ("value", "v", &v.var)] {
            let four = match kv {
                Kv::Q8_0 | Kv::Q4_0 => format!("four_of_{var}(step.{field}, i)"),
                _ => format!("{var}[step.{field} + i]"),
            };
            readers += &format!("fn {name}_four(i: u32) -> Raw {{ return {four}; }}\n");
        }
        Ok(Caches { k, v, unit, readers })
    }
}

/// Attention, whole or in splits.
pub(super) fn attention_tile(
    op: &Attention,
    split: Option<&AttentionSplit>,
    step: &Step,
    emit: &mut Emit<'_>,
) -> Result<Option<Launch>> {
    let ([q, k_cache, v_cache, ctl, sinks @ ..], [y, stats @ ..]) =
        (step.operands.as_slice(), step.results.as_slice())
    else {
        return Err(Error::internal("attention has four operands or five"));
    };
    let (rows, width) = matrix(q)?;
    let (kv_heads, capacity, e) = cache_dims(k_cache)?;
    let heads = width / e;
    let group = heads / kv_heads;
    if !fits(e, group) {
        return Err(Error::internal("attention of several rows without a tile"));
    }
    let tile = Tile::of(e);
    let tile_rows = QUERIES / group;
    // Workgroups of a key and value head.
    let places = split.map_or(rows.div_ceil(tile_rows), |split| split.splits as u64);
    let ctl = emit.read(ctl)?;
    let q_at = emit.read(q)?;
    let caches = Caches::of(k_cache, v_cache, emit)?;
    let sinks = sinks.first().map(|sinks| emit.read(sinks)).transpose()?;
    let y = emit.write(y)?;
    let stats = stats.first().map(|stats| emit.write(stats)).transpose()?;
    let mut words = vec![
        word(heads)?,
        word(rows)?,
        word(places)?,
        word(capacity)?,
        q_at.word(),
        caches.k.byte / caches.unit,
        caches.v.byte / caches.unit,
        y.word(),
        ctl.word(),
    ];
    words.extend(score_words(op));
    words.push(sinks.as_ref().map_or(0, |sinks| sinks.word()));
    words.push(stats.as_ref().map_or(0, |stats| stats.word()));
    words.push(word(split.map_or(0, |split| split.least as u64))?);

    let held = Rows::of(op.ring, capacity);
    let last = block_end(op, "past + min(row0 + TILE, ctl.y) - 1u");
    let end = format!("min({last}, past + min(ctl.y, step.rows))");
    // Positions from the end on are read, and weigh nothing.
    let read = |position: &str| match op.ring {
        true => held.row(position),
        false => format!("min({position}, step.capacity - 1u)"),
    };
    let part = ["x", "y", "z", "w"];
    let list = |n: u64, between: &str, f: &dyn Fn(u64) -> String| {
        (0..n).map(f).collect::<Vec<_>>().join(between)
    };
    let lines = |n: u64, f: &dyn Fn(u64) -> String| list(n, "\n        ", f);
    // Of the eight queries of a thread, the `i`th one's element of a pair of fours.
    let of = |pair: &str, i: u64| format!("{pair}{}.{}", i / 4, part[i as usize % 4]);
    let sums = |f: &dyn Fn(u64, u64) -> String| lines(8, &|i| list(tile.fours, " ", &|j| f(i, j)));
    let query_at = list(4, ", ", &|i| {
        let n = format!("min(thread / CHUNK * 4u + {i}u, TILE * GROUP - 1u)");
        format!(
            "step.q + (min(row0 + {n} / GROUP, step.rows - 1u) * step.heads + kv_head * GROUP + {n} % GROUP) * E"
        )
    });
    let sink = sinks.as_ref().map_or(String::new(), |s| {
        let one = |i: u64| {
            let head = format!("kv_head * GROUP + (eight * 8u + {i}u) % GROUP");
            format!("{} = bitcast<f32>({}[step.sinks + {head}]);", of("most", i), s.var)
        };
        let total = "if lane == 0u { total0 = vec4f(1.0); total1 = vec4f(1.0); }";
        format!("{}\n    {total}", list(8, "\n    ", &one))
    });
    let each = |first: u64, f: &str| list(4, ", ", &|i| format!("{f}(s{})", first + i));
    let keep_weights = list(4, "\n                ", &|j| {
        let x = part[j as usize];
        let at = format!("({}u + lane % 8u) * 9u + eight * 2u", 8 * j);
        format!(
            "memory[{at}] = vec4f(s0.{x}, s1.{x}, s2.{x}, s3.{x}); \
             memory[{at} + 1u] = vec4f(s4.{x}, s5.{x}, s6.{x}, s7.{x});"
        )
    });
    let whole = tile.columns * tile.fours == e / 4;
    let loads = list(tile.fours, " ", &|j| {
        let four = format!("column + {}u", j * tile.columns);
        let four = if whole { four } else { format!("min({four}, FOURS - 1u)") };
        format!("let v{j} = memory[WEIGHTS + i * FOURS + {four}];")
    });
    let add = sums(&|i, j| format!("sum{i}_{j} += {} * v{j};", of("w", i)));
    let text = |n: u64| n.to_string();
    let q_var = &q_at.var;
    let end = held.end(&end);
    let keep = lines(8, &|i| {
        let (n, most, all) = (format!("eight * 8u + {i}u"), of("most", i), of("all", i));
        format!("if lane == 0u && {n} < live {{ keep(at, {n}, {most}, {all}); }}")
    });
    let (entry, start, stores, keep, whose) = match split {
        None => (
            "attention_tile",
            wgsl!("attention_tile/start.wgsl"),
            wgsl!("attention_tile/store.wgsl"),
            "",
            "row0, kv_head",
        ),
        Some(_) => (
            "attention_split_tile",
            wgsl!("attention_tile/start_split.wgsl"),
            wgsl!("attention_tile/store_split.wgsl"),
            &*keep,
            "at, live",
        ),
    };
    // No page has a text of its own, and pages download each function.
    #[cfg(not(target_family = "wasm"))]
    {
        let name = |place: Option<&Place>| place.map_or(String::new(), |p| p.var.clone());
        let parameters = vec![
            ("kv", Kv::of(k_cache).name().into()),
            ("e", text(e)),
            ("group", text(group)),
            ("tile", text(tile_rows)),
            ("ring", op.ring.to_string()),
            ("softcap", op.softcap.is_some().to_string()),
            ("block", text(block_of(op))),
            ("ctl", ctl.var.clone()),
            ("q", q_at.var.clone()),
            ("k", caches.k.var.clone()),
            ("v", caches.v.var.clone()),
            ("sinks", name(sinks.as_ref())),
            ("y", y.var.clone()),
            ("stats", name(stats.as_ref())),
        ];
        emit.form = Some(Form { name: entry, parameters });
    }
    let divided =
        |i: u64| if split.is_none() { format!(" / {}", of("all", i)) } else { String::new() };
    let outs = [
        ("y", y.var.as_str()),
        ("stats", stats.as_ref().map_or("", |stats| &stats.var)),
        ("block", &text(AttentionSplit::BLOCK as u64)),
    ];
    let wgsl = fill(
        wgsl!("attention_tile.wgsl"),
        &[
            ("kv", Kv::of(k_cache).name()),
            ("bindings", &emit.bindings()),
            ("e", &text(e)),
            ("group", &text(group)),
            ("tile", &text(tile_rows)),
            ("threads", &text(tile.threads)),
            ("chunk", &text(tile.chunk)),
            ("values", &text(tile.values)),
            ("columns", &text(tile.columns)),
            ("slices", &text(tile.slices())),
            ("held", &text(tile.held())),
            ("dims", if e.is_multiple_of(tile.chunk) { "CHUNK" } else { "min(CHUNK, E - chunk)" }),
            ("block_end", &block_end(op, "own")),
            ("entry", entry),
            ("start", &fill(start, &[("end", &end)])),
            ("stores", &fill(stores, &outs)),
            ("keep", keep),
            ("common", formats::COMMON),
            ("capped", wgsl!("capped.wgsl")),
            ("readers", &caches.readers),
            ("ctl", &ctl.var),
            ("query_at", &query_at),
            ("sink", &sink),
            ("sums", &sums(&|i, j| format!("var sum{i}_{j} = vec4f();"))),
            ("key_rows", &list(4, ", ", &|i| read(&format!("four + {i}u")))),
            ("raws", &lines(4.max(tile.moves()), &|i| format!("var raw{i} = Raw();"))),
            ("load_keys", &tile.load_keys("0u", q_var)),
            ("load_next_keys", &tile.load_keys("next", q_var)),
            ("keep_keys", &tile.keep_keys()),
            ("scores", &list(8, " ", &|i| format!("var s{i} = vec4f();"))),
            ("score", &lines(8, &|i| format!("s{i} += {} * k;", of("q", i)))),
            (
                "cap",
                &if op.softcap.is_some() {
                    lines(8, &|i| {
                        let one = |c: u64| format!("capped(s{i}.{})", part[c as usize]);
                        format!("s{i} = vec4f({});", list(4, ", ", &one))
                    })
                } else {
                    String::new()
                },
            ),
            (
                "mask",
                &lines(8, &|i| {
                    let own = format!("past + row0 + (eight * 8u + {i}u) / GROUP");
                    format!("s{i} = scored(s{i}, position, {own}, end);")
                }),
            ),
            ("most_low", &each(0, "most_of")),
            ("most_high", &each(4, "most_of")),
            ("weigh", &lines(8, &|i| format!("s{i} = weights_below(s{i}, {});", of("most", i)))),
            ("total_low", &each(0, "sum_of")),
            ("total_high", &each(4, "sum_of")),
            ("fade", &sums(&|i, j| format!("sum{i}_{j} *= {};", of("fade", i)))),
            ("keep_weights", &keep_weights),
            ("load_values", &tile.load_values(&read)),
            ("keep_values", &tile.keep_values()),
            ("add", &format!("{loads}\n        {add}")),
            (
                "share_sums",
                &lines(8, &|i| {
                    format!("memory[(eight * 8u + {i}u) * COLUMNS + column] = sum{i}_0;")
                }),
            ),
            (
                "join_sums",
                &lines(8, &|i| {
                    format!("sum{i}_0 += memory[(eight * 8u + {i}u) * COLUMNS + column];")
                }),
            ),
            (
                "store",
                &sums(&|i, j| {
                    let four = format!("column + {}u", j * tile.columns);
                    let part = divided(i);
                    format!("store(eight * 8u + {i}u, {whose}, {four}, sum{i}_{j}{part});")
                }),
            ),
        ],
    );
    Ok(Some(Launch { wgsl, entry, words, groups: kv_heads * places }))
}
