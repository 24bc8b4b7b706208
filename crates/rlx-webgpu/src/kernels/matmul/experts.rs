//! `grouped_matmul`: products with the matrices of a row's experts, which ids of the device name.
//!
//! Of a few rows each reads its experts' matrices; of many those that name an expert share its matrix.

mod sum;
mod tile;
mod vector;

use super::{Parts, Segment};
use crate::kernels::emit::{Emit, Place};
use crate::kernels::formats::Readers;
use crate::kernels::takes::{self, Taken};
use crate::kernels::{Context, Launch, matrix, mismatch, scalar, word};
use rlx_core::ir::lir::Step;
use rlx_core::ops::{GroupedEpilogue, GroupedMatMul, Op, Unary};
use rlx_core::target::Target;
use rlx_core::types::{DType, Kind, Type};
use rlx_core::{Code, Error, Result};

/// The most rows that meet their experts one by one. Sums of more are those of the products, which have many
/// rows of an expert together.
const FEW: u64 = 8;

/// Rows of f32, or few of blocks of integers, by banks of any type that the target reads.
pub(in crate::kernels) fn takes(op: &Op, operands: &[&Type], target: &Target) -> Taken {
    takes::knows(op, &["segments", "bias", "epilogue", "glu", "limit"])?;
    let Op::GroupedMatMul(op) = op else { return Err("it takes a grouped_matmul".into()) };
    if let GroupedEpilogue::Glu(f) | GroupedEpilogue::LimitedGlu(f, _) = op.epilogue {
        takes::unary(f)?;
    }
    let parts = op.parts();
    let rows = operands.get(parts.ids).and_then(|ids| ids.shape.rows().ok()?.as_static());
    if op.epilogue.sums() && rows.is_none_or(|m| m > FEW) {
        return Err(format!("its kernel sums the experts of at most {FEW} rows"));
    }
    for (i, ty) in operands.iter().enumerate() {
        if (parts.banks..parts.banks + op.segments).contains(&i) {
            if !target.reads(ty.dtype) {
                return Err(format!("it reads no {}", ty.dtype));
            }
        } else if i == 0 && ty.dtype.is_block() {
            takes::blocks(i, ty, target)?;
            if rows.is_none_or(|m| m > FEW) {
                return Err(takes::not(i, ty));
            }
        } else if i != parts.ids {
            takes::is_f32(i, ty)?;
        } else if (ty.kind, ty.dtype) != (Kind::Tensor, DType::U32) {
            return Err(takes::not(i, ty));
        }
    }
    Ok(())
}

/// A step with its operands bound: a matmul's, and what names experts.
struct Experts {
    parts: Parts,
    top_k: u64,
    experts: u64,
    ids: Place,
    shares: Option<Place>,
    /// Whether x has a row for each expert of a row.
    own_rows: bool,
}

pub(in crate::kernels) fn grouped_matmul(
    step: &Step,
    cx: &Context<'_>,
    emit: &mut Emit<'_>,
) -> Result<Option<Launch>> {
    let Op::GroupedMatMul(op) = &step.op else { return Err(mismatch(step)) };
    let experts = Experts::of(op, step, emit)?;
    let rows = experts.parts.segments.iter().map(|s| s.rows).sum::<u64>();
    if experts.parts.m * experts.top_k * rows == 0 {
        return Ok(None);
    }
    match (experts.parts.m, &experts.shares) {
        (..=FEW, Some(shares)) => sum::launch(&experts, shares, cx, emit).map(Some),
        (..=FEW, None) => vector::launch(&experts, cx, emit).map(Some),
        _ => tile::launch(&experts, cx, emit).map(Some),
    }
}

impl Experts {
    /// WGSL of where `row` of x starts: blocks are found by the row's number.
    fn start_of(&self, row: &str) -> String {
        match self.parts.x_type {
            DType::F32 => format!("step.x + {row} * step.k"),
            _ => row.into(),
        }
    }

