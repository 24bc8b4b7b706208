//! The library that stands for AMD's, compiled and loaded.

#![allow(unsafe_code)]

use crate::common::TestDevice;
use libloading::Library;
use rlx_core::plan::hash;
use rlx_cuda::CudaDevice;
use rlx_cuda::driver::Driver;
use rlx_cuda::driver::hip::Hip;
use std::ffi::{CStr, c_char, c_int};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The library that stands for AMD's. One test at a time has one: the emulator's state is the process's.
pub struct Fake {
    /// Its file.
    pub path: PathBuf,
    library: Library,
    _alone: MutexGuard<'static, ()>,
}

/// Its sources, and where what is compiled is kept from one run to the next.
fn places() -> [PathBuf; 2] {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests").canonicalize().unwrap();
    let names = [
        "hip/fake.cpp",
        "hip/card.cpp",
        "hip/gcn.h",
        "hip/products.h",
        "emulator/block.cpp",
        "emulator/block.h",
        "emulator/cuda.h",
    ];
    let texts = names.map(|name| fs::read_to_string(tests.join(name)).unwrap());
    let version = hash(texts.iter().map(String::as_str));
    let work = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("hip-{version:016x}"));
    fs::create_dir_all(&work).unwrap();
    [tests, work]
}

/// Compiles with these arguments to a file, which is whole when it is there.
fn compiled(to: &Path, arguments: impl FnOnce(&mut Command)) {
    let unfinished = to.with_extension(std::process::id().to_string());
    let mut command = Command::new("g++");
    command.args(["-std=c++17", "-O1", "-g1", "-Wall", "-Wextra", "-Werror", "-fPIC"]);
    arguments(&mut command);
    let done = command.arg("-o").arg(&unfinished).output().expect("g++");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    fs::rename(&unfinished, to).unwrap();
}

impl Drop for Fake {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("noted: {}", self.faults());
        }
    }
}

impl Fake {
    /// A card of this architecture; `old`: by a runtime before HIP 6.
    pub fn new(arch: &str, old: bool) -> Fake {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let [tests, work] = places();
        let path = work.join(format!("libfake-{arch}-{old}.so").replace(':', "_"));
        if !path.exists() {
            let object = work.join("fake.o");
            if !object.exists() {
                compiled(&object, |command| {
                    command.args(["-c"]);
                    command.arg(format!("-DFAKE_SOURCES=\"{}\"", tests.display()));
                    command.arg(format!("-DFAKE_WORK=\"{}\"", work.display()));
                    command.arg(tests.join("hip/fake.cpp"));
                });
            }
            compiled(&path, |command| {
                command.args(["-shared", &format!("-DFAKE_ARCH=\"{arch}\"")]);
                command.args(old.then_some("-DFAKE_OLD"));
                command.arg(tests.join("hip/card.cpp")).arg(&object).args(["-ldl", "-lm"]);
            });
        }
        // SAFETY: its initialisers do nothing but begin its own tables.
        let library = unsafe { Library::new(&path) }.unwrap();
        let fake = Fake { path, library, _alone: alone };
        // What a test left that failed before.
        fake.faults();
        fake
    }

    pub fn text(&self, function: &str) -> String {
        // SAFETY: both functions that are asked for here give a text that ends with a zero.
        unsafe {
            let f = self.library.get::<unsafe extern "C" fn() -> *const c_char>(function).unwrap();
            CStr::from_ptr(f()).to_str().unwrap().to_owned()
        }
    }

    pub fn number(&self, function: &str) -> u64 {
        // SAFETY: both functions that are asked for here give a number.
        unsafe { self.library.get::<unsafe extern "C" fn() -> u64>(function).unwrap()() }
    }

    /// What was done wrong since the last time.
    pub fn faults(&self) -> String {
        self.text("fake_faults")
    }

    /// Every call that queues or waits answers so.
    pub fn lose(&self, status: c_int) {
        // SAFETY: it takes a number.
        unsafe { self.library.get::<unsafe extern "C" fn(c_int)>("fake_lose").unwrap()(status) }
    }

    /// Calls one of HIP's functions, whose arguments are numbers and addresses, at most so many.
    pub fn call(&self, function: &str, arguments: [usize; 5]) -> c_int {
        type Function = unsafe extern "C" fn(usize, usize, usize, usize, usize) -> c_int;
        let [a, b, c, d, e] = arguments;
        // SAFETY: arguments that a function does not have are in registers that it does not read; what is wrong with
        // the others it notes before it uses them.
        unsafe { self.library.get::<Function>(function).unwrap()(a, b, c, d, e) }
    }

    /// The same for one that writes a handle first.
    pub fn make(&self, function: &str, [b, c]: [usize; 2]) -> usize {
        let mut made = 0usize;
        assert_eq!(self.call(function, [std::ptr::from_mut(&mut made).addr(), b, c, 0, 0]), 0);
        made
    }

    /// The same for one that writes it second.
    pub fn make_second(&self, function: &str, a: usize) -> usize {
        let mut made = 0usize;
        assert_eq!(self.call(function, [a, std::ptr::from_mut(&mut made).addr(), 0, 0, 0]), 0);
        made
    }

    /// What the library of products lacks from now on: `products.h` has the numbers.
    pub fn products_lack(&self, what: c_int) {
        // SAFETY: it takes a number.
        unsafe {
            self.library.get::<unsafe extern "C" fn(c_int)>("fake_products_lack").unwrap()(what)
        }
    }

    /// The second card, without hipBLASLt: a thread that does not choose it has the first.
    pub fn driver(&self) -> Hip {
        self.open(false)
    }

    fn open(&self, products: bool) -> Hip {
        let ([_, work], paths) = (places(), [self.path.as_path(); 2]);
        let products = products.then_some(paths[0]);
        Hip::with_libraries(paths, products, 1, Some(work.join("code"))).unwrap()
    }

    /// The executor over it, without hipBLASLt or with it.
    pub fn device(&self, products: bool) -> Arc<TestDevice> {
        let driver: Box<dyn Driver> = Box::new(self.open(products));
        Arc::new(CudaDevice::with_target(driver, rlx_cuda::rocm_target()))
    }

    /// Nothing was done wrong, and everything was freed.
    #[track_caller]
    pub fn is_content(&self) {
        assert_eq!(self.faults(), "");
        assert_eq!(self.text("fake_living"), "");
    }
}
