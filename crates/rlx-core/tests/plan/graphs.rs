//! Random graphs of a language model's operators, with every parameter's bytes.

use rlx_core::ir::mir::{Graph, ParamKind, ValueId};
use rlx_core::ops::{
    Attention, Binary, Gather, KvWrite, Map, MatMul, Op, Reshape, RmsNorm, Rope, RopeScaling,
    RopeStyle, RopeTable, TakeRows, Unary, Zip,
};
use rlx_core::sample::Control;
use rlx_core::types::{BlockFormat, DType, Shape, Type};
use std::collections::BTreeMap;

/// Width of most values, and of the wide ones, which K-quants need.
const WIDTHS: [u64; 2] = [64, 256];
/// Query heads, key and value heads, width of a head.
const HEADS: [u64; 3] = [8, 2, 8];
const VOCAB: u64 = 19;
const CONTEXT: u64 = 11;

/// A generator that a seed replays.
pub struct Rng(pub u64);

impl Rng {
    pub fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) as usize) % n
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// Bytes of a tensor: small floats, or valid blocks with small scales.
    fn bytes(&mut self, ty: &Type) -> Vec<u8> {
        let n = ty.bytes().unwrap() as usize;
        let DType::Block(format) = ty.dtype else {
            let floats = (0..n / 4).map(|_| (self.below(2001) as f32 - 1000.0) / 4000.0);
            return floats.flat_map(f32::to_le_bytes).collect();
        };
        let mut out: Vec<u8> = (0..n).map(|_| self.below(256) as u8).collect();
        // Where a block's f16 scales stand; any other byte is a fine quant.
        let scales: &[usize] = match format {
            BlockFormat::Q4_0 | BlockFormat::Q8_0 => &[0],
            BlockFormat::Q4K => &[0, 2],
            BlockFormat::Q6K => &[208],
            other => panic!("no scales known of {}", other.name()),
        };
        for block in out.chunks_exact_mut(format.bytes()) {
            for &at in scales {
                block[at..at + 2].copy_from_slice(&0x0800u16.to_le_bytes()); // 2^-13
            }
        }
        out
    }
}

/// A graph under construction.
struct Builder<'a> {
    g: Graph,
    rng: &'a mut Rng,
    /// Values `[rows, width]` of each width.
    values: [Vec<ValueId>; 2],
    rows: u64,
    ctl: ValueId,
    tables: Vec<ValueId>,
    layers: usize,
    weights: usize,
}

fn f32s(dims: &[u64]) -> Type {
    Type::tensor(DType::F32, Shape::of(dims))
}

