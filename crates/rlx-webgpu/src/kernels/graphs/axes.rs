//! Results of the operand's rank, whose index on each axis stands for one of the operand's on that axis: `pad`
//! and `roll`.

use crate::kernels::Launch;
use crate::kernels::elements::copy::halves;
use crate::kernels::elements::each::Each;
use crate::kernels::elements::element::Element;
use crate::kernels::elements::indices::{MOST_WORDS, Words, dims, row_major};
use crate::kernels::emit::Emit;
use rlx_core::Result;
use rlx_core::ir::lir::Slice;

/// Axes for which there are step constants: a size and three numbers of each.
pub(super) const MOST_AXES: usize = MOST_WORDS / 4 - 2;

/// What an axis does with the index `c` of the result: statements, and the operand's index.
pub(super) type Axis = (String, String);

/// The kernel. `index(axis, c, words)` is asked for the axes that are not as they were, `None`; `before`
/// stands ahead of them and `after` between them and the read.
pub(super) fn launch(
    entry: &'static str,
    formula: &str,
    (x, y): (&Slice, &Slice),
    (before, after): (String, String),
    mut words: Words,
    index: impl Fn(usize, &str, &mut Words) -> Result<Option<Axis>>,
    emit: &mut Emit<'_>,
) -> Result<Option<Launch>> {
    let (element, parts) = halves(&y.ty)?;
    let n = y.ty.shape.elements()? * parts;
    if n == 0 {
        return Ok(None);
    }
    let (to, from) = (dims(&y.ty)?, row_major(&dims(&x.ty)?));
    let mut body = format!("{before}\n    var rest = i / {parts}u;\n    var at = 0u;\n    ");
    for axis in (0..to.len()).rev().filter(|&axis| to[axis] != 1 || from[axis] != 0) {
        let (size, stride) = (words.size(to[axis])?, words.signed(from[axis])?);
        let c = format!("c{axis}");
        body += &format!("let {c} = rest % {size};\n    rest /= {size};\n    ");
        let (text, source) = index(axis, &c, &mut words)?.unwrap_or((String::new(), c));
        body += &format!("{text}at += ({source}) * {stride};\n    ");
    }
    let place = emit.read(x)?;
    let start = words.bits(place.word());
    body += &format!("{after}\n    return bits_x(at * {parts}u + i % {parts}u);");
    // Bits move as they are; a constant around them is made in the type itself.
    let helpers = Element::of(y.ty.dtype).map_or("", Element::helpers);
    Each {
        entry,
        head: [
            format!("{entry:<11} {formula}"),
            format!("x, y {}", y.ty.dtype),
            "y's twice, less what is not read".into(),
            "exact".into(),
        ],
        functions: vec![element.reader("x", &place, &start), helpers.into()],
        body,
        result: y,
        n,
        element,
    }
    .launch(words, emit)
}
