//! How a weight is made from tensors of the file: the closed list of transforms.
//!
//! A node that reads nothing but weights and constants is no step: its result is a weight of its
//! own, laid out once while loading. What only moves bytes about (rows of a tensor, tensors one
//! behind the other, permuted rows) is a list of [`Run`]s, which a loader copies from the file to
//! their place and never sees whole. Everything else is made on the host, from small tensors.

use crate::error::{Error, Result};
use crate::ops::{Operator, RopeTable};
use crate::types::{DType, Type};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

/// Weights are made on the host from tensors of at most this many bytes.
pub const HOST_TENSOR_BYTES: u64 = 64 << 10;
/// Pieces that a rearrangement may have.
const PIECES: u64 = 1 << 16;

/// What happens to the operands of a recipe.
#[derive(Clone, Debug, PartialEq)]
pub enum Transform {
    /// Bytes of the operand from an offset on: rows, or another shape.
    Window {
        /// Bytes into the operand.
        offset: u64,
    },
    /// A range of every axis.
    Slice {
        /// The first index of each axis.
        starts: Vec<u64>,
    },
    /// Operands one behind the other.
    Concat {
        /// Along this axis.
        axis: usize,
    },
    /// Axes in another order.
    Transpose {
        /// The operand's axis for each of the result's.
        perm: Vec<usize>,
    },
    /// Other element type.
    Cast,
    /// Plus a number.
    AddConstant(f64),
    /// cos and sin of every position, from frequency factors if there are any.
    RopeTable(Box<RopeTable>),
}

/// How a weight is made.
#[derive(Clone, Debug, PartialEq)]
pub enum Recipe {
    /// A tensor of the file, as that has it.
    Tensor {
        /// Name in the file.
        name: String,
        /// Its type.
        ty: Type,
    },
    /// Bytes that the program brings.
    Constant {
        /// Little-endian, row-major.
        bytes: Arc<[u8]>,
        /// Their type.
        ty: Type,
    },
    /// A transform of others.
    Made {
        /// What happens.
        transform: Transform,
        /// To what.
        of: Vec<Recipe>,
        /// What comes out.
        ty: Type,
    },
}

/// Bytes of a tensor of the file that stay together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Name of the tensor.
    pub tensor: String,
    /// Bytes into it.
    pub from: u64,
    /// How many.
    pub bytes: u64,
}

/// Bytes of an operand that stay together: operand, first byte, how many.
type Piece = (usize, u64, u64);

impl Recipe {
    /// The type of what it makes.
    pub fn ty(&self) -> &Type {
        match self {
            Self::Tensor { ty, .. } | Self::Constant { ty, .. } | Self::Made { ty, .. } => ty,
        }
    }

    /// A name that says all of it, so that equal names are equal weights: `norm.weight`,
    /// `cast(norm.weight) tensor<64xf32>`. Constants are named by a hash of their bytes.
    pub fn name(&self) -> String {
        let (transform, of, ty) = match self {
            Self::Tensor { name, .. } => return name.clone(),
            Self::Constant { bytes, ty } => {
                return format!("constant({:016x}) {ty}", content_hash(bytes));
            }
            Self::Made { transform, of, ty } => (transform, of, ty),
        };
        let operands: Vec<String> = of.iter().map(Recipe::name).collect();
        let operands = operands.join(", ");
        match transform {
            Transform::Window { offset } => format!("window({operands}, {offset}) {ty}"),
            Transform::Slice { starts } => format!("slice({operands}, {starts:?}) {ty}"),
            Transform::Concat { axis } => format!("concat({operands}, {axis})"),
            Transform::Transpose { perm } => format!("transpose({operands}, {perm:?})"),
            Transform::Cast => format!("cast({operands}) {ty}"),
            Transform::AddConstant(c) => format!("add({operands}, {c})"),
            Transform::RopeTable(table) => format!("rope_table({operands}){}", table.attrs()),
        }
    }

