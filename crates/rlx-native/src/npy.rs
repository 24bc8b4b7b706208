//! NumPy's array files: one tensor each (format versions 1.0 to 3.0, numpy.lib.format).
//!
//! Read here, and not by a library: a file from anywhere names sizes that are checked against its bytes before
//! anything is made of them.

use rlx_core::types::{DType, Scalar};
use rlx_core::{Error, Result};

const MAGIC: &[u8] = b"\x93NUMPY";
/// Bytes of a header at most; numpy writes some hundred.
const HEADER: usize = 1 << 16;

/// A tensor of an `.npy` file.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Element type.
    pub dtype: DType,
    /// Sizes, outermost first.
    pub dims: Vec<u64>,
    /// Elements, little-endian, the last axis innermost.
    pub bytes: Vec<u8>,
}

/// Element types that both have, with numpy's names.
const TYPES: [(&str, Scalar); 10] = [
    ("<f8", Scalar::F64),
    ("<f4", Scalar::F32),
    ("<f2", Scalar::F16),
    ("<i8", Scalar::I64),
    ("<i4", Scalar::I32),
    ("<i2", Scalar::I16),
    ("|i1", Scalar::I8),
    ("<u4", Scalar::U32),
    ("|u1", Scalar::U8),
    ("|b1", Scalar::Bool),
];

fn bad(what: impl Into<String>) -> Error {
    Error::bad_file(what).hint("write it with numpy.save, rows innermost and little-endian")
}

/// The value of a key of the header's dictionary.
fn value<'a>(header: &'a str, key: &str) -> Result<&'a str> {
    let quoted = [format!("'{key}'"), format!("\"{key}\"")];
    let at = quoted.iter().find_map(|k| header.find(k.as_str()).map(|at| at + k.len()));
    let rest = at.and_then(|at| header[at..].trim_start().strip_prefix(':'));
    rest.map(str::trim_start).ok_or_else(|| bad(format!("the header has no {key}")))
}

