//! Two targets that no executor has, for tests of the compiler: rows of data say what their kernels take.
//!
//! `host` is like a processor with wide kernels, `gpu` like a device behind a small binding limit. Their names
//! are those that recorded programs have, for a name is part of a fingerprint. What a row does not list
//! its kernel does not take: an attribute that an operator gains later is refused until the row names it.

use rlx_core::ops::{Op, StepFn};
use rlx_core::target::{
    Activations, Buffers, Caches, Claims, Cost, Fusions, KernelClaim, Limits, Policy, RegionLimits,
    RowSplits, Splits, Takes, Target,
};
use rlx_core::types::{BlockFormat, DType, Kind, Type};
use std::format;
use std::string::String;
use std::vec::Vec;

/// Restrictions of shape, and which operands are weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Whatever the type rule takes.
    Any,
    /// Operand 0 is a matrix.
    Matrix,
    /// Two operands of one shape, or the second is as long as the first's last axis.
    TrailingRow,
    /// Any number of operands of the result's shape, or as long as its last axis; steps are `map` and `zip`.
    Region,
    /// A matrix by weights of any type that the target reads.
    Weights,
    /// Rows of a weight matrix by a vector of u32.
    Rows,
}

/// What one kernel takes. Its tensors are of f32, but for weights and indices.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The operator's name.
    pub op: &'static str,
    /// What a head's elements are a multiple of where its cache is of blocks; `None`: it has no cache.
    pub heads: Option<u64>,
    /// Attributes it knows; one that is printed and not here is refused.
    pub attrs: &'static [&'static str],
    /// Scalar functions that it lacks, as values of `f`, `map` and `glu`, and in a region's steps.
    pub lacks: &'static [&'static str],
    /// Restrictions of shape.
    pub form: Form,
}

const fn row(op: &'static str, attrs: &'static [&'static str], form: Form) -> Row {
    Row { op, heads: None, attrs, lacks: &[], form }
}

/// What caches may be of.
const CACHES: &[DType] =
    &[DType::F32, DType::F16, DType::Block(BlockFormat::Q8_0), DType::Block(BlockFormat::Q4_0)];

/// Elements of a head that are whole words in every type of cache.
const GPU_HEADS: u64 = 64;

/// Functions that the GPU lacks.
pub const GPU_LACKS: &[&str] = &["sin", "cos", "tan", "pow", "mod"];

/// The longest row that a kernel keeps as int8 blocks of 32 or 256, and what a lane multiplies at a time.
const QUANTIZED_ROW: [u64; 2] = [12_288, 14_336];
const QUANTIZED_SHARE: u64 = 64;

const SPLIT: &[&str] = &["head_dim", "scale", "window", "softcap", "block", "splits", "least"];
const ROPE_SPLIT: &[&str] =
    &["head_dim", "scale", "window", "softcap", "block", "splits", "least", "style"];
const HOST_MATMUL: &[&str] = &["segments", "bias", "norm_eps", "epilogue", "map", "glu"];
const GPU_MATMUL: &[&str] = &["segments", "bias", "norm_eps", "quantize", "epilogue", "map", "glu"];

/// Kernels that both have, with what one of them knows.
const fn rows(
    matmul: &'static [&'static str],
    lacks: &'static [&'static str],
    e: u64,
) -> [Row; 14] {
    let heads = Some(e);
    [
        row("gather", &[], Form::Rows),
        row("rms_norm", &["eps"], Form::Matrix),
        Row { lacks, ..row("matmul", matmul, Form::Weights) },
        row("quantize_rows", &["to"], Form::Matrix),
        row("rope", &["style", "head_dim"], Form::Matrix),
        Row { heads, ..row("kv_write", &[], Form::Any) },
        Row { heads, ..row("rope_kv_write", &["style", "head_dim"], Form::Matrix) },
        Row {
            heads,
            ..row("attention", &["head_dim", "scale", "window", "softcap", "block"], Form::Matrix)
        },
        Row { heads, ..row("attention_split", SPLIT, Form::Matrix) },
        row("attention_join", &["splits"], Form::Matrix),
        Row { lacks, ..row("map", &["f"], Form::Any) },
        Row { lacks, ..row("zip", &["f"], Form::TrailingRow) },
        row("take_rows", &["rows"], Form::Matrix),
        row("sample", &[], Form::Any),
    ]
}

/// The host's kernels.
pub const HOST: &[Row] = &rows(HOST_MATMUL, &[], 1);

