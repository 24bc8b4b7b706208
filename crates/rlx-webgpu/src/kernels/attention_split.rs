//! `attention_split` and `rope_attention_split`: one row's attention over parts of its positions. Several rows have
//! the tiles of [`attention_tile`].

mod rows;
mod teams;

use super::attention::score_words;
use super::emit::{Emit, Place, fill};
use super::kv::{Kv, Rows};
use super::rope::{angle, cache_dims, element_of, low_rows, pairs, turned};
use super::takes::{self, Taken};
use super::{Context, Launch, attention_tile, formats, matrix, mismatch, unsupported, word};
#[cfg(not(target_family = "wasm"))]
use crate::gpu::Form;
use rlx_core::ir::lir::{Slice, Step};
use rlx_core::ops::{AttentionSplit, Op, RopeStyle};
use rlx_core::target::Target;
use rlx_core::types::Type;
use rlx_core::{Error, Result};

/// Rows of f32 over caches of any type that caches have, several of them where they have tiles.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    let known = ["head_dim", "scale", "window", "softcap", "block", "ring", "splits", "least"];
    takes::knows(op, &known)?;
    takes::floats_and_caches(operands)?;
    takes::matrix(operands)?;
    let sizes = |ty: &Type| ty.shape.static_dims().unwrap_or_default();
    match (sizes(operands[0]).as_slice(), sizes(operands[1]).as_slice()) {
        ([1, _], _) => Ok(()),
        ([_, width], &[kv_heads, _, e])
            if attention_tile::fits(e, width / e.max(1) / kv_heads.max(1)) =>
        {
            Ok(())
        }
        _ => Err(
            "its kernel of several rows takes heads of whole 4, up to 512, in groups of up to 32"
                .into(),
        ),
    }
}

/// The same with rows of keys and values to turn and write.
pub(super) fn takes_rope(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    let known = [
        "head_dim", "scale", "window", "softcap", "block", "ring", "splits", "least", "style",
        "norm_eps",
    ];
    takes::knows(op, &known)?;
    takes::floats_and_caches(operands)?;
    takes::matrix(operands)
}

/// Threads of a split.
const THREADS: u64 = 128;

/// A split of a key and value head: sizes, and the arrays that it reads and writes.
struct Split {
    /// Elements of a head.
    e: u64,
    /// Query heads of the key and value head.
    group: u64,
    /// Pieces of a cache's row: 16 bytes, or eight elements of blocks.
    quads: u64,
    kv: Kv,
    held: Rows,
    softcap: bool,
    k: Place,
    v: Place,
    out: String,
}

/// What is normed, rotated and written.
struct Turned<'a> {
    k: &'a Slice,
    v: &'a Slice,
    table: &'a Slice,
    style: RopeStyle,
    norm: Option<Norms<'a>>,
}

/// Norms of the heads of q and k.
struct Norms<'a> {
    eps: f32,
    q: &'a Slice,
    k: &'a Slice,
}

pub(super) fn split(step: &Step, cx: &Context<'_>, emit: &mut Emit<'_>) -> Result<Option<Launch>> {
    let Op::AttentionSplit(op) = &step.op else { return Err(mismatch(step)) };
    let [q, k_cache, v_cache, ctl] = step.operands.as_slice() else {
        return Err(Error::internal("attention_split has four operands"));
    };
    if matrix(q)?.0 > 1 {
        return attention_tile::attention_tile(&op.whole, Some(op), step, emit);
    }
    launch("attention_split", op, None, [q, k_cache, v_cache, ctl], &step.results, cx, emit)
}

pub(super) fn rope_split(
    step: &Step,
    cx: &Context<'_>,
    emit: &mut Emit<'_>,
) -> Result<Option<Launch>> {
    let Op::RopeAttentionSplit(op) = &step.op else { return Err(mismatch(step)) };
    let [q, k, v, table, k_cache, v_cache, ctl, norms @ ..] = step.operands.as_slice() else {
        return Err(Error::internal("rope_attention_split has seven operands or more"));
    };
    let norm = match (op.norm, norms) {
        (None, []) => None,
        (Some(eps), [q, k]) => Some(Norms { eps, q, k }),
        _ => return Err(Error::internal("rope_attention_split has two norms or none")),
    };
    let turned = Some(Turned { k, v, table, style: op.style, norm });
    let operands = [q, k_cache, v_cache, ctl];
    launch("rope_attention_split", &op.split, turned, operands, &step.results, cx, emit)
}

