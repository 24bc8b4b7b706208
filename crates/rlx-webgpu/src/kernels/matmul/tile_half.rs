//! Several rows of x in products of 16-bit floats, where the device has them and the tuning takes them.
//!
//! Rows of x have elements beyond the range of f16, and sums leave it sooner: so of every 32 elements both
//! factors are divided by the largest of x, and by a bound of a weight's. No product is then above 1. A sum of 8
//! of them is an f16, and everything beyond an f32 that is multiplied by both scales.

use super::tile::{columns, store};
use super::{Context, Emit, Launch, Parts};
use crate::kernels::emit::fill;
use crate::kernels::formats;
use rlx_core::Result;

/// Rows of x in a tile.
const TILE_M: u64 = 64;
/// Rows of x and columns that a thread has.
const ROWS: u64 = 4;
const COLUMNS: u64 = 8;

pub(super) fn launch(p: &Parts, cx: &Context<'_>, emit: &mut Emit<'_>) -> Result<Launch> {
    let columns = columns(p);
    let (words, tiles) = p.words(columns)?;
    let (rows_len, skip) = cx.skip_rows(p.m, "m0", emit);
    let decode = p.switch("s", |kind| {
        let r = &kind.reader;
        match kind.dtype.is_block() {
            true => format!("return packed(unpack_{r}(at, chunk));"),
            false => format!("return scalars(decode_{r}(at, chunk));"),
        }
    });
    let w = if p.glu {
        "read_w(thread / 32u, n0 + thread % 32u, c)"
    } else {
        "read_w(s, n0 + thread, c)"
    };
    let lines = |n: u64, f: &dyn Fn(u64) -> String| {
        (0..n).map(f).collect::<Vec<_>>().join("\n            ")
    };
    let declare = lines(ROWS, &|i| {
        (0..COLUMNS).map(|j| format!("var h{i}{j} = vec4h(); ")).collect::<String>()
    });
    let products = [
        lines(ROWS, &|i| format!("let x{i} = xs[(tm + {}u) * 9u + q];", 16 * i)),
        lines(COLUMNS, &|j| {
            let add = |i: u64| format!("h{i}{j} += x{i} * w{j}; ");
            let add = (0..ROWS).map(add).collect::<String>();
            format!("let w{j} = ws[(tn + {}u) * 9u + q]; {add}", 8 * j)
        }),
    ];
    let add = lines(ROWS, &|i| {
        let sums = |from: u64| {
            let four = (from..from + 4).map(|j| format!("sum(h{i}{j})"));
            four.collect::<Vec<_>>().join(", ")
        };
        format!(
            "let s{i} = x_scales[tm + {}u]; low{i} += s{i} * low * vec4f({}); high{i} += s{i} * high * vec4f({});",
            16 * i,
            sums(0),
            sums(4)
        )
    });
    let wgsl = fill(
        wgsl!("tile_half.wgsl"),
        &[
            ("step", wgsl!("step.wgsl")),
            ("bindings", &emit.bindings()),
            ("common", formats::COMMON),
            ("readers", &p.readers.text),
            ("activations", &p.quads()?),
            ("finish", &p.finish()),
            ("rows_len", rows_len),
            ("decode", &decode),
            ("store", &store(p)?),
            ("skip", &skip),
            ("columns", &columns.to_string()),
            ("w", w),
            ("declare", &declare),
            ("products", &products.join("\n            ")),
            ("add", &add),
        ],
    );
    #[cfg(not(target_family = "wasm"))]
    {
        let control = cx.counted(p.m, emit).unwrap_or_default();
        emit.form = Some(p.form("matmul_tile_half", &[("control", control)])?);
    }
    let groups = tiles * p.m.div_ceil(TILE_M);
    Ok(Launch { wgsl, entry: "matmul_tile_half", words, groups })
}
