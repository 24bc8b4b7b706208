//! `interpolate`: every result is a weighted sum of its neighbours along all axes at once.
//!
//! A place between elements is a fraction of two integers. They are kept as integers: an f32 of a place has no
//! digits left for the weights of a wide image.

use super::conv::floats;
use crate::kernels::elements::each::Each;
use crate::kernels::elements::element::Element;
use crate::kernels::elements::indices::{Words, dims, row_major};
use crate::kernels::emit::Emit;
use crate::kernels::takes::{self, Taken};
use crate::kernels::{Context, Launch, mismatch, unsupported};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::{Interpolate, Interpolation, Op};
use rlx_core::target::Target;
use rlx_core::types::Type;

/// A tensor of f32, f16 or bf16 whose places are integers of 32 bits.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["size", "mode", "align_corners", "antialias"])?;
    let (Op::Interpolate(op), [x]) = (op, operands) else { return Err("it takes an image".into()) };
    floats(operands)?;
    for (size, n) in op.size.iter().zip(x.shape.0.iter().skip(2)) {
        let Some(n) = n.as_static() else { continue };
        let most = n.saturating_mul(*size).saturating_mul(2);
        if most.saturating_add(n.max(*size).saturating_mul(5)) >= 1 << 31 {
            return Err(format!("its kernel has no room to make {size} of {n}"));
        }
    }
    Ok(())
}

/// Statements before the loop over an axis's neighbours, and the loop's head down to its weight and place.
struct Axis {
    before: String,
    head: String,
}

/// The neighbours of result `i{axis}`; `a` elements become `b`.
fn neighbours(
    op: &Interpolate,
    axis: usize,
    (a, b): (u64, u64),
    words: &mut Words,
) -> Result<Axis> {
    let cubic = op.mode == Interpolation::Cubic;
    let last = words.size(a.saturating_sub(1))?;
    if op.antialias {
        let (a_at, b_at) = (words.size(a)?, words.size(b)?);
        let wide = words.size(2 * a.max(b))?;
        let reach = words.size(a.max(b) * if cubic { 4 } else { 2 })?;
        return Ok(Axis {
            before: format!(
                "let c{axis} = (2u * i{axis} + 1u) * {a_at} + {b_at};\n    \
                 let s{axis} = (max(c{axis}, {reach}) - {reach}) / (2u * {b_at});\n    \
                 let e{axis} = min((c{axis} + {reach}) / (2u * {b_at}), {a_at});\n    "
            ),
            head: format!(
                "for (var j{axis} = s{axis}; j{axis} < e{axis}; j{axis}++) {{\n    \
                 let d{axis} = abs(f32(i32(2u * j{axis} * {b_at} + 2u * {b_at}) - i32(c{axis}))) / f32({wide});\n    \
                 let n{axis} = j{axis};\n    "
            ),
        });
    }
    // The place is num / den; it is before the first element by at most one half.
    let (num, den) = if op.align_corners {
        let den = words.size(b.saturating_sub(1).max(1))?;
        (format!("i32(i{axis} * {last})"), den)
    } else {
        let (a_at, b_at) = (words.size(a)?, words.size(b)?);
        let num = format!("i32((2u * i{axis} + 1u) * {a_at}) - i32({b_at})");
        (num, format!("(2u * {b_at})"))
    };
    let num = if cubic { num } else { format!("max({num}, 0)") };
    let (taps, before) = if cubic { (4, 1) } else { (2, 0) };
    Ok(Axis {
        before: format!(
            "let m{axis} = {num};\n    let f{axis} = select(m{axis} / i32({den}), -1, m{axis} < 0);\n    \
             let t{axis} = f32(m{axis} - f{axis} * i32({den})) / f32({den});\n    "
        ),
        head: format!(
            "for (var j{axis} = 0; j{axis} < {taps}; j{axis}++) {{\n    \
             let d{axis} = abs(f32(j{axis} - {before}) - t{axis});\n    \
             let n{axis} = u32(clamp(f{axis} + j{axis} - {before}, 0, i32({last})));\n    "
        ),
    })
}

