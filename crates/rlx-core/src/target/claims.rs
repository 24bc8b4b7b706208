//! Which operators a target runs.
//!
//! An executor lists its kernels, each with the function that says what it takes ([`KernelClaim`]).
//! Targets without an executor, which tests of the core use, have rows of data instead ([`Claim`]):
//! names, element types and forms. What a row does not list it does not take: an attribute that an
//! operator gains later is refused until the row names it. Views and constants cost no kernel and
//! are claimed by every target.

use super::Target;
use crate::ops::{Alias, Binary, Op, StepFn, Unary};
use crate::types::{BlockFormat, DType, Kind, Type};
use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Restrictions of shape, and which operands are weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Whatever the type rule takes.
    Any,
    /// Operand 0 is a matrix.
    Matrix,
    /// Two operands of one shape, or the second is as long as the first's last axis.
    TrailingRow,
    /// Any number of operands of the result's shape, or as long as its last axis; steps are `map` and `zip`
    /// of functions that the target's rows of these names have.
    Region,
    /// A matrix by weights of any type that the target reads.
    Weights,
    /// Rows of a weight matrix by a vector of u32.
    Rows,
}

/// What one kernel takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The operator's name.
    pub op: &'static str,
    /// Element types of its tensors, but for weights and indices.
    pub activations: &'static [DType],
    /// Element types of its caches.
    pub caches: &'static [DType],
    /// What a head's elements are a multiple of where its cache is of blocks.
    pub block_heads: u64,
    /// Attributes it knows; one that is printed and not here is refused.
    pub attrs: &'static [&'static str],
    /// Scalar functions it knows, as values of `f`, `map` and `glu`.
    pub functions: &'static [&'static str],
    /// Restrictions of shape.
    pub form: Form,
}

/// How a claimed operator runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Path {
    /// A kernel of the device's own.
    Native,
    /// The oracle's loops, on the host: right, and slow.
    Loops,
    /// Nothing runs: the result is bytes of an operand.
    View,
    /// Nothing runs: the host makes it once, when weights are loaded.
    HostConstant,
}

impl Path {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Loops => "loops",
            Self::View => "view",
            Self::HostConstant => "host-constant",
        }
    }
}

/// Whether a kernel takes an operator with operands of these types on a target; if not, why, as the end of
/// "cpu does not run zip: …".
pub type Takes = fn(&Op, &[&Type], &Target) -> Result<(), String>;

/// A kernel of an executor: the operator it runs, and which forms of it. The function stands in the kernel's
/// own file, and the kernel's builder calls it too: nothing restates it.
#[derive(Clone, Copy, Debug)]
pub struct KernelClaim {
    /// The operator's name.
    pub op: &'static str,
    /// Which forms of it.
    pub takes: Takes,
}

impl PartialEq for KernelClaim {
    /// By names: a function's address says nothing.
    fn eq(&self, other: &Self) -> bool {
        self.op == other.op
    }
}

impl Eq for KernelClaim {}

/// What a target claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    /// Its kernels, as the executor lists them.
    pub kernels: &'static [KernelClaim],
    /// Its kernels as data, for targets without an executor; not looked at where `kernels` has some.
    pub rows: Cow<'static, [Claim]>,
    /// Whether it runs the oracle's loops for everything else.
    pub loops: bool,
}

/// Constants that the plan makes on the host.
const HOST_CONSTANTS: &[&str] = &["constant", "rope_table"];

const F32: &[DType] = &[DType::F32];
const NO: &[&str] = &[];

/// A row of the tables of scalar functions: the function, its name, its WGSL.
type Row<F> = (F, &'static str, Option<&'static str>);

/// The names of all functions.
const fn every<F, const N: usize>(rows: &[Row<F>; N]) -> [&'static str; N] {
    let mut names = [""; N];
    let mut i = 0;
    while i < N {
        names[i] = rows[i].1;
        i += 1;
    }
    names
}

