//! What ranks exchange, by definition. Alone a rank has no more than its own tensor, so an operator of several ranks
//! runs in a [`Meeting`](crate::runtime::device::group::Meeting) of devices only.

use crate::error::{Code, Error, Result};
use crate::ops::{AllGather, AllReduce};
use crate::reference::{Run, View};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

fn alone(name: &str, ranks: u64, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
    match operands {
        [x] if ranks == 1 => Ok(vec![x.bytes.to_vec()]),
        _ => {
            let what = format!("{name} of {ranks} ranks runs on a group of so many devices");
            Err(Error::new(Code::Unsupported, what))
        }
    }
}

impl Run for AllReduce {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        alone("all_reduce", self.ranks, operands)
    }
}

impl Run for AllGather {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        alone("all_gather", self.ranks, operands)
    }
}
