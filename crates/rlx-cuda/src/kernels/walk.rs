//! Axes that several tensors are walked along together: which element of each belongs to element `i` of the result.

use super::numbers::Numbers;
use rlx_core::ir::lir::Slice;
use rlx_core::{Error, Result};

/// Elements from one index to the next on each axis of a shape.
pub(super) fn row_major(dims: &[u64]) -> Vec<i64> {
    let mut strides = vec![0; dims.len()];
    let mut step = 1i64;
    for (stride, &n) in strides.iter_mut().zip(dims).rev() {
        *stride = step;
        // Axes of size 0 apart, a stride is at most the number of elements.
        step = step.saturating_mul(i64::try_from(n).unwrap_or(i64::MAX));
    }
    strides
}

/// Strides over `dims` of a tensor of a shape that repeats to them [NumPy broadcasting]: 0 where it does.
pub(super) fn repeated(own: &[u64], dims: &[u64]) -> Vec<i64> {
    let mut strides = vec![0; dims.len().saturating_sub(own.len())];
    let steps = row_major(own);
    strides.extend(own.iter().zip(steps).map(|(&n, step)| if n == 1 { 0 } else { step }));
    strides
}

/// Sizes of a slice.
///
/// # Errors
/// `Internal` for a size that is no number.
pub(super) fn dims(slice: &Slice) -> Result<Vec<u64>> {
    slice.ty.shape.static_dims()
}

/// Elements before an axis, on it and behind it.
///
/// # Errors
/// `Internal` for an axis that is not there.
pub(super) fn around(dims: &[u64], axis: usize) -> Result<(u64, u64, u64)> {
    let (Some(before), Some(own), Some(behind)) =
        (dims.get(..axis), dims.get(axis), dims.get(axis + 1..))
    else {
        return Err(Error::internal(format!("{dims:?} has no axis {axis}")));
    };
    // With a size of 0 elsewhere a product may be too large; then there is nothing to walk.
    let product = |dims: &[u64]| dims.iter().fold(1u64, |n, d| n.saturating_mul(*d));
    Ok((product(before), *own, product(behind)))
}

/// Axes and, for each tensor, its strides along them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Walk {
    /// Sizes, outermost first.
    pub dims: Vec<u64>,
    /// For each tensor, its strides.
    pub strides: Vec<Vec<i64>>,
}

impl Walk {
    /// The walk over as few axes as describe it: axes of size 1 go, and an axis joins the one before it where every
    /// tensor passes from one to the other without a jump.
    pub fn new(dims: &[u64], strides: &[Vec<i64>]) -> Walk {
        let mut out = Walk { dims: Vec::new(), strides: vec![Vec::new(); strides.len()] };
        for (axis, &n) in dims.iter().enumerate() {
            if n == 1 {
                continue;
            }
            let joins = |(own, made): (&Vec<i64>, &Vec<i64>)| {
                let whole = i64::try_from(n).ok().and_then(|n| own[axis].checked_mul(n));
                whole.is_some() && made.last().copied() == whole
            };
            let joins = !out.dims.is_empty() && strides.iter().zip(&out.strides).all(joins);
            match out.dims.last_mut() {
                Some(last) if joins => *last = last.saturating_mul(n),
                _ => out.dims.push(n),
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

    /// Statements that take `index` apart, and for each tensor the expression of its element. Names of variables begin
    /// with `name`.
    ///
    /// # Errors
    /// `Unsupported` for sizes above 32 bits.
    pub fn text(
        &self,
        name: &str,
        index: &str,
        numbers: &mut Numbers,
    ) -> Result<(String, Vec<String>)> {
        let whole = row_major(&self.dims);
        let plain = |strides: &Vec<i64>| *strides == whole;
        let fixed = |strides: &Vec<i64>| strides.iter().all(|&s| s == 0);
        let apart = !self.strides.iter().all(|s| plain(s) || fixed(s));
        let used = |axis: usize| self.strides.iter().any(|s| s[axis] != 0 && !plain(s));
        let text = match apart {
            true => indices_of(&self.dims, &used, (name, index), numbers)?,
            false => String::new(),
        };
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
                    _ => format!("{name}{axis} * {}", numbers.signed(stride)?),
                });
            }
            at.push(if terms.is_empty() { "0u".into() } else { terms.join(" + ") });
        }
        Ok((text, at))
    }

    /// The same walk by `width` elements of the result at once. Tensors of `lanes` have as many side by side, at which
    /// their strides count from now on; the others have one element for all.
    pub fn by(&self, width: u64, lanes: &[bool]) -> Walk {
        let mut dims = self.dims.clone();
        if let Some(last) = dims.last_mut() {
            *last /= width;
        }
        let each = |(strides, lanes): (&Vec<i64>, &bool)| {
            let mut strides = strides.clone();
            if let (true, Some((_, outer))) = (lanes, strides.split_last_mut()) {
                outer.iter_mut().for_each(|stride| *stride /= width as i64);
            }
            strides
        };
        Walk::new(&dims, &self.strides.iter().zip(lanes).map(each).collect::<Vec<_>>())
    }
}

/// Statements that make the indices `{name}0`, `{name}1`, … of element `index` of a shape.
///
/// # Errors
/// `Unsupported` for sizes above 32 bits.
pub(super) fn indices(
    dims: &[u64],
    name: &str,
    index: &str,
    numbers: &mut Numbers,
) -> Result<String> {
    indices_of(dims, &|_| true, (name, index), numbers)
}

/// The same of the axes that are used.
fn indices_of(
    dims: &[u64],
    used: &dyn Fn(usize) -> bool,
    (name, index): (&str, &str),
    numbers: &mut Numbers,
) -> Result<String> {
    let (mut text, mut rest) = (String::new(), index.to_owned());
    let outermost = (0..dims.len()).find(|&axis| used(axis)).unwrap_or(dims.len());
    for axis in (outermost..dims.len()).rev() {
        if axis == 0 {
            text += &format!("u32 {name}0 = {rest}; ");
            break;
        }
        let (n, next) = (numbers.divisor(dims[axis])?, format!("{name}rest{axis}"));
        text += &format!("u32 {next} = {}; ", n.quotient(&rest));
        if used(axis) {
            text += &format!("u32 {name}{axis} = {rest} - {next} * {}; ", n.name());
        }
        rest = next;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_join_where_every_tensor_passes_on() {
        // [2, 3, 4] of two tensors of the shape: one axis.
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
    fn several_elements_at_once_are_walked_in_their_strides() {
        let strides = [vec![8, 1], vec![0, 1], vec![1, 0]];
        let walk = Walk { dims: vec![3, 8], strides: strides.to_vec() };
        let two = [vec![2, 1], vec![0, 1], vec![1, 0]];
        let want = Walk { dims: vec![3, 2], strides: two.to_vec() };
        assert_eq!(walk.by(4, &[true, true, false]), want);
        // A row is 8 at once: nothing is left of its axis.
        let rows = Walk { dims: vec![3], strides: vec![vec![1], vec![0], vec![1]] };
        assert_eq!(walk.by(8, &[true, true, false]), rows);
    }
}
