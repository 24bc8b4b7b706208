//! `conv`: a product whose second operand is made while it is read, so no columns are stored; where a group has a
//! filter or three, every result on its own.

use super::sliding::{Sliding, fits, sliding};
use crate::kernels::elements::each::Each;
use crate::kernels::elements::element::{Element, once};
use crate::kernels::elements::indices::{MOST_WORDS, Words, dims};
use crate::kernels::emit::{Emit, fill};
use crate::kernels::takes::{self, Taken};
use crate::kernels::{Context, Launch, mismatch, unsupported};
use rlx_core::Result;
use rlx_core::ir::lir::{Slice, Step};
use rlx_core::ops::{Conv, Op};
use rlx_core::target::Target;
use rlx_core::types::Type;

/// Workgroups that a large tile has to leave: with fewer, cores of a large GPU have nothing to do.
const ENOUGH: u64 = 128;

/// Tensors of f32, f16 or bf16 over one to three spatial axes.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["stride", "pad_low", "pad_high", "dilation", "groups", "bias"])?;
    let (Op::Conv(op), [x, ..]) = (op, operands) else { return Err("it takes an image".into()) };
    floats(operands)?;
    fits(&op.window, x.shape.0.get(2..).unwrap_or_default())
}

/// Refuses what is no tensor of f32, f16 or bf16.
pub(super) fn floats(operands: &[&Type]) -> Taken {
    for (i, ty) in operands.iter().enumerate() {
        if !Element::of(ty.dtype).is_some_and(|_| ty.dtype.is_float()) {
            return Err(takes::not(i, ty));
        }
    }
    Ok(())
}

/// Sizes that both forms need.
struct Sizes {
    /// Images, and the elements of a channel.
    batch: u64,
    plane: u64,
    /// Channels and filters, and those of a group.
    channels: u64,
    filters: u64,
    depth: u64,
    own: u64,
    /// Taps of a filter, places of a result.
    taps: u64,
    places: u64,
}

pub(super) fn conv(step: &Step, _: &Context<'_>, emit: &mut Emit<'_>) -> Result<Option<Launch>> {
    let Op::Conv(op) = &step.op else { return Err(mismatch(step)) };
    let [x, w, bias @ ..] = step.operands.as_slice() else { return Err(mismatch(step)) };
    let y = &step.results[0];
    let (input, kernel, output) = (dims(&x.ty)?, dims(&w.ty)?, dims(&y.ty)?);
    if output.iter().product::<u64>() == 0 {
        return Ok(None);
    }
    let sizes = Sizes {
        batch: input[0],
        plane: input[2..].iter().product(),
        channels: input[1],
        filters: kernel[0],
        depth: kernel[1],
        own: kernel[0] / op.groups.max(1),
        taps: kernel[2..].iter().product(),
        places: output[2..].iter().product(),
    };
    let element = Element::of(y.ty.dtype);
    let element = element.ok_or_else(|| unsupported(format!("convolutions of {}", y.ty)))?;
    let mut words = Words::default();
    let mut functions = vec![element.helpers().to_owned()];
    for (name, x) in [("x", Some(x)), ("w", Some(w)), ("bias", bias.first())] {
        let Some(x) = x else { continue };
        let place = emit.read(x)?;
        let start = words.bits(place.word());
        functions.push(element.loader(name, &place, &start));
    }
    // A thread of a tile writes whole words, so halves come in pairs of places.
    let whole = sizes.places.is_multiple_of(element.per_word());
    let few = sizes.own == 1 || (sizes.own < 4 && op.groups > 1);
    let spatial = (&input[2..], &output[2..]);
    if few || !whole {
        let slide = sliding(&op.window, &kernel[2..], spatial, "u32", &mut words)?;
        return each(op, &sizes, y, slide, functions, words, emit);
    }
    let slide = sliding(&op.window, &kernel[2..], spatial, "vec4u", &mut words)?;
    tiled(op, &sizes, y, slide, functions, words, emit)
}

