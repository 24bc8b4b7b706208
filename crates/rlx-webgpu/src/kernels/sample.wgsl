fn finish(id: u32, position: u32) {
    if params[PENALTIES] != 0u { counts[id] += 1u; }
    var is_stop = false;
    for (var i = 0u; i < params[N_STOP]; i++) { is_stop = is_stop || params[STOP + i] == id; }
    let n_sampled = ctl[STEP] + 1u;
    let is_full = n_sampled >= ctl[LIMIT] || position >= ctl[CAPACITY];
    ctl[PAST] = position;
    ctl[LEN] = 1u;
    ctl[TOKEN] = id;
    ctl[STEP] = n_sampled;
    ctl[DONE] = select(select(0u, 2u, is_full), 1u, is_stop);
    ctl[RING] += 1u;
}

@compute @workgroup_size(THREADS)
fn sample(@builtin(local_invocation_index) thread: u32) {
    let position = ctl[PAST] + ctl[LEN];
    if thread == 0u {
        is_done = ctl[DONE];
        atomicStore(&best_id, NONE);
    }
    if workgroupUniformLoad(&is_done) != 0u { return; }
    is_plain = params[PENALTIES] == 0u;

    let own_key = find_best(thread);
    if thread == 0u { chosen = atomicLoad(&best_id); }

    if params[GREEDY] == 0u {
        max_logit = logits_of(vec4u(atomicLoad(&best_key))).x;
        var items = step.vocab;
        var cut = Cut(FAR, 0u);
        if params[TOP_K] != 0u {
            if params[TOP_K] <= THREADS { items = list_top_k(thread, own_key); }
            cut = tighten(thread, items, cut, false);
        }
        if params[TOP_P] < TOP_P_OFF { cut = tighten(thread, items, cut, true); }
        draw(thread, items, cut, position);
    }
    if thread == 0u { finish(chosen, position); }
}
