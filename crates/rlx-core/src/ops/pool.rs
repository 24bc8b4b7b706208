//! Pooling [ONNX MaxPool, AveragePool].

use super::build::Build;
use super::window::Window;
use super::{Attrs, Binary, Class, Emit, Grid, Im2Col, Operator, Reduction, arity, float_tensor};
use crate::error::{Error, Result};
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

impl Operator for Pool {
    const NAME: &'static str = "pool";
    const CLASS: Class = Class::Reduction;

    fn attrs(&self) -> Attrs {
        let attrs = Attrs::none().name("kind", self.kind.name());
        let attrs = self.window.write(attrs.ints("kernel", &self.kernel));
        attrs.when("count_padding", self.count_padding)
    }

    fn from_attrs(attrs: &Attrs) -> Result<Self> {
        attrs.only(&[
            "kind",
            "kernel",
            "stride",
            "pad_low",
            "pad_high",
            "dilation",
            "count_padding",
        ])?;
        let name = attrs.get_name("kind")?;
        let kind = PoolKind::from_name(name)
            .ok_or_else(|| Error::bad_graph(format!("pool: unknown kind {name}")))?;
        Ok(Pool {
            kind,
            kernel: attrs.get_ints("kernel")?,
            window: Window::read(attrs)?,
            count_padding: attrs.flag("count_padding")?,
        })
    }

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

    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let &[x] = operands else { return Ok(None) };
        let result = self.infer(&[e.ty(x)])?;
        let (axes, w, mut b) = (self.window.axes(), &self.window, Build(e));
        let padded = w.pad_low.iter().chain(&w.pad_high).any(|&n| n > 0);
        let dtype = b.dtype(x);
        let (input, output) = (b.dims(x), result[0].shape.0.clone());
        let x = b.wide(x)?;
        let ends = |list: &[u64]| -> Vec<u64> { [0, 0].iter().chain(list).copied().collect() };
        let fill = if self.kind == PoolKind::Max { f32::NEG_INFINITY } else { 0.0 };
        let x = b.pad(x, &ends(&w.pad_low), &ends(&w.pad_high), fill)?;
        let window = Window::new(axes).stride(&w.stride).dilation(&w.dilation);
        let columns = b.one(Im2Col { kernel: self.kernel.clone(), window }, &[x])?;
        let taps = self.kernel.iter().product::<u64>();
        let places = b.ty(columns).shape.last();
        let dims = vec![output[0].clone(), output[1].clone(), taps.into(), places];
        let columns = b.reshape(columns, dims)?;
        let real = self.kind == PoolKind::Average && padded && !self.count_padding;
        let f = match self.kind {
            PoolKind::Max => Reduction::Max,
            PoolKind::Average if real => Reduction::Sum,
            PoolKind::Average => Reduction::Mean,
        };
        let y = b.reduce(f, columns, &[2])?;
        let mut y = b.reshape(y, output.clone())?;
        if real {
            // How many elements of each window are none of the padding.
            let fixed = |dims: &[Dim]| Shape(dims[2..].to_vec()).static_dims();
            let (Ok(input), Ok(output)) = (fixed(&input), fixed(&output)) else { return Ok(None) };
            let grid = Grid::new(w, &input, &self.kernel, &output);
            let mut sources = Vec::new();
            let mut count = |p: usize| {
                grid.sources(p, &mut sources);
                sources.iter().flatten().count().max(1) as f64
            };
            let counts: Vec<f64> = (0..grid.positions()).map(&mut count).collect();
            let wide = b.dtype(y);
            let counts = b.constant(wide, &output, &counts)?;
            y = b.zip(Binary::Div, y, counts)?;
        }
        Ok(Some(vec![b.cast(y, dtype)?]))
    }
}
