//! What a host must bind to run a program, by name.

use crate::ir::lir::{Program, Space};
use crate::ir::mir::ValueId;
use crate::ops::Alias;
use crate::types::Type;
use alloc::string::String;
use alloc::vec::Vec;

/// One thing a host binds, or reads.
#[derive(Clone, Debug, PartialEq)]
pub struct BindingEntry {
    /// Its name.
    pub name: String,
    /// Element type and shape.
    pub ty: Type,
    /// Elements.
    pub elements: u64,
    /// Bytes.
    pub bytes: u64,
    /// Where it lies; weights, states and inputs have memories of their own.
    pub space: Space,
    /// Bytes from that memory's start.
    pub offset: u64,
    /// Whether it is part of another value: it has no bytes of its own.
    pub is_view: bool,
}

/// Inputs, weights, states and outputs of a program, each in the program's order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BindingManifest {
    /// Written before a step.
    pub inputs: Vec<BindingEntry>,
    /// Written once.
    pub weights: Vec<BindingEntry>,
    /// Kept between steps.
    pub states: Vec<BindingEntry>,
    /// Read after a step.
    pub outputs: Vec<BindingEntry>,
    /// Bytes of all weights.
    pub weight_bytes: u64,
}

fn entry(name: &str, ty: &Type, space: Space, offset: u64) -> BindingEntry {
    // A planned program's types are static; an unplanned one has sizes still to come, shown as 0.
    BindingEntry {
        name: name.into(),
        elements: ty.shape.elements().unwrap_or(0),
        bytes: ty.bytes().unwrap_or(0),
        ty: ty.clone(),
        space,
        offset,
        is_view: false,
    }
}

impl BindingManifest {
    /// What a program binds.
    pub fn of(program: &Program) -> Self {
        let weights: Vec<BindingEntry> =
            program.weights.iter().map(|w| entry(&w.name, &w.ty, Space::Weight, 0)).collect();
        // What no step makes, or a step that only shows another value's bytes.
        let g = &program.graph;
        let definers = g.definers();
        let is_view = |v: ValueId| {
            let definer = definers.get(v.0 as usize).copied().flatten();
            definer.is_none_or(|i| matches!(g.alias(&g.nodes[i]), Alias::View { .. }))
        };
        let outputs = program.outputs.iter().zip(&g.outputs).map(|(o, value)| BindingEntry {
            is_view: is_view(value.value),
            ..entry(&o.name, &o.slice.ty, o.slice.space, o.slice.offset)
        });
        BindingManifest {
            inputs: program.inputs.iter().map(|i| entry(&i.name, &i.ty, Space::Input, 0)).collect(),
            states: program.states.iter().map(|s| entry(&s.name, &s.ty, Space::State, 0)).collect(),
            outputs: outputs.collect(),
            weight_bytes: weights.iter().map(|w| w.bytes).sum(),
            weights,
        }
    }
}
