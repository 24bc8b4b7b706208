//! Kernels as PTX: compiled by NVRTC, kept from one run to the next, or read from a folder that another machine filled.
//!
//! A folder of kernels is for machines with a card and a driver, and without NVRTC. It has PTX for the architectures of
//! [`ARCHITECTURES`], which any later card takes too, each under its function's name and the hash of its text.

#![allow(unsafe_code)]

use cudarc::nvrtc::{CompileOptions, compile_ptx_with_opts, sys};
use rlx_core::plan::hash;
use rlx_core::{Code, Error, Result};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::{fs, io, process, thread};

/// What a folder of kernels is made for, as NVIDIA numbers compute capabilities: 9.0, whose kernels may start early,
/// and the oldest with all instructions that ours use.
pub const ARCHITECTURES: [u32; 2] = [90, 80];

/// Bytes of a file of PTX at most: our largest kernels have less than one.
const LARGEST: u64 = 64 << 20;

/// Where kernels are kept.
#[derive(Clone, Debug, Default)]
pub struct Folders {
    /// For the next run on this machine. Where it cannot be written, kernels are compiled again.
    pub cache: Option<PathBuf>,
    /// For other machines: it is filled where there is a compiler, and read.
    pub kernels: Option<PathBuf>,
}

/// A kernel as the driver takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// PTX.
    pub ptx: String,
    /// The architecture that it is for.
    pub arch: u32,
}

/// The kernels of a card.
pub struct Texts {
    arch: u32,
    compiler: bool,
    folders: Folders,
}

/// Whether NVRTC can be loaded.
pub fn has_compiler() -> bool {
    // SAFETY: loading a system library runs its initialisers, which is what a compiler is for.
    unsafe { sys::is_culib_present() }
}

/// What a text is compiled for: products of four warps are not part of what later cards take too.
fn option(arch: u32, source: &str) -> String {
    let only_this = if source.contains(WARPGROUPS) { "a" } else { "" };
    format!("compute_{arch}{only_this}")
}

/// A kernel's PTX for an architecture such as 80, on a machine that has NVRTC and need not have a card.
///
/// # Errors
/// `DeviceUnavailable` without NVRTC; `Internal` with what it says.
pub fn ptx_for(arch: u32, source: &str, entry: &str) -> Result<String> {
    if !has_compiler() {
        return Err(Error::new(Code::DeviceUnavailable, NO_COMPILER));
    }
    let options = CompileOptions {
        options: vec![
            format!("--gpu-architecture={}", option(arch, source)),
            "--std=c++17".into(),
            "--device-as-default-execution-space".into(),
        ],
        ..CompileOptions::default()
    };
    let ptx = compile_ptx_with_opts(source, options).map_err(|e| {
        Error::internal(format!("the compiler does not take the kernel {entry}: {e}"))
    })?;
    Ok(ptx.to_src())
}

const NO_COMPILER: &str = "NVIDIA's run-time compiler was not found (libnvrtc.so or nvrtc64.dll)";
const HINT: &str = "install it (PyPI has it as nvidia-cuda-nvrtc-cu12; its folder lib has to be where libraries are \
                    looked for, as in LD_LIBRARY_PATH), or run the same command with RLX_KERNELS=FOLDER on a machine \
                    that has it, copy that folder here and set RLX_KERNELS to it";

/// The text of a file that may be damaged; none where there is no file.
fn read(path: &Path) -> Result<Option<String>> {
    let failed = |what: String| {
        let what = format!("{}: {what}", path.display());
        Error::new(Code::BadFile, what).hint("delete it, and make it again")
    };
    let file = match File::open(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(|e| failed(e.to_string()))?,
    };
    let mut text = String::new();
    file.take(LARGEST + 1).read_to_string(&mut text).map_err(|e| failed(e.to_string()))?;
    if text.len() as u64 > LARGEST || text.contains('\0') || !text.contains(".version") {
        return Err(failed("this is no PTX".into()));
    }
    Ok(Some(text))
}

/// Writes a file that is whole once it has its name.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let own = format!("{}-{:?}", process::id(), thread::current().id()).replace(['(', ')'], "");
    let unfinished = path.with_extension(own);
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    fs::write(&unfinished, text)?;
    fs::rename(&unfinished, path)
}

