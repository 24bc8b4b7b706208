//! `plan::check` finds each kind of fault, and `plan::replay` shows freed and unwritten bytes.

use super::{bytes, f32s, floats, planned};
use crate::targets;
use rlx_core::ir::lir::{Program, Space};
use rlx_core::ir::mir::{Graph, ParamKind};
use rlx_core::ops::{Binary, KvWrite, Map, RmsNorm, Unary, Zip};
use rlx_core::plan::WeightPlan;
use rlx_core::plan::check::check;
use rlx_core::plan::replay::{POISON, Replay, ReplayMemory, replay};
use rlx_core::reference::interpret;
use rlx_core::target::{Limits, Target};
use rlx_core::types::{DType, Shape, Type};

/// `exp` (a), then three norms in a row (c, d, e), then `e + c`, each a step of `[2, 16]`.
fn chain() -> Graph {
    let mut g = Graph::new("chain");
    let x = g.param(ParamKind::Input, "x", f32s(&[2, 16]));
    let w = g.param(ParamKind::Weight, "w", f32s(&[16]));
    let a = g.push1(Map { f: Unary::Exp }, &[x], "a").unwrap();
    let norm = RmsNorm { eps: 1e-5 };
    let c = g.push1(norm.clone(), &[a, w], "c").unwrap();
    let d = g.push1(norm.clone(), &[c, w], "d").unwrap();
    let e = g.push1(norm, &[d, w], "e").unwrap();
    let f = g.push1(Zip { f: Binary::Add }, &[e, c], "f").unwrap();
    g.output("y", f);
    g
}

fn x_bytes() -> Vec<u8> {
    bytes(&(0..32).map(|i| i as f32 / 16.0 - 1.0).collect::<Vec<_>>())
}

fn w() -> Vec<u8> {
    bytes(&(0..16).map(|i| 1.0 + i as f32 / 8.0).collect::<Vec<_>>())
}

fn memory(program: &Program) -> ReplayMemory {
    let mut memory = ReplayMemory::of(program);
    memory.inputs[0] = x_bytes();
    memory
}

fn fault(program: &Program, weights: &WeightPlan) -> String {
    check(program, weights, &Target::reference().limits).unwrap_err().to_string()
}

#[test]
fn a_replayed_plan_gives_what_the_graph_gives() {
    let (program, weights) = planned(chain());
    check(&program, &weights, &targets::GPU_LIMITS).unwrap();
    let y = replay(&program, &[&w()], &mut memory(&program)).unwrap();
    assert_eq!(y, interpret(&program.graph, &[&x_bytes(), &w()]).unwrap().outputs);
    assert!(floats(&y[0]).iter().all(|v| v.is_finite()));
}

#[test]
fn after_the_last_step_the_arena_is_poison_but_for_the_output() {
    let (program, _) = planned(chain());
    let mut memory = memory(&program);
    memory.arena.fill(7);
    replay(&program, &[&w()], &mut memory).unwrap();
    let y = &program.outputs[0].slice;
    let y = y.offset as usize..(y.offset + y.bytes) as usize;
    assert!(program.arena_bytes > 128, "something is freed");
    for (i, &b) in memory.arena.iter().enumerate() {
        assert!(y.contains(&i) || b == POISON, "byte {i} is {b}");
    }
}

#[test]
fn a_step_that_reads_a_freed_value_reads_nan() {
    let (program, _) = planned(chain());
    let ready = Replay::new(&program).unwrap();
    // `f` adds `d`, which died when `e` was made, instead of `c`.
    let mut faulty = program.clone();
    faulty.steps[4].operands[1].offset = program.steps[2].results[0].offset;
    let mut memory = memory(&program);
    ready.start(&mut memory);
    for s in 0..5 {
        ready.step(&faulty, s, &[&w()], &mut memory).unwrap();
    }
    let y = ready.outputs(&faulty, &[&w()], &memory).unwrap();
    assert!(floats(&y[0]).iter().all(|v| v.is_nan()));
    // The same fault is an error where a program is made ready, with its place.
    let e = Replay::new(&faulty).unwrap_err().to_string();
    assert!(e.contains("of rms_norm c is at arena byte"), "{e}");
    assert!(e.contains("(step 4 zip f)"), "{e}");
}

#[test]
fn a_step_that_reads_what_was_never_written_reads_nan() {
    let (program, _) = planned(chain());
    let ready = Replay::new(&program).unwrap();
    let mut memory = memory(&program);
    ready.start(&mut memory);
    ready.step(&program, 4, &[&w()], &mut memory).unwrap();
    let y = ready.outputs(&program, &[&w()], &memory).unwrap();
    assert!(floats(&y[0]).iter().all(|v| v.is_nan()));
}

#[test]
fn values_that_live_together_may_not_overlap() {
    let (mut program, weights) = planned(chain());
    // `e` over `c`, which `f` reads.
    let at = program.steps[1].results[0].offset;
    program.steps[3].results[0].offset = at;
    program.steps[4].operands[0].offset = at;
    // `f` elsewhere, so that this is the only fault.
    let end = program.arena_bytes;
    program.arena_bytes += 128;
    program.arena_segments = vec![program.arena_bytes];
    program.steps[4].results[0].offset = end;
    program.outputs[0].slice.offset = end;
    let e = fault(&program, &weights);
    assert!(e.contains("of rms_norm e at arena bytes"), "{e}");
    assert!(e.contains("overlaps %3 of rms_norm c at"), "{e}");
    assert!(e.contains("which is needed until step 4 zip f (@chain, step 3 rms_norm e)"), "{e}");
}