    /// What happens to the file's tensors, in the words of the closed list: `copy`, `rows`,
    /// `transpose`, `cast`, `add constant`, `table`, `constant`.
    pub fn transforms(&self) -> Vec<&'static str> {
        let Self::Made { transform, of, .. } = self else {
            return match self {
                Self::Constant { .. } => vec!["constant"],
                _ => vec!["copy"],
            };
        };
        let mut out: Vec<&str> =
            of.iter().flat_map(Recipe::transforms).filter(|t| *t != "copy").collect();
        out.dedup();
        out.push(match transform {
            Transform::Window { .. } | Transform::Slice { .. } | Transform::Concat { .. } => "rows",
            Transform::Transpose { .. } if self.runs().is_some() => "rows",
            Transform::Transpose { .. } => "transpose",
            Transform::Cast => "cast",
            Transform::AddConstant(_) => "add constant",
            Transform::RopeTable(_) => "table",
        });
        out
    }

    /// Every tensor of the file that it reads.
    pub fn tensors(&self) -> Vec<(&str, &Type)> {
        match self {
            Self::Tensor { name, ty } => vec![(name, ty)],
            Self::Constant { .. } => Vec::new(),
            Self::Made { of, .. } => of.iter().flat_map(Recipe::tensors).collect(),
        }
    }

    /// True for something the file or the program has, of another shape perhaps, but as it is: a
    /// view of it needs no place of its own.
    pub fn is_view(&self) -> bool {
        match self {
            Self::Tensor { .. } => true,
            Self::Constant { .. } => false,
            Self::Made { transform: Transform::Window { .. }, of, .. } => {
                of.iter().all(Recipe::is_view)
            }
            Self::Made { .. } => false,
        }
    }

    /// The runs of file bytes that it is, in order, if it only moves them about. All but the last
    /// are whole words, which is what devices can be sent.
    pub fn runs(&self) -> Option<Vec<Run>> {
        let mut runs: Vec<Run> = Vec::new();
        self.add_runs(&mut runs)?;
        let (_, all_but_last) = runs.split_last()?;
        all_but_last.iter().all(|r| r.bytes.is_multiple_of(4)).then_some(runs)
    }

    fn add_runs(&self, out: &mut Vec<Run>) -> Option<()> {
        let (transform, of, ty) = match self {
            Self::Tensor { name, ty } => {
                push_run(out, name, 0, ty.bytes().ok()?);
                return Some(());
            }
            Self::Constant { .. } => return None,
            Self::Made { transform, of, ty } => (transform, of, ty),
        };
        let types: Vec<&Type> = of.iter().map(Recipe::ty).collect();
        let mut operands: Vec<Vec<Run>> = Vec::with_capacity(of.len());
        for recipe in of {
            operands.push(Vec::new());
            recipe.add_runs(operands.last_mut()?)?;
        }
        for (operand, mut from, mut bytes) in transform.pieces(&types, ty)? {
            for run in operands.get(operand)? {
                if bytes == 0 {
                    break;
                }
                if from >= run.bytes {
                    from -= run.bytes;
                    continue;
                }
                let n = bytes.min(run.bytes - from);
                push_run(out, &run.tensor, run.from + from, n);
                bytes -= n;
                from = 0;
            }
            if out.len() as u64 > PIECES {
                return None;
            }
        }
        Some(())
    }
}

fn push_run(out: &mut Vec<Run>, tensor: &str, from: u64, bytes: u64) {
    match out.last_mut() {
        Some(last) if last.tensor == tensor && last.from + last.bytes == from => {
            last.bytes += bytes
        }
        _ => out.push(Run { tensor: tensor.into(), from, bytes }),
    }
}

