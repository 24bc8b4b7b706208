// width       got[t] = the lanes of the subgroup that thread t is in
// shapes      b u32[5 * {{threads}} + {{registers}} + 3]: zeros, of which the first {{threads}} become got
// bytes       each a few times
// launch      one workgroup of one dimension; it keeps {{registers}} vectors alive, for compilers that make subgroups
//             narrower where a shader takes many registers
// numerics    none: the loop has no turns, which a compiler cannot know
{{enable}}
@group(0) @binding(0) var<storage, read_write> b: array<u32>;
// Of a thread's own, so that no compiler keeps them once for all.
fn load(at: u32) -> vec4f { return vec4f(vec4u(b[at], b[at + 1u], b[at + 2u], b[at + 3u])); }
@compute @workgroup_size({{threads}})
fn probe_width(
    @builtin(local_invocation_index) thread: u32,
    @builtin(subgroup_size) lanes: u32,
) {
    let turns = b[thread];
    {{declare}}
    for (var i = 0u; i < turns; i++) {
        {{turn}}
    }
    let sum = {{sum}};
    b[thread] = select(lanes, u32(sum.x), dot(sum, sum) != 0.0);
}
