//! The shim's library: compiled by the machine's C++ compiler the first time, and kept in the user's cache folder.

use super::find::Installed;
use crate::tape::header;
use rlx_core::{Code, Error, Result};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::atomic::{AtomicU32, Ordering};

const TEXT: &str = include_str!("shim.cpp");

/// The folder of compiled shims: `RLX_MLX_CACHE`, or the user's cache folder. Never one that others may write to, for
/// what lies there is run.
///
/// # Errors
/// `Unsupported` where the user has none.
fn cache() -> Result<PathBuf> {
    let named = |name: &str| env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    if let Some(folder) = named("RLX_MLX_CACHE") {
        return Ok(folder);
    }
    let user = if cfg!(target_os = "macos") {
        named("HOME").map(|home| home.join("Library/Caches"))
    } else {
        named("XDG_CACHE_HOME").or_else(|| named("HOME").map(|home| home.join(".cache")))
    };
    user.map(|folder| folder.join("rlx/mlx")).ok_or_else(|| {
        Error::new(Code::Unsupported, "there is no folder for what RLX compiles for MLX")
            .hint("name one in RLX_MLX_CACHE")
    })
}

/// FNV-1a of bytes, one behind the other.
fn hash(parts: &[&[u8]]) -> u64 {
    let mut h = 0xcbf2_9ce4_8422_2325u64;
    for part in parts {
        for byte in part.iter().chain(&[0xff]) {
            h = (h ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    h
}

/// The shim's library for an MLX, compiled unless it is there.
///
/// # Errors
/// `Unsupported` without a compiler, or with what it says.
pub(super) fn library(mlx: &Installed) -> Result<PathBuf> {
    let text = format!("{}{TEXT}", header());
    let stands = mlx.library.to_string_lossy();
    let changed = fs::metadata(&mlx.library).and_then(|m| Ok((m.len(), m.modified()?)));
    let version = format!("{:?} {changed:?}", mlx.version);
    let name = hash(&[text.as_bytes(), stands.as_bytes(), version.as_bytes()]);
    let folder = cache()?;
    let done = folder.join(format!("shim-{name:016x}.{}", env::consts::DLL_EXTENSION));
    if done.is_file() {
        return Ok(done);
    }
    let failed = |what: String| Error::new(Code::DeviceUnavailable, what);
    fs::create_dir_all(&folder)
        .map_err(|e| failed(format!("{} cannot be made: {e}", folder.display())))?;
    // Another process may compile the same: each has files of its own, and the last one stays.
    static MADE: AtomicU32 = AtomicU32::new(0);
    let own = format!("{}-{}", process::id(), MADE.fetch_add(1, Ordering::Relaxed));
    let source = folder.join(format!("shim-{own}.cpp"));
    let made = folder.join(format!("shim-{own}.{}", env::consts::DLL_EXTENSION));
    let answer = fs::write(&source, text)
        .map_err(|e| failed(format!("{} cannot be written: {e}", source.display())))
        .and_then(|()| compile(mlx, &source, &made))
        .and_then(|()| {
            fs::rename(&made, &done)
                .map_err(|e| failed(format!("{} cannot be written: {e}", done.display())))
        });
    // What is left behind in the cache does no harm.
    let _ = fs::remove_file(&source);
    let _ = fs::remove_file(&made);
    answer.map(|()| done)
}

fn compile(mlx: &Installed, source: &Path, made: &Path) -> Result<()> {
    let failed = |what: String| {
        Error::new(Code::DeviceUnavailable, what)
            .hint("RLX compiles 500 lines for the MLX that is installed; CXX names the compiler")
    };
    let folder = mlx.library.parent().unwrap_or(Path::new("."));
    let named = env::var_os("CXX").filter(|v| !v.is_empty());
    let compilers = match &named {
        Some(one) => vec![one.as_os_str()],
        None => ["c++", "clang++", "g++"].map(AsRef::as_ref).to_vec(),
    };
    for compiler in &compilers {
        let mut command = Command::new(compiler);
        command.args(["-std=c++20", "-O2", "-fPIC", "-shared", "-isystem"]).arg(&mlx.include);
        command.arg(source).arg("-o").arg(made).arg("-L").arg(folder).arg("-lmlx");
        command.arg(format!("-Wl,-rpath,{}", folder.display()));
        let Ok(output) = command.output() else { continue };
        if output.status.success() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&output.stderr);
        let first: Vec<&str> = text.lines().filter(|l| l.contains("error")).take(3).collect();
        let said = if first.is_empty() { text.trim() } else { &first.join("; ") };
        let compiler = compiler.to_string_lossy();
        return Err(failed(format!("{compiler} does not compile the MLX shim: {said}")));
    }
    let names: Vec<_> = compilers.iter().map(|c| c.to_string_lossy()).collect();
    Err(failed(format!("there is no C++ compiler among {}", names.join(", "))))
}
