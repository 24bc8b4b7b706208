//! A team of lanes shares a position, 16 bytes of its key and value each: the form with subgroups. Rows
//! of the cache are read in order and all of a team's loads are on their way at once; nothing but the end
//! waits for other threads.

use super::{Split, THREADS};
use crate::kernels::Context;
use crate::kernels::emit::fill;

/// Positions whose keys and values are on their way at a time. Four were slower, and more registers.
const UNROLL: u64 = 2;
/// Bytes of the workgroup's memory for sums, of the 16 KiB that every device has.
const SUMS: u64 = 8192;

/// Lanes that shuffle, if a team is whole among them.
pub(super) fn lanes(p: &Split, cx: &Context<'_>) -> Option<u64> {
    let lanes = u64::from(cx.wgsl.lanes());
    let whole = p.quads.is_power_of_two() && p.quads > 1 && p.quads <= lanes;
    (whole && lanes.is_power_of_two()).then_some(lanes)
}

pub(super) fn wgsl(p: &Split, subgroup: u64, cx: &Context<'_>, shared: &[(&str, &str)]) -> String {
    let n = p.halves().len();
    let subgroups = THREADS / subgroup;
    let heads = (SUMS / (subgroups * p.e * 4)).clamp(1, p.group);
    let lines = |n: u64, line: &dyn Fn(u64) -> String| {
        (0..n).map(line).collect::<Vec<_>>().join("\n        ")
    };
    // `fold` of what lanes `from` to `to` apart have in `value`.
    let exchange = |value: &str, from: u64, to: u64, fold: &dyn Fn(&str, String) -> String| {
        let mut text = String::new();
        let mut mask = from;
        while mask < to {
            let other = format!("subgroupShuffleXor({value}, {mask}u)");
            text += &format!("{value} = {}; ", fold(value, other));
            mask *= 2;
        }
        text
    };
    let sum = |a: &str, b: String| format!("{a} + {b}");
    let most = |a: &str, b: String| format!("max({a}, {b})");

    let queries = p.each(&|g| {
        p.joined(" ", &|h, name| {
            format!("let q{g}_{name} = query[{g}u * FOURS + lane * {n}u + {h}u];")
        })
    });
    let state = p.each(&|g| {
        let acc = p.joined(" ", &|_, name| format!("var acc{g}_{name} = vec4f();"));
        format!("var most{g} = -3.0e38; var total{g} = 0.0; {acc}")
    });
    let loads = lines(UNROLL, &|u| {
        format!(
            "let p{u} = first + {u}u * TEAMS + team; let at{u} = cache + {} * QUADS + lane;\n        \
             let k{u} = {}; let v{u} = {};",
            p.held.row(&format!("min(p{u}, end - 1u)")),
            p.piece("k", &format!("at{u}")),
            p.piece("v", &format!("at{u}"))
        )
    });
    let unpacked = |what: &str, u: u64| {
        let halves = p.halves().iter();
        let lines = halves.map(|(name, text)| {
            format!("let {what}{u}_{name} = {};", text.replace('@', &format!("{what}{u}")))
        });
        lines.collect::<Vec<_>>().join(" ")
    };
    let scores = lines(UNROLL, &|u| {
        let one = |g: u64| {
            let dots = p.joined(" + ", &|_, name| format!("dot(q{g}_{name}, k{u}_{name})"));
            let s = format!("s{g}_{u}");
            let cap = if p.softcap { format!("{s} = capped({s}); ") } else { String::new() };
            format!(
                "var {s} = {dots}; {}{cap}{s} = select(-3.0e38, {s}, p{u} < end);",
                exchange(&s, 1, p.quads, &sum)
            )
        };
        format!("{}\n        {}", unpacked("k", u), p.each(&one))
    });
    let weigh = p.each(&|g| {
        let all = (0..UNROLL).fold(format!("most{g}"), |top, u| format!("max({top}, s{g}_{u})"));
        let weights: String = (0..UNROLL)
            .map(|u| format!(" let w{g}_{u} = select(0.0, exp(s{g}_{u} - top{g}), p{u} < end);"))
            .collect();
        let added: String = (0..UNROLL).map(|u| format!(" + w{g}_{u}")).collect();
        let acc = p.joined(" ", &|_, name| format!("acc{g}_{name} *= fade{g};"));
        format!(
            "let top{g} = {all}; let fade{g} = exp(most{g} - top{g}); most{g} = top{g};{weights}\n        \
             total{g} = total{g} * fade{g}{added}; {acc}"
        )
    });
    let add = lines(UNROLL, &|u| {
        let one =
            |g: u64| p.joined(" ", &|_, name| format!("acc{g}_{name} += w{g}_{u} * v{u}_{name};"));
        format!("{}\n        {}", unpacked("v", u), p.each(&one))
    });
    let share_tops = p.each(&|g| {
        format!(
            "var top{g} = most{g}; {}\n        if thread % SUBGROUP == 0u {{ tops[{g}u * SUBGROUPS + subgroup] = top{g}; }}",
            exchange(&format!("top{g}"), p.quads, subgroup, &most)
        )
    });
    let fade = p.each(&|g| {
        let acc = p.joined(" ", &|_, name| format!("acc{g}_{name} *= fade{g};"));
        format!("let fade{g} = exp(most{g} - top_of({g}u)); total{g} *= fade{g}; {acc}")
    });
    let share_sums = p.each(&|g| {
        let acc = p.joined("", &|_, name| {
            exchange(&format!("acc{g}_{name}"), p.quads, subgroup, &sum)
        });
        format!(
            "{}{acc}\n        if thread % SUBGROUP == 0u {{ totals[{g}u * SUBGROUPS + subgroup] = total{g}; }}",
            exchange(&format!("total{g}"), p.quads, subgroup, &sum)
        )
    });
    // As many heads at a time as the memory holds.
    let out = &p.out;
    let finish: Vec<String> = (0..p.group)
        .step_by(heads as usize)
        .map(|first| {
            let here = heads.min(p.group - first);
            let keep: String = (0..here)
                .map(|i| {
                    let g = first + i;
                    p.joined(" ", &|h, name| {
                        format!(
                            "sums[(subgroup * HEADS + {i}u) * FOURS + lane * {n}u + {h}u] = acc{g}_{name};"
                        )
                    }) + " "
                })
                .collect();
            format!(
                "if thread % SUBGROUP < QUADS {{ {keep}}}\n    workgroupBarrier();\n    \
                 for (var d = thread; d < {here}u * FOURS; d += THREADS) {{\n        var y = vec4f();\n        \
                 for (var i = 0u; i < SUBGROUPS; i++) {{ y += sums[i * HEADS * FOURS + d]; }}\n        \
                 let at = step.acc + (row * GROUP + {first}u) * E + d * 4u;\n        \
                 let bits = bitcast<vec4u>(y);\n        \
                 {out}[at] = bits.x; {out}[at + 1u] = bits.y; {out}[at + 2u] = bits.z; {out}[at + 3u] = bits.w;\n    }}\n    \
                 workgroupBarrier();"
            )
        })
        .collect();
    let own = [
        ("enable", if cx.wgsl.enable_subgroups { "enable subgroups;" } else { "" }.into()),
        ("lanes", p.quads.to_string()),
        ("unroll", UNROLL.to_string()),
        ("subgroup", subgroup.to_string()),
        ("heads", heads.to_string()),
        ("queries", queries),
        ("state", state),
        ("loads", loads),
        ("scores", scores),
        ("weigh", weigh),
        ("add", add),
        ("share_tops", share_tops),
        ("fade", fade),
        ("share_sums", share_sums),
        ("finish", finish.join("\n    ")),
    ];
    let mut values = shared.to_vec();
    values.extend(own.iter().map(|(name, text)| (*name, text.as_str())));
    fill(wgsl!("teams.wgsl"), &values)
}
