// sdpa        y[b, i, h] = softmax({{score}}) v[b, :, h * K / H]
// shapes      {{type}}: q [B, S_q, H, {{e}}]    k [B, S_k, K, {{e}}]    v [B, S_k, K, {{ev}}]    y as q
//             heads before places or behind them    {{mask_shape}}
// bytes       q's for each 64 keys (from a cache), k's and v's for each {{queries}} queries of each query head, y's once
// launch      a workgroup of {{threads}} threads makes {{queries}} queries of a head, {{part}} columns of v; a thread has
//             8 queries by 4 of 64 keys, then by 4 columns of v at {{columns}} places
// numerics    f32; softmax is online, 64 keys at a time: no matrix of scores is stored
struct Step { w: array<vec4u, 16> }
{{bindings}}
{{functions}}
const LOWEST = -3.4028234e38;
// The bits of minus infinity: a key that the query does not see.
const UNSEEN = 0xff800000u;
const FOUR = vec4u(0u, 1u, 2u, 3u);
// Four elements of each of 16 fours of queries or keys, or four keys of 16 fours of columns. Column `i` of plane `p`
// stands at `i ^ p % 8`, so that threads that write neighbouring planes use different banks.
alias Plane = array<array<vec4f, 16>, 4>;
var<workgroup> planes: array<Plane, 16>;
fn most_of(v: vec4f) -> f32 { return max(max(v.x, v.y), max(v.z, v.w)); }
fn sum_of(v: vec4f) -> f32 { return (v.x + v.y) + (v.z + v.w); }
@compute @workgroup_size({{threads}})
fn sdpa(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) launched: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    let group = id.y * launched.x + id.x;
    if group >= {{groups}} { return; }
    let q0 = group % {{tiles}} * {{queries}}u;
    let own = group / {{tiles}} / {{parts}};
    let column0 = group / {{tiles}} % {{parts}} * {{part}}u;
    let h = own % {{heads}};
    let b = own / {{heads}};
    let kv = h / {{per_kv}};
    let q_base = b * {{q_batch}} + h * {{q_head}};
    let k_base = b * {{k_batch}} + kv * {{k_head}};
    let v_base = b * {{v_batch}} + kv * {{v_head}};
    let r = thread / 16u;
    let c = thread % 16u;
    // Threads without a query load for the others and multiply nothing.
    let live = q0 + r * 8u < {{s_q}};
    let plane = thread % 8u;
    let row = thread / 8u;
    // No constant: a driver would unroll the loop over them beyond what its cache of instructions holds.
    let fours = {{e_fours}};
    {{sums}}
    var most0 = vec4f(LOWEST);
    var most1 = vec4f(LOWEST);
    var total0 = vec4f();
    var total1 = vec4f();
    {{range}}
    for (var k0 = start; k0 < end; k0 += 64u) {
        var s0 = vec4f(); var s1 = vec4f(); var s2 = vec4f(); var s3 = vec4f();
        var s4 = vec4f(); var s5 = vec4f(); var s6 = vec4f(); var s7 = vec4f();
        for (var first = 0u; first < fours; first += 8u) {
            let e = min(first + plane, fours - 1u) * 4u;
            workgroupBarrier();
            for (var i = row; i < {{queries}}u / 4u; i += {{threads}}u / 8u) {
                let at = q_base + min(vec4u(q0 + i * 4u) + FOUR, vec4u({{s_q}} - 1u)) * {{q_place}} + e;
                let v0 = four_q(at.x, e);
                let v1 = four_q(at.y, e);
                let v2 = four_q(at.z, e);
                let v3 = four_q(at.w, e);
                planes[plane][0][i ^ plane] = vec4f(v0.x, v1.x, v2.x, v3.x);
                planes[plane][1][i ^ plane] = vec4f(v0.y, v1.y, v2.y, v3.y);
                planes[plane][2][i ^ plane] = vec4f(v0.z, v1.z, v2.z, v3.z);
                planes[plane][3][i ^ plane] = vec4f(v0.w, v1.w, v2.w, v3.w);
            }
            for (var i = row; i < 16u; i += {{threads}}u / 8u) {
                let at = k_base + min(vec4u(k0 + i * 4u) + FOUR, vec4u({{s_k}} - 1u)) * {{k_place}} + e;
                let v0 = four_k(at.x, e);
                let v1 = four_k(at.y, e);
                let v2 = four_k(at.z, e);
                let v3 = four_k(at.w, e);
                planes[8u + plane][0][i ^ plane] = vec4f(v0.x, v1.x, v2.x, v3.x);
                planes[8u + plane][1][i ^ plane] = vec4f(v0.y, v1.y, v2.y, v3.y);
                planes[8u + plane][2][i ^ plane] = vec4f(v0.z, v1.z, v2.z, v3.z);
                planes[8u + plane][3][i ^ plane] = vec4f(v0.w, v1.w, v2.w, v3.w);
            }
            workgroupBarrier();
            if live {
                let here = min(8u, fours - first);
                for (var p = 0u; p < here; p++) {
                    let low = (r * 2u) ^ p;
                    let high = (r * 2u + 1u) ^ p;
                    let keys = c ^ p;
                    {{score_products}}
                }
            }
        }
        let keys = vec4u(k0 + c * 4u) + FOUR;
        let in_keys = keys < vec4u(end);
        {{scores}}
        workgroupBarrier();
        planes[c][0][r ^ (c % 8u)] = vec4f(most_of(s0), most_of(s1), most_of(s2), most_of(s3));
        planes[c][1][r ^ (c % 8u)] = vec4f(most_of(s4), most_of(s5), most_of(s6), most_of(s7));
        workgroupBarrier();
        let before0 = most0;
        let before1 = most1;
        for (var i = 0u; i < 16u; i++) {
            most0 = max(most0, planes[i][0][r ^ (i % 8u)]);
            most1 = max(most1, planes[i][1][r ^ (i % 8u)]);
        }
        let fade0 = exp(before0 - most0);
        let fade1 = exp(before1 - most1);
        {{weigh}}
        total0 = total0 * fade0 + vec4f(sum_of(s0), sum_of(s1), sum_of(s2), sum_of(s3));
        total1 = total1 * fade1 + vec4f(sum_of(s4), sum_of(s5), sum_of(s6), sum_of(s7));
        {{fade}}
        for (var first = 0u; first < 16u && k0 + first * 4u < end; first += {{key_fours}}u) {
            workgroupBarrier();
            let p = c - first;
            if p < {{key_fours}}u {
                {{keep_weights}}
            }
            for (var i = thread; i < {{key_fours}}u * {{columns}}u * 64u; i += {{threads}}u) {
                let column = i % ({{columns}}u * 16u);
                let key = i / ({{columns}}u * 16u);
                let at = k0 + first * 4u + key;
                var v = vec4f();
                if at < end && column0 + column * 4u < {{ev}}u {
                    v = four_v(v_base + at * {{v_place}} + column0 + column * 4u, column0 + column * 4u);
                }
                planes[{{key_fours}}u * (1u + column / 16u) + key / 4u][key % 4u][column % 16u] = v;
            }
            workgroupBarrier();
            if live {
                let here = min({{key_fours}}u, (end - k0 + 3u) / 4u - first);
                for (var p = 0u; p < here; p++) {
                    let low = (r * 2u) ^ (p % 8u);
                    let high = (r * 2u + 1u) ^ (p % 8u);
                    {{value_products}}
                }
            }
        }
    }
    workgroupBarrier();
    planes[c][0][r ^ (c % 8u)] = total0;
    planes[c][1][r ^ (c % 8u)] = total1;
    workgroupBarrier();
    var all0 = vec4f();
    var all1 = vec4f();
    for (var i = 0u; i < 16u; i++) {
        all0 += planes[i][0][r ^ (i % 8u)];
        all1 += planes[i][1][r ^ (i % 8u)];
    }
    let share0 = select(vec4f(), 1.0 / all0, all0 > vec4f());
    let share1 = select(vec4f(), 1.0 / all1, all1 > vec4f());
    let y_base = b * {{y_batch}} + h * {{y_head}} + column0;
    {{store}}
}