/// How many functions have WGSL.
const fn count<F>(rows: &[Row<F>]) -> usize {
    let (mut n, mut i) = (0, 0);
    while i < rows.len() {
        n += rows[i].2.is_some() as usize;
        i += 1;
    }
    n
}

/// The names of the functions that have WGSL; `N` is their [`count`].
const fn printed<F, const N: usize>(rows: &[Row<F>]) -> [&'static str; N] {
    let mut names = [""; N];
    let (mut n, mut i) = (0, 0);
    while i < rows.len() {
        if rows[i].2.is_some() {
            names[n] = rows[i].1;
            n += 1;
        }
        i += 1;
    }
    names
}

/// The CPU has every function: those without vectors of their own are the reference's, one by one.
const CPU_UNARY: &[&str] = &every(&Unary::ALL);
const CPU_BINARY: &[&str] = &every(&Binary::ALL);

/// Those that have WGSL; `ops/scalar.rs` says why the others have none.
const WEBGPU_UNARY: &[&str] = &printed::<_, { count(&Unary::ALL) }>(&Unary::ALL);
const WEBGPU_BINARY: &[&str] = &printed::<_, { count(&Binary::ALL) }>(&Binary::ALL);

const fn claim(op: &'static str, attrs: &'static [&'static str], form: Form) -> Claim {
    Claim { op, activations: F32, caches: &[], block_heads: 1, attrs, functions: NO, form }
}

/// What the executors' caches may be of.
pub(super) const CACHES: &[DType] = &[DType::F32, DType::F16, DType::Block(BlockFormat::Q8_0)];

/// Two blocks of `q8_0` are 17 words, one is eight and a half: WebGPU's kernels write words.
pub(super) const WEBGPU_BLOCK_HEADS: u64 = 64;

/// What the executors' matmuls know.
const CPU_MATMUL: &[&str] = &["segments", "bias", "norm_eps", "epilogue", "map", "glu"];
const WEBGPU_MATMUL: &[&str] =
    &["segments", "bias", "norm_eps", "quantize", "epilogue", "map", "glu"];

/// The longest row that a kernel keeps as int8 blocks of 32 or 256, with their scales and sums, in
/// the 16 KiB of memory that every WebGPU workgroup has; and what a lane multiplies at a time.
const QUANTIZED_ROW: [u64; 2] = [12_288, 14_336];
const QUANTIZED_SHARE: u64 = 64;

const CPU: &[Claim] = &kernels(CPU_UNARY, CPU_BINARY, CPU_MATMUL, 1);
const WEBGPU: &[Claim] = &{
    let block_heads = WEBGPU_BLOCK_HEADS;
    let shared = kernels(WEBGPU_UNARY, WEBGPU_BINARY, WEBGPU_MATMUL, block_heads);
    let attrs = &["head_dim", "scale", "window", "softcap", "splits", "least", "style"];
    let split = claim("rope_attention_split", attrs, Form::Matrix);
    let mut all = [Claim { caches: CACHES, block_heads, ..split }; 16];
    all[15] = claim("elementwise_region", &["steps"], Form::Region);
    let mut i = 0;
    while i < shared.len() {
        all[i] = shared[i];
        i += 1;
    }
    all
};

/// Kernels that the CPU and WebGPU executors both have, with what one of them knows.
const fn kernels(
    unary: &'static [&'static str],
    binary: &'static [&'static str],
    matmul: &'static [&'static str],
    block_heads: u64,
) -> [Claim; 14] {
    let caches = CACHES;
    [
        claim("gather", NO, Form::Rows),
        claim("rms_norm", &["eps"], Form::Matrix),
        Claim { functions: unary, ..claim("matmul", matmul, Form::Weights) },
        claim("quantize_rows", &["to"], Form::Matrix),
        claim("rope", &["style", "head_dim"], Form::Matrix),
        Claim { caches, block_heads, ..claim("kv_write", NO, Form::Any) },
        Claim {
            caches,
            block_heads,
            ..claim("rope_kv_write", &["style", "head_dim"], Form::Matrix)
        },
        Claim {
            caches,
            block_heads,
            ..claim("attention", &["head_dim", "scale", "window", "softcap"], Form::Matrix)
        },
        Claim {
            caches,
            block_heads,
            ..claim(
                "attention_split",
                &["head_dim", "scale", "window", "softcap", "splits", "least"],
                Form::Matrix,
            )
        },
        claim("attention_join", &["splits"], Form::Matrix),
        Claim { functions: unary, ..claim("map", &["f"], Form::Any) },
        Claim { functions: binary, ..claim("zip", &["f"], Form::TrailingRow) },
        claim("take_rows", &["rows"], Form::Matrix),
        claim("sample", NO, Form::Any),
    ]
}

