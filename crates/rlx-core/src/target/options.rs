//! Options of a compilation: choices that belong neither to the model nor to the device.

use super::{FusionTarget, KernelDispatch, PrecisionPolicy};
use crate::ir::hir::{Caches, FusionPolicy};
use crate::types::{Binding, BlockFormat, DType};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// Activation type in matmuls of packed weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Activations {
    /// f32 throughout.
    F32,
    /// The 11 bits of f16, of any range, for packed weights and those of f16, else f32.
    F16,
    /// int8 blocks for packed weights, else f32.
    Int8,
    /// Blocks of integers in two parts of 8 bits for packed weights, else f32.
    Int16,
    /// As `Int16`, but where x has several rows the low parts of a row's small blocks are left out.
    Mixed,
}

impl Activations {
    /// All, in the order of their bytes.
    pub const ALL: [Activations; 5] = [Self::Int8, Self::Mixed, Self::Int16, Self::F16, Self::F32];

    /// The type of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|a| a.name() == name)
    }

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Int8 => "int8",
            Self::Int16 => "int16",
            Self::Mixed => "mixed",
        }
    }
}

/// Activation types of a language model's programs. Decode waits for weights from memory, so that more products cost it
/// little; a prompt is all products.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProgramActivations {
    /// Of programs that read one row of x.
    pub decode: Activations,
    /// Of programs that read several rows: a prompt's chunks, and blocks. For short prompts there is
    /// [`of_short_prompts`](Self::of_short_prompts).
    pub prompts: Activations,
}

impl ProgramActivations {
    /// One type in all programs.
    pub const fn all(all: Activations) -> Self {
        Self { decode: all, prompts: all }
    }

    /// Reads one name, or those for decode and for prompts, as [`Display`](fmt::Display) writes them.
    pub fn from_names(names: &str) -> Option<Self> {
        let (decode, prompts) = names.split_once('/').unwrap_or((names, names));
        let (decode, prompts) = (Activations::from_name(decode)?, Activations::from_name(prompts)?);
        Some(Self { decode, prompts })
    }

    /// The type in a program with that many rows.
    pub fn of_rows(self, rows: u64) -> Activations {
        if rows == 1 { self.decode } else { self.prompts }
    }

    /// The type in the program for short prompts. Its time goes to weights from memory more than to products, so it has
    /// low parts where decode has them; prompts in f32 stay in f32.
    pub fn of_short_prompts(self) -> Activations {
        match self.prompts {
            Activations::Int8 | Activations::Mixed if self.decode == Activations::Int16 => {
                self.decode
            }
            prompts => prompts,
        }
    }
}

impl From<Activations> for ProgramActivations {
    /// As [`all`](Self::all).
    fn from(all: Activations) -> Self {
        Self::all(all)
    }
}

impl fmt::Display for ProgramActivations {
    /// One name, or those for decode and for prompts: `int16/int8`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.decode.name())?;
        if self.prompts == self.decode { Ok(()) } else { write!(f, "/{}", self.prompts.name()) }
    }
}

/// How long a chain of elementwise operators in one node may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RegionLimits {
    /// Most operators of the chain.
    pub steps: usize,
    /// Most tensors that it reads.
    pub inputs: usize,
}

impl RegionLimits {
    /// No limit.
    pub const UNBOUNDED: RegionLimits = RegionLimits { steps: usize::MAX, inputs: usize::MAX };
}