/// The line by which a kernel's text says that it needs bulk copies, which cards have since 9.0.
pub(crate) const BULK_COPIES: &str = "#define BULK_COPIES ";

/// The line by which a kernel's text says that it needs products of four warps, which cards of 9.0 alone have: beside
/// that for bulk copies.
pub(crate) const WARPGROUPS: &str = "#define WARPGROUPS ";

/// The architectures that a folder has a kernel for.
fn architectures(source: &str) -> impl Iterator<Item = u32> {
    let least = if source.contains(BULK_COPIES) { 90 } else { 0 };
    ARCHITECTURES.into_iter().filter(move |arch| *arch >= least)
}

fn path(folder: &Path, arch: u32, source: &str, entry: &str) -> PathBuf {
    let key = hash([source, option(arch, source).as_str()].into_iter());
    folder.join(format!("{entry}-{key:016x}.ptx"))
}

impl Texts {
    /// The kernels of a card of this architecture.
    ///
    /// # Errors
    /// `DeviceUnavailable` without a compiler, if no folder of kernels was named.
    pub fn new(arch: u32, compiler: bool, folders: Folders) -> Result<Texts> {
        if !compiler && folders.kernels.is_none() {
            return Err(Error::new(Code::DeviceUnavailable, NO_COMPILER).hint(HINT));
        }
        Ok(Texts { arch, compiler, folders })
    }

    /// Whether other machines get kernels from this one.
    pub fn fills(&self) -> bool {
        self.compiler && self.folders.kernels.is_some()
    }

    /// Puts a kernel into the folder for other machines, if it is to be filled.
    ///
    /// # Errors
    /// `Io` where the folder cannot be written; `Internal` with what the compiler says.
    pub fn fill(&self, source: &str, entry: &str) -> Result<()> {
        let Some(folder) = self.folders.kernels.as_ref().filter(|_| self.compiler) else {
            return Ok(());
        };
        for arch in architectures(source) {
            let path = path(folder, arch, source, entry);
            if !path.exists() {
                let ptx = ptx_for(arch, source, entry)?;
                write(&path, &ptx).map_err(|e| {
                    let what = format!("{}: {e}", path.display());
                    Error::new(Code::Io, what).hint("RLX_KERNELS names a folder to write to")
                })?;
            }
        }
        Ok(())
    }

    /// A kernel for this card: from a folder, or compiled now.
    ///
    /// # Errors
    /// `BadFile` for a damaged file in the folder of kernels; `Unsupported` for a kernel that is nowhere, without a
    /// compiler; `Internal` with what the compiler says.
    pub fn text(&self, source: &str, entry: &str) -> Result<Text> {
        self.fill(source, entry)?;
        let of = |ptx: String, arch: u32| Text { ptx, arch };
        let kept = self.folders.cache.as_ref().map(|f| path(f, self.arch, source, entry));
        // A damaged file of the cache is as none.
        if let Some(ptx) = kept.as_ref().and_then(|path| read(path).ok().flatten()) {
            return Ok(of(ptx, self.arch));
        }
        if !self.compiler {
            let folder = self.folders.kernels.as_deref().unwrap_or(Path::new(""));
            for arch in architectures(source).filter(|arch| *arch <= self.arch) {
                if let Some(ptx) = read(&path(folder, arch, source, entry))? {
                    return Ok(of(ptx, arch));
                }
            }
            return Err(self.absent(entry));
        }
        let ptx = ptx_for(self.arch, source, entry)?;
        if let Some(path) = kept {
            // Where nothing can be kept, it is compiled again next time.
            let _ = write(&path, &ptx);
        }
        Ok(of(ptx, self.arch))
    }

    fn absent(&self, entry: &str) -> Error {
        let folder = self.folders.kernels.as_ref().map(|f| f.display().to_string());
        let folder = folder.unwrap_or_default();
        let what = if self.arch < ARCHITECTURES[1] {
            let [major, minor] = [self.arch / 10, self.arch % 10];
            format!("kernels of {folder} are for cards since 8.0, and this one is {major}.{minor}")
        } else {
            format!("{folder} has no kernel {entry} for this program, and there is no compiler")
        };
        Error::new(Code::Unsupported, what).hint(HINT)
    }
}
