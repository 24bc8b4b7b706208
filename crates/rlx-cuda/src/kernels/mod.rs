//! From a step of a program to launches: a kernel's text, its arguments and a grid.
//!
//! A text is `common.cuh`, definitions of what is constant of the step (sizes, types, functions), the decoders of its
//! weights, and the operator's file. Places are arguments, so that steps of one shape share a function.

mod attention;
mod attention_one;
mod axes;
mod causal_conv1d;
mod chain;
mod conv;
mod conv_products;
mod conv_transpose;
mod copies;
mod delta_net;
mod digits;
mod elements;
mod elementwise;
mod emit;
mod exchange;
mod extreme;
mod formats;
mod functions;
mod gated_delta_net;
mod gather;
mod gather_axis;
mod grouped_groups;
mod grouped_matmul;
mod grouped_tiles;
mod interpolate;
mod iota;
mod kv_write;
mod library;
mod matmul;
mod narrow;
mod numbers;
pub(crate) mod planes;
mod pool;
mod predict;
mod product;
mod random;
mod reduce;
mod rms_norm;
mod rope;
mod route;
mod sample;
mod scalar;
mod scatter_add;
mod sdpa;
mod sliding;
mod softmax;
mod sort;
mod standardise;
mod state_write;
mod stream;
mod take_rows;
mod takes;
mod tensor_axes;
mod transpose;
mod units;
mod unmask;
mod walk;
mod weighted_sum;

pub use emit::{Argument, Memory};
pub(crate) use stream::RING;

use crate::driver::{Driver, DriverInfo, Exchanged, Floats};
use emit::Emit;
use formats::decoder;
use rlx_core::ir::lir::{Program, Slice, Step};
use rlx_core::ops::Alias;
use rlx_core::plan::WeightPlan;
use rlx_core::target::{Caches, KernelClaim, KernelRow, RegionLimits, Takes, Target};
use rlx_core::types::{BlockFormat, DType, Scalar, Type};
use rlx_core::{Code, Error, Result};

/// The longest chain of elementwise operators in one kernel.
pub(crate) const REGIONS: RegionLimits = RegionLimits { steps: 32, inputs: 8 };

/// What caches of keys and values may be of.
pub(crate) const CACHES: Caches =
    Caches { types: &[DType::F32, DType::F16, DType::Block(BlockFormat::Q8_0)], block_heads: 32 };

/// Threads of a block in kernels that compute one row.
const THREADS: u64 = 256;

/// A launch of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Kernel {
    /// The text.
    pub source: String,
    /// Its function.
    pub entry: &'static str,
    /// Pointers, in order.
    pub arguments: Vec<Argument>,
    /// Blocks along each axis.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of shared memory beside what the text declares.
    pub shared: u32,
    /// Whether it may start while the kernel before it runs.
    pub early: bool,
    /// Bytes of scratch memory, from its start on, that its own blocks leave each other.
    pub scratch: u64,
    /// Bytes of [`Memory::Counts`] that it reaches.
    pub counts: u64,
    /// Which of its blocks are for tokens that a submission may not have.
    pub by_tokens: Option<ByTokens>,
}

/// An axis of blocks, as many as tokens need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByTokens {
    /// The axis.
    pub axis: usize,
    /// Rows, or threads, of a token.
    pub of_a_token: u64,
    /// Rows, or threads, of a block.
    pub of_a_block: u64,
}

/// A product of matrices by the card's library, as [`driver::Product`](crate::driver::Product) has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Product {
    pub x: Argument,
    pub w: Argument,
    pub y: Argument,
    pub rows: u32,
    pub columns: u32,
    pub k: u32,
    pub floats: Floats,
    pub bias: Option<Argument>,
    pub residual: Option<Argument>,
    /// Rows of a token, where those of absent tokens may be left out.
    pub per_token: Option<u64>,
}

/// What ranks exchange, as [`driver::Exchange`](crate::driver::Exchange) has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    pub what: Exchanged,
    pub x: Argument,
    pub y: Argument,
    pub bytes: u64,
}

/// What a step is made of.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    Kernel(Kernel),
    Product(Product),
    Exchange(Exchange),
}

