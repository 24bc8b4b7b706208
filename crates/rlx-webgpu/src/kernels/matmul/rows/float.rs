//! A row of x as it is, in f32.

use super::{Form, Parts, SHARE, Team};
use crate::kernels::emit::fill;
use crate::kernels::formats::{self, Offset};

/// Bytes of memory that every workgroup has.
const MEMORY: u64 = 16 << 10;
/// Bytes of a share.
const BYTES: u64 = 4 * SHARE;
/// Bytes that declarations of arrays of floats lose to alignment, at most.
const SLACK: u64 = 64;

/// The form of a workgroup whose teams have `sums` sums each. Rows longer than its memory come in spans.
pub(super) fn form(p: &Parts, team: &Team, sums: u64) -> Form {
    let groups = team.threads / team.shuffled;
    let others =
        4 * (super::scratch(team, sums) + team.threads / team.lanes * sums + groups) + SLACK;
    // A table of a row more than it has shares, at most.
    let most = (MEMORY - others) / BYTES - 1;
    let shares = p.k / SHARE;
    let span = if shares <= most { shares } else { (most / team.lanes).max(1) * team.lanes };
    let span = span.min(most);
    let offsets = p.segments.iter().any(|s| formats::offset(s.dtype) != Offset::None);
    let vectors = span * SHARE / 4;
    let whole = vectors.is_multiple_of(team.threads) && shares.is_multiple_of(span);
    let mut memory = format!(
        "const SPAN = {span}u;\nconst STRIDE = {}u;\nvar<workgroup> xs: array<vec4f, 16u * STRIDE>;\n",
        span | 1
    );
    let mut norm = [const { String::new() }; 5];
    let [squares, begin, keep, end, scale] = &mut norm;
    let at = "xs[(q % 16u) * STRIDE + q / 16u]";
    *keep = format!("{at} = v;");
    if let Some((weight, _)) = &p.norm {
        let shuffled = team.shuffled;
        memory += &format!("var<workgroup> x_squares: array<f32, {groups}>;\n");
        *squares = "var<private> squares: f32;".into();
        *begin = "if share == 0u { squares = 0.0; }".into();
        *keep = format!(
            "squares += dot(v, v);\n            {at} = v * bitcast<vec4f>({}[step.norm / 4u + e]);",
            weight.var
        );
        let add = team.shuffles(shuffled, "sum", &|a, b| format!("{a} + {b}"));
        *end = format!(
            "var sum = squares;\n    {add}if thread % {shuffled}u == 0u {{ x_squares[thread / {shuffled}u] = sum; }}"
        );
        *scale = format!(
            "fn scale_of_norm() -> f32 {{\n    var total = 0.0;\n    \
             for (var i = 0u; i < {groups}u; i++) {{ total += x_squares[i]; }}\n    \
             return inverseSqrt(total / f32(K) + step.eps);\n}}\n"
        );
    }
    let halves = "vec4f(sum_of(a), sum_of(b), sum_of(c), sum_of(d))";
    let functions = fill(
        wgsl!("float.wgsl"),
        &[
            ("halves", if offsets { halves } else { "vec4f()" }),
            ("squares", squares),
            ("begin", begin),
            ("each", &vectors.div_ceil(team.threads).to_string()),
            ("guard", if whole { "" } else { "if q < SPAN * 16u && e < K / 4u " }),
            ("keep", keep),
            ("end", end),
            ("scale", scale),
        ],
    );
    Form { memory, functions, span, scratch: 0, scaled: p.norm.is_some() }
}
