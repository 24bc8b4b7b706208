//! Attributes of operators and blocks: how a field of each type prints and reads back.

use crate::error::{Error, Result};
use crate::ops::{Attrs, Binary, Comparison, Reduction, RopeStyle, Unary};
use crate::types::{BlockFormat, DType, Dim, Shape};
use alloc::format;
use alloc::vec::Vec;

/// What prints as attributes and reads back: a number under its field's name, or a struct of fields
/// as all of theirs, whatever the struct's own field is called. The macro `attributes!` writes it for
/// a struct.
pub trait Field: Sized {
    /// Adds the attributes that say it: none for false and for what is absent.
    fn put(&self, name: &str, attrs: Attrs) -> Attrs;

    /// Reads it. Errors where it is missing or mistyped; what is unknown to an operator names that
    /// operator, `of`, which is empty for a block.
    fn take(of: &str, name: &str, attrs: &Attrs) -> Result<Self>;

    /// Adds the names of its attributes.
    fn names(name: &'static str, out: &mut Vec<&'static str>) {
        out.push(name);
    }
}

/// `attributes! { Slice { axis, start, len, step = 1 } }`: the fields of a struct in the order they
/// print. One with a value prints only where it is another, and is that value where it is absent.
/// `dtype as "type"` prints under another name.
///
/// In the expansion a name is the first of a list: of what `as` says, if anything, and the field's own.
macro_rules! attributes {
    ($ty:ident { $($field:ident $(as $name:literal)? $(= $default:expr)?),* $(,)? }) => {
        impl $crate::ops::Field for $ty {
            fn put(&self, _: &str, attrs: $crate::ops::Attrs) -> $crate::ops::Attrs {
                $(let attrs = $crate::ops::def::field::put(
                    &self.$field, [$($name,)? stringify!($field)][0], &[$($default)?], attrs,
                );)*
                attrs
            }

            #[allow(unused_variables)]
            fn take(of: &str, _: &str, attrs: &$crate::ops::Attrs) -> $crate::error::Result<Self> {
                Ok(Self {
                    $($field: $crate::ops::def::field::take(
                        of, [$($name,)? stringify!($field)][0], [$($default)?], attrs,
                    )?,)*
                })
            }

            #[allow(unused_variables)]
            fn names(_: &'static str, out: &mut alloc::vec::Vec<&'static str>) {
                $($crate::ops::def::field::names(
                    |whole: &Self| &whole.$field, [$($name,)? stringify!($field)][0], out,
                );)*
            }
        }
    };
}
pub(crate) use attributes;

/// A field of a struct, unless it has its default, of which there is one at most.
pub(crate) fn put<F: Field + PartialEq>(
    field: &F,
    name: &str,
    default: &[F],
    attrs: Attrs,
) -> Attrs {
    if default.contains(field) { attrs } else { field.put(name, attrs) }
}

/// A field of a struct, or its default.
pub(crate) fn take<F: Field, const N: usize>(
    of: &str,
    name: &str,
    default: [F; N],
    attrs: &Attrs,
) -> Result<F> {
    match default.into_iter().next() {
        Some(default) if attrs.get(name).is_none() => Ok(default),
        _ => F::take(of, name, attrs),
    }
}

/// Names of a struct's field. The function that gives the field says its type.
pub(crate) fn names<S, F: Field>(
    _: impl Fn(&S) -> &F,
    name: &'static str,
    out: &mut Vec<&'static str>,
) {
    F::names(name, out);
}

/// Everything that attributes say: an operator (`of`) or a block. Errors on unknown ones too.
pub(crate) fn read<F: Field>(of: &str, attrs: &Attrs) -> Result<F> {
    let mut known = Vec::new();
    F::names("", &mut known);
    attrs.only(&known)?;
    F::take(of, "", attrs)
}

/// The error of a name that is none of its kind.
pub(crate) fn unknown(of: &str, kind: &str, name: &str) -> Error {
    prefixed(of, &format!("unknown {kind} {name}"))
}

/// The error of an operator's attributes, or of a block's, which has no name here.
pub(crate) fn prefixed(of: &str, what: &str) -> Error {
    let colon = if of.is_empty() { "" } else { ": " };
    Error::bad_graph(format!("{of}{colon}{what}"))
}

/// A type that prints as a name, with `name` and `from_name`, and what an error calls such a name.
macro_rules! named {
    ($ty:ty, $kind:literal) => {
        impl $crate::ops::Field for $ty {
            fn put(&self, name: &str, attrs: $crate::ops::Attrs) -> $crate::ops::Attrs {
                attrs.name(name, (*self).name())
            }

            fn take(
                of: &str,
                name: &str,
                attrs: &$crate::ops::Attrs,
            ) -> $crate::error::Result<Self> {
                let text = attrs.get_name(name)?;
                Self::from_name(text)
                    .ok_or_else(|| $crate::ops::def::field::unknown(of, $kind, text))
            }
        }
    };
}
pub(crate) use named;

named!(Unary, "function");
named!(Binary, "function");
named!(Comparison, "function");
named!(Reduction, "function");
named!(BlockFormat, "format");

/// A type with one attribute: how [`Attrs`] adds it and gets it.
macro_rules! single {
    ($($ty:ty: |$attrs:ident, $name:ident, $value:ident| $put:expr, $get:expr;)*) => {
        $(impl Field for $ty {
            fn put(&self, $name: &str, $attrs: Attrs) -> Attrs {
                let $value = self;
                $put
            }

            fn take(_: &str, $name: &str, $attrs: &Attrs) -> Result<Self> {
                $get
            }
        })*
    };
}

single! {
    bool: |attrs, name, is| attrs.when(name, *is), attrs.flag(name);
    u64: |attrs, name, n| attrs.int(name, *n), attrs.get_int(name);
    usize: |attrs, name, n| attrs.int(name, *n as u64), {
        let n = attrs.get_int(name)?;
        usize::try_from(n).map_err(|_| {
            Error::bad_graph(format!("attribute {name} is {n}, expected a smaller integer"))
        })
    };
    i64: |attrs, name, n| attrs.signed(name, *n), attrs.get_signed(name);
    i8: |attrs, name, n| attrs.signed(name, (*n).into()), {
        let n = attrs.get_signed(name)?;
        i8::try_from(n).map_err(|_| {
            Error::bad_graph(format!("attribute {name} is {n}, expected -128 to 127"))
        })
    };
    f32: |attrs, name, x| attrs.float(name, *x), attrs.get_float(name);
    Dim: |attrs, name, size| attrs.dim(name, size), attrs.get_dim(name);
    Shape: |attrs, name, sizes| attrs.dims(name, sizes), attrs.get_dims(name);
    DType: |attrs, name, dtype| attrs.name(name, dtype.name()), attrs.get_dtype(name);
    Vec<u64>: |attrs, name, list| attrs.ints(name, list), attrs.get_ints(name);
    Vec<i64>: |attrs, name, list| attrs.signeds(name, list), attrs.get_signeds(name);
    Vec<usize>: |attrs, name, axes| attrs.axes(name, axes), attrs.get_axes(name);
    RopeStyle: |attrs, name, style| attrs.name(name, style.name()), RopeStyle::from_name(attrs.get_name(name)?);
}

/// What may be absent.
impl<F: Field> Field for Option<F> {
    fn put(&self, name: &str, attrs: Attrs) -> Attrs {
        match self {
            Some(field) => field.put(name, attrs),
            None => attrs,
        }
    }

    fn take(of: &str, name: &str, attrs: &Attrs) -> Result<Self> {
        attrs.get(name).map(|_| F::take(of, name, attrs)).transpose()
    }
}