/// FNV-1a of 64 bits, the same everywhere.
fn content_hash(bytes: &[u8]) -> u64 {
    let step = |h: u64, b: &u8| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

impl Transform {
    /// The bytes of operands that make the result, in its order, if it only moves bytes about and
    /// they are not too many.
    pub fn pieces(&self, operands: &[&Type], result: &Type) -> Option<Vec<Piece>> {
        let x = *operands.first()?;
        match self {
            Self::Window { offset } => Some(vec![(0, *offset, result.bytes().ok()?)]),
            Self::Slice { starts } => {
                let dims = result.shape.static_dims().ok()?;
                let strides = strides(x)?;
                // Axes that are whole behind the last one that is not stay together.
                let whole = x.shape.static_dims().ok()?;
                let cut = (0..dims.len()).rev().find(|&a| dims[a] != whole[a]).unwrap_or(0);
                let unit = dims[cut..].iter().product::<u64>();
                let index = |at: &[u64]| {
                    let inner: u64 =
                        starts[cut..].iter().zip(&strides[cut..]).map(|(s, t)| s * t).sum();
                    let outer = at.iter().zip(starts).zip(&strides).map(|((i, s), t)| (i + s) * t);
                    outer.sum::<u64>() + inner
                };
                units(&dims[..cut], |at| (0, index(at), unit), x.dtype)
            }
            Self::Concat { axis } => {
                let outer: u64 = x.shape.static_dims().ok()?.get(..*axis)?.iter().product();
                let mut inner = Vec::with_capacity(operands.len());
                for ty in operands {
                    inner.push(ty.shape.static_dims().ok()?.get(*axis..)?.iter().product::<u64>());
                }
                if outer.checked_mul(inner.len() as u64)? > PIECES {
                    return None;
                }
                let mut out = Vec::new();
                for i in 0..outer {
                    for (k, &n) in inner.iter().enumerate() {
                        out.push(piece((k, i * n, n), x.dtype)?);
                    }
                }
                Some(out)
            }
            Self::Transpose { perm } => {
                let dims = result.shape.static_dims().ok()?;
                let strides = strides(x)?;
                let moved = (0..perm.len()).rev().find(|&a| perm[a] != a).map_or(0, |a| a + 1);
                let unit = dims[moved..].iter().product::<u64>();
                let index = |at: &[u64]| at.iter().zip(perm).map(|(i, &p)| i * strides[p]).sum();
                units(&dims[..moved], |at| (0, index(at), unit), x.dtype)
            }
            Self::Cast | Self::AddConstant(_) | Self::RopeTable(_) => None,
        }
    }
}

/// Elements from one index of each axis to the next.
fn strides(ty: &Type) -> Option<Vec<u64>> {
    let dims = ty.shape.static_dims().ok()?;
    let mut out = vec![1; dims.len()];
    for a in (1..dims.len()).rev() {
        out[a - 1] = out[a] * dims[a];
    }
    Some(out)
}

/// A piece for each index of `dims`, row-major.
fn units(dims: &[u64], at: impl Fn(&[u64]) -> Piece, dtype: DType) -> Option<Vec<Piece>> {
    let count = dims.iter().try_fold(1u64, |n, &d| n.checked_mul(d))?;
    if count > PIECES {
        return None;
    }
    let mut index = vec![0; dims.len()];
    let mut out = Vec::with_capacity(count as usize);
    for _ in 0..count {
        out.push(piece(at(&index), dtype)?);
        for a in (0..dims.len()).rev() {
            index[a] += 1;
            if index[a] < dims[a] {
                break;
            }
            index[a] = 0;
        }
    }
    Some(out)
}

/// A piece of elements as one of bytes, if those are whole blocks.
fn piece((operand, from, elements): Piece, dtype: DType) -> Option<Piece> {
    Some((operand, dtype.row_bytes(from)?, dtype.row_bytes(elements)?))
}

/// Rearranges bytes.
///
/// # Errors
/// `Internal` for pieces outside their operand.
pub fn gather_pieces(pieces: &[Piece], operands: &[Vec<u8>]) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    for &(operand, from, bytes) in pieces {
        let from = from as usize;
        let piece = operands.get(operand).and_then(|b| b.get(from..)?.get(..bytes as usize));
        out.extend(piece.ok_or_else(|| Error::internal("a piece lies outside its operand"))?);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{BlockFormat, Shape};

    fn tensor(name: &str, dtype: DType, dims: &[u64]) -> Recipe {
        Recipe::Tensor { name: name.into(), ty: Type::tensor(dtype, Shape::of(dims)) }
    }

    fn made(transform: Transform, of: &[&Recipe], dims: &[u64]) -> Recipe {
        let ty = Type::tensor(of[0].ty().dtype, Shape::of(dims));
        Recipe::Made { transform, of: of.iter().map(|r| (*r).clone()).collect(), ty }
    }

    fn runs(recipe: &Recipe) -> Vec<(String, u64, u64)> {
        let runs = recipe.runs().expect("only bytes move");
        runs.into_iter().map(|r| (r.tensor, r.from, r.bytes)).collect()
    }

    #[test]
    fn rows_of_packed_tensors_are_runs_of_the_file() {
        let q = DType::Block(BlockFormat::Q8_0);
        let (a, b) = (tensor("a", q, &[4, 64]), tensor("b", q, &[2, 64]));
        let both = made(Transform::Concat { axis: 0 }, &[&a, &b], &[6, 64]);
        assert_eq!(runs(&both), [("a".into(), 0, 4 * 68), ("b".into(), 0, 2 * 68)]);
        let middle = made(Transform::Slice { starts: vec![3, 0] }, &[&both], &[2, 64]);
        assert_eq!(runs(&middle), [("a".into(), 3 * 68, 68), ("b".into(), 0, 68)]);
        assert_eq!(middle.transforms(), ["rows", "rows"]);
        // Half a block is no run.
        let half = made(Transform::Slice { starts: vec![0, 0] }, &[&a], &[4, 16]);
        assert_eq!(half.runs(), None);
    }

    #[test]
    fn a_transpose_of_outer_axes_permutes_rows() {
        let w = tensor("w", DType::F32, &[2, 3, 8]);
        let t = made(Transform::Transpose { perm: vec![1, 0, 2] }, &[&w], &[3, 2, 8]);
        let expected = [0, 3, 1, 4, 2, 5].map(|row| ("w".into(), row * 32, 32));
        assert_eq!(runs(&t), expected);
        assert_eq!(t.transforms(), ["rows"]);
        let inner = made(Transform::Transpose { perm: vec![0, 2, 1] }, &[&w], &[2, 8, 3]);
        assert_eq!(runs(&inner).len(), 47, "single elements, two of which meet");
        assert_eq!(inner.name(), "transpose(w, [0, 2, 1])");
    }

    #[test]
    fn columns_are_cut_row_by_row() {
        let w = tensor("w", DType::F16, &[3, 8]);
        let right = made(Transform::Slice { starts: vec![1, 4] }, &[&w], &[2, 4]);
        assert_eq!(runs(&right), [("w".into(), 24, 8), ("w".into(), 40, 8)]);
        let both = made(Transform::Concat { axis: 1 }, &[&right, &right], &[2, 8]);
        assert_eq!(runs(&both).len(), 4);
    }

    #[test]
    fn what_computes_is_no_run() {
        let w = tensor("w", DType::F16, &[8]);
        let ty = Type::tensor(DType::F32, Shape::of(&[8]));
        let cast = Recipe::Made { transform: Transform::Cast, of: vec![w], ty };
        assert_eq!((cast.runs(), cast.name().as_str()), (None, "cast(w) tensor<8xf32>"));
        let more = made(Transform::AddConstant(1.0), &[&cast], &[8]);
        assert_eq!(more.transforms(), ["cast", "add constant"]);
    }
}
