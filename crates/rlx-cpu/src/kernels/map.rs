//! map         y = f(x)
//! shapes      any, f32; x and y may be one
//! bytes       8 per element
//! parts       columns of y's rows
//! numerics    see `math.rs`

use super::math::Function;
use super::{Kernel, Planned, floats};
use crate::program::Split;
use crate::run::Cx;
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::Map;

struct MapKernel(Function);

pub(super) fn plan(op: &Map, step: &Step) -> Result<Planned> {
    floats("map", step)?;
    let work = step.results[0].bytes as usize * 4;
    Ok(Planned::new(MapKernel(op.f.into()), &[Split::Columns(64)], work))
}

impl Kernel for MapKernel {
    fn run(&self, cx: &mut Cx<'_>) {
        let (level, x) = (cx.level, cx.slice::<f32>(0));
        let (columns, rows) = (cx.result(0).columns::<f32>(), cx.result(0).rows.clone());
        let width = x.len() / rows.len().max(1);
        for r in 0..cx.real(rows.end) {
            let y = cx.result(0).row(r);
            if !x.is_empty() {
                y.copy_from_slice(&x[r * width..][columns.clone()]);
            }
            self.0.apply(level, y);
        }
    }
}
