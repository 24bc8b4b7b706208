//! MLX by C's calling convention, and its arrays and programs as values that free themselves.
//!
//! MLX's graphs belong to the thread that makes them, so none of these leaves its thread: they are neither `Send` nor
//! `Sync`, because of their pointers.

#![allow(unsafe_code)]

mod compile;
pub mod find;

use find::Installed;
use libloading::Library;
use rlx_core::{Code, Error, Result};
use std::ffi::{c_char, c_int, c_void};
use std::mem;
use std::ptr;
use std::rc::Rc;

/// Bytes of an error's text.
const ROOM: usize = 1 << 10;

/// A pointer to a C++ object.
type Object = *mut c_void;

/// Reads the functions of the library by name.
macro_rules! functions {
    ($($name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        struct Functions { $($name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)* }

        impl Functions {
            fn of(library: &Library) -> Result<Functions> {
                Ok(Functions {
                    $($name: {
                        let name = concat!("rlx_mlx_", stringify!($name));
                        // SAFETY: the library was compiled of shim.cpp, whose function of that name has this type.
                        let found = unsafe { library.get(name.as_bytes()) };
                        *found.map_err(|e| lost(format!("the MLX shim has no {name}: {e}")))?
                    },)*
                })
            }
        }
    };
}

functions! {
    version: fn(*mut c_char, usize) -> c_int;
    device: fn(c_int, *mut c_char, usize) -> c_int;
    upload: fn(i64, *const i64, usize, *const c_void, usize, *mut Object, *mut c_char, usize) -> c_int;
    free: fn(Object);
    program: fn(*const i64, usize, c_int, *mut Object, *mut c_char, usize) -> c_int;
    program_free: fn(Object);
    run: fn(Object, *mut Object, *const u8, usize, *mut Object, usize, *mut c_char, usize) -> c_int;
    read: fn(Object, *mut Object, *mut c_char, usize) -> c_int;
    bytes: fn(Object, c_int, *mut *const c_void, *mut usize, *mut c_char, usize) -> c_int;
}

fn lost(what: String) -> Error {
    Error::new(Code::DeviceLost, what)
}

/// The text that a call has left.
fn text(buffer: &[u8]) -> String {
    let end = buffer.iter().position(|&b| b == 0).unwrap_or(buffer.len());
    String::from_utf8_lossy(&buffer[..end]).into_owned()
}

/// The error of a call, by MLX's text of it.
fn failed(buffer: &[u8]) -> Error {
    let what = text(buffer);
    let memory = ["allocate", "out of memory", "bad_alloc"].iter().any(|s| what.contains(s));
    Error::new(if memory { Code::OutOfMemory } else { Code::DeviceLost }, format!("MLX: {what}"))
}

/// The shim, loaded.
pub(crate) struct Shim {
    functions: Functions,
    /// The device that computes.
    pub device: String,
    /// The version of MLX.
    pub version: String,
    /// Behind the functions, which end with it.
    _library: Library,
}

/// An array of MLX.
pub(crate) struct Array {
    object: Object,
    shim: Rc<Shim>,
}

impl Drop for Array {
    fn drop(&mut self) {
        // SAFETY: the object is an array of this shim, which nothing else frees; null is allowed.
        unsafe { (self.shim.functions.free)(self.object) }
    }
}

/// A tape that MLX runs.
pub(crate) struct Program {
    object: Object,
    shim: Rc<Shim>,
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: the object is a program of this shim, which nothing else frees.
        unsafe { (self.shim.functions.program_free)(self.object) }
    }
}

impl Shim {
    /// Compiles the shim if need be, and loads it and MLX. `cpu`: the CPU, even where there is a GPU.
    ///
    /// # Errors
    /// `Unsupported` where that fails.
    pub(crate) fn load(mlx: &Installed, cpu: bool) -> Result<Rc<Shim>> {
        let file = compile::library(mlx)?;
        // SAFETY: the library is our own text; loading runs its and MLX's initialisers alone.
        let library = unsafe { Library::new(&file) };
        let library = library.map_err(|e| {
            let what = format!("MLX in {} does not load: {e}", mlx.library.display());
            Error::new(Code::DeviceUnavailable, what)
        })?;
        let functions = Functions::of(&library)?;
        let mut buffer = [0u8; ROOM];
        // SAFETY: the function writes at most so many bytes into the buffer.
        let same = unsafe { (functions.version)(buffer.as_mut_ptr().cast(), buffer.len()) };
        let version = text(&buffer);
        if same == 0 {
            let headers = mlx.version.map(|n| n.to_string()).join(".");
            let what = format!("MLX's headers are {headers} and its library is {version}");
            return Err(Error::new(Code::DeviceUnavailable, what).hint("install MLX anew"));
        }
        // SAFETY: as above.
        let rc =
            unsafe { (functions.device)(cpu.into(), buffer.as_mut_ptr().cast(), buffer.len()) };
        if rc != 0 {
            return Err(failed(&buffer));
        }
        let device = text(&buffer);
        Ok(Rc::new(Shim { functions, device, version, _library: library }))
    }

    fn array(self: &Rc<Self>, object: Object) -> Array {
        Array { object, shim: Rc::clone(self) }
    }

