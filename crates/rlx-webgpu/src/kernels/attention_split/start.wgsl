    let row = id.y * launched.x + id.x;
    if row >= step.rows { return; }
    let kv = row / step.splits;
    let j = row % step.splits;
    if thread == 0u { control = vec3u({{ctl}}[step.ctl], {{ctl}}[step.ctl + 1u], {{ctl}}[step.ctl + 4u]); }
    // Loop bounds must be the same for the whole workgroup, and known to be.
    let ctl = workgroupUniformLoad(&control);
    let end_of_all = {{end}};
    let start_of_all = ctl.x - min(ctl.x, step.window);
    let seen = max(end_of_all, start_of_all) - start_of_all;
    let each = (max(step.least, (seen + step.splits - 1u) / step.splits) + BLOCK - 1u) / BLOCK * BLOCK;
    let start = min(start_of_all + j * each, end_of_all);
    let end = min(start + each, end_of_all);
    if start >= end || ctl.y == 0u {
        for (var d = thread; d < GROUP * E; d += THREADS) { {{out}}[step.acc + row * GROUP * E + d] = 0u; }
        if thread < GROUP {
            {{out}}[step.stats + (row * GROUP + thread) * 2u] = 0xff800000u;
            {{out}}[step.stats + (row * GROUP + thread) * 2u + 1u] = 0u;
        }
        return;
    }
    let cache = kv * step.capacity * QUADS;
    {{norm}}
    for (var i = thread; i < GROUP * FOURS; i += THREADS) {
        {{load_query}}
    }
    {{write_caches}}
    workgroupBarrier();
