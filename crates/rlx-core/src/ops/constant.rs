//! A tensor that the graph holds itself.

use super::{Attr, Attrs, Class, Field, Operator, arity};
use crate::error::{Error, Result};
use crate::math;
use crate::types::{DType, Kind, Scalar, Shape, Type};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::Write as _;

/// Elements that print as numbers at most; more print as bytes.
const VALUES: u64 = 64;

/// `constant -> ty`: a tensor of any static type. ONNX `Constant`, StableHLO `constant`.
///
/// Few numbers print as `values`, row-major. What would lose bits that way (a NaN's payload,
/// complex and packed types) and long tensors print as `bytes`, `x` and two hexadecimal digits a
/// byte, in little-endian order of memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Constant {
    /// Its type.
    pub ty: Type,
    /// Its bytes, row-major, little-endian.
    pub data: Arc<[u8]>,
}

impl Constant {
    /// Elements of f32.
    ///
    /// # Errors
    /// `BadGraph` unless `x` has as many elements as the shape.
    pub fn f32s(dims: &[u64], x: &[f32]) -> Result<Constant> {
        let ty = Type::tensor(DType::F32, Shape::of(dims));
        Self::new(ty, x.iter().flat_map(|v| v.to_le_bytes()).collect())
    }

    /// A tensor without axes; floats round to nearest even, integers truncate and saturate.
    ///
    /// # Errors
    /// `BadGraph` for a packed type.
    pub fn scalar(dtype: DType, x: f64) -> Result<Constant> {
        let ty = Type::tensor(dtype, Shape::default());
        let DType::Scalar(scalar) = dtype else {
            return Err(Error::bad_graph(format!("constant: {ty} has no single elements")));
        };
        let mut data = Vec::new();
        write_float(scalar, x, &mut data);
        Self::new(ty, data)
    }

    /// Bytes of a type.
    ///
    /// # Errors
    /// `BadGraph` for another number of bytes than the type has, for symbols and for states.
    pub fn new(ty: Type, data: Vec<u8>) -> Result<Constant> {
        let op = Constant { ty, data: data.into() };
        op.check()?;
        Ok(op)
    }

    fn check(&self) -> Result<()> {
        let need = self.ty.bytes()?;
        if self.ty.kind != Kind::Tensor || need != self.data.len() as u64 {
            return Err(Error::bad_graph(format!(
                "constant: {} has {need} bytes, got {}",
                self.ty,
                self.data.len()
            )));
        }
        Ok(())
    }

    /// The elements as attributes, if they print so that they parse to the same bytes.
    fn values(&self) -> Option<Vec<Attr>> {
        let DType::Scalar(scalar) = self.ty.dtype else { return None };
        let n = self.ty.shape.elements().ok()?;
        if n > VALUES || scalar == Scalar::C64 {
            return None;
        }
        let values: Vec<Attr> = self
            .data
            .chunks_exact(scalar.bytes())
            .map(|b| read(scalar, b))
            .collect::<Option<_>>()?;
        let mut again = Vec::new();
        values.iter().try_for_each(|v| write(scalar, v, &mut again))?;
        (again[..] == self.data[..]).then_some(values)
    }
}

/// An element as an attribute.
fn read(scalar: Scalar, bytes: &[u8]) -> Option<Attr> {
    // The shortest decimal of the f32: 0.1, not 0.10000000149011612.
    let short = |x: f32| format!("{x:?}").parse().ok().map(Attr::Float);
    match scalar {
        Scalar::F64 => Some(Attr::Float(f64::from_le_bytes(bytes.try_into().ok()?))),
        Scalar::F32 => short(f32::from_le_bytes(bytes.try_into().ok()?)),
        Scalar::F16 => short(half::f16::from_le_bytes(bytes.try_into().ok()?).to_f32()),
        Scalar::Bf16 => short(half::bf16::from_le_bytes(bytes.try_into().ok()?).to_f32()),
        Scalar::I64 => Some(Attr::Int(i64::from_le_bytes(bytes.try_into().ok()?))),
        Scalar::I32 => Some(Attr::Int(i32::from_le_bytes(bytes.try_into().ok()?).into())),
        Scalar::I16 => Some(Attr::Int(i16::from_le_bytes(bytes.try_into().ok()?).into())),
        Scalar::I8 => Some(Attr::Int(i8::from_le_bytes(bytes.try_into().ok()?).into())),
        Scalar::U32 => Some(Attr::Int(u32::from_le_bytes(bytes.try_into().ok()?).into())),
        Scalar::U8 => Some(Attr::Int((*bytes.first()?).into())),
        Scalar::Bool => match bytes {
            [0] => Some(Attr::Bool(false)),
            [1] => Some(Attr::Bool(true)),
            _ => None,
        },
        Scalar::C64 => None,
    }
}

