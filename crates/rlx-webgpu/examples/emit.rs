//! Writes every kernel's WGSL into a folder: `cargo run -p rlx-webgpu --example emit -- DIR`.
//!
//! `node crates/rlx-webgpu/tests/tint.mjs DIR` then compiles each file with Dawn's Tint.

use rlx_webgpu::kernels::catalog;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = PathBuf::from(std::env::args().nth(1).ok_or("usage: emit DIR")?);
    std::fs::create_dir_all(&dir)?;
    let all = catalog::all(true)?;
    for (name, kernel) in &all {
        std::fs::write(dir.join(format!("{name}.wgsl")), &kernel.wgsl)?;
    }
    println!("{} kernels in {}", all.len(), dir.display());
    Ok(())
}
