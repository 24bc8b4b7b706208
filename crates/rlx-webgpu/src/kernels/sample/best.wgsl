// the best id, and those that top-k may keep

fn largest(keys: vec4u) -> u32 {
    return max(max(keys.x, keys.y), max(keys.z, keys.w));
}

// The largest of eight quads: the first, and each THREADS further.
fn largest_from(quad: u32) -> u32 {
    var most = vec4u();
    if !is_plain {
        for (var i = 0u; i < 8u; i++) { most = max(most, quad_keys(quad + i * THREADS)); }
        return largest(most);
    }
    // All on their way at once: one thing after the other is the wait for memory alone.
    let a = plain_quad(quad);
    let b = plain_quad(quad + THREADS);
    let c = plain_quad(quad + 2u * THREADS);
    let d = plain_quad(quad + 3u * THREADS);
    let e = plain_quad(quad + 4u * THREADS);
    let f = plain_quad(quad + 5u * THREADS);
    let g = plain_quad(quad + 6u * THREADS);
    let h = plain_quad(quad + 7u * THREADS);
    most = max(keys_of_quad(quad, a), keys_of_quad(quad + THREADS, b));
    most = max(most, max(keys_of_quad(quad + 2u * THREADS, c), keys_of_quad(quad + 3u * THREADS, d)));
    most = max(most, max(keys_of_quad(quad + 4u * THREADS, e), keys_of_quad(quad + 5u * THREADS, f)));
    return largest(max(most, max(keys_of_quad(quad + 6u * THREADS, g), keys_of_quad(quad + 7u * THREADS, h))));
}

// The lowest id with the largest key; id 0 when no logit is above -inf. A thread's own largest key
// is returned.
fn find_best(thread: u32) -> u32 {
    let quads = (step.vocab + 3u) / 4u;
    var own_key = 0u;
    var own_first = thread;
    for (var quad = thread; quad < quads; quad += 8u * THREADS) {
        let most = largest_from(quad);
        own_first = select(own_first, quad, most > own_key);
        own_key = max(own_key, most);
    }
    // Later quads have higher ids. A compiler may round a penalty here otherwise than above: the search ends
    // all the same.
    var quad = own_first;
    for (var n = 1u; n < 8u && largest(quad_keys(quad)) != own_key; n++) { quad += THREADS; }
    let keys = quad_keys(quad);
    var i = 0u;
    while i < 3u && keys[i] != own_key { i++; }
    atomicMax(&best_key, own_key);
    workgroupBarrier();
    if own_key == atomicLoad(&best_key) { atomicMin(&best_id, min(4u * quad + i, step.vocab - 1u)); }
    workgroupBarrier();
    return own_key;
}

// Lists the ids that top-k may keep, and returns how many; where there are more than the list holds,
// all ids are the items. The k-th largest of the threads' own largest is at most the k-th largest of
// all, so nothing as far as it or nearer is left out; what stands a little farther is listed too, which
// keeps rounding out of it and does no harm.
fn list_top_k(thread: u32, own_key: u32) -> u32 {
    sums[thread] = vec2u(own_key, 0u);
    if thread == 0u {
        bound = 0u;
        atomicStore(&n_listed, 0u);
    }
    workgroupBarrier();
    var n_above = 0u;
    for (var t = 0u; t < THREADS; t++) {
        let other = sums[t].x;
        if other > own_key || (other == own_key && t < thread) { n_above++; }
    }
    if n_above + 1u == params[TOP_K] { bound = own_key; }
    let q = f32(distances_of(vec4u(workgroupUniformLoad(&bound))).x);
    let margin = (q + 2.0) / bitcast<f32>(params[SCALE]) + abs(max_logit) * 2.4e-7;
    let least = max(key_of(vec4u(bitcast<u32>(max_logit - margin))).x, 1u);
    for (var first = thread; 4u * first < step.vocab; first += 8u * THREADS) {
        if largest_from(first) < least { continue; }
        for (var i = 0u; i < 8u; i++) {
            let quad = first + i * THREADS;
            let keys = quad_keys(quad);
            for (var j = 0u; j < 4u; j++) {
                if keys[j] >= least {
                    let n = atomicAdd(&n_listed, 1u);
                    if n < LIST { list[n] = 4u * quad + j; }
                }
            }
        }
    }
    workgroupBarrier();
    if thread == 0u { n_items = atomicLoad(&n_listed); }
    let n = workgroupUniformLoad(&n_items);
    if n == 0u || n > LIST { return step.vocab; }

    // In order: an id's place is the number of smaller ones.
    let mine = vec2u(list[thread], list[thread + THREADS]);
    var place = vec2u(0u);
    for (var i = 0u; i < n; i++) { place += vec2u(vec2u(list[i]) < mine); }
    workgroupBarrier();
    if thread < n { list[place.x] = mine.x; }
    if thread + THREADS < n { list[place.y] = mine.y; }
    workgroupBarrier();
    return n;
}
