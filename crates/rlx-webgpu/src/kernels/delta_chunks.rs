//! The form of `gated_delta_net` and `delta_net` for prompts: rows in chunks, whose changes of a head's matrix
//! are found together and applied at once. What is measured of it, and why one launch is enough:
//! `docs/decisions/2026-11-25-chunked-delta-rule.md`.

/// Columns of a matrix that a workgroup has, and parts that it cuts a column in, each a thread's.
pub(super) const TILE: u64 = 16;
pub(super) const PARTS: u64 = 8;
/// Rows of a chunk: a thread that has one part of a column has the value of one row, too.
const CHUNK: u64 = PARTS;
/// The longest key: a chunk's keys and queries are in a workgroup's memory, of which WebGPU has 16 KiB.
const LONGEST: u64 = 128;
/// A step of fewer rows goes row by row.
const FEWEST: u64 = 16;

/// Whether a step of so many rows, whose keys have `n` numbers, goes in chunks.
pub(super) fn suit(rows: u64, n: u64) -> bool {
    rows >= FEWEST && n <= LONGEST
}

/// What the text has beside what the form for single rows has, too.
///
/// A thread's part of a column is in variables `m0`, `m1`, ..., of four numbers each: an array that a loop
/// walks may end up in memory.
pub(super) fn texts(n: u64) -> Vec<(&'static str, String)> {
    let each = n.div_ceil(4 * PARTS);
    let quads = |line: &dyn Fn(u64) -> String| (0..each).map(line).collect::<Vec<_>>().join("\n");
    let numbers =
        |of: &dyn Fn(u64) -> String, with: &str| (0..4).map(of).collect::<Vec<_>>().join(with);
    let load = quads(&|e| {
        let cell = |i: u64| format!("cell(matrix, (first + {e}u) * 4u + {i}u, inside)");
        format!("var m{e} = vec4f({});", numbers(&cell, ", "))
    });
    let store = quads(&|e| {
        let keep = |i: u64| format!("keep(matrix, (first + {e}u) * 4u + {i}u, m{e}[{i}]);");
        numbers(&keep, "\n")
    });
    vec![
        ("chunk", CHUNK.to_string()),
        ("each", each.to_string()),
        ("load", load),
        ("store", store),
        (
            "dots",
            quads(&|e| {
                format!("sum += vec2f(dot(m{e}, keys[at + {e}u]), dot(m{e}, queries[at + {e}u]));")
            }),
        ),
        ("fade", quads(&|e| format!("m{e} *= decay;"))),
        ("change", quads(&|e| format!("m{e} += keys[at + {e}u] * change;"))),
        ("solve", solve()),
    ]
}

/// Forward substitution of one column: a row's `d` is less what earlier rows of the chunk changed.
fn solve() -> String {
    let mut text = String::new();
    for c in 0..CHUNK {
        text += &format!("let d{c} = sums[{c}u * TILE + thread].x");
        for j in 0..c {
            text += &format!(" - between[{}u].x * d{j}", c * CHUNK + j);
        }
        text += &format!(";\nsums[{c}u * TILE + thread].x = d{c};\n");
    }
    text
}
