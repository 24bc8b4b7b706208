//! Many rows of f32 by weights of floats, as networks of images have them: large tiles that four results by four share
//! what they read, which a thread adds up under names of their own.
//!
//! Of 16 of k a tile of 128 x 128 reads 16 kB and multiplies 262,144 times; a thread reads 16 floats of the workgroup's
//! memory for 64 products.

use super::{Context, Emit, Launch, Parts};
use crate::kernels::emit::fill;
use crate::kernels::{formats, matrix};
use rlx_core::Result;
use rlx_core::ir::lir::{Space, Step};
use rlx_core::ops::{Epilogue, MatMul};
use rlx_core::types::DType;

/// Rows of x and of weights that a workgroup multiplies.
const LARGE: u64 = 128;
const SMALL: u64 = 64;
/// Workgroups that a large tile has to leave: two for each core of a large GPU.
const ENOUGH: u64 = 200;
/// Fewest rows, of which a small tile wastes less than half.
const FEWEST: u64 = 33;
/// Fewest workgroups of small tiles: below, smaller ones keep more cores busy.
const FEW: u64 = 48;
const LANES: [&str; 4] = ["x", "y", "z", "w"];

/// The side of the tile for a step, where it has one.
pub(super) fn side(
    op: &MatMul,
    step: &Step,
    cx: &Context<'_>,
    emit: &Emit<'_>,
) -> Result<Option<u64>> {
    let (at, x) = (op.parts(), &step.operands[0]);
    let (m, k) = matrix(x)?;
    let weights = &step.operands[at.weights..at.weights + op.segments];
    let dtype = weights[0].ty.dtype;
    let floats = matches!(dtype, DType::F32 | DType::F16 | DType::BF16)
        && weights.iter().all(|w| w.ty.dtype == dtype && w.space != Space::Arena)
        && x.ty.dtype == DType::F32;
    // Prompts of language models, of whose rows some may be left out, have tiles that know them; 16-bit floats, where
    // they are asked for, have theirs.
    let plain =
        op.quantize.is_none() && at.norm.is_none() && cx.rows_control.is_none() && !cx.wgsl.f16;
    if m < FEWEST || k == 0 || !k.is_multiple_of(4) || !floats || !plain {
        return Ok(None);
    }
    let biases = at.biases.map_or(&[][..], |first| &step.operands[first..first + op.segments]);
    let residual = at.residual.map(|i| &step.operands[i]);
    let quads = [x].into_iter().chain(weights).chain(residual).chain(&step.results);
    let first = step.part.map_or(0, |p| p.first);
    if biases.iter().any(|b| b.space == Space::Arena)
        || !first.is_multiple_of(4)
        || !quads.into_iter().all(|s| emit.in_quads(s))
    {
        return Ok(None);
    }
    let (mut large, mut small) = (0, 0);
    let glu = matches!(op.epilogue, Epilogue::Glu(_));
    for w in if glu { &weights[..1] } else { weights } {
        let (rows, _) = matrix(w)?;
        if !rows.is_multiple_of(4) || !step.part.is_none_or(|p| p.of.is_multiple_of(4)) {
            return Ok(None);
        }
        large += m.div_ceil(LARGE) * rows.div_ceil(if glu { LARGE / 2 } else { LARGE });
        small += m.div_ceil(SMALL) * rows.div_ceil(SMALL);
    }
    Ok(match (large >= ENOUGH, small >= FEW && !glu) {
        (true, _) => Some(LARGE),
        (_, true) => Some(SMALL),
        _ => None,
    })
}

/// `fn store(s, m, n, v)`: columns `n..n + 4` of row `m` of segment `s`; with `glu` of both weights' products.
fn store(p: &Parts) -> Result<String> {
    let y = p.y_var()?;
    let each = |f: &dyn Fn(&str) -> String| LANES.map(f).join(", ");
    let bias = |s: &str, v: &str| {
        let four = (0..4).map(|j| format!("bias_of({s}, n + {j}u)")).collect::<Vec<_>>().join(", ");
        format!("let {v} = {v}_sum + vec4f({four});")
    };
    Ok(if p.glu {
        format!(
            "fn store(s: u32, m: u32, n: u32, gate_sum: vec4f, up_sum: vec4f) {{\n    \
             if m >= step.m || n >= step.seg[0u].rows {{ return; }}\n    {}\n    {}\n    \
             {y}[(step.seg[0u].y + m * step.seg[0u].stride + n) / 4u] = bitcast<vec4u>(vec4f({}));\n}}\n",
            bias("0u", "gate"),
            bias("1u", "up"),
            each(&|lane| format!("glu(gate.{lane}, up.{lane})"))
        )
    } else {
        let residual = match &p.residual {
            Some(r) => format!(" + bitcast<vec4f>({}[(step.residual + at) / 4u])", r.var),
            None => String::new(),
        };
        format!(
            "fn store(s: u32, m: u32, n: u32, v_sum: vec4f) {{\n    \
             if m >= step.m || n >= step.seg[s].rows {{ return; }}\n    {}\n    \
             let at = m * step.seg[s].stride + n;\n    \
             {y}[(step.seg[s].y + at) / 4u] = bitcast<vec4u>(vec4f({}){residual});\n}}\n",
            bias("s", "v"),
            each(&|lane| format!("map(v.{lane})"))
        )
    })
}