impl Claims {
    /// Everything, by the oracle's loops.
    pub const EVERYTHING: Claims = Claims { kernels: &[], rows: Cow::Borrowed(&[]), loops: true };
    /// The CPU executor's kernels.
    pub const CPU: Claims = Claims { kernels: &[], rows: Cow::Borrowed(CPU), loops: false };
    /// The WebGPU executor's kernels.
    pub const WEBGPU: Claims = Claims { kernels: &[], rows: Cow::Borrowed(WEBGPU), loops: false };

    /// An executor's kernels.
    pub const fn of(kernels: &'static [KernelClaim]) -> Claims {
        Claims { kernels, rows: Cow::Borrowed(&[]), loops: false }
    }

    /// Operators that have a kernel.
    pub fn len(&self) -> usize {
        self.kernels.len().max(self.rows.len())
    }

    /// Whether no operator has one.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the operator of that name has a kernel, for some of its forms.
    pub fn has(&self, name: &str) -> bool {
        self.row(name).is_some() || self.kernels.iter().any(|k| k.op == name)
    }

    /// The row of an operator's name.
    pub fn row(&self, name: &str) -> Option<&Claim> {
        self.rows.iter().find(|r| r.op == name)
    }
}

impl Claim {
    /// Why a kernel of this row does not take the operator with these operands; `None` if it does.
    fn refusal(&self, target: &Target, op: &Op, operands: &[&Type]) -> Option<String> {
        for (name, value) in &op.attrs().0 {
            if !self.attrs.contains(&name.as_str()) {
                return Some(format!("its kernel has no {name}"));
            }
            let function = matches!(name.as_str(), "f" | "map" | "glu");
            let value = format!("{value}");
            if function && !self.functions.contains(&value.as_str()) {
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
                Kind::State => ty.dtype == DType::U32 || self.caches.contains(&ty.dtype),
                Kind::Tensor if self.form == Form::Rows => ty.dtype == DType::U32,
                Kind::Tensor if i == 0 && self.form == Form::Weights && ty.dtype.is_block() => {
                    target.int8
                }
                Kind::Tensor => self.activations.contains(&ty.dtype),
            };
            if !fits {
                return Some(format!("its kernel takes no {} as operand {i}", ty.dtype));
            }
            let (head, per) = (ty.shape.last().as_static(), self.block_heads);
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
            (Form::Region, _) => return region_refusal(target, op, operands),
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
}

/// Why a region's kernel does not take it.
fn region_refusal(target: &Target, op: &Op, operands: &[&Type]) -> Option<String> {
    let Op::Region(region) = op else { return None };
    for step in &region.steps {
        let (row, f) = match step.f {
            StepFn::Map(f) => ("map", f.name()),
            StepFn::Zip(f) => ("zip", f.name()),
            other => return Some(format!("its kernel has no {}", other.op().name())),
        };
        if !target.claims.row(row).is_some_and(|row| row.functions.contains(&f)) {
            return Some(format!("its kernel has no function {f}"));
        }
    }
    let most = target.region_limits.map_or(0, |limits| limits.inputs);
    if operands.len() > most {
        return Some(format!("its kernel takes {most} operands"));
    }
    let result = op.infer(operands).ok()?.pop()?;
    let fits = |x: &Type| {
        x.shape == result.shape || (x.shape.rank() == 1 && x.shape.last() == result.shape.last())
    };
    let all = operands.iter().all(|x| fits(x));
    (!all).then(|| "its kernel takes operands of the result's shape, or rows".into())
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

impl Target {
    /// How the target runs an operator with operands of these types, or why it does not.
    ///
    /// # Errors
    /// The reason, as the end of "cpu does not run zip: …".
    pub fn path(&self, op: &Op, operands: &[&Type]) -> Result<Path, String> {
        if matches!(op.alias(operands), Alias::View { .. }) {
            return Ok(Path::View);
        }
        if Self::makes_on_host(op) {
            return Ok(Path::HostConstant);
        }
        let kernel = self.claims.kernels.iter().find(|k| k.op == op.name());
        let refusal = match (kernel, self.claims.row(op.name())) {
            (Some(kernel), _) => (kernel.takes)(op, operands, self).err(),
            (None, Some(row)) => row.refusal(self, op, operands),
            (None, None) => Some("it has no kernel".into()),
        };
        match refusal {
            None => Ok(Path::Native),
            Some(_) if self.claims.loops => Ok(Path::Loops),
            Some(why) => Err(why),
        }
    }

    /// Whether the target runs an operator with operands of these types.
    ///
    /// # Errors
    /// The reason, as the end of "cpu does not run zip: …".
    pub fn claims(&self, op: &Op, operands: &[&Type]) -> Result<(), String> {
        self.path(op, operands).map(|_| ())
    }

    /// Whether the target runs some form of the operator of that name. Views are not asked: whether
    /// an operator is one depends on its operands.
    pub fn claims_name(&self, name: &str) -> bool {
        self.claims.loops || HOST_CONSTANTS.contains(&name) || self.claims.has(name)
    }

    /// The same device with the oracle's loops for everything that has no kernel, as the native
    /// CPU executor has them.
    #[must_use]
    pub fn with_loops(mut self) -> Target {
        self.claims.loops = true;
        self
    }

    /// Whether the plan makes the operator's result on the host, for every target.
    pub fn makes_on_host(op: &Op) -> bool {
        HOST_CONSTANTS.contains(&op.name())
    }

    /// Names it has kernels for, in the order in which they are listed.
    pub fn kernels(&self) -> Vec<&'static str> {
        let claims = &self.claims;
        claims.kernels.iter().map(|k| k.op).chain(claims.rows.iter().map(|r| r.op)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{Attr, Attrs, Binary, Map, MatMul, RmsNorm, Unary, Zip};
    use crate::types::Shape;

    fn t(dtype: DType, dims: &[u64]) -> Type {
        Type::tensor(dtype, Shape::of(dims))
    }

    fn why(op: impl Into<Op>, operands: &[&Type]) -> String {
        Target::cpu().claims(&op.into(), operands).unwrap_err()
    }

    #[test]
    fn every_row_names_an_operator() {
        for row in CPU.iter().chain(WEBGPU) {
            assert!(Op::NAMES.contains(&row.op), "{}", row.op);
        }
    }

    #[test]
    fn the_cpu_claims_every_function_and_webgpu_those_that_have_wgsl() {
        assert_eq!(CPU_UNARY, Unary::ALL.map(|row| row.1));
        assert_eq!(CPU_BINARY, Binary::ALL.map(|row| row.1));
        let printed = Unary::ALL.iter().filter(|row| row.2.is_some()).map(|row| row.1);
        assert!(WEBGPU_UNARY.iter().copied().eq(printed));
        let printed = Binary::ALL.iter().filter(|row| row.2.is_some()).map(|row| row.1);
        assert!(WEBGPU_BINARY.iter().copied().eq(printed));
        let missing = |all: &[&'static str], some: &[&str]| -> Vec<&'static str> {
            all.iter().copied().filter(|f| !some.contains(f)).collect()
        };
        assert_eq!(missing(CPU_UNARY, WEBGPU_UNARY), ["sin", "cos", "tan"]);
        assert_eq!(missing(CPU_BINARY, WEBGPU_BINARY), ["pow", "mod"]);
    }

    #[test]
    fn a_kernel_takes_its_types_and_no_others() {
        let cpu = Target::cpu();
        let (f32s, f16s) = (t(DType::F32, &[2, 8]), t(DType::F16, &[2, 8]));
        let silu = Op::from(Map { f: Unary::Silu });
        assert_eq!(cpu.path(&silu, &[&f32s]), Ok(Path::Native));
        assert_eq!(why(silu, &[&f16s]), "its kernel takes no f16 as operand 0");
        assert_eq!(
            why(RmsNorm { eps: 1e-5 }, &[&t(DType::F32, &[1, 2, 8]), &t(DType::F32, &[8])]),
            "its kernel takes a matrix"
        );
    }

    #[test]
    fn a_zip_repeats_a_trailing_row_and_nothing_else() {
        let add = Op::from(Zip { f: Binary::Add });
        let a = t(DType::F32, &[2, 8]);
        assert!(Target::cpu().claims(&add, &[&a, &a]).is_ok());
        assert!(Target::cpu().claims(&add, &[&a, &t(DType::F32, &[8])]).is_ok());
        let column = t(DType::F32, &[2, 1]);
        assert_eq!(
            why(add, &[&a, &column]),
            "its kernel takes two operands of one shape, or a row"
        );
    }

    #[test]
    fn a_region_is_claimed_where_its_steps_are_and_its_operands_repeat_rows() {
        let gpu = Target::webgpu(Target::WEBGPU_DEFAULT);
        let (x, row) = (t(DType::F32, &[2, 8]), t(DType::F32, &[8]));
        let region = |steps: &str, operands: &[&Type]| {
            let inputs: Vec<String> =
                (0..operands.len()).map(|i| format!("  input %x{i} : {}\n", operands[i])).collect();
            let names: Vec<String> = (0..operands.len()).map(|i| format!("%x{i}")).collect();
            let (inputs, names) = (inputs.concat(), names.join(", "));
            let text = format!(
                "func @f {{\n{inputs}  %0 = elementwise_region {names} {{steps = {steps}}} -> \
                 tensor<2x8xf32>\n  return y = %0\n}}\n"
            );
            let g = crate::ir::parse::parse(&text).expect("a graph");
            gpu.claims(&g.nodes[0].op, operands)
        };
        let steps = "[[mul, i0, i1], [silu, s0]]";
        assert_eq!(region(steps, &[&x, &row]), Ok(()));
        assert_eq!(region("[[silu, i0], [mul, s0, i0]]", &[&x]), Ok(()));
        for (steps, operands, why) in [
            (
                steps,
                [&x, &t(DType::F32, &[2, 1])],
                "its kernel takes operands of the result's shape, or rows",
            ),
            ("[[sin, i0], [mul, s0, i1]]", [&x, &row], "its kernel has no function sin"),
            ("[[clamp, i0, 0.0, 1.0], [mul, s0, i1]]", [&x, &row], "its kernel has no clamp"),
        ] {
            assert_eq!(region(steps, &operands), Err(why.into()));
        }
    }

    #[test]
    fn packed_weights_are_claimed_where_the_target_reads_them() {
        let (x, ids) = (t(DType::F32, &[1, 256]), t(DType::U32, &[1]));
        let mut cpu = Target::cpu();
        let packed = t(DType::Block(BlockFormat::Q4K), &[8, 256]);
        let matmul = Op::from(MatMul::plain());
        assert!(cpu.claims(&matmul, &[&x, &packed]).is_ok());
        let gather = Op::from_text("gather", &Attrs::none()).expect("gather");
        assert!(cpu.claims(&gather, &[&packed, &ids]).is_ok());
        let blocks = t(DType::Block(BlockFormat::Q8K), &[1, 256]);
        assert!(cpu.claims(&matmul, &[&blocks, &packed]).is_ok());
        cpu.int8 = false;
        assert!(cpu.claims(&matmul, &[&blocks, &packed]).is_err());
        cpu.formats.clear();
        assert_eq!(cpu.claims(&matmul, &[&x, &packed]), Err("it reads no q4_k".into()));
    }

    #[test]
    fn caches_of_q8_0_are_everywhere_and_on_webgpu_of_heads_of_whole_words() {
        use crate::ops::{Attention, AttentionSplit, KvWrite, RopeKvWrite, RopeStyle};
        let q8_0 = DType::Block(BlockFormat::Q8_0);
        let ctl = Type::state(DType::U32, Shape::of(&[16]));
        let gpu = Target::webgpu(Target::WEBGPU_DEFAULT);
        for e in [32, 64, 96, 128] {
            let cache = Type::state(q8_0, Shape::of(&[1, 8, e]));
            let (x, table) = (t(DType::F32, &[1, e]), t(DType::F32, &[8, e / 2, 2]));
            let rope = RopeKvWrite { style: RopeStyle::Half, head_dim: e as usize };
            let whole = Attention::causal(e as usize, 1.0);
            let split = AttentionSplit { whole: whole.clone(), splits: 2, least: 64 };
            for (op, operands) in [
                (Op::from(KvWrite), alloc::vec![&cache, &x, &ctl]),
                (rope.into(), alloc::vec![&x, &x, &x, &table, &cache, &cache, &ctl]),
                (whole.into(), alloc::vec![&x, &cache, &cache, &ctl]),
                (split.into(), alloc::vec![&x, &cache, &cache, &ctl]),
            ] {
                assert_eq!(Target::cpu().path(&op, &operands), Ok(Path::Native));
                let why = "its caches of q8_0 have heads of whole 64".into();
                let want = if e % 64 == 0 { Ok(Path::Native) } else { Err(why) };
                assert_eq!(gpu.path(&op, &operands), want, "{} heads of {e}", op.name());
            }
        }
        for target in [&gpu, &Target::cpu()] {
            assert!(target.caches.is_some_and(|c| c.types.contains(&q8_0)));
        }
        assert_eq!([gpu.cache_heads(q8_0), gpu.cache_heads(DType::F16)], [64, 1]);
        assert_eq!(Target::cpu().cache_heads(q8_0), 1);
        assert_eq!(Target::reference().caches, None);
        assert_eq!(Target::reference().cache_heads(q8_0), 1);
    }

    #[test]
    fn loops_take_what_no_kernel_does() {
        let f16s = t(DType::F16, &[2, 8]);
        let silu = Op::from(Map { f: Unary::Silu });
        assert_eq!(Target::cpu().with_loops().path(&silu, &[&f16s]), Ok(Path::Loops));
        assert_eq!(Target::reference().path(&silu, &[&f16s]), Ok(Path::Loops));
        assert!(Target::reference().claims_name("anything"));
        assert!(!Target::cpu().claims_name("softmax"));
        assert!(Target::cpu().claims_name("rope_table"));
    }

    #[test]
    fn a_view_needs_no_kernel() {
        let x = t(DType::BF16, &[2, 8]);
        let attrs = Attrs::none().with("dims", Attr::List(alloc::vec![Attr::Int(16)]));
        let reshape = Op::from_text("reshape", &attrs).expect("reshape");
        assert_eq!(Target::cpu().path(&reshape, &[&x]), Ok(Path::View));
    }
}
