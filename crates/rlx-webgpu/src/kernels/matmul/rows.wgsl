// matmul      y_s[n] = f(sum_k q[k] W_s[n, k] + b_s[n]) (+ residual[n]), one row of x; q is x, or x in blocks
//             of integers, with a norm of x * w / sqrt(mean(x^2) + eps); with glu y[n] = f(y_0[n]) * y_1[n]
// shapes      x f32[1, {{k}}]    W_s [rows_s, {{k}}]    y_s f32[1, rows_s]
// bytes       every weight byte once, x once a workgroup (the caches'), 4 a result
// launch      {{threads}} threads bring x to the workgroup's memory, {{span}} shares of 64 elements at a time; a team
//             of {{lanes}} lanes has {{rows}} rows of a segment, a lane every {{lanes}}th share of them, whose first
//             weights are on their way before x is
// numerics    f32, lanes' sums in pairs; int8: integers within 32 elements, blocks as quantize_rows makes them
{{enable}}
{{step}}
{{bindings}}
const K = {{k}}u;
const THREADS = {{threads}}u;
const LANES = {{lanes}}u;
const TEAMS = {{teams}}u;
const ROWS = {{rows}}u;
const STREAMS = {{streams}}u;
const SHARES = K / 64u;  // of 64 elements, what a lane multiplies at a time

{{memory}}
{{scratch}}
var<workgroup> results: array<f32, TEAMS * ROWS * STREAMS>;

{{common}}
{{readers}}
// 64 packed weights.
struct Pair { p: Quants, q: Quants }
fn quad(at: u32) -> vec4f { return bitcast<vec4f>({{x}}[at]); }
{{form}}
{{shares}}
{{epilogue}}

@compute @workgroup_size({{threads}})
fn matmul_rows(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) launched: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    let group = id.y * launched.x + id.x;
    if group >= step.groups { return; }
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