/// Every result on its own.
fn each(
    op: &Conv,
    s: &Sizes,
    y: &Slice,
    slide: Sliding,
    functions: Vec<String>,
    mut words: Words,
    emit: &mut Emit<'_>,
) -> Result<Option<Launch>> {
    let element = Element::of(y.ty.dtype).ok_or_else(|| unsupported(format!("{}", y.ty)))?;
    let (places, filters) = (words.size(s.places)?, words.size(s.filters)?);
    let (channels, plane) = (words.size(s.channels)?, words.size(s.plane)?);
    let (own, depth) = (words.size(s.own)?, words.size(s.depth)?);
    let taps = s.taps;
    let bias = if op.bias { "load_bias(o)" } else { "0.0" };
    let Sliding { places: at, taps: tap } = slide;
    let body = format!(
        "var rest = i % {places};\n    let row = i / {places};\n    let o = row % {filters};\n    \
         {at}let image = (row / {filters} * {channels} + o / {own} * {depth}) * {plane};\n    \
         var sum = {bias};\n    for (var t = 0u; t < {taps}u; t++) {{\n    var tap = t;\n    \
         var at = image;\n    var inside = true;\n    {tap}if !inside {{ continue; }}\n    \
         for (var c = 0u; c < {depth}; c++) {{\n    \
         sum += load_x(at + c * {plane}) * load_w((o * {depth} + c) * {taps}u + t);\n    }}\n    }}\n    \
         return {};",
        element.bits("sum")
    );
    Each {
        entry: "conv",
        head: [
            "conv        bias[o] + sum over c, t of x[n, c, p * stride + t * dilation - low] * w[o, c, t]".into(),
            format!("{}: x [N, C, ..], w [O, C / groups, k..], y [N, O, ..]", y.ty.dtype),
            "y's once; x's and w's once for each result that they are in, from caches".into(),
            "f32, tap by tap; rounded once to y's type".into(),
        ],
        functions,
        body,
        result: y,
        n: s.batch * s.filters * s.places,
        element,
    }
    .launch(words, emit)
}

/// A tile: how many filters and places a workgroup of 256 threads has, in quads of each thread, and how many products
/// of each result it loads at a time. All are below 16 KiB.
struct Tile {
    /// Threads along filters; the others are along places.
    rows: u64,
    /// Quads of filters and of places that a thread has.
    quads: [u64; 2],
    k: u64,
}

impl Tile {
    fn of(s: &Sizes, groups: u64) -> Tile {
        let columns = s.batch * s.places;
        let tiles = |m: u64, n: u64| groups * s.own.div_ceil(m) * columns.div_ceil(n);
        match s.own {
            0..=16 => Tile { rows: 4, quads: [1, 1], k: 8 },
            17..=32 => Tile { rows: 8, quads: [1, 1], k: 16 },
            33..=64 if tiles(64, 128) >= ENOUGH => Tile { rows: 16, quads: [1, 2], k: 8 },
            65.. if tiles(128, 128) >= ENOUGH => Tile { rows: 16, quads: [2, 2], k: 8 },
            _ => Tile { rows: 16, quads: [1, 1], k: 16 },
        }
    }
}

