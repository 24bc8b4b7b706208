// planes = all ql, all qh, all scales, all d of a row of q6_k blocks {ql[128], qh[64], scales[16], d}, in place
// shapes      rows of whole 16 bytes, {{k}} elements each
// bytes       every byte in and out once
// launch      a workgroup of 256 threads is a row, which its memory holds
// numerics    none: bytes move
struct Step { first: u32, rows: u32 }  // the word of the first row
@group(0) @binding(0) var<uniform> step: Step;
@group(0) @binding(1) var<storage, read_write> weights: array<u32>;
const BLOCKS = {{k}}u / 256u;
const WORDS = BLOCKS * 105u / 2u;

var<workgroup> row: array<u32, WORDS>;

// Where half `h` of a row in planes stands in its blocks of 105 halves, and what stands there.
fn half_at(h: u32) -> u32 {
    var at = 0u;
    if h < 64u * BLOCKS { at = h / 64u * 105u + h % 64u; }
    else if h < 96u * BLOCKS { let i = h - 64u * BLOCKS; at = i / 32u * 105u + 64u + i % 32u; }
    else if h < 104u * BLOCKS { let i = h - 96u * BLOCKS; at = i / 8u * 105u + 96u + i % 8u; }
    else { at = (h - 104u * BLOCKS) * 105u + 104u; }
    return (row[at / 2u] >> (at % 2u * 16u)) & 0xffffu;
}

@compute @workgroup_size(256)
fn planes(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) launched: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    let i = id.y * launched.x + id.x;
    if i >= step.rows { return; }
    let first = step.first + i * WORDS;
    for (var w = thread; w < WORDS; w += 256u) { row[w] = weights[first + w]; }
    workgroupBarrier();
    for (var w = thread; w < WORDS; w += 256u) {
        weights[first + w] = half_at(2u * w) | (half_at(2u * w + 1u) << 16u);
    }
}
