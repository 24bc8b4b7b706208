//! Sizes for symbols: how they are written down, read off inputs, and what bounds say of a size.

use super::dim::Range;
use super::{BATCH, Binding, Dim, DimOp, PAST_SEQ, SEQ, Shape, Type};
use crate::error::{Error, Result};
use crate::nearest::nearest;
use crate::sorted::Map;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Makers of bindings: `Binding::batch_seq(2, 16)`.
pub trait DimBinding: Sized {
    /// `BATCH` and `SEQ`.
    fn batch_seq(batch: u64, seq: u64) -> Self;
    /// `BATCH`, `PAST_SEQ` and `SEQ`, of which the last is the number of new rows.
    fn batch_past_seq(batch: u64, past: u64, seq: u64) -> Self;
    /// Names and sizes; the last of a name counts.
    fn from_pairs(pairs: &[(&str, u64)]) -> Self;
    /// Fails for a name that is not among `symbols`, with the nearest of them.
    ///
    /// # Errors
    /// `BadGraph`.
    fn only(&self, symbols: &[String]) -> Result<()>;
}

impl DimBinding for Binding {
    fn batch_seq(batch: u64, seq: u64) -> Self {
        Self::from_pairs(&[(BATCH, batch), (SEQ, seq)])
    }

    fn batch_past_seq(batch: u64, past: u64, seq: u64) -> Self {
        Self::from_pairs(&[(BATCH, batch), (PAST_SEQ, past), (SEQ, seq)])
    }

    fn from_pairs(pairs: &[(&str, u64)]) -> Self {
        pairs.iter().map(|(name, n)| (String::from(*name), *n)).collect()
    }

    fn only(&self, symbols: &[String]) -> Result<()> {
        let Some(unknown) = self.keys().find(|k| !symbols.contains(k)) else { return Ok(()) };
        let near = nearest(unknown, symbols.iter().map(String::as_str), 1);
        let hint = match (near.first(), symbols.is_empty()) {
            (Some(near), _) => format!("did you mean {near}?"),
            (None, true) => "every size is static".into(),
            (None, false) => format!("symbols: {}", symbols.join(", ")),
        };
        Err(Error::bad_graph(format!("the graph has no symbol {unknown}")).hint(hint))
    }
}

impl Dim {
    /// The most this size can be where every symbol is at most its bound: what is planned for a
    /// size that is known at run.
    ///
    /// # Errors
    /// `BadGraph` for a symbol without a bound, overflow, a divisor that is always 0, or a difference
    /// that always leaves nothing.
    pub fn upper(&self, bounds: &Binding) -> Result<u64> {
        let most = self.least_and_most(bounds)?.1;
        if most == 0 && self.is_difference() {
            let bounds: Vec<String> = bounds.iter().map(|(s, n)| format!("{s} <= {n}")).collect();
            let what = format!("a size of {self} is never 1 or more");
            return Err(Error::bad_graph(what).hint(format!("with {}", bounds.join(", "))));
        }
        Ok(most)
    }

    /// Symbols may be 0.
    fn least_and_most(&self, bounds: &Binding) -> Result<Range> {
        let bound = |s: &str| match bounds.get(s) {
            Some(&n) => Ok((0, n)),
            None => {
                let bounded: Vec<&str> = bounds.keys().map(String::as_str).collect();
                let what = format!("the symbol {s} of the size {self} has no bound");
                Err(Error::bad_graph(what).hint(format!("bounded: {}", bounded.join(", "))))
            }
        };
        self.range(&bound, &|op, a, b| {
            let ((x0, x), (y0, y)) = (a.least_and_most(bounds)?, b.least_and_most(bounds)?);
            if y == 0 && matches!(op, DimOp::FloorDiv | DimOp::CeilDiv | DimOp::Mod) {
                return Err(Error::bad_graph(format!("a size of {a} is divided by 0")));
            }
            Ok(match op {
                DimOp::FloorDiv => (x0 / y, x / y0.max(1)),
                DimOp::CeilDiv => (x0.div_ceil(y), x.div_ceil(y0.max(1))),
                DimOp::Mod => (0, x.min(y - 1)),
                DimOp::Min => (x0.min(y0), x.min(y)),
                DimOp::Max => (x0.max(y0), x.max(y)),
            })
        })
    }
}

