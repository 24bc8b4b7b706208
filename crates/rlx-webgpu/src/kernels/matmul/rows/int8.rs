//! A row of x that becomes blocks of integers of one byte, or of two. Of int16 the high bytes are in one table and the
//! low bytes in another, and a weight is multiplied with both.

use super::super::activations;
use super::{Context, Form, Parts, SHARE, Team, WORKGROUP_WORDS};
use crate::kernels::emit::fill;
use crate::kernels::formats::{self, Offset};
use rlx_core::types::BlockFormat;

/// Elements that one thread quantises.
pub(super) const PIECE: u64 = 16;
/// Words that keep the sums of a share's two blocks, of each part.
const SUMS: u64 = 1;

/// Floats that a team exchanges while it makes blocks.
fn exchanged(team: &Team) -> u64 {
    2 * team.threads / team.shuffled
}

/// Parts of an integer of these blocks.
fn parts(format: BlockFormat) -> u64 {
    if format == BlockFormat::Q15_0 { 2 } else { 1 }
}

/// Words of the quants of these shares and of their blocks' scales.
fn words_of(shares: u64, format: BlockFormat) -> u64 {
    shares * SHARE / 4 * parts(format) + scales(shares * SHARE, format)
}

/// Whether the norm's scale meets the results. Blocks of int16 are those of any multiple of x; the scales of int8 are
/// f16, which want numbers of ordinary size.
fn scaled(format: BlockFormat, normed: bool) -> bool {
    normed && parts(format) == 2
}

/// Words of the workgroup's memory beside x.
fn others(team: &Team, results: u64, scaled: bool) -> u64 {
    let squares = if scaled { team.threads / team.shuffled } else { 0 };
    let exchanged = exchanged(team).max(super::scratch(team, results));
    exchanged + squares + team.threads / team.lanes * results
}

/// Words of the workgroup's memory that a row of `k` elements needs at least, for a team that has `results` sums. Rows
/// of int16 without a norm may come in spans, so one span is enough. The sums of the blocks' quants are not counted.
pub(super) fn words(k: u64, format: BlockFormat, normed: bool, team: &Team, results: u64) -> u64 {
    // A norm wants all of the row before any of it is quantised.
    let whole = normed || parts(format) == 1;
    let shares = if whole { k / SHARE } else { (k / SHARE).min(team.lanes) };
    words_of(shares, format) + others(team, results, scaled(format, normed))
}

/// Shares that are kept at a time: all, or as many whole turns of a team as have room.
fn span(p: &Parts, format: BlockFormat, team: &Team, results: u64) -> u64 {
    let shares = p.k / SHARE;
    let room =
        WORKGROUP_WORDS.saturating_sub(others(team, results, scaled(format, p.norm.is_some())));
    let most = room / (words_of(1, format) + SUMS * parts(format));
    if p.norm.is_some() || parts(format) == 1 || shares <= most {
        return shares;
    }
    let most = (most / team.lanes).max(1) * team.lanes;
    shares.div_ceil(shares.div_ceil(most)).next_multiple_of(team.lanes)
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
    let parts = parts(format);
    let span = span(p, format, team, results);
    let n = (span * SHARE / PIECE).div_ceil(team.threads);
    // A long row leaves no room for its sums, which are then made where they are used.
    let scaled = scaled(format, p.norm.is_some());
    let all = words_of(span, format) + span * SUMS * parts + others(team, results, scaled);
    let kept = sums && all <= WORKGROUP_WORDS;
    let (piece, load_piece, quants) = match parts {
        1 => (wgsl!("int8_piece.wgsl"), "xs[at]", wgsl!("int8_quants.wgsl")),
        _ => (wgsl!("int16_piece.wgsl"), "Piece(xs[at], x_lows[at])", wgsl!("int16_quants.wgsl")),
    };
    let quants = fill(
        quants,
        &[
            ("round", rounding(format)),
            ("pack", if cx.wgsl.packed_dot { "pack4xI8(q)" } else { PACK }),
        ],
    );
    let functions = fill(
        wgsl!("int8.wgsl"),
        &[
            ("dot4", activations::dot4(cx.wgsl.packed_dot)),
            ("piece", piece),
            ("load_piece", load_piece),
            ("quants", &quants),
            ("scale_of", scale_of(format)),
            ("sums_of", sums_of(sums, kept, parts)),
            ("halves_of", if halves { HALVES_OF } else { "vec4i()" }),
            ("load", &load(p, n, span, team)),
            ("norm", &norm(p, n, span, team, scaled)),
            ("quantise", &quantise(n, span, p.k, team, format, kept)),
            ("sum", &sum(kept && !shuffles_sums(team), parts)),
            ("scale", &if scaled { scale_of_norm(team) } else { String::new() }),
        ],
    );
    let table =
        |name: &str, of: &str, n: u64| format!("var<workgroup> {name}: array<{of}, {n}>;\n");
    let pieces = span * SHARE / PIECE;
    let memory = [
        format!("const SPAN = {span}u;\n"),
        table("xs", "vec4u", pieces),
        if parts == 2 { table("x_lows", "vec4u", pieces) } else { String::new() },
        table("x_scales", "u32", scales(span * SHARE, format)),
        match (kept, parts) {
            (false, _) => String::new(),
            (true, 1) => table("x_sums", "u32", span),
            (true, _) => table("x_sums", "vec2i", span),
        },
        if scaled {
            table("x_squares", "f32", team.threads / team.shuffled)
        } else {
            String::new()
        },
    ];
    Form { memory: memory.concat(), functions, span, scratch: exchanged(team), scaled }
}