/// Appends the element that an attribute says; `None` for one that the type has not.
fn write(scalar: Scalar, value: &Attr, out: &mut Vec<u8>) -> Option<()> {
    let float = matches!(scalar, Scalar::F64 | Scalar::F32 | Scalar::F16 | Scalar::Bf16);
    match (scalar, value) {
        (_, Attr::Float(x)) if float => write_float(scalar, *x, out),
        (_, Attr::Int(n)) if float => write_float(scalar, *n as f64, out),
        (Scalar::I64, Attr::Int(n)) => out.extend(n.to_le_bytes()),
        (Scalar::I32, Attr::Int(n)) => out.extend(i32::try_from(*n).ok()?.to_le_bytes()),
        (Scalar::I16, Attr::Int(n)) => out.extend(i16::try_from(*n).ok()?.to_le_bytes()),
        (Scalar::I8, Attr::Int(n)) => out.extend(i8::try_from(*n).ok()?.to_le_bytes()),
        (Scalar::U32, Attr::Int(n)) => out.extend(u32::try_from(*n).ok()?.to_le_bytes()),
        (Scalar::U8, Attr::Int(n)) => out.push(u8::try_from(*n).ok()?),
        (Scalar::Bool, Attr::Bool(b)) => out.push(u8::from(*b)),
        _ => return None,
    }
    Some(())
}

/// Appends a number in a scalar type.
fn write_float(scalar: Scalar, x: f64, out: &mut Vec<u8>) {
    match scalar {
        Scalar::F64 => out.extend(x.to_le_bytes()),
        Scalar::F32 => out.extend((x as f32).to_le_bytes()),
        Scalar::F16 => out.extend(math::to_f16(x).to_le_bytes()),
        Scalar::Bf16 => out.extend(math::to_bf16(x).to_le_bytes()),
        Scalar::I64 => out.extend((x as i64).to_le_bytes()),
        Scalar::I32 => out.extend((x as i32).to_le_bytes()),
        Scalar::I16 => out.extend((x as i16).to_le_bytes()),
        Scalar::I8 => out.extend((x as i8).to_le_bytes()),
        Scalar::U32 => out.extend((x as u32).to_le_bytes()),
        Scalar::U8 => out.push(x as u8),
        Scalar::Bool => out.push(u8::from(x != 0.0)),
        Scalar::C64 => {
            out.extend((x as f32).to_le_bytes());
            out.extend(0f32.to_le_bytes());
        }
    }
}

/// `x0aff` of bytes.
fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(1 + 2 * bytes.len());
    text.push('x');
    for b in bytes {
        // Writing to a String cannot fail.
        let _ = write!(text, "{b:02x}");
    }
    text
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix('x')?.as_bytes();
    let (pairs, rest) = digits.as_chunks::<2>();
    let digit = |c: u8| char::from(c).to_digit(16).map(|d| d as u8);
    let byte = |p: &[u8; 2]| Some(digit(p[0])? << 4 | digit(p[1])?);
    if rest.is_empty() { pairs.iter().map(byte).collect() } else { None }
}

/// Elements as `values` where they read back exactly, otherwise as `bytes`.
impl Field for Constant {
    fn put(&self, _: &str, attrs: Attrs) -> Attrs {
        let attrs = attrs.name("type", self.ty.dtype.name()).dims("dims", &self.ty.shape);
        match self.values() {
            Some(values) => attrs.with("values", Attr::List(values)),
            None => attrs.name("bytes", &hex(&self.data)),
        }
    }

    fn take(_: &str, _: &str, attrs: &Attrs) -> Result<Self> {
        let ty = Type::tensor(attrs.get_dtype("type")?, attrs.get_dims("dims")?);
        let bad = |what: &str| Error::bad_graph(format!("constant: {what} of {ty}"));
        let data = match (attrs.get("values"), ty.dtype) {
            (Some(Attr::List(values)), DType::Scalar(scalar)) => {
                let mut data = Vec::new();
                values
                    .iter()
                    .try_for_each(|v| write(scalar, v, &mut data))
                    .ok_or_else(|| bad("values has what is no element"))?;
                data
            }
            (Some(_), _) => return Err(bad("values is no list of elements")),
            (None, _) => from_hex(attrs.get_name("bytes")?)
                .ok_or_else(|| bad("bytes is not x and two hexadecimal digits a byte"))?,
        };
        Self::new(ty, data)
    }

    fn names(_: &'static str, out: &mut Vec<&'static str>) {
        out.extend(["type", "dims", "values", "bytes"]);
    }
}

impl Operator for Constant {
    const NAME: &'static str = "constant";
    const CLASS: Class = Class::Boundary;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("constant", operands, 0)?;
        self.check()?;
        Ok(vec![self.ty.clone()])
    }
}