pub(super) fn interpolate(
    step: &Step,
    _: &Context<'_>,
    emit: &mut Emit<'_>,
) -> Result<Option<Launch>> {
    let Op::Interpolate(op) = &step.op else { return Err(mismatch(step)) };
    let (x, y) = (&step.operands[0], &step.results[0]);
    let (input, output) = (dims(&x.ty)?, dims(&y.ty)?);
    let n = output.iter().product::<u64>();
    if n == 0 {
        return Ok(None);
    }
    let element = Element::of(y.ty.dtype);
    let element = element.ok_or_else(|| unsupported(format!("images of {}", y.ty)))?;
    let mut words = Words::default();
    let place = emit.read(x)?;
    let start = words.bits(place.word());
    let mut functions = vec![element.helpers().into(), element.loader("x", &place, &start)];
    let strides = row_major(&input[2..]);
    let plane = words.size(input[2..].iter().product())?;
    let mut body = String::from("var rest = i;\n    ");
    for axis in (0..op.size.len()).rev() {
        let size = words.size(op.size[axis])?;
        body += &format!("let i{axis} = rest % {size};\n    rest = rest / {size};\n    ");
    }
    if op.mode == Interpolation::Nearest {
        body += &format!("var at = rest * {plane};\n    ");
        for (axis, &b) in op.size.iter().enumerate() {
            let (a, b) = (words.size(input[axis + 2])?, words.size(b)?);
            let stride = words.signed(strides[axis])?;
            body += &format!("at += i{axis} * {a} / {b} * {stride};\n    ");
        }
        body += "return bits_x(at);";
    } else {
        let mut heads = String::new();
        let (mut at, mut weight) = (format!("rest * {plane}"), String::new());
        for (axis, &b) in op.size.iter().enumerate() {
            let own = neighbours(op, axis, (input[axis + 2], b), &mut words)?;
            body += &own.before;
            heads += &own.head;
            let stride = words.signed(strides[axis])?;
            at += &format!(" + n{axis} * {stride}");
            let times = if axis == 0 { String::new() } else { format!("w{} * ", axis - 1) };
            weight = format!("w{axis}");
            heads += &format!("let {weight} = {times}weight(d{axis});\n    ");
        }
        let sum = if op.antialias { "(sum / total)" } else { "sum" };
        body += &format!(
            "var sum = 0.0;\n    var total = 0.0;\n    {heads}\
             sum += {weight} * load_x({at});\n    total += {weight};\n    {}return {};",
            "}\n    ".repeat(op.size.len()),
            element.bits(sum)
        );
        functions.push(match (op.mode, op.antialias) {
            (Interpolation::Cubic, antialias) => keys(if antialias { "-0.5" } else { "-0.75" }),
            _ => "fn weight(d: f32) -> f32 { return max(1.0 - d, 0.0); }\n".into(),
        });
    }
    Each {
        entry: "interpolate",
        head: [
            format!("interpolate sum over neighbours j of i of weight(j, i) * x[n, c, j], {}", op.mode.name()),
            format!("x {0}[N, C, ..]    y {0}[N, C, size..]", y.ty.dtype),
            "y's once, x's once for each result that they are in, from a cache".into(),
            "nearest is exact; places are fractions of integers, weights and sums f32, rounded once".into(),
        ],
        functions,
        body,
        result: y,
        n,
        element,
    }
    .launch(words, emit)
}

/// Keys' cubic kernel at a distance (IEEE ASSP 29, 1981), as a function.
fn keys(a: &str) -> String {
    format!(
        "fn weight(d: f32) -> f32 {{\n    let a = {a};\n    \
         let near = ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0;\n    \
         let far = ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a;\n    \
         return select(select(0.0, far, d < 2.0), near, d <= 1.0);\n}}\n"
    )
}