impl Builder<'_> {
    fn push(&mut self, op: impl Into<Op>, inputs: &[ValueId]) -> ValueId {
        let label = format!("n{}", self.g.nodes.len());
        self.g.push1(op, inputs, &label).unwrap()
    }

    /// A weight, new or one there is.
    fn weight(&mut self, ty: Type) -> ValueId {
        let same = |g: &Graph| -> Vec<ValueId> {
            let weights = g.params.iter().filter(|p| p.kind == ParamKind::Weight);
            weights.map(|p| p.value).filter(|&v| *g.ty(v) == ty).collect()
        };
        let have = same(&self.g);
        if !have.is_empty() && self.rng.below(3) == 0 {
            return self.rng.pick(&have);
        }
        self.weights += 1;
        self.g.param(ParamKind::Weight, &format!("w{}.weight", self.weights), ty)
    }

    /// A matrix of a type that a row of `columns` fits.
    fn matrix(&mut self, rows: u64, columns: u64) -> ValueId {
        use BlockFormat as B;
        let types = [DType::F32, DType::Block(B::Q4_0), DType::Block(B::Q8_0)];
        let wide = [DType::Block(B::Q4K), DType::Block(B::Q6K), DType::F32];
        let dtype = self.rng.pick(if columns == 256 { &wide } else { &types });
        self.weight(Type::tensor(dtype, Shape::of(&[rows, columns])))
    }

    /// A value of a width; late ones more often, so that chains form.
    fn value(&mut self, width: usize) -> ValueId {
        let have = &self.values[width];
        let back = self.rng.below(have.len()).min(self.rng.below(have.len()));
        have[have.len() - 1 - back]
    }

    fn linear(&mut self, x: ValueId, from: u64, to: u64) -> ValueId {
        let w = self.matrix(to, from);
        if self.rng.below(4) == 0 {
            let b = self.weight(f32s(&[to]));
            return self.push(MatMul { bias: true, ..MatMul::plain() }, &[x, w, b]);
        }
        self.push(MatMul::plain(), &[x, w])
    }

    fn norm(&mut self, x: ValueId, width: u64) -> ValueId {
        let w = self.weight(f32s(&[width]));
        self.push(RmsNorm { eps: 1e-5 }, &[x, w])
    }

    fn attention(&mut self) {
        let [heads, kv, e] = HEADS;
        let x = self.value(0);
        let x = self.norm(x, WIDTHS[0]); // f16 caches hold 65504 at most
        let [q, k, v] = [heads, kv, kv].map(|n| self.linear(x, WIDTHS[0], n * e));
        let table = self.rng.pick(&self.tables.clone());
        let other = self.rng.pick(&self.tables.clone());
        let rope =
            Rope { style: self.rng.pick(&[RopeStyle::Half, RopeStyle::Adjacent]), head_dim: 8 };
        let ctl = self.ctl;
        let q = self.push(rope.clone(), &[q, table, ctl]);
        let k_table = if self.rng.below(4) == 0 { other } else { table };
        let k = self.push(rope, &[k, k_table, ctl]);
        let ty =
            Type::state(self.rng.pick(&[DType::F32, DType::F16]), Shape::of(&[kv, CONTEXT, e]));
        let n = self.layers;
        self.layers += 1;
        let kc = self.g.param(ParamKind::State, &format!("blk.{n}.k"), ty.clone());
        let vc = self.g.param(ParamKind::State, &format!("blk.{n}.v"), ty);
        let (kc, vc) = if self.rng.below(2) == 0 {
            let kc = self.push(KvWrite::default(), &[kc, k, ctl]);
            (kc, self.push(KvWrite::default(), &[vc, v, ctl]))
        } else {
            let vc = self.push(KvWrite::default(), &[vc, v, ctl]);
            (self.push(KvWrite::default(), &[kc, k, ctl]), vc)
        };
        let y = self.push(Attention::causal(8, 0.35), &[q, kc, vc, ctl]);
        self.values[0].push(y);
    }

    fn some_nodes(&mut self) {
        let [d, f] = WIDTHS;
        let width = usize::from(self.rng.below(4) == 0);
        let x = self.value(width);
        let functions = [Unary::Silu, Unary::Gelu, Unary::Relu, Unary::Sigmoid, Unary::Tanh];
        let unary = Map { f: self.rng.pick(&functions) };
        match self.rng.below(12) {
            0 => {
                let y = self.push(unary, &[x]);
                self.values[width].push(y);
            }
            1 | 2 => {
                let f = self.rng.pick(&[Binary::Add, Binary::Sub, Binary::Mul, Binary::Max]);
                let b = if self.rng.below(4) == 0 {
                    self.weight(f32s(&[WIDTHS[width]]))
                } else {
                    self.value(width)
                };
                let mut y = self.push(Zip { f }, &[x, b]);
                if f == Binary::Mul {
                    // Products of products would overflow, and infinity hides differences.
                    y = self.push(Map { f: Unary::Tanh }, &[y]);
                }
                self.values[width].push(y);
            }
            3 => {
                let flat =
                    self.push(Reshape { dims: Shape::of(&[self.rows * WIDTHS[width]]) }, &[x]);
                let y =
                    self.push(Reshape { dims: Shape::of(&[self.rows, WIDTHS[width]]) }, &[flat]);
                self.values[width].push(y);
            }
            4 | 5 => {
                let y = self.norm(x, WIDTHS[width]);
                self.values[width].push(y);
            }
            6 => {
                let to = self.rng.below(2);
                let y = self.linear(x, WIDTHS[width], WIDTHS[to]);
                self.values[to].push(y);
            }
            7 | 8 => {
                // A gated feed-forward with its residual.
                let x = self.value(0);
                let n = self.norm(x, d);
                let (gate, up) = (self.linear(n, d, f), self.linear(n, d, f));
                let act = self.push(unary, &[gate]);
                let product = Zip { f: Binary::Mul };
                let swapped = self.rng.below(3) == 0;
                let h = self.push(product, &if swapped { [up, act] } else { [act, up] });
                let down = self.linear(h, f, d);
                let y = self.push(Zip { f: Binary::Add }, &[x, down]);
                self.values[0].push(y);
                self.values[1].push(h);
            }
            9 => {
                let n = 1 + self.rng.below(2) as u64;
                let ids = self.g.params.iter().find(|p| p.name == "ids").unwrap().value;
                let table = self.matrix(VOCAB, WIDTHS[width]);
                if n == 1 {
                    let y = self.push(Gather::default(), &[table, ids]);
                    self.values[width].push(y);
                }
            }
            _ => self.attention(),
        }
    }
}

