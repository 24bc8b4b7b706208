//! Pooling [ONNX MaxPool, AveragePool].

use super::im2col::{columns, few, padded};
use super::window::Window;
use crate::error::{Error, Result};
use crate::ops::def::writing::tables::LARGEST;
use crate::ops::{
    Binary, Class, Emit, Grid, Operator, Reduction, arity, attributes, float_tensor, named,
};
use crate::types::{Dim, Shape, Type, ValueId};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// What a window of elements becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PoolKind {
    /// The largest; a window with nothing but padding gives minus infinity.
    Max,
    /// The mean; a window with nothing but padding gives 0.
    Average,
}

impl PoolKind {
    const ALL: [(PoolKind, &'static str); 2] =
        [(PoolKind::Max, "max"), (PoolKind::Average, "average")];

    /// The name in text IR.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// The kind of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|row| row.1 == name).map(|row| row.0)
    }
}

named!(PoolKind, "kind");

/// `pool x [N, C, ..] -> [N, C, ..]` over one to three spatial axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// Maximum or mean.
    pub kind: PoolKind,
    /// Size of the window along each spatial axis.
    pub kernel: Vec<u64>,
    /// Stride, padding and dilation.
    pub window: Window,
    /// Whether a mean divides by the whole window, padding included, or by its real elements.
    pub count_padding: bool,
}

attributes! { Pool { kind, kernel, window, count_padding } }

impl Operator for Pool {
    const NAME: &'static str = "pool";
    const CLASS: Class = Class::Movement;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("pool", operands, 1)?;
        let x = operands[0];
        float_tensor("pool", "x", x)?;
        let [batch, channels, spatial @ ..] = x.shape.0.as_slice() else {
            return Err(Error::bad_graph(format!("pool: x is {x}, expected [N, C, ..]")));
        };
        let mut dims = vec![batch.clone(), channels.clone()];
        dims.extend(self.window.outputs("pool", spatial, &self.kernel)?);
        Ok(vec![Type::tensor(x.dtype, Shape(dims))])
    }

    /// Columns and their largest or mean. `None` for a mean without padding of a symbolic image.
    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let &[x] = operands else { return Ok(None) };
        let result = self.infer(&[e.ty(x)])?;
        let w = &self.window;
        let (dtype, input, output) = (e.ty(x).dtype, e.dims(x), result[0].shape.0.clone());
        let pads = w.pad_low.iter().chain(&w.pad_high).any(|&n| n > 0);
        let counts = match self.kind {
            PoolKind::Average if pads && !self.count_padding => {
                match self.counts(&input, &output) {
                    Some(counts) => Some(counts),
                    None => return Ok(None),
                }
            }
            _ => None,
        };
        if !few(&self.kernel) {
            return Ok(None);
        }
        let fill = if self.kind == PoolKind::Max { f32::NEG_INFINITY } else { 0.0 };
        let x = e.wide(x)?;
        let x = padded(e, x, w, fill)?;
        let columns = columns(e, x, &self.kernel, w, &output[2..])?;
        let f = match (self.kind, &counts) {
            (PoolKind::Max, _) => Reduction::Max,
            (PoolKind::Average, Some(_)) => Reduction::Sum,
            (PoolKind::Average, None) => Reduction::Mean,
        };
        let y = e.reduce(f, columns, &[2])?;
        let mut y = e.reshape(y, &output)?;
        if let Some((sizes, counts)) = counts {
            let wide = e.ty(y).dtype;
            let counts = e.constant(wide, &sizes, &counts)?;
            y = e.zip(Binary::Div, y, counts)?;
        }
        Ok(Some(vec![e.cast(y, dtype)?]))
    }
}

impl Pool {
    /// How many elements of each window are none of the padding, with the sizes of the image of
    /// windows; `None` for symbolic images.
    fn counts(&self, input: &[Dim], output: &[Dim]) -> Option<(Vec<u64>, Vec<f64>)> {
        let fixed =
            |dims: &[Dim]| dims[2..].iter().map(Dim::as_static).collect::<Option<Vec<u64>>>();
        let (input, output) = (fixed(input)?, fixed(output)?);
        output.iter().try_fold(1u64, |n, &d| n.checked_mul(d)).filter(|&n| n <= LARGEST)?;
        let grid = Grid::new(&self.window, &input, &self.kernel, &output);
        let mut sources = Vec::new();
        let count = |p: usize| {
            grid.sources(p, &mut sources);
            sources.iter().flatten().count().max(1) as f64
        };
        let counts = (0..grid.positions()).map(count).collect();
        Some((output, counts))
    }
}
