//! A row of x that becomes int8 blocks.

use super::super::activations;
use super::{Context, Form, Parts, Team, WORKGROUP_WORDS};
use crate::kernels::emit::fill;
use crate::kernels::formats::{self, Offset};
use rlx_core::types::BlockFormat;

/// Elements that one thread quantises.
const PIECE: u64 = 16;

/// Floats that a team exchanges while it makes blocks.
fn exchanged(team: &Team) -> u64 {
    2 * team.threads / team.shuffled
}

/// Words of the workgroup's memory for a row of `k` elements and a team that has `results` sums, without the sums of
/// the blocks' quants.
pub(super) fn words(k: u64, format: BlockFormat, team: &Team, results: u64) -> u64 {
    let scratch = exchanged(team).max(super::scratch(team, results));
    k / 4 + scales(k, format) + scratch + team.threads / team.lanes * results
}

/// The form for a team that has `results` sums.
pub(super) fn form(
    p: &Parts,
    format: BlockFormat,
    team: &Team,
    results: u64,
    cx: &Context<'_>,
) -> Form {
    let any = |offset: Offset| p.segments.iter().any(|s| formats::offset(s.dtype) == offset);
    let (sums, halves) = (any(Offset::Chunk), any(Offset::Half));
    let n = (p.k / PIECE).div_ceil(team.threads);
    let exchanged = exchanged(team);
    // A long row leaves no room for its sums, which are then made where they are used.
    let kept = sums && words(p.k, format, team, results) + p.k / 64 <= WORKGROUP_WORDS;
    let functions = fill(
        wgsl!("int8.wgsl"),
        &[
            ("dot4", activations::dot4(cx.wgsl.packed_dot)),
            ("scale_of", scale_of(format)),
            ("sums_of", sums_of(sums, kept)),
            ("halves_of", if halves { HALVES_OF } else { "vec4i()" }),
            ("round", rounding(format)),
            ("pack", if cx.wgsl.packed_dot { "pack4xI8(q)" } else { PACK }),
            ("load", &load(p, n, team)),
            ("norm", &norm(p, n, team)),
            ("quantise", &quantise(p, n, team, format)),
            ("sum", if kept { SUM } else { "" }),
        ],
    );
    let memory = format!(
        "const PIECES = K / 16u;\nvar<workgroup> xs: array<vec4u, PIECES>;\n\
         var<workgroup> x_scales: array<u32, {}>;\n{}",
        scales(p.k, format),
        if kept { "var<workgroup> x_sums: array<u32, SHARES>;" } else { "" }
    );
    Form { memory, functions, span: p.k / super::SHARE, scratch: exchanged, scaled: false }
}

/// Sums of two times 32 quants: those that [`SUM`] kept, or made of the quants.
fn sums_of(used: bool, kept: bool) -> &'static str {
    match (used, kept) {
        (false, _) => "vec2i()",
        (true, true) => "vec2i(vec2u(x_sums[share] << 16u, x_sums[share])) >> vec2u(16u)",
        (true, false) => {
            "vec2i(dots(xs[share], vec4u(0x01010101u)) + dots(xs[SHARES + share], vec4u(0x01010101u)),
        dots(xs[2u * SHARES + share], vec4u(0x01010101u)) + dots(xs[3u * SHARES + share], vec4u(0x01010101u)))"
        }
    }
}

/// Words of the blocks' scales: an f32 for 256 elements, or an f16 for 32.
fn scales(k: u64, format: BlockFormat) -> u64 {
    match format {
        BlockFormat::Q8K => k / 256,
        _ => k / 64,
    }
}

/// The sums of every 16 quants: only `q2_k` wants them, so nothing keeps them.
const HALVES_OF: &str = "vec4i(dots(xs[share], vec4u(0x01010101u)), dots(xs[SHARES + share], vec4u(0x01010101u)),
        dots(xs[2u * SHARES + share], vec4u(0x01010101u)), dots(xs[3u * SHARES + share], vec4u(0x01010101u)))";

/// The sums of every 32 quants, two in a word.
const SUM: &str = "workgroupBarrier();
    for (var i = thread; i < SHARES; i += THREADS) {
        let ones = vec4u(0x01010101u);
        let low = dots(xs[i], ones) + dots(xs[SHARES + i], ones);
        let high = dots(xs[2u * SHARES + i], ones) + dots(xs[3u * SHARES + i], ones);
        x_sums[i] = (u32(low) & 0xffffu) | (u32(high) << 16u);
    }";

const PACK: &str = "dot(vec4u(q) & vec4u(255u), vec4u(1u, 1u << 8u, 1u << 16u, 1u << 24u))";

fn scale_of(format: BlockFormat) -> &'static str {
    match format {
        BlockFormat::Q8K => "vec2f(bitcast<f32>(x_scales[share / 4u]))",
        _ => "unpack2x16float(x_scales[share])",
    }
}

/// Halves to even in blocks of 256, away from zero in those of 32.
fn rounding(format: BlockFormat) -> &'static str {
    match format {
        BlockFormat::Q8K => "round(v * inverse)",
        _ => "sign(v) * floor(abs(v * inverse) + 0.5)",
    }
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
    // Blocks of 32 have f16 scales, two in a word: one thread writes its own block's and the next one's.
    let (inverse, first, scale) = match format {
        BlockFormat::Q8K => (
            "select(0.0, 127.0 / m{n}, m{n} != 0.0)",
            "p{n} % 16u == 0u",
            "x_scales[p{n} / 16u] = bitcast<u32>(m{n} / 127.0);",
        ),
        _ => (
            "select(0.0, 1.0 / (m{n} / 127.0), m{n} != 0.0)",
            "p{n} % 4u == 0u",
            "x_scales[p{n} / 4u] = pack2x16float(vec2f(m{n}, next{n}) / 127.0);",
        ),
    };
    let next = |i: u64| match (format, team.shuffled) {
        (BlockFormat::Q8K, _) => String::new(),
        (_, 1) => {
            let at = format!("scratch[{}u + thread / 4u * 4u", (i + 1) % 2 * groups);
            format!("let next{i} = max({at} + 2u], {at} + 3u]);\n    ")
        }
        _ => format!("let next{i} = subgroupShuffleXor(m{i}, 2u);\n    "),
    };
    let keep = format!(
        "xs[place(p{{n}})] = piece(qa{{n}}, qb{{n}}, qc{{n}}, qd{{n}}, {inverse}); \
         if {first} {{ {scale} }}"
    );
    let keep = guarded(p, n, team, &keep);
    let lines = (0..n).map(|i| {
        let text = format!(
            "var m{{n}} = largest(qa{{n}}, qb{{n}}, qc{{n}}, qd{{n}});\n    {most}{}{}{keep}",
            exchange(i),
            next(i)
        );
        text.replace("{n}", &i.to_string())
    });
    lines.collect::<Vec<_>>().join("\n    ")
}
