//! Sizes of axes: integers, or canonical polynomials over symbols.
//!
//! Two dims are equal when their canonical forms are. A form is a sum of terms in a fixed order,
//! a term a coefficient times a sorted product of atoms, an atom a symbol or one of `floordiv,
//! ceildiv, mod, min, max` over canonical dims that could not be folded.
//!
//! **Differences.** A number may be taken from a size, `SEQ-2`, so coefficients have signs. What is
//! taken must leave something: a dim with a negative term whose symbols are bound is 1 or more, or
//! binding it is an error. So no size is ever negative, and none that a difference makes is 0.

use crate::error::{Error, Result};
use crate::order;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// A named unknown size.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Symbol(pub String);

/// New tokens of a sequence in one step.
pub const SEQ: &str = "SEQ";
/// Sequences in a batch.
pub const BATCH: &str = "BATCH";
/// Rows already in the KV cache.
pub const PAST_SEQ: &str = "PAST_SEQ";
/// Rows that reach the head.
pub const OUT_ROWS: &str = "OUT_ROWS";

/// An operation on dims that does not fold to a polynomial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DimOp {
    /// Quotient rounded down.
    FloorDiv,
    /// Quotient rounded up.
    CeilDiv,
    /// Remainder.
    Mod,
    /// The smaller.
    Min,
    /// The larger.
    Max,
}

impl DimOp {
    const ALL: [(DimOp, &'static str); 5] = [
        (DimOp::FloorDiv, "floordiv"),
        (DimOp::CeilDiv, "ceildiv"),
        (DimOp::Mod, "mod"),
        (DimOp::Min, "min"),
        (DimOp::Max, "max"),
    ];

    /// The name in text IR.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// The operation of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|row| row.1 == name).map(|row| row.0)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Atom {
    Symbol(Symbol),
    Op(DimOp, Box<Dim>, Box<Dim>),
}

/// The size of an axis. See the module's page.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dim {
    /// Product of atoms -> coefficient, never 0 and of at most 64 bits and a sign. The empty product
    /// is the constant term. At least one is positive, but for the sum of nothing, which is 0.
    pub(super) terms: Vec<(Vec<Atom>, i128)>,
}

/// The least and the most that a size can be.
pub(super) type Range = (u64, u64);

/// Sizes given to symbols.
pub type Binding = BTreeMap<String, u64>;

impl From<u64> for Dim {
    fn from(n: u64) -> Self {
        Dim { terms: if n == 0 { vec![] } else { vec![(vec![], n.into())] } }
    }
}

impl From<usize> for Dim {
    fn from(n: usize) -> Self {
        Dim::from(n as u64)
    }
}

fn overflow() -> Error {
    Error::bad_graph("a size overflows 64 bits")
}

impl Dim {
    /// The symbol of that name.
    pub fn symbol(name: &str) -> Dim {
        Dim { terms: vec![(vec![Atom::Symbol(Symbol(name.into()))], 1)] }
    }

    /// Rows of all sequences: `BATCH*SEQ`.
    pub fn rows() -> Dim {
        let atoms = [BATCH, SEQ].map(|s| Atom::Symbol(Symbol(s.into())));
        Dim { terms: vec![(atoms.to_vec(), 1)] }
    }

    /// The number, if no symbol is left.
    pub fn as_static(&self) -> Option<u64> {
        match self.terms.as_slice() {
            [] => Some(0),
            [(atoms, n)] if atoms.is_empty() => u64::try_from(*n).ok(),
            _ => None,
        }
    }

    /// True if no binding makes them equal: numbers that differ. A symbol and a number are a
    /// question that [`bind`](Self::bind) answers.
    pub fn differs(&self, other: &Dim) -> bool {
        matches!((self.as_static(), other.as_static()), (Some(a), Some(b)) if a != b)
    }

    fn from_terms(mut terms: Vec<(Vec<Atom>, i128)>) -> Result<Dim> {
        for term in &mut terms {
            order::sort(&mut term.0);
        }
        order::sort(&mut terms);
        let mut out: Vec<(Vec<Atom>, i128)> = Vec::with_capacity(terms.len());
        for (atoms, n) in terms {
            match out.last_mut() {
                Some(last) if last.0 == atoms => {
                    last.1 = last.1.checked_add(n).ok_or_else(overflow)?;
                }
                _ => out.push((atoms, n)),
            }
        }
        out.retain(|t| t.1 != 0);
        if out.iter().any(|t| t.1.unsigned_abs() > u64::MAX.into()) {
            return Err(overflow());
        }
        let dim = Dim { terms: out };
        if dim.terms.iter().all(|t| t.1 < 0) && !dim.terms.is_empty() {
            return Err(Error::bad_graph(format!("a size of {dim} is below 0")));
        }
        Ok(dim)
    }

