struct Step {
    rows: u32, q: u32, k: u32, v: u32, q_row: u32, k_row: u32, v_row: u32, eps: f32,
    a: u32, b: u32, decay: u32, dt: u32, state: u32, ctl: u32, y: u32, pad0: u32,
}
{{bindings}}
const HEADS = {{heads}}u;
const KEY_HEADS = {{key_heads}}u;
const N = {{n}}u;
const WIDTH = {{width}}u;
const TILE = {{tile}}u;
const TILES = (WIDTH + TILE - 1u) / TILE;
const PARTS = {{parts}}u;
const THREADS = TILE * PARTS;
