//! `attention_join`: the rows that an attention's splits make.

use super::emit::{Emit, fill};
use super::takes::{self, Taken};
use super::{Context, Launch, matrix, mismatch, word};
use rlx_core::ir::lir::{Slice, Step};
use rlx_core::ops::{AttentionJoin, AttentionSplit, Op};
use rlx_core::target::Target;
use rlx_core::types::Type;
use rlx_core::{Error, Result};

/// What `attention_split` makes: matrices of f32.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["splits", "sinks"])?;
    takes::floats_and_caches(operands)?;
    takes::matrix(operands)
}

/// Threads of a head.
const THREADS: u64 = 256;
/// Splits whose sums a thread loads at a time: of one row, and of several, whose splits are fewer.
const LOADS: u64 = 8;
const ROWS_LOADS: u64 = 4;

pub(super) fn join(step: &Step, _: &Context<'_>, emit: &mut Emit<'_>) -> Result<Option<Launch>> {
    let Op::AttentionJoin(op) = &step.op else { return Err(mismatch(step)) };
    if let Some((q, ctl)) = AttentionJoin::several(&step.operands) {
        return rows(op, [q, ctl], step, emit);
    }
    let [acc, stats, sinks @ ..] = step.operands.as_slice() else {
        return Err(Error::internal("attention_join has two operands or three"));
    };
    let (rows, columns) = matrix(acc)?;
    let (_, pairs) = matrix(stats)?;
    let (group, splits) = (pairs / 2, op.splits as u64);
    let (heads, e) = (rows / splits.max(1) * group, columns / group.max(1));
    if heads * e == 0 {
        return Ok(None);
    }
    let (acc, stats) = (emit.read(acc)?, emit.read(stats)?);
    let sinks = sinks.first().map(|sinks| emit.read(sinks)).transpose()?;
    let y = emit.write(&step.results[0])?;
    let at = sinks.as_ref().map_or(0, |sinks| sinks.word());
    let words = vec![word(heads)?, word(group)?, acc.word(), stats.word(), y.word(), at];
    let sink = |var: &str| {
        format!(
            "if thread < WIDTH {{ top = bitcast<f32>({var}[step.sinks + head]); total = 1.0; }}"
        )
    };
    let width = e.min(THREADS);
    let slices = THREADS / width;
    let each = splits.div_ceil(slices);
    let loads = each.min(LOADS);
    let lines = |line: &dyn Fn(u64) -> String| -> String {
        (0..loads).map(line).collect::<Vec<_>>().join("\n            ")
    };
    let run = |one: &dyn Fn(u64) -> String| -> String { (0..loads).map(one).collect() };
    let load = lines(&|i| {
        format!(
            "let r{i} = first + min(j + {i}u, SPLITS - 1u); let at{i} = step.stats + (r{i} * step.group + g) * 2u;\n            \
             let bits{i} = {stats}[at{i}]; let t{i} = bitcast<f32>({stats}[at{i} + 1u]);\n            \
             let a{i} = bitcast<f32>({acc}[step.acc + (r{i} * step.group + g) * E + min(d, E - 1u)]);\n            \
             let is{i} = bits{i} != NONE && j + {i}u < end; let m{i} = select(-3.0e38, bitcast<f32>(bits{i}), is{i});",
            stats = stats.var,
            acc = acc.var
        )
    });
    let most = (0..loads).fold(String::from("top"), |top, i| format!("max({top}, m{i})"));
    let weigh = lines(&|i| format!("let w{i} = select(0.0, exp(m{i} - most), is{i});"));
    let text = |n: u64| n.to_string();
    let wgsl = fill(
        wgsl!("attention_join.wgsl"),
        &[
            ("bindings", &emit.bindings()),
            ("y", &y.var),
            ("e", &text(e)),
            ("splits", &text(splits)),
            ("width", &text(width)),
            ("slices", &text(slices)),
            ("each", &text(each)),
            ("sink", &sinks.map_or(String::new(), |s| sink(&s.var))),
            ("loads", &text(loads)),
            ("load", &load),
            ("most", &most),
            ("weigh", &weigh),
            ("add_totals", &run(&|i| format!(" + w{i} * t{i}"))),
            ("add_sums", &run(&|i| format!(" + w{i} * a{i}"))),
        ],
    );
    Ok(Some(Launch { wgsl, entry: "attention_join", words, groups: heads }))
}

