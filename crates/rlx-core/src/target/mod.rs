//! What a device can do, as data, and what a compilation is asked for. Passes and the planner ask
//! this, never a device's name.

#[cfg(feature = "quant")]
mod cast;
mod claims;
mod class;
mod dispatch;
mod fusion_target;
mod options;
mod policy;
mod precision;

pub use claims::{Claims, KernelClaim, Path, Takes};
pub use class::class_of_kind;
pub use dispatch::{DispatchPolicy, KernelDispatch};
pub use fusion_target::FusionTarget;
pub use options::{Activations, CompileOptions, RegionLimits};
pub use policy::Policy;
pub use precision::{CastConfig, Precision, PrecisionPolicy};

use crate::error::{Error, Result};
use crate::types::{BlockFormat, DType};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Fusions a target gains from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fusions {
    /// A norm as a matmul's prologue: pays where a launch costs more than a second read of x.
    pub norm_prologue: bool,
    /// Int8 blocks of x made inside the matmul of one row: a launch less, for a pass over x in
    /// every workgroup.
    pub quantize_prologue: bool,
    /// A residual as a matmul's epilogue.
    pub residual: bool,
    /// Matmuls of one input as segments of one.
    pub segments: bool,
    /// Gate and up with their product as one matmul.
    pub glu: bool,
    /// Rotation with both cache writes.
    pub rope_kv_write: bool,
    /// Rotation and both cache writes where one row's attention is split.
    pub rope_attention_split: bool,
    /// A bias, or a function of the product, where the product is made.
    pub matmul_epilogue: bool,
    /// A residual with the norm of the sum.
    pub residual_norm: bool,
    /// Two products and the softmax between them.
    pub attention: bool,
}

impl Fusions {
    /// None.
    pub const NONE: Fusions = Fusions {
        norm_prologue: false,
        quantize_prologue: false,
        residual: false,
        segments: false,
        glu: false,
        rope_kv_write: false,
        rope_attention_split: false,
        matmul_epilogue: false,
        residual_norm: false,
        attention: false,
    };
    /// All.
    pub const ALL: Fusions = Fusions {
        norm_prologue: true,
        quantize_prologue: true,
        residual: true,
        segments: true,
        glu: true,
        rope_kv_write: true,
        rope_attention_split: true,
        matmul_epilogue: true,
        residual_norm: true,
        attention: true,
    };
}

/// What running a program costs: `submit + launch * steps + bytes / bandwidth`. Round numbers of
/// the kind of device, to compare two forms of one program with; none was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Microseconds of a submission.
    pub submit_us: f64,
    /// Microseconds of a step besides its work.
    pub launch_us: f64,
    /// Bytes that reach a kernel in a second, in units of 10^9.
    pub bandwidth_gb_s: f64,
}

impl Cost {
    /// Microseconds of a program of that many steps over that many bytes.
    pub fn time_us(&self, steps: u64, bytes: u64) -> f64 {
        self.submit_us + self.launch_us * steps as f64 + bytes as f64 / (self.bandwidth_gb_s * 1e3)
    }
}

/// What a device's memory allows, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// The largest buffer.
    pub buffer: u64,
    /// The most of a buffer that one binding shows.
    pub binding: u64,
    /// Storage buffers in one step.
    pub storage_buffers: u32,
    /// Alignment of weights in their buffer.
    pub alignment: u64,
}

/// What a GPU's buffers take besides what plans say, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffers {
    /// Sizes are rounded up to a multiple of it.
    pub multiple: u64,
    /// Constants of a step.
    pub step: u64,
    /// Weights on their way, at most.
    pub staging: u64,
}

