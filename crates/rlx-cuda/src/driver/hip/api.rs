//! The functions of HIP that the driver calls, found in AMD's libraries when a device is asked for.
//!
//! Signatures and numbers are those of `hip_runtime_api.h`, `driver_types.h` and `hiprtc.h` of HIP 5.2.3 (Debian's
//! `libamdhip64-dev`); numbers of errors were compared with `hip_runtime_api.h` of ROCm 7 (rocm-systems 003a5d1). Those
//! of hipBLASLt are of its `hipblaslt.h` (ROCm/hipBLASLt 4a8a787). Every function but those that give a text returns a
//! number of `hipError_t`, `hiprtcResult` or `hipblasStatus_t`.

#![allow(unsafe_code)]

use libloading::Library;
use std::env;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::{Path, PathBuf};
use std::ptr;

/// A number of `hipError_t`, of `hiprtcResult` or of `hipblasStatus_t`.
pub(super) type Status = c_int;
/// `hipSuccess`, `HIPRTC_SUCCESS` and `HIPBLAS_STATUS_SUCCESS`.
pub(super) const SUCCESS: Status = 0;
/// `hipErrorOutOfMemory`.
pub(super) const OUT_OF_MEMORY: Status = 2;
/// `hipErrorNotInitialized`, `hipErrorInsufficientDriver`, `hipErrorNoDevice` and `hipErrorInvalidDevice`.
pub(super) const UNAVAILABLE: [Status; 4] = [3, 35, 100, 101];
/// `hipErrorNotReady`.
pub(super) const NOT_READY: Status = 600;
/// `hipMemcpyHostToDevice`, `hipMemcpyDeviceToHost` and `hipMemcpyDeviceToDevice` of `hipMemcpyKind`.
pub(super) const TO_DEVICE: c_int = 1;
pub(super) const TO_HOST: c_int = 2;
pub(super) const BETWEEN: c_int = 3;
/// `hipStreamNonBlocking`: the stream waits for no other.
pub(super) const NON_BLOCKING: c_uint = 1;
/// `hipEventDisableTiming`.
pub(super) const WITHOUT_TIME: c_uint = 2;
/// `hipEventDefault`.
pub(super) const WITH_TIME: c_uint = 0;
/// `hipHostMallocDefault`.
pub(super) const PINNED: c_uint = 0;
/// `hipStreamCaptureModeRelaxed`.
pub(super) const RELAXED: c_int = 2;

/// What HIP names by an address: a stream, an event, a module, a function, a graph, a place in memory.
pub(super) type Handle = *mut c_void;

/// A struct of a library's functions by their symbols, and how it is read from the library.
macro_rules! functions {
    ($name:ident { $($field:ident = $symbol:literal($($argument:ty),*) -> $answer:ty;)* }) => {
        pub(super) struct $name {
            $(pub $field: unsafe extern "C" fn($($argument),*) -> $answer,)*
        }

        impl $name {
            /// The functions of a library, or the name of the one that it lacks.
            fn of(library: &Library) -> Result<Self, &'static str> {
                // SAFETY: the types are those of AMD's headers.
                $(let $field = *unsafe { library.get($symbol) }.map_err(|_| $symbol)?;)*
                Ok($name { $($field,)* })
            }
        }
    };
}

functions!(Runtime {
    init = "hipInit"(c_uint) -> Status;
    device_count = "hipGetDeviceCount"(*mut c_int) -> Status;
    set_device = "hipSetDevice"(c_int) -> Status;
    device = "hipDeviceGet"(*mut c_int, c_int) -> Status;
    device_name = "hipDeviceGetName"(*mut c_char, c_int, c_int) -> Status;
    total_memory = "hipDeviceTotalMem"(*mut usize, c_int) -> Status;
    version = "hipRuntimeGetVersion"(*mut c_int) -> Status;
    error_text = "hipGetErrorString"(Status) -> *const c_char;
    allocate = "hipMalloc"(*mut Handle, usize) -> Status;
    free = "hipFree"(Handle) -> Status;
    allocate_host = "hipHostMalloc"(*mut Handle, usize, c_uint) -> Status;
    free_host = "hipHostFree"(Handle) -> Status;
    set_bytes = "hipMemsetAsync"(Handle, c_int, usize, Handle) -> Status;
    copy = "hipMemcpyAsync"(Handle, *const c_void, usize, c_int, Handle) -> Status;
    create_stream = "hipStreamCreateWithFlags"(*mut Handle, c_uint) -> Status;
    destroy_stream = "hipStreamDestroy"(Handle) -> Status;
    synchronize = "hipStreamSynchronize"(Handle) -> Status;
    create_event = "hipEventCreateWithFlags"(*mut Handle, c_uint) -> Status;
    destroy_event = "hipEventDestroy"(Handle) -> Status;
    record_event = "hipEventRecord"(Handle, Handle) -> Status;
    query_event = "hipEventQuery"(Handle) -> Status;
    elapsed = "hipEventElapsedTime"(*mut f32, Handle, Handle) -> Status;
    wait_for_event = "hipEventSynchronize"(Handle) -> Status;
    begin_capture = "hipStreamBeginCapture"(Handle, c_int) -> Status;
    end_capture = "hipStreamEndCapture"(Handle, *mut Handle) -> Status;
    instantiate = "hipGraphInstantiate"(*mut Handle, Handle, *mut Handle, *mut c_char, usize) -> Status;
    launch_graph = "hipGraphLaunch"(Handle, Handle) -> Status;
    destroy_graph = "hipGraphDestroy"(Handle) -> Status;
    destroy_executable = "hipGraphExecDestroy"(Handle) -> Status;
    load_module = "hipModuleLoadData"(*mut Handle, *const c_void) -> Status;
    unload_module = "hipModuleUnload"(Handle) -> Status;
    function = "hipModuleGetFunction"(*mut Handle, Handle, *const c_char) -> Status;
    launch = "hipModuleLaunchKernel"(
        Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *mut Handle, *mut Handle
    ) -> Status;
});

