//! What a device can do, as data, and the options of a compilation. Passes and the planner ask these,
//! never a device's name.

#[cfg(feature = "quant")]
mod cast;
mod claims;
mod class;
mod dispatch;
mod fusion_target;
mod options;
mod policy;
mod precision;

#[cfg(feature = "parallel")]
pub use claims::Ranks;
pub use claims::{Claims, KernelClaim, KernelRow, Path, Takes};
pub use class::class_of_kind;
pub use dispatch::{DispatchPolicy, KernelDispatch};
pub use fusion_target::FusionTarget;
pub use options::{Activations, CompileOptions, ProgramActivations, RegionLimits};
pub use policy::Policy;
pub use precision::{CastConfig, Precision, PrecisionPolicy};

use crate::error::{Error, Result};
use crate::types::{BlockFormat, DType};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// The fusions that make a target faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fusions {
    /// A norm as a matmul's prologue: worth it if a launch costs more than a second read of x.
    pub norm_prologue: bool,
    /// Quantizing x to int8 blocks inside the matmul of one row: saves a launch, but every workgroup
    /// reads all of x.
    pub quantize_prologue: bool,
    /// A residual as a matmul's epilogue.
    pub residual: bool,
    /// Several matmuls of one input as segments of one matmul.
    pub segments: bool,
    /// Gate, up and their product as one matmul.
    pub glu: bool,
    /// Rotation with both cache writes.
    pub rope_kv_write: bool,
    /// Rotation and both cache writes as part of one row's split attention.
    pub rope_attention_split: bool,
    /// Norms of the heads of q and k as part of the step that rotates them and splits the attention.
    pub head_norm: bool,
    /// A bias, or a function of the product, as a matmul's epilogue.
    pub matmul_epilogue: bool,
    /// A residual with the norm of the sum.
    pub residual_norm: bool,
    /// The norm of a branch with the sum that the branch joins.
    pub norm_add: bool,
    /// Two products and the softmax between them, as attention.
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
        head_norm: false,
        matmul_epilogue: false,
        residual_norm: false,
        norm_add: false,
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
        head_norm: true,
        matmul_epilogue: true,
        residual_norm: true,
        norm_add: true,
        attention: true,
    };
}

/// The cost of running a program: `submit + launch * steps + bytes / bandwidth`. The numbers are round
/// guesses for the kind of device, to compare two forms of one program; none was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Microseconds of a submission.
    pub submit_us: f64,
    /// Microseconds to launch a step.
    pub launch_us: f64,
    /// Memory bandwidth, in units of 10^9 bytes per second.
    pub bandwidth_gb_s: f64,
}

impl Cost {
    /// Microseconds of a program of `steps` that moves `bytes`.
    pub fn time_us(&self, steps: u64, bytes: u64) -> f64 {
        self.submit_us + self.launch_us * steps as f64 + bytes as f64 / (self.bandwidth_gb_s * 1e3)
    }
}

/// Limits of a device's memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// The largest buffer.
    pub buffer: u64,
    /// The largest binding.
    pub binding: u64,
    /// Storage buffers in one step.
    pub storage_buffers: u32,
    /// Alignment of weights in their buffer.
    pub alignment: u64,
}

/// Bytes that a GPU's buffers take in addition to the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffers {
    /// Sizes are rounded up to a multiple of it.
    pub multiple: u64,
    /// Bytes of a step's constants.
    pub step: u64,
    /// Most bytes of weights in the staging ring.
    pub staging: u64,
}