#[test]
fn only_elementwise_results_take_their_operands_place_and_only_when_it_dies() {
    let (program, weights) = planned(chain());
    // A norm over its operand, which dies there.
    let mut faulty = program.clone();
    let at = program.steps[2].results[0].offset;
    faulty.steps[3].results[0].offset = at;
    faulty.steps[4].operands[0].offset = at;
    let e = fault(&faulty, &weights);
    assert!(e.contains("of rms_norm e at") && e.contains("overlaps %4 of rms_norm d"), "{e}");
    let ready = Replay::new(&program).unwrap();
    let e = ready.step(&faulty, 3, &[&w()], &mut memory(&program)).unwrap_err().to_string();
    assert!(e.contains("overlaps operand 0") && e.contains("(@chain, step 3 rms_norm e)"), "{e}");

    // A map in place of a value that is read again.
    let mut g = Graph::new("again");
    let x = g.param(ParamKind::Input, "x", f32s(&[2, 16]));
    let a = g.push1(Map { f: Unary::Exp }, &[x], "a").unwrap();
    let b = g.push1(Map { f: Unary::Neg }, &[a], "b").unwrap();
    let c = g.push1(Zip { f: Binary::Mul }, &[b, a], "c").unwrap();
    g.output("c", c);
    let (mut program, weights) = planned(g);
    check(&program, &weights, &Target::reference().limits).unwrap();
    let at = program.steps[0].results[0].offset;
    program.steps[1].results[0].offset = at;
    program.steps[2].operands[0].offset = at;
    assert!(fault(&program, &weights).contains("overlaps %1 of map a"));
}

#[test]
fn a_chain_in_place_is_fine_and_keeps_its_value() {
    let mut g = Graph::new("in_place");
    let x = g.param(ParamKind::Input, "x", f32s(&[2, 16]));
    let a = g.push1(Map { f: Unary::Exp }, &[x], "a").unwrap();
    let b = g.push1(Map { f: Unary::Neg }, &[a], "b").unwrap();
    let c = g.push1(Map { f: Unary::Exp }, &[b], "c").unwrap();
    g.output("c", c);
    let (program, weights) = planned(g);
    assert_eq!(program.arena_bytes, 128, "one place for all");
    check(&program, &weights, &Target::reference().limits).unwrap();
    let y = replay(&program, &[], &mut memory(&program)).unwrap();
    assert_eq!(y, interpret(&program.graph, &[&x_bytes()]).unwrap().outputs);
}

#[test]
fn slices_are_aligned_and_inside_their_memory() {
    let (program, weights) = planned(chain());
    let mut faulty = program.clone();
    // The value and everything that reads it.
    let at = faulty.steps[0].results[0].offset;
    let slices = faulty.steps.iter_mut().flat_map(|s| s.operands.iter_mut().chain(&mut s.results));
    let slices = slices.chain(faulty.outputs.iter_mut().map(|o| &mut o.slice));
    for slice in slices.filter(|s| s.space == Space::Arena && s.offset == at) {
        slice.offset += 4;
    }
    let e = fault(&faulty, &weights);
    assert!(e.contains("no multiple of 64 (@chain, step 0 map a)"), "{e}");

    let mut faulty = program.clone();
    faulty.arena_bytes = 64;
    faulty.arena_segments = vec![64];
    assert!(fault(&faulty, &weights).contains("does not fit the arena of 64 bytes"));

    let mut faulty = program.clone();
    faulty.steps[1].operands[1].index = 9;
    assert!(fault(&faulty, &weights).contains("operand 1 is in its weight 9, which is not there"));

    let mut faulty = program;
    faulty.steps[0].operands[0].bytes = 64;
    assert!(fault(&faulty, &weights).contains("operand 0 is tensor<2x16xf32> and has 64 bytes"));
}

#[test]
fn memories_are_within_the_limits() {
    let (program, weights) = planned(chain());
    let limits = Limits { storage_buffers: 1, ..targets::GPU_LIMITS };
    let e = check(&program, &weights, &limits).unwrap_err();
    assert_eq!(e.code, rlx_core::Code::Unsupported);
    let e = e.to_string();
    assert_eq!(e, "the step touches 2 memories, the device binds 1 (@chain, step 0 map a)");
    let limits = Limits { binding: 100, ..targets::GPU_LIMITS };
    let e = check(&program, &weights, &limits).unwrap_err().to_string();
    assert!(e.starts_with("the arena has 384 bytes, the device binds at most 100"), "{e}");
}

#[test]
fn steps_are_the_graphs_nodes_in_order() {
    let (program, weights) = planned(chain());
    let mut faulty = program.clone();
    faulty.steps.swap(1, 4);
    assert!(fault(&faulty, &weights).contains("the graph has rms_norm c here"));
    let mut faulty = program.clone();
    faulty.steps.pop();
    assert!(fault(&faulty, &weights).contains("no step for node zip f"));
    let mut faulty = program;
    faulty.steps.push(faulty.steps[4].clone());
    assert!(fault(&faulty, &weights).contains("the graph has no node for this step"));
}

#[test]
fn a_states_next_version_is_at_the_place_of_the_last() {
    let mut g = Graph::new("write");
    let cache = Type::state(DType::F32, Shape::of(&[1, 4, 8]));
    let x = g.param(ParamKind::Input, "x", f32s(&[1, 8]));
    let ctl = g.param(ParamKind::State, "ctl", Type::state(DType::U32, Shape::of(&[16])));
    let k = g.param(ParamKind::State, "k", cache.clone());
    g.param(ParamKind::State, "v", cache);
    g.push1(KvWrite::default(), &[k, x, ctl], "k_write").unwrap();
    let (mut program, weights) = planned(g);
    check(&program, &weights, &Target::reference().limits).unwrap();
    program.steps[0].results[0].index = 2;
    let e = fault(&program, &weights);
    assert!(e.contains("is not at the place of k, the state it replaces"), "{e}");
}