impl Work {
    /// Bytes of scratch memory that it reaches.
    pub fn scratch(&self) -> u64 {
        match self {
            // What else kernels leave in scratch memory a product reads, or the other way round.
            Work::Kernel(kernel) => kernel.scratch,
            // It goes from the arena to the arena.
            Work::Exchange(_) => 0,
            Work::Product(p) => {
                let [rows, columns, k] = [p.rows, p.columns, p.k].map(u64::from);
                let ends = [
                    (p.x, 2 * rows * k),
                    (p.w, 2 * columns * k),
                    (p.y, p.floats.bytes() * rows * columns),
                ];
                let of = |(at, bytes): (Argument, u64)| {
                    (at.memory == Memory::Scratch).then_some(at.offset + bytes)
                };
                ends.into_iter().filter_map(of).max().unwrap_or(0)
            }
        }
    }
}

impl Kernel {
    /// The same, but started when the one before it is done: a kernel of many heavy blocks, which would have the places
    /// that come free first, and leave others of the card empty.
    fn alone(self) -> Self {
        Kernel { early: false, ..self }
    }

    /// The same, with blocks along an axis for the tokens of a submission alone. `rows`: a token's, where those of
    /// absent tokens may be left out.
    fn by_tokens(self, rows: Option<u64>, axis: usize, of_a_row: u64, of_a_block: u64) -> Self {
        let of = |rows: u64| ByTokens { axis, of_a_token: rows * of_a_row, of_a_block };
        Kernel { by_tokens: rows.map(of), ..self }
    }

    /// Blocks along each axis for so many tokens.
    pub fn grid_of(&self, tokens: u64) -> [u32; 3] {
        let mut grid = self.grid;
        if let Some(ByTokens { axis, of_a_token, of_a_block }) = self.by_tokens {
            let blocks = tokens.saturating_mul(of_a_token).div_ceil(of_a_block);
            grid[axis] = grid[axis].min(u32::try_from(blocks).unwrap_or(u32::MAX));
        }
        grid
    }
}

/// What kernels depend on of a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Card {
    /// Whether it has a library for products, by the number of their floats.
    products: [bool; 3],
    /// Whether it copies bytes into shared memory while a block computes.
    pub bulk_copies: bool,
    /// Whether four warps have products of matrices in shared memory.
    pub warpgroups: bool,
    /// Multiprocessors.
    pub processors: u32,
}

impl Card {
    /// A driver's.
    pub fn of(driver: &impl Driver) -> Card {
        let &DriverInfo { processors, bulk_copies, warpgroups, .. } = driver.info();
        let products = Floats::ALL.map(|floats| driver.multiplies(floats));
        Card { products, bulk_copies, warpgroups, processors }
    }

    /// Whether it has a library for products of these floats.
    pub fn multiplies(self, floats: Floats) -> bool {
        self.products[floats as usize]
    }

    /// Cards that differ from this one in what kernels depend on.
    pub fn others(self) -> impl Iterator<Item = Card> {
        let generations = [(false, false), (true, false), (true, true)];
        let all = [false, true].into_iter().flat_map(move |has| {
            generations.map(|(bulk_copies, warpgroups)| Card {
                products: [has; 3],
                bulk_copies,
                warpgroups,
                ..self
            })
        });
        all.filter(move |card| *card != self)
    }
}

/// What kernels depend on beside their step.
pub(crate) struct Context<'a> {
    /// Where weights are.
    pub plan: &'a WeightPlan,
    /// The state that is the control block, if the program has one.
    pub control: Option<u32>,
    /// The card.
    pub card: Card,
    /// The device as the compiler sees it.
    pub target: &'a Target,
}

impl Context<'_> {
    fn emit(&self, step: &Step) -> Emit<'_> {
        Emit::new(self.plan, self.control.zip(step.live))
    }

    /// Rows of a token in a step that leaves those of absent tokens out.
    fn live(&self, step: &Step) -> Option<u64> {
        step.live.filter(|_| self.control.is_some())
    }

    /// The same in a step that reads the control block, whose rows are tokens.
    fn tokens(&self) -> Option<u64> {
        self.control.map(|_| 1)
    }
}

