//! The same numbers under another shape, and parts of states.

use super::{Call, refused};
use crate::tape::{Reg, Tape};
use crate::weights::Packed;
use rlx_core::ops::{CANVAS_WORDS, Slice, Token};
use rlx_core::types::Type;
use rlx_core::{Error, Result};

pub(super) fn reshape(c: &mut Call<'_>) -> Result<Vec<Reg>> {
    let (x, dims) = (c.x(0)?, c.out_dims(0)?);
    Ok(vec![c.t.reshape(x, &dims)])
}

pub(super) fn token(c: &mut Call<'_>) -> Result<Vec<Reg>> {
    let (ctl, dims, at) = (c.x(0)?, c.dims(0)?, Token::WORD as i64);
    Ok(vec![c.t.slice(ctl, &dims, 0, at, at + 1)])
}

pub(super) fn canvas_ids(c: &mut Call<'_>) -> Result<Vec<Reg>> {
    let (canvas, dims) = (c.x(0)?, c.dims(0)?);
    Ok(vec![c.t.slice(canvas, &dims, 0, CANVAS_WORDS as i64, dims[0])])
}

pub(super) fn state_read(c: &mut Call<'_>) -> Result<Vec<Reg>> {
    Ok(vec![c.x(0)?])
}

/// Rows of a packed weight.
pub(super) fn packed_slice(
    t: &mut Tape,
    packed: &Packed<Reg>,
    slice: &Slice,
    ty: &Type,
) -> Result<Packed<Reg>> {
    let dims = super::dims(ty)?;
    let known = slice.start.as_static().zip(slice.len.as_static());
    let (start, len) = known.ok_or_else(|| Error::internal("a slice is unbound"))?;
    if slice.step != 1 || slice.axis + 1 >= dims.len() {
        return Err(refused("a packed weight is cut by whole rows alone".into()));
    }
    let columns = *dims.last().unwrap_or(&0);
    let (start, stop) = (start as i64, (start + len) as i64);
    Ok(packed.each(columns, |reg, width| {
        let mut dims = dims.clone();
        if let Some(last) = dims.last_mut() {
            *last = width;
        }
        t.slice(reg, &dims, slice.axis, start, stop)
    }))
}