fn launch(
    entry: &'static str,
    op: &AttentionSplit,
    turned: Option<Turned<'_>>,
    [q, k_cache, v_cache, ctl]: [&Slice; 4],
    results: &[Slice],
    cx: &Context<'_>,
    emit: &mut Emit<'_>,
) -> Result<Option<Launch>> {
    let [acc, stats, ..] = results else {
        return Err(Error::internal(format!("{entry} has two results or more")));
    };
    let (kv_heads, capacity, e) = cache_dims(k_cache)?;
    let (_, width) = matrix(q)?;
    let group = width / e.max(1) / kv_heads.max(1);
    let kv = Kv::of(k_cache);
    let blocks = kv.words().is_some();
    let quads = e / if kv == Kv::F32 { 4 } else { 8 };
    if !e.is_multiple_of(8) || e > 512 || !(1..=8).contains(&group) || group * e > 1024 {
        return Err(unsupported(format!("attention splits of {group} heads of {e}")));
    }
    let (ctl, q) = (emit.read(ctl)?, emit.read(q)?);
    let mut cache = |slice: &Slice| match (&turned, blocks) {
        (Some(_), false) => emit.write_quads(slice),
        (None, false) => emit.read_quads(slice),
        // Blocks start at words.
        (Some(_), true) => emit.write(slice),
        (None, true) => emit.read(slice),
    };
    let (k, v) = (cache(k_cache)?, cache(v_cache)?);
    let (acc, stats) = (emit.write(acc)?, emit.write(stats)?);
    if acc.var != stats.var {
        return Err(Error::internal("an attention split's results are in different buffers"));
    }
    let [scale, window, softcap] = score_words(&op.whole);
    let rows = kv_heads * op.splits as u64;
    let mut words = vec![
        word(op.splits as u64)?,
        word(op.least as u64)?,
        word(capacity)?,
        q.word(),
        acc.word(),
        stats.word(),
        ctl.word(),
        scale,
        window,
        softcap,
        word(rows)?,
        if blocks { k.word() } else { k.byte / 16 },
        if blocks { v.word() } else { v.byte / 16 },
    ];
    let softcap = op.whole.softcap.is_some();
    let held = Rows::of(op.whole.ring, capacity);
    // No page has a text of its own, and pages download each function.
    #[cfg(not(target_family = "wasm"))]
    let mut parameters = vec![
        ("kv", kv.name().into()),
        ("e", e.to_string()),
        ("group", group.to_string()),
        ("ring", op.whole.ring.to_string()),
        ("softcap", softcap.to_string()),
        ("block", "1".into()),
        ("ctl", ctl.var.clone()),
        ("q", q.var.clone()),
        ("k", k.var.clone()),
        ("v", v.var.clone()),
        ("y", acc.var.clone()),
    ];
    let split = Split { e, group, quads, kv, held, softcap, k, v, out: acc.var };
    let mut text = Text {
        turn: String::new(),
        norm: String::new(),
        query: format!(
            "let at = step.q + kv * GROUP * E + i * 4u;\n        \
             query[i] = step.scale * bitcast<vec4f>(vec4u({q}[at], {q}[at + 1u], {q}[at + 2u], {q}[at + 3u]));",
            q = q.var
        ),
        write: String::new(),
    };
    if let Some(turned) = &turned {
        let (k, v) = (emit.read(turned.k)?, emit.read(turned.v)?);
        let table = emit.read(turned.table)?;
        let dims = turned.table.ty.shape.static_dims()?;
        let &[table_rows, half, _] = dims.as_slice() else {
            return Err(Error::internal(format!("{} is no rope table", turned.table.ty)));
        };
        words.extend([k.word(), v.word(), table.word(), word(half)?, word(low_rows(table_rows))?]);
        let norms = match &turned.norm {
            Some(n) => Some((n.eps.to_bits(), emit.read(n.q)?, emit.read(n.k)?)),
            None => None,
        };
        let vars = norms.as_ref().map(|(_, q, k)| (q.var.as_str(), k.var.as_str()));
        #[cfg(not(target_family = "wasm"))]
        {
            let (q_norm, k_norm) = vars.unwrap_or_default();
            let style = if turned.style == RopeStyle::Adjacent { "adjacent" } else { "half" };
            parameters.extend([
                ("new_k", k.var.clone()),
                ("new_v", v.var.clone()),
                ("table", table.var.clone()),
                ("q_norm", q_norm.into()),
                ("k_norm", k_norm.into()),
                ("style", style.into()),
            ]);
        }
        text = split.turning(turned.style, &q.var, &k.var, &v.var, &table.var, vars);
        words.extend(norms.map_or([0; 3], |(eps, q, k)| [eps, q.word(), k.word()]));
    } else {
        words.extend([0; 8]);
    }
    let bindings = emit.bindings();
    let start = fill(
        wgsl!("attention_split/start.wgsl"),
        &[
            ("ctl", &ctl.var),
            ("out", &split.out),
            ("norm", &text.norm),
            ("load_query", &text.query),
            ("write_caches", &text.write),
            ("end", &held.end("ctl.x + 1u")),
        ],
    );
    let number = |n: u64| n.to_string();
    let shared = [
        (
            "what",
            match &turned {
                Some(Turned { norm: Some(_), .. }) => {
                    ";\n//             heads of q and k normed and rotated here, k and v written"
                }
                Some(_) => ";\n//             q and k rotated here, k and v written",
                None => "",
            },
        ),
        ("kv", kv.name()),
        ("step", wgsl!("attention_split/step.wgsl")),
        ("bindings", &bindings),
        ("e", &number(e)),
        ("group", &number(group)),
        ("threads", &number(THREADS)),
        ("quads", &number(quads)),
        ("block", &AttentionSplit::BLOCK.to_string()),
        ("common", formats::COMMON),
        ("capped", if softcap { wgsl!("capped.wgsl") } else { "" }),
        ("piece", if blocks { "8 elements" } else { "16 bytes" }),
        ("readers", &kv.readers(&[&split.k.var, &split.v.var])),
        ("turn", &text.turn),
        ("entry", entry),
        ("start", &start),
        ("out", &split.out),
    ];
    let wgsl = match teams::lanes(&split, cx) {
        Some(subgroup) => teams::wgsl(&split, subgroup, cx, &shared),
        None => rows::wgsl(&split, &shared),
    };
    #[cfg(not(target_family = "wasm"))]
    {
        emit.form = Some(Form { name: entry, parameters });
    }
    Ok(Some(Launch { wgsl, entry, words, groups: rows }))
}

