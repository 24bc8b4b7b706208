// sdpa        y[b, i, h] = softmax({{score}}) v[b, :, h * K / H]
// shapes      {{type}}: q [B, S_q, H, {{e}}]    k [B, S_k, K, {{e}}]    v [B, S_k, K, {{ev}}]    y as q
//             heads before places or behind them    {{mask_shape}}
// bytes       q's and y's; k's and v's for each 16 queries of each query head
// launch      a workgroup of 128 threads is 16 queries of a head; eight threads share a query
// numerics    f32; softmax is online, 32 keys at a time: no matrix of scores is stored
struct Step { w: array<vec4u, 16> }
{{bindings}}
{{functions}}
const E = {{e}}u;
const EV = {{ev}}u;
const CHUNKS = {{chunks}}u;
const LOWEST = -3.4028234e38;
// The bits of minus infinity: a key that the query does not see.
const UNSEEN = 0xff800000u;
// Rows are one element longer than they have to be: neighbours lie in different banks.
var<workgroup> left: array<f32, 528>;
var<workgroup> right: array<f32, 1056>;
var<workgroup> scores: array<u32, 528>;
@compute @workgroup_size(128)
fn sdpa(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) launched: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    let group = id.y * launched.x + id.x;
    if group >= {{groups}} { return; }
    let q0 = group % {{tiles}} * 16u;
    let h = group / {{tiles}} % {{heads}};
    let b = group / {{tiles}} / {{heads}};
    let kv = h / {{per_kv}};
    let q_base = b * {{q_batch}} + h * {{q_head}};
    let k_base = b * {{k_batch}} + kv * {{k_head}};
    let v_base = b * {{v_batch}} + kv * {{v_head}};
    let r = thread / 8u;
    let c = thread % 8u;
    var acc: array<vec4f, CHUNKS>;
    var most = LOWEST;
    var total = 0.0;
    {{range}}
    for (var k0 = start; k0 < end; k0 += 32u) {
        var s = vec4f();
        for (var e0 = 0u; e0 < E; e0 += 32u) {
            workgroupBarrier();
            for (var i = thread; i < 512u; i += 128u) {
                let at = q0 + i / 32u;
                let e = e0 + i % 32u;
                var x = 0.0;
                if at < {{s_q}} && e < E { x = load_q(q_base + at * {{q_place}} + e); }
                left[i / 32u * 33u + i % 32u] = x;
            }
            for (var i = thread; i < 1024u; i += 128u) {
                let at = k0 + i / 32u;
                let e = e0 + i % 32u;
                var x = 0.0;
                if at < end && e < E { x = load_k(k_base + at * {{k_place}} + e); }
                right[i / 32u * 33u + i % 32u] = x;
            }
            workgroupBarrier();
            for (var e = 0u; e < 32u; e++) {
                let at = c * 33u + e;
                s += left[r * 33u + e] * vec4f(right[at], right[at + 264u], right[at + 528u], right[at + 792u]);
            }
        }
        for (var j = 0u; j < 4u; j++) {
            let query = q0 + r;
            let key = k0 + c + 8u * j;
            var score = s[j] * {{scale}};
            {{cap}}
            var bits = UNSEEN;
            if key < end && query < {{s_q}} {
                {{mask}}
            }
            scores[r * 33u + c + 8u * j] = bits;
        }
        workgroupBarrier();
        var top = most;
        for (var j = 0u; j < 32u; j++) {
            let bits = scores[r * 33u + j];
            if bits != UNSEEN { top = max(top, bitcast<f32>(bits)); }
        }
        let fade = exp(most - top);
        most = top;
        total *= fade;
        workgroupBarrier();
        for (var j = 0u; j < 4u; j++) {
            let at = r * 33u + c + 8u * j;
            let bits = scores[at];
            var p = 0.0;
            if bits != UNSEEN { p = exp(bitcast<f32>(bits) - top); }
            scores[at] = bitcast<u32>(p);
        }
        for (var chunk = 0u; chunk < CHUNKS; chunk++) {
            workgroupBarrier();
            for (var i = thread; i < 1024u; i += 128u) {
                let at = k0 + i / 32u;
                let e = chunk * 32u + i % 32u;
                var x = 0.0;
                if at < end && e < EV { x = load_v(v_base + at * {{v_place}} + e); }
                right[i / 32u * 33u + i % 32u] = x;
            }
            workgroupBarrier();
            var sum = acc[chunk] * fade;
            for (var j = 0u; j < 32u; j++) {
                let p = bitcast<f32>(scores[r * 33u + j]);
                let at = j * 33u + c * 4u;
                sum += p * vec4f(right[at], right[at + 1u], right[at + 2u], right[at + 3u]);
                if chunk == 0u { total += p; }
            }
            acc[chunk] = sum;
        }
        workgroupBarrier();
    }
    if q0 + r >= {{s_q}} { return; }
    let share = select(0.0, 1.0 / total, total > 0.0);
    let y_base = b * {{y_batch}} + h * {{y_head}} + (q0 + r) * {{y_place}};
    for (var chunk = 0u; chunk < CHUNKS; chunk++) {
        let d = chunk * 32u + c * 4u;
        let v = acc[chunk] * share;
        {{store}}
    }
}
