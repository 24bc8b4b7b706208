//! `random_uniform` and `random_normal`: the words of Philox4x32-10, which are the same everywhere.

use crate::kernels::elements::each::Each;
use crate::kernels::elements::element::Element;
use crate::kernels::elements::indices::Words;
use crate::kernels::emit::Emit;
use crate::kernels::takes::{self, Taken};
use crate::kernels::{Context, Launch, mismatch, unsupported};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::{DType, Type};

/// A key of four words.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["dims"])?;
    match operands {
        [key] if key.dtype == DType::U32 => Ok(()),
        _ => Err("it takes a key of u32".into()),
    }
}

pub(super) fn random(step: &Step, _: &Context<'_>, emit: &mut Emit<'_>) -> Result<Option<Launch>> {
    let (key, y) = (&step.operands[0], &step.results[0]);
    let (entry, formula, numerics, made) = match &step.op {
        Op::RandomUniform(_) => (
            "random_uniform",
            "random_uniform a word's upper 24 bits * 2^-24",
            "exact: the words and the numbers are those of every device",
            "let word = words(i / 4u)[i % 4u];\n    \
             return bitcast<u32>(f32(word >> 8u) * 5.9604644775390625e-8);",
        ),
        Op::RandomNormal(_) => (
            "random_normal",
            "random_normal r cos(t), r sin(t) of two words (Box and Muller 1958)",
            "the words are exact; f32 by polynomials, since WGSL's own log, sin and cos may be far off",
            "let four = words(i / 4u);\n    \
             return bitcast<u32>(normal(select(four.xy, four.zw, (i & 2u) != 0u), (i & 1u) != 0u));",
        ),
        _ => return Err(mismatch(step)),
    };
    let n = y.ty.shape.elements()?;
    if n == 0 {
        return Ok(None);
    }
    let element = Element::of(DType::F32).ok_or_else(|| unsupported("random numbers".into()))?;
    let mut words = Words::default();
    let place = emit.read(key)?;
    let start = words.bits(place.word());
    let uint = Element::of(DType::U32).ok_or_else(|| unsupported("random numbers".into()))?;
    let mut functions = vec![
        uint.reader("key", &place, &start),
        wgsl!("wide_product.wgsl").to_owned(),
        wgsl!("philox.wgsl").to_owned(),
    ];
    if entry == "random_normal" {
        functions.push(wgsl!("normal.wgsl").to_owned());
    }
    Each {
        entry,
        head: [formula.into(), "key u32[4]    y f32[..]".into(), "y's".into(), numerics.into()],
        functions,
        body: made.into(),
        result: y,
        n,
        element,
    }
    .launch(words, emit)
}
