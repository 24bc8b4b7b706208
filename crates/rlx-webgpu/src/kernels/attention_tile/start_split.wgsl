    let len = min(ctl.y, step.rows);
    // All splits of a key and value head are shared by the tiles that have rows.
    let splits = step.places / max((len + TILE - 1u) / TILE, 1u);
    let place = at % step.places;
    let row0 = place / splits * TILE;
    if row0 >= len { return; }
    let past = ctl.x;
    let end_of_all = {{end}};
    let start_of_all = past + row0 - min(past + row0, step.window);
    let seen = max(end_of_all, start_of_all) - start_of_all;
    let each = (max(step.least, (seen + splits - 1u) / splits) + BLOCK - 1u) / BLOCK * BLOCK;
    let first = min(start_of_all + place % splits * each, end_of_all);
    let end = min(first + each, end_of_all);
    // Queries of rows that are there.
    let live = min(TILE, len - row0) * GROUP;
    if first >= end {
        if thread < live { keep(at, thread, -3.0e38, 0.0); }
        return;
    }