/// Makes the launches of a step; none where it has nothing to do.
type Build = fn(&Step, &Context<'_>) -> Result<Vec<Kernel>>;

/// An operator: its name, which forms of it are taken, and what builds it.
const fn row(op: &'static str, takes: Takes, build: Build) -> KernelRow<Build> {
    KernelRow::new(op, takes, build)
}

/// Every kernel.
const ROWS: &[KernelRow<Build>] = &[
    row("gather", gather_axis::takes, gather_axis::run),
    row("rms_norm", rms_norm::takes, rms_norm::rms_norm),
    row("rms_norm_add", rms_norm::takes, rms_norm::rms_norm),
    row("gated_rms_norm", rms_norm::takes, rms_norm::rms_norm),
    row("causal_conv1d", causal_conv1d::takes, causal_conv1d::causal_conv1d),
    row("delta_net", delta_net::takes, delta_net::delta_net),
    row("matmul", matmul::takes, matmul::matmul),
    row("route", route::takes, route::route),
    row("grouped_matmul", grouped_matmul::takes, grouped_matmul::grouped_matmul),
    row("rope", rope::takes, rope::rope),
    row("rope_kv_write", rope::takes_writes, rope::rope_kv_write),
    row("kv_write", kv_write::takes, kv_write::kv_write),
    row("attention", attention::takes, attention::attention),
    row("map", chain::takes, chain::run),
    row("zip", chain::takes, chain::run),
    row("elementwise_region", chain::takes, chain::run),
    row("sample", sample::takes, sample::sample),
    row("take_rows", take_rows::takes, take_rows::take_rows),
    row("gated_delta_net", gated_delta_net::takes, gated_delta_net::gated_delta_net),
    row("batch_matmul", product::takes, product::batch_matmul),
    row("dot_general", product::takes, product::dot_general),
    row("conv", conv::takes, conv::conv),
    row("conv_transpose", conv_transpose::takes, conv_transpose::conv_transpose),
    row("pool", pool::takes, pool::pool),
    row("interpolate", interpolate::takes, interpolate::interpolate),
    row("reduce", reduce::takes, reduce::reduce),
    row("sdpa", sdpa::takes, sdpa::sdpa),
    row("softmax", softmax::takes, softmax::softmax),
    row("layer_norm", standardise::takes, standardise::layer_norm),
    row("group_norm", standardise::takes, standardise::group_norm),
    row("compare", chain::takes, chain::run),
    row("select", chain::takes, chain::run),
    row("cast", chain::takes, chain::run),
    row("clamp", chain::takes, chain::run),
    row("slice", copies::takes, copies::slice),
    row("concat", copies::takes, copies::concat),
    row("transpose", copies::takes, copies::transpose),
    row("expand", copies::takes, copies::expand),
    row("reverse", copies::takes, copies::reverse),
    row("pad", axes::takes, axes::pad),
    row("roll", axes::takes, axes::roll),
    row("im2col", axes::takes, axes::im2col),
    row("gather_elements", gather_axis::takes, gather_axis::run),
    row("scatter_add", scatter_add::takes, scatter_add::scatter_add),
    row("state_write", state_write::takes, state_write::state_write),
    row("sort", sort::takes, sort::sort),
    row("top_k", sort::takes, sort::sort),
    row("argmax", extreme::takes, extreme::extreme),
    row("argmin", extreme::takes, extreme::extreme),
    row("random_uniform", random::takes, random::random),
    row("random_normal", random::takes, random::random),
    row("predict", predict::takes, predict::predict),
    row("unmask", unmask::takes, unmask::unmask),
    row("weighted_sum", weighted_sum::takes, weighted_sum::weighted_sum),
    row("iota", iota::takes, iota::iota),
    row("all_reduce", exchange::takes, exchange::exchange),
    row("all_gather", exchange::takes, exchange::exchange),
];

/// What the executor's kernels take.
pub(crate) const KERNELS: &[KernelClaim] = &KernelRow::claims::<{ ROWS.len() }>(ROWS);

/// The work of every step of a program, with the step's number. Two steps may be one kernel, which has the number of
/// the first.
///
/// # Errors
/// `Unsupported` for a step that no kernel takes.
pub(crate) fn work_of(
    program: &Program,
    plan: &WeightPlan,
    (card, target): (Card, &Target),
) -> Result<Vec<(u32, Work)>> {
    let cx = Context { plan, control: program.control.map(|c| c.state), card, target };
    let cut = program.cut().map(|c| c.step);
    let (mut all, mut i) = (Vec::new(), 0);
    while let Some(step) = program.steps.get(i) {
        let pair = program.steps.get(i + 1).filter(|_| cut != Some(i + 1)).map(|next| [step, next]);
        let pair = pair.map_or(Ok(None), |pair| attention_one::rope_attention(pair, &cx))?;
        let (steps, work) = match pair {
            Some(kernels) => (2, kernels.into_iter().map(Work::Kernel).collect()),
            None => (1, work(step, &cx)?),
        };
        all.extend(work.into_iter().map(|work| (i as u32, work)));
        i += steps;
    }
    Ok(all)
}

/// What a step is made of.
///
/// # Errors
/// `Unsupported` for a step that no kernel takes.
fn work(step: &Step, cx: &Context<'_>) -> Result<Vec<Work>> {
    if matches!(step.alias(), Alias::View { .. }) {
        return Ok(Vec::new());
    }
    let types: Vec<&Type> = step.operands.iter().map(|s| &s.ty).collect();
    let row = ROWS.iter().find(|row| row.claim.op == step.op.name());
    let taken = row.ok_or_else(|| "it has no kernel".into());
    let taken = taken.and_then(|row| (row.claim.takes)(&step.op, &types, cx.target).map(|()| row));
    let row = taken.map_err(|why| {
        let what = format!("{} does not run {}: {why}", cx.target.name, step.op.name());
        unsupported(what).at(step.label.clone())
    })?;
    if let Some(work) = exchange::work(step, cx).map_err(|e| e.at(step.label.clone()))? {
        return Ok(work);
    }
    if let Some(work) = library::work(step, cx).map_err(|e| e.at(step.label.clone()))? {
        return Ok(work);
    }
    let kernels = (row.build)(step, cx).map_err(|e| e.at(step.label.clone()))?;
    Ok(kernels.into_iter().map(Work::Kernel).collect())
}

const COMMON: &str = include_str!("common.cuh");

impl Emit<'_> {
    /// The kernel of an operator's file, whose function has its name.
    ///
    /// # Errors
    /// `Unsupported` for a grid that no card launches.
    fn kernel(
        self,
        entry: &'static str,
        text: &str,
        grid: [u64; 3],
        threads: u32,
    ) -> Result<Kernel> {
        let [x, y, z] = grid;
        if x >= 1 << 31 || y >= 1 << 16 || z >= 1 << 16 {
            return Err(unsupported(format!("a launch of {x} x {y} x {z} blocks")));
        }
        let decoders = formats::texts(&self.decoders);
        let block = format!("#define BLOCK_THREADS {threads}\n");
        Ok(Kernel {
            source: [COMMON, &block, &self.definitions, &decoders, text].concat(),
            entry,
            arguments: self.arguments,
            grid: grid.map(|n| n as u32),
            threads,
            shared: 0,
            early: true,
            scratch: 0,
            counts: 0,
            by_tokens: None,
        })
    }
}

