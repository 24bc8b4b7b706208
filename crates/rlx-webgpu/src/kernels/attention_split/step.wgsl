struct Step {
    splits: u32, least: u32, capacity: u32, q: u32, acc: u32, stats: u32, ctl: u32, scale: f32,
    window: u32, softcap: f32, rows: u32, k: u32, v: u32,
    new_k: u32, new_v: u32, table: u32, half: u32, low_rows: u32, eps: f32, q_norm: u32, k_norm: u32,
}
