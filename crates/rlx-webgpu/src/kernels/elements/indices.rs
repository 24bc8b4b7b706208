//! Step constants by position, and the arithmetic of indices: which element of an operand belongs to an
//! element of the result.

use crate::kernels::word;
use rlx_core::Result;
use rlx_core::types::Type;

/// Step constants of a kernel: WGSL sees them as sixteen `vec4u`.
#[derive(Default)]
pub(in crate::kernels) struct Words(pub Vec<u32>);

/// How many words a step has.
pub(in crate::kernels) const MOST_WORDS: usize = 64;

impl Words {
    /// Appends bits; returns the expression that reads them, a u32.
    pub fn bits(&mut self, bits: u32) -> String {
        let at = self.0.len();
        self.0.push(bits);
        format!("step.w[{}].{}", at / 4, ["x", "y", "z", "w"][at % 4])
    }

    /// Appends a size or an offset.
    ///
    /// # Errors
    /// `Unsupported` for one above 32 bits.
    pub fn size(&mut self, n: u64) -> Result<String> {
        Ok(self.bits(word(n)?))
    }

    /// Appends a number of either sign: indices are computed modulo 2^32.
    ///
    /// # Errors
    /// `Unsupported` for one above 32 bits.
    pub fn signed(&mut self, n: i64) -> Result<String> {
        word(n.unsigned_abs())?;
        Ok(self.bits(n as u32))
    }
}

/// Elements from one index to the next on each axis of a shape.
pub(in crate::kernels) fn row_major(dims: &[u64]) -> Vec<i64> {
    let mut strides = vec![0; dims.len()];
    let mut step = 1i64;
    for (stride, &n) in strides.iter_mut().zip(dims).rev() {
        *stride = step;
        step = step.saturating_mul(n as i64);
    }
    strides
}

/// Strides over `dims` of an operand of a shape that repeats to them (NumPy broadcasting): 0 where it does.
pub(in crate::kernels) fn repeated(own: &[u64], dims: &[u64]) -> Vec<i64> {
    let ahead = dims.len() - own.len();
    let mut strides = vec![0; ahead];
    let steps = row_major(own);
    strides.extend(own.iter().zip(steps).map(|(&n, step)| if n == 1 { 0 } else { step }));
    strides
}

/// Axes that several operands are walked along together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::kernels) struct Walk {
    /// Sizes, outermost first.
    pub dims: Vec<u64>,
    /// For each operand, its strides.
    pub strides: Vec<Vec<i64>>,
}

impl Walk {
    /// The same walk over as few axes as describe it: axes of size 1 go, and an axis joins the one before it
    /// where every operand passes from one to the other without a jump.
    pub fn new(dims: &[u64], strides: &[Vec<i64>]) -> Walk {
        let mut out = Walk { dims: Vec::new(), strides: vec![Vec::new(); strides.len()] };
        for (axis, &n) in dims.iter().enumerate() {
            if n == 1 {
                continue;
            }
            let joins = !out.dims.is_empty()
                && strides
                    .iter()
                    .zip(&out.strides)
                    .all(|(own, made)| made.last().copied() == own[axis].checked_mul(n as i64));
            if let (true, Some(last)) = (joins, out.dims.last_mut()) {
                *last *= n;
            } else {
                out.dims.push(n);
            }
            for (own, made) in strides.iter().zip(&mut out.strides) {
                match made.last_mut() {
                    Some(last) if joins => *last = own[axis],
                    _ => made.push(own[axis]),
                }
            }
        }
        out
    }

    /// Statements that take `index` apart, and for each operand the expression of its element. `name` keeps
    /// the variables of several walks apart.
    ///
    /// # Errors
    /// `Unsupported` for sizes above 32 bits.
    pub fn text(
        &self,
        name: &str,
        index: &str,
        words: &mut Words,
    ) -> Result<(String, Vec<String>)> {
        let whole = row_major(&self.dims);
        let plain = |strides: &Vec<i64>| *strides == whole;
        let fixed = |strides: &Vec<i64>| strides.iter().all(|&s| s == 0);
        let mut text = String::new();
        if !self.strides.iter().all(|s| plain(s) || fixed(s)) {
            let mut rest = index.to_owned();
            for axis in (0..self.dims.len()).rev() {
                if axis == 0 {
                    text += &format!("let {name}0 = {rest};\n    ");
                } else {
                    let n = words.size(self.dims[axis])?;
                    text += &format!("let {name}{axis} = {rest} % {n};\n    ");
                    text += &format!("let {name}rest{axis} = {rest} / {n};\n    ");
                    rest = format!("{name}rest{axis}");
                }
            }
        }
        let mut at = Vec::with_capacity(self.strides.len());
        for strides in &self.strides {
            if plain(strides) {
                at.push(index.to_owned());
                continue;
            }
            let mut terms = Vec::new();
            for (axis, &stride) in strides.iter().enumerate().filter(|(_, s)| **s != 0) {
                terms.push(match stride {
                    1 => format!("{name}{axis}"),
                    _ => format!("{name}{axis} * {}", words.signed(stride)?),
                });
            }
            at.push(if terms.is_empty() { "0u".into() } else { terms.join(" + ") });
        }
        Ok((text, at))
    }

    /// Step constants that a walk over that many axes takes at most.
    pub fn most_words(rank: usize, operands: usize) -> usize {
        rank.saturating_sub(1) + rank * operands
    }
}

/// Sizes of a static type.
pub(in crate::kernels) fn dims(ty: &Type) -> Result<Vec<u64>> {
    ty.shape.static_dims()
}

/// Elements before an axis, on it and behind it.
pub(in crate::kernels) fn around(dims: &[u64], axis: usize) -> (u64, u64, u64) {
    (dims[..axis].iter().product(), dims[axis], dims[axis + 1..].iter().product())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_join_where_every_operand_passes_on() {
        // [2, 3, 4] of two operands of the shape: one axis.
        let dims = [2, 3, 4];
        let whole = repeated(&dims, &dims);
        let walk = Walk::new(&dims, &[whole.clone(), whole.clone()]);
        assert_eq!(walk, Walk { dims: vec![24], strides: vec![vec![1], vec![1]] });
        // A row repeats over both outer axes, which join.
        let walk = Walk::new(&dims, &[whole.clone(), repeated(&[4], &dims)]);
        assert_eq!(walk, Walk { dims: vec![6, 4], strides: vec![vec![4, 1], vec![0, 1]] });
        // A column of the middle axis keeps all three apart.
        let walk = Walk::new(&dims, &[whole, repeated(&[3, 1], &dims)]);
        assert_eq!(walk.dims, [2, 3, 4]);
        assert_eq!(walk.strides[1], [0, 1, 0]);
        // One element for all, and axes of size 1.
        let walk = Walk::new(&[1, 5, 1], &[repeated(&[1, 1, 1], &[1, 5, 1])]);
        assert_eq!(walk, Walk { dims: vec![5], strides: vec![vec![0]] });
        assert_eq!(Walk::new(&[], &[vec![]]), Walk { dims: vec![], strides: vec![vec![]] });
    }

    #[test]
    fn constants_are_read_where_they_were_put() {
        let mut words = Words::default();
        assert_eq!(words.bits(7), "step.w[0].x");
        assert_eq!(words.signed(-1).unwrap(), "step.w[0].y");
        for _ in 0..2 {
            words.size(3).unwrap();
        }
        assert_eq!(words.size(3).unwrap(), "step.w[1].x");
        assert_eq!(words.0, [7, u32::MAX, 3, 3, 3]);
        assert!(words.size(1 << 32).is_err());
    }
}