/// A device as the compiler sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// Its name in messages, fingerprints and command lines.
    pub name: String,
    /// Limits of its memory.
    pub limits: Limits,
    /// The fusions that make it faster.
    pub fusions: Fusions,
    /// Packed formats its kernels read.
    pub formats: Vec<BlockFormat>,
    /// Whether it multiplies int8 activations.
    pub int8: bool,
    /// Whether it multiplies int16 activations.
    pub int16: bool,
    /// The int8 blocks of x that meet weights in super-blocks of 256: `q8_0`, or `q8_k` with one scale for all 256.
    pub super_blocks: BlockFormat,
    /// The operators it runs.
    pub claims: Claims,
    /// The longest elementwise chain that one kernel takes; `None`: it has no such kernel.
    pub region_limits: Option<RegionLimits>,
    /// The types that its caches may have; `None`: any type that an operator writes.
    pub caches: Option<Caches>,
    /// The cost of running a program.
    pub cost: Cost,
    /// Whether its arena may have several segments, each within the binding limit.
    pub arena_segments: bool,
    /// Rows of a tile, if it can read a weight above the binding limit in parts of whole tiles.
    pub row_parts: Option<u64>,
    /// How attention is split, if at all.
    pub attention_splits: Option<Splits>,
    /// How its buffers differ from the plan; `None` if it uses the host's memory.
    pub buffers: Option<Buffers>,
    /// Recommended options.
    pub policy: Policy,
}

/// The types that a target's caches of keys and values may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caches {
    /// Element types.
    pub types: &'static [DType],
    /// For block types, a head's elements must be a multiple of this.
    pub block_heads: u64,
}

/// How attention is split by positions: one row's, and that of few rows. It does not depend on the number of threads,
/// because other splits round differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Splits {
    /// Wanted number of parts that can run in parallel: key and value heads times splits.
    pub parts: u64,
    /// Fewest positions of a split.
    pub least: u64,
    /// At most one split for each `spare * least` positions of the cache: most steps see fewer
    /// positions than it holds.
    pub spare: u64,
    /// Caches with fewer positions are not split.
    pub capacity: u64,
    /// A head's elements must be a multiple of this.
    pub multiple: u64,
    /// Most query heads that share a key and value head.
    pub group: u64,
    /// Most elements of such a group's row.
    pub width: u64,
    /// How several rows are split; `None`: only one row is.
    pub rows: Option<RowSplits>,
}

/// How the attention of several rows is split, whose kernel takes tiles of them
/// ([`AttentionSplit::tile`](crate::ops::AttentionSplit::tile)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowSplits {
    /// Programs of more rows are not split: their tiles are parts enough.
    pub most: u64,
    /// Wanted number of parts that can run in parallel: key and value heads times tiles times splits.
    pub parts: u64,
    /// Fewest positions of a split; caches with fewer than two splits' positions are not split.
    pub least: u64,
}

impl Target {
    /// Every block format that a file's weights may have.
    pub fn every_format() -> Vec<BlockFormat> {
        BlockFormat::ALL.iter().copied().filter(|b| !b.is_for_activations()).collect()
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
            int16: true,
            super_blocks: BlockFormat::Q8_0,
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

    /// The multiple that a head's elements must be of, in caches of this type.
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

    /// One line with everything that plans depend on: `name buffer=… binding=…`. It is hashed
    /// into fingerprints, and `rlx inspect --target` accepts it. It has `loops=1` if the target has the
    /// oracle's loops and the usual target of that name has not.
    pub fn describe(&self) -> String {
        let l = &self.limits;
        let usual = self.name == "reference";
        let loops = if self.claims.loops && !usual { " loops=1" } else { "" };
        let text = format!(
            "{} buffer={} binding={} storage_buffers={} alignment={}{loops}",
            self.name, l.buffer, l.binding, l.storage_buffers, l.alignment
        );
        #[cfg(feature = "parallel")]
        let text = match self.claims.ranks.count {
            1 => text,
            ranks => format!("{text} ranks={ranks}"),
        };
        text
    }

    /// The same for each of several devices that run a model together.
    #[cfg(feature = "parallel")]
    #[must_use]
    pub fn with_ranks(mut self, ranks: Ranks) -> Target {
        self.claims.ranks = ranks;
        self
    }

    /// Reads the text of [`describe`](Self::describe), for one of these targets. Limits may come in any
    /// order; those that are left out are the target's own.
    ///
    /// # Errors
    /// `Usage` for an unknown name or limit, or a value that is not a number of 1 or more.
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
                #[cfg(feature = "parallel")]
                "ranks" => target.claims.ranks = Ranks::of(number),
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
