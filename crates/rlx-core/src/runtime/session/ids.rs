//! Ids that a host gives: each must be a row of the table that it is looked up in.
//!
//! Executors read the nearest row for an id outside of a table. Where the host gave such an id it is a mistake, most
//! often of a tokenizer that belongs to another model, so a run refuses it. Ids that are on the device already are
//! not looked at: reading them back would cost a wait.

use super::TensorRef;
use super::tensor::listed;
use crate::error::{Error, Result};
use crate::ir::mir::{Graph, ParamKind};
use crate::ops::Op;
use crate::types::DType;
use alloc::format;
use alloc::vec::Vec;

/// An input whose elements a `gather` reads as they are.
pub(super) struct Ids {
    /// Which of the graph's inputs.
    input: usize,
    /// Rows of its table; of the smallest, where several are read.
    rows: u64,
}

impl Ids {
    /// Every such input of a graph whose tables have a static number of rows.
    pub fn of(g: &Graph) -> Vec<Ids> {
        let inputs = g.params.iter().filter(|p| p.kind == ParamKind::Input).enumerate();
        let rows = |value| {
            let tables = g.nodes.iter().filter_map(|node| match (&node.op, &node.inputs[..]) {
                (Op::Gather(gather), &[table, ids]) if ids == value => {
                    g.ty(table).shape.0.get(gather.axis)?.as_static()
                }
                _ => None,
            });
            tables.min()
        };
        inputs.filter_map(|(input, p)| Some(Ids { input, rows: rows(p.value)? })).collect()
    }

    /// Which of the graph's inputs they are.
    pub fn input(&self) -> usize {
        self.input
    }

    /// Checks the input's tensor. A negative id counts from the table's end.
    ///
    /// # Errors
    /// `Usage` for the first id outside of the table, with its position and the table's rows.
    pub fn check(&self, name: &str, ids: &TensorRef<'_>) -> Result<()> {
        let rows = i128::from(self.rows);
        let outside = |id: i64| !(-rows..rows).contains(&i128::from(id));
        let (four, eight) = (ids.bytes.as_chunks().0, ids.bytes.as_chunks().0);
        let found = match ids.dtype {
            DType::U32 => first(four.iter().map(|b| u32::from_le_bytes(*b).into()), outside),
            DType::I32 => first(four.iter().map(|b| i32::from_le_bytes(*b).into()), outside),
            _ => first(eight.iter().map(|b| i64::from_le_bytes(*b)), outside),
        };
        let Some((at, id)) = found else { return Ok(()) };
        let (at, rows) = (listed(&position(at, ids.dims)), self.rows);
        let what =
            format!("input {name} has the id {id} at position {at}, its table has {rows} rows");
        let hint = match rows.checked_sub(1) {
            Some(last) => format!("give ids from 0 to {last}"),
            None => "give a table that has rows".into(),
        };
        Err(Error::usage(what).hint(hint))
    }
}

/// The first id that is outside, and which element it is.
fn first(ids: impl Iterator<Item = i64>, outside: impl Fn(i64) -> bool) -> Option<(usize, i64)> {
    ids.enumerate().find(|&(_, id)| outside(id))
}

/// The index on every axis of an element of a tensor.
fn position(element: usize, dims: &[u64]) -> Vec<u64> {
    let mut rest = element as u64;
    let mut index: Vec<u64> = dims
        .iter()
        .rev()
        .map(|&n| {
            let i = rest % n;
            rest /= n;
            i
        })
        .collect();
    index.reverse();
    index
}
