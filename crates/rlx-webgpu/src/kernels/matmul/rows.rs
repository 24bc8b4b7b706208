//! One row of x that becomes int8 blocks in the kernel: decoding's kernel where weights are packed.

use super::{Context, Emit, Launch, Parts, activations};
use crate::kernels::emit::fill;
use crate::kernels::formats::{self, Offset};
use crate::tuning::{Class, Shape};
use rlx_core::types::BlockFormat;
use rlx_core::{Error, Result};

/// Elements that one thread quantises.
const PIECE: u64 = 16;
/// Elements that a lane multiplies at a time.
const SHARE: u64 = 64;
/// Lanes of a team where there are no subgroups.
const LANES: u64 = 32;
/// Fewest threads of a workgroup.
const FEWEST: u64 = 64;
/// Bytes of a workgroup's memory that every device has.
const MEMORY: u64 = 16_384;
/// Workgroups beyond which each takes more rows: every one makes the blocks anew.
const GROUPS: u64 = 1024;

/// Threads and how they share sums.
#[derive(Clone, Copy)]
struct Team {
    threads: u64,
    /// Lanes that shuffle among themselves; 1 without subgroups.
    shuffled: u64,
    /// Lanes that share a row.
    lanes: u64,
}

impl Team {
    fn of(threads: u64, cx: &Context<'_>) -> Team {
        match u64::from(cx.wgsl.lanes()) {
            // Sums pass through the workgroup's memory.
            1 => Team { threads, shuffled: 1, lanes: LANES },
            lanes => Team { threads, shuffled: lanes, lanes },
        }
    }

    /// The team of a shape and the rows of each, of fewer threads where `room` bytes of the workgroup's memory do not
    /// hold their sums: beside the longest rows there is little.
    fn within(shape: Shape, streams: u64, room: u64, cx: &Context<'_>) -> (Team, u64) {
        let mut threads = shape.threads;
        loop {
            let team = Team::of(threads, cx);
            let teams = threads / team.lanes;
            // Teams of a workgroup write quads of rows.
            let rows = shape.rows * 4u64.div_ceil(teams * shape.rows);
            let floats = scratch(&team, rows * streams) + teams * rows * streams;
            if 4 * floats <= room || threads <= FEWEST {
                return (team, rows);
            }
            threads /= 2;
        }
    }

    /// `fold` of what `span` threads side by side have in `value`, by shuffles as far as they reach.
    fn shuffles(&self, span: u64, value: &str, fold: &dyn Fn(&str, &str) -> String) -> String {
        let mut text = String::new();
        let mut mask = 1;
        while mask < span.min(self.shuffled) {
            let other = format!("subgroupShuffleXor({value}, {mask}u)");
            text += &format!("{value} = {};\n    ", fold(value, &other));
            mask *= 2;
        }
        text
    }
}

pub(super) fn launch(
    p: &Parts,
    format: BlockFormat,
    cx: &Context<'_>,
    emit: &Emit<'_>,
) -> Result<Launch> {
    let most = p.launched().iter().map(|s| s.rows).sum::<u64>();
    let per = format.elements() as u64;
    let any = |offset: Offset| p.segments.iter().any(|s| formats::offset(s.dtype) == offset);
    let (sums, halves) = (any(Offset::Chunk), any(Offset::Half));
    let streams = if p.glu { 2 } else { 1 };
    let blocks = p.k + p.k / per * 4 + if sums { p.k / SHARE * 4 } else { 0 };
    let shape = cx.tuning.shape(Class::of(most, p.k, p.glu));
    let (team, rows) = Team::within(shape, streams, MEMORY.saturating_sub(blocks), cx);
    let teams = team.threads / team.lanes;
    let repeat = most.div_ceil(teams * rows).div_ceil(GROUPS).max(1);
    let (mut words, groups) = p.words(teams * rows * repeat)?;
    words[super::REPEAT] = super::word(repeat)?;
    let n = (p.k / PIECE).div_ceil(team.threads);
    let text = |n: u64| n.to_string();
    let dot4 = activations::dot4(cx.wgsl.packed_dot);
    let wgsl = fill(
        wgsl!("rows.wgsl"),
        &[
            (
                "enable",
                if team.shuffled > 1 && cx.wgsl.enable_subgroups {
                    "enable subgroups;"
                } else {
                    ""
                },
            ),
            ("step", wgsl!("step.wgsl")),
            ("bindings", &emit.bindings()),
            ("common", formats::COMMON),
            ("readers", &p.readers.text),
            ("dot4", dot4),
            ("dots", &p.shares()?),
            ("epilogue", &p.epilogue()),
            ("k", &text(p.k)),
            ("threads", &text(team.threads)),
            ("lanes", &text(team.lanes)),
            ("teams", &text(teams)),
            ("rows", &text(rows)),
            ("streams", &text(streams)),
            ("scales", &text(p.k / per)),
            ("sums_array", if sums { "var<workgroup> x_sums: array<u32, SHARES>;" } else { "" }),
            ("scratch", &text(scratch(&team, rows * streams))),
            ("scale_of", scale_of(format)),
            ("sums_of", if sums { SUMS_OF } else { "vec2i()" }),
            ("halves_of", if halves { HALVES_OF } else { "vec4i()" }),
            ("x", &p.x.var),
            ("round", rounding(format)),
            ("pack", if cx.wgsl.packed_dot { "pack4xI8(q)" } else { PACK }),
            ("load", &load(p, n, &team)),
            ("norm", &norm(p, n, &team)),
            ("quantise", &quantise(p, n, &team, format)),
            ("sum", if sums { SUM } else { "" }),
            ("body", &body(p, &team, rows, streams)),
            ("result", &result(p)?),
        ],
    );
    Ok(Launch { wgsl, entry: "matmul_rows", words, groups })
}

