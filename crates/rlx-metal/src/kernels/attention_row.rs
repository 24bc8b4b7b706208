//! Attention of one row, which decoding waits for: whole, or in splits that may rotate and write the row's own key.

use super::{Buffers, HEAD, fill};
use crate::msl::{LANGUAGE, Text};
use rlx_webgpu::gpu::Form;

const THREADS: u32 = 128;
const LANES: u32 = crate::gpu::LANES;
/// Elements of a head at most: a lane has eight.
const MOST: u32 = 8 * LANES;
/// Query heads of a SIMD group, whose queries and sums are in registers, where they divide.
const HEADS: u32 = 4;
/// Positions of a split are a multiple of it.
const BLOCK: usize = rlx_core::ops::AttentionSplit::BLOCK;

const STEP: &str = "struct Step {
    uint heads, rows, group, capacity, q, k, v, y, ctl;
    float scale;
    uint window;
    float softcap;
    uint sinks;
};
";
const STEP_SPLIT: &str = "struct Step {
    uint splits, least, capacity, q, acc, stats, ctl;
    float scale;
    uint window;
    float softcap;
    uint rows, k, v, new_k, new_v, table, half_dims, low_rows;
    float eps;
    uint q_norm, k_norm;
};
";

/// All positions that the row sees.
const START: &str = "    if (at >= step.heads || len == 0u) return;
    uint start = past - metal::min(past, step.window), end = {{end}};
    ulong head_at = ulong(at / step.group) * step.capacity * E;
    {{device}} cache_t* keys = ({{device}} cache_t*)((device const uint*){{k}} + step.k) + head_at;
    {{device}} cache_t* values = ({{device}} cache_t*)((device const uint*){{v}} + step.v) + head_at;
    for (uint i = index; i < E; i += 128u) {
        query[i] = step.scale * ((device const float*){{q}})[step.q + at * E + i];
    }";
/// Those of a split. One that has none says so.
const START_SPLIT: &str = "    if (at >= step.rows) return;
    uint kv_head = at / step.splits, j = at % step.splits;
    uint end_of_all = {{end}}, start_of_all = past - metal::min(past, step.window);
    uint seen_in_all = metal::max(end_of_all, start_of_all) - start_of_all;
    uint each = metal::max(step.least, (seen_in_all + step.splits - 1u) / step.splits);
    each = (each + {{block}}u - 1u) / {{block}}u * {{block}}u;
    uint start = metal::min(start_of_all + j * each, end_of_all), end = metal::min(start + each, end_of_all);
    device float* out_acc = (device float*){{y}} + step.acc + ulong(at) * GROUP * E;
    device float* out_stats = (device float*){{y}} + step.stats + ulong(at) * GROUP * 2u;
    if (start >= end || len == 0u) {
        for (uint i = index; i < GROUP * E; i += 128u) out_acc[i] = 0.0f;
        if (index < GROUP) {
            out_stats[index * 2u] = as_type<float>(0xff800000u);
            out_stats[index * 2u + 1u] = 0.0f;
        }
        return;
    }
    ulong head_at = ulong(kv_head) * step.capacity * E;
    {{device}} cache_t* keys = ({{device}} cache_t*)(({{device}} uint*){{k}} + ulong(step.k) * 4u) + head_at;
    {{device}} cache_t* values = ({{device}} cache_t*)(({{device}} uint*){{v}} + ulong(step.v) * 4u) + head_at;
    device const float* queries = (device const float*){{q}} + step.q + kv_head * GROUP * E;
    {{query}}";
const QUERY: &str =
    "for (uint i = index; i < GROUP * E; i += 128u) query[i] = step.scale * queries[i];";
/// Norms and rotates; the split of the row's position writes its key and value.
const QUERY_ROPE: &str = "device const float* new_k = (device const float*){{new_k}} + step.new_k + kv_head * E;
    device const float* new_v = (device const float*){{new_v}} + step.new_v + kv_head * E;
    device const float* table = (device const float*){{table}} + step.table;
    {{norms}}
    for (uint i = index; i < GROUP * E; i += 128u) {
        uint h = i / E;
        query[i] = step.scale * turned(queries + h * E, q_norm, NORM ? inverse_rms[h] : 1.0f, table, past,
                                       step.low_rows, step.half_dims, i % E);
    }
    if (ctl[4] == 0u && past >= start && past < end) {
        uint position = past;
        ulong to = ulong({{row}}) * E;
        // The last threads first: the first ones have turned more of the queries.
        for (uint i = 127u - index; i < E; i += 128u) {
            keys[to + i] = cache_t(turned(new_k, k_norm, NORM ? inverse_rms[GROUP] : 1.0f, table, past, step.low_rows,
                                          step.half_dims, i));
            values[to + i] = cache_t(new_v[i]);
        }
    }";
const NORMS: &str = "device const float* q_norm = (device const float*){{q_norm}} + step.q_norm;
    device const float* k_norm = (device const float*){{k_norm}} + step.k_norm;
    for (uint h = simd; h <= GROUP; h += 4u) {
        float squares = 0.0f;
        for (uint i = lane; i < E; i += 32u) {
            float x = h < GROUP ? queries[h * E + i] : new_k[i];
            squares += x * x;
        }
        squares = metal::simd_sum(squares);
        if (lane == 0u) inverse_rms[h] = metal::rsqrt(squares / float(E) + step.eps);
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);";
const NO_NORMS: &str = "device const float* q_norm = queries;
    device const float* k_norm = queries;";

