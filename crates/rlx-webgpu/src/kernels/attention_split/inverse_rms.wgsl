const SHARES = 16u; // of a head whose squares a thread sums
// Of the group's heads of q, then of the key.
var<workgroup> squares: array<f32, (GROUP + 1u) * SHARES>;
var<workgroup> inverse_rms: array<f32, GROUP + 1u>;
fn find_inverse_rms(kv: u32, thread: u32) {
    for (var i = thread; i < (GROUP + 1u) * SHARES; i += THREADS) {
        let head = i / SHARES;
        var sum = 0.0;
        for (var d = i % SHARES; d < E; d += SHARES) {
            var x = 0.0;
            if head < GROUP { x = bitcast<f32>({{q}}[step.q + (kv * GROUP + head) * E + d]); }
            else { x = bitcast<f32>({{k}}[step.new_k + kv * E + d]); }
            sum += x * x;
        }
        squares[i] = sum;
    }
    workgroupBarrier();
    if thread <= GROUP {
        var sum = 0.0;
        for (var i = 0u; i < SHARES; i++) { sum += squares[thread * SHARES + i]; }
        inverse_rms[thread] = inverseSqrt(sum / f32(E) + step.eps);
    }
    workgroupBarrier();
}
