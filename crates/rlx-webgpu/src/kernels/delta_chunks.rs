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

/// Values of the placeholders that only this form's text has.
pub(super) fn texts() -> Vec<(&'static str, String)> {
    vec![("chunk", CHUNK.to_string()), ("solve", solve())]
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
