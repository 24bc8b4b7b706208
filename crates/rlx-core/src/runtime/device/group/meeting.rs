//! Where the ranks of a group exchange tensors, by definition: the sum over all ranks, and their tensors one behind the
//! other.

use crate::error::{Code, Error, Result};
use crate::ops::Op;
use crate::runtime::device::shared::Lock;
use crate::types::{DType, Scalar};
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use half::{bf16, f16};

/// A meeting of ranks. The first exchange of a rank meets the first of every other one, and so on.
pub struct Meeting {
    ranks: usize,
    inner: Lock<Inner>,
}

struct Inner {
    /// How many exchanges each rank has left.
    left: Vec<usize>,
    /// The number of the first exchange of `open`.
    first: usize,
    /// Exchanges that some rank has not left yet.
    open: VecDeque<Exchange>,
}

struct Exchange {
    /// The operator and its operand's type, of which all ranks must have the same.
    what: String,
    brought: Vec<Option<Vec<u8>>>,
    /// Once every rank has brought its tensor.
    result: Option<Vec<u8>>,
    leavers: usize,
}

impl Meeting {
    /// A meeting of so many ranks, 1 or more.
    pub fn new(ranks: usize) -> Self {
        let inner = Inner { left: vec![0; ranks], first: 0, open: VecDeque::new() };
        Meeting { ranks, inner: Lock::new(inner) }
    }

    /// Whether an operator is an exchange of this meeting.
    ///
    /// # Errors
    /// `Unsupported` for one of another number of ranks.
    pub fn has(&self, op: &Op) -> Result<bool> {
        let ranks = match op {
            Op::AllReduce(op) => op.ranks,
            Op::AllGather(op) => op.ranks,
            _ => return Ok(false),
        };
        if ranks == self.ranks as u64 {
            return Ok(true);
        }
        let what = format!("{} of {ranks} ranks in a group of {}", op.name(), self.ranks);
        Err(Error::new(Code::Unsupported, what))
    }

    /// Brings a rank's tensor to its next exchange, and takes the result once every rank has brought one. A rank that
    /// has brought its tensor asks again; the bytes of a second call are not looked at.
    ///
    /// # Errors
    /// `Internal` where ranks meet for different exchanges.
    pub fn exchange(
        &self,
        rank: usize,
        op: &Op,
        dtype: DType,
        x: &[u8],
    ) -> Result<Option<Vec<u8>>> {
        let inner = &mut *self.inner.lock();
        let number =
            *inner.left.get(rank).ok_or_else(|| Error::internal("a rank of another group"))?;
        let at = number - inner.first;
        let what = format!("{}{} of {} bytes of {dtype}", op.name(), op.attrs(), x.len());
        if at == inner.open.len() {
            let brought = vec![None; self.ranks];
            inner.open.push_back(Exchange {
                what: what.clone(),
                brought,
                result: None,
                leavers: 0,
            });
        }
        let lost = || Error::internal("a rank has left an exchange that is not there");
        let exchange = inner.open.get_mut(at).ok_or_else(lost)?;
        if exchange.what != what {
            let what = format!("rank {rank} comes to {what}, others to {}", exchange.what);
            return Err(Error::internal(what));
        }
        exchange.brought[rank].get_or_insert_with(|| x.to_vec());
        if exchange.result.is_none() {
            let all: Option<Vec<&[u8]>> = exchange.brought.iter().map(|b| b.as_deref()).collect();
            let Some(all) = all else { return Ok(None) };
            exchange.result = Some(together(op, dtype, &all)?);
        }
        let result = exchange.result.clone();
        exchange.leavers += 1;
        inner.left[rank] += 1;
        while inner.open.front().is_some_and(|e| e.leavers == self.ranks) {
            inner.open.pop_front();
            inner.first += 1;
        }
        Ok(result)
    }
}

/// The result of an exchange: sums in the order of the ranks, of f16 and bf16 in f32.
///
/// # Errors
/// `Unsupported` for sums of another type; `Internal` for an operator that is no exchange.
pub fn together(op: &Op, dtype: DType, all: &[&[u8]]) -> Result<Vec<u8>> {
    match op {
        Op::AllGather(_) => Ok(all.concat()),
        Op::AllReduce(_) => sum(dtype, all),
        _ => Err(Error::internal(format!("{} is no exchange of ranks", op.name()))),
    }
}

/// The sum of floats, element by element.
///
/// # Errors
/// `Unsupported` for another type.
pub fn sum(dtype: DType, all: &[&[u8]]) -> Result<Vec<u8>> {
    let first = all.first().map_or(0, |x| x.len());
    if all.iter().any(|x| x.len() != first) {
        return Err(Error::internal("ranks bring tensors of different sizes"));
    }
    let mut out = Vec::with_capacity(first);
    macro_rules! sums {
        ($n:literal, $from:expr, $to:expr, $zero:expr) => {
            for at in (0..first).step_by($n) {
                let of = |x: &&[u8]| x.get(at..).and_then(|b| b.first_chunk::<$n>()).copied();
                let all = all.iter().filter_map(of).map($from);
                let sum = all.reduce(|sum, x| sum + x).unwrap_or($zero);
                out.extend_from_slice(&$to(sum));
            }
        };
    }
    match dtype {
        DType::F32 => sums!(4, f32::from_le_bytes, f32::to_le_bytes, 0.0),
        DType::Scalar(Scalar::F64) => sums!(8, f64::from_le_bytes, f64::to_le_bytes, 0.0),
        DType::F16 => {
            sums!(2, |b| f16::from_le_bytes(b).to_f32(), |s| f16::from_f32(s).to_le_bytes(), 0.0)
        }
        DType::BF16 => {
            sums!(2, |b| bf16::from_le_bytes(b).to_f32(), |s| bf16::from_f32(s).to_le_bytes(), 0.0)
        }
        _ => return Err(Error::new(Code::Unsupported, format!("a sum of {dtype} over ranks"))),
    }
    Ok(out)
}
