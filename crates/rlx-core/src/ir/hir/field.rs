//! Attributes of blocks: how a field of each type prints and reads back.

use crate::error::{Error, Result};
use crate::ops::{Attr, Attrs, Mask, Operator, RopeStyle, RopeTable, Unary};
use alloc::format;
use alloc::vec::Vec;

/// A field of a block.
pub(super) trait Field: Sized {
    /// Adds the attributes that say it: none for false and for what is absent.
    fn put(&self, name: &str, attrs: Attrs) -> Attrs;

    /// Reads it. Errors where it is missing or mistyped.
    fn take(name: &str, attrs: &Attrs) -> Result<Self>;

    /// Names of its attributes.
    fn names(name: &'static str, out: &mut Vec<&'static str>) {
        out.push(name);
    }
}

impl Field for bool {
    fn put(&self, name: &str, attrs: Attrs) -> Attrs {
        if *self { attrs.with(name, Attr::Bool(true)) } else { attrs }
    }

    fn take(name: &str, attrs: &Attrs) -> Result<Self> {
        attrs.flag(name)
    }
}

impl Field for usize {
    fn put(&self, name: &str, attrs: Attrs) -> Attrs {
        attrs.int(name, *self as u64)
    }

    fn take(name: &str, attrs: &Attrs) -> Result<Self> {
        attrs.get_int(name).map(|n| n as usize)
    }
}

impl Field for Option<u64> {
    fn put(&self, name: &str, attrs: Attrs) -> Attrs {
        self.map_or(attrs.clone(), |n| attrs.int(name, n))
    }

    fn take(name: &str, attrs: &Attrs) -> Result<Self> {
        attrs.opt_int(name)
    }
}

impl Field for f32 {
    fn put(&self, name: &str, attrs: Attrs) -> Attrs {
        attrs.float(name, *self)
    }

    fn take(name: &str, attrs: &Attrs) -> Result<Self> {
        attrs.get_float(name)
    }
}

impl Field for Option<f32> {
    fn put(&self, name: &str, attrs: Attrs) -> Attrs {
        self.map_or(attrs.clone(), |x| attrs.float(name, x))
    }

    fn take(name: &str, attrs: &Attrs) -> Result<Self> {
        attrs.opt_float(name)
    }
}

fn function(name: &str) -> Result<Unary> {
    Unary::from_name(name).ok_or_else(|| Error::bad_graph(format!("unknown function {name}")))
}

impl Field for Unary {
    fn put(&self, name: &str, attrs: Attrs) -> Attrs {
        attrs.name(name, (*self).name())
    }

    fn take(name: &str, attrs: &Attrs) -> Result<Self> {
        function(attrs.get_name(name)?)
    }
}

impl Field for Option<Unary> {
    fn put(&self, name: &str, attrs: Attrs) -> Attrs {
        self.map_or(attrs.clone(), |f| f.put(name, attrs))
    }

    fn take(name: &str, attrs: &Attrs) -> Result<Self> {
        attrs.opt_name(name)?.map(function).transpose()
    }
}

impl Field for RopeStyle {
    fn put(&self, name: &str, attrs: Attrs) -> Attrs {
        attrs.name(name, (*self).name())
    }

    fn take(name: &str, attrs: &Attrs) -> Result<Self> {
        RopeStyle::from_name(attrs.get_name(name)?)
    }
}

/// An operator as a field: its own attributes, next to the block's.
macro_rules! operator {
    ($(#[$gate:meta])* $ty:ty, $names:expr) => {
        $(#[$gate])*
        impl Field for $ty {
            fn put(&self, _: &str, mut attrs: Attrs) -> Attrs {
                attrs.0.extend(self.attrs().0);
                attrs
            }

            fn take(_: &str, attrs: &Attrs) -> Result<Self> {
                let names: &[&str] = &$names;
                let own = attrs.0.iter().filter(|a| names.contains(&a.0.as_str())).cloned();
                <$ty>::from_attrs(&Attrs(own.collect()))
            }

            fn names(_: &'static str, out: &mut Vec<&'static str>) {
                out.extend($names);
            }
        }
    };
}

operator!(
    RopeTable,
    ["base", "dims", "context", "linear", "dynamic", "llama3", "yarn", "longrope"]
);
operator!(
    #[cfg(feature = "vision")]
    crate::ops::Conv,
    ["stride", "pad_low", "pad_high", "dilation", "groups", "bias"]
);

/// A window is an attribute of its own, as in `sdpa`.
impl Field for Mask {
    fn put(&self, name: &str, attrs: Attrs) -> Attrs {
        match self {
            Mask::None => attrs,
            Mask::Causal => attrs.name(name, "causal"),
            Mask::Window(w) => attrs.int("window", *w),
            Mask::Custom => attrs.name(name, "custom"),
            Mask::Bias => attrs.name(name, "bias"),
        }
    }

    fn take(name: &str, attrs: &Attrs) -> Result<Self> {
        Ok(match (attrs.opt_name(name)?, attrs.opt_int("window")?) {
            (None, None) => Mask::None,
            (None, Some(w)) => Mask::Window(w),
            (Some("causal"), None) => Mask::Causal,
            (Some("custom"), None) => Mask::Custom,
            (Some("bias"), None) => Mask::Bias,
            (Some(_), Some(_)) => return Err(Error::bad_graph("a window is a mask itself")),
            (Some(other), None) => {
                return Err(Error::bad_graph(format!("unknown mask {other}"))
                    .hint("known: causal, custom, bias; window = n; none is left out"));
            }
        })
    }

    fn names(name: &'static str, out: &mut Vec<&'static str>) {
        out.extend([name, "window"]);
    }
}