/// The GPU's kernels.
pub const GPU: &[Row] = &{
    let shared = rows(GPU_MATMUL, GPU_LACKS, GPU_HEADS);
    let split = row("rope_attention_split", ROPE_SPLIT, Form::Matrix);
    let mut all = [Row { heads: Some(GPU_HEADS), ..split }; 16];
    all[15] = Row { lacks: GPU_LACKS, ..row("elementwise_region", &["steps"], Form::Region) };
    let mut i = 0;
    while i < shared.len() {
        all[i] = shared[i];
        i += 1;
    }
    all
};

/// The rows as the list that a target has.
const fn listed<const N: usize>(rows: &[Row], takes: Takes) -> [KernelClaim; N] {
    let mut all = [KernelClaim { op: "", takes }; N];
    let mut i = 0;
    while i < N {
        all[i].op = rows[i].op;
        i += 1;
    }
    all
}

const HOST_KERNELS: &[KernelClaim] =
    &listed::<{ HOST.len() }>(HOST, |op, operands, target| taken(HOST, op, operands, target));
const GPU_KERNELS: &[KernelClaim] =
    &listed::<{ GPU.len() }>(GPU, |op, operands, target| taken(GPU, op, operands, target));

fn taken(rows: &[Row], op: &Op, operands: &[&Type], target: &Target) -> Result<(), String> {
    match rows.iter().find(|row| row.op == op.name()) {
        Some(row) => row.refusal(target, op, operands).map_or(Ok(()), Err),
        None => Err("it has no kernel".into()),
    }
}

impl Row {
    /// Why a kernel of this row does not take the operator with these operands; `None` if it does.
    fn refusal(&self, target: &Target, op: &Op, operands: &[&Type]) -> Option<String> {
        for (name, value) in &op.attrs().0 {
            if !self.attrs.contains(&name.as_str()) {
                return Some(format!("its kernel has no {name}"));
            }
            let function = matches!(name.as_str(), "f" | "map" | "glu");
            let value = format!("{value}");
            if function && self.lacks.contains(&value.as_str()) {
                return Some(format!("its kernel has no function {value}"));
            }
        }
        let weights = match (self.form, op) {
            (Form::Weights, Op::MatMul(m)) => {
                let first = m.parts().weights;
                first..first + m.segments
            }
            (Form::Rows, _) => 0..1,
            _ => 0..0,
        };
        for (i, ty) in operands.iter().enumerate() {
            if weights.contains(&i) {
                if !target.reads(ty.dtype) {
                    return Some(format!("it reads no {}", ty.dtype));
                }
                continue;
            }
            // Words of the control block and of counts are the kernel's own business; so are
            // int8 blocks, which only `quantize_rows` makes.
            let fits = match ty.kind {
                Kind::State if self.heads.is_some() && CACHES.contains(&ty.dtype) => true,
                Kind::State => ty.dtype == DType::U32,
                Kind::Tensor if self.form == Form::Rows => ty.dtype == DType::U32,
                Kind::Tensor if i == 0 && self.form == Form::Weights && ty.dtype.is_block() => {
                    target.int8
                }
                Kind::Tensor => ty.dtype == DType::F32,
            };
            if !fits {
                return Some(format!("its kernel takes no {} as operand {i}", ty.dtype));
            }
            let (head, per) = (ty.shape.last().as_static(), self.heads.unwrap_or(1));
            let whole = head.is_some_and(|e| e.is_multiple_of(per));
            if ty.kind == Kind::State && ty.dtype.is_block() && !whole {
                return Some(format!("its caches of {} have heads of whole {per}", ty.dtype));
            }
        }
        let rank = |i: usize| operands.get(i).map_or(0, |t| t.shape.rank());
        let fits = match (self.form, operands) {
            (Form::Any, _) => true,
            (Form::Matrix | Form::Weights, _) => rank(0) == 2,
            (Form::Rows, _) => rank(0) == 2 && rank(1) == 1,
            (Form::TrailingRow, [a, b]) => {
                let row = b.shape.rank() == 1 && b.shape.last() == a.shape.last();
                a.shape == b.shape || (row && a.shape.rank() > 0)
            }
            (Form::TrailingRow, _) => false,
            (Form::Region, _) => return self.region_refusal(target, op, operands),
        };
        if let Op::MatMul(m) = op
            && let Some(format) = m.quantize
            && let Some(why) = quantizes_not(target, format, operands[0])
        {
            return Some(why);
        }
        (!fits).then(|| match self.form {
            Form::TrailingRow => "its kernel takes two operands of one shape, or a row".into(),
            Form::Rows => "its kernel takes a matrix and a vector of indices".into(),
            _ => "its kernel takes a matrix".into(),
        })
    }