/// Sums of two times 32 quants: those that [`sum`] kept, or made of the quants.
fn sums_of(used: bool, kept: bool, parts: u64) -> &'static str {
    match (used, kept, parts) {
        (false, ..) => "vec2i()",
        (true, true, 1) => "vec2i(vec2u(x_sums[share] << 16u, x_sums[share])) >> vec2u(16u)",
        (true, true, _) => "x_sums[share]",
        (true, false, _) => "vec2i(ones(a) + ones(b), ones(c) + ones(d))",
    }
}

/// Words of the blocks' scales: for 32 elements an f32 of int16, or an f16 of int8.
fn scales(k: u64, format: BlockFormat) -> u64 {
    match format {
        BlockFormat::Q15_0 => k / 32,
        _ => k / 64,
    }
}

/// The sums of every 16 quants: only `q2_k` wants them, so nothing keeps them.
const HALVES_OF: &str = "vec4i(ones(a), ones(b), ones(c), ones(d))";

/// Whether threads side by side add the sums of their quants while they keep them.
fn shuffles_sums(team: &Team) -> bool {
    team.shuffled >= 4
}

/// The sums of two times 32 quants, `low` and `high`, as they are kept: of int8 two in a word.
fn two_sums(parts: u64) -> &'static str {
    match parts {
        1 => "(u32(low) & 0xffffu) | (u32(high) << 16u)",
        _ => "vec2i(low, high)",
    }
}

/// Makes the sums of every 32 quants of those that are kept.
fn sum(made: bool, parts: u64) -> String {
    if !made {
        return String::new();
    }
    let keep = two_sums(parts);
    format!(
        "workgroupBarrier();
    for (var i = thread; i < SPAN; i += THREADS) {{
        let low = ones(piece_at(i)) + ones(piece_at(SPAN + i));
        let high = ones(piece_at(2u * SPAN + i)) + ones(piece_at(3u * SPAN + i));
        x_sums[i] = {keep};
    }}"
    )
}

const PACK: &str = "dot(vec4u(q) & vec4u(255u), vec4u(1u, 1u << 8u, 1u << 16u, 1u << 24u))";

fn scale_of(format: BlockFormat) -> &'static str {
    match format {
        BlockFormat::Q15_0 => {
            "bitcast<vec2f>(vec2u(x_scales[2u * share], x_scales[2u * share + 1u]))"
        }
        _ => "unpack2x16float(x_scales[share])",
    }
}

/// Halves to even in int16, away from zero in int8.
fn rounding(format: BlockFormat) -> &'static str {
    match format {
        // Beside 1.5 * 2^23 a float has no bits for fractions. What `round` and a conversion add to it are bounds.
        BlockFormat::Q15_0 => "bitcast<vec4i>(v * inverse + vec4f(12582912.0)) - vec4i(0x4b400000)",
        _ => "sign(v) * floor(abs(v * inverse) + 0.5)",
    }
}

/// `n` times what a thread does with its pieces; `{n}` is the number.
fn each(n: u64, template: &str) -> String {
    let lines = (0..n).map(|i| template.replace("{n}", &i.to_string()));
    lines.collect::<Vec<_>>().join("\n    ")
}

/// Guards for the last threads where pieces are no whole number for each.
fn guarded(n: u64, span: u64, k: u64, team: &Team, text: &str) -> String {
    let whole = span * SHARE / PIECE == n * team.threads;
    match (whole, k.is_multiple_of(span * SHARE)) {
        (true, true) => text.into(),
        (false, true) => format!("if p{{n}} < SPAN * 4u {{ {text} }}"),
        // The last span is shorter.
        (_, false) => format!("if p{{n}} < min(SPAN, SHARES - share) * 4u {{ {text} }}"),
    }
}

fn load(p: &Parts, n: u64, span: u64, team: &Team) -> String {
    let read = "qa{n} = quad(at{n}); qb{n} = quad(at{n} + 1u); qc{n} = quad(at{n} + 2u); qd{n} = quad(at{n} + 3u);";
    let line = format!(
        "let p{{n}} = thread + {{n}}u * THREADS;\n    let at{{n}} = step.x / 4u + share * 16u + p{{n}} * 4u;\n    \
         var qa{{n}} = vec4f(); var qb{{n}} = vec4f(); var qc{{n}} = vec4f(); var qd{{n}} = vec4f();\n    {}",
        guarded(n, span, p.k, team, read)
    );
    each(n, &line)
}