/// 12 to 60 nodes; the bytes of every parameter by name.
pub fn random_graph(rng: &mut Rng) -> (Graph, BTreeMap<String, Vec<u8>>) {
    let rows = rng.pick(&[1, 1, 3]);
    let len = 1 + rng.below(rows as usize);
    let mut g = Graph::new("random");
    let ctl = g.param(ParamKind::State, "ctl", Type::state(DType::U32, Shape::of(&[16])));
    let ids = Type::tensor(DType::U32, Shape::of(&[rows]));
    let ids = g.param(ParamKind::Input, "ids", ids);
    let x = g.param(ParamKind::Input, "x", f32s(&[rows, WIDTHS[0]]));
    let y = g.param(ParamKind::Input, "y", f32s(&[rows, WIDTHS[1]]));
    let tables = [10_000.0, 500.0].map(|base| {
        let op = RopeTable { base, dims: 8, context: CONTEXT, scaling: RopeScaling::None };
        g.push1(op, &[], "table").unwrap()
    });
    let values = [vec![x], vec![y]];
    let (layers, weights) = (0, 0);
    let mut b = Builder { g, rng, values, rows, ctl, tables: tables.to_vec(), layers, weights };
    let table = b.matrix(VOCAB, WIDTHS[0]);
    let embedded = b.push(Gather::default(), &[table, ids]);
    b.values[0].push(embedded);
    let nodes = 12 + b.rng.below(38);
    while b.g.nodes.len() < nodes {
        b.some_nodes();
    }
    let last = *b.values[0].last().unwrap();
    let out = b.push(TakeRows { rows: 1u64.into() }, &[last, ctl]);
    b.g.output("last", out);
    // Rows past the real ones hold anything: only whole values are returned.
    let taps = if len == rows as usize { b.rng.below(4) } else { 0 };
    for i in 0..taps {
        let width = b.rng.below(2);
        let v = b.value(width);
        b.g.output(&format!("tap.{i}"), v);
    }
    let Builder { g, .. } = b;
    let mut data = BTreeMap::new();
    for p in &g.params {
        let ty = g.ty(p.value);
        let words = |w: &[u32]| w.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
        let bytes = match p.name.as_str() {
            "ctl" => {
                let len = len as u32;
                words(
                    &Control { past: 5, len, capacity: CONTEXT as u32, ..Control::default() }
                        .to_words(),
                )
            }
            "ids" => {
                words(&(0..rows).map(|_| rng.below(VOCAB as usize) as u32).collect::<Vec<_>>())
            }
            _ if ty.dtype == DType::F16 => {
                let n = ty.bytes().unwrap() / 2;
                (0..n).flat_map(|_| (0x2c00 + rng.below(0x1000) as u16).to_le_bytes()).collect()
            }
            _ => rng.bytes(ty),
        };
        data.insert(p.name.clone(), bytes);
    }
    (g, data)
}
