//! A few rows of x in int8 blocks: too many to read the weights anew for each, too few for tiles.

use super::{Context, Emit, Launch, Parts};
use crate::kernels::emit::fill;
use crate::kernels::formats::{self, Offset};
use rlx_core::Result;

/// Rows of x that a workgroup has.
const ROWS: u64 = 8;
/// Weight rows that a team has, of both weights together with `glu`.
const STREAMS: u64 = 4;
/// Teams of a workgroup.
const TEAMS: u64 = 2;
/// Most rows of x for which this is faster than tiles.
pub(super) const MOST: u64 = 64;
/// Lanes of subgroups from which on a device is taken for one that hides memory's latency behind many
/// threads. Software GPUs, of 4 or 8 lanes, do tiles twice as fast.
const LANES: u32 = 16;

/// Whether a product of so many rows of x is made here.
pub(super) fn fits(p: &Parts, cx: &Context<'_>) -> bool {
    p.m <= MOST && cx.wgsl.subgroup.is_some_and(|lanes| lanes >= LANES)
}

pub(super) fn launch(p: &Parts, cx: &Context<'_>, emit: &mut Emit<'_>) -> Result<Launch> {
    let rows = if p.glu { STREAMS / 2 } else { STREAMS };
    let columns = TEAMS * rows;
    let (words, groups) = p.words(columns)?;
    let (rows_len, skip) = cx.skip_rows(p.m, "m0", emit);
    let unpack = p.switch("s", |kind| format!("return unpack_{}(at, chunk);", kind.reader));
    let lines =
        |f: &dyn Fn(u64) -> String, n: u64| (0..n).map(f).collect::<Vec<_>>().join("\n    ");
    let declare = lines(&|i| format!("var y{i} = 0.0;"), STREAMS * ROWS);
    let weight = |r: u64| match p.glu {
        true => format!("let w{r} = unpack({}u, n0 + {}u, c);", r % 2, r / 2),
        false => format!("let w{r} = unpack(s, n0 + {r}u, c);"),
    };
    let row = |j: u64| {
        let add = |r: u64| format!("y{} += product(w{r}, x{j});", ROWS * r + j);
        let add: Vec<String> = (0..STREAMS).map(add).collect();
        format!("    let x{j} = x_at(min(m0 + {j}u, step.m - 1u), c);\n        {}", add.join(" "))
    };
    let products = format!(
        "{}\n    {}",
        lines(&|r| format!("    {}", weight(r)), STREAMS).trim_start(),
        lines(&row, ROWS)
    );
    let wgsl = fill(
        wgsl!("few.wgsl"),
        &[
            ("step", wgsl!("step.wgsl")),
            ("bindings", &emit.bindings()),
            ("common", formats::COMMON),
            ("readers", &p.readers.text),
            ("activations", &p.int8_x(cx.wgsl.packed_dot)?),
            ("finish", &p.finish()),
            ("rows_len", rows_len),
            ("product", &product(p)),
            ("unpack", &unpack),
            ("skip", &skip),
            ("columns", &columns.to_string()),
            ("rows", &rows.to_string()),
            ("declare", &declare),
            ("products", &products),
            ("keep", &lines(&|i| format!("sums[{i}u * 65u + thread] = y{i};"), STREAMS * ROWS)),
            ("store", &store(p)?),
        ],
    );
    let groups = groups * p.m.div_ceil(ROWS);
    Ok(Launch { wgsl, entry: "matmul_few", words, groups })
}

/// 32 weights times 32 elements of x: one sum where both halves have one scale.
fn product(p: &Parts) -> String {
    let mut text = if p.segments.iter().any(|s| formats::has_half_scales(s.dtype)) {
        String::from("w.scale.x * f32(low_dots(w.low, x)) + w.scale.y * f32(high_dots(w.high, x))")
    } else {
        String::from("w.scale.x * f32(low_dots(w.low, x) + high_dots(w.high, x))")
    };
    let any = |offset: Offset| p.segments.iter().any(|s| formats::offset(s.dtype) == offset);
    if any(Offset::Half) || any(Offset::Chunk) {
        text += " + dot(w.offset, x.sums)";
    }
    format!("x.scale * ({text})")
}

/// Results, one a thread.
fn store(p: &Parts) -> Result<String> {
    let y = p.y_var()?;
    let rows = if p.glu { STREAMS / 2 } else { STREAMS };
    let per_team = rows * ROWS;
    let s = if p.glu { "0u" } else { "s" };
    let value = if p.glu {
        "let gate = map(total(row * 16u + thread % 8u, team) + bias_of(0u, n));\n    \
         let value = gate * (total(row * 16u + 8u + thread % 8u, team) + bias_of(1u, n));"
    } else {
        "let sum = total(row * 8u + thread % 8u, team) + bias_of(s, n);\n    \
         let value = map(sum) + residual_at(at);"
    };
    Ok(format!(
        "if thread >= {}u {{ return; }}\n    \
         let team = thread / {per_team}u;\n    let row = thread / 8u % {rows}u;\n    \
         let m = m0 + thread % 8u;\n    \
         let n = (column - step.seg[s].first) * {}u + team * {rows}u + row;\n    \
         if m >= step.m || n >= step.seg[{s}].rows {{ return; }}\n    \
         let at = m * step.seg[{s}].stride + n;\n    {value}\n    \
         {y}[step.seg[{s}].y + at] = bitcast<u32>(value);",
        TEAMS * per_team,
        TEAMS * rows
    ))
}
