//! What lowerings write most often, by name.

use super::{Code, Kind, Reg, Tape};

impl Tape {
    /// A number of a float or integer type.
    pub(crate) fn number(&mut self, kind: Kind, x: f64) -> Reg {
        if kind.is_float() {
            self.call(Code::Scalar, &[], &[kind as i64], &[x])
        } else {
            self.integer(kind, x as i64)
        }
    }

    /// An f32.
    pub(crate) fn float(&mut self, x: f32) -> Reg {
        self.number(Kind::F32, x.into())
    }

    /// An integer.
    pub(crate) fn integer(&mut self, kind: Kind, x: i64) -> Reg {
        self.with(Code::Scalar, &[], &[kind as i64, x])
    }

    /// Integers in a row.
    pub(crate) fn integers(&mut self, kind: Kind, all: &[i64]) -> Reg {
        let ints: Vec<i64> = std::iter::once(kind as i64).chain(all.iter().copied()).collect();
        self.with(Code::Integers, &[], &ints)
    }

    /// 0, 1, .. below `n`.
    pub(crate) fn arange(&mut self, kind: Kind, n: i64) -> Reg {
        self.with(Code::Arange, &[], &[kind as i64, n])
    }

    pub(crate) fn cast(&mut self, x: Reg, to: Kind) -> Reg {
        self.with(Code::AsType, &[x], &[to as i64])
    }

    /// The same bits as another type of the same width.
    pub(crate) fn bits(&mut self, x: Reg, to: Kind) -> Reg {
        self.with(Code::View, &[x], &[to as i64])
    }

    pub(crate) fn reshape(&mut self, x: Reg, dims: &[i64]) -> Reg {
        self.with(Code::Reshape, &[x], dims)
    }

    pub(crate) fn broadcast(&mut self, x: Reg, dims: &[i64]) -> Reg {
        self.with(Code::Broadcast, &[x], dims)
    }

    pub(crate) fn transpose(&mut self, x: Reg, perm: &[i64]) -> Reg {
        self.with(Code::Transpose, &[x], perm)
    }

    /// Elements `start .. stop` of one axis, of an array of these sizes.
    pub(crate) fn slice(
        &mut self,
        x: Reg,
        dims: &[i64],
        axis: usize,
        start: i64,
        stop: i64,
    ) -> Reg {
        let rank = dims.len();
        let mut ints = vec![0; 1 + 3 * rank];
        ints[0] = rank as i64;
        ints[1 + axis] = start;
        ints[1 + rank..1 + 2 * rank].copy_from_slice(dims);
        ints[1 + rank + axis] = stop;
        ints[1 + 2 * rank..].fill(1);
        self.with(Code::Slice, &[x], &ints)
    }

    /// Element `i` of a vector of `n`, as a scalar.
    pub(crate) fn element(&mut self, x: Reg, n: i64, i: i64) -> Reg {
        let one = self.slice(x, &[n], 0, i, i + 1);
        self.reshape(one, &[])
    }

    pub(crate) fn concat(&mut self, all: &[Reg], axis: usize) -> Reg {
        self.with(Code::Concat, all, &[axis as i64])
    }

    /// Elements of an axis by indices, all of which must be on it.
    pub(crate) fn take(&mut self, x: Reg, indices: Reg, axis: usize) -> Reg {
        self.with(Code::Take, &[x, indices], &[axis as i64])
    }

    pub(crate) fn take_along(&mut self, x: Reg, indices: Reg, axis: usize) -> Reg {
        self.with(Code::TakeAlong, &[x, indices], &[axis as i64])
    }

    pub(crate) fn select(&mut self, condition: Reg, yes: Reg, no: Reg) -> Reg {
        self.op(Code::Where, &[condition, yes, no])
    }

    /// A reduction along axes, which stay as axes of one element if `keep`.
    pub(crate) fn reduce(&mut self, code: Code, x: Reg, axes: &[i64], keep: bool) -> Reg {
        let ints: Vec<i64> = std::iter::once(i64::from(keep)).chain(axes.iter().copied()).collect();
        self.with(code, &[x], &ints)
    }

    pub(crate) fn cumsum(&mut self, x: Reg, axis: usize) -> Reg {
        self.with(Code::CumSum, &[x], &[axis as i64, 0, 1])
    }
}

/// Functions of one and of two arrays.
macro_rules! functions {
    ($($name:ident $code:ident $($x:ident)+;)*) => {
        impl Tape {
            $(pub(crate) fn $name(&mut self, $($x: Reg),+) -> Reg {
                self.op(Code::$code, &[$($x),+])
            })*
        }
    };
}

functions! {
    add Add a b;
    sub Sub a b;
    mul Mul a b;
    div Div a b;
    floor_div FloorDiv a b;
    remainder Remainder a b;
    maximum Maximum a b;
    minimum Minimum a b;
    eq Eq a b;
    ne Ne a b;
    lt Lt a b;
    le Le a b;
    gt Gt a b;
    ge Ge a b;
    and LogicalAnd a b;
    or LogicalOr a b;
    bit_and BitAnd a b;
    bit_or BitOr a b;
    bit_xor BitXor a b;
    shl ShiftLeft a b;
    shr ShiftRight a b;
    matmul MatMul a b;
    neg Negative x;
    exp Exp x;
    is_nan IsNan x;
    is_finite IsFinite x;
}
