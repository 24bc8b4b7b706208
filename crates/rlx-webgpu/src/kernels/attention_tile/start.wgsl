    let row0 = at % step.places * TILE;
    if row0 >= ctl.y { return; }
    let past = ctl.x;
    let end = {{end}};
    let first = past + row0 - min(past + row0, step.window);
