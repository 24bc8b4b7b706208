//! gather      y[i, :] = table[ids[i], :], an id past the end reads the last row
//! shapes      table any[v, d]   ids u32[n]   y f32[n, d]
//! bytes       a packed row in, 4 d out, per id
//! parts       columns of y, in whole blocks
//! numerics    as the reference decodes, bit for bit

use super::{Kernel, Planned, dims, tile};
use crate::program::Split;
use crate::run::Cx;
use rlx_core::ir::lir::Step;
use rlx_core::ops;
use rlx_core::types::DType;
use rlx_core::{Code, Error, Result};

struct Gather {
    dtype: DType,
    rows: usize,
    row_bytes: usize,
}

pub(super) fn plan(op: &ops::Gather, step: &Step) -> Result<Planned> {
    let (table, ids) = (&step.operands[0], &step.operands[1].ty);
    if !op.is_embedding(&table.ty) || ids.dtype != DType::U32 || ids.shape.rank() != 1 {
        return Err(Error::new(
            Code::Unsupported,
            format!("the CPU's gather takes rows of a matrix by u32, not of {} by {ids}", table.ty),
        ));
    }
    let [rows, width] = dims(table)?;
    let dtype = table.ty.dtype;
    let row_bytes = dtype.row_bytes(width as u64).filter(|_| rows > 0 && tile::reads(dtype));
    let row_bytes = row_bytes.ok_or_else(|| {
        Error::new(Code::Unsupported, format!("no gather reads rows of {}", table.ty))
    })? as usize;
    let granule = 4 * dtype.block_elements().max(16);
    let work = step.results[0].bytes as usize;
    Ok(Planned::new(Gather { dtype, rows, row_bytes }, &[Split::Columns(granule)], work))
}

impl Kernel for Gather {
    fn run(&self, cx: &mut Cx<'_>) {
        let (level, table, ids) = (cx.level, cx.bytes(0), cx.slice::<u32>(1));
        let columns = cx.result(0).columns::<f32>();
        // Granules are whole blocks, so the part's bytes are whole ones too.
        let to_bytes = |e: usize| e / self.dtype.block_elements() * self.dtype.block_bytes();
        for i in 0..cx.real(ids.len()) {
            let row = (ids[i] as usize).min(self.rows - 1) * self.row_bytes;
            let w = &table[row + to_bytes(columns.start)..row + to_bytes(columns.end)];
            tile::decode(level, self.dtype, w, cx.result(0).row(i));
        }
    }
}