/// Pieces of the start that differ between the operators.
struct Text {
    /// Functions, and what they share.
    turn: String,
    /// Finds how long the heads are.
    norm: String,
    /// Brings four elements of the queries.
    query: String,
    /// Writes the row's own key and value.
    write: String,
}

impl Split {
    /// The pieces of an operator that rotates.
    /// `norms`: the arrays with the norms' weights of q and k.
    fn turning(
        &self,
        style: RopeStyle,
        q: &str,
        k: &str,
        v: &str,
        table: &str,
        norms: Option<(&str, &str)>,
    ) -> Text {
        let (mut shared, mut norm) = (String::new(), String::new());
        let heads = match norms {
            None => turned("q", &element_of(q)) + &turned("k", &element_of(k)),
            Some((q_norm, k_norm)) => {
                shared = fill(wgsl!("attention_split/inverse_rms.wgsl"), &[("q", q), ("k", k)]);
                norm = "find_inverse_rms(kv, thread);".into();
                let (q, k) = (element_of(q), element_of(k));
                let normed = |x: String, head: &str, weight: String| {
                    format!("{x} * inverse_rms[{head}] * bitcast<f32>({weight})")
                };
                turned("q", &|at| {
                    let weight = format!("{q_norm}[step.q_norm + {at}]");
                    normed(q(at), "(head - step.q) / E % GROUP", weight)
                }) + &turned("k", &|at| {
                    normed(k(at), "GROUP", format!("{k_norm}[step.k_norm + {at}]"))
                })
            }
        };
        let turn = angle(table) + pairs(style) + &shared + &heads;
        let query = "let head = step.q + (kv * GROUP + i / FOURS) * E;\n        let d = i % FOURS * 4u;\n        \
             query[i] = step.scale * vec4f(turn_q(head, d, ctl.x), turn_q(head, d + 2u, ctl.x));";
        let pair = format!(
            "fn pair_of_v(at: u32) -> vec2f {{ return bitcast<vec2f>(vec2u({v}[at], {v}[at + 1u])); }}\n"
        );
        if let Some(words) = self.kv.words() {
            let turn = turn + &pair + &self.kv.maker(THREADS);
            return Text { turn, norm, query: query.into(), write: self.write_blocks(words) };
        }
        // Sixteen bytes of element d on: pairs of them turned, or as they are.
        let quad = |pair: &dyn Fn(u32) -> String| match self.kv {
            Kv::F16 => {
                let words: Vec<String> =
                    (0..4).map(|i| format!("pack2x16float({})", pair(2 * i))).collect();
                format!("vec4u({})", words.join(", "))
            }
            _ => format!("bitcast<vec4u>(vec4f({}, {}))", pair(0), pair(2)),
        };
        let new_k = quad(&|d| format!("turn_k(step.new_k + kv * E, d + {d}u, ctl.x)"));
        let new_v = quad(&|d| format!("pair_of_v(step.new_v + kv * E + d + {d}u)"));
        let per = self.e / self.quads;
        // The last threads first: the first ones turn the queries.
        let write = format!(
            "if ctl.z == 0u && ctl.x >= start && ctl.x < end {{\n        \
             let at = cache + {} * QUADS;\n        \
             for (var i = THREADS - 1u - thread; i < 2u * QUADS; i += THREADS) {{\n            \
             let d = i % QUADS * {per}u;\n            \
             if i < QUADS {{\n                {}[step.k + at + i] = {new_k};\n            \
             }} else {{\n                {}[step.v + at + i - QUADS] = {new_v};\n            }}\n        }}\n    }}\n    \
             storageBarrier();",
            self.held.row("ctl.x"),
            self.k.var,
            self.v.var
        );
        Text { turn: turn + &pair, norm, query: query.into(), write }
    }

