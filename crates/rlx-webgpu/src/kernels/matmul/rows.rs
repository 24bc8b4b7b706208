//! One row of x by weights whose rows are whole shares: the kernel that decoding waits for. x is kept in the
//! workgroup's memory, as it is or as blocks of integers.

mod float;
mod int8;

use super::{Context, Emit, Launch, Parts, Segment};
use crate::kernels::emit::fill;
use crate::kernels::formats::{self, Offset};
use crate::tuning::{Class, Shape, WIDE};
use rlx_core::types::BlockFormat;
use rlx_core::{Error, Result};

/// Elements that a lane multiplies at a time.
pub(super) const SHARE: u64 = 64;
/// Lanes of a team where there are no subgroups.
const LANES: u64 = 32;
/// Fewest threads of a workgroup.
const FEWEST: u64 = 32;
/// Fewest threads where a row is short.
const MIN_THREADS: u64 = 128;
/// Workgroups below which a device with wide subgroups has idle processors: teams then take a row at a time.
const FEW_GROUPS: u64 = 256;
/// Workgroups beyond which each takes more rows: every one brings x anew.
const GROUPS: u64 = 1024;

/// Words of memory that every WebGPU workgroup has.
const WORKGROUP_WORDS: u64 = 4096;

/// How x is kept and multiplied.
struct Form {
    /// The workgroup's memory for it.
    memory: String,
    /// `Sum`, `X`, `load_x`, the products `dots` and `dots_of_nibbles` of 16 elements, and `keep_x`.
    functions: String,
    /// Shares that are kept at a time.
    span: u64,
    /// Floats that `keep_x` exchanges.
    scratch: u64,
    /// Whether results are yet to be multiplied by the norm's scale, `scale_of_norm()`.
    scaled: bool,
}

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

/// Floats that threads exchange at the end, where there are no subgroups.
fn scratch(team: &Team, sums: u64) -> u64 {
    if team.shuffled > 1 { 0 } else { team.threads * sums }
}

/// The team of a shape and its rows: with fewer threads where a row's blocks leave their sums no room.
fn fitting(
    shape: Shape,
    streams: u64,
    p: &Parts,
    quantize: Option<BlockFormat>,
    cx: &Context<'_>,
) -> (Team, u64) {
    let mut threads = shape.threads;
    let most = p.launched().iter().map(|s| s.rows).sum::<u64>();
    // Threads beyond the pieces of a row wait while the others quantise it.
    let enough = if quantize.is_some() { (p.k / int8::PIECE).max(MIN_THREADS) } else { u64::MAX };
    while threads / 2 >= enough {
        threads /= 2;
    }
    loop {
        let team = Team::of(threads, cx);
        let teams = threads / team.lanes;
        let few = most < FEW_GROUPS * teams * shape.rows;
        let rows = if few && quantize.is_some() && team.shuffled >= u64::from(WIDE) {
            1
        } else {
            shape.rows
        };
        // Teams of a workgroup write quads of rows.
        let rows = rows * 4u64.div_ceil(teams * rows);
        let sums = rows * streams;
        let words = match quantize {
            Some(format) => int8::words(p.k, format, p.norm.is_some(), &team, sums),
            // Floats come in spans that fit.
            None => 0,
        };
        if words <= WORKGROUP_WORDS || threads / 2 < team.lanes.max(FEWEST) {
            return (team, rows);
        }
        threads /= 2;
    }
}