impl Shape {
    /// `[BATCH, SEQ]`: ids.
    pub fn batch_seq_2d() -> Shape {
        Shape(Vec::from([Dim::symbol(BATCH), Dim::symbol(SEQ)]))
    }

    /// `[BATCH, SEQ, width]`: rows of activations.
    pub fn batch_seq(width: u64) -> Shape {
        Shape(Vec::from([Dim::symbol(BATCH), Dim::symbol(SEQ), Dim::from(width)]))
    }

    /// `[BATCH, SEQ, heads, head_dim]`.
    pub fn batch_seq_heads(heads: u64, head_dim: u64) -> Shape {
        let (heads, width) = (Dim::from(heads), Dim::from(head_dim));
        Shape(Vec::from([Dim::symbol(BATCH), Dim::symbol(SEQ), heads, width]))
    }
}

/// Reads the sizes of symbols off inputs: name, type, and the number of elements a host brings.
///
/// An input with one unknown symbol tells that symbol, if its elements are `a * symbol + b`; what is
/// told by one input is known for the others.
///
/// # Errors
/// `BadGraph` for a number of elements that does not divide, two inputs that disagree (naming both),
/// or symbols that no input tells.
pub fn infer_binding(inputs: &[(&str, &Type, u64)]) -> Result<Binding> {
    let mut binding = Binding::new();
    // Which input told a symbol.
    let mut told: Map<String, &str> = Map::new();
    let mut open: Vec<&(&str, &Type, u64)> = inputs.iter().collect();
    loop {
        let mut left = Vec::new();
        let before = open.len();
        for input in open {
            let (name, ty, given) = *input;
            let mut elements = Dim::from(1u64);
            for d in &ty.shape.0 {
                elements = elements.mul(&d.bind(&binding)?)?;
            }
            let mut symbols = Vec::new();
            elements.symbols(&mut symbols);
            match (symbols.as_slice(), elements.as_static(), elements.as_line()) {
                ([], Some(n), _) if n == given => {}
                ([], Some(n), _) => {
                    let mut own = Vec::new();
                    ty.symbols(&mut own);
                    let known = own.iter().filter_map(|s| {
                        Some(format!("{s} = {} by {}", binding.get(s)?, told.get(s)?))
                    });
                    let known: Vec<String> = known.collect();
                    let what = format!("input {name} of {ty} has {given} elements, not {n}");
                    return Err(Error::bad_graph(what).hint(known.join(", ")));
                }
                ([symbol], _, Some((a, _, b))) => {
                    let size = i128::from(given).checked_sub(b).and_then(|n| u64::try_from(n).ok());
                    let size = size.filter(|n| n.is_multiple_of(a)).ok_or_else(|| {
                        let what = format!("input {name} of {ty} has {given} elements");
                        Error::bad_graph(what).hint(format!("{elements} for any {symbol}"))
                    })?;
                    binding.insert(symbol.clone(), size / a);
                    told.insert(symbol.clone(), name);
                }
                _ => left.push(input),
            }
        }
        match left.first() {
            None => return Ok(binding),
            Some((name, ty, _)) if left.len() == before => {
                let what = format!("the number of elements of input {name} does not tell {ty}");
                return Err(Error::bad_graph(what).hint("bind its symbols"));
            }
            Some(_) => open = left,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::DType;
    use alloc::string::ToString;

    fn dim(text: &str) -> Dim {
        Dim::parse(text).unwrap()
    }

    #[test]
    fn the_upper_bound_is_what_some_size_within_the_bounds_has_at_most() {
        let bounds = Binding::from_pairs(&[("A", 7), ("B", 5)]);
        for text in [
            "3*A*B+2",
            "ceildiv(A,3)",
            "floordiv(A*B,4)+1",
            "mod(A,4)*B",
            "max(A,B)+min(A,2*B)",
            "floordiv(20,B+2)",
            "ceildiv(A,max(B,2))",
            "mod(A,B+1)",
            "A*B-2*A-B+2",
            "floordiv(20,B-2)",
            "max(A-3,B)",
        ] {
            let upper = dim(text).upper(&bounds).unwrap();
            for a in 0..=7 {
                for b in 0..=5 {
                    let n = dim(text).bind(&Binding::from_pairs(&[("A", a), ("B", b)]));
                    // A difference may leave nothing.
                    let Ok(n) = n else { continue };
                    let n = n.as_static().unwrap();
                    assert!(n <= upper, "{text} is {n} at {a}, {b}, above {upper}");
                }
            }
        }
        assert_eq!(dim("ceildiv(A,3)").upper(&bounds), Ok(3));
        assert_eq!(dim("mod(A,4)").upper(&bounds), Ok(3));
        assert_eq!(dim("A-6").upper(&bounds), Ok(1));
        let e = dim("A-7").upper(&bounds).unwrap_err();
        assert_eq!(e.to_string(), "a size of A-7 is never 1 or more; with A <= 7, B <= 5");
        let e = dim("A+C").upper(&bounds).unwrap_err();
        assert_eq!(e.to_string(), "the symbol C of the size A+C has no bound; bounded: A, B");
    }

    #[test]
    fn sizes_are_read_off_inputs() {
        let ids = Type::tensor(DType::U32, Shape::batch_seq_2d());
        let x = Type::tensor(DType::F32, Shape::batch_seq(64));
        let mask = Type::tensor(DType::F32, Shape(Vec::from([dim("SEQ+1")])));
        let read = |ids_n, x_n, mask_n| {
            infer_binding(&[("ids", &ids, ids_n), ("x", &x, x_n), ("mask", &mask, mask_n)])
        };
        let edges = Type::tensor(DType::F32, Shape(Vec::from([dim("SEQ-2")])));
        assert_eq!(infer_binding(&[("e", &edges, 3)]), Ok(Binding::from_pairs(&[("SEQ", 5)])));
        assert_eq!(read(6, 384, 4), Ok(Binding::batch_seq(2, 3)));
        // 3 by the mask, so 8 ids are no whole number of sequences.
        assert_eq!(
            read(8, 384, 4).unwrap_err().to_string(),
            "input ids of tensor<BATCHxSEQxu32> has 8 elements; 3*BATCH for any BATCH"
        );
        let e = read(6, 320, 4).unwrap_err().to_string();
        let start = "input x of tensor<BATCHxSEQx64xf32> has 320 elements, not 384; ";
        assert_eq!(e, format!("{start}BATCH = 2 by ids, SEQ = 3 by mask"));
    }

    #[test]
    fn what_inputs_cannot_tell_is_an_error() {
        let ids = Type::tensor(DType::U32, Shape::batch_seq_2d());
        let e = infer_binding(&[("ids", &ids, 6)]).unwrap_err();
        assert_eq!(
            e.to_string(),
            "the number of elements of input ids does not tell tensor<BATCHxSEQxu32>; bind its symbols"
        );
        let x = Type::tensor(DType::F32, Shape(Vec::from([dim("SEQ"), dim("64")])));
        let e = infer_binding(&[("x", &x, 100)]).unwrap_err();
        assert_eq!(
            e.to_string(),
            "input x of tensor<SEQx64xf32> has 100 elements; 64*SEQ for any SEQ"
        );
    }

    #[test]
    fn an_unknown_symbol_names_the_nearest() {
        let known = ["BATCH".to_string(), "SEQ".to_string()];
        let e = Binding::from_pairs(&[("SEQS", 1)]).only(&known).unwrap_err();
        assert_eq!(e.to_string(), "the graph has no symbol SEQS; did you mean SEQ?");
        assert!(Binding::batch_seq(1, 2).only(&known).is_ok());
        assert!(Binding::batch_past_seq(1, 5, 2).only(&known).is_err());
    }
}
