//! map         y = f(x)
//! shapes      any, f32; x and y may be one; other types by `elementwise`
//! bytes       8 per element
//! shares      y's rows, or columns of them where they are few
//! numerics    see `math.rs`

#[cfg(feature = "graphs")]
use super::elementwise;
use super::math::Function;
use super::{Kernel, Planned, by_elements, claim, rows_of};
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

struct MapKernel {
    f: Function,
    width: usize,
}

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
    let (rows, width) = rows_of(&step.results[0])?;
    Ok(Planned::new(MapKernel { f: op.f.into(), width }, &[by_elements(rows)], work))
}

impl Kernel for MapKernel {
    fn run(&self, cx: &mut Cx<'_>) {
        let (level, x) = (cx.level, cx.slice::<f32>(0));
        let (columns, rows) = (cx.result(0).columns::<f32>(), cx.result(0).rows.clone());
        for r in rows.start..cx.real(rows.end) {
            let y = cx.result(0).row(r);
            if !x.is_empty() {
                y.copy_from_slice(&x[r * self.width..][columns.clone()]);
            }
            self.f.apply(level, y);
        }
    }
}
