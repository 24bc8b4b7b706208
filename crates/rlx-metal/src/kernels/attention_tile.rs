//! Attention of a prompt's rows, whole and in splits, by matrices of a SIMD group.

use super::{Buffers, HEAD, fill};
use crate::msl::{LANGUAGE, Text};
use rlx_webgpu::gpu::Form;

const THREADS: u32 = 128;
/// Positions of a step.
const POSITIONS: u32 = 32;
/// Elements of a head at most: more are more sums than a lane has registers for.
const MOST: u32 = 128;
/// Bytes of what each of the four SIMD groups has of its own.
const OWN: u32 = 4 * (8 * (POSITIONS + 4) + 64) * 4;
/// Positions of a split are a multiple of it.
const BLOCK: usize = rlx_core::ops::AttentionSplit::BLOCK;

/// Which positions a threadgroup has, of whole attention: all that its rows see.
const START: &str = "    uint row0 = place * TILE;
    if (row0 >= len) return;
    uint first = past + row0 - metal::min(past + row0, step.window);
    uint end = {{end}};";
/// The same of splits, which the tiles that have rows share.
const START_SPLIT: &str = "    uint splits = step.places / metal::max((len + TILE - 1u) / TILE, 1u);
    uint row0 = place / splits * TILE;
    if (row0 >= len) return;
    uint end_of_all = {{end}};
    uint start_of_all = past + row0 - metal::min(past + row0, step.window);
    uint seen = metal::max(end_of_all, start_of_all) - start_of_all;
    uint each = (metal::max(step.least, (seen + splits - 1u) / splits) + {{block}}u - 1u) / {{block}}u * {{block}}u;
    uint first = metal::min(start_of_all + place % splits * each, end_of_all);
    uint end = metal::min(first + each, end_of_all);
    if (first >= end) {
        uint none = metal::min(TILE, len - row0) * GROUP;
        if (index < none) {
            device uint* stats = (device uint*){{stats}} + step.stats + (ulong(at) * TILE * GROUP + index) * 2u;
            stats[0] = 0xff800000u;
            stats[1] = 0u;
        }
        return;
    }";
const KEEP: &str = "if (part == 0u && own_query < live) {
        device float* stats = (device float*){{stats}} + step.stats + (ulong(at) * TILE * GROUP + own_query) * 2u;
        stats[0] = most <= -2.9e38f ? as_type<float>(0xff800000u) : most;
        stats[1] = total;
    }";

/// The text of attention in this form; none for heads or caches that it does not have.
pub(super) fn text(form: &Form) -> Option<Text> {
    let number = |name: &str| form.get(name)?.parse::<u32>().ok();
    let (cache, bytes) = match form.get("kv")? {
        "f16" => ("half", 2),
        "f32" => ("float", 4),
        // q8_0 and q4_0 are WGSL's.
        _ => return None,
    };
    let e = number("e").filter(|e| e.is_multiple_of(8) && (8..=MOST).contains(e))?;
    let mut buffers = Buffers::default();
    let y = buffers.written(form.get("y")?)?;
    let stats = match form.get("stats")? {
        "" => None,
        name => Some(buffers.written(name)?),
    };
    let [ctl, q, k, v] = ["ctl", "q", "k", "v"].map(|name| buffers.read(form.get(name)?));
    let sinks = buffers.maybe(form.get("sinks")?)?;
    let block_end = |position: &str| match number("block") {
        Some(1) => Some(format!("({position}) + 1u")),
        Some(b) => Some(format!("({position}) / {b}u * {b}u + {b}u")),
        None => None,
    };
    let ring = form.get("ring")? == "true";
    let end = format!(
        "metal::min({}, past + len)",
        block_end("past + metal::min(row0 + TILE, len) - 1u")?
    );
    let end = if ring { end } else { format!("metal::min({end}, step.capacity)") };
    let block = BLOCK.to_string();
    let values =
        [("end", end.as_str()), ("block", &block), ("stats", stats.as_deref().unwrap_or(""))];
    let (start, keep, store) = match &stats {
        None => (
            START,
            "",
            "ulong row = row0 + n / GROUP;
                uint head = kv_head * GROUP + n % GROUP;
                y[(row * step.heads + head) * E + d] = scores[r * SCORES + lane] / diagonal[r];",
        ),
        Some(_) => (
            START_SPLIT,
            KEEP,
            "y[(ulong(at) * TILE * GROUP + n) * E + d] = scores[r * SCORES + lane];",
        ),
    };
    let sink = sinks.map_or(String::new(), |sinks| {
        format!(
            "uint head = kv_head * GROUP + own_query % GROUP;\n    \
             if (own_query < live) most = ((device const float*){sinks})[step.sinks + head];\n    \
             if (part == 0u) total = 1.0f;"
        )
    });
    let kernel = fill(
        include_str!("attention_tile.metal"),
        &[
            ("cache", cache),
            ("e", form.get("e")?),
            ("group", form.get("group")?),
            ("tile", form.get("tile")?),
            ("entry", form.name),
            ("buffers", &buffers.parameters()),
            ("row", if ring { "(position % capacity)" } else { "position" }),
            ("ctl", &ctl?),
            ("q", &q?),
            ("k", &k?),
            ("v", &v?),
            ("y", &y),
            ("start", &fill(start, &values)?),
            ("keep", &fill(keep, &values)?),
            ("store", store),
            ("sink", &sink),
            ("block_end", &block_end("own")?),
            (
                "cap",
                if form.get("softcap")? == "true" { "x = capped(x, step.softcap);" } else { "" },
            ),
        ],
    )?;
    let tile = POSITIONS * (e + 8) * bytes;
    let (text, entry) = (format!("{HEAD}{kernel}"), format!("own_{}", form.name));
    Some(Text {
        text,
        language: LANGUAGE,
        entry,
        threads: THREADS,
        memory: vec![tile, OWN],
        sizes: Vec::new(),
    })
}
