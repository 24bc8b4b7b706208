//! `gather`: rows of an embedding table, decoded.

use super::emit::{Emit, fill};
use super::formats::{self, CHUNK, Readers};
use super::takes::{self, Taken};
use super::{Context, Launch, TARGET, build_also, matrix, takes_also, types, word};
use rlx_core::ir::lir::Step;
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::{DType, Kind, Type};
use rlx_core::{Error, Result};

/// Rows of a matrix, by words of any shape; others where graphs are run.
pub(super) fn takes(op: &Op, operands: &[&Type], target: &Target) -> Taken {
    takes_rows(op, operands, target).or_else(|why| takes_also(op, operands, target, why))
}

fn takes_rows(op: &Op, operands: &[&Type], target: &Target) -> Taken {
    takes::knows(op, &[])?;
    let [table, ids] = operands else { return Err("it takes two operands".into()) };
    if !target.reads(table.dtype) {
        return Err(format!("it reads no {}", table.dtype));
    }
    if ids.kind != Kind::Tensor || ids.dtype != DType::U32 {
        return Err(takes::not(1, ids));
    }
    if table.shape.rank() != 2 {
        return Err("its kernel takes rows of a matrix".into());
    }
    Ok(())
}

pub(super) fn gather(step: &Step, cx: &Context<'_>, emit: &mut Emit<'_>) -> Result<Option<Launch>> {
    if takes_rows(&step.op, &types(step), &TARGET).is_err() {
        return build_also(step, cx, emit);
    }
    let (table, ids) = (&step.operands[0], &step.operands[1]);
    let (own, k) = matrix(table)?;
    let (first, rows) = step.part.map_or((0, own), |p| (p.first, p.of));
    let (n, _) = matrix(&step.results[0])?;
    if n == 0 || k == 0 {
        return Ok(None);
    }
    let y = emit.write(&step.results[0])?;
    let table_at = emit.read(table)?;
    let ids_at = emit.read(ids)?;
    let mut readers = Readers::default();
    let reader = readers.add(table.ty.dtype, &table_at.var, k, emit)?;
    let row_bytes = table
        .ty
        .dtype
        .row_bytes(k)
        .ok_or_else(|| Error::internal(format!("a row of {k} is no whole number of blocks")))?;
    let chunks = k.div_ceil(CHUNK);
    let words = vec![
        word(k)?,
        word(chunks)?,
        word(n)?,
        word(rows)?,
        table_at.byte,
        word(row_bytes)?,
        ids_at.word(),
        y.word(),
        word(first)?,
        word(own)?,
    ];
    let (from, others) = match step.part {
        Some(_) => (" - step.first", "if row >= step.own { return; }"),
        None => ("", ""),
    };
    let skip = match cx.counted(n, emit) {
        Some(ctl) => format!("if i >= {ctl}[1] {{ return; }}"),
        None => String::new(),
    };
    let wgsl = fill(
        wgsl!("gather.wgsl"),
        &[
            ("bindings", &emit.bindings()),
            ("skip", &skip),
            ("common", formats::COMMON),
            ("readers", &readers.text),
            ("reader", &reader),
            ("from", from),
            ("others", others),
            ("ids", &ids_at.var),
            ("y", &y.var),
        ],
    );
    Ok(Some(Launch { wgsl, entry: "gather", words, groups: (n * chunks).div_ceil(64) }))
}