    /// An array of bytes, which are copied.
    ///
    /// # Errors
    /// `OutOfMemory`; `DeviceLost` for bytes that do not fit the sizes.
    pub(crate) fn upload(self: &Rc<Self>, dtype: i64, dims: &[i64], bytes: &[u8]) -> Result<Array> {
        let (mut object, mut error) = (ptr::null_mut(), [0u8; ROOM]);
        // SAFETY: every pointer is of a slice with the length beside it, and lives through the call.
        let rc = unsafe {
            (self.functions.upload)(
                dtype,
                dims.as_ptr(),
                dims.len(),
                bytes.as_ptr().cast(),
                bytes.len(),
                &mut object,
                error.as_mut_ptr().cast(),
                error.len(),
            )
        };
        if rc == 0 { Ok(self.array(object)) } else { Err(failed(&error)) }
    }

    /// A program of a tape's words. `compile`: traced by MLX's own compiler when it first runs.
    ///
    /// # Errors
    /// `DeviceLost` for words that are no tape.
    pub(crate) fn program(self: &Rc<Self>, words: &[i64], compile: bool) -> Result<Program> {
        let (mut object, mut error) = (ptr::null_mut(), [0u8; ROOM]);
        // SAFETY: every pointer is of a slice with the length beside it, and lives through the call.
        let rc = unsafe {
            (self.functions.program)(
                words.as_ptr(),
                words.len(),
                compile.into(),
                &mut object,
                error.as_mut_ptr().cast(),
                error.len(),
            )
        };
        if rc == 0 { Ok(Program { object, shim: Rc::clone(self) }) } else { Err(failed(&error)) }
    }

    /// Queues a program: its results, which may not be there yet. Memory of given arguments may become a result's.
    ///
    /// # Errors
    /// `OutOfMemory`; `DeviceLost` with what MLX says.
    pub(crate) fn run(
        self: &Rc<Self>,
        program: &Program,
        arguments: Vec<Argument>,
        results: usize,
    ) -> Result<Vec<Array>> {
        let given: Vec<u8> =
            arguments.iter().map(|a| u8::from(matches!(a, Argument::Given(_)))).collect();
        let mut shared = Vec::new();
        let mut objects: Vec<Object> = Vec::with_capacity(arguments.len());
        for argument in arguments {
            objects.push(match argument {
                Argument::Shared(array) => {
                    shared.push(array);
                    shared[shared.len() - 1].object
                }
                // The call frees it.
                Argument::Given(mut array) => mem::replace(&mut array.object, ptr::null_mut()),
            });
        }
        let (mut made, mut error) = (vec![ptr::null_mut(); results], [0u8; ROOM]);
        // SAFETY: the program and the arrays are of this shim and alive, `shared` until after the call; the lists have
        // the lengths beside them.
        let rc = unsafe {
            (self.functions.run)(
                program.object,
                objects.as_mut_ptr(),
                given.as_ptr(),
                objects.len(),
                made.as_mut_ptr(),
                made.len(),
                error.as_mut_ptr().cast(),
                error.len(),
            )
        };
        drop(shared);
        if rc != 0 {
            return Err(failed(&error));
        }
        Ok(made.into_iter().map(|object| self.array(object)).collect())
    }
}

/// An argument of a run.
pub(crate) enum Argument {
    /// Others have it too.
    Shared(Rc<Array>),
    /// Nobody else has it.
    Given(Array),
}

impl Array {
    /// Begins to bring the array into the order of its rows, for [`bytes`](Self::bytes).
    ///
    /// # Errors
    /// As [`Shim::run`].
    pub(crate) fn rows(&self) -> Result<Array> {
        let (mut object, mut error) = (ptr::null_mut(), [0u8; ROOM]);
        // SAFETY: the array is alive, and the buffer has the length beside it.
        let rc = unsafe {
            let room = error.len();
            (self.shim.functions.read)(self.object, &mut object, error.as_mut_ptr().cast(), room)
        };
        if rc == 0 { Ok(self.shim.array(object)) } else { Err(failed(&error)) }
    }

    /// The bytes of an array that was uploaded or is in the order of its rows: nothing where they are not there yet,
    /// and `wait` is false.
    ///
    /// # Errors
    /// What its computation failed with.
    pub(crate) fn bytes(&self, wait: bool) -> Result<Option<&[u8]>> {
        let (mut at, mut length, mut error) = (ptr::null(), 0, [0u8; ROOM]);
        // SAFETY: the array is alive, and the buffer has the length beside it.
        let rc = unsafe {
            let room = error.len();
            (self.shim.functions.bytes)(
                self.object,
                wait.into(),
                &mut at,
                &mut length,
                error.as_mut_ptr().cast(),
                room,
            )
        };
        match rc {
            0 if length == 0 => Ok(Some(&[])),
            // SAFETY: these are the array's bytes, which stay as they are while it lives: a run may write to the memory
            // of an array that was given to it alone.
            0 => Ok(Some(unsafe { std::slice::from_raw_parts(at.cast::<u8>(), length) })),
            2 => Ok(None),
            _ => Err(failed(&error)),
        }
    }
}
