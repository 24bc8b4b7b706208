//! Which operators a target runs.
//!
//! An executor lists its kernels, each with a function that says which operands it takes ([`KernelClaim`]). The
//! target runs nothing else, unless it has the oracle's loops. Views and constants need no kernel, so every
//! target claims them.

use super::Target;
use crate::ops::{Alias, Op};
use crate::types::Type;
use alloc::string::String;
use alloc::vec::Vec;

/// How a claimed operator runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Path {
    /// A kernel of the device's own.
    Native,
    /// The oracle's loops, on the host: correct, but slow.
    Loops,
    /// Nothing runs: the result is a view of an operand.
    View,
    /// Nothing runs: the host makes the result once, when weights are loaded.
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

/// Says whether a kernel takes an operator with operands of these types on a target. If not, the reason is the end
/// of "the device does not run zip: …".
pub type Takes = fn(&Op, &[&Type], &Target) -> Result<(), String>;

/// A kernel of an executor: the operator it runs, and which forms of it. The kernel's builder calls the same
/// function, so the claim and the kernel cannot differ.
#[derive(Clone, Copy, Debug)]
pub struct KernelClaim {
    /// The operator's name.
    pub op: &'static str,
    /// Which forms of it.
    pub takes: Takes,
}

impl PartialEq for KernelClaim {
    /// Compares names only: a function's address says nothing.
    fn eq(&self, other: &Self) -> bool {
        self.op == other.op
    }
}

impl Eq for KernelClaim {}

/// A row of an executor's table: a claim, and what builds the kernel or writes the operator's part of a graph.
#[derive(Clone, Copy, Debug)]
pub struct KernelRow<B> {
    /// The operator, and which forms of it.
    pub claim: KernelClaim,
    /// What builds it.
    pub build: B,
}

impl<B: Copy> KernelRow<B> {
    /// A row for the operator of this name.
    pub const fn new(op: &'static str, takes: Takes, build: B) -> Self {
        KernelRow { claim: KernelClaim { op, takes }, build }
    }

    /// The claims of a table's `N` rows, in its order.
    pub const fn claims<const N: usize>(rows: &[KernelRow<B>]) -> [KernelClaim; N] {
        let mut all = [rows[0].claim; N];
        let mut i = 0;
        while i < N {
            all[i] = rows[i].claim;
            i += 1;
        }
        all
    }
}

/// The operators that a target claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    /// Its kernels, as the executor lists them.
    pub kernels: &'static [KernelClaim],
    /// Whether it runs the oracle's loops for all other operators.
    pub loops: bool,
    /// The devices that run a model together, which exchange tensors.
    #[cfg(feature = "parallel")]
    pub ranks: Ranks,
}

/// The devices that run a model together.
#[cfg(feature = "parallel")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ranks {
    /// How many, 1 or more.
    pub count: u64,
    /// A weight of at least so many elements is split even where the product's slices are put together at once.
    pub gathered: u64,
}

#[cfg(feature = "parallel")]
impl Ranks {
    /// One device: nothing is split.
    pub const ONE: Ranks = Ranks::of(1);

    /// So many devices.
    pub const fn of(count: u64) -> Ranks {
        Ranks { count, gathered: 1 << 22 }
    }
}

/// Constants that the plan makes on the host.
const HOST_CONSTANTS: &[&str] = &["constant", "rope_table"];

impl Claims {
    /// Claims everything, by the oracle's loops.
    pub const EVERYTHING: Claims = Claims { loops: true, ..Claims::of(&[]) };

    /// Claims an executor's kernels.
    pub const fn of(kernels: &'static [KernelClaim]) -> Claims {
        Claims {
            kernels,
            loops: false,
            #[cfg(feature = "parallel")]
            ranks: Ranks::ONE,
        }
    }

    /// Operators that have a kernel.
    pub fn len(&self) -> usize {
        self.kernels.len()
    }

    /// Whether no operator has a kernel.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the operator of that name has a kernel for some of its forms.
    pub fn has(&self, name: &str) -> bool {
        self.kernels.iter().any(|k| k.op == name)
    }
}