/// The text of attention in this form; none for heads or caches that it does not have.
pub(super) fn text(form: &Form) -> Option<Text> {
    let number = |name: &str| form.get(name)?.parse::<u32>().ok();
    let (cache, whole) = (form.get("kv")?, form.name == "attention");
    let cache = match cache {
        "f16" => "half",
        "f32" => "float",
        // q8_0 and q4_0 are WGSL's.
        _ => return None,
    };
    let e = number("e").filter(|e| e.is_multiple_of(8) && (8..=MOST).contains(e))?;
    let group = if whole { 1 } else { number("group").filter(|g| (1..=8).contains(g))? };
    // More heads than registers are two SIMD groups'.
    let heads = if group > HEADS && group.is_multiple_of(2) { group / 2 } else { group };
    let ring = form.get("ring")? == "true";
    let rope = form.name == "rope_attention_split";
    let mut buffers = Buffers::default();
    let y = buffers.written(form.get("y")?)?;
    let [ctl, q] = ["ctl", "q"].map(|name| buffers.read(form.get(name)?));
    let (ctl, q) = (ctl?, q?);
    let mut cached = |name: &str| {
        let bound = form.get(name)?;
        if rope { buffers.written(bound) } else { buffers.read(bound) }
    };
    let (k, v) = (cached("k")?, cached("v")?);
    let sinks = if whole { buffers.maybe(form.get("sinks")?)? } else { None };
    let end = match number("block")? {
        1 => "past + 1u".to_string(),
        b => format!("past / {b}u * {b}u + {b}u"),
    };
    // One row is all of a submission.
    let end = format!("metal::min({end}, past + 1u)");
    let end = if ring { end } else { format!("metal::min({end}, step.capacity)") };
    let block = BLOCK.to_string();
    let row = if ring { "(position % step.capacity)" } else { "position" };
    let device = if rope { "device" } else { "device const" };

    let (mut functions, mut query) = (String::new(), QUERY.to_string());
    if rope {
        let bound = |name: &str, buffers: &mut Buffers| buffers.read(form.get(name)?);
        let [new_k, new_v, table] =
            ["new_k", "new_v", "table"].map(|name| bound(name, &mut buffers));
        let norms = match form.get("q_norm")? {
            "" => NO_NORMS.to_string(),
            _ => {
                let [q, k] = ["q_norm", "k_norm"].map(|name| bound(name, &mut buffers));
                fill(NORMS, &[("q_norm", &q?), ("k_norm", &k?)])?
            }
        };
        let normed = norms != NO_NORMS;
        let (partner, pair, is_first) = match form.get("style")? {
            "adjacent" => ("d ^ 1u", "d / 2u", "d % 2u == 0u"),
            _ => (
                "d < half_dims ? d + half_dims : d - half_dims",
                "d < half_dims ? d : d - half_dims",
                "d < half_dims",
            ),
        };
        let turn = [("partner", partner), ("pair", pair), ("is_first", is_first)];
        functions = format!(
            "constexpr constant bool NORM = {normed};\n{}",
            fill(include_str!("rope.metal"), &turn)?
        );
        let values = [
            ("new_k", new_k?),
            ("new_v", new_v?),
            ("table", table?),
            ("norms", format!("threadgroup float* inverse_rms = tops;\n    {norms}")),
            ("row", row.to_string()),
        ];
        query = fill(QUERY_ROPE, &values.each_ref().map(|(name, text)| (*name, text.as_str())))?;
    }
    let values = [
        ("end", end.as_str()),
        ("device", device),
        ("k", &k),
        ("v", &v),
        ("q", &q),
        ("y", &y),
        ("block", &block),
        ("query", &query),
    ];
    let (step, start) = if whole { (STEP, START) } else { (STEP_SPLIT, START_SPLIT) };
    let (store, keep) = match whole {
        true => {
            (format!("((device float*){y})[step.y + at * E + i % E] = sum / all;"), String::new())
        }
        false => (
            "out_acc[g * E + i % E] = sum;
            if (i % E == 0u) out_stats[g * 2u + 1u] = all;"
                .into(),
            "if (simd < PARTS && lane == 0u) out_stats[(part * HEADS + h) * 2u] = most[h];".into(),
        ),
    };
    let sink = sinks.map_or(String::new(), |sinks| {
        format!(
            "if (team == 0u) {{\n        most[0] = ((device const float*){sinks})[step.sinks + at];\n        \
             total[0] = 1.0f;\n    }}"
        )
    });
    let team = (e / 8).next_power_of_two();
    let text = |n: u32| n.to_string();
    let kernel = fill(
        include_str!("attention_row.metal"),
        &[
            ("step", step),
            ("cache", cache),
            ("e", &text(e)),
            ("group", &text(group)),
            ("heads", &text(heads)),
            ("team", &text(team)),
            ("functions", &functions),
            ("entry", form.name),
            ("buffers", &buffers.parameters()),
            ("ctl", &ctl),
            ("start", &fill(start, &values)?),
            ("sink", &sink),
            ("row", row),
            (
                "cap",
                if form.get("softcap")? == "true" {
                    "s[u] = capped(s[u], step.softcap);"
                } else {
                    ""
                },
            ),
            ("store", &store),
            ("keep", &keep),
        ],
    )?;
    let (text, entry) = (format!("{HEAD}{kernel}"), format!("own_{}", form.name));
    // Queries; sums of a head of each SIMD group; maxima of all heads of each, or inverses of roots.
    let memory = vec![4 * group * e, 16 * e, 4 * (4 * heads).max(group + 1).next_multiple_of(4)];
    Some(Text { text, language: LANGUAGE, entry, threads: THREADS, memory, sizes: Vec::new() })
}
