//! A thread scores a position for all heads of the group: the form without subgroups.

use super::{Split, THREADS};
use crate::kernels::emit::fill;

pub(super) fn wgsl(p: &Split, shared: &[(&str, &str)]) -> String {
    let slices = (THREADS / p.quads).to_string();
    let n = p.halves().len();
    let unpacked: Vec<String> = p
        .halves()
        .iter()
        .map(|(name, text)| format!("let {name} = {};", text.replace('@', "w")))
        .collect();
    let score = p.each(&|g| {
        let dot =
            |h: usize, name: &str| format!("dot(query[{g}u * FOURS + {n}u * d + {h}u], {name})");
        format!("s{g} += {};", p.joined(" + ", &dot))
    });
    let add = p.each(&|g| {
        let sums = p.joined(" ", &|_, name| format!("acc{g}_{name} += w{g} * {name};"));
        format!("let w{g} = weights[{g}u * THREADS + i]; {sums}")
    });
    let fade = p.each(&|g| {
        let acc = p.joined(" ", &|_, name| format!("acc{g}_{name} *= fade{g};"));
        format!(
            "let highest{g} = most_of({g}u, most{g});\n        let fade{g} = exp(most{g} - highest{g});\n        \
             most{g} = highest{g};\n        let w{g} = select(0.0, exp(s{g} - highest{g}), position < end);\n        \
             weights[{g}u * THREADS + thread] = w{g};\n        total{g} = total{g} * fade{g} + w{g}; {acc}"
        )
    });
    let out = &p.out;
    let finish = p.each(&|g| {
        let keep = p.joined(" ", &|h, name| {
            format!("sums[slice * FOURS + lane * {n}u + {h}u] = acc{g}_{name};")
        });
        format!(
            "if slice < SLICES {{ {keep} }}\n    workgroupBarrier();\n    \
             for (var d = thread; d < FOURS; d += THREADS) {{\n        var y = vec4f();\n        \
             for (var i = 0u; i < SLICES; i++) {{ y += sums[i * FOURS + d]; }}\n        \
             let at = step.acc + (row * GROUP + {g}u) * E + d * 4u;\n        \
             let bits = bitcast<vec4u>(y);\n        \
             {out}[at] = bits.x; {out}[at + 1u] = bits.y; {out}[at + 2u] = bits.z; {out}[at + 3u] = bits.w;\n    }}\n    \
             workgroupBarrier();"
        )
    });
    let state = p.each(&|g| format!("var most{g} = -3.0e38; var total{g} = 0.0;"))
        + "\n        "
        + &p.each(&|g| p.joined(" ", &|_, name| format!("var acc{g}_{name} = vec4f();")));
    let keep_scores = p.each(&|g| {
        format!("weights[{g}u * THREADS + thread] = select(-3.0e38, s{g}, position < end);")
    });
    let cap = if p.softcap { p.each(&|g| format!("s{g} = capped(s{g});")) } else { String::new() };
    let keep_most = p.each(&|g| {
        format!("{out}[step.stats + (row * GROUP + {g}u) * 2u] = bitcast<u32>(most{g});")
    });
    let own = [
        ("slices", slices),
        ("key", p.piece("k", "k + d")),
        ("key_row", p.held.row("position")),
        ("value", p.piece("v", &format!("cache + {} * QUADS + lane", p.held.row("(first + i)")))),
        ("halves", unpacked.join("\n                ")),
        ("state", state),
        ("no_scores", p.each(&|g| format!("var s{g} = 0.0;"))),
        ("score", score),
        ("cap", cap),
        ("keep_scores", keep_scores),
        ("fade", fade),
        ("add", add),
        ("keep_totals", p.each(&|g| format!("weights[{g}u * THREADS + thread] = total{g};"))),
        ("keep_most", keep_most),
        ("finish", finish),
    ];
    let mut values = shared.to_vec();
    values.extend(own.iter().map(|(name, text)| (*name, text.as_str())));
    fill(wgsl!("rows.wgsl"), &values)
}