/// Options of a compilation.
#[derive(Clone, Debug, PartialEq)]
pub struct CompileOptions {
    /// Activation type in matmuls of packed weights.
    pub activations: Activations,
    /// The int8 blocks of x that meet weights in super-blocks; absent: the target's. For comparing devices: one rounds
    /// as the other does.
    pub super_blocks: Option<BlockFormat>,
    /// Element type of the caches: f32, f16, q8_0 or q4_0.
    pub kv: DType,
    /// Positions that the cache of a layer with a window keeps beyond the window; `None`: the whole context. As
    /// [`Caches::spare`].
    pub cache_spare: Option<u64>,
    /// Element types of everything else.
    pub precision: PrecisionPolicy,
    /// Whether nodes that nothing reads are removed.
    pub dce: bool,
    /// Whether nodes over constants are computed.
    pub constant_folding: bool,
    /// Whether the report is for printing.
    pub verbose: bool,
    /// The backend to compile for, if it is not the device's own.
    pub fusion_target: FusionTarget,
    /// How blocks are lowered; absent: as the module says.
    pub fusion_policy: Option<FusionPolicy>,
    /// Whether to skip every fusion.
    pub skip_fusion: bool,
    /// Whether to keep each operator of an elementwise chain as a node of its own.
    pub unfuse_regions: bool,
    /// Limits of elementwise chains; absent: the target's.
    pub region_limits: Option<RegionLimits>,
    /// Whether to fail if the fusion report has a miss.
    pub assert_clean: bool,
    /// Alignment of arena slots in bytes, a power of two from 64 on.
    pub alignment: u64,
    /// Which operators run on the device's kernels, and which are decomposed.
    pub dispatch: KernelDispatch,
    /// Names of the operators that the device is assumed to claim; absent: its own claims.
    pub supported_ops: Option<Vec<String>>,
    /// Whether programs of other sizes will be compiled later for the same weights. Tensors of the file are then
    /// loaded as they are; the host makes constants, and what is made of vectors of 16-bit floats.
    pub whole_weights: bool,
    /// Symbols to bind; others stay unbound.
    pub binding: Binding,
    /// Values of parameters that become constants: name and little-endian bytes.
    pub baked: BTreeMap<String, Vec<u8>>,
    /// Names of passes to skip.
    pub without: Vec<String>,
}

impl Default for CompileOptions {
    /// f32 throughout, every pass.
    fn default() -> Self {
        CompileOptions {
            activations: Activations::F32,
            super_blocks: None,
            kv: DType::F32,
            cache_spare: None,
            precision: PrecisionPolicy::AlwaysF32,
            dce: true,
            constant_folding: true,
            verbose: false,
            fusion_target: FusionTarget::Auto,
            fusion_policy: None,
            skip_fusion: false,
            unfuse_regions: false,
            region_limits: None,
            assert_clean: false,
            alignment: 64,
            dispatch: KernelDispatch::default(),
            supported_ops: None,
            whole_weights: false,
            binding: Binding::new(),
            baked: BTreeMap::new(),
            without: Vec::new(),
        }
    }
}

impl CompileOptions {
    /// How caches are kept.
    pub fn caches(&self) -> Caches {
        Caches { kv: self.kv, spare: self.cache_spare }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn types_of_programs_read_back() {
        for decode in Activations::ALL {
            for prompts in Activations::ALL {
                let types = ProgramActivations { decode, prompts };
                assert_eq!(ProgramActivations::from_names(&types.to_string()), Some(types));
            }
        }
        for text in ["", "/", "int8/", "/int8", "int4", "int8/int8/int8", "INT8"] {
            assert_eq!(ProgramActivations::from_names(text), None, "{text}");
        }
    }

    #[test]
    fn a_row_is_decode() {
        let types = ProgramActivations::from_names("int16/int8");
        let of = |rows| types.map(|t| t.of_rows(rows));
        assert_eq!([of(1), of(2)], [Some(Activations::Int16), Some(Activations::Int8)]);
    }

    #[test]
    fn short_prompts_have_low_parts_where_decode_has_them_and_prompts_have_integers() {
        let short =
            |types| ProgramActivations::from_names(types).unwrap().of_short_prompts().name();
        for (types, want) in [
            ("int16/int8", "int16"),
            ("int16/mixed", "int16"),
            ("int16/f32", "f32"),
            ("f32/int8", "int8"),
            ("int8/int16", "int16"),
            ("int8", "int8"),
            ("f32", "f32"),
        ] {
            assert_eq!(short(types), want, "{types}");
        }
    }
}