    /// True if a term is taken away.
    pub fn is_difference(&self) -> bool {
        self.terms.iter().any(|t| t.1 < 0)
    }

    /// The sum. Errors on overflow.
    pub fn add(&self, other: &Dim) -> Result<Dim> {
        Dim::from_terms(self.terms.iter().chain(&other.terms).cloned().collect())
    }

    /// `self - n`, at least 1: of a number at once, of symbols when they are bound.
    ///
    /// # Errors
    /// `BadGraph` for a number of `n` or less, or overflow.
    pub fn sub(&self, n: u64) -> Result<Dim> {
        match self.as_static() {
            Some(size) => match size.checked_sub(n) {
                Some(left) if left > 0 || n == 0 => Ok(Dim::from(left)),
                _ => {
                    Err(Error::bad_graph(format!("a size of {size} has nothing left without {n}")))
                }
            },
            None => self.plus(-i128::from(n)),
        }
    }

    fn plus(&self, n: i128) -> Result<Dim> {
        Dim::from_terms(self.terms.iter().cloned().chain([(vec![], n)]).collect())
    }

    /// Sum and difference of terms as text has them: each with its sign.
    pub(super) fn signed_sum(terms: &[(bool, Dim)]) -> Result<Dim> {
        let mut all = Vec::new();
        for (taken, dim) in terms {
            let sign = if *taken { -1 } else { 1 };
            all.extend(dim.terms.iter().map(|(atoms, n)| (atoms.clone(), sign * n)));
        }
        Dim::from_terms(all)
    }

    /// The product. Errors on overflow.
    pub fn mul(&self, other: &Dim) -> Result<Dim> {
        let mut terms = Vec::new();
        for (a, n) in &self.terms {
            for (b, m) in &other.terms {
                let atoms = a.iter().chain(b).cloned().collect();
                terms.push((atoms, n.checked_mul(*m).ok_or_else(overflow)?));
            }
        }
        Dim::from_terms(terms)
    }

    /// `self op other`, folded where that is known: two numbers, a size and itself, a divisor of
    /// every term, 0 and 1. `min` and `max` have their operands in one order. Errors on division by
    /// zero.
    pub fn apply(&self, op: DimOp, other: &Dim) -> Result<Dim> {
        use DimOp::{CeilDiv, FloorDiv, Max, Min, Mod};
        let divides = matches!(op, FloorDiv | CeilDiv | Mod);
        match (self.as_static(), other.as_static()) {
            (_, Some(0)) if divides => {
                return Err(Error::bad_graph(format!("a size of {self} is divided by 0")));
            }
            (Some(a), Some(b)) => {
                return Ok(Dim::from(match op {
                    FloorDiv => a / b,
                    CeilDiv => a.div_ceil(b),
                    Mod => a % b,
                    Min => a.min(b),
                    Max => a.max(b),
                }));
            }
            (_, Some(b)) if divides && self.terms.iter().all(|t| t.1 % i128::from(b) == 0) => {
                let b = i128::from(b);
                let quotient = self.terms.iter().map(|(atoms, n)| (atoms.clone(), n / b));
                return Ok(match op {
                    Mod => Dim::from(0u64),
                    _ => Dim { terms: quotient.collect() },
                });
            }
            (Some(0), _) | (_, Some(0)) => match op {
                Min => return Ok(Dim::from(0u64)),
                Max => return Ok(if self.terms.is_empty() { other } else { self }.clone()),
                _ => {}
            },
            _ => {}
        }
        if self == other {
            return Ok(match op {
                FloorDiv | CeilDiv => Dim::from(1u64),
                Mod => Dim::from(0u64),
                Min | Max => self.clone(),
            });
        }
        let (mut a, mut b) = (self, other);
        if matches!(op, Min | Max) && b < a {
            (a, b) = (b, a);
        }
        let atom = Atom::Op(op, Box::new(a.clone()), Box::new(b.clone()));
        Ok(Dim { terms: vec![(vec![atom], 1)] })
    }

    /// The dim with every symbol of `binding` replaced.
    ///
    /// # Errors
    /// `BadGraph` for overflow, division by zero, or a difference that leaves nothing, with the
    /// symbols' sizes.
    pub fn bind(&self, binding: &Binding) -> Result<Dim> {
        let mut terms = Vec::new();
        for (atoms, n) in &self.terms {
            let mut factors = Vec::with_capacity(atoms.len());
            for atom in atoms {
                factors.push(match atom {
                    Atom::Symbol(s) => match binding.get(&s.0) {
                        Some(&n) => Dim::from(n),
                        None => Dim::symbol(&s.0),
                    },
                    Atom::Op(op, a, b) => a.bind(binding)?.apply(*op, &b.bind(binding)?)?,
                });
            }
            // Nothing times anything is nothing, and does not overflow on the way.
            if factors.iter().any(|f| f.terms.is_empty()) {
                continue;
            }
            let mut product = Dim::from(1u64);
            for factor in factors {
                product = product.mul(&factor)?;
            }
            for (atoms, m) in product.terms {
                terms.push((atoms, m.checked_mul(*n).ok_or_else(overflow)?));
            }
        }
        if !self.is_difference() {
            return Dim::from_terms(terms);
        }
        let fixed = terms.iter().all(|t| t.0.is_empty());
        let sum = terms.iter().try_fold(0i128, |sum, t| sum.checked_add(t.1));
        match sum.ok_or_else(overflow)? {
            sum if fixed && sum <= 0 => Err(self.nothing_left(binding, sum)),
            _ => Dim::from_terms(terms),
        }
    }

