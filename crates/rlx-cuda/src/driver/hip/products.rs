//! hipBLASLt, loaded when a device is asked for: products of matrices on AMD's matrix cores.
//!
//! <https://rocm.docs.amd.com/projects/hipBLASLt>. As cuBLASLt it has matrices column by column, so that our rows are
//! its columns: `y = x w^T` is its `y' = w'^T x'`. What it multiplies depends on its version and on the card, and some
//! of its versions were wrong on some cards: so a small product of each kind is tried before any is promised. The first
//! product of a size is made outside of a recording, for the library may load code and make memory then.

#![allow(unsafe_code)]

use super::api::{Handle, Products, SUCCESS, Status, Way};
use super::handles::{Card, Memory};
use super::{Hip, missing, trial};
use crate::driver::{At, Floats, Product};
use rlx_core::runtime::device::shared::Lock;
use rlx_core::{Code, Error, Result};
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::mem::size_of;
use std::ptr;

/// Bytes that the library may use: AMD's advice for cards since gfx942, and enough for the others.
const WORKSPACE: usize = 64 << 20;
/// The first version whose types are those of HIP: 0.7.0, of ROCm 6.1.
const OLDEST: c_int = 700;
/// Bytes of a result at most: a version was seen to lose what lies behind 2^31 (ROCm/hipBLASLt issue 2299).
const MOST_RESULT: u64 = 1 << 30;

/// `HIP_R_32F`, `HIP_R_16F` and `HIP_R_16BF` of `hipDataType`.
const F32: c_int = 0;
const F16: c_int = 2;
const BF16: c_int = 14;
/// `HIPBLAS_COMPUTE_32F`.
const SUMS_F32: c_int = 2;
/// `HIPBLAS_OP_T`.
const TURNED: i32 = 112;
/// `HIPBLASLT_EPILOGUE_BIAS`.
const WITH_BIAS: u32 = 4;
/// `HIPBLASLT_MATMUL_DESC_TRANSA`, `_EPILOGUE`, `_BIAS_POINTER` and `_BIAS_DATA_TYPE`.
const TURN_A: c_int = 0;
const EPILOGUE: c_int = 2;
const BIAS: c_int = 3;
const BIAS_TYPE: c_int = 4;
/// `HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES`.
const MOST_WORKSPACE: c_int = 1;

/// What a way to make a product depends on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Form {
    pub rows: u32,
    pub columns: u32,
    pub k: u32,
    pub floats: Floats,
    pub bias: bool,
    pub residual: bool,
}

impl Form {
    fn of(p: &Product) -> Form {
        let (bias, residual) = (p.bias.is_some(), p.residual.is_some());
        Form { rows: p.rows, columns: p.columns, k: p.k, floats: p.floats, bias, residual }
    }

    /// Bytes of x, w, y and the bias.
    fn bytes(&self) -> [u64; 4] {
        let [rows, columns, k] = [self.rows, self.columns, self.k].map(u64::from);
        let each = self.floats.bytes();
        [2 * rows * k, 2 * columns * k, each * rows * columns, each * columns]
    }
}

/// Addresses of a product's matrices.
#[derive(Clone, Copy)]
pub(super) struct Addresses {
    pub x: Handle,
    pub w: Handle,
    pub y: Handle,
    pub bias: Option<Handle>,
    pub residual: Option<Handle>,
}

/// The library with its memory.
pub(super) struct Library {
    functions: Products,
    handle: Handle,
    workspace: Memory,
    /// Which floats it multiplies, in the order of [`FLOATS`].
    multiplies: [bool; 3],
    /// Whether what it adds to sums has their type, or is f16.
    sums_with_f32: bool,
    /// Ways that were chosen; each was gone once.
    ways: Lock<BTreeMap<Form, Way>>,
}

// SAFETY: a handle may be used by any thread, and products are queued in one stream, in whose order they use the
// workspace.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: it was made by `create` and is freed here alone.
        let _ = unsafe { (self.functions.destroy)(self.handle) };
    }
}