const SUMS_OF: &str = "vec2i(vec2u(x_sums[share] << 16u, x_sums[share])) >> vec2u(16u)";

/// The sums of every 16 quants: only `q2_k` wants them, so nothing keeps them.
const HALVES_OF: &str = "vec4i(dots(xs[share], vec4u(0x01010101u)), dots(xs[SHARES + share], vec4u(0x01010101u)),
        dots(xs[2u * SHARES + share], vec4u(0x01010101u)), dots(xs[3u * SHARES + share], vec4u(0x01010101u)))";

/// The sums of every 32 quants, two in a word.
const SUM: &str = "for (var i = thread; i < SHARES; i += THREADS) {
        let ones = vec4u(0x01010101u);
        let low = dots(xs[i], ones) + dots(xs[SHARES + i], ones);
        let high = dots(xs[2u * SHARES + i], ones) + dots(xs[3u * SHARES + i], ones);
        x_sums[i] = (u32(low) & 0xffffu) | (u32(high) << 16u);
    }
    workgroupBarrier();";

const PACK: &str = "dot(vec4u(q) & vec4u(255u), vec4u(1u, 1u << 8u, 1u << 16u, 1u << 24u))";

fn scale_of(format: BlockFormat) -> &'static str {
    match format {
        BlockFormat::Q8K => "vec2f(bitcast<f32>(x_scales[share / 4u]))",
        _ => "bitcast<vec2f>(vec2u(x_scales[2u * share], x_scales[2u * share + 1u]))",
    }
}

/// Halves to even in blocks of 256, away from zero in those of 32.
fn rounding(format: BlockFormat) -> &'static str {
    match format {
        BlockFormat::Q8K => "round(v * inverse)",
        _ => "sign(v) * floor(abs(v * inverse) + 0.5)",
    }
}

/// Floats that threads exchange: a shuffled group's, twice, or without subgroups a lane's sums.
fn scratch(team: &Team, sums: u64) -> u64 {
    let groups = team.threads / team.shuffled;
    if team.shuffled > 1 { 2 * groups } else { groups * sums.max(2) }
}

/// `n` times what a thread does with its pieces; `{n}` is the number.
fn each(n: u64, template: &str) -> String {
    let lines = (0..n).map(|i| template.replace("{n}", &i.to_string()));
    lines.collect::<Vec<_>>().join("\n    ")
}

/// Guards for the last threads where pieces are no whole number for each.
fn guarded(p: &Parts, n: u64, team: &Team, text: &str) -> String {
    if p.k / PIECE == n * team.threads {
        text.into()
    } else {
        format!("if p{{n}} < PIECES {{ {text} }}")
    }
}

fn load(p: &Parts, n: u64, team: &Team) -> String {
    let read = "qa{n} = quad(at{n}); qb{n} = quad(at{n} + 1u); qc{n} = quad(at{n} + 2u); qd{n} = quad(at{n} + 3u);";
    let line = format!(
        "let p{{n}} = thread + {{n}}u * THREADS;\n    let at{{n}} = step.x / 4u + p{{n}} * 4u;\n    \
         var qa{{n}} = vec4f(); var qb{{n}} = vec4f(); var qc{{n}} = vec4f(); var qd{{n}} = vec4f();\n    {}",
        guarded(p, n, team, read)
    );
    each(n, &line)
}

