//! A body that runs for each slice of its inputs in turn [JAX scan].

use super::{Class, Operator, Signature, attributes, bodies};
use crate::error::{Error, Result};
use crate::types::{Binding, Dim, Shape, Type};
use alloc::format;
use alloc::vec::Vec;

/// `scan carried.., xs [length, ..].., captures.. -> carried.., ys [length, ..].. [body]`: for
/// each index of axis 0 of the xs in turn, `body` takes the carried values, that slice of every
/// xs, and the captures, and gives the next carried values and a slice of every ys.
#[derive(Clone, Debug, PartialEq)]
pub struct Scan {
    /// Operands that are carried, the first ones.
    pub carried: usize,
    /// Operands that are cut along axis 0, behind the carried ones; the others are captures.
    pub xs: usize,
    /// Runs of the body.
    pub length: Dim,
    /// Slices are taken, and results stacked, from the last to the first.
    pub reverse: bool,
}

attributes! { Scan { carried, xs, length, reverse } }

impl Operator for Scan {
    const NAME: &'static str = "scan";
    const CLASS: Class = Class::Compute;

    fn bind(&mut self, binding: &Binding) -> Result<()> {
        self.length = self.length.bind(binding)?;
        Ok(())
    }

    fn infer(&self, _: &[&Type]) -> Result<Vec<Type>> {
        Err(bodies::missing(Self::NAME))
    }

    fn regions(&self) -> &'static [&'static str] {
        &["body"]
    }

    fn infer_regions(&self, operands: &[&Type], regions: &[Signature]) -> Result<Vec<Type>> {
        let parts = operands
            .split_at_checked(self.carried)
            .and_then(|(carried, rest)| Some((carried, rest.split_at_checked(self.xs)?)));
        let (Some((carried, (xs, captures))), [body]) = (parts, regions) else {
            return Err(Error::bad_graph(format!(
                "scan takes {} carried and {} xs and has one region, got {} operands and {} regions",
                self.carried,
                self.xs,
                operands.len(),
                regions.len()
            )));
        };
        bodies::tensors(Self::NAME, operands)?;
        let mut takes: Vec<Type> = carried.iter().map(|&t| t.clone()).collect();
        for (i, x) in xs.iter().enumerate() {
            match x.shape.0.split_first() {
                Some((length, slice)) if *length == self.length && slice_is_whole(x, slice) => {
                    takes.push(Type::tensor(x.dtype, Shape(slice.to_vec())));
                }
                _ => {
                    return Err(Error::bad_graph(format!(
                        "scan: xs {i} is {x}, expected an axis 0 of {}",
                        self.length
                    )));
                }
            }
        }
        takes.extend(captures.iter().map(|&t| t.clone()));
        bodies::takes(Self::NAME, "body", body, takes.iter())?;
        let Some((next, ys)) = body.results.split_at_checked(self.carried) else {
            return Err(Error::bad_graph(format!(
                "scan: body gives {} results, expected {} carried ones first",
                body.results.len(),
                self.carried
            )));
        };
        bodies::gives(Self::NAME, "body", next, &takes[..self.carried], "carried are")?;
        let mut results = next.to_vec();
        for y in ys {
            let mut dims = y.shape.0.clone();
            if dims.is_empty() && y.dtype.is_block() {
                return Err(Error::bad_graph(format!("scan: body gives {y}, which has no rows")));
            }
            dims.insert(0, self.length.clone());
            results.push(Type::tensor(y.dtype, Shape(dims)));
        }
        bodies::some(Self::NAME, &results)?;
        Ok(results)
    }
}

/// A packed row is cut nowhere.
fn slice_is_whole(x: &Type, slice: &[Dim]) -> bool {
    !x.dtype.is_block() || !slice.is_empty()
}
