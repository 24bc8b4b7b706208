//! Compile profiles from files: the core reads their text and opens nothing.

use crate::devices::{DEVICES, DeviceRow};
use rlx_core::profile::CompileProfile;
use rlx_core::{Code, Error, Result};
use std::io::ErrorKind;
use std::path::Path;

/// The text of a file; `None` if there is no such file.
fn read(path: &Path) -> Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::new(Code::Io, format!("cannot read the profile: {e}"))
            .at(path.display().to_string())),
    }
}

fn parse(path: &Path, text: &str) -> Result<CompileProfile> {
    CompileProfile::from_toml_str(text).map_err(|e| {
        let at = format!("{}, {}", path.display(), e.at);
        e.at(at)
    })
}

/// The profile of a file.
///
/// # Errors
/// `Io` if it cannot be read; `BadFile` for what it says, with the file, the line and the key.
pub fn from_toml_path(path: &Path) -> Result<CompileProfile> {
    let text = read(path)?.ok_or_else(|| {
        Error::new(Code::Io, "the profile is not there").at(path.display().to_string())
    })?;
    parse(path, &text)
}

/// The profile of a file, or `default` if there is no such file.
///
/// # Errors
/// As [`from_toml_path`] for a file that is there: what is wrong in it is never passed over.
pub fn load_compile_profile(path: &Path, default: CompileProfile) -> Result<CompileProfile> {
    match read(path)? {
        Some(text) => parse(path, &text),
        None => Ok(default),
    }
}

/// The profile of the file of that name in the weights' folder (`.` where their path has none), or
/// `default` if there is no such file.
///
/// # Errors
/// As [`load_compile_profile`].
pub fn profile_near_weights(
    weights: &Path,
    file: &str,
    default: CompileProfile,
) -> Result<CompileProfile> {
    let folder = weights.parent().filter(|p| !p.as_os_str().is_empty());
    load_compile_profile(&folder.unwrap_or(Path::new(".")).join(file), default)
}

/// Checks that a device runs what a profile compiles for.
///
/// # Errors
/// `DeviceUnavailable` for a backend that is not built in, with those that are; `Usage` for another
/// backend than the device's.
pub fn check_device(profile: &CompileProfile, row: &DeviceRow) -> Result<()> {
    let built: Vec<&str> = DEVICES.iter().map(|row| row.name).collect();
    match profile.fusion.target.resolve(&built)? {
        Some(device) if profile.fusion.target != row.backend => Err(Error::usage(format!(
            "the profile compiles for {}, the device is {}",
            profile.fusion.target.name(),
            row.name
        ))
        .hint(format!("use --device {device}, or target = \"auto\""))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices;
    use rlx_core::profile::FusionTarget;
    use std::path::PathBuf;

    /// A folder of its own, removed at the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("rlx-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Folder(path)
        }

        fn file(&self, name: &str, text: &str) -> PathBuf {
            let path = self.0.join(name);
            std::fs::write(&path, text).unwrap();
            path
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    const WRONG: &str = "[fusion]\nskpi = true\n";

    #[test]
    fn fact_000_02_a_path_gives_a_profile_or_an_error() {
        let folder = Folder::new("fact-000-02");
        let path = folder.file("a.rlx.toml", "[fusion]\nskip = true\n");
        assert!(from_toml_path(&path).unwrap().fusion.skip);
        let e = from_toml_path(&folder.0.join("none.rlx.toml")).unwrap_err();
        assert_eq!(e.code, Code::Io);
        let path = folder.file("b.rlx.toml", WRONG);
        let e = from_toml_path(&path).unwrap_err();
        assert_eq!(e.code, Code::BadFile);
        assert_eq!(e.what, "unknown key fusion.skpi");
        assert_eq!(e.at, format!("{}, line 2", path.display()));
        assert_eq!(e.hint, "did you mean `skip`?");
    }

    #[test]
    fn fact_001_02_only_a_missing_file_gives_the_default() {
        let folder = Folder::new("fact-001-02");
        let default = CompileProfile::llama32_decode();
        let load = |path: &Path| load_compile_profile(path, default.clone());
        assert_eq!(load(&folder.0.join("none.rlx.toml")), Ok(default.clone()));
        let path = folder.file("a.rlx.toml", "");
        assert_eq!(load(&path), Ok(CompileProfile::default()), "the file's, not the default");
        assert_eq!(load(&folder.file("b.rlx.toml", WRONG)).unwrap_err().code, Code::BadFile);
        assert_eq!(load(&folder.0).unwrap_err().code, Code::Io, "a folder is no file");
    }

    #[test]
    fn fact_001_03_a_profile_stands_in_the_weights_folder() {
        let folder = Folder::new("fact-001-03");
        folder.file("llama.rlx.toml", "[passes]\nverbose = true\n");
        let near = |weights: &Path| {
            profile_near_weights(weights, "llama.rlx.toml", CompileProfile::default())
        };
        assert!(near(&folder.0.join("model.gguf")).unwrap().passes.verbose);
        // A bare name is in the working folder, where there is no such file.
        assert_eq!(near(Path::new("model.gguf")), Ok(CompileProfile::default()));
    }

    #[test]
    fn a_profile_for_another_backend_is_an_error_that_names_the_device() {
        let mut profile = CompileProfile::default();
        let check = |p: &CompileProfile, device| check_device(p, devices::find(device).unwrap());
        assert_eq!(check(&profile, "cpu"), Ok(()));
        profile.fusion.target = FusionTarget::Wgpu;
        assert_eq!(check(&profile, "webgpu"), Ok(()));
        let e = check(&profile, "cpu").unwrap_err();
        assert_eq!(e.what, "the profile compiles for wgpu, the device is cpu");
        assert_eq!(e.hint, "use --device webgpu, or target = \"auto\"");
        profile.fusion.target = FusionTarget::Mlx;
        let e = check(&profile, "cpu").unwrap_err();
        assert_eq!(e.what, "the backend mlx is not built in");
        assert_eq!(e.hint, "this build has reference, cpu, webgpu, cuda, rocm, metal");
    }
}
