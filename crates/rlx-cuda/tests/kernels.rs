//! A folder of kernels that a machine with NVRTC fills, for machines that have a card and no NVRTC: the GPUs here
//! compute nothing, and find their kernels as the driver of a card does.

use crate::common::TestDevice;
use crate::language::{generate, try_load};
use crate::nvrtc::nvrtc;
use crate::recorder::recorder_with;
use crate::skip::skip;
use rlx_core::runtime::generate::engine::Engine;
use rlx_core::runtime::model::ModelOptions;
use rlx_core::types::DType;
use rlx_core::{Code, Error, Result};
use rlx_cuda::CudaDevice;
use rlx_cuda::driver::Driver;
use rlx_cuda::driver::cuda::Cuda;
use rlx_cuda::driver::cuda::texts::{ARCHITECTURES, Folders, Texts};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, process};

const SOURCE: &str = "extern \"C\" __global__ void twice(float* x) { x[threadIdx.x] *= 2.0f; }";

/// A folder of this test's own, which ends with it.
struct Own(PathBuf);

impl Own {
    fn new(name: &str) -> Own {
        let name = format!("kernels-{name}-{}", process::id());
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&folder);
        Own(folder)
    }

    fn folders(&self) -> Folders {
        Folders { kernels: Some(self.0.clone()), cache: None }
    }

    /// Files of the folder.
    fn files(&self) -> Vec<PathBuf> {
        let all = fs::read_dir(&self.0).into_iter().flatten();
        all.map(|file| file.unwrap().path()).collect()
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn without_compiler(arch: u32, own: &Own) -> Texts {
    Texts::new(arch, false, own.folders()).unwrap()
}

#[test]
fn without_a_compiler_a_folder_of_kernels_is_needed() {
    let e = Texts::new(90, false, Folders::default()).err().unwrap();
    assert_eq!(e.code, Code::DeviceUnavailable);
    assert!(e.what.contains("run-time compiler was not found"), "{e}");
    for what in ["nvidia-cuda-nvrtc-cu12", "RLX_KERNELS=FOLDER", "copy that folder here"] {
        assert!(e.hint.contains(what), "{}", e.hint);
    }
    // A folder that is not there has no kernels, which is told when one is needed.
    let own = Own::new("nowhere");
    for (arch, said) in [(90, "has no kernel twice"), (75, "cards since 8.0, and this one is 7.5")]
    {
        let e = without_compiler(arch, &own).text(SOURCE, "twice").unwrap_err();
        assert_eq!(e.code, Code::Unsupported);
        assert!(e.what.contains(said), "{e}");
        assert!(e.hint.contains("RLX_KERNELS"), "{}", e.hint);
    }
    assert!(!without_compiler(90, &own).fills(), "nothing can be put there");
    without_compiler(90, &own).fill(SOURCE, "twice").unwrap();
    assert!(own.files().is_empty());
}

#[test]
fn kernels_of_a_folder_are_found_and_damaged_ones_refused() {
    if let Err(why) = nvrtc() {
        return skip("cuda: a folder of kernels serves a machine without NVRTC", &why);
    }
    let own = Own::new("damaged");
    let full = Texts::new(90, true, own.folders()).unwrap();
    assert!(full.fills());
    full.fill(SOURCE, "twice").unwrap();
    let files = own.files();
    assert_eq!(files.len(), ARCHITECTURES.len());
    // A card takes the newest that it can; one of these architectures has an own text.
    for (card, arch) in [(80, 80), (86, 80), (89, 80), (90, 90), (120, 90)] {
        let text = without_compiler(card, &own).text(SOURCE, "twice").unwrap();
        assert_eq!(text.arch, arch);
        assert!(text.ptx.contains(&format!(".target sm_{arch}")), "{card}");
    }
    // Another text has another name, be its function's the same.
    let other = SOURCE.replace("2.0f", "3.0f");
    let e = without_compiler(90, &own).text(&other, "twice").unwrap_err();
    assert_eq!(e.code, Code::Unsupported);
    for damaged in [&b"\xff\xfe"[..], b"", b".version 8\0", b"a text"] {
        files.iter().for_each(|file| fs::write(file, damaged).unwrap());
        let e = without_compiler(90, &own).text(SOURCE, "twice").unwrap_err();
        assert_eq!(e.code, Code::BadFile, "{e}");
        assert!(e.what.contains(".ptx"), "{e}");
    }
    // What is there is not made again, so that who fills a folder knows what is in it.
    full.fill(SOURCE, "twice").unwrap();
    assert_eq!(fs::read(&files[0]).unwrap(), b"a text");
    // A folder that cannot be written.
    let file = files[0].join("below");
    let folders = Folders { kernels: Some(file), cache: None };
    let e = Texts::new(90, true, folders).unwrap().text(SOURCE, "twice").unwrap_err();
    assert_eq!(e.code, Code::Io, "{e}");
}

#[test]
fn compiled_kernels_are_kept_for_the_next_run() {
    if let Err(why) = nvrtc() {
        return skip("cuda: a folder of kernels serves a machine without NVRTC", &why);
    }
    let own = Own::new("cache");
    let folders = || Folders { cache: Some(own.0.clone()), kernels: None };
    let text = |compiler: bool| -> Result<String> {
        let kernels = (!compiler).then(|| PathBuf::from("/nowhere"));
        let texts = Texts::new(86, compiler, Folders { kernels, ..folders() })?;
        texts.text(SOURCE, "twice").map(|text| text.ptx)
    };
    let made = text(true).unwrap();
    assert!(made.contains(".target sm_86"));
    // It is found without the compiler, and is made again where it is damaged.
    assert_eq!(text(false).unwrap(), made);
    fs::write(&own.files()[0], "a text").unwrap();
    assert_eq!(text(true).unwrap(), made);
    assert_eq!(text(false).unwrap(), made);
}

/// Loads a model, whose programs are built.
fn build(device: Arc<TestDevice>) -> Result<Engine> {
    let mut options = ModelOptions::chat(128);
    options.compile.kv = DType::F16;
    options.context = Some(256);
    try_load(device, "rustdoc-2m/rustdoc-2m-f16.gguf", &options)
}

#[test]
fn a_folder_of_kernels_serves_a_machine_without_a_compiler() {
    if let Err(why) = nvrtc() {
        return skip("cuda: a folder of kernels serves a machine without NVRTC", &why);
    }
    let own = Own::new("model");
    // The machine that fills the folder has the library for products; others have it or not.
    let machine = |arch, compiler, products| {
        let texts = Texts::new(arch, compiler, own.folders()).unwrap();
        recorder_with(products, arch, Some(texts))
    };
    let (device, _) = machine(90, true, true);
    build(device).unwrap();
    let filled = own.files().len();
    assert!(filled > 10, "{filled}");
    for (arch, products) in [(80, true), (80, false), (90, true), (90, false), (100, false)] {
        let (device, texts) = machine(arch, false, products);
        build(device).unwrap_or_else(|e| panic!("{arch} {products}: {e}"));
        assert!(texts.lock().unwrap().len() > 5);
    }
    // Another model has other texts.
    let (device, _) = machine(90, false, true);
    let options = ModelOptions::chat(16);
    let e: Error = match try_load(device, "gguf/gemma3.gguf", &options) {
        Err(e) => e,
        Ok(_) => panic!("its kernels were never made"),
    };
    assert_eq!(e.code, Code::Unsupported, "{e}");
    assert!(e.what.contains("has no kernel"), "{e}");
    assert_eq!(own.files().len(), filled);
}

/// Answers of a card are the same by kernels that it compiles, and by those of a folder. A kernel that needs a newer
/// card than it was compiled for is none.
#[test]
fn a_card_runs_kernels_of_a_folder() {
    if std::env::var_os("RLX_CUDA").is_none() {
        return skip("cuda: a card runs kernels of a folder", "no CUDA device");
    }
    let own = Own::new("card");
    let answer = |compiler: bool| {
        let driver: Box<dyn Driver> = Box::new(Cuda::open(0, compiler, own.folders()).unwrap());
        let mut engine = build(Arc::new(CudaDevice::new(driver))).unwrap();
        // The prompt is longer than what is multiplied without the library.
        generate(&mut engine, (1..140).collect(), 24, false).0
    };
    let want = answer(true);
    assert_eq!(answer(false), want);
    let newest = format!(".target sm_{}", ARCHITECTURES[0]);
    for file in own.files() {
        if fs::read_to_string(&file).unwrap().contains(&newest) {
            fs::remove_file(file).unwrap();
        }
    }
    assert!(!own.files().is_empty());
    let driver: Box<dyn Driver> = Box::new(Cuda::open(0, false, own.folders()).unwrap());
    if driver.info().bulk_copies {
        let e = build(Arc::new(CudaDevice::new(driver)))
            .err()
            .expect("older kernels have no such copies");
        assert!(e.what.contains("has no kernel"), "{e}");
    } else {
        assert_eq!(answer(false), want);
    }
}
