//! Each pass alone, and cleanup, on random graphs: verified, printed and read back, and interpreted
//! to the same bits. `RLX_GRAPHS=20000` tests more of them; a failure names its seed.

use super::random_graph::{Data, random_graph};
use crate::targets;
use rlx_core::error::Result;
use rlx_core::ir::mir::Graph;
use rlx_core::ir::parse::parse;
use rlx_core::ir::verify::verify;
use rlx_core::ops::Op;
use rlx_core::passes::{
    Context, bake, cleanup, control_flow, cse, dce, elementwise_region, fold, simplify,
};
use rlx_core::reference::interpret;
use rlx_core::target::{CompileOptions, RegionLimits};
use rlx_core::types::{DType, Scalar, Type};
use std::collections::BTreeMap;

type Pass = fn(&mut Graph, &mut Context<'_>) -> Result<usize>;

fn graphs() -> u64 {
    std::env::var("RLX_GRAPHS").map_or(300, |n| n.parse().expect("a number of graphs"))
}

/// Runs a pass for a target that has regions of elementwise operators and no control flow.
fn run(pass: Pass, g: &mut Graph, options: &CompileOptions) -> Result<usize> {
    let mut target = targets::gpu();
    target.region_limits = Some(RegionLimits { steps: 8, inputs: 4 });
    pass(g, &mut Context::new(&target, options))
}

/// Outputs, every NaN the same one: which of two an operator gives is nobody's promise.
fn outputs(g: &Graph, data: &Data) -> Vec<Vec<u8>> {
    let params: Vec<&[u8]> = g.params.iter().map(|p| data[&p.name].as_slice()).collect();
    let out = interpret(g, &params).unwrap_or_else(|e| panic!("{e}\n{g}")).outputs;
    let types = g.outputs.iter().map(|o| g.ty(o.value));
    out.into_iter().zip(types).map(|(bytes, ty)| one_nan(bytes, ty)).collect()
}

fn one_nan(mut bytes: Vec<u8>, ty: &Type) -> Vec<u8> {
    let DType::Scalar(scalar) = ty.dtype else { return bytes };
    for b in bytes.chunks_exact_mut(scalar.bytes()) {
        let nan = match scalar {
            Scalar::F64 => f64::from_le_bytes((&*b).try_into().unwrap()).is_nan(),
            Scalar::F32 => f32::from_le_bytes((&*b).try_into().unwrap()).is_nan(),
            Scalar::F16 => half::f16::from_le_bytes((&*b).try_into().unwrap()).is_nan(),
            Scalar::Bf16 => half::bf16::from_le_bytes((&*b).try_into().unwrap()).is_nan(),
            _ => return bytes,
        };
        if nan {
            b.fill(0xff);
        }
    }
    bytes
}

fn reads_back(g: &Graph, at: &str) {
    let text = g.to_string();
    let again = parse(&text).unwrap_or_else(|e| panic!("{at}: {e}\n{text}"));
    assert_eq!(again.to_string(), text, "{at}");
}

/// Runs the pass over every graph; returns all changes.
fn holds(name: &str, pass: Pass) -> usize {
    let options = CompileOptions::default();
    let mut changed = 0;
    for seed in 0..graphs() {
        let at = format!("{name}, seed {seed}");
        let (before, data) = random_graph(seed);
        let mut after = before.clone();
        changed +=
            run(pass, &mut after, &options).unwrap_or_else(|e| panic!("{at}: {e}\n{before}"));
        verify(&after).unwrap_or_else(|e| panic!("{at}: {e}\n{before}\n{after}"));
        reads_back(&after, &at);
        let same = outputs(&before, &data) == outputs(&after, &data);
        assert!(same, "{at}: results differ\n{before}\n{after}");
    }
    println!("{name}: {changed} changes");
    changed
}

#[test]
fn random_graphs_are_valid_and_read_back() {
    let (mut seen, mut dtypes) = (BTreeMap::new(), BTreeMap::new());
    fn count(g: &Graph, seen: &mut BTreeMap<String, usize>, dtypes: &mut BTreeMap<String, usize>) {
        for node in &g.nodes {
            *seen.entry(node.op.name().to_string()).or_insert(0) += 1;
            for v in &node.outputs {
                *dtypes.entry(g.ty(*v).dtype.to_string()).or_insert(0) += 1;
            }
            node.regions.iter().for_each(|body| count(body, seen, dtypes));
        }
    }
    for seed in 0..graphs() {
        let (g, data) = random_graph(seed);
        verify(&g).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{g}"));
        assert!((12..=60).contains(&g.nodes.len()), "seed {seed}: {} nodes", g.nodes.len());
        reads_back(&g, &format!("seed {seed}"));
        assert_eq!(outputs(&g, &data).len(), g.outputs.len());
        count(&g, &mut seen, &mut dtypes);
    }
    println!("{seen:?}\n{dtypes:?}");
    let some = ["constant", "cast", "clamp", "compare", "concat", "cumsum", "expand", "gather"];
    let more = ["gather_elements", "if", "iota", "map", "pad", "random_uniform", "reduce", "zip"];
    let rest = ["reshape", "reverse", "roll", "scan", "scatter_add", "select", "slice", "sort"];
    let last = ["softmax", "top_k", "transpose", "while", "argmax", "random_normal", "argmin"];
    for name in [&some[..], &more, &rest, &last].concat() {
        assert!(seen.contains_key(name), "no random graph has {name}");
    }
}

#[test]
fn dce_keeps_results() {
    assert!(holds("dce", dce) > 0);
}

#[test]
fn simplify_keeps_results() {
    assert!(holds("simplify", simplify) > 0);
}

#[test]
fn fold_keeps_results() {
    assert!(holds("fold", fold) > 0);
}

#[test]
fn cse_keeps_results() {
    assert!(holds("cse", cse) > 0);
}

#[test]
fn elementwise_region_keeps_results() {
    assert!(holds("elementwise_region", elementwise_region) > 0);
}

#[test]
fn control_flow_keeps_results_and_leaves_none() {
    let straight: Pass = |g, cx| {
        let changed = control_flow(g, cx)?;
        assert!(g.nodes.iter().all(|n| n.regions.is_empty()));
        Ok(changed)
    };
    assert!(holds("control_flow", straight) > 0);
}

#[test]
fn cleanup_keeps_results_and_settles() {
    let twice: Pass = |g, cx| {
        let changed = cleanup(g, cx)?;
        let settled = g.to_string();
        assert_eq!(cleanup(g, cx)?, 0, "a second run changes nothing\n{settled}\n{g}");
        assert_eq!(g.to_string(), settled);
        Ok(changed)
    };
    assert!(holds("cleanup", twice) > 0);
}

#[test]
fn all_of_them_in_a_row_keep_results() {
    let all: Pass = |g, cx| {
        let changed = control_flow(g, cx)? + cleanup(g, cx)?;
        Ok(changed + elementwise_region(g, cx)? + cleanup(g, cx)?)
    };
    assert!(holds("all", all) > 0);
}

#[test]
fn a_region_unfuses_to_the_chain_it_was() {
    use rlx_core::ir::mir::Emitter;
    let options = CompileOptions::default();
    let mut regions = 0;
    for seed in 0..graphs() {
        let (mut g, data) = random_graph(seed);
        run(elementwise_region, &mut g, &options).unwrap();
        let expected = outputs(&g, &data);
        let mut chain = Graph { nodes: Vec::new(), ..g.clone() };
        let mut stands: BTreeMap<_, _> = BTreeMap::new();
        for mut node in g.nodes.clone() {
            node.inputs.iter_mut().for_each(|v| *v = *stands.get(v).unwrap_or(v));
            if let Op::Region(region) = &node.op {
                regions += 1;
                let mut e = Emitter { graph: &mut chain, label: &node.label };
                let op = Op::from(region.clone());
                let parts = op.decompose(&mut e, &node.inputs).unwrap().expect("a chain");
                stands.insert(node.outputs[0], parts[0]);
            } else {
                chain.nodes.push(node);
            }
        }
        chain.outputs.iter_mut().for_each(|o| o.value = *stands.get(&o.value).unwrap_or(&o.value));
        verify(&chain).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{g}\n{chain}"));
        assert!(outputs(&chain, &data) == expected, "seed {seed}\n{g}\n{chain}");
    }
    assert!(regions > 0);
}

#[test]
fn baked_parameters_give_what_handed_over_ones_do() {
    for seed in 0..graphs() {
        let (before, data) = random_graph(seed);
        let mut options = CompileOptions::default();
        for p in before.params.iter().step_by(2) {
            options.baked.insert(p.name.clone(), data[&p.name].clone());
        }
        let mut after = before.clone();
        let n = run(bake, &mut after, &options).unwrap();
        assert_eq!(n, options.baked.len());
        verify(&after).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{after}"));
        reads_back(&after, &format!("seed {seed}"));
        assert!(outputs(&before, &data) == outputs(&after, &data), "seed {seed}\n{after}");
        run(cleanup, &mut after, &options).unwrap();
        assert!(outputs(&before, &data) == outputs(&after, &data), "seed {seed}\n{after}");
    }
}