pub(super) fn launch(p: &Parts, side: u64, emit: &mut Emit<'_>) -> Result<Launch> {
    // Fours of k that a tile has, and fours of rows of a thread, of x and of weights.
    let (half, quads) = (512 / side, side / 64);
    let columns = if p.glu { side / 2 } else { side };
    let (words, tiles) = p.words(columns)?;
    let dtype = p.segments[0].dtype;
    let f32 = dtype == DType::F32;
    let lines = |n: u64, f: &dyn Fn(u64) -> String| {
        (0..n).map(f).collect::<Vec<_>>().join("\n            ")
    };
    let load_x = lines(4, &|i| format!("raw{i} = {}[x_rows.{} + at];", p.x.var, LANES[i as usize]));
    let load_w = p.switch("own_segment", |kind| {
        let var = &kind.weight.var;
        lines(4, &|i| {
            let read = format!("{var}[w_rows.{} + at]", LANES[i as usize]);
            let read = if f32 { read } else { format!("vec4u({read}, 0u, 0u)") };
            format!("raw{i} = {read};")
        })
    });
    let widen = if f32 {
        String::new()
    } else {
        let four = lines(4, &|i| format!("v{i} = pair_{}(raw{i}.xy);", dtype.name()));
        format!("if !is_x {{ {four} }}")
    };
    let (mut clear, mut stores) = (String::new(), String::new());
    for (h, r) in (0..quads).flat_map(|h| (0..4u64).map(move |r| (h, r))) {
        let row = format!("m0 + (ty + {}u) * 4u + {r}u", h * 16);
        for v in 0..quads {
            clear += &format!("var s{h}{r}{v} = vec4f(); ");
            if !p.glu {
                stores +=
                    &format!("store(s, {row}, n0 + (tx + {}u) * 4u, s{h}{r}{v});\n    ", v * 16);
            }
        }
        if p.glu {
            stores += &format!("store(s, {row}, n0 + tx * 4u, s{h}{r}0, s{h}{r}1);\n    ");
        }
        clear += "\n    ";
    }
    let products = lines(4, &|j| {
        let mut text = String::from("{ ");
        for (name, plane, at) in [("a", "p".to_owned(), "y"), ("b", format!("p + {half}u"), "x")] {
            for h in 0..quads {
                text += &format!("let {name}{h} = planes[{plane}][{j}][{at} + {}u]; ", h * 16);
            }
        }
        for (h, r) in (0..quads).flat_map(|h| (0..4u64).map(move |r| (h, r))) {
            for v in 0..quads {
                text += &format!("s{h}{r}{v} += a{h}.{} * b{v}; ", LANES[r as usize]);
            }
        }
        text + "}"
    });
    let (own_segment, w_row) =
        if p.glu { ("row / 16u", "n0 + row % 16u * 4u") } else { ("s", "n0 + row * 4u") };
    let number = |n: u64| n.to_string();
    let wgsl = fill(
        wgsl!("tile_float.wgsl"),
        &[
            ("type", dtype.name()),
            ("step", wgsl!("step.wgsl")),
            ("bindings", &emit.bindings()),
            ("common", formats::COMMON),
            ("finish", &p.epilogue()),
            ("store", &store(p)?),
            ("side", &number(side)),
            ("own", &number(4 * quads)),
            ("k_tile", &number(4 * half)),
            ("fours", &number(side / 4)),
            ("planes", &number(2 * half)),
            ("half", &number(half)),
            ("spread", &number(8 / half)),
            ("columns", &number(columns)),
            ("unit", if f32 { "16" } else { "8" }),
            ("own_segment", own_segment),
            ("w_row", w_row),
            ("clear", &clear),
            ("load", &format!("if is_x {{ {load_x} }} else {{ {load_w} }}")),
            ("widen", &widen),
            ("products", &products),
            ("stores", &stores),
        ],
    );
    let groups = tiles * p.m.div_ceil(side);
    Ok(Launch { wgsl, entry: "matmul_tile_float", words, groups })
}
