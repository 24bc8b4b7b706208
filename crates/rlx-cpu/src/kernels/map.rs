//! map         y = f(x)
//! shapes      any, f32; x and y may be one; other types by `elementwise`
//! bytes       8 per element
//! shares      columns of y's rows
//! numerics    see `math.rs`

#[cfg(feature = "graphs")]
use super::elementwise;
use super::math::Function;
use super::{Kernel, Planned, claim};
use crate::place::Split;
use crate::view::Cx;
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::Map;
#[cfg(feature = "graphs")]
use rlx_core::ops::StepFn;
use rlx_core::target::Target;
#[cfg(feature = "graphs")]
use rlx_core::types::DType;
use rlx_core::types::Type;

struct MapKernel(Function);

pub(super) fn takes(op: &Map, operands: &[&Type], _: &Target) -> Result<(), String> {
    // Functions without vectors of their own are the reference's, one by one.
    let Map { f: _ } = op;
    let plain = claim::floats(operands);
    #[cfg(feature = "graphs")]
    let plain = plain.or_else(|_| elementwise::takes(operands, &[]));
    plain
}

pub(super) fn plan(op: &Map, step: &Step) -> Result<Planned> {
    #[cfg(feature = "graphs")]
    if step.results[0].ty.dtype != DType::F32 {
        return elementwise::plan_one(StepFn::Map(op.f), step);
    }
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