functions!(Compiler {
    version = "hiprtcVersion"(*mut c_int, *mut c_int) -> Status;
    error_text = "hiprtcGetErrorString"(Status) -> *const c_char;
    create = "hiprtcCreateProgram"(
        *mut Handle, *const c_char, *const c_char, c_int, *mut *const c_char, *mut *const c_char
    ) -> Status;
    compile = "hiprtcCompileProgram"(Handle, c_int, *mut *const c_char) -> Status;
    destroy = "hiprtcDestroyProgram"(*mut Handle) -> Status;
    log_size = "hiprtcGetProgramLogSize"(Handle, *mut usize) -> Status;
    log = "hiprtcGetProgramLog"(Handle, *mut c_char) -> Status;
    code_size = "hiprtcGetCodeSize"(Handle, *mut usize) -> Status;
    code = "hiprtcGetCode"(Handle, *mut c_char) -> Status;
});

/// What hipBLASLt says of a way to make a product (`hipblasLtMatmulHeuristicResult_t`).
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Way {
    /// `hipblasLtMatmulAlgo_t`: what the library knows it by, and the memory that it was allowed.
    pub algorithm: ([u8; 16], usize),
    pub workspace: usize,
    pub state: Status,
    pub waves: f32,
    pub reserved: [c_int; 4],
    /// Room for what a later version has behind these.
    pub room: [u64; 32],
}

functions!(Products {
    create = "hipblasLtCreate"(*mut Handle) -> Status;
    destroy = "hipblasLtDestroy"(Handle) -> Status;
    version = "hipblasLtGetVersion"(Handle, *mut c_int) -> Status;
    create_matrix = "hipblasLtMatrixLayoutCreate"(*mut Handle, c_int, u64, u64, i64) -> Status;
    destroy_matrix = "hipblasLtMatrixLayoutDestroy"(Handle) -> Status;
    create_product = "hipblasLtMatmulDescCreate"(*mut Handle, c_int, c_int) -> Status;
    destroy_product = "hipblasLtMatmulDescDestroy"(Handle) -> Status;
    set_product = "hipblasLtMatmulDescSetAttribute"(Handle, c_int, *const c_void, usize) -> Status;
    create_preference = "hipblasLtMatmulPreferenceCreate"(*mut Handle) -> Status;
    destroy_preference = "hipblasLtMatmulPreferenceDestroy"(Handle) -> Status;
    set_preference = "hipblasLtMatmulPreferenceSetAttribute"(Handle, c_int, *const c_void, usize) -> Status;
    ways = "hipblasLtMatmulAlgoGetHeuristic"(
        Handle, Handle, Handle, Handle, Handle, Handle, Handle, c_int, *mut Way, *mut c_int
    ) -> Status;
    multiply = "hipblasLtMatmul"(
        Handle, Handle, *const c_void, *const c_void, Handle, *const c_void, Handle, *const c_void,
        *const c_void, Handle, Handle, Handle, *const c_void, Handle, usize, Handle
    ) -> Status;
});

/// Where the libraries are.
pub(super) struct Paths {
    pub runtime: Vec<PathBuf>,
    pub compiler: Vec<PathBuf>,
    pub products: Vec<PathBuf>,
}

