//! How a weight is made from tensors of the file: the closed list of transforms.
//!
//! A node that reads nothing but weights and constants is no step: its result is a weight of its
//! own, laid out once while loading. What only moves bytes about (rows of a tensor, tensors one
//! behind the other, permuted rows) is a list of [`Run`]s, which a loader copies from the file to
//! their place and never sees whole; a tensor that is part of such a weight is read there and has
//! no second copy. Everything else (a cast, a transpose of elements, the sum with a constant,
//! rotary tables) is made on the host, from tensors of at most [`HOST_TENSOR_BYTES`].

use crate::error::{Error, Result};
use crate::ops::{Alias, Binary, Op};
use crate::types::{DType, Type};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// Weights are made on the host from tensors of at most this many bytes.
pub const HOST_TENSOR_BYTES: u64 = 64 << 10;

/// Whether a session keeps a tensor of this type on the host too: a vector of 16-bit floats, such as a bias or the
/// scale of a norm. Kernels read vectors in f32 as a rule, and which of them are widened is known only once the sizes
/// of a program are.
pub fn stays_on_host(ty: &Type) -> bool {
    let narrow = matches!(ty.dtype, DType::F16 | DType::BF16);
    let vector = |dims: &[u64]| dims.iter().filter(|&&n| n > 1).count() <= 1;
    narrow
        && ty.bytes().is_ok_and(|n| n <= HOST_TENSOR_BYTES)
        && ty.shape.static_dims().is_ok_and(|dims| vector(&dims))
}
/// Pieces that a rearrangement may have.
const PIECES: u64 = 1 << 16;

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
    /// An operator of the closed list over others.
    Made {
        /// The operator.
        op: Op,
        /// What it reads; nothing for a constant.
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
pub type Piece = (usize, u64, u64);

/// What an operator does to bytes.
enum Move {
    /// Bytes of operand 0 from an offset on.
    Window(u64),
    /// Every `step`th index of an axis, from `start` on.
    Slice { axis: usize, start: u64, step: i64 },
    /// Operands one behind the other, along an axis.
    Concat(usize),
    /// Axes in another order.
    Transpose(Vec<usize>),
}

impl Recipe {
    /// The operator over others, if the closed list has it: views, `slice`, `concat` and `transpose`
    /// of any type; `cast`, `map` and the sum or product with a constant, of f32, f16 and bf16;
    /// `rope_table`; `constant`.
    pub fn made(op: &Op, of: Vec<Recipe>, ty: Type) -> Option<Recipe> {
        let types: Vec<&Type> = of.iter().map(Recipe::ty).collect();
        let floats = types.iter().all(|t| is_host_float(t.dtype)) && is_host_float(ty.dtype);
        let known = match (op, of.as_slice()) {
            (Op::RopeTable(_) | Op::Constant(_), _) => true,
            (Op::Cast(_), _) if moves(op, &types).is_none() => floats,
            (Op::Map(_), [_]) => floats,
            (Op::Zip(zip), [x, c]) => {
                let known = matches!(zip.f, Binary::Add | Binary::Mul);
                known && floats && c.is_constant() && repeats(c.ty(), x.ty(), &ty)
            }
            _ => moves(op, &types).is_some(),
        };
        known.then(|| Recipe::Made { op: op.clone(), of, ty })
    }

    /// The type of what it makes.
    pub fn ty(&self) -> &Type {
        match self {
            Self::Tensor { ty, .. } | Self::Made { ty, .. } => ty,
        }
    }

    fn is_constant(&self) -> bool {
        matches!(self, Self::Made { op: Op::Constant(_), .. })
    }

    /// A name that says all of it, so that equal names are equal weights: `norm.weight`,
    /// `cast(norm.weight) {to = f32}`. Constants are named by a hash of their bytes.
    pub fn name(&self) -> String {
        let (op, of) = match self {
            Self::Tensor { name, .. } => return name.clone(),
            Self::Made { op: Op::Constant(c), ty, .. } => {
                return format!("constant({:016x}) {ty}", content_hash(&c.data));
            }
            Self::Made { op, of, .. } => (op, of),
        };
        let operands: Vec<String> = of.iter().map(Recipe::name).collect();
        format!("{}({}){}", op.name(), operands.join(", "), op.attrs())
    }

    /// What happens to the file's tensors, in the words of the closed list: `copy`, `rows`,
    /// `transpose`, `cast`, `add constant`, `multiply by constant`, `function`, `table`, `constant`.
    pub fn transforms(&self) -> Vec<&'static str> {
        let Self::Made { op, of, .. } = self else { return vec!["copy"] };
        let mut out: Vec<&str> = of.iter().flat_map(Recipe::transforms).collect();
        out.retain(|t| *t != "copy" && *t != "constant");
        out.push(match op {
            Op::Constant(_) => "constant",
            Op::RopeTable(_) => "table",
            Op::Zip(z) if z.f == Binary::Mul => "multiply by constant",
            Op::Zip(_) => "add constant",
            Op::Map(_) => "function",
            Op::Cast(_) => "cast",
            Op::Transpose(_) if self.runs().is_none_or(|r| r.len() > 1 << 10) => "transpose",
            _ => "rows",
        });
        out
    }

    /// Every tensor of the file that it reads.
    pub fn tensors(&self) -> Vec<(&str, &Type)> {
        match self {
            Self::Tensor { name, ty } => vec![(name, ty)],
            Self::Made { of, .. } => of.iter().flat_map(Recipe::tensors).collect(),
        }
    }

    /// True for a tensor of the file, or for bytes of another weight from an offset on: it needs no
    /// place of its own.
    pub fn is_view(&self) -> bool {
        let Self::Made { op, of, .. } = self else { return true };
        let types: Vec<&Type> = of.iter().map(Recipe::ty).collect();
        matches!(moves(op, &types), Some(Move::Window(_)))
    }

    /// The bytes of its operands that make it, in order, if it only moves bytes about and they are
    /// not too many pieces: operand, first byte, how many.
    pub fn pieces(&self) -> Option<Vec<Piece>> {
        let Self::Made { op, of, ty } = self else { return None };
        let types: Vec<&Type> = of.iter().map(Recipe::ty).collect();
        moves(op, &types)?.pieces(&types, ty)
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
        let of = match self {
            Self::Tensor { name, ty } => {
                push_run(out, name, 0, ty.bytes().ok()?);
                return Some(());
            }
            Self::Made { of, .. } => of,
        };
        let mut operands: Vec<Vec<Run>> = Vec::with_capacity(of.len());
        for recipe in of {
            operands.push(Vec::new());
            recipe.add_runs(operands.last_mut()?)?;
        }
        for (operand, mut from, mut bytes) in self.pieces()? {
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

/// What an operator does to bytes, if it does nothing else.
fn moves(op: &Op, operands: &[&Type]) -> Option<Move> {
    if let Alias::View { operand: 0, byte_offset } = op.alias(operands) {
        return Some(Move::Window(byte_offset));
    }
    match op {
        Op::Slice(s) => {
            Some(Move::Slice { axis: s.axis, start: s.start.as_static()?, step: s.step })
        }
        Op::Concat(c) => Some(Move::Concat(c.axis)),
        Op::Transpose(t) => Some(Move::Transpose(t.perm.clone())),
        _ => None,
    }
}

/// True for a constant whose elements repeat over the last axis of `x`, or are one.
fn repeats(c: &Type, x: &Type, y: &Type) -> bool {
    let (Ok(n), Ok(width)) = (c.shape.elements(), x.shape.static_dims()) else { return false };
    let last = width.last().copied().unwrap_or(1);
    let row = n == last && c.shape.last().as_static() == Some(last);
    x.shape == y.shape && (c.shape == x.shape || n == 1 || row)
}

/// True for a type whose elements the host converts.
pub fn is_host_float(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F16 | DType::BF16)
}

impl Move {
    fn pieces(&self, operands: &[&Type], result: &Type) -> Option<Vec<Piece>> {
        let x = *operands.first()?;
        let dims = result.shape.static_dims().ok()?;
        match self {
            Self::Window(offset) => Some(vec![(0, *offset, result.bytes().ok()?)]),
            Self::Slice { axis, start, step } => {
                let strides = strides(x)?;
                let unit = *strides.get(*axis)?;
                let index = |at: &[u64]| {
                    let outer =
                        at.iter().zip(&strides).take(*axis).map(|(i, s)| i * s).sum::<u64>();
                    let own = i128::from(*start) + i128::from(at[*axis]) * i128::from(*step);
                    // The type rule keeps indices within the axis.
                    outer + own as u64 * unit
                };
                units(dims.get(..=*axis)?, |at| (0, index(at), unit), x.dtype)
            }
            Self::Concat(axis) => {
                let outer: u64 = dims.get(..*axis)?.iter().product();
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
            Self::Transpose(perm) => {
                let strides = strides(x)?;
                // Axes that stay last stay together.
                let moved = (0..perm.len()).rev().find(|&a| perm[a] != a).map_or(0, |a| a + 1);
                let unit = dims.get(moved..)?.iter().product::<u64>();
                let index = |at: &[u64]| at.iter().zip(perm).map(|(i, &p)| i * strides[p]).sum();
                units(&dims[..moved], |at| (0, index(at), unit), x.dtype)
            }
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
    use crate::ops::{Cast, Concat, Constant, Map, Slice, Transpose, Unary, Zip};
    use crate::types::{BlockFormat, Dim, Shape};

    fn tensor(name: &str, dtype: DType, dims: &[u64]) -> Recipe {
        Recipe::Tensor { name: name.into(), ty: Type::tensor(dtype, Shape::of(dims)) }
    }

    fn made(op: impl Into<Op>, of: &[&Recipe]) -> Recipe {
        let op = op.into();
        let types: Vec<&Type> = of.iter().map(|r| r.ty()).collect();
        let ty = op.infer(&types).unwrap().remove(0);
        Recipe::made(&op, of.iter().map(|r| (*r).clone()).collect(), ty).expect("of the list")
    }

    fn slice(axis: usize, start: u64, len: u64, step: i64) -> Slice {
        Slice { axis, start: Dim::from(start), len: Dim::from(len), step }
    }

    fn runs(recipe: &Recipe) -> Vec<(String, u64, u64)> {
        let runs = recipe.runs().expect("only bytes move");
        runs.into_iter().map(|r| (r.tensor, r.from, r.bytes)).collect()
    }

    #[test]
    fn rows_of_packed_tensors_are_runs_of_the_file() {
        let w = tensor("w", DType::Block(BlockFormat::Q8_0), &[8, 64]);
        let middle = made(slice(0, 2, 3, 1), &[&w]);
        assert_eq!(runs(&middle), [("w".into(), 2 * 68, 3 * 68)]);
        assert!(middle.is_view());
        let every_other = made(slice(0, 7, 4, -2), &[&w]);
        assert_eq!(runs(&every_other), [7, 5, 3, 1].map(|r| ("w".into(), r * 68, 68)));
        assert_eq!(every_other.transforms(), ["rows"]);
    }

    #[test]
    fn tensors_one_behind_the_other_are_runs_and_so_are_rows_of_them() {
        let (a, b) = (tensor("a", DType::F32, &[4, 8]), tensor("b", DType::F32, &[2, 8]));
        let both = made(Concat { axis: 0 }, &[&a, &b]);
        assert_eq!(runs(&both), [("a".into(), 0, 128), ("b".into(), 0, 64)]);
        let cut = made(slice(0, 3, 2, 1), &[&both]);
        assert_eq!(runs(&cut), [("a".into(), 96, 32), ("b".into(), 0, 32)]);
        assert!(cut.is_view() && !both.is_view());
        assert_eq!(both.name(), "concat(a, b) {axis = 0}");
    }

    #[test]
    fn a_transpose_of_outer_axes_permutes_rows() {
        let w = tensor("w", DType::F32, &[2, 3, 8]);
        let t = made(Transpose { perm: vec![1, 0, 2] }, &[&w]);
        let expected = [0, 3, 1, 4, 2, 5].map(|row| ("w".into(), row * 32, 32));
        assert_eq!(runs(&t), expected);
        let inner = made(Transpose { perm: vec![0, 2, 1] }, &[&w]);
        assert_eq!(runs(&inner).len(), 47, "single elements, two of which meet");
    }

    #[test]
    fn columns_are_cut_row_by_row() {
        let w = tensor("w", DType::F16, &[3, 8]);
        let right = made(slice(1, 4, 4, 1), &[&w]);
        assert_eq!(runs(&right), [8, 24, 40].map(|at| ("w".into(), at, 8)));
        let both = made(Concat { axis: 1 }, &[&right, &right]);
        assert_eq!(runs(&both).len(), 6);
        // A device is sent words.
        assert_eq!(made(slice(1, 0, 3, 1), &[&w]).runs(), None);
    }

    #[test]
    fn what_computes_is_no_run() {
        let w = tensor("w", DType::F16, &[8]);
        let cast = made(Cast { to: DType::F32 }, &[&w]);
        assert_eq!((cast.runs(), cast.name().as_str()), (None, "cast(w) {to = f32}"));
        let one = made(Constant::f32s(&[8], &[1.0; 8]).unwrap(), &[]);
        let more = made(Zip { f: Binary::Add }, &[&cast, &one]);
        assert_eq!(more.transforms(), ["cast", "add constant"]);
        assert!(more.name().starts_with("zip(cast(w) {to = f32}, constant("), "{}", more.name());
        let twice = made(Zip { f: Binary::Mul }, &[&cast, &one]);
        let exp = made(Map { f: Unary::Exp }, &[&twice]);
        assert_eq!(exp.transforms(), ["cast", "multiply by constant", "function"]);
    }

    #[test]
    fn what_the_list_has_not_is_none() {
        let (w, c) = (tensor("w", DType::F32, &[8]), tensor("c", DType::F32, &[8]));
        let ty = w.ty().clone();
        let add = Op::from(Zip { f: Binary::Add });
        assert_eq!(Recipe::made(&add, vec![w.clone(), c], ty.clone()), None, "no constant");
        let one = made(Constant::f32s(&[8], &[1.0; 8]).unwrap(), &[]);
        let divide = Op::from(Zip { f: Binary::Div });
        assert_eq!(Recipe::made(&divide, vec![w, one], ty), None);
    }
}