fn tiled(
    op: &Conv,
    s: &Sizes,
    y: &Slice,
    slide: Sliding,
    mut functions: Vec<String>,
    mut words: Words,
    emit: &mut Emit<'_>,
) -> Result<Option<Launch>> {
    let element = Element::of(y.ty.dtype).ok_or_else(|| unsupported(format!("{}", y.ty)))?;
    let tile = Tile::of(s, op.groups);
    let columns = s.batch * s.places;
    let (ty, tx) = (tile.rows, 256 / tile.rows);
    let [qm, qn] = tile.quads;
    let (mq, nq) = (ty * qm, tx * qn);
    let (tiles_m, tiles_n) = (s.own.div_ceil(4 * mq), columns.div_ceil(4 * nq));
    let groups = op.groups * tiles_m * tiles_n;
    let y_at = emit.write(y)?;
    let (var, start) = (&y_at.var, words.bits(y_at.word()));
    let n = words.size(columns)?;
    let (places, filters) = (words.size(s.places)?, words.size(s.filters)?);
    let per = element.per_word() as usize;
    let lanes = ["x", "y", "z", "w"];
    let mut stores = String::new();
    for pair in lanes.chunks(per) {
        let bits: Vec<String> = (0..per)
            .map(|e| match (e, element.bits(&format!("u.{}", pair[e]))) {
                (0, bits) => bits,
                (_, bits) => format!("({bits} << 16u)"),
            })
            .collect();
        stores += &format!(
            "if j.{0} < {n} {{ {var}[{start} + at.{0} / {per}u] = {1}; }}\n    ",
            pair[0],
            bits.join(" | ")
        );
    }
    let bias = if op.bias { " + load_bias(o)" } else { "" };
    functions.push(format!(
        "fn store(o: u32, first: u32, v: vec4f) {{\n    let j = first + vec4u(0u, 1u, 2u, 3u);\n    \
         let at = (j / {places} * {filters} + o) * {places} + j % {places};\n    \
         let u = v{bias};\n    {stores}}}\n"
    ));
    let (mut clear, mut read, mut add, mut store) =
        (String::new(), String::new(), String::new(), String::new());
    for h in 0..qm {
        read += &format!("let a{h} = tile_a[k * A + ty + {}u];\n    ", h * ty);
    }
    for h in 0..qn {
        read += &format!("let b{h} = tile_b[k * NQ + tx + {}u];\n    ", h * tx);
    }
    let (own, depth) = (words.size(s.own)?, words.size(s.depth * s.taps)?);
    for (h, lane) in (0..qm).flat_map(|h| lanes.map(|lane| (h, lane))) {
        let r = lanes.iter().position(|l| *l == lane).unwrap_or(0);
        store += &format!("if m + {}u < {own} {{\n    ", h * ty * 4 + r as u64);
        for v in 0..qn {
            clear += &format!("var s{h}{lane}{v} = vec4f();\n    ");
            add += &format!("s{h}{lane}{v} += a{h}.{lane} * b{v};\n    ");
            store += &format!(
                "store(g * {own} + m + {}u, n0 + (tx + {}u) * 4u, s{h}{lane}{v});\n    ",
                h * ty * 4 + r as u64,
                v * tx
            );
        }
        store += "}\n    ";
    }
    let number = |n: u64| n.to_string();
    let wgsl = fill(
        wgsl!("conv.wgsl"),
        &[
            ("type", y.ty.dtype.name()),
            ("bindings", &emit.bindings()),
            ("tile_m", &number(4 * mq)),
            ("tile_n", &number(4 * nq)),
            ("mq", &number(mq)),
            ("nq", &number(nq)),
            ("k_tile", &number(tile.k)),
            ("tx", &number(tx)),
            ("size_a", &number(tile.k * (mq + 1))),
            ("size_b", &number(tile.k * nq)),
            ("groups", &words.size(groups)?),
            ("tiles_m", &words.size(tiles_m)?),
            ("tiles_n", &words.size(tiles_n)?),
            ("n", &n),
            ("m", &own),
            ("k", &depth),
            ("taps", &number(s.taps)),
            ("images", &words.size(s.channels * s.plane)?),
            ("group", &words.size(s.depth * s.plane)?),
            ("plane", &words.size(s.plane)?),
            ("places", &places),
            ("start", &slide.places),
            ("tap", &slide.taps),
            ("clear", &clear),
            ("read", &read),
            ("add", &add),
            ("store", &store),
            ("functions", &once(functions)),
        ],
    );
    if words.0.len() > MOST_WORDS {
        return Err(unsupported("convolutions of so many axes".into()));
    }
    Ok(Some(Launch { wgsl, entry: "conv", words: words.0, groups }))
}