    /// Why a region's kernel does not take it.
    fn region_refusal(&self, target: &Target, op: &Op, operands: &[&Type]) -> Option<String> {
        let Op::Region(region) = op else { return None };
        for step in &region.steps {
            let f = match step.f {
                StepFn::Map(f) => f.name(),
                StepFn::Zip(f) => f.name(),
                other => return Some(format!("its kernel has no {}", other.op().name())),
            };
            if self.lacks.contains(&f) {
                return Some(format!("its kernel has no function {f}"));
            }
        }
        let most = target.region_limits.map_or(0, |limits| limits.inputs);
        if operands.len() > most {
            return Some(format!("its kernel takes {most} operands"));
        }
        let result = op.infer(operands).ok()?.pop()?;
        let row = |x: &Type| x.shape.rank() == 1 && x.shape.last() == result.shape.last();
        let all = operands.iter().all(|x| x.shape == result.shape || row(x));
        (!all).then(|| "its kernel takes operands of the result's shape, or rows".into())
    }
}

/// Why a matmul's kernel does not make int8 blocks of `x` itself.
fn quantizes_not(target: &Target, format: BlockFormat, x: &Type) -> Option<String> {
    if !target.int8 {
        return Some("it reads no int8 blocks".into());
    }
    let [rows, k] = x.shape.0.as_slice() else { return None };
    let longest = QUANTIZED_ROW[usize::from(format == BlockFormat::Q8K)];
    let fits = |k: u64| k <= longest && k.is_multiple_of(QUANTIZED_SHARE);
    let fits = rows.as_static() == Some(1) && k.as_static().is_some_and(fits);
    (!fits).then(|| {
        format!(
            "its kernel makes {} of one row, of whole {QUANTIZED_SHARE} and at most {longest}",
            format.name()
        )
    })
}

/// What the GPU's memory allows where nothing else is said.
pub const GPU_LIMITS: Limits =
    Limits { buffer: 256 << 20, binding: 128 << 20, storage_buffers: 8, alignment: 256 };

/// A device that binds nothing and fuses all but what goes in front of a matmul.
pub fn host() -> Target {
    Target {
        name: "cpu".into(),
        limits: Limits { buffer: 1 << 40, binding: 1 << 40, storage_buffers: 64, alignment: 64 },
        fusions: Fusions { norm_prologue: false, quantize_prologue: false, ..Fusions::ALL },
        formats: Target::every_format(),
        int8: true,
        int16: false,
        super_blocks: BlockFormat::Q8K,
        claims: Claims::of(HOST_KERNELS),
        region_limits: None,
        caches: Some(Caches { types: CACHES, block_heads: 1 }),
        cost: Cost { submit_us: 10.0, launch_us: 2.0, bandwidth_gb_s: 20.0 },
        arena_segments: false,
        row_parts: None,
        attention_splits: Some(Splits {
            parts: 16,
            least: 256,
            spare: 4,
            capacity: 2048,
            multiple: 1,
            group: u64::MAX,
            width: u64::MAX,
            rows: None,
        }),
        buffers: None,
        policy: Policy { activations: Activations::Int8.into(), ..Policy::PLAIN },
    }
}

/// A device with every fusion and small limits.
pub fn gpu() -> Target {
    gpu_with(GPU_LIMITS)
}

/// The same with other limits.
pub fn gpu_with(limits: Limits) -> Target {
    Target {
        name: "webgpu".into(),
        limits,
        fusions: Fusions::ALL,
        formats: Target::every_format(),
        int8: true,
        int16: false,
        super_blocks: BlockFormat::Q8K,
        claims: Claims::of(GPU_KERNELS),
        region_limits: Some(RegionLimits { steps: 32, inputs: 6 }),
        caches: Some(Caches { types: CACHES, block_heads: GPU_HEADS }),
        cost: Cost { submit_us: 50.0, launch_us: 5.0, bandwidth_gb_s: 100.0 },
        arena_segments: false,
        row_parts: Some(64),
        attention_splits: Some(Splits {
            parts: 256,
            least: 64,
            spare: 1,
            capacity: 128,
            multiple: 8,
            group: 8,
            width: 1024,
            rows: Some(RowSplits { most: 64, parts: 256, least: 128 }),
        }),
        buffers: Some(Buffers { multiple: 16, step: 256, staging: 16 << 20 }),
        policy: Policy { activations: Activations::Int8.into(), kv: DType::F16, ..Policy::PLAIN },
    }
}

/// All that tests compile for, the reference among them: what a build's list of targets is elsewhere.
pub fn all() -> Vec<Target> {
    Vec::from([Target::reference(), host(), gpu()])
}
