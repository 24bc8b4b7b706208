//! Sizes: one canonical form a polynomial, text that reads back, bindings that compose.

use super::graphs::Rng;
use rlx_core::types::{Binding, Dim, DimBinding, DimOp};

const SYMBOLS: [&str; 3] = ["BATCH", "N", "SEQ"];
const OPS: [DimOp; 5] = [DimOp::FloorDiv, DimOp::CeilDiv, DimOp::Mod, DimOp::Min, DimOp::Max];

/// An expression, as it was written.
#[derive(Clone, Debug)]
enum Tree {
    Number(u64),
    Symbol(usize),
    Add(Box<Tree>, Box<Tree>),
    Mul(Box<Tree>, Box<Tree>),
    Op(DimOp, Box<Tree>, Box<Tree>),
    Sub(Box<Tree>, u64),
}

fn tree(rng: &mut Rng, depth: usize, polynomial: bool) -> Tree {
    let two = |rng: &mut Rng| {
        (Box::new(tree(rng, depth - 1, polynomial)), Box::new(tree(rng, depth - 1, polynomial)))
    };
    match rng.below(if depth == 0 { 2 } else { 7 }) {
        0 => Tree::Number(rng.below(7) as u64),
        1 => Tree::Symbol(rng.below(3)),
        2 | 3 => {
            let (a, b) = two(rng);
            Tree::Add(a, b)
        }
        4 => {
            let (a, b) = two(rng);
            Tree::Mul(a, b)
        }
        5 if !polynomial => {
            Tree::Sub(Box::new(tree(rng, depth - 1, false)), 1 + rng.below(4) as u64)
        }
        _ => {
            let (a, b) = two(rng);
            if polynomial { Tree::Add(a, b) } else { Tree::Op(OPS[rng.below(5)], a, b) }
        }
    }
}

/// The dim; `None` where something is divided by 0 or nothing is left.
fn dim(t: &Tree) -> Option<Dim> {
    match t {
        Tree::Number(n) => Some(Dim::from(*n)),
        Tree::Symbol(s) => Some(Dim::symbol(SYMBOLS[*s])),
        Tree::Add(a, b) => dim(a)?.add(&dim(b)?).ok(),
        Tree::Mul(a, b) => dim(a)?.mul(&dim(b)?).ok(),
        Tree::Op(op, a, b) => dim(a)?.apply(*op, &dim(b)?).ok(),
        Tree::Sub(a, n) => dim(a)?.sub(*n).ok(),
    }
}

fn value(t: &Tree, at: [u64; 3]) -> Option<u64> {
    Some(match t {
        Tree::Number(n) => *n,
        Tree::Symbol(s) => at[*s],
        Tree::Add(a, b) => value(a, at)?.checked_add(value(b, at)?)?,
        Tree::Mul(a, b) => value(a, at)?.checked_mul(value(b, at)?)?,
        Tree::Sub(a, n) => value(a, at)?.checked_sub(*n).filter(|n| *n > 0)?,
        Tree::Op(op, a, b) => {
            let (a, b) = (value(a, at)?, value(b, at)?);
            match op {
                DimOp::FloorDiv => a.checked_div(b)?,
                DimOp::CeilDiv if b == 0 => return None,
                DimOp::CeilDiv => a.div_ceil(b),
                DimOp::Mod => a.checked_rem(b)?,
                DimOp::Min => a.min(b),
                DimOp::Max => a.max(b),
            }
        }
    })
}

fn binding(at: [u64; 3]) -> Binding {
    Binding::from_pairs(&[(SYMBOLS[0], at[0]), (SYMBOLS[1], at[1]), (SYMBOLS[2], at[2])])
}

#[test]
fn polynomials_are_equal_when_their_values_are() {
    let mut rng = Rng(11);
    let (mut same, mut different) = (0, 0);
    // Degrees are below 9 and coefficients small: values at these points tell polynomials apart.
    let points = [[1_009, 99_991, 7], [3, 5, 1_000_003], [0, 1, 2], [13, 17, 19]];
    for _ in 0..20_000 {
        let (a, b) = (tree(&mut rng, 2, true), tree(&mut rng, 2, true));
        let equal = points.iter().all(|&at| value(&a, at) == value(&b, at));
        assert_eq!(dim(&a) == dim(&b), equal, "{a:?} {b:?}");
        *if equal { &mut same } else { &mut different } += 1;
    }
    assert!(same > 100 && different > 100, "{same} {different}");
}

#[test]
fn sums_and_products_do_not_depend_on_their_order() {
    let mut rng = Rng(12);
    for _ in 0..3000 {
        let dims = [0; 3].map(|_| dim(&tree(&mut rng, 2, false)));
        let [Some(a), Some(b), Some(c)] = &dims else { continue };
        assert_eq!(a.add(b), b.add(a));
        assert_eq!(a.mul(b), b.mul(a));
        assert_eq!(a.add(b).unwrap().add(c), a.add(&b.add(c).unwrap()));
        let spread = a.mul(c).unwrap().add(&b.mul(c).unwrap());
        assert_eq!(a.add(b).unwrap().mul(c), spread);
    }
}

#[test]
fn every_dim_reads_back_from_its_text() {
    let mut rng = Rng(13);
    for _ in 0..5000 {
        let Some(d) = dim(&tree(&mut rng, 4, false)) else { continue };
        assert_eq!(Dim::parse(&d.to_string()), Ok(d.clone()), "{d}");
    }
}

#[test]
fn binding_gives_the_value_at_once_or_one_symbol_after_the_other() {
    let mut rng = Rng(14);
    let mut compared = 0;
    for _ in 0..20_000 {
        let t = tree(&mut rng, 3, false);
        let at = [0; 3].map(|_| rng.below(6) as u64);
        let (Some(d), Some(n)) = (dim(&t), value(&t, at)) else { continue };
        // A size by itself is 1, and so it is for 0 by 0; no other fold hides a division.
        let Ok(bound) = d.bind(&binding(at)) else { continue };
        assert_eq!(bound.as_static(), Some(n), "{t:?} is {d} at {at:?}");
        let mut steps = Ok(d.clone());
        for (name, n) in binding(at) {
            steps = steps.and_then(|d| d.bind(&Binding::from_pairs(&[(&name, n)])));
        }
        assert_eq!(steps.map(|d| d.as_static()), Ok(Some(n)), "{d} at {at:?}");
        compared += 1;
    }
    assert!(compared > 10_000, "{compared}");
}

#[test]
fn no_size_within_the_bounds_is_above_the_upper_one() {
    let mut rng = Rng(15);
    for _ in 0..10_000 {
        let Some(d) = dim(&tree(&mut rng, 3, false)) else { continue };
        let bounds = [0; 3].map(|_| rng.below(9) as u64);
        let Ok(upper) = d.upper(&binding(bounds)) else { continue };
        let at = bounds.map(|b| rng.below(b as usize + 1) as u64);
        if let Ok(n) = d.bind(&binding(at)) {
            assert!(n.as_static().unwrap() <= upper, "{d} at {at:?} within {bounds:?}: {upper}");
        }
    }
}