/// The launch; blocks of integers of x are made where `quantize` says which.
pub(super) fn launch(
    p: &Parts,
    quantize: Option<BlockFormat>,
    cx: &Context<'_>,
    emit: &mut Emit<'_>,
) -> Result<Launch> {
    let most = p.launched().iter().map(|s| s.rows).sum::<u64>();
    let class = Class::of(most, p.k, p.glu);
    let shape = match quantize {
        Some(_) => cx.tuning.shape(class),
        None => cx.tuning.shape_of_floats(class, cx.wgsl),
    };
    let streams = if p.glu { 2 } else { 1 };
    let (team, rows) = fitting(shape, streams, p, quantize, cx);
    let teams = team.threads / team.lanes;
    let sums = rows * streams;
    let repeat = most.div_ceil(teams * rows).div_ceil(GROUPS).max(1);
    let (mut words, groups) = p.words(teams * rows * repeat)?;
    words[super::REPEAT] = super::word(repeat)?;
    let form = match quantize {
        Some(format) => int8::form(p, format, &team, sums, cx),
        None => float::form(p, &team, sums),
    };
    let exchanged = form.scratch.max(scratch(&team, sums));
    let text = |n: u64| n.to_string();
    let enable = team.shuffled > 1 && cx.wgsl.enable_subgroups;
    let wgsl = fill(
        wgsl!("rows.wgsl"),
        &[
            ("enable", if enable { "enable subgroups;" } else { "" }),
            ("step", wgsl!("step.wgsl")),
            ("bindings", &emit.bindings()),
            ("common", formats::COMMON),
            ("readers", &p.readers.text),
            ("memory", &form.memory),
            (
                "scratch",
                &match exchanged {
                    0 => String::new(),
                    n => format!("var<workgroup> scratch: array<f32, {n}>;"),
                },
            ),
            ("form", &form.functions),
            ("shares", &p.shares(quantize.is_some())?),
            ("epilogue", &p.epilogue()),
            ("k", &text(p.k)),
            ("threads", &text(team.threads)),
            ("lanes", &text(team.lanes)),
            ("teams", &text(teams)),
            ("rows", &text(rows)),
            ("streams", &text(streams)),
            ("span", &text(form.span)),
            ("x", &p.x.var),
            ("body", &body(p, &team, rows, streams, &form)),
            ("result", &result(p, form.scaled)?),
        ],
    );
    #[cfg(not(target_family = "wasm"))]
    if quantize.is_none() {
        emit.form = Some(p.form("matmul_rows", &one_row(teams * rows))?);
    }
    Ok(Launch { wgsl, entry: "matmul_rows", words, groups })
}

