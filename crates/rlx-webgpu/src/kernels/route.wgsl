// route       ids[m, i], shares[m, i]: the experts of row m with the largest choice, the largest first, and
//             what they count for
// shapes      logits f32[m, {{experts}}]   bias f32[{{experts}}]   ids u32[m, {{top_k}}]   shares f32[m, {{top_k}}]
// bytes       4 a logit, 8 an expert that is chosen; an exponential and {{experts}} comparisons for each logit
// launch      a workgroup of 64 threads a row; an expert's place is how many others are above it
// numerics    f32; the order is that of bits, so that every place is taken once, whatever the numbers are
struct Step {
    rows: u32, logits: u32, bias: u32, ids: u32, shares: u32, scale: f32, pad0: u32, pad1: u32,
}
{{bindings}}
const EXPERTS = {{experts}}u;
const TOP_K = {{top_k}}u;
const GROUPS = {{groups}}u;
const EACH = EXPERTS / GROUPS;

var<workgroup> scores: array<f32, EXPERTS>;
var<workgroup> keys: array<u32, EXPERTS>;
var<workgroup> partial: array<f32, 64>;
var<workgroup> chosen: array<f32, TOP_K>;
{{arrays}}
{{rows_len}}

// Bits that ascend as numbers do: of both zeros the same, of NaN the largest.
fn key_of(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    let size = bits & 0x7fffffffu;
    if size > 0x7f800000u { return 0xffffffffu; }
    if size == 0u { return 0x80000000u; }
    return select(bits | 0x80000000u, ~bits, (bits >> 31u) == 1u);
}

fn value_of(key: u32) -> f32 {
    return bitcast<f32>(select(~key, key & 0x7fffffffu, (key >> 31u) == 1u));
}

@compute @workgroup_size(64)
fn route(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) launched: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    let row = id.y * launched.x + id.x;
    if row >= step.rows { return; }
    {{skip}}
    let first = step.logits + row * EXPERTS;
    {{score}}
    for (var e = thread; e < EXPERTS; e += 64u) {
        keys[e] = key_of({{choice}});
    }
    workgroupBarrier();
    {{keep}}
    for (var e = thread; e < EXPERTS; e += 64u) {
        let own = keys[e];
        var place = 0u;
        for (var other = 0u; other < EXPERTS; other++) {
            let key = keys[other];
            if key > own || (key == own && other < e) { place += 1u; }
        }
        if place < TOP_K {
            chosen[place] = scores[e];
            {{ids}}[step.ids + row * TOP_K + place] = e;
        }
    }
    workgroupBarrier();
    {{divisor}}
    for (var i = thread; i < TOP_K; i += 64u) {
        {{shares}}[step.shares + row * TOP_K + i] = bitcast<u32>(chosen[i] / divisor * step.scale);
    }
}
