//! From a kernel's text to code, by hiprtc.

#![allow(unsafe_code)]

use super::api::{Compiler, Handle, SUCCESS, Status};
use rlx_core::{Error, Result};
use std::ffi::{CString, c_char};
use std::ptr;

/// A program of the compiler, which is freed with it.
struct Program<'a> {
    compiler: &'a Compiler,
    handle: Handle,
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        // SAFETY: it was made by `create` and is freed here alone.
        let _ = unsafe { (self.compiler.destroy)(&mut self.handle) };
    }
}

fn text(s: &str) -> Result<CString> {
    CString::new(s).map_err(|_| Error::internal("a text with a zero in it"))
}

impl Program<'_> {
    fn checked(&self, what: &str, status: Status) -> Result<()> {
        if status == SUCCESS {
            return Ok(());
        }
        Err(Error::internal(format!("hiprtc: {what}: {}", self.compiler.text(status))))
    }

    /// What the compiler said.
    fn log(&self) -> String {
        let mut size = 0;
        // SAFETY: it writes a number.
        if unsafe { (self.compiler.log_size)(self.handle, &mut size) } != SUCCESS || size == 0 {
            return String::new();
        }
        let mut bytes = vec![0u8; size];
        // SAFETY: it writes as many bytes as it said.
        let got = unsafe { (self.compiler.log)(self.handle, bytes.as_mut_ptr().cast()) };
        let end = bytes.iter().position(|b| *b == 0).unwrap_or(size);
        if got == SUCCESS {
            String::from_utf8_lossy(&bytes[..end]).trim().into()
        } else {
            String::new()
        }
    }
}

/// Compiles a text that has the function `entry`.
///
/// # Errors
/// `Internal` with what the compiler says.
pub(super) fn compile(
    compiler: &Compiler,
    source: &str,
    entry: &str,
    options: &[String],
) -> Result<Vec<u8>> {
    let (source, name) = (text(source)?, text(&format!("{entry}.hip"))?);
    let options: Vec<CString> = options.iter().map(|s| text(s)).collect::<Result<_>>()?;
    let mut options: Vec<*const c_char> = options.iter().map(|s| s.as_ptr()).collect();
    let mut program = Program { compiler, handle: ptr::null_mut() };
    // SAFETY: the texts live until the call returns, in which the compiler copies them; there are no headers.
    let made = unsafe {
        (compiler.create)(
            &mut program.handle,
            source.as_ptr(),
            name.as_ptr(),
            0,
            ptr::null_mut(),
            ptr::null_mut(),
        )
    };
    if made != SUCCESS {
        let what = format!("hiprtc does not begin with {entry}: {}", compiler.text(made));
        // There is nothing to free.
        std::mem::forget(program);
        return Err(Error::internal(what));
    }
    // SAFETY: as many options as are said, which live until the call returns.
    let done =
        unsafe { (compiler.compile)(program.handle, options.len() as i32, options.as_mut_ptr()) };
    if done != SUCCESS {
        let what = format!("the compiler does not take the kernel {entry}: {}", program.log());
        return Err(Error::internal(what));
    }
    let mut size = 0;
    // SAFETY: it writes a number.
    program.checked("code", unsafe { (compiler.code_size)(program.handle, &mut size) })?;
    let mut code = vec![0u8; size];
    // SAFETY: it writes as many bytes as it said.
    let got = unsafe { (compiler.code)(program.handle, code.as_mut_ptr().cast()) };
    program.checked("code", got)?;
    Ok(code)
}
