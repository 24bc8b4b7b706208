//! gather      y[i, :] = table[ids[i], :], an id past the end reads the last row
//! shapes      table any[v, d]   ids u32[n..]   y f32[n.., d]; other tables and ids by `gather_axis`
//! bytes       a packed row in, 4 d out, per id
//! shares      columns of y, in whole blocks
//! numerics    as the reference decodes, bit for bit

#[cfg(feature = "graphs")]
use super::gather_axis;
use super::weights::reads;
use super::{Kernel, Planned, claim, dims};
use crate::panel::Cut;
use crate::place::Split;
use crate::view::Cx;
use rlx_core::formats::decode_row;
use rlx_core::ir::lir::Step;
use rlx_core::ops;
use rlx_core::target::Target;
use rlx_core::types::{DType, Type};
use rlx_core::{Code, Error, Result};

struct Gather {
    dtype: DType,
    rows: usize,
    row_bytes: usize,
}

pub(super) fn takes(op: &ops::Gather, operands: &[&Type], target: &Target) -> Result<(), String> {
    let why = embeds(op, operands, target);
    #[cfg(feature = "graphs")]
    let why = why.or_else(|why| gather_axis::takes(op, operands).map_err(|_| why));
    why
}

/// Fails unless rows of a matrix are looked up by u32.
fn embeds(op: &ops::Gather, operands: &[&Type], target: &Target) -> Result<(), String> {
    let ops::Gather { axis } = op;
    if *axis != 0 {
        return Err("its kernel has no axis".into());
    }
    claim::weight(operands, 0, target)?;
    claim::one_of(operands, 1, &[DType::U32])?;
    match operands {
        [table, ids] if table.shape.rank() == 2 => {
            let vector = cfg!(feature = "graphs") || ids.shape.rank() == 1;
            if vector { Ok(()) } else { Err("its kernel takes a vector of indices".into()) }
        }
        _ => Err("its kernel takes a matrix and a vector of indices".into()),
    }
}

pub(super) fn plan(op: &ops::Gather, step: &Step) -> Result<Planned> {
    #[cfg(feature = "graphs")]
    if embeds(op, &[&step.operands[0].ty, &step.operands[1].ty], &crate::target()).is_err() {
        return gather_axis::plan(op, step);
    }
    debug_assert_eq!(op.axis, 0, "`takes` leaves rows of a matrix");
    let table = &step.operands[0];
    let [rows, width] = dims(table)?;
    let dtype = table.ty.dtype;
    let row_bytes = dtype.row_bytes(width as u64).filter(|_| rows > 0 && reads(dtype));
    let row_bytes = row_bytes.ok_or_else(|| {
        Error::new(Code::Unsupported, format!("no gather reads rows of {}", table.ty))
    })? as usize;
    let granule = 4 * dtype.block_elements().max(16);
    let work = step.results[0].bytes as usize;
    let kernel = Gather { dtype, rows, row_bytes };
    Ok(Planned::new(kernel, &[Split::Columns(granule)], work).reads_panels(0..1))
}

impl Kernel for Gather {
    fn run(&self, cx: &mut Cx<'_>) {
        let (table, ids, is_panels) = (cx.bytes(0), cx.slice::<u32>(1), cx.is_panels(0));
        let columns = cx.result(0).columns::<f32>();
        // Granules are whole blocks, so the share's bytes are whole ones too.
        let cut = Cut::of(self.dtype);
        let to_blocks = |e: usize| e / self.dtype.block_elements();
        let (first, end) = (to_blocks(columns.start), to_blocks(columns.end));
        let mut row = vec![0; (end - first) * cut.block];
        for i in 0..cx.real(ids.len()) {
            let r = (ids[i] as usize).min(self.rows - 1);
            let y = cx.result(0).row(i);
            if is_panels {
                cut.read_row(table, self.row_bytes, r, first, &mut row);
            } else {
                let at = r * self.row_bytes;
                row.copy_from_slice(&table[at + first * cut.block..at + end * cut.block]);
            }
            let done = decode_row(self.dtype, &row, y);
            debug_assert_eq!(done, Ok(()), "`plan` takes only types that have rows");
        }
    }
}