/// A device as the compiler sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// What messages, fingerprints and command lines call it.
    pub name: String,
    /// What its memory allows.
    pub limits: Limits,
    /// What it gains from.
    pub fusions: Fusions,
    /// Packed formats its kernels read.
    pub formats: Vec<BlockFormat>,
    /// Whether it multiplies int8 activations.
    pub int8: bool,
    /// What it runs.
    pub claims: Claims,
    /// The longest elementwise chain that one kernel of it takes; `None`: it has no such kernel.
    pub region_limits: Option<RegionLimits>,
    /// What its caches may be of; `None` where every type that an operator writes will do.
    pub caches: Option<Caches>,
    /// What running costs.
    pub cost: Cost,
    /// Whether its arena may be several segments, each within the binding limit.
    pub arena_segments: bool,
    /// Rows of a tile, if it reads a weight above the binding limit in parts of whole tiles.
    pub row_parts: Option<u64>,
    /// How it wants one row's attention split, if at all.
    pub attention_splits: Option<Splits>,
    /// How its buffers differ from plans; `None` where memory is the host's.
    pub buffers: Option<Buffers>,
    /// How it is used where nobody asks for anything else.
    pub policy: Policy,
}

/// What a target's caches of keys and values may be of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caches {
    /// Element types.
    pub types: &'static [DType],
    /// What a head's elements are a multiple of where the type is one of blocks.
    pub block_heads: u64,
}

/// How one row's attention is split by positions: one way whatever the threads are, for the sums of
/// splits are other roundings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Splits {
    /// Parts wanted in all; unsplit there are as many as key and value heads.
    pub parts: u64,
    /// Positions that are worth a part.
    pub least: u64,
    /// At most one split for each `spare * least` positions of the cache: most steps see fewer
    /// positions than it holds.
    pub spare: u64,
    /// Positions of the smallest cache that is read in splits.
    pub capacity: u64,
    /// What a head's elements must be a multiple of.
    pub multiple: u64,
    /// Query heads that share a key and value head, at most.
    pub group: u64,
    /// Elements of such a group's row, at most.
    pub width: u64,
}

impl Target {
    /// Every format of a file's weights.
    pub fn every_format() -> Vec<BlockFormat> {
        let working = [BlockFormat::Q8_1, BlockFormat::Q8K]; // activations only
        BlockFormat::ALL.iter().copied().filter(|b| !working.contains(b)).collect()
    }

    /// The reference executor: nothing fused, no limits, every format.
    pub fn reference() -> Target {
        Target {
            name: "reference".into(),
            limits: Limits {
                buffer: 1 << 40,
                binding: 1 << 40,
                storage_buffers: 64,
                alignment: 64,
            },
            fusions: Fusions::NONE,
            formats: BlockFormat::ALL.to_vec(),
            int8: true,
            claims: Claims::EVERYTHING,
            region_limits: Some(RegionLimits::UNBOUNDED),
            caches: None,
            cost: Cost { submit_us: 0.0, launch_us: 0.1, bandwidth_gb_s: 1.0 },
            arena_segments: true,
            row_parts: Some(8),
            attention_splits: None,
            buffers: None,
            policy: Policy::PLAIN,
        }
    }

    /// What a head's elements are a multiple of in the target's caches of this type.
    pub fn cache_heads(&self, kv: DType) -> u64 {
        self.caches.filter(|_| kv.is_block()).map_or(1, |caches| caches.block_heads)
    }

    /// True if a matmul or gather may read weights of this type.
    pub fn reads(&self, dtype: DType) -> bool {
        match dtype {
            DType::Block(b) => self.formats.contains(&b),
            other => matches!(other, DType::F32 | DType::F16 | DType::BF16),
        }
    }

    /// One line that names everything plans depend on: `name buffer=… binding=…`. It is hashed
    /// into fingerprints and accepted by `rlx inspect --target`. `loops=1` is said where the usual
    /// target of that name has none.
    pub fn describe(&self) -> String {
        let l = &self.limits;
        let usual = self.name == "reference";
        let loops = if self.claims.loops && !usual { " loops=1" } else { "" };
        format!(
            "{} buffer={} binding={} storage_buffers={} alignment={}{loops}",
            self.name, l.buffer, l.binding, l.storage_buffers, l.alignment
        )
    }

