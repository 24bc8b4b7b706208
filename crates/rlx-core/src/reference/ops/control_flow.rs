//! Bodies of control flow, run as graphs of their own.

use crate::error::{Error, Result};
use crate::ir::mir::Graph;
use crate::ops::def::bodies;
use crate::ops::{If, Operator, Scan, While};
use crate::reference::{Run, View, arity, interpret};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

fn body<'a>(name: &str, regions: &'a [Graph], i: usize) -> Result<&'a Graph> {
    regions.get(i).ok_or_else(|| Error::internal(format!("{name} without region {i}")))
}

impl Run for If {
    fn run(&self, _: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        Err(bodies::missing(Self::NAME))
    }

    fn run_regions(&self, regions: &[Graph], operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [pred, captures @ ..] = operands else { return Err(arity("if")) };
        let taken = usize::from(!is_true(pred.bytes));
        let captures: Vec<&[u8]> = captures.iter().map(|v| v.bytes).collect();
        Ok(interpret(body("if", regions, taken)?, &captures)?.outputs)
    }
}

fn is_true(bool_bytes: &[u8]) -> bool {
    bool_bytes.first().is_some_and(|b| *b != 0)
}

impl Run for While {
    fn run(&self, _: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        Err(bodies::missing(Self::NAME))
    }

    fn run_regions(&self, regions: &[Graph], operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let (cond, step) = (body("while", regions, 0)?, body("while", regions, 1)?);
        let (first, captures) =
            operands.split_at_checked(self.carried).ok_or_else(|| arity("while"))?;
        let mut carried: Vec<Vec<u8>> = first.iter().map(|v| v.bytes.to_vec()).collect();
        let most = self.max.unwrap_or(While::CAP);
        let mut runs = 0;
        loop {
            let values = carried.iter().map(Vec::as_slice).chain(captures.iter().map(|v| v.bytes));
            let values: Vec<&[u8]> = values.collect();
            let holds = interpret(cond, &values)?.outputs;
            if !holds.first().is_some_and(|b| is_true(b)) {
                return Ok(carried);
            }
            if runs == most {
                return Err(Error::bad_graph(format!(
                    "while: its condition still holds after {most} runs of its body"
                ))
                .hint(match self.max {
                    Some(_) => "raise max, or look at what the condition reads",
                    None => "a loop that runs longer needs a max",
                }));
            }
            runs += 1;
            carried = interpret(step, &values)?.outputs;
        }
    }
}

impl Run for Scan {
    fn run(&self, _: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        Err(bodies::missing(Self::NAME))
    }

    fn run_regions(&self, regions: &[Graph], operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let body = body("scan", regions, 0)?;
        let length =
            self.length.as_static().ok_or_else(|| Error::bad_graph("scan: an unbound length"))?;
        let length = length as usize;
        let parts = operands.split_at_checked(self.carried);
        let parts = parts.and_then(|(first, rest)| Some((first, rest.split_at_checked(self.xs)?)));
        let (first, (xs, captures)) = parts.ok_or_else(|| arity("scan"))?;
        let mut carried: Vec<Vec<u8>> = first.iter().map(|v| v.bytes.to_vec()).collect();
        let n_ys = body.outputs.len().saturating_sub(self.carried);
        let mut ys = vec![Vec::new(); n_ys];
        for run in 0..length {
            let i = if self.reverse { length - 1 - run } else { run };
            let slices = xs.iter().map(|x| {
                let bytes = x.bytes.len() / length;
                &x.bytes[i * bytes..][..bytes]
            });
            let values = carried.iter().map(Vec::as_slice).chain(slices);
            let values: Vec<&[u8]> = values.chain(captures.iter().map(|v| v.bytes)).collect();
            let mut results = interpret(body, &values)?.outputs;
            for (y, slice) in ys.iter_mut().zip(results.drain(self.carried..)) {
                y.push(slice);
            }
            carried = results;
        }
        if self.reverse {
            ys.iter_mut().for_each(|y| y.reverse());
        }
        carried.extend(ys.into_iter().map(|y| y.concat()));
        Ok(carried)
    }
}