fn norm(p: &Parts, n: u64, span: u64, team: &Team, scaled: bool) -> String {
    let Some((place, _)) = &p.norm else { return String::new() };
    let squares = each(
        n,
        "squares += dot(qa{n}, qa{n}) + dot(qb{n}, qb{n}) + dot(qc{n}, qc{n}) + dot(qd{n}, qd{n});",
    );
    let add = team.shuffles(team.shuffled, "squares", &|a, b| format!("{a} + {b}"));
    let var = &place.var;
    let times = if scaled { "" } else { "scale * " };
    let part =
        |v: &str, i: u64| format!("{v}{{n}} *= {times}bitcast<vec4f>({var}[w{{n}} + {i}u]);");
    let parts: Vec<String> =
        ["qa", "qb", "qc", "qd"].iter().zip(0..).map(|(v, i)| part(v, i)).collect();
    let scaled_x = format!(
        "let w{{n}} = step.norm / 4u + p{{n}} * 4u;\n    {}",
        guarded(n, span, p.k, team, &parts.join(" "))
    );
    let shuffled = team.shuffled;
    if scaled {
        return format!(
            "var squares = 0.0;\n    {squares}\n    {add}\
             if thread % {shuffled}u == 0u {{ x_squares[thread / {shuffled}u] = squares; }}\n    {}",
            each(n, &scaled_x)
        );
    }
    format!(
        "var squares = 0.0;\n    {squares}\n    {add}if thread % {shuffled}u == 0u {{ scratch[thread / {shuffled}u] = squares; }}\n    \
         workgroupBarrier();\n    var total = 0.0;\n    \
         for (var i = 0u; i < THREADS / {shuffled}u; i++) {{ total += scratch[i]; }}\n    \
         let scale = inverseSqrt(total / f32(K) + step.eps);\n    {}",
        each(n, &scaled_x)
    )
}

/// The norm's scale, of the squares that [`norm`] left.
fn scale_of_norm(team: &Team) -> String {
    let groups = team.threads / team.shuffled;
    format!(
        "fn scale_of_norm() -> f32 {{\n    var total = 0.0;\n    \
         for (var i = 0u; i < {groups}u; i++) {{ total += x_squares[i]; }}\n    \
         return inverseSqrt(total / f32(K) + step.eps);\n}}"
    )
}

/// The largest magnitude of each block, its scale, the blocks' bytes, and where `kept` says so their sums.
fn quantise(n: u64, shares: u64, k: u64, team: &Team, format: BlockFormat, kept: bool) -> String {
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
    // Blocks of int8 have f16 scales, two in a word: one thread writes its own block's and the next one's.
    let (inverse, first, scale) = match format {
        // The inverse of a scale that is no normal number is infinite.
        BlockFormat::Q15_0 => (
            "select(0.0, 1.0 / (m{n} / 16319.0), m{n} / 16319.0 >= 1.17549435e-38)",
            "p{n} % 2u == 0u",
            "x_scales[p{n} / 2u] = bitcast<u32>(select(0.0, m{n} / 16319.0, m{n} / 16319.0 >= 1.17549435e-38));",
        ),
        _ => (
            "select(0.0, 1.0 / (m{n} / 127.0), m{n} != 0.0)",
            "p{n} % 4u == 0u",
            "x_scales[p{n} / 4u] = pack2x16float(vec2f(m{n}, next{n}) / 127.0);",
        ),
    };
    let next = |i: u64| match (format, team.shuffled) {
        (BlockFormat::Q15_0, _) => String::new(),
        (_, 1) => {
            let at = format!("scratch[{}u + thread / 4u * 4u", (i + 1) % 2 * groups);
            format!("let next{i} = max({at} + 2u], {at} + 3u]);\n    ")
        }
        _ => format!("let next{i} = subgroupShuffleXor(m{i}, 2u);\n    "),
    };
    let keep = format!(
        "low{{n}} = keep_piece(place(p{{n}}), qa{{n}}, qb{{n}}, qc{{n}}, qd{{n}}, {inverse}); if {first} {{ {scale} }}"
    );
    let mut keep = format!("var low{{n}} = 0;\n    {}", guarded(n, shares, k, team, &keep));
    if kept && shuffles_sums(team) {
        let sums = two_sums(parts(format)).replace("low", "low{n}").replace("high", "high{n}");
        let put = format!("if p{{n}} % 4u == 0u {{ x_sums[p{{n}} / 4u] = {sums}; }}");
        keep += &format!(
            "\n    low{{n}} += subgroupShuffleXor(low{{n}}, 1u);\n    \
             let high{{n}} = subgroupShuffleXor(low{{n}}, 2u);\n    {}",
            guarded(n, shares, k, team, &put)
        );
    }
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