const FLOATS: [Floats; 3] = [Floats::Sums, Floats::F16, Floats::Bf16];

/// Types of x and w, and of y.
fn types(floats: Floats) -> [c_int; 2] {
    match floats {
        Floats::Sums => [F16, F32],
        Floats::F16 => [F16, F16],
        Floats::Bf16 => [BF16, BF16],
    }
}

fn checked(what: &str, status: Status) -> Result<()> {
    if status == SUCCESS {
        return Ok(());
    }
    let why = match status {
        1 => "it is not initialised",
        2 => "it has no memory",
        3 => "it does not take a value",
        4 | 5 => "the card did not run it",
        7 => "it has no such product",
        8 => "it is not for this card",
        _ => "it failed",
    };
    Err(Error::internal(format!("hipBLASLt: {what}: {why} (status {status})")))
}

/// What is freed behind a product.
struct Made<'a> {
    functions: &'a Products,
    matrices: Vec<Handle>,
    product: Handle,
    preference: Handle,
}

impl Drop for Made<'_> {
    fn drop(&mut self) {
        // SAFETY: each was made by the library and is freed here alone; a null one is left out.
        unsafe {
            for matrix in self.matrices.drain(..) {
                let _ = (self.functions.destroy_matrix)(matrix);
            }
            if !self.product.is_null() {
                let _ = (self.functions.destroy_product)(self.product);
            }
            if !self.preference.is_null() {
                let _ = (self.functions.destroy_preference)(self.preference);
            }
        }
    }
}

impl Made<'_> {
    fn matrix(&mut self, of: c_int, rows: u32, columns: u32) -> Result<Handle> {
        let mut matrix = ptr::null_mut();
        let create = self.functions.create_matrix;
        // SAFETY: it writes a handle. Columns stand one behind the other.
        let made = unsafe { create(&mut matrix, of, rows.into(), columns.into(), rows.into()) };
        checked("a matrix", made)?;
        self.matrices.push(matrix);
        Ok(matrix)
    }

    /// Says something of the product.
    fn set<T>(&mut self, attribute: c_int, value: &T) -> Result<()> {
        let at: *const c_void = ptr::from_ref(value).cast();
        let set = self.functions.set_product;
        // SAFETY: the value is of the attribute's type, and is copied before the call returns.
        checked("a product", unsafe { set(self.product, attribute, at, size_of::<T>()) })
    }
}

impl Library {
    /// Loads it and tries it; none where it is not installed, does not start, or multiplies nothing on this card.
    pub fn new(functions: Products, card: &Card) -> Option<Library> {
        card.bind().ok()?;
        let (mut handle, mut version) = (ptr::null_mut(), 0);
        // SAFETY: it writes a handle, for the thread's device.
        if unsafe { (functions.create)(&mut handle) } != SUCCESS || handle.is_null() {
            return None;
        }
        // SAFETY: it writes a number.
        let known = unsafe { (functions.version)(handle, &mut version) };
        let workspace = card.memory(WORKSPACE as u64);
        let Ok(workspace) = workspace else {
            // SAFETY: it was made above, and nothing else has it.
            let _ = unsafe { (functions.destroy)(handle) };
            return None;
        };
        let (multiplies, ways) = ([false; 3], Lock::default());
        let mut library =
            Library { functions, handle, workspace, multiplies, sums_with_f32: true, ways };
        // What is queued uses the memory that is freed with the library.
        if card.synchronize().is_err() || known != SUCCESS || version < OLDEST {
            return None;
        }
        // The documentation of some versions has f16 added to sums.
        for with_f32 in [true, false] {
            library.sums_with_f32 = with_f32;
            library.multiplies[0] = library.is_right(card, Floats::Sums);
            if library.multiplies[0] {
                break;
            }
        }
        for (i, floats) in FLOATS.into_iter().enumerate().skip(1) {
            library.multiplies[i] = library.is_right(card, floats);
        }
        library.multiplies.contains(&true).then_some(library)
    }

