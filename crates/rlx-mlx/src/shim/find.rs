//! Where MLX is: the folder that `RLX_MLX` names, or one of those where pip and Homebrew put it.

use rlx_core::{Code, Error, Result};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// The oldest MLX whose calls are the ones that the shim makes.
const OLDEST: [u32; 3] = [0, 30, 0];

/// An MLX that is installed: its headers and its library, side by side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// The folder that has `mlx/mlx.h`.
    pub include: PathBuf,
    /// The library's file.
    pub library: PathBuf,
    /// The version that the headers say.
    pub version: [u32; 3],
}

/// Finds MLX.
///
/// # Errors
/// `Unsupported` where there is none, or where it is too old; with `RLX_MLX` where that names no MLX.
pub fn find() -> Result<Installed> {
    if let Some(named) = env::var_os("RLX_MLX").filter(|v| !v.is_empty()) {
        return find_in(Path::new(&named)).map_err(|e| e.at("RLX_MLX"));
    }
    for folder in usual() {
        if let Some(found) = at(&folder)? {
            return Ok(found);
        }
    }
    Err(missing("MLX is not installed".into()).hint(
        "pip install mlx (on Linux mlx-cpu), brew install mlx, or name its folder in RLX_MLX",
    ))
}

/// The MLX in a folder, or in its folder `mlx`.
///
/// # Errors
/// `Unsupported` where there is none, or where it is too old.
pub fn find_in(folder: &Path) -> Result<Installed> {
    at(folder)?.ok_or_else(|| {
        missing(format!("{} has no MLX", folder.display()))
            .hint("name the folder that has include/mlx and lib/libmlx")
    })
}

fn missing(what: String) -> Error {
    Error::new(Code::DeviceUnavailable, what)
}

/// The MLX in a folder, or in its folder `mlx`, if one is there.
fn at(folder: &Path) -> Result<Option<Installed>> {
    for root in [folder.to_path_buf(), folder.join("mlx")] {
        let include = root.join("include");
        let Ok(header) = fs::read_to_string(include.join("mlx/version.h")) else { continue };
        let names = ["lib/libmlx.so", "lib/libmlx.dylib", "lib64/libmlx.so"];
        let library = names.iter().map(|name| root.join(name)).find(|path| path.is_file());
        let Some(library) = library else { continue };
        let version = version(&header).ok_or_else(|| {
            missing(format!("{} says no version", include.join("mlx/version.h").display()))
        })?;
        if version < OLDEST {
            let text = |v: [u32; 3]| v.map(|n| n.to_string()).join(".");
            let what = format!("MLX in {} is {}", root.display(), text(version));
            return Err(missing(what).hint(format!("install {} or newer", text(OLDEST))));
        }
        let absolute = |path: PathBuf| fs::canonicalize(&path).unwrap_or(path);
        let (include, library) = (absolute(include), absolute(library));
        return Ok(Some(Installed { include, library, version }));
    }
    Ok(None)
}

/// The version that a header defines.
fn version(header: &str) -> Option<[u32; 3]> {
    let number = |name: &str| {
        let mut lines = header.lines().filter_map(|l| l.trim().strip_prefix("#define"));
        let line = lines.find_map(|l| l.trim().strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    };
    Some([number("MLX_VERSION_MAJOR")?, number("MLX_VERSION_MINOR")?, number("MLX_VERSION_PATCH")?])
}

/// Folders where packages may have put MLX.
fn usual() -> Vec<PathBuf> {
    let mut pythons = Vec::new();
    pythons.extend(env::var_os("VIRTUAL_ENV").map(PathBuf::from));
    pythons.extend(env::var_os("CONDA_PREFIX").map(PathBuf::from));
    if let Some(home) = env::var_os("HOME").map(PathBuf::from) {
        pythons.push(home.join(".local"));
        pythons.extend(folders(&home.join(".pyenv/versions")));
        // pip's folder for a user on macOS.
        pythons.extend(folders(&home.join("Library/Python")));
    }
    let own = ["/opt/homebrew", "/usr/local", "/usr"].map(PathBuf::from);
    pythons.extend(own.clone());
    let mut all = Vec::new();
    for python in pythons {
        for version in folders(&python.join("lib")) {
            all.push(version.join("site-packages"));
            all.push(version.join("dist-packages"));
        }
        all.push(python.join("lib/python/site-packages"));
    }
    all.extend(own.iter().map(|prefix| prefix.join("opt/mlx")));
    all.extend(own);
    all
}

/// The folders in a folder, in the order of their names.
fn folders(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let mut all: Vec<PathBuf> = entries.map(|e| e.path()).filter(|p| p.is_dir()).collect();
    all.sort();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_says_its_version() {
        let header = "#pragma once\n#define MLX_VERSION_MAJOR 0\n#define MLX_VERSION_MINOR 32\n\
                      #define MLX_VERSION_PATCH 4\n#define MLX_VERSION_NUMERIC \\\n (100)";
        assert_eq!(version(header), Some([0, 32, 4]));
        assert_eq!(version("#define MLX_VERSION_MAJOR x"), None);
    }

    #[test]
    fn a_folder_without_mlx_has_none_and_an_old_one_is_refused() {
        let root = env::temp_dir().join(format!("rlx-mlx-find-{}", std::process::id()));
        fs::create_dir_all(root.join("mlx/include/mlx")).unwrap();
        fs::create_dir_all(root.join("mlx/lib")).unwrap();
        assert_eq!(at(&root).unwrap(), None);
        let header = |minor: u32| {
            let text = format!(
                "#define MLX_VERSION_MAJOR 0\n#define MLX_VERSION_MINOR {minor}\n#define MLX_VERSION_PATCH 1"
            );
            fs::write(root.join("mlx/include/mlx/version.h"), text).unwrap();
        };
        header(32);
        assert_eq!(at(&root).unwrap(), None, "there is no library");
        fs::write(root.join("mlx/lib/libmlx.so"), "").unwrap();
        assert_eq!(at(&root).unwrap().map(|i| i.version), Some([0, 32, 1]));
        header(2);
        let e = at(&root).unwrap_err();
        assert!(e.what.ends_with("is 0.2.1") && e.hint == "install 0.30.0 or newer", "{e}");
        fs::remove_dir_all(&root).unwrap();
    }
}
