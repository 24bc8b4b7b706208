//! Lists the reports of `profiles/devices/`, for `src/report/guess.rs` to hold.

use std::fmt::Write;
use std::path::Path;

fn main() -> std::io::Result<()> {
    let variable = |name| std::env::var(name).map_err(std::io::Error::other);
    let folder = Path::new(&variable("CARGO_MANIFEST_DIR")?).join("../../profiles/devices");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut names = Vec::new();
    for entry in folder.read_dir()? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        names.extend(name.ends_with(".json").then_some(name));
    }
    names.sort();
    let mut table = String::from("&[\n");
    for name in names {
        let path = folder.join(&name);
        println!("cargo::rerun-if-changed={}", path.display());
        // A String takes all that is written.
        let _ = writeln!(table, "({name:?}, include_str!({path:?})),");
    }
    table.push(']');
    std::fs::write(Path::new(&variable("OUT_DIR")?).join("devices.rs"), table)
}