    fn nothing_left(&self, binding: &Binding, sum: i128) -> Error {
        let mut symbols = Vec::new();
        self.symbols(&mut symbols);
        let sizes = symbols.iter().filter_map(|s| Some(format!("{s} = {}", binding.get(s)?)));
        let sizes: Vec<String> = sizes.collect();
        Error::bad_graph(format!("a size of {self} is {sum} with {}", sizes.join(", ")))
            .hint("1 at least: something is taken from it, as an unpadded window takes its edges")
    }

    /// The least and the most that the dim can be, from what its symbols and operations can be.
    pub(super) fn range(
        &self,
        symbol: &dyn Fn(&str) -> Result<Range>,
        op: &dyn Fn(DimOp, &Dim, &Dim) -> Result<Range>,
    ) -> Result<Range> {
        let (mut least, mut most) = (0i128, 0i128);
        for (atoms, n) in &self.terms {
            let (mut low, mut high) = (Some(1u128), Some(1u128));
            for atom in atoms {
                let (a, b) = match atom {
                    Atom::Symbol(s) => symbol(&s.0)?,
                    Atom::Op(kind, a, b) => op(*kind, a, b)?,
                };
                // Nothing times anything is nothing, and does not overflow on the way.
                let times = |x: Option<u128>, y: u64| match (x, y) {
                    (Some(0), _) | (_, 0) => Some(0),
                    (x, y) => x?.checked_mul(y.into()),
                };
                (low, high) = (times(low, a), times(high, b));
            }
            let of = |x: Option<u128>| {
                let x = i128::try_from(x.ok_or_else(overflow)?).map_err(|_| overflow())?;
                n.checked_mul(x).ok_or_else(overflow)
            };
            let (a, b) = if *n < 0 { (of(high)?, of(low)?) } else { (of(low)?, of(high)?) };
            least = least.checked_add(a).ok_or_else(overflow)?;
            most = most.checked_add(b).ok_or_else(overflow)?;
        }
        // A difference that leaves nothing is an error when it is bound.
        let least = u64::try_from(least.max(self.is_difference().into()));
        let most = u64::try_from(most.max(0));
        least.ok().zip(most.ok()).ok_or_else(overflow)
    }

    /// `(a, symbol, b)` of the form `a * symbol + b`.
    pub(super) fn as_line(&self) -> Option<(u64, &str, i128)> {
        let (constant, rest) = match self.terms.as_slice() {
            [(atoms, n), rest @ ..] if atoms.is_empty() => (*n, rest),
            all => (0, all),
        };
        match rest {
            [(atoms, n)] => match atoms.as_slice() {
                [Atom::Symbol(s)] => Some((u64::try_from(*n).ok()?, &s.0, constant)),
                _ => None,
            },
            _ => None,
        }
    }

