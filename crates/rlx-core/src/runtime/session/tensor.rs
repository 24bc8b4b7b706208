//! Tensors of the host: an element type, sizes, bytes.

use super::Given;
use crate::error::{Details, Error, Result};
use crate::types::{Binding, DType, Dim, Shape, Type, infer_binding};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// A tensor of the host. Bytes are little-endian, in row-major order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TensorRef<'a> {
    /// Element type.
    pub dtype: DType,
    /// Sizes, outermost first; empty for a scalar.
    pub dims: &'a [u64],
    /// Its elements.
    pub bytes: &'a [u8],
}

/// A named tensor: an output of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// The output's name.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Sizes, outermost first; empty for a scalar.
    pub dims: Vec<u64>,
    /// Its elements, as [`TensorRef::bytes`].
    pub bytes: Vec<u8>,
}

impl Tensor {
    /// A borrowed form, as an input of another run.
    pub fn as_ref(&self) -> TensorRef<'_> {
        TensorRef { dtype: self.dtype, dims: &self.dims, bytes: &self.bytes }
    }

    /// The elements of a tensor of f32.
    ///
    /// # Errors
    /// `Usage` for another element type.
    pub fn f32s(&self) -> Result<Vec<f32>> {
        if self.dtype != DType::F32 {
            let what = format!("{} has elements of {}, not f32", self.name, self.dtype);
            return Err(Error::usage(what));
        }
        Ok(self.bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect())
    }
}

/// An input or an output of an entry: sizes may be symbols.
#[derive(Clone, Debug, PartialEq)]
pub struct Signature {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: Type,
}

/// Sizes as an error writes them: `[2, 9]`.
pub(super) fn listed(dims: &[u64]) -> String {
    let dims: Vec<String> = dims.iter().map(|n| format!("{n}")).collect();
    format!("[{}]", dims.join(", "))
}

fn names(wanted: &[Signature]) -> String {
    let all: Vec<String> = wanted.iter().map(|s| format!("{}: {}", s.name, s.ty)).collect();
    match all.as_slice() {
        [] => "it has no inputs".into(),
        all => format!("its inputs: {}", all.join(", ")),
    }
}

/// The details of an error about an input, for programs.
fn details(input: &str, given: &[u64], wanted: &Type) -> Details {
    Details::Tensor { input: input.into(), given: given.to_vec(), wanted: format!("{wanted}") }
}

/// The inputs in the order of `wanted`.
///
/// # Errors
/// `Usage` for an input that is unknown, missing or given twice, or whose element type, number of axes or
/// number of bytes differs: each with what was given and what is wanted.
pub(super) fn ordered<'a>(
    entry: &str,
    wanted: &[Signature],
    given: &[(&str, Given<'a>)],
) -> Result<Vec<Given<'a>>> {
    let at = |e: Error| e.at(String::from(entry));
    if let Some((name, _)) = given.iter().find(|g| wanted.iter().all(|w| w.name != g.0)) {
        let what = format!("{entry} has no input {name}");
        return Err(Error::usage(what).hint(names(wanted)));
    }
    let mut out = Vec::with_capacity(wanted.len());
    for Signature { name, ty } in wanted {
        let mut found = given.iter().filter(|g| g.0 == name);
        let Some((_, t)) = found.next() else {
            let what = format!("input {name} is missing");
            return Err(at(Error::usage(what).hint(names(wanted))));
        };
        if found.next().is_some() {
            return Err(at(Error::usage(format!("input {name} was given twice"))));
        }
        let text = format!("{} {}", t.dtype(), listed(t.dims()));
        if t.dtype() != ty.dtype || t.dims().len() != ty.shape.rank() {
            let what = format!("input {name} is {ty}, and was given as {text}");
            return Err(at(Error::usage(what)).details(details(name, t.dims(), ty)));
        }
        let need = Type::tensor(t.dtype(), Shape::of(t.dims())).bytes()?;
        if let Given::Host(t) = t
            && need != t.bytes.len() as u64
        {
            let have = t.bytes.len();
            let what = format!("input {name} of {text} has {have} bytes, not {need}");
            return Err(at(Error::usage(what)));
        }
        out.push(*t);
    }
    Ok(out)
}

/// The sizes of the symbols in `wanted`, taken from the given inputs, axis by axis.
///
/// # Errors
/// `Usage` for sizes that contradict the types or each other, with both.
pub(super) fn sizes(entry: &str, wanted: &[Signature], given: &[Given<'_>]) -> Result<Binding> {
    let axis = |d: &Dim| Type::tensor(DType::U32, Shape(Vec::from([d.clone()])));
    let axes: Vec<(String, Type, u64)> = wanted
        .iter()
        .zip(given)
        .flat_map(|(w, g)| {
            let dims = w.ty.shape.0.iter().zip(g.dims()).enumerate();
            dims.map(|(i, (d, n))| (format!("{} (axis {i})", w.name), axis(d), *n))
        })
        .collect();
    let axes: Vec<(&str, &Type, u64)> = axes.iter().map(|(n, t, k)| (n.as_str(), t, *k)).collect();
    infer_binding(&axes).map_err(|_| {
        // The first input that contradicts an earlier one.
        let fits = |n: usize| {
            let axes = axes.iter().filter(|a| {
                wanted[..n]
                    .iter()
                    .any(|w| a.0.strip_prefix(&w.name).is_some_and(|r| r.starts_with(" (axis")))
            });
            infer_binding(&axes.copied().collect::<Vec<_>>()).is_ok()
        };
        let bad = (1..=wanted.len()).find(|&n| !fits(n)).unwrap_or(wanted.len()) - 1;
        let text = |i: usize| format!("{} as {}", wanted[i].name, listed(given[i].dims()));
        let before: Vec<String> = (0..bad).map(text).collect();
        let what = format!(
            "input {} is {}, and was given as {}",
            wanted[bad].name,
            wanted[bad].ty,
            listed(given[bad].dims())
        );
        let (given, wanted) = (given[bad].dims(), &wanted[bad]);
        let e = Error::usage(what).at(String::from(entry));
        let e = e.details(details(&wanted.name, given, &wanted.ty));
        if before.is_empty() { e } else { e.hint(format!("before it: {}", before.join(", "))) }
    })
}
