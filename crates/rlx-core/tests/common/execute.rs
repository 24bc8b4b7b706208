//! A graph and its program, run with the oracle on the same bytes.

use rlx_core::Result;
use rlx_core::ir::lir::{Program, Space, StateDecl};
use rlx_core::ir::mir::{Graph, ParamKind};
use rlx_core::ops::Alias;
use rlx_core::plan::check::check;
use rlx_core::plan::replay::{ReplayMemory, replay};
use rlx_core::plan::{ALIGNMENT, Origin, WeightPlan, plan};
use rlx_core::reference::interpret;
use rlx_core::reference::make::make;
use rlx_core::target::{CompileOptions, Target};
use rlx_core::types::{DType, Scalar, Type};
use std::collections::BTreeMap;

/// Bytes by the names of parameters.
pub type Data = BTreeMap<String, Vec<u8>>;

/// Bytes of the outputs, in order, and of the states after the run.
pub type Outcome = (Vec<Vec<u8>>, Data);

/// The states of a graph, as a session of it alone would have them.
pub fn states(g: &Graph) -> Vec<StateDecl> {
    let states = g.params.iter().filter(|p| p.kind == ParamKind::State);
    states
        .map(|p| {
            let ty = g.ty(p.value).clone();
            StateDecl { name: p.name.clone(), bytes: ty.bytes().unwrap(), ty }
        })
        .collect()
}

/// A graph node by node, every value in memory of its own.
pub fn interpreted(g: &Graph, data: &Data) -> Result<Outcome> {
    let params: Vec<&[u8]> = g.params.iter().map(|p| data[&p.name].as_slice()).collect();
    let run = interpret(g, &params)?;
    let states = g.params.iter().zip(run.params).filter(|(p, _)| p.kind == ParamKind::State);
    let states = states.map(|(p, bytes)| (p.name.clone(), one_nan(bytes, g.ty(p.value))));
    let outputs = run.outputs.into_iter().zip(&g.outputs);
    let outputs = outputs.map(|(bytes, o)| one_nan(bytes, g.ty(o.value)));
    Ok((outputs.collect(), states.collect()))
}

/// A program with its weights bound, and the file they come from.
pub struct Planned {
    pub program: Program,
    pub weights: WeightPlan,
    file: Vec<u8>,
}

/// The program of an optimised graph, its weights bound and its plan checked.
pub fn planned(
    g: Graph,
    target: &Target,
    options: &CompileOptions,
    data: &Data,
) -> Result<Planned> {
    let all = states(&g);
    let mut program = plan(g, &all, target, options)?;
    let mut file = Vec::new();
    let weights = WeightPlan::new(&[&program], &target.limits, |name| {
        let bytes = data.get(name)?;
        file.extend_from_slice(bytes);
        Some((0, (file.len() - bytes.len()) as u64, bytes.len() as u64))
    })?;
    weights.bind(&mut program)?;
    check(&program, &weights, &target.limits)?;
    Ok(Planned { program, weights, file })
}

/// A program by its addresses, freed bytes poisoned.
pub fn replayed(planned: &Planned, data: &Data) -> Result<Outcome> {
    let Planned { program, weights, file } = planned;
    let range = |at: u64, bytes: u64| &file[at as usize..(at + bytes) as usize];
    let mut bytes: Vec<Vec<u8>> = Vec::new();
    for e in &weights.entries {
        bytes.push(match &e.origin {
            Origin::File { offset, .. } => range(*offset, e.bytes).to_vec(),
            Origin::Pieces(pieces) => {
                pieces.iter().flat_map(|p| range(p.offset, p.bytes).iter().copied()).collect()
            }
            Origin::Rows(rows) => (0..rows.count)
                .flat_map(|i| range(rows.offset + i * rows.stride, rows.run).iter().copied())
                .collect(),
            Origin::Made(recipe) => make(recipe, &|name| data.get(name).map(Vec::as_slice))?,
        });
    }
    let bytes: Vec<&[u8]> = bytes.iter().map(Vec::as_slice).collect();
    let mut memory = ReplayMemory::of(program);
    for (i, input) in program.inputs.iter().enumerate() {
        memory.inputs[i] = data[&input.name].clone();
    }
    for (i, state) in program.states.iter().enumerate() {
        memory.states[i] = data[&state.name].clone();
    }
    let outputs = replay(program, &bytes, &mut memory)?;
    let outputs = outputs.into_iter().zip(&program.outputs);
    let outputs = outputs.map(|(bytes, o)| one_nan(bytes, &o.slice.ty)).collect();
    let states = program.states.iter().zip(memory.states);
    Ok((outputs, states.map(|(s, bytes)| (s.name.clone(), one_nan(bytes, &s.ty))).collect()))
}

/// The most bytes of 64-byte slots that live at once, told from the steps alone.
pub fn largest_live_slots(p: &Program) -> u64 {
    let slot = |bytes: u64| bytes.div_ceil(ALIGNMENT) * ALIGNMENT;
    // Offset, bytes, first and last step.
    let mut values: Vec<(u64, u64, usize, usize)> = Vec::new();
    for (s, step) in p.steps.iter().enumerate() {
        for x in step.operands.iter().filter(|x| x.space == Space::Arena) {
            let v = values.iter_mut().rev().find(|v| v.0 <= x.offset && x.offset < v.0 + v.1);
            v.expect("an operand was written").3 = s;
        }
        for (r, y) in step.results.iter().enumerate() {
            if y.space != Space::Arena || y.bytes == 0 {
                continue;
            }
            let in_place = match step.alias() {
                Alias::Elementwise { operand } if r == 0 => {
                    let x = &step.operands[operand];
                    x.space == Space::Arena && x.offset == y.offset
                }
                _ => false,
            };
            if !in_place {
                values.push((y.offset, y.bytes, s, s));
            }
        }
    }
    for o in p.outputs.iter().filter(|o| o.slice.space == Space::Arena) {
        let v = values.iter_mut().rev().find(|v| v.0 == o.slice.offset);
        v.expect("an output was written").3 = p.steps.len();
    }
    let live = |s: usize| values.iter().filter(|v| v.2 <= s && s <= v.3).map(|v| slot(v.1)).sum();
    (0..p.steps.len()).map(live).max().unwrap_or(0)
}

/// The bytes with every NaN the same one: which of two an operator gives is nobody's promise.
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