    /// Whether it has products of these floats that were right.
    pub fn multiplies(&self, floats: Floats) -> bool {
        FLOATS.iter().zip(self.multiplies).any(|(of, does)| *of == floats && does)
    }

    /// Whether a small product is right. What goes wrong is told by those that are asked for.
    fn is_right(&self, card: &Card, floats: Floats) -> bool {
        trial::is_right(self, card, floats).unwrap_or(false)
    }

    /// Where a product is not one of sums, it may have a bias and a residual.
    fn describe(&self, form: &Form, bias: Option<Handle>) -> Result<(Made<'_>, [Handle; 4])> {
        let [short, result] = types(form.floats);
        let (matrices, null) = (Vec::new(), ptr::null_mut());
        let mut made =
            Made { functions: &self.functions, matrices, product: null, preference: null };
        // With no residual nothing of this matrix is read.
        let with_f16 = form.floats == Floats::Sums && !self.sums_with_f32;
        let of = [
            made.matrix(short, form.k, form.columns)?,
            made.matrix(short, form.k, form.rows)?,
            made.matrix(if with_f16 { F16 } else { result }, form.columns, form.rows)?,
            made.matrix(result, form.columns, form.rows)?,
        ];
        // SAFETY: it writes a handle.
        let created = unsafe { (self.functions.create_product)(&mut made.product, SUMS_F32, F32) };
        checked("a product", created)?;
        made.set(TURN_A, &TURNED)?;
        if let Some(bias) = bias {
            made.set(EPILOGUE, &WITH_BIAS)?;
            made.set(BIAS_TYPE, &result)?;
            made.set(BIAS, &bias)?;
        }
        Ok((made, of))
    }

    /// The best way to make a product.
    ///
    /// # Errors
    /// `Unsupported` where the library has none; `Internal` with its word.
    pub fn way(&self, form: &Form, bias: Option<Handle>) -> Result<Way> {
        let (mut made, [w, x, added, y]) = self.describe(form, bias)?;
        // SAFETY: it writes a handle.
        let created = unsafe { (self.functions.create_preference)(&mut made.preference) };
        checked("a preference", created)?;
        let (most, at) = (WORKSPACE as u64, made.preference);
        let value: *const c_void = ptr::from_ref(&most).cast();
        // SAFETY: the value is of the attribute's type, and is copied before the call returns.
        let set =
            unsafe { (self.functions.set_preference)(at, MOST_WORKSPACE, value, size_of::<u64>()) };
        checked("a preference", set)?;
        let (algorithm, reserved, room) = (([0; 16], 0), [0; 4], [0; 32]);
        let mut way = Way { algorithm, workspace: 0, state: 0, waves: 0.0, reserved, room };
        let mut found = 0;
        // SAFETY: it writes one way at most, and how many there are; what is described lives.
        let asked = unsafe {
            (self.functions.ways)(
                self.handle,
                made.product,
                w,
                x,
                added,
                y,
                made.preference,
                1,
                &mut way,
                &mut found,
            )
        };
        let what = format!(
            "a product of {} rows, {} columns and {} products of {:?} each",
            form.rows, form.columns, form.k, form.floats
        );
        checked(&what, asked)?;
        checked(&what, way.state)?;
        if found < 1 || way.workspace > WORKSPACE {
            let e = Error::new(Code::Unsupported, format!("hipBLASLt has no way to make {what}"));
            return Err(e.hint("without this library RLX's own kernels multiply"));
        }
        Ok(way)
    }

    /// Queues a product.
    ///
    /// # Errors
    /// `Internal` with the library's word.
    pub fn queue(&self, card: &Card, form: &Form, way: &Way, at: &Addresses) -> Result<()> {
        let (made, [w, x, added, y]) = self.describe(form, at.bias)?;
        let (alpha, beta) = (1.0f32, if at.residual.is_some() { 1.0f32 } else { 0.0 });
        card.bind()?;
        // SAFETY: numbers of the host are read before the call returns; the matrices have as many bytes as is said, in
        // memory that lives until the list is dropped and what is queued has run.
        let queued = unsafe {
            (self.functions.multiply)(
                self.handle,
                made.product,
                ptr::from_ref(&alpha).cast(),
                at.w,
                w,
                at.x,
                x,
                ptr::from_ref(&beta).cast(),
                at.residual.unwrap_or(at.y),
                added,
                at.y,
                y,
                ptr::from_ref(&way.algorithm).cast(),
                card.address(&self.workspace, 0, WORKSPACE as u64)?,
                WORKSPACE,
                card.stream(),
            )
        };
        checked("a product", queued)
    }