fn norm(p: &Parts, n: u64, team: &Team) -> String {
    let Some((place, _)) = &p.norm else { return String::new() };
    let squares = each(
        n,
        "squares += dot(qa{n}, qa{n}) + dot(qb{n}, qb{n}) + dot(qc{n}, qc{n}) + dot(qd{n}, qd{n});",
    );
    let add = team.shuffles(team.shuffled, "squares", &|a, b| format!("{a} + {b}"));
    let var = &place.var;
    let part =
        |v: &str, i: u64| format!("{v}{{n}} *= scale * bitcast<vec4f>({var}[w{{n}} + {i}u]);");
    let parts: Vec<String> =
        ["qa", "qb", "qc", "qd"].iter().zip(0..).map(|(v, i)| part(v, i)).collect();
    let scaled = format!(
        "let w{{n}} = step.norm / 4u + p{{n}} * 4u;\n    {}",
        guarded(p, n, team, &parts.join(" "))
    );
    let shuffled = team.shuffled;
    format!(
        "var squares = 0.0;\n    {squares}\n    {add}if thread % {shuffled}u == 0u {{ scratch[thread / {shuffled}u] = squares; }}\n    \
         workgroupBarrier();\n    var total = 0.0;\n    \
         for (var i = 0u; i < THREADS / {shuffled}u; i++) {{ total += scratch[i]; }}\n    \
         let scale = inverseSqrt(total / f32(K) + step.eps);\n    {}",
        each(n, &scaled)
    )
}

/// The largest magnitude of each block, its scale, and the blocks' bytes.
fn quantise(p: &Parts, n: u64, team: &Team, format: BlockFormat) -> String {
    let span = format.elements() as u64 / PIECE;
    let most = team.shuffles(span, "m{n}", &|a, b| format!("max({a}, {b})"));
    let groups = team.threads / team.shuffled;
    let exchange = |i: u64| {
        if span <= team.shuffled {
            return String::new();
        }
        // What the norm or the round before left is still read: the two halves take turns.
        let half = (i + 1) % 2 * groups;
        let (shuffled, per) = (team.shuffled, span / team.shuffled);
        format!(
            "if thread % {shuffled}u == 0u {{ scratch[{half}u + thread / {shuffled}u] = m{i}; }}\n    \
             workgroupBarrier();\n    \
             for (var i = 0u; i < {per}u; i++) {{\n        \
             m{i} = max(m{i}, scratch[{half}u + thread / {span}u * {per}u + i]);\n    }}\n    "
        )
    };
    let (inverse, scale) = match format {
        BlockFormat::Q8K => {
            ("select(0.0, 127.0 / m{n}, m{n} != 0.0)", "bitcast<u32>(m{n} / 127.0)")
        }
        _ => (
            "select(0.0, 1.0 / (m{n} / 127.0), m{n} != 0.0)",
            "bitcast<u32>(unpack2x16float(pack2x16float(vec2f(m{n} / 127.0, 0.0))).x)",
        ),
    };
    let keep = format!(
        "xs[place(p{{n}})] = piece(qa{{n}}, qb{{n}}, qc{{n}}, qd{{n}}, {inverse}); \
         if p{{n}} % {span}u == 0u {{ x_scales[p{{n}} / {span}u] = {scale}; }}"
    );
    let keep = guarded(p, n, team, &keep);
    let lines = (0..n).map(|i| {
        let text = format!(
            "var m{{n}} = largest(qa{{n}}, qb{{n}}, qc{{n}}, qd{{n}});\n    {most}{}{keep}",
            exchange(i)
        );
        text.replace("{n}", &i.to_string())
    });
    lines.collect::<Vec<_>>().join("\n    ")
}