impl Target {
    /// How the target runs an operator with operands of these types, or why it does not.
    ///
    /// # Errors
    /// The reason, as the end of "the device does not run zip: …".
    pub fn path(&self, op: &Op, operands: &[&Type]) -> Result<Path, String> {
        if matches!(op.alias(operands), Alias::View { .. }) {
            return Ok(Path::View);
        }
        if Self::makes_on_host(op) {
            return Ok(Path::HostConstant);
        }
        let taken = match self.claims.kernels.iter().find(|k| k.op == op.name()) {
            Some(kernel) => (kernel.takes)(op, operands, self),
            None => Err("it has no kernel".into()),
        };
        match taken {
            Ok(()) => Ok(Path::Native),
            Err(_) if self.claims.loops => Ok(Path::Loops),
            Err(why) => Err(why),
        }
    }

    /// Whether the target runs an operator with operands of these types.
    ///
    /// # Errors
    /// The reason, as the end of "the device does not run zip: …".
    pub fn claims(&self, op: &Op, operands: &[&Type]) -> Result<(), String> {
        self.path(op, operands).map(|_| ())
    }

    /// Whether the target runs some form of the operator of that name. This ignores views: whether an
    /// operator is a view depends on its operands.
    pub fn claims_name(&self, name: &str) -> bool {
        self.claims.loops || HOST_CONSTANTS.contains(&name) || self.claims.has(name)
    }

    /// The same claims, with the oracle's loops for operators without a kernel.
    #[must_use]
    pub fn with_loops(mut self) -> Target {
        self.claims.loops = true;
        self
    }

    /// Whether the plan makes the operator's result on the host, on every target.
    pub fn makes_on_host(op: &Op) -> bool {
        HOST_CONSTANTS.contains(&op.name())
    }

    /// Names of operators with a kernel, in the order of the list.
    pub fn kernels(&self) -> Vec<&'static str> {
        self.claims.kernels.iter().map(|k| k.op).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{Attr, Attrs, Map, Unary};
    use crate::targets;
    use crate::types::{DType, Shape};

    fn t(dtype: DType, dims: &[u64]) -> Type {
        Type::tensor(dtype, Shape::of(dims))
    }

    #[test]
    fn a_kernel_is_asked_for_what_it_takes_and_loops_take_the_rest() {
        let host = targets::host();
        let (f32s, f16s) = (t(DType::F32, &[2, 8]), t(DType::F16, &[2, 8]));
        let silu = Op::from(Map { f: Unary::Silu });
        assert_eq!(host.path(&silu, &[&f32s]), Ok(Path::Native));
        let why = "its kernel takes no f16 as operand 0";
        assert_eq!(host.path(&silu, &[&f16s]), Err(why.into()));
        assert_eq!(host.claims(&silu, &[&f16s]), Err(why.into()));
        let softmax = Op::from_text("softmax", &Attrs::none().with("axis", Attr::Int(1)));
        let softmax = softmax.expect("softmax");
        assert_eq!(host.path(&softmax, &[&f32s]), Err("it has no kernel".into()));
        let looping = host.with_loops();
        assert_eq!(looping.path(&silu, &[&f32s]), Ok(Path::Native));
        assert_eq!(looping.path(&silu, &[&f16s]), Ok(Path::Loops));
        assert_eq!(looping.path(&softmax, &[&f32s]), Ok(Path::Loops));
        assert_eq!(Target::reference().path(&silu, &[&f16s]), Ok(Path::Loops));
    }

    #[test]
    fn a_name_is_claimed_where_some_form_runs() {
        assert!(Target::reference().claims_name("anything"));
        assert!(!targets::host().claims_name("softmax"));
        assert!(targets::host().claims_name("matmul"));
        assert!(targets::host().claims_name("rope_table"));
        assert!(targets::host().with_loops().claims_name("softmax"));
    }

    #[test]
    fn a_view_needs_no_kernel() {
        let x = t(DType::BF16, &[2, 8]);
        let attrs = Attrs::none().with("dims", Attr::List(alloc::vec![Attr::Int(16)]));
        let reshape = Op::from_text("reshape", &attrs).expect("reshape");
        assert_eq!(targets::host().path(&reshape, &[&x]), Ok(Path::View));
    }

    #[test]
    fn claims_count_their_kernels() {
        let claims = targets::host().claims;
        assert_eq!((claims.len(), claims.is_empty()), (claims.kernels.len(), false));
        assert!(claims.has("matmul") && !claims.has("softmax"));
        assert!(Claims::EVERYTHING.is_empty());
        assert_eq!(targets::host().kernels().len(), claims.len());
    }
}