impl Array {
    /// Reads a file's bytes.
    ///
    /// # Errors
    /// `BadFile` for what is no such file, is cut off or has too many bytes, and for element types and orders
    /// that are not read here.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let rest = bytes.strip_prefix(MAGIC).ok_or_else(|| bad("this is no .npy file"))?;
        let (len, start) = match rest {
            [1, _, a, b, ..] => (usize::from(u16::from_le_bytes([*a, *b])), 4),
            [2 | 3, _, a, b, c, d, ..] => (u32::from_le_bytes([*a, *b, *c, *d]) as usize, 6),
            [version, ..] => return Err(bad(format!("version {version} of .npy is not known"))),
            [] => return Err(bad("the file ends in its header")),
        };
        let header = rest.get(start..).and_then(|r| r.get(..len.min(HEADER)));
        let header =
            header.filter(|h| h.len() == len).ok_or_else(|| bad("the file ends in its header"))?;
        let header = std::str::from_utf8(header).map_err(|_| bad("the header is no text"))?;
        let descr = value(header, "descr")?;
        let quote = descr.chars().next().filter(|c| ['\'', '"'].contains(c));
        let name = quote.and_then(|q| descr[1..].split_once(q)).map(|s| s.0);
        let name = name.ok_or_else(|| bad("the header names no element type"))?;
        let scalar = TYPES.iter().find(|t| t.0 == name);
        let scalar = scalar.ok_or_else(|| bad(format!("elements of type {name} are not read")))?.1;
        if !value(header, "fortran_order")?.starts_with("False") {
            return Err(bad("the array stands column by column"));
        }
        let shape = value(header, "shape")?;
        let shape = shape.strip_prefix('(').and_then(|s| s.split_once(')')).map(|s| s.0);
        let shape = shape.ok_or_else(|| bad("the header has no list of sizes"))?;
        let dims = shape.split(',').map(str::trim).filter(|n| !n.is_empty());
        let dims: Vec<u64> = dims
            .map(|n| n.parse().map_err(|_| bad(format!("{n} is no size"))))
            .collect::<Result<_>>()?;
        let data = &rest[start + len..];
        let need = dims.iter().try_fold(scalar.bytes() as u64, |n, d| n.checked_mul(*d));
        if need != Some(data.len() as u64) {
            let need = need.map_or("more than there can be".into(), |n| format!("{n}"));
            return Err(bad(format!("the array has {} bytes, its sizes need {need}", data.len())));
        }
        Ok(Array { dtype: DType::Scalar(scalar), dims, bytes: data.to_vec() })
    }

    /// The bytes of a file.
    ///
    /// # Errors
    /// `Unsupported` for an element type that numpy does not have.
    pub fn to_file(dtype: DType, dims: &[u64], bytes: &[u8]) -> Result<Vec<u8>> {
        let name = TYPES.iter().find(|t| DType::Scalar(t.1) == dtype).ok_or_else(|| {
            Error::new(rlx_core::Code::Unsupported, format!("numpy has no elements of {dtype}"))
        })?;
        let sizes: String = dims.iter().map(|n| format!("{n}, ")).collect();
        let mut header = format!(
            "{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}",
            name.0,
            sizes.trim_end()
        );
        // The data begins at a multiple of 64.
        while !(MAGIC.len() + 4 + header.len() + 1).is_multiple_of(64) {
            header.push(' ');
        }
        header.push('\n');
        let mut out =
            [MAGIC, &[1, 0], &(header.len() as u16).to_le_bytes(), header.as_bytes()].concat();
        out.extend_from_slice(bytes);
        Ok(out)
    }

    /// The same with integers of another width, where every one of them fits; as it is for other types.
    pub fn as_integers(self, to: DType) -> Self {
        let (DType::Scalar(from), DType::Scalar(into)) = (self.dtype, to) else { return self };
        let n = from.bytes();
        let read = |b: &[u8]| -> Option<i64> {
            Some(match from {
                Scalar::I64 => i64::from_le_bytes(b.try_into().ok()?),
                Scalar::I32 => i64::from(i32::from_le_bytes(b.try_into().ok()?)),
                Scalar::I16 => i64::from(i16::from_le_bytes(b.try_into().ok()?)),
                Scalar::I8 => i64::from(b[0] as i8),
                Scalar::U32 => i64::from(u32::from_le_bytes(b.try_into().ok()?)),
                Scalar::U8 => i64::from(b[0]),
                _ => return None,
            })
        };
        let write = |x: i64| -> Option<Vec<u8>> {
            Some(match into {
                Scalar::I64 => x.to_le_bytes().to_vec(),
                Scalar::I32 => i32::try_from(x).ok()?.to_le_bytes().to_vec(),
                Scalar::U32 => u32::try_from(x).ok()?.to_le_bytes().to_vec(),
                Scalar::U8 => vec![u8::try_from(x).ok()?],
                Scalar::I8 => i8::try_from(x).ok()?.to_le_bytes().to_vec(),
                Scalar::Bool => vec![u8::try_from(x).ok().filter(|x| *x < 2)?],
                _ => return None,
            })
        };
        let all: Option<Vec<Vec<u8>>> =
            self.bytes.chunks_exact(n).map(|b| write(read(b)?)).collect();
        match all {
            Some(all) if from != into => Array { dtype: to, dims: self.dims, bytes: all.concat() },
            _ => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_read_back() {
        for dims in [&[][..], &[6], &[2, 3], &[0, 4]] {
            let n: u64 = dims.iter().product();
            let bytes: Vec<u8> = (0..4 * n as u8).collect();
            let file = Array::to_file(DType::F32, dims, &bytes).unwrap();
            assert_eq!((file.len() - bytes.len()) % 64, 0);
            let array = Array { dtype: DType::F32, dims: dims.to_vec(), bytes };
            assert_eq!(Array::parse(&file).unwrap(), array);
        }
    }

    #[test]
    fn a_files_sizes_are_checked_before_anything_is_made_of_them() {
        let file = |header: &str, data: usize| {
            let mut out =
                [MAGIC, &[1, 0], &(header.len() as u16).to_le_bytes(), header.as_bytes()].concat();
            out.resize(out.len() + data, 0);
            out
        };
        let header =
            |shape: &str| format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}");
        assert!(Array::parse(&file(&header("(2, 2)"), 16)).is_ok());
        for (bytes, said) in [
            (b"PK".to_vec(), "this is no .npy file"),
            (MAGIC.to_vec(), "the file ends in its header"),
            ([MAGIC, &[2, 0, 255, 255, 255, 255]].concat(), "the file ends in its header"),
            ([MAGIC, &[9, 0, 0, 0]].concat(), "version 9 of .npy is not known"),
            (file(&header("(2, 2)"), 12), "the array has 12 bytes, its sizes need 16"),
            (
                file(&header("(4294967296, 4294967296, 4)"), 4),
                "the array has 4 bytes, its sizes need more than there can be",
            ),
            (file(&header("(-1,)"), 4), "-1 is no size"),
            (file(&header("[4]"), 4), "the header has no list of sizes"),
            (
                file(&header("(1,)").replace("False", "True"), 4),
                "the array stands column by column",
            ),
            (file(&header("(1,)").replace("<f4", ">f4"), 4), "elements of type >f4 are not read"),
            (file(&header("(1,)").replace("<f4", ""), 4), "elements of type  are not read"),
            (
                file(&header("(1,)").replace("'<f4'", "[('a', '<f4')]"), 4),
                "the header names no element type",
            ),
            (file("{}", 0), "the header has no descr"),
        ] {
            assert_eq!(Array::parse(&bytes).unwrap_err().what, said);
        }
    }

    #[test]
    fn integers_change_their_width_where_all_fit() {
        let wide = |x: [i64; 2]| Array {
            dtype: DType::Scalar(Scalar::I64),
            dims: vec![2],
            bytes: x.iter().flat_map(|x| x.to_le_bytes()).collect(),
        };
        let narrow = wide([7, 1]).as_integers(DType::U32);
        assert_eq!((narrow.dtype, narrow.bytes), (DType::U32, vec![7, 0, 0, 0, 1, 0, 0, 0]));
        assert_eq!(wide([7, -1]).as_integers(DType::U32), wide([7, -1]));
        assert_eq!(wide([7, 1]).as_integers(DType::F32), wide([7, 1]));
    }
}
