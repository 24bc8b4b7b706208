//! `sort` and `top_k`: each element counts those that come before it, which is its place. That is n^2
//! comparisons for a run of n, without a second launch and in one order on every device.

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

/// Floats and integers of 32 bits; `top_k`, which stores no values, of up to 32.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["axis", "descending", "k"])?;
    let [x] = operands else { return Err("it takes one operand".into()) };
    match Element::of(x.dtype) {
        Some(element) if element.per_word() == 1 || matches!(op, Op::TopK(_)) => Ok(()),
        _ => Err(takes::not(0, x)),
    }
}

pub(super) fn sort(step: &Step, _: &Context<'_>, emit: &mut Emit<'_>) -> Result<Option<Launch>> {
    let x = &step.operands[0];
    let sizes = dims(&x.ty)?;
    let (entry, axis, descending, most) = match &step.op {
        Op::Sort(op) => ("sort", op.axis, op.descending, u64::MAX),
        Op::TopK(op) => ("top_k", sizes.len().saturating_sub(1), true, op.k),
        _ => return Err(mismatch(step)),
    };
    let element = Element::of(x.ty.dtype);
    let element = element.ok_or_else(|| unsupported(format!("{entry} of {}", x.ty.dtype)))?;
    let (outer, n, inner) = around(&sizes, axis);
    if outer * n * inner == 0 || most == 0 {
        return Ok(None);
    }
    let mut words = Words::default();
    let place = emit.read(x)?;
    let start = words.bits(place.word());
    let key = match element.register() {
        Register::F32 => {
            "let bits = bitcast<u32>(x);\n    let size = bits & 0x7fffffffu;\n    \
             if size > 0x7f800000u { return 0xffffffffu; }\n    \
             return select(0x80000000u + size, 0x80000000u - size, bits > size);"
        }
        Register::I32 => "return bitcast<u32>(x) ^ 0x80000000u;",
        _ => "return u32(x);",
    };
    let tiles = n.div_ceil(64);
    let groups = outer * inner * tiles;
    let mut store = String::new();
    let (indices, k) = match step.results.as_slice() {
        [values, indices] => {
            let y = emit.write(values)?;
            let start = words.bits(y.word());
            store = format!(
                "{}[{start} + first + place * {{}}] = bits_x(first + own * {{}});\n    ",
                y.var
            );
            (indices, n)
        }
        [indices] => (indices, most.min(n)),
        _ => return Err(mismatch(step)),
    };
    let y = emit.write(indices)?;
    let (y_start, k_at) = (words.bits(y.word()), words.size(k)?);
    let (n_at, inner_at) = (words.size(n)?, words.size(inner)?);
    let store = store.replace("{}", &inner_at)
        + &format!(
            "if place < {k_at} {{\n        \
             let run_start = run / {inner_at} * {k_at} * {inner_at} + run % {inner_at};\n        \
             {}[{y_start} + run_start + place * {inner_at}] = own;\n    }}",
            y.var
        );
    let wgsl = fill(
        wgsl!("sort.wgsl"),
        &[
            ("entry", entry),
            ("before", if descending { "larger" } else { "smaller" }),
            ("type", x.ty.dtype.name()),
            (
                "shapes",
                if entry == "sort" { "values as x, indices u32" } else { "indices u32[.., k]" },
            ),
            ("bindings", &emit.bindings()),
            ("functions", &element.loader("x", &place, &start)),
            ("key", key),
            ("groups", &words.size(groups)?),
            ("tiles", &words.size(tiles)?),
            ("inner", &inner_at),
            ("n", &n_at),
            ("order", if descending { ">" } else { "<" }),
            ("store", &store),
        ],
    );
    Ok(Some(Launch { wgsl, entry, words: words.0, groups }))
}