    /// Adds the names of the symbols that occur to `out`, sorted and unique.
    pub fn symbols(&self, out: &mut Vec<String>) {
        for (atoms, _) in &self.terms {
            for atom in atoms {
                match atom {
                    Atom::Symbol(s) => {
                        if let Err(at) = out.binary_search(&s.0) {
                            out.insert(at, s.0.clone());
                        }
                    }
                    Atom::Op(_, a, b) => {
                        a.symbols(out);
                        b.symbols(out);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn s(name: &str) -> Dim {
        Dim::symbol(name)
    }

    #[test]
    fn equal_polynomials_have_one_form() {
        let a = s("A").add(&s("B")).unwrap().mul(&Dim::from(2u64)).unwrap();
        let b = s("B").add(&s("A")).unwrap().add(&s("A").add(&s("B")).unwrap()).unwrap();
        assert_eq!(a, b);
        assert_eq!(a.to_string(), "2*A+2*B");
    }

    #[test]
    fn only_different_numbers_can_never_be_equal() {
        let four = Dim::from(4u64);
        assert!(four.differs(&Dim::from(5u64)));
        assert!(!four.differs(&four) && !four.differs(&s("SEQ")) && !s("A").differs(&s("B")));
    }

    #[test]
    fn binding_folds_what_became_static() {
        let d = s("SEQ").apply(DimOp::CeilDiv, &Dim::from(32u64)).unwrap();
        assert_eq!(d.to_string(), "ceildiv(SEQ,32)");
        let bound = d.bind(&Binding::from([("SEQ".into(), 33)])).unwrap();
        assert_eq!(bound.as_static(), Some(2));
    }

    #[test]
    fn what_is_known_folds() {
        let apply = |a: &Dim, op, b: u64| a.apply(op, &Dim::from(b)).unwrap().to_string();
        let d = s("SEQ").mul(&Dim::from(8u64)).unwrap();
        assert_eq!(apply(&d, DimOp::FloorDiv, 4), "2*SEQ");
        assert_eq!(apply(&d, DimOp::Mod, 4), "0");
        assert_eq!(apply(&d, DimOp::CeilDiv, 3), "ceildiv(8*SEQ,3)");
        assert_eq!(apply(&s("SEQ"), DimOp::FloorDiv, 1), "SEQ");
        assert_eq!(apply(&s("SEQ"), DimOp::Max, 0), "SEQ");
        assert_eq!(apply(&s("SEQ"), DimOp::Min, 0), "0");
        let (a, b) = (s("A"), s("B"));
        assert_eq!(a.apply(DimOp::Max, &b).unwrap(), b.apply(DimOp::Max, &a).unwrap());
        assert_eq!(Dim::rows(), s(SEQ).mul(&s(BATCH)).unwrap());
    }

    #[test]
    fn nothing_times_what_overflows_is_nothing() {
        let d = Dim::parse("4294967296*A*B*C").unwrap();
        let all = Binding::from([("A".into(), 1 << 40), ("B".into(), 1 << 40), ("C".into(), 0)]);
        assert_eq!(d.bind(&all).unwrap().as_static(), Some(0));
    }

    #[test]
    fn what_is_taken_from_a_symbol_comes_off_when_it_is_bound() {
        let d = s("SEQ").sub(2).unwrap();
        assert_eq!(d.to_string(), "SEQ-2");
        assert_eq!(d.add(&Dim::from(2u64)).unwrap(), s("SEQ"));
        assert_eq!(d.add(&Dim::from(5u64)).unwrap().to_string(), "SEQ+3");
        assert_eq!(d.sub(1).unwrap().to_string(), "SEQ-3");
        let area = d.mul(&s("T").sub(1).unwrap()).unwrap();
        assert_eq!(area.to_string(), "SEQ*T-SEQ-2*T+2");
        let at = |seq| Binding::from([("SEQ".into(), seq)]);
        assert_eq!(d.bind(&at(3)).unwrap().as_static(), Some(1));
        assert_eq!(area.bind(&at(4)).unwrap().to_string(), "2*T-2");
        for (seq, n) in [(2, 0), (1, -1)] {
            let e = d.bind(&at(seq)).unwrap_err();
            assert_eq!(e.what, format!("a size of SEQ-2 is {n} with SEQ = {seq}"));
        }
        let half = d.apply(DimOp::FloorDiv, &Dim::from(2u64)).unwrap();
        assert_eq!(half.bind(&at(6)).unwrap().as_static(), Some(2));
        assert!(half.bind(&at(2)).is_err());
    }

    #[test]
    fn a_number_keeps_at_least_one_and_no_form_is_always_negative() {
        let n = Dim::from(4u64);
        assert_eq!(n.sub(3).unwrap().as_static(), Some(1));
        assert_eq!(n.sub(4).unwrap_err().what, "a size of 4 has nothing left without 4");
        assert!(n.sub(5).is_err() && Dim::from(0u64).sub(0).is_ok());
        // Nothing is left of the symbol, and all that stays is taken.
        let d = s("A").mul(&s("B").sub(1).unwrap()).unwrap();
        let none = d.bind(&Binding::from([("B".into(), 0)])).unwrap_err();
        assert_eq!(none.what, "a size of -A is below 0");
        assert_eq!(s("A").sub(u64::MAX).unwrap().sub(1).unwrap_err().what, overflow().what);
    }

    #[test]
    fn overflow_and_division_by_zero_are_errors() {
        let big = Dim::from(u64::MAX);
        assert!(big.mul(&Dim::from(2u64)).is_err());
        assert!(big.add(&Dim::from(1u64)).is_err());
        let e = s("SEQ").apply(DimOp::Mod, &Dim::from(0u64)).unwrap_err();
        assert_eq!(e.what, "a size of SEQ is divided by 0");
        let d = Dim::parse("A*B").unwrap();
        let large = Binding::from([("A".into(), 1 << 40), ("B".into(), 1 << 40)]);
        assert_eq!(d.bind(&large).unwrap_err().what, "a size overflows 64 bits");
    }
}