    /// Writes the row's own blocks: 32 threads have two of them.
    fn write_blocks(&self, words: u64) -> String {
        // Pairs of elements, k's and then v's.
        format!(
            "if ctl.z == 0u && ctl.x >= start && ctl.x < end {{\n        \
             for (var first = 0u; first < E; first += THREADS) {{\n            \
             let i = first + thread;\n            let d = i % (E / 2u) * 2u;\n            \
             var pair = vec2f();\n            \
             if i < E / 2u {{ pair = turn_k(step.new_k + kv * E, d, ctl.x); }}\n            \
             else if i < E {{ pair = pair_of_v(step.new_v + kv * E + d); }}\n            \
             let bits = word_of_blocks(pair, thread);\n            \
             let at = (cache + {} * QUADS + d / 8u) / 8u * {words}u + thread % 32u;\n            \
             if thread % 32u < {words}u && i < E / 2u {{ {}[step.k + at] = bits; }}\n            \
             else if thread % 32u < {words}u && i < E {{ {}[step.v + at] = bits; }}\n        }}\n    }}\n    \
             storageBarrier();",
            self.held.row("ctl.x"),
            self.k.var,
            self.v.var
        )
    }

    /// The piece at `index` of the keys (`k`) or the values (`v`).
    fn piece(&self, of: &str, index: &str) -> String {
        let var = if of == "k" { &self.k.var } else { &self.v.var };
        match self.kv {
            Kv::Q8_0 | Kv::Q4_0 => format!("eight_of_{var}(step.{of}, {index})"),
            _ => format!("{var}[step.{of} + {index}]"),
        }
    }

    /// Names of a piece's elements, four by four, and what makes them of the piece, `@`.
    fn halves(&self) -> &'static [(&'static str, &'static str)] {
        match self.kv {
            Kv::F32 => &[("low", "bitcast<vec4f>(@)")],
            Kv::F16 => &[("low", "pair_f16(@.xy)"), ("high", "pair_f16(@.zw)")],
            Kv::Q8_0 | Kv::Q4_0 => &[
                ("low", "bitcast<f32>(@.z) * bytes_of(@.x)"),
                ("high", "bitcast<f32>(@.z) * bytes_of(@.y)"),
            ],
        }
    }

    /// A line for each head of the group.
    fn each(&self, line: &dyn Fn(u64) -> String) -> String {
        (0..self.group).map(line).collect::<Vec<_>>().join("\n        ")
    }

    /// A sum or a sequence over the halves; `f` is told the number and the name.
    fn joined(&self, between: &str, f: &dyn Fn(usize, &str) -> String) -> String {
        let all = self.halves().iter().enumerate();
        all.map(|(h, (name, _))| f(h, name)).collect::<Vec<_>>().join(between)
    }
}
