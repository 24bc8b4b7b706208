//! Matrices of experts that transformers' folders have in MXFP4 (gpt-oss): `NAME_blocks [E, out, in / 32, 16]` are
//! their values and `NAME_scales [E, out, in / 32]` their scales, both bytes. The host packs both to blocks of
//! [`BlockFormat::Mxfp4`] while it loads. Where rows of a gate and of an up alternate, each of the two becomes a
//! tensor of its own: `NAME.0_of_2` has every second row from row 0 on.

use super::checkpoint::Checkpoint;
use super::tensors::Tensors;
use crate::error::{Error, Result};
use crate::ir::hir::Weight;
use crate::plan::{Packing, Piece};
use crate::types::{BlockFormat, DType, Scalar, Shape, Type};
use alloc::format;
use alloc::string::{String, ToString};

/// Values of a block.
const WIDTH: u64 = 32;

/// The names of a matrix's values and of its scales.
fn parts(name: &str) -> [String; 2] {
    ["blocks", "scales"].map(|part| format!("{name}_{part}"))
}

/// The name of the weight that has of the matrices `name` every `step`-th row from `first` on.
pub(super) fn weight(name: &str, [first, step]: [u64; 2]) -> String {
    if step == 1 { name.to_string() } else { format!("{name}.{first}_of_{step}") }
}

/// Whether a folder has the matrices `name` in MXFP4.
#[cfg(feature = "encode")]
pub(super) fn is_microscaled(checkpoint: &Checkpoint<'_>, name: &str) -> bool {
    parts(name).iter().any(|part| checkpoint.tensor(part).is_some())
}

/// What the name of a weight says: the matrix, its first row and how many from one to the next.
fn read(weight: &str) -> (&str, u64, u64) {
    let rows = weight.rsplit_once('.').and_then(|(name, rows)| {
        let (first, step) = rows.split_once("_of_")?;
        Some((name, first.parse().ok()?, step.parse().ok()?))
    });
    rows.unwrap_or((weight, 0, 1))
}

/// What a weight of such a folder is packed of. `find` locates a tensor of the files.
pub(super) fn packing(
    checkpoint: &Checkpoint<'_>,
    weight: &str,
    find: impl Fn(&str) -> Option<Piece>,
) -> Option<Packing> {
    let (name, first, step) = read(weight);
    let [values, scales] = parts(name);
    let row = *checkpoint.tensor(&scales)?.1.last()?;
    let part = |name: String| find(&name).map(|piece| (name, piece));
    Some(Packing { values: part(values)?, scales: part(scales)?, row, first, step })
}

impl Tensors<'_> {
    /// Whether the file has the matrix `name` as blocks and scales.
    pub fn is_microscaled(&self, name: &str) -> bool {
        parts(name).iter().any(|part| self.has(part))
    }

    /// Of the matrices `name`, `[E, out, in]`, every `step`-th row from `first` on.
    ///
    /// # Errors
    /// `BadFile` for parts that are missing, no bytes or of another shape, and for rows that are no whole blocks.
    pub fn microscaled(
        &self,
        name: &str,
        [experts, out, input]: [u64; 3],
        [first, step]: [u64; 2],
    ) -> Result<Weight> {
        if !input.is_multiple_of(WIDTH) {
            let what = format!("rows of {input} numbers of {name} are no whole blocks of {WIDTH}");
            return Err(Error::bad_file(what));
        }
        let [values, scales] = parts(name);
        let blocks = input / WIDTH;
        let parts = [
            self.weight(&values, &[experts, out, blocks, WIDTH / 2])?,
            self.weight(&scales, &[experts, out, blocks])?,
        ];
        for part in parts {
            let dtype = part.ty.dtype;
            if dtype != DType::Scalar(Scalar::U8) {
                let what = format!("tensor {} is of type {dtype}, expected u8", part.name);
                return Err(Error::bad_file(what));
            }
        }
        let name = weight(name, [first, step]);
        let dims = Shape::of(&[experts, out / step, input]);
        Ok(Weight { name, ty: Type::tensor(DType::Block(BlockFormat::Mxfp4), dims) })
    }
}
