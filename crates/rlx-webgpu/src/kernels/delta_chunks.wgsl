// {{name}}  M = s M + K^T D with D = (I + A)^-1 beta (V - s K M), y = (s Q M + B D) / sqrt({{n}}), chunk by chunk
//                  arXiv:2412.06464
// shapes           q, k f32[s, {{key_heads}}, {{n}}]   v, y f32[s, {{heads}}, {{width}}]   M f32[{{n}}, {{width}}] a head
// bytes            the state once in and once out, however many rows; 4 ({{n}} 2 + {{tile}} 2) a row and workgroup
// launch           a workgroup is {{tile}} columns of a head's matrix: a thread has a part of a column, one of
//                  {{parts}}, in registers while it walks the chunks of {{chunk}} rows
// numerics         f32; A and B are products of two rows' keys, and of query and key, times all decays between
//                  them: a decay of zero is one factor, and nothing is divided; rows at or past ctl.len are zeros
{{step}}const CHUNK = {{chunk}}u;
const HALF = CHUNK / 2u;                  // rows whose products with M are summed at a time
const PAIRS = CHUNK * CHUNK;              // of two rows; half of the threads each have half of N
const EACH = {{each}}u;                   // quads of a thread's part
const QUADS = EACH * PARTS;               // of a row; what is behind N is zero
const PITCH = QUADS + 1u;                 // keeps rows in different banks

var<workgroup> keys: array<vec4f, CHUNK * PITCH>;
var<workgroup> queries: array<vec4f, CHUNK * PITCH>;
var<workgroup> gates: array<vec2f, CHUNK>;            // exp(g) and beta
var<workgroup> pairs: array<vec3f, 2u * PAIRS>;       // k k, q q and q k of two rows
var<workgroup> between: array<vec2f, PAIRS>;          // A and B
var<workgroup> remains: array<f32, CHUNK>;            // of a row's change when the chunk ends
var<workgroup> partial: array<vec2f, HALF * THREADS>; // k M and q M
var<workgroup> sums: array<vec2f, CHUNK * TILE>;      // what becomes d, and y without this chunk's changes
var<workgroup> real: u32;
{{helpers}}
{{reads}}
fn pair(c: u32, j: u32) -> vec3f {
    return pairs[c * CHUNK + j] + pairs[PAIRS + c * CHUNK + j];
}

// What a row's key and its query are multiplied by, of a chunk that has so many rows.
fn scales(c: u32, rows: u32) -> vec2f {
    if c >= rows { return vec2f(); }
    let products = pair(c, c);
    return vec2f({{of_k}}, {{of_q}} * {{root}});
}

// All decays of rows from `j` on that are before `end`.
fn decays(j: u32, end: u32) -> f32 {
    var decay = 1.0;
    for (var i = j; i < end; i++) { decay *= gates[i].x; }
    return decay;
}

@compute @workgroup_size({{threads}})
fn {{entry}}(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) launched: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    let group = id.y * launched.x + id.x;
    let head = group / TILES;
    if head >= HEADS { return; }
    let key_head = {{key_head}};
    let own = thread % TILE;
    let column = group % TILES * TILE + own;
    let inside = column < WIDTH;
    let row = thread / TILE;                // of a chunk, and the part of the column
    let first = row * EACH;
    if thread == 0u {
        let len = min(step.rows, {{ctl}}[step.ctl + 1u]);
        real = select(0u, len, {{ctl}}[step.ctl + 4u] == 0u);
    }
    let len = workgroupUniformLoad(&real);

    let matrix = step.state + head * N * WIDTH + column;
    {{load}}
    for (var start = 0u; start < len; start += CHUNK) {
        let rows = min(CHUNK, len - start);
        for (var w = thread; w < CHUNK * QUADS; w += THREADS) {
            let c = w / QUADS;
            let n = w % QUADS * 4u;
            var k = vec4f();
            var q = vec4f();
            if c < rows {
                let of_k = (start + c) * step.k_row + key_head * N;
                let of_q = (start + c) * step.q_row + key_head * N;
                k = quad_of_key(of_k, n);
                q = quad_of_query(of_q, n);
            }
            keys[c * PITCH + w % QUADS] = k;
            queries[c * PITCH + w % QUADS] = q;
        }
        if thread < CHUNK {
            var gate = vec2f(1.0, 0.0);
            if thread < rows {
                let at = (start + thread) * HEADS + head;
                gate = vec2f({{decay}}, {{beta}});
            }
            gates[thread] = gate;
        }
        var value = 0.0;
        if inside && row < rows {
            value = bitcast<f32>({{v}}[step.v + (start + row) * step.v_row + head * WIDTH + column]);
        }
        workgroupBarrier();

        let c = thread / CHUNK % CHUNK;
        let j = thread % CHUNK;
        var products = vec3f();
        if j <= c {
            let begin = thread / PAIRS * (QUADS / 2u);
            for (var i = begin; i < begin + QUADS / 2u; i++) {
                let k = keys[j * PITCH + i];
                let q = queries[c * PITCH + i];
                products += vec3f(dot(keys[c * PITCH + i], k), dot(q, queries[j * PITCH + i]), dot(q, k));
            }
        }
        pairs[thread] = products;
        for (var turn = 0u; turn < 2u; turn++) {
            for (var r = 0u; r < HALF; r++) {
                let at_quad = (turn * HALF + r) * PITCH + first;
                var sum = vec2f();
                {{dots}}
                partial[r * THREADS + thread] = sum;
            }
            workgroupBarrier();
            if row / HALF == turn {
                var sum = vec2f();
                for (var p = 0u; p < PARTS; p++) { sum += partial[row % HALF * THREADS + p * TILE + own]; }
                sum *= decays(0u, row + 1u) * scales(row, rows);
                sums[thread] = vec2f(gates[row].y * (value - sum.x), sum.y);
            }
            if turn == 0u && thread < PAIRS && j <= c {
                let decay = decays(j + 1u, c + 1u) * scales(j, rows).x;
                let of_c = scales(c, rows) * vec2f(gates[c].y, 1.0);
                between[thread] = decay * of_c * pair(c, j).xz;
                if c == CHUNK - 1u { remains[j] = decay; }
            }
            workgroupBarrier();
        }
        if thread < TILE {
            {{solve}}
        }
        workgroupBarrier();

        if inside && row < rows {
            var y = sums[thread].y;
            for (var i = 0u; i <= row; i++) { y += between[row * CHUNK + i].y * sums[i * TILE + own].x; }
            {{y}}[step.y + ((start + row) * HEADS + head) * WIDTH + column] = bitcast<u32>(y);
        }
        let decay = decays(0u, CHUNK);
        {{fade}}
        for (var i = 0u; i < CHUNK; i++) {
            let change = remains[i] * sums[i * TILE + own].x;
            let at_quad = i * PITCH + first;
            {{change}}
        }
        workgroupBarrier();
    }
    if !inside { return; }
    for (var i = len + row; i < step.rows; i += PARTS) {
        {{y}}[step.y + (i * HEADS + head) * WIDTH + column] = 0u;
    }
    if len == 0u { return; }
    {{store}}
}
