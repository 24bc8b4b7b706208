//! Element types of caches, and the text that reads and makes blocks of `q8_0` and `q4_0`.
//!
//! A block is an f16 scale and 32 bytes, or 16: 17 halves of words, or 9, and two are 17 words, or 9. So rows of
//! heads of whole 64 elements are whole words. Element `e` of a cache is one of block `e / 32`, whichever head
//! and position it is of.

use super::emit::fill;
use rlx_core::ir::lir::Slice;
use rlx_core::types::{BlockFormat, DType};

/// What a cache holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kv {
    F32,
    F16,
    Q8_0,
    Q4_0,
}

/// The texts of `q4_0`. A page has no such caches, and does not download them.
const READ_Q4_0: &str = if cfg!(target_arch = "wasm32") { "" } else { wgsl!("kv/read_q4_0.wgsl") };
const MAKE_Q4_0: &str = if cfg!(target_arch = "wasm32") { "" } else { wgsl!("kv/make_q4_0.wgsl") };

impl Kv {
    /// Of a cache that its kernel's `takes` let pass.
    pub fn of(cache: &Slice) -> Self {
        match cache.ty.dtype {
            DType::F16 => Self::F16,
            DType::Block(BlockFormat::Q4_0) => Self::Q4_0,
            DType::Block(_) => Self::Q8_0,
            _ => Self::F32,
        }
    }

    /// The name in a kernel's header.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Q8_0 => "q8_0",
            Self::Q4_0 => "q4_0",
        }
    }

    /// Words of two blocks, which are 64 elements; `None` of floats.
    pub fn words(self) -> Option<u64> {
        match self {
            Self::F32 | Self::F16 => None,
            Self::Q8_0 => Some(17),
            Self::Q4_0 => Some(9),
        }
    }

    /// `pair_of_<array>`, `four_of_`, `eight_of_` and `scale_of_`: elements of the cache at a word of each of these
    /// arrays. Nothing for floats.
    pub fn readers(self, vars: &[&str]) -> String {
        let reader = match self {
            Self::F32 | Self::F16 => return String::new(),
            Self::Q8_0 => wgsl!("kv/read_q8_0.wgsl"),
            Self::Q4_0 => READ_Q4_0,
        };
        let mut text = String::new();
        for (i, var) in vars.iter().enumerate() {
            if !vars[..i].contains(var) {
                text += &fill(reader, &[("b", var)]);
            }
        }
        text
    }

    /// `fn word_of_blocks(pair, thread) -> u32`, for workgroups of `threads`. Nothing for floats.
    pub fn maker(self, threads: u64) -> String {
        let maker = match self {
            Self::F32 | Self::F16 => return String::new(),
            Self::Q8_0 => wgsl!("kv/make_q8_0.wgsl"),
            Self::Q4_0 => MAKE_Q4_0,
        };
        let halves = (threads / 16 * 17).to_string();
        let values = [("threads", threads.to_string()), ("halves", halves)];
        fill(maker, &values.each_ref().map(|(k, v)| (*k, v.as_str())))
    }
}

/// Where a cache has the row of a position, in WGSL.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    /// Positions of a ring.
    ring: Option<u64>,
}

impl Rows {
    /// Of a cache of so many positions.
    pub fn of(ring: bool, capacity: u64) -> Self {
        Rows { ring: ring.then_some(capacity) }
    }

    /// The row of a position.
    pub fn row(self, position: &str) -> String {
        match self.ring {
            Some(positions) => format!("(({position}) % {positions}u)"),
            None => position.into(),
        }
    }

    /// The end of positions that the cache has, none of them behind `end`.
    pub fn end(self, end: &str) -> String {
        match self.ring {
            Some(_) => end.into(),
            None => format!("min({end}, step.capacity)"),
        }
    }
}