/// What a form of one row says besides: rows of a weight that a workgroup has at a time.
#[cfg(not(target_family = "wasm"))]
pub(super) fn one_row(columns: u64) -> [(&'static str, String); 2] {
    [("control", String::new()), ("columns", columns.to_string())]
}

/// The products of a team's rows, and their sums in `results`.
fn body(p: &Parts, team: &Team, rows: u64, streams: u64, form: &Form) -> String {
    let sums = rows * streams;
    let declare: String = (0..sums).map(|i| format!("var y{i} = 0.0;\n        ")).collect();
    let products = if p.glu {
        let readers = [&p.segments[0], &p.segments[1]];
        let of = |i: u64| (format!("{}u", i % 2), readers[i as usize % 2]);
        multiply(p, team, sums, streams, form, &of)
    } else {
        p.switch("s", |kind| multiply(p, team, sums, streams, form, &|_| ("s".into(), kind)))
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

/// The loops over spans and over a lane's shares of one. All lanes make as many turns, because sums are shuffled
/// after them; those without a share left read the last one and do not add it.
fn multiply<'a>(
    p: &Parts,
    team: &Team,
    sums: u64,
    streams: u64,
    form: &Form,
    segment: &dyn Fn(u64) -> (String, &'a Segment),
) -> String {
    let shares = p.k / SHARE;
    let spans = shares.div_ceil(form.span);
    let turns = form.span.div_ceil(team.lanes);
    let each =
        |line: &dyn Fn(u64) -> String, gap: &str| (0..sums).map(line).collect::<Vec<_>>().join(gap);
    let at = |i: u64| {
        let (s, r) = (segment(i).0, i / streams);
        format!(
            "let at{i} = step.seg[{s}].weight + min(row0 + {r}u, last) * step.seg[{s}].row_bytes;"
        )
    };
    let idle = !shares.is_multiple_of(form.span) || !form.span.is_multiple_of(team.lanes);
    let share = if idle { "min(c, SHARES - 1u)" } else { "c" };
    let take = |i: u64| format!("take_{}(at{i}, {share})", segment(i).1.reader);
    let add = |i: u64| format!("y{i} += dot_{}(w{i}, x);", segment(i).1.reader);
    let (end, piece) = match (spans, idle) {
        (1, _) => ("SHARES", "c"),
        (_, true) => ("min(span + SPAN, SHARES)", "c - span"),
        (_, false) => ("(span + SPAN)", "c - span"),
    };
    let products =
        format!("let x = load_x({piece});\n            {}", each(&add, "\n            "));
    let products = match idle {
        true => format!("if c < {end} {{\n            {products}\n            }}"),
        false => products,
    };
    let first = if spans == 1 { "0u" } else { "span" };
    let keep = match spans {
        1 => "if again == 0u { keep_x(thread, 0u); workgroupBarrier(); }",
        _ => {
            "workgroupBarrier();\n            keep_x(thread, span);\n            workgroupBarrier();"
        }
    };
    let more = match turns {
        1 => String::new(),
        _ => format!(
            "\n            first_share += LANES;\n            if first_share >= {end} {{ break; }}\n            \
             c += LANES;\n            {}",
            each(&|i| format!("w{i} = {};", take(i)), "\n            ")
        ),
    };
    let mut text = each(&|i| format!("var w{i} = {};", take(i)), "\n            ");
    text = format!("var c = {first} + lane;\n            {text}\n            {keep}\n            ");
    text += &match turns {
        1 => products,
        _ => format!(
            "var first_share = {first};\n            loop {{\n            {products}{more}\n            }}"
        ),
    };
    if spans > 1 {
        text = format!(
            "for (var span = 0u; span < SHARES; span += SPAN) {{\n            {text}\n        }}"
        );
    }
    format!("{}\n            {text}", each(&at, "\n        "))
}

/// Four rows of the result.
fn result(p: &Parts, scaled: bool) -> Result<String> {
    let y = p.y_var()?;
    let four = |f: &dyn Fn(usize) -> String| (0..4).map(f).collect::<Vec<_>>().join(", ");
    let times = if scaled { "scale * " } else { "" };
    let scale = if scaled { "let scale = scale_of_norm();\n            " } else { "" };
    let value = if p.glu {
        let one = |j: usize| {
            format!(
                "map({times}results[at + {}u] + bias_of(0u, row + {j}u)) * ({times}results[at + {}u] + bias_of(1u, row + {j}u))",
                2 * j,
                2 * j + 1
            )
        };
        format!("let at = thread * 8u;\n            let y = vec4f({});", four(&one))
    } else {
        let one = |j: usize| format!("map({times}results[at + {j}u] + bias_of(s, row + {j}u))");
        let add = match &p.residual {
            Some(r) => format!(" + bitcast<vec4f>({}[(step.residual + row) / 4u])", r.var),
            None => String::new(),
        };
        format!("let at = thread * 4u;\n            let y = vec4f({}){add};", four(&one))
    };
    let s = if p.glu { "0u" } else { "s" };
    Ok(format!(
        "{scale}{value}\n            {y}[(step.seg[{s}].y + row) / 4u] = bitcast<vec4u>(y);"
    ))
}

impl Parts {
    /// `fn take_<reader>(row, share)` of 64 weights, and `fn dot_<reader>` of them and a share of x, for every
    /// reader of the step.
    fn shares(&self, int8: bool) -> Result<String> {
        let (mut text, k) = (String::new(), self.k);
        for s in self.readers_once() {
            let r = &s.reader;
            if let Some(share) = formats::share(s.dtype, k) {
                text += &share.text(&s.weight.var);
            } else if self.readers.text.contains(&format!("fn unpack_{r}(")) {
                text += &of_quants(s);
            } else if !int8 {
                text += &fill(wgsl!("rows/decoded.wgsl"), &[("reader", r)]);
            } else {
                return Err(Error::internal("int8 activations meet an unpacked weight"));
            }
        }
        Ok(text)
    }
}

/// Those of a packed format without functions of its own.
fn of_quants(s: &Segment) -> String {
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
    let r = &s.reader;
    format!(
        "fn take_{r}(row: u32, share: u32) -> Pair {{\n    \
         return Pair(unpack_{r}(row, 2u * share), unpack_{r}(row, 2u * share + 1u));\n}}\n\
         fn dot_{r}(w: Pair, x: X) -> f32 {{\n    return {}\n        + {};\n}}\n",
        half("w.p", ["a", "b", "x"]),
        half("w.q", ["c", "d", "y"])
    )
}
