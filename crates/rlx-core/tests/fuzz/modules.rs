//! Random modules of blocks whose shapes fit.

use super::graphs::Rng;
use rlx_core::ir::hir::{
    AttentionSpec, FfnWeights, FusionPolicy, KeyValues, LinearWeights, Module, Tensor, Weight,
};
use rlx_core::ops::{Binary, Map, RopeScaling, RopeStyle, RopeTable, Unary, Zip};
use rlx_core::types::{BATCH, DType, Dim, SEQ, Shape, Type};

/// Width of the rows.
const DIM: u64 = 8;

struct Builder<'a> {
    m: Module,
    rng: &'a mut Rng,
    n: usize,
    /// Layers with attention so far.
    attentions: Vec<usize>,
}

impl Builder<'_> {
    fn weight(&mut self, dims: &[u64]) -> Weight {
        self.n += 1;
        let ty = Type::tensor(DType::F32, Shape::of(dims));
        Weight { name: format!("w.{}", self.n), ty }
    }

    fn linear(&mut self, out: u64, input: u64, bias: bool) -> LinearWeights {
        let bias = bias.then(|| self.weight(&[out]));
        LinearWeights { weight: self.weight(&[out, input]), bias }
    }

    fn layer(&mut self, x: Tensor, i: usize, control: bool) -> Tensor {
        let label = format!("n{i}");
        let bias = self.rng.below(2) == 0;
        match self.rng.below(if control { 9 } else { 7 }) {
            0 => {
                let w = self.weight(&[DIM]);
                self.m.rms_norm(x, w, 1e-5, &label)
            }
            1 => {
                let act = [None, Some(Unary::Silu), Some(Unary::Tanh)][self.rng.below(3)];
                let w = self.linear(DIM, DIM, bias);
                self.m.linear_act(x, w, act, &label)
            }
            2 => {
                let gate = self.linear(12, DIM, bias);
                let ffn = FfnWeights {
                    gate,
                    up: self.linear(12, DIM, bias),
                    down: self.linear(DIM, 12, false),
                };
                match bias {
                    true => self.m.swiglu_ffn(x, ffn, &label),
                    false => self.m.geglu_ffn(x, ffn, &label),
                }
            }
            3 => {
                let w = [self.linear(20, DIM, bias), self.linear(DIM, 20, bias)];
                self.m.mlp(x, w, Unary::Gelu, &label)
            }
            4 => {
                let w = [self.linear(DIM, DIM, bias), self.linear(DIM, DIM, bias)];
                let (a, b) = self.m.shared_linear_pair(x, w, &label);
                self.m.op(Zip { f: Binary::Mul }, &[a, b], "mul")
            }
            5 => {
                let y = self.m.named(&label, |m| m.op(Map { f: Unary::Sigmoid }, &[x], "act"));
                self.m.add(x, y, "")
            }
            6 => {
                let w = self.weight(&[DIM]);
                let (a, b) = self.m.residual_rms_norm(x, x, w, 1e-6, &label);
                self.m.tap(format!("sum.{i}"), b);
                a
            }
            7 => {
                let rope = RopeTable {
                    base: 100.0,
                    dims: 2,
                    context: 8,
                    scaling: RopeScaling::Linear(2.0),
                };
                self.m.rope(x, RopeStyle::Half, 4, rope, None, &label)
            }
            _ => {
                let (q, k, v) = (
                    self.linear(DIM, DIM, bias),
                    self.linear(4, DIM, bias),
                    self.linear(4, DIM, false),
                );
                let (q, k, v) =
                    (self.m.linear(x, q, "q"), self.m.linear(x, k, "k"), self.m.linear(x, v, "v"));
                let sinks = (self.rng.below(4) == 0).then(|| self.weight(&[2]));
                let sinks = sinks.map(|w| self.m.weight(w));
                let spec = AttentionSpec {
                    layer: i,
                    heads: 2,
                    kv_heads: 1,
                    head_dim: 4,
                    scale: 0.5,
                    window: bias.then_some(3),
                    softcap: None,
                    block: None,
                    rope_style: RopeStyle::Adjacent,
                    // Some layers do not turn.
                    rope: (self.rng.below(4) > 0).then_some(RopeTable {
                        base: 100.0,
                        dims: 4,
                        context: 8,
                        scaling: RopeScaling::None,
                    }),
                    rope_factors: None,
                    qk_norm: None,
                    sinks,
                };
                // Keys of some layers are their values too; those of others an earlier layer's.
                let before = self.attentions.iter().copied().next_back();
                let kv = match (self.rng.below(6), before) {
                    (0, _) => KeyValues::Keys(k),
                    (1, Some(layer)) => KeyValues::Of(layer),
                    _ => KeyValues::Both(k, v),
                };
                self.attentions.push(i);
                self.m.attention(q, kv, spec)
            }
        }
    }
}

/// 1 to 8 blocks; every other module is a language model.
pub fn random_module(rng: &mut Rng) -> Module {
    let policy = [FusionPolicy::Direct, FusionPolicy::Fusable][rng.below(2)];
    let lm = rng.below(2) == 0;
    let m = if lm { Module::new("random", 8, 11) } else { Module::graph("random") };
    let mut b = Builder { m: m.with_policy(policy), rng, n: 0, attentions: Vec::new() };
    let table = b.weight(&[11, DIM]);
    let mut x = match lm {
        true => {
            let ids = b.m.ids();
            b.m.embedding(ids, table.clone())
        }
        false => {
            let rows = [Dim::from(3u64), Dim::symbol(SEQ), Dim::symbol(BATCH)];
            let rows = rows[b.rng.below(3)].clone();
            b.m.input("x", Type::tensor(DType::F32, Shape(vec![rows, Dim::from(DIM)])))
        }
    };
    for i in 0..1 + b.rng.below(8) {
        x = b.layer(x, i, lm);
    }
    match lm {
        true => {
            let x = b.m.out_rows(x);
            b.m.lm_head(x, LinearWeights { weight: table, bias: None });
        }
        false => b.m.output("y", x),
    }
    b.m
}