    /// Reads what [`describe`](Self::describe) writes, of one of these targets. A name alone means
    /// that target with its limits; limits may come in any order, and those that are left out are
    /// the target's own.
    ///
    /// # Errors
    /// `Usage` for an unknown name or limit, or a value that is no number of 1 or more.
    pub fn parse_among(text: &str, usual: &[Target]) -> Result<Target> {
        let mut words = text.split_whitespace();
        let name = words.next().unwrap_or_default();
        let Some(target) = usual.iter().find(|t| t.name == name) else {
            let names: Vec<&str> = usual.iter().map(|t| t.name.as_str()).collect();
            return Err(Error::usage(format!("unknown target `{name}`"))
                .hint(format!("targets: {}", names.join(", "))));
        };
        let mut target = target.clone();
        for word in words {
            let limits = "limits: buffer, binding, storage_buffers, alignment; loops=1";
            let Some((key, value)) = word.split_once('=') else {
                return Err(Error::usage(format!("`{word}` is no limit of a target"))
                    .hint(format!("write limit=number, as in `{name} binding=134217728`")));
            };
            let bad = || Error::usage(format!("{key}={value} of a target: expected 1 or more"));
            let number = value.parse().ok().filter(|&n: &u64| n > 0).ok_or_else(bad)?;
            let l = &mut target.limits;
            match key {
                "buffer" => l.buffer = number,
                "binding" => l.binding = number,
                "storage_buffers" => {
                    l.storage_buffers = u32::try_from(number).map_err(|_| bad())?
                }
                "alignment" => l.alignment = number,
                "loops" if number == 1 => target.claims.loops = true,
                _ => {
                    return Err(
                        Error::usage(format!("unknown limit `{key}` of a target")).hint(limits)
                    );
                }
            }
        }
        Ok(target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::targets;

    fn parse(text: &str) -> Result<Target> {
        Target::parse_among(text, &targets::all())
    }

    #[test]
    fn a_description_reads_back_as_the_same_target() {
        let odd = Limits { buffer: 1 << 31, binding: 12_345, storage_buffers: 10, alignment: 32 };
        let others = [targets::gpu_with(odd), targets::host().with_loops()];
        for target in targets::all().into_iter().chain(others) {
            assert_eq!(parse(&target.describe()), Ok(target));
        }
    }

    #[test]
    fn a_name_alone_has_the_usual_limits() {
        let (host, gpu) = (targets::host(), targets::gpu());
        assert_eq!(parse(&gpu.name), Ok(gpu));
        let t = parse(&format!("{} binding=64", host.name)).expect("one limit");
        assert_eq!(t.limits, Limits { binding: 64, ..host.limits });
    }

    #[test]
    fn what_is_no_target_is_named() {
        let error = |text: &str| parse(text).expect_err("no target");
        let name = targets::gpu().name;
        assert_eq!(error("abacus").what, "unknown target `abacus`");
        let names = [Target::reference(), targets::host(), targets::gpu()].map(|t| t.name);
        assert_eq!(error("abacus").hint, format!("targets: {}", names.join(", ")));
        assert_eq!(error("").what, "unknown target ``");
        let e = error(&format!("{name} fast"));
        assert_eq!(e.what, "`fast` is no limit of a target");
        assert_eq!(e.hint, format!("write limit=number, as in `{name} binding=134217728`"));
        assert_eq!(error(&format!("{name} speed=1")).what, "unknown limit `speed` of a target");
        let e = error(&format!("{name} binding=0"));
        assert_eq!(e.what, "binding=0 of a target: expected 1 or more");
    }

    #[test]
    fn a_policy_is_no_part_of_a_description() {
        let other = Policy { chunk: 7, short: Some(3), ..Policy::PLAIN };
        let host = targets::host();
        assert_eq!(Target { policy: other, ..host.clone() }.describe(), host.describe());
    }
}