/// The products of a team's rows, and their sums in `results`.
fn body(p: &Parts, team: &Team, rows: u64, streams: u64) -> String {
    let sums = rows * streams;
    let declare: String = (0..sums).map(|i| format!("var y{i} = 0.0;\n        ")).collect();
    // Lanes that shuffle take as many turns each: what some of them have too many counts nothing. WGSL has lanes
    // meet again behind a loop; drivers may be wrong there.
    let masked = team.shuffled > 1 && !(p.k / SHARE).is_multiple_of(team.lanes);
    let line = |i: u64, segment: &str, reader: &str| {
        let r = i / streams;
        let dot = format!(
            "dot_{reader}(step.seg[{segment}].weight + min(row0 + {r}u, last) * step.seg[{segment}].row_bytes, c, x)"
        );
        if masked {
            format!("y{i} += select(0.0, {dot}, inside);")
        } else {
            format!("y{i} += {dot};")
        }
    };
    let around = |lines: String| {
        let head = if masked {
            "for (var start = 0u; start < SHARES; start += LANES) {
            let inside = start + lane < SHARES;
            let c = min(start + lane, SHARES - 1u);"
        } else {
            "for (var c = lane; c < SHARES; c += LANES) {"
        };
        format!("{head}\n            let x = load_x(c);\n            {lines}\n        }}")
    };
    let products = if p.glu {
        let readers = [&p.segments[0].reader, &p.segments[1].reader];
        let lines = (0..sums).map(|i| line(i, &format!("{}u", i % 2), readers[i as usize % 2]));
        around(lines.collect::<Vec<_>>().join("\n            "))
    } else {
        p.switch("s", |kind| {
            let lines = (0..sums).map(|i| line(i, "s", &kind.reader));
            around(lines.collect::<Vec<_>>().join("\n            "))
        })
    };
    let gather = if team.shuffled > 1 {
        let add = |i: u64| {
            let add = team.shuffles(team.lanes, &format!("y{i}"), &|a, b| format!("{a} + {b}"));
            format!("{add}if lane == 0u {{ results[team * {sums}u + {i}u] = y{i}; }}\n        ")
        };
        (0..sums).map(add).collect::<String>()
    } else {
        let put: String = (0..sums)
            .map(|i| format!("scratch[thread * {sums}u + {i}u] = y{i};\n        "))
            .collect();
        format!(
            "{put}workgroupBarrier();\n        \
             for (var i = thread; i < TEAMS * {sums}u; i += THREADS) {{\n            var y = 0.0;\n            \
             for (var l = 0u; l < LANES; l++) {{ y += scratch[(i / {sums}u * LANES + l) * {sums}u + i % {sums}u]; }}\n            \
             results[i] = y;\n        }}"
        )
    };
    format!("{declare}{products}\n        {gather}")
}

/// Four rows of the result.
fn result(p: &Parts) -> Result<String> {
    let y = p.y_var()?;
    let four = |f: &dyn Fn(usize) -> String| (0..4).map(f).collect::<Vec<_>>().join(", ");
    let value = if p.glu {
        let one = |j: usize| {
            format!(
                "map(results[at + {}u] + bias_of(0u, row + {j}u)) * (results[at + {}u] + bias_of(1u, row + {j}u))",
                2 * j,
                2 * j + 1
            )
        };
        format!("let at = thread * 8u;\n            let y = vec4f({});", four(&one))
    } else {
        let one = |j: usize| format!("map(results[at + {j}u] + bias_of(s, row + {j}u))");
        let add = match &p.residual {
            Some(r) => format!(" + bitcast<vec4f>({}[(step.residual + row) / 4u])", r.var),
            None => String::new(),
        };
        format!("let at = thread * 4u;\n            let y = vec4f({}){add};", four(&one))
    };
    let s = if p.glu { "0u" } else { "s" };
    Ok(format!("{value}\n            {y}[(step.seg[{s}].y + row) / 4u] = bitcast<vec4u>(y);"))
}

impl Parts {
    /// `fn dot_<reader>(row, share, x) -> f32` for every reader of the step.
    fn shares(&self) -> Result<String> {
        let mut text = String::new();
        for s in self.readers_once() {
            let r = &s.reader;
            if let Some(share) = formats::share(s.dtype) {
                text += &fill(share.text, &[("b", &s.weight.var)]);
                continue;
            }
            if !self.readers.text.contains(&format!("fn unpack_{r}(")) {
                return Err(Error::internal("int8 activations meet an unpacked weight"));
            }
            let half = |q: &str, x: [&str; 3]| {
                let [low, high, n] = x;
                let offset = match formats::offset(s.dtype) {
                    Offset::None => String::new(),
                    Offset::Chunk => format!(" + {q}.offset.x * f32(x.sums.{n})"),
                    Offset::Half => {
                        let halves = if n == "x" { "xy" } else { "zw" };
                        format!(" + dot({q}.offset, vec2f(x.halves.{halves}))")
                    }
                };
                format!(
                    "x.scale.{n} * ({q}.scale.x * f32(dots({q}.low, x.{low})) + {q}.scale.y * f32(dots({q}.high, x.{high})){offset})"
                )
            };
            text += &format!(
                "fn dot_{r}(row: u32, share: u32, x: X) -> f32 {{\n    \
                 let p = unpack_{r}(row, 2u * share);\n    let q = unpack_{r}(row, 2u * share + 1u);\n    \
                 return {}\n        + {};\n}}\n",
                half("p", ["a", "b", "x"]),
                half("q", ["c", "d", "y"])
            );
        }
        Ok(text)
    }
}