/// The error of a step that came to another operator's builder.
fn mismatch(step: &Step) -> Error {
    Error::internal(format!("{} came to another operator's kernel", step.op.name()))
}

fn unsupported(what: String) -> Error {
    Error::new(Code::Unsupported, what)
}

/// A number that kernels have in 32 bits.
fn word(n: u64) -> Result<u32> {
    u32::try_from(n).map_err(|_| unsupported(format!("a size of {n}, 32 bits hold at most 4 G")))
}

/// `[rows, columns]` of a slice, whose axes but the last are rows.
fn matrix(slice: &Slice) -> Result<(u64, u64)> {
    match slice.ty.shape.static_dims()?.as_slice() {
        [rows @ .., columns] => Ok((rows.iter().product(), *columns)),
        _ => Err(Error::internal(format!("{} has no rows", slice.ty))),
    }
}

/// How a kernel reads a cache of this type: its number in the text, and bytes of a head's row.
fn cache_type(dtype: DType, head: u64) -> Option<(u32, u64)> {
    let number = match dtype {
        DType::Scalar(Scalar::F32) => 0,
        DType::Scalar(Scalar::F16) => 1,
        DType::Block(BlockFormat::Q8_0) => 2,
        _ => return None,
    };
    Some((number, dtype.row_bytes(head)?))
}
