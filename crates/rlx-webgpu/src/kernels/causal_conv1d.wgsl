// causal_conv1d  y[i, c] = act(sum_j w[c, j] p[i + j, c]), p the state's rows and then those of x
//   gated        p goes on with b x, and y is c act(..), where a row of x has b, c and x
// shapes         x f32[s, {{parts}} c]   y f32[s, c]   w f32[c, {{taps}}]   state f32[{{taps}} - 1, c]
// bytes          4 an element of x and of y, {{taps}} times more from a cache; the state twice
// launch         a thread is a channel of {{block}} rows: threads of the first block read the state and then
//                write it, others read rows of x alone
// numerics       f32, the oldest tap first; rows at or past ctl.len are not made
struct Step {
    rows: u32, channels: u32, x: u32, w: u32, state: u32, ctl: u32, y: u32, pad0: u32,
}
{{bindings}}
const TAPS = {{taps}}u;
const PAST = TAPS - 1u;
const PARTS = {{parts}}u;
const BLOCK = {{block}}u;
{{helpers}}
fn act(x: f32) -> f32 { return {{act}}; }

// Of channel c, row i of the state's and then of x's.
fn p(i: u32, c: u32) -> f32 {
    if i < PAST { return bitcast<f32>({{state}}[step.state + i * step.channels + c]); }
    let at = step.x + (i - PAST) * PARTS * step.channels + c;
    return {{row}};
}

@compute @workgroup_size(64)
fn causal_conv1d(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) launched: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    let tiles = (step.channels + 63u) / 64u;
    let tile = id.y * launched.x + id.x;
    let first = tile / tiles * BLOCK;
    let c = tile % tiles * 64u + thread;
    if c >= step.channels || {{ctl}}[step.ctl + 4u] != 0u { return; }
    let len = min(step.rows, {{ctl}}[step.ctl + 1u]);
    for (var i = first; i < min(first + BLOCK, len); i++) {
        var sum = 0.0;
        for (var j = 0u; j < TAPS; j++) {
            sum += bitcast<f32>({{w}}[step.w + c * TAPS + j]) * p(i + j, c);
        }
        let at = step.x + i * PARTS * step.channels + c;
        {{y}}[step.y + i * step.channels + c] = bitcast<u32>(act(sum){{gate}});
    }
    if first > 0u { return; }
    // A row is written behind the read of the one that takes its place, which is not before it.
    for (var r = 0u; r < PAST; r++) {
        {{state}}[step.state + r * step.channels + c] = bitcast<u32>(p(len + r, c));
    }
}
