//! What a device can do, as data, and what a compilation is asked for. Passes and the planner ask
//! this, never a device's name.

#[cfg(feature = "quant")]
mod cast;
mod claims;
mod class;
mod dispatch;
mod fusion_target;
mod options;
mod precision;

pub use claims::{Claim, Claims, Form, KernelClaim, Path, Takes};
pub use class::class_of_kind;
pub use dispatch::{DispatchPolicy, KernelDispatch};
pub use fusion_target::FusionTarget;
pub use options::{Activations, CompileOptions, RegionLimits};
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
    /// `reference`, `cpu`, `webgpu`.
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
    pub segments: bool,
    /// Rows of a tile, if it reads a weight above the binding limit in parts of whole tiles.
    pub row_parts: Option<u64>,
    /// How it wants one row's attention split, if at all.
    pub attention_splits: Option<Splits>,
    /// How its buffers differ from plans; `None` where memory is the host's.
    pub buffers: Option<Buffers>,
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
    /// WebGPU's limits of an adapter that promises nothing more than the specification.
    pub const WEBGPU_DEFAULT: Limits =
        Limits { buffer: 256 << 20, binding: 128 << 20, storage_buffers: 8, alignment: 256 };

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
            segments: true,
            row_parts: Some(8),
            attention_splits: None,
            buffers: None,
        }
    }

    /// The CPU executor. A norm of its own costs a barrier; as a prologue it would cost every
    /// worker a pass over x, and int8 activations need it done first anyway.
    ///
    /// It binds nothing: limits are what an address reaches, one number for every platform, as
    /// fingerprints are. What a 32-bit host has no memory for, it says when it allocates.
    pub fn cpu() -> Target {
        Target {
            name: "cpu".into(),
            limits: Limits {
                buffer: 1 << 40,
                binding: 1 << 40,
                storage_buffers: 64,
                alignment: 64,
            },
            fusions: Fusions { norm_prologue: false, quantize_prologue: false, ..Fusions::ALL },
            formats: Self::every_format(),
            int8: true,
            claims: Claims::CPU,
            region_limits: None,
            caches: Some(Caches { types: claims::CACHES, block_heads: 1 }),
            cost: Cost { submit_us: 10.0, launch_us: 2.0, bandwidth_gb_s: 20.0 },
            segments: false,
            row_parts: None,
            attention_splits: Some(Splits {
                parts: 16,
                least: 256,
                spare: 4,
                capacity: 2048,
                multiple: 1,
                group: u64::MAX,
                width: u64::MAX,
            }),
            buffers: None,
        }
    }

    /// A WebGPU device with these limits.
    pub fn webgpu(limits: Limits) -> Target {
        Target {
            name: "webgpu".into(),
            limits,
            fusions: Fusions::ALL,
            formats: Self::every_format(),
            int8: true,
            claims: Claims::WEBGPU,
            region_limits: Some(RegionLimits::WEBGPU),
            caches: Some(Caches { types: claims::CACHES, block_heads: claims::WEBGPU_BLOCK_HEADS }),
            cost: Cost { submit_us: 50.0, launch_us: 5.0, bandwidth_gb_s: 100.0 },
            segments: false,
            // Columns that a workgroup of a prompt's matmul makes; one row's makes quads of them.
            row_parts: Some(64),
            attention_splits: Some(Splits {
                parts: 256,
                least: 64,
                // Workgroups of a split that is empty cost next to nothing.
                spare: 1,
                capacity: 128,
                multiple: 8,
                group: 8,
                width: 1024,
            }),
            buffers: Some(Buffers { multiple: 16, step: 256, staging: 16 << 20 }),
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

    /// One line that names everything plans depend on: `webgpu buffer=… binding=…`. It is hashed
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

    /// Reads what [`describe`](Self::describe) writes. A name alone means that target with its
    /// usual limits (`webgpu`: [`WEBGPU_DEFAULT`](Self::WEBGPU_DEFAULT)); limits may come in any
    /// order, and those that are left out are the usual ones.
    ///
    /// # Errors
    /// `Usage` for an unknown name or limit, or a value that is no number of 1 or more.
    pub fn parse(text: &str) -> Result<Target> {
        Self::parse_among(
            text,
            &[
                ("reference", &Self::reference),
                ("cpu", &Self::cpu),
                ("webgpu", &|| Self::webgpu(Self::WEBGPU_DEFAULT)),
            ],
        )
    }

    /// [`parse`](Self::parse) where the usual targets are these.
    ///
    /// # Errors
    /// As `parse`.
    pub fn parse_among(text: &str, usual: &[(&str, &dyn Fn() -> Target)]) -> Result<Target> {
        let mut words = text.split_whitespace();
        let name = words.next().unwrap_or_default();
        let Some((_, target)) = usual.iter().find(|t| t.0 == name) else {
            let names: Vec<&str> = usual.iter().map(|t| t.0).collect();
            return Err(Error::usage(format!("unknown target `{name}`"))
                .hint(format!("targets: {}", names.join(", "))));
        };
        let mut target = target();
        for word in words {
            let limits = "limits: buffer, binding, storage_buffers, alignment; loops=1";
            let Some((key, value)) = word.split_once('=') else {
                return Err(Error::usage(format!("`{word}` is no limit of a target"))
                    .hint("write limit=number, as in `webgpu binding=134217728`"));
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

    #[test]
    fn a_description_reads_back_as_the_same_target() {
        let odd = Limits { buffer: 1 << 31, binding: 12_345, storage_buffers: 10, alignment: 32 };
        for target in [
            Target::reference(),
            Target::cpu(),
            Target::webgpu(Target::WEBGPU_DEFAULT),
            Target::webgpu(odd),
            Target::cpu().with_loops(),
        ] {
            assert_eq!(Target::parse(&target.describe()), Ok(target));
        }
    }

    #[test]
    fn a_name_alone_has_the_usual_limits() {
        assert_eq!(Target::parse("webgpu"), Ok(Target::webgpu(Target::WEBGPU_DEFAULT)));
        let t = Target::parse("cpu binding=64").expect("one limit");
        assert_eq!(t.limits, Limits { binding: 64, ..Target::cpu().limits });
    }

    #[test]
    fn what_is_no_target_is_named() {
        let what = |text| Target::parse(text).expect_err("no target").what;
        assert_eq!(what("cuda"), "unknown target `cuda`");
        assert_eq!(what(""), "unknown target ``");
        assert_eq!(what("webgpu fast"), "`fast` is no limit of a target");
        assert_eq!(what("webgpu speed=1"), "unknown limit `speed` of a target");
        assert_eq!(what("webgpu binding=0"), "binding=0 of a target: expected 1 or more");
    }
}
