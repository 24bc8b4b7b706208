// matmul      y_s[n] = f(sum_k q[k] W_s[n, k] + b_s[n]) (+ residual[n]), one row of x; q is x in int8
//             blocks, with a norm of x * w / sqrt(mean(x^2) + eps); with glu y[n] = f(y_0[n]) * y_1[n]
// shapes      x f32[1, {{k}}]    W_s [rows_s, {{k}}], packed    y_s f32[1, rows_s]
// bytes       every weight byte once, x once a workgroup (the caches'), 4 a result
// launch      {{threads}} threads make the blocks in workgroup memory; then a team of {{lanes}} lanes has
//             {{rows}} rows of a segment, a lane every {{lanes}}th 64 elements of them
// numerics    integers within 32 elements, f32 beyond; blocks as quantize_rows makes them
{{enable}}
{{step}}
{{bindings}}
const K = {{k}}u;
const THREADS = {{threads}}u;
const LANES = {{lanes}}u;
const TEAMS = {{teams}}u;
const ROWS = {{rows}}u;
const STREAMS = {{streams}}u;
const PIECES = K / 16u;  // of 16 elements, which one thread quantises
const SHARES = K / 64u;  // of 64 elements, what a lane multiplies at a time

var<workgroup> xs: array<vec4u, PIECES>;
var<workgroup> x_scales: array<u32, {{scales}}>;
{{sums_array}}
var<workgroup> scratch: array<f32, {{scratch}}>;
var<workgroup> results: array<f32, TEAMS * ROWS * STREAMS>;

{{common}}
{{readers}}
// Where piece p of x stands: lanes side by side read words side by side.
fn place(p: u32) -> u32 { return (p % 4u) * SHARES + p / 4u; }

// 64 elements of x: their blocks' scales, and the sums of 32 and of 16 of them.
struct X { a: vec4u, b: vec4u, c: vec4u, d: vec4u, scale: vec2f, sums: vec2i, halves: vec4i }
{{dot4}}
fn dots(a: vec4u, b: vec4u) -> i32 {
    return dot4(a.x, b.x) + dot4(a.y, b.y) + dot4(a.z, b.z) + dot4(a.w, b.w);
}
fn load_x(share: u32) -> X {
    return X(xs[share], xs[SHARES + share], xs[2u * SHARES + share], xs[3u * SHARES + share],
        {{scale_of}}, {{sums_of}}, {{halves_of}});
}
{{dots}}
{{epilogue}}
fn quad(at: u32) -> vec4f { return bitcast<vec4f>({{x}}[at]); }
fn largest(a: vec4f, b: vec4f, c: vec4f, d: vec4f) -> f32 {
    let m = max(max(abs(a), abs(b)), max(abs(c), abs(d)));
    return max(max(m.x, m.y), max(m.z, m.w));
}
fn quants(v: vec4f, inverse: f32) -> u32 {
    let q = vec4i({{round}});
    return {{pack}};
}
fn piece(a: vec4f, b: vec4f, c: vec4f, d: vec4f, inverse: f32) -> vec4u {
    return vec4u(quants(a, inverse), quants(b, inverse), quants(c, inverse), quants(d, inverse));
}

@compute @workgroup_size({{threads}})
fn matmul_rows(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) launched: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    let group = id.y * launched.x + id.x;
    if group >= step.groups { return; }
    {{load}}
    {{norm}}
    {{quantise}}
    workgroupBarrier();
    {{sum}}
    var s = 0u;
    for (var i = 1u; i < step.segments; i++) {
        if group >= step.seg[i].first { s = i; }
    }
    let lane = thread % LANES;
    let team = thread / LANES;
    let last = step.seg[s].rows - 1u;
    for (var again = 0u; again < step.repeat; again++) {
        let first = ((group - step.seg[s].first) * step.repeat + again) * (TEAMS * ROWS);
        let row0 = first + team * ROWS;
        {{body}}
        workgroupBarrier();

        let row = first + thread * 4u;
        if thread < TEAMS * ROWS / 4u && row <= last {
            {{result}}
        }
        workgroupBarrier();
    }
}