    /// The way of a product that was made before, or that is made now, with its result in memory that nobody reads.
    fn known(&self, card: &Card, form: &Form, at: &Addresses) -> Result<Way> {
        if let Some(way) = self.ways.lock().get(form) {
            return Ok(*way);
        }
        let way = self.way(form, at.bias)?;
        // Without memory for it, the first one is made where it is asked for.
        if let Ok(memory) = card.memory(form.bytes()[2]) {
            let y = card.address(&memory, 0, form.bytes()[2])?;
            let at = Addresses { y, residual: at.residual.map(|_| y), ..*at };
            let queued = self.queue(card, form, &way, &at);
            // The memory is free once this has run.
            card.synchronize()?;
            queued?;
        }
        self.ways.lock().insert(*form, way);
        Ok(way)
    }
}

/// Rows of a result of so many bytes each that the library makes at a time, one at least.
fn rows_at_a_time(a_row: u64) -> u32 {
    u32::try_from(MOST_RESULT / a_row.max(1)).unwrap_or(u32::MAX).max(1)
}

impl Hip {
    /// The parts of a product that the library has at a time, and their addresses.
    fn parts(&self, p: &Product) -> Result<Vec<(Form, Addresses)>> {
        let buffers = self.buffers.lock();
        let of = |at: At, bytes: u64| {
            let buffer = buffers.get(&at.buffer).ok_or_else(|| missing("buffer", at.buffer))?;
            self.card.address(buffer, at.offset, bytes)
        };
        let whole = Form::of(p);
        if [p.rows, p.columns, p.k].contains(&0) {
            return Err(Error::internal("a product without elements"));
        }
        let a_row = whole.floats.bytes() * u64::from(p.columns);
        let most = rows_at_a_time(a_row);
        let mut parts = Vec::new();
        for first in (0..p.rows).step_by(most as usize) {
            let form = Form { rows: most.min(p.rows - first), ..whole };
            let [x, w, y, bias] = form.bytes();
            let from = |at: At, row: u64| At { offset: at.offset + u64::from(first) * row, ..at };
            let at = Addresses {
                x: of(from(p.x, 2 * u64::from(p.k)), x)?,
                w: of(p.w, w)?,
                y: of(from(p.y, a_row), y)?,
                bias: p.bias.map(|at| of(at, bias)).transpose()?,
                residual: p.residual.map(|at| of(from(at, a_row), y)).transpose()?,
            };
            parts.push((form, at));
        }
        Ok(parts)
    }

    fn library(&self) -> Result<&Library> {
        self.library.as_ref().ok_or_else(|| Error::internal("a product without a library"))
    }

    /// Makes a product once, so that a recording finds all that it needs.
    pub(super) fn prepare(&self, p: &Product) -> Result<()> {
        let library = self.library()?;
        for (form, at) in self.parts(p)? {
            library.known(&self.card, &form, &at)?;
        }
        Ok(())
    }

    pub(super) fn product(&self, p: &Product) -> Result<()> {
        let library = self.library()?;
        for (form, at) in self.parts(p)? {
            let way = library.known(&self.card, &form, &at)?;
            library.queue(&self.card, &form, &way, &at)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_a_gigabyte_are_made_in_parts() {
        for (a_row, rows) in [
            (2 * 8, 1 << 26),
            (4 * 128_256, 2092),
            (4, 1 << 28),
            (1 << 31, 1),
            (u64::MAX, 1),
            (0, 1 << 30),
        ] {
            assert_eq!(rows_at_a_time(a_row), rows, "{a_row}");
        }
    }
}
