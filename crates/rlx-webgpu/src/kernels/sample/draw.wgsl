// the draw

// The weight that is kept of a range of items.
fn kept_weight(items: u32, cut: Cut, range: vec2u) -> vec2u {
    var sum = vec2u(0u);
    for (var first = range.x; first < range.y; first += 8u) {
        let index = indices(first, 1u);
        let ids = ids_of(index, items);
        let far = distances(ids, index, range.y);
        for (var i = 0u; i < 8u; i++) {
            let q = at(far, i);
            let w = weight(q);
            if keeps(cut, q, at(ids, i)) && w >= params[MIN_P] { sum = add(sum, vec2u(w, 0u)); }
        }
    }
    return sum;
}

// Sets `chosen` to the first kept id whose cumulative weight exceeds random * total >> 32. The
// range that it stands in is divided among all threads until it is one id.
fn draw(thread: u32, items: u32, cut: Cut, position: u32) {
    var range = Range(0u, items, vec2u(0u));
    for (var round = 0u; range.end - range.first > 1u || round == 0u; round++) {
        let size = (range.end - range.first + THREADS - 1u) / THREADS;
        let first = min(range.first + thread * size, range.end);
        let end = min(first + size, range.end);
        let sum = kept_weight(items, cut, vec2u(first, end));
        sums[thread] = sum;
        if thread == 0u { part = Range(0u, 0u, vec2u(0u)); }
        workgroupBarrier();
        let span = span_of(thread);
        var need = range.need;
        if round == 0u { need = multiply_long(span.total, random(position, 0u)).yz; }
        if !is_less(need, span.before) && is_less(need, add(span.before, sum)) {
            part = Range(first, end, subtract(need, span.before));
        }
        range = workgroupUniformLoad(&part);
    }
    // Nothing is kept only where no logit is above -inf: the best id stays.
    if thread == 0u && range.first < range.end { chosen = id_of(range.first, items); }
    workgroupBarrier();
}
