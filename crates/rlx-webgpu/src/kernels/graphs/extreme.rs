//! `argmax` and `argmin`: where the largest or the smallest element stands.

use crate::kernels::elements::element::{Element, Register};
use crate::kernels::elements::indices::around;
use crate::kernels::elements::indices::{Words, dims};
use crate::kernels::emit::{Emit, fill};
use crate::kernels::takes::{self, Taken};
use crate::kernels::{Context, Launch, mismatch, unsupported};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::Type;

/// Floats and integers of up to 32 bits.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["axis", "keep"])?;
    let [x] = operands else { return Err("it takes one operand".into()) };
    Element::of(x.dtype).map(|_| ()).ok_or_else(|| takes::not(0, x))
}

pub(super) fn extreme(step: &Step, _: &Context<'_>, emit: &mut Emit<'_>) -> Result<Option<Launch>> {
    let (entry, axis, beats, what) = match &step.op {
        Op::ArgMax(op) => ("argmax", op.axis, ">", "largest"),
        Op::ArgMin(op) => ("argmin", op.axis, "<", "smallest"),
        _ => return Err(mismatch(step)),
    };
    let x = &step.operands[0];
    let element = Element::of(x.ty.dtype);
    let element = element.ok_or_else(|| unsupported(format!("{entry} of {}", x.ty.dtype)))?;
    let (outer, n, inner) = around(&dims(&x.ty)?, axis);
    if outer * n * inner == 0 {
        return Ok(None);
    }
    let mut words = Words::default();
    let (n_at, inner_at, runs) = (words.size(n)?, words.size(inner)?, words.size(outer * inner)?);
    let (place, y) = (emit.read(x)?, emit.write(&step.results[0])?);
    let (start, y_start) = (words.bits(place.word()), words.bits(y.word()));
    let number = match element.register() {
        Register::F32 => "(bitcast<u32>(v) & 0x7fffffffu) <= 0x7f800000u",
        _ => "true",
    };
    let wgsl = fill(
        wgsl!("extreme.wgsl"),
        &[
            ("entry", entry),
            ("what", what),
            ("type", x.ty.dtype.name()),
            ("bindings", &emit.bindings()),
            ("functions", &element.loader("x", &place, &start)),
            ("register", element.register().name()),
            ("runs", &runs),
            ("inner", &inner_at),
            ("n", &n_at),
            ("number", number),
            ("beats", beats),
            ("y", &y.var),
            ("y_start", &y_start),
        ],
    );
    Ok(Some(Launch { wgsl, entry, words: words.0, groups: outer * inner }))
}