/// Several rows: a thread for each element.
fn rows(
    op: &AttentionJoin,
    [q, ctl]: [&Slice; 2],
    step: &Step,
    emit: &mut Emit<'_>,
) -> Result<Option<Launch>> {
    let ((rows, width), (_, columns)) = (matrix(q)?, matrix(&step.operands[0])?);
    let (_, pairs) = matrix(&step.operands[1])?;
    let group = pairs / 2;
    let e = columns / group.max(1);
    if rows * width * e == 0 {
        return Ok(None);
    }
    let (acc, stats) = (emit.read(&step.operands[0])?, emit.read(&step.operands[1])?);
    let ctl = emit.read(ctl)?;
    let sinks = step.operands.last().filter(|_| op.sinks);
    let sinks = sinks.map(|sinks| emit.read(sinks)).transpose()?;
    let y = emit.write(&step.results[0])?;
    let words = vec![
        word(rows)?,
        word(width / e)?,
        acc.word(),
        stats.word(),
        ctl.word(),
        y.word(),
        sinks.as_ref().map_or(0, |sinks| sinks.word()),
    ];
    let sink = sinks.map_or(String::new(), |sinks| {
        format!("top = bitcast<f32>({}[step.sinks + head]); total = 1.0;", sinks.var)
    });
    let run = |between: &str, one: &dyn Fn(u64) -> String| -> String {
        (0..ROWS_LOADS).map(one).collect::<Vec<_>>().join(between)
    };
    let load = run("\n        ", &|i| {
        format!(
            "let at{i} = first + min(j + {i}u, used - 1u) * PITCH; let bits{i} = {stats}[step.stats + at{i} * 2u];\n        \
             let t{i} = bitcast<f32>({stats}[step.stats + at{i} * 2u + 1u]);\n        \
             let a{i} = bitcast<f32>({acc}[step.acc + at{i} * E + d]);\n        \
             let is{i} = bits{i} != NONE && j + {i}u < used; let m{i} = select(-3.0e38, bitcast<f32>(bits{i}), is{i});",
            stats = stats.var,
            acc = acc.var
        )
    });
    let most = (0..ROWS_LOADS).fold(String::from("top"), |top, i| format!("max({top}, m{i})"));
    let text = |n: u64| n.to_string();
    let wgsl = fill(
        wgsl!("attention_join/rows.wgsl"),
        &[
            ("bindings", &emit.bindings()),
            ("ctl", &ctl.var),
            ("y", &y.var),
            ("e", &text(e)),
            ("group", &text(group)),
            ("tile", &text(AttentionSplit::tile(rows, group))),
            ("splits", &text(op.splits as u64)),
            ("block", &text(AttentionSplit::BLOCK as u64)),
            ("threads", &text(THREADS)),
            ("loads", &text(ROWS_LOADS)),
            ("sink", &sink),
            ("load", &load),
            ("most", &most),
            ("weigh", &run(" ", &|i| format!("let w{i} = select(0.0, exp(m{i} - most), is{i});"))),
            ("add_totals", &run("", &|i| format!(" + w{i} * t{i}"))),
            // A split without a score has whatever stood in its acc.
            ("add_sums", &run("", &|i| format!(" + select(0.0, w{i} * a{i}, is{i})"))),
        ],
    );
    let groups = (rows * width).div_ceil(THREADS);
    Ok(Some(Launch { wgsl, entry: "attention_join_rows", words, groups }))
}
