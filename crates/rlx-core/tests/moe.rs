//! A mixture of experts as a graph of operators, against the definition.

use rlx_core::ir::mir::{Graph, ParamKind};
use rlx_core::ops::*;
use rlx_core::reference::interpret;
use rlx_core::types::{DType, Shape, Type};

const ROWS: usize = 3;
const WIDTH: usize = 4;
const HIDDEN: usize = 5;
const EXPERTS: usize = 6;
const CHOSEN: usize = 2;

fn noise(n: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..n).map(|_| next()).collect()
}

fn f32s(dims: &[usize]) -> Type {
    Type::tensor(DType::F32, Shape(dims.iter().map(|&n| n.into()).collect()))
}

fn bytes(x: &[f32]) -> Vec<u8> {
    x.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// Router, `CHOSEN` experts a row with their softmax, gate and up and down of each, and their sum.
fn graph() -> Graph {
    let mut g = Graph::new("moe");
    let mut weight = |name: &str, dims: &[usize]| g.param(ParamKind::Weight, name, f32s(dims));
    let router = weight("router", &[EXPERTS, WIDTH]);
    let gate = weight("gate", &[EXPERTS, HIDDEN, WIDTH]);
    let up = weight("up", &[EXPERTS, HIDDEN, WIDTH]);
    let down = weight("down", &[EXPERTS, WIDTH, HIDDEN]);
    let x = g.param(ParamKind::Input, "x", f32s(&[ROWS, WIDTH]));
    let logits = g.push1(MatMul::plain(), &[x, router], "router").unwrap();
    let route = Route { normalise: true, ..Route::softmax(CHOSEN) };
    let [ids, shares] = g.push(route, &[logits], "experts").unwrap()[..] else { panic!() };
    let h = g.push1(GroupedMatMul::glu(Unary::Silu), &[x, gate, up, ids], "gate_up").unwrap();
    let y = g.push1(GroupedMatMul::sum(), &[h, down, ids, shares], "down").unwrap();
    g.output("y", y);
    g
}

/// `W x` of a matrix.
fn product(w: &[f32], x: &[f64]) -> Vec<f64> {
    w.chunks(x.len()).map(|w| w.iter().zip(x).map(|(w, x)| f64::from(*w) * x).sum()).collect()
}

#[test]
fn routing_and_grouped_products_are_a_mixture_of_experts() {
    let sizes = [EXPERTS * WIDTH, EXPERTS * HIDDEN * WIDTH, EXPERTS * HIDDEN * WIDTH];
    let [router, gate, up] = [0, 1, 2].map(|i| noise(sizes[i], i as u64 + 1));
    let (down, x) = (noise(EXPERTS * WIDTH * HIDDEN, 4), noise(ROWS * WIDTH, 5));
    let data = [&router, &gate, &up, &down, &x].map(|v| bytes(v));
    let params: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
    let y = interpret(&graph(), &params).unwrap().outputs.remove(0);
    let y: Vec<f32> = y.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();

    for (i, x) in x.chunks(WIDTH).enumerate() {
        let x: Vec<f64> = x.iter().map(|v| f64::from(*v)).collect();
        let logits = product(&router, &x);
        let mut order: Vec<usize> = (0..EXPERTS).collect();
        order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
        let chosen = &order[..CHOSEN];
        let total: f64 = chosen.iter().map(|&e| logits[e].exp()).sum();
        let mut expected = [0.0; WIDTH];
        for &e in chosen {
            let part = |w: &[f32]| w[e * HIDDEN * WIDTH..][..HIDDEN * WIDTH].to_vec();
            let gate = product(&part(&gate), &x);
            let up = product(&part(&up), &x);
            let hidden: Vec<f64> =
                gate.iter().zip(up).map(|(g, u)| g / (1.0 + (-g).exp()) * u).collect();
            for (sum, v) in expected.iter_mut().zip(product(&part(&down), &hidden)) {
                *sum += v * logits[e].exp() / total;
            }
        }
        for (j, e) in expected.iter().enumerate() {
            let got = f64::from(y[i * WIDTH + j]);
            assert!((got - e).abs() < 1e-6, "row {i}, column {j}: {got}, expected {e}");
        }
    }
}