impl Paths {
    /// Where installers put them: where the system looks, then `ROCM_PATH`, then `/opt/rocm`.
    pub fn usual() -> Paths {
        if cfg!(windows) {
            let of = |names: Vec<String>| names.into_iter().map(PathBuf::from).collect();
            // The compiler's name has its version: 5.5 to 7.9.
            let versions =
                (5..=7).rev().flat_map(|major| (0..10).rev().map(move |minor| (major, minor)));
            return Paths {
                runtime: of(["_7", "_6", ""].map(|n| format!("amdhip64{n}.dll")).into()),
                compiler: of(versions.map(|(a, b)| format!("hiprtc{a:02}{b:02}.dll")).collect()),
                products: of(["libhipblaslt.dll".into(), "hipblaslt.dll".into()].into()),
            };
        }
        let folders =
            [Some(PathBuf::new()), env::var_os("ROCM_PATH").map(|p| Path::new(&p).join("lib"))];
        let folders: Vec<PathBuf> =
            folders.into_iter().flatten().chain([PathBuf::from("/opt/rocm/lib")]).collect();
        let of = |stem: &str, ends: &[&str]| -> Vec<PathBuf> {
            let names: Vec<String> = ends.iter().map(|n| format!("{stem}.so{n}")).collect();
            folders.iter().flat_map(|folder| names.iter().map(|n| folder.join(n))).collect()
        };
        // Before HIP 5.3 the runtime had the compiler in itself.
        let ends = ["", ".7", ".6", ".5"];
        let (runtime, compiler) = (of("libamdhip64", &ends), of("libhiprtc", &ends));
        // ROCm 7 has its first version, ROCm 6 those before.
        let products = of("libhipblaslt", &["", ".1", ".0"]);
        Paths { compiler: [compiler, runtime.clone()].concat(), runtime, products }
    }
}

/// The first of them that can be loaded.
fn open(paths: &[PathBuf]) -> Option<Library> {
    // SAFETY: loading a system library runs its initialisers, which is what a driver is for.
    paths.iter().find_map(|path| unsafe { Library::new(path) }.ok())
}

/// `hipGetDeviceProperties`, which fills a structure of the library's version.
type Properties = unsafe extern "C" fn(*mut c_void, c_int) -> Status;

/// Bytes that the structure has at most: 1,472 in HIP 6.
const PROPERTIES: usize = 16 << 10;

fn lacks(what: &str, symbol: &str) -> String {
    format!("{what} is too old: it has no {symbol}")
}

/// AMD's libraries.
pub(super) struct Api {
    pub runtime: Runtime,
    pub compiler: Compiler,
    properties: Properties,
}

impl Api {
    /// Loads them, or says what is missing.
    pub fn load(paths: &Paths) -> Result<Api, String> {
        let library = open(&paths.runtime)
            .ok_or("AMD's HIP runtime was not found (libamdhip64.so or amdhip64.dll)")?;
        let runtime = Runtime::of(&library).map_err(|s| lacks("AMD's HIP runtime", s))?;
        // HIP 6 has its structure behind a name of its own, and the older one behind the plain name.
        let names = ["hipGetDevicePropertiesR0600", "hipGetDeviceProperties"];
        // SAFETY: both have this type in AMD's headers.
        let found = names.iter().find_map(|name| unsafe { library.get::<Properties>(*name) }.ok());
        let properties = *found.ok_or_else(|| lacks("AMD's HIP runtime", names[1]))?;
        let compiler = Compiler::load(paths)?;
        // It stays as long as the process does: it has threads of its own.
        std::mem::forget(library);
        Ok(Api { runtime, compiler, properties })
    }

    /// The bytes of `hipDeviceProp_t` of a device, in the layout of the library's version.
    pub fn properties(&self, device: c_int) -> Result<Vec<u8>, Status> {
        // As aligned as any of its fields.
        let mut words = vec![0u64; PROPERTIES / 8];
        // SAFETY: the structure is shorter than this memory, in every version.
        match unsafe { (self.properties)(words.as_mut_ptr().cast(), device) } {
            SUCCESS => Ok(words.iter().flat_map(|word| word.to_ne_bytes()).collect()),
            status => Err(status),
        }
    }
}

impl Products {
    /// Loads the library of products; none where it is not installed, or is too old.
    pub fn load(paths: &Paths) -> Option<Products> {
        let library = open(&paths.products)?;
        let products = Products::of(&library).ok()?;
        // As the runtime.
        std::mem::forget(library);
        Some(products)
    }
}

impl Runtime {
    /// What a status means.
    pub fn text(&self, status: Status) -> String {
        // SAFETY: the text is the library's own and ends with a zero.
        unsafe { text_of((self.error_text)(status), status) }
    }
}

impl Compiler {
    /// Loads the compiler alone, or says what is missing.
    pub fn load(paths: &Paths) -> Result<Compiler, String> {
        let library = open(&paths.compiler)
            .ok_or("AMD's run-time compiler was not found (libhiprtc.so or hiprtc0600.dll)")?;
        let compiler = Compiler::of(&library).map_err(|s| lacks("AMD's run-time compiler", s))?;
        // As the runtime.
        std::mem::forget(library);
        Ok(compiler)
    }

    /// What a status means.
    pub fn text(&self, status: Status) -> String {
        // SAFETY: as for the runtime.
        unsafe { text_of((self.error_text)(status), status) }
    }

    /// Its version, or zeros.
    pub fn numbers(&self) -> [c_int; 2] {
        let [mut major, mut minor] = [0; 2];
        // SAFETY: it writes two numbers.
        let _ = unsafe { (self.version)(ptr::from_mut(&mut major), ptr::from_mut(&mut minor)) };
        [major, minor]
    }
}

/// # Safety
/// The text ends with a zero, if it is not null.
unsafe fn text_of(text: *const c_char, status: Status) -> String {
    if text.is_null() {
        return format!("error {status}");
    }
    // SAFETY: the caller's.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
