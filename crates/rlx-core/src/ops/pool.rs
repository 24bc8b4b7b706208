//! Pooling [ONNX MaxPool, AveragePool].

use super::window::Window;
use super::{Attrs, Class, Operator, arity, float_tensor};
use crate::error::{Error, Result};
use crate::types::{Shape, Type};
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
}