    fn of(op: &GroupedMatMul, step: &Step, emit: &mut Emit<'_>) -> Result<Experts> {
        let at = op.parts();
        let x = &step.operands[0];
        let (m, top_k) = matrix(&step.operands[at.ids])?;
        let (_, k) = matrix(x)?;
        let mut readers = Readers::default();
        let x_place = emit.read(x)?;
        let mut experts = 1;
        let mut segments = Vec::with_capacity(op.segments);
        for i in 0..op.segments {
            let w = &step.operands[at.banks + i];
            let [e, rows, _] = w.ty.shape.static_dims()?[..] else {
                return Err(Error::internal(format!("{} is no bank", w.ty)));
            };
            experts = e;
            let weight = emit.read(w)?;
            let reader = readers.add(w.ty.dtype, &weight.var, k, emit)?;
            let bias = match at.biases {
                Some(first) => Some(emit.read(&step.operands[first + i])?),
                None => None,
            };
            let y = step.results.get(i).map(|y| emit.write(y)).transpose()?;
            let dtype = w.ty.dtype;
            let row_bytes = dtype.row_bytes(k).ok_or_else(|| {
                Error::internal(format!("a row of {k} is no whole number of blocks"))
            })?;
            let columns = rows;
            segments.push(Segment { rows, columns, row_bytes, weight, dtype, reader, bias, y });
        }
        let mut read = |at: Option<usize>| at.map(|i| emit.read(&step.operands[i])).transpose();
        let (shares, residual, ids) = (read(at.shares)?, read(at.residual)?, read(Some(at.ids))?);
        let function = match op.epilogue {
            GroupedEpilogue::Glu(f) | GroupedEpilogue::LimitedGlu(f, _) => Some(f),
            _ => None,
        };
        let text = |f: Unary| {
            let missing = || Error::new(Code::Unsupported, format!("WGSL has no {}", f.name()));
            scalar::unary(f).ok_or_else(missing)
        };
        let map = function.map(text).transpose()?;
        let parts = Parts {
            m,
            k,
            first: 0,
            x: x_place,
            x_start: "x_row",
            x_type: x.ty.dtype,
            norm: None,
            segments,
            residual,
            glu: map.is_some(),
            limit: match op.epilogue {
                GroupedEpilogue::LimitedGlu(_, limit) => Some(limit),
                _ => None,
            },
            map,
            function,
            readers,
        };
        let ids = ids.ok_or_else(|| Error::internal("a grouped_matmul without ids"))?;
        Ok(Experts { parts, top_k, experts, ids, shares, own_rows: x.ty.shape.rank() == 3 })
    }

    /// The form of a kernel of these experts, of so many rows of a matrix for a workgroup, and teams of it that have
    /// experts of their own.
    #[cfg(not(target_family = "wasm"))]
    fn form(
        &self,
        name: &'static str,
        columns: u64,
        teams: u64,
        cx: &Context<'_>,
        emit: &mut Emit<'_>,
    ) -> Result<()> {
        let p = &self.parts;
        if p.x_type != DType::F32 {
            return Ok(());
        }
        let shares = self.shares.as_ref().map_or(String::new(), |s| s.var.clone());
        let more = [
            ("control", cx.counted(p.m, emit).unwrap_or_default()),
            ("columns", columns.to_string()),
            ("teams", teams.to_string()),
            ("ids", self.ids.var.clone()),
            ("shares", shares),
            ("own_rows", self.own_rows.to_string()),
            ("limit", p.limit.map_or(String::new(), |l| format!("{l:?}"))),
        ];
        emit.form = Some(p.form(name, &more)?);
        Ok(())
    }

    /// The step constants, and workgroups for one row of the result of `rows_per_group` rows of a matrix.
    fn words(&self, rows_per_group: u64) -> Result<(Vec<u32>, u64)> {
        let p = &self.parts;
        let (_, kinds) = p.kinds();
        let mut groups = 0;
        let mut segments = Vec::new();
        for (i, s) in p.segments.iter().enumerate() {
            segments.extend([
                word(groups)?,
                word(s.rows)?,
                s.weight.byte,
                word(s.row_bytes)?,
                s.bias.as_ref().map_or(0, Place::word),
                s.y.as_ref().map_or(0, Place::word),
                kinds[i],
                0,
            ]);
            if i < p.launched().len() {
                groups += s.rows.div_ceil(rows_per_group);
            }
        }
        let mut words = vec![
            word(p.k)?,
            word(p.chunks())?,
            word(p.m)?,
            word(groups)?,
            if p.x_type == DType::F32 { p.x.word() } else { p.x.byte },
            p.residual.as_ref().map_or(0, Place::word),
            p.launched().len() as u32,
            word(self.top_k)?,
            word(self.experts)?,
            self.ids.word(),
            self.shares.as_ref().map_or(0, Place::word),
            0,
        ];
        words.extend(segments);
        Ok((words, groups))
    }
}
