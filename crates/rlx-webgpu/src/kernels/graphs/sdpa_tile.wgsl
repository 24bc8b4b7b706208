// sdpa        y[b, i, h] = softmax({{score}}) v[b, :, h * K / H]
// shapes      {{type}}: q [B, S_q, H, {{e}}]    k [B, S_k, K, {{e}}]    v [B, S_k, K, {{ev}}]    y as q
//             heads before places or behind them    {{mask_shape}}
// bytes       q's for each 32 keys (from a cache), y's; k's and v's for each 64 queries of each query head
// launch      a workgroup of 128 threads is 64 queries of a head; eight threads share four queries
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
// Quads of queries and keys, or of values. Rows of quads are one longer than they have to be: neighbours lie in
// different banks.
var<workgroup> tile: array<vec4f, 416>;
var<workgroup> shares: array<vec4f, 544>;
@compute @workgroup_size(128)
fn sdpa(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) launched: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    let group = id.y * launched.x + id.x;
    if group >= {{groups}} { return; }
    let q0 = group % {{tiles}} * 64u;
    let h = group / {{tiles}} % {{heads}};
    let b = group / {{tiles}} / {{heads}};
    let kv = h / {{per_kv}};
    let q_base = b * {{q_batch}} + h * {{q_head}};
    let k_base = b * {{k_batch}} + kv * {{k_head}};
    let v_base = b * {{v_batch}} + kv * {{v_head}};
    let r = thread / 8u;
    let c = thread % 8u;
    var acc: array<vec4f, CHUNKS * 4u>;
    var most = vec4f(LOWEST);
    var total = vec4f();
    {{range}}
    for (var k0 = start; k0 < end; k0 += 32u) {
        // A vector is four queries and one of four keys.
        var s: array<vec4f, 4>;
        for (var e0 = 0u; e0 < E; e0 += 16u) {
            workgroupBarrier();
            for (var i = thread; i < 256u; i += 128u) {
                let e = e0 + i % 16u;
                var x = vec4f();
                for (var j = 0u; j < 4u; j++) {
                    let at = q0 + i / 16u * 4u + j;
                    if at < {{s_q}} && e < E { x[j] = load_q(q_base + at * {{q_place}} + e); }
                }
                tile[i % 16u * 17u + i / 16u] = x;
            }
            let e = e0 + thread % 16u;
            var x = vec4f();
            for (var j = 0u; j < 4u; j++) {
                let at = k0 + thread / 16u * 4u + j;
                if at < end && e < E { x[j] = load_k(k_base + at * {{k_place}} + e); }
            }
            tile[272u + thread % 16u * 9u + thread / 16u] = x;
            workgroupBarrier();
            for (var i = 0u; i < 16u; i++) {
                let q = tile[i * 17u + r];
                let k = tile[272u + i * 9u + c];
                s[0] += q * k.x;
                s[1] += q * k.y;
                s[2] += q * k.z;
                s[3] += q * k.w;
            }
        }
        var seen = 0u;
        for (var j = 0u; j < 4u; j++) {
            for (var i = 0u; i < 4u; i++) {
                let query = q0 + r * 4u + i;
                let key = k0 + c * 4u + j;
                var score = s[j][i] * {{scale}};
                {{cap}}
                var bits = UNSEEN;
                if key < end && query < {{s_q}} {
                    {{mask}}
                }
                s[j][i] = LOWEST;
                if bits != UNSEEN {
                    s[j][i] = bitcast<f32>(bits);
                    seen |= 1u << (j * 4u + i);
                }
            }
        }
        workgroupBarrier();
        tile[r * 8u + c] = max(max(s[0], s[1]), max(s[2], s[3]));
        workgroupBarrier();
        var top = most;
        for (var j = 0u; j < 8u; j++) { top = max(top, tile[r * 8u + j]); }
        let fade = exp(most - top);
        most = top;
        total *= fade;
        for (var j = 0u; j < 4u; j++) {
            let held = (vec4u(seen >> (j * 4u)) & vec4u(1u, 2u, 4u, 8u)) != vec4u();
            let p = select(vec4f(), exp(s[j] - top), held);
            total += p;
            shares[(c * 4u + j) * 17u + r] = p;
        }
        for (var chunk = 0u; chunk < CHUNKS; chunk++) {
            workgroupBarrier();
            for (var i = thread; i < 256u; i += 128u) {
                let at = k0 + i / 8u;
                let e = chunk * 32u + i % 8u * 4u;
                var x = vec4f();
                for (var j = 0u; j < 4u; j++) {
                    if at < end && e + j < EV { x[j] = load_v(v_base + at * {{v_place}} + e + j); }
                }
                tile[i] = x;
            }
            workgroupBarrier();
            let first = chunk * 4u;
            var a0 = acc[first] * fade.x;
            var a1 = acc[first + 1u] * fade.y;
            var a2 = acc[first + 2u] * fade.z;
            var a3 = acc[first + 3u] * fade.w;
            for (var j = 0u; j < 32u; j++) {
                let p = shares[j * 17u + r];
                let v = tile[j * 8u + c];
                a0 += p.x * v;
                a1 += p.y * v;
                a2 += p.z * v;
                a3 += p.w * v;
            }
            acc[first] = a0;
            acc[first + 1u] = a1;
            acc[first + 2u] = a2;
            acc[first + 3u] = a3;
        }
    }
    workgroupBarrier();
    tile[r * 8u + c] = total;
    workgroupBarrier();
    var all = vec4f();
    for (var j = 0u; j < 8u; j++) { all += tile[r * 8u + j]; }
    for (var i = 0u; i < 4u; i++) {
        let query = q0 + r * 4u + i;
        if query >= {{s_q}} { return; }
        let share = select(0.0, 1.0 / all[i], all[i] > 0.0);
        let y_base = b * {{y_batch}} + h * {{y_head}} + query * {{y_place}};
        for (var chunk = 0u; chunk < CHUNKS; chunk++) {
            let d = chunk * 32u + c * 4u;
            let v = acc[chunk * 4u + i] * share;
            {{store}}
        }
    }
}
