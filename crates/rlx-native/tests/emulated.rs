//! `rlx verify` on the emulators of GPUs that the executors' tests have: kernels are compiled as C++ and run by the
//! CPU. `scripts/proof.mjs` runs it where a machine has no such card.
//!
//! ```sh
//! cargo test -p rlx-native --release --features emulator --test emulated --no-run
//! target/release/deps/emulated-* cuda tests/fixtures/llama32
//! target/release/deps/emulated-* metal tests/fixtures/gguf/qwen3.gguf [--record FILE] [--questions N]
//! ```

#[allow(dead_code)] // what the executor's own tests look at
#[path = "../../rlx-metal/tests/emulator.rs"]
mod emulator;
#[allow(dead_code)] // as above
#[path = "../../rlx-metal/tests/fake.rs"]
mod fake;

use rlx_core::runtime::device::Device;
use rlx_core::types::DType;
use rlx_core::{Code, Error, Result};
use rlx_cuda::CudaDevice;
use rlx_cuda::driver::emulator::{Emulator, Watch};
use rlx_metal::gpu::MetalGpu;
use rlx_native::devices::find;
use rlx_native::tools::verify::{Comparison, Verified, Wanted, verify_answers, verify_model};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

/// Lanes of a warp of NVIDIA's, and of a wavefront of AMD's large cards.
const WARP: u32 = 32;
const WAVEFRONT: u32 = 64;

/// The emulator's sources, and where compiled kernels are kept.
fn of_cuda(lanes: u32) -> Result<Emulator> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/emulator");
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("emulator");
    Emulator::start(&sources, &cache, lanes, Watch::Nothing)
}

/// A device by the name of the one that it stands for.
fn open(name: &str) -> Result<Arc<dyn Device>> {
    Ok(match name {
        "cuda" => Arc::new(CudaDevice::new(of_cuda(WARP)?)),
        "rocm" => Arc::new(CudaDevice::with_target(of_cuda(WAVEFRONT)?, rlx_cuda::rocm_target())),
        "metal" => {
            let gpu = MetalGpu::new(fake::Fake::new(emulator::Watch::Nothing));
            Arc::new(rlx_metal::device(gpu))
        }
        _ => return Err(usage()),
    })
}

fn usage() -> Error {
    Error::usage("emulated DEVICE PATH [--record FILE] [--questions N]")
        .hint("the devices are cuda, rocm and metal")
}

fn run() -> Result<bool> {
    let (mut plain, mut wanted) = (Vec::new(), Wanted::default());
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--record" => wanted.record = Some(words.next().ok_or_else(usage)?.into()),
            "--questions" => {
                let count = words.next().and_then(|n| n.parse().ok());
                wanted.questions = Some(count.ok_or_else(usage)?);
            }
            _ => plain.push(word),
        }
    }
    let [name, path] = plain.as_slice() else { return Err(usage()) };
    let (row, path) = (find(name)?, Path::new(path));
    let device = open(name)?;
    let report = match path.is_dir() {
        true => verify_model(path, row, device, DType::F32, false)?,
        false => verify_answers(path, row, device, &wanted)?,
    };
    let text = serde_json::to_string(&Verified::of(&report, false));
    println!("{}", text.map_err(|e| Error::new(Code::Internal, e.to_string()))?);
    Ok(report.outputs.iter().all(Comparison::passes))
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(Code::CheckFailed.exit() as u8),
        Err(e) => {
            eprintln!("error: {e}\nhint: {}", e.hint);
            ExitCode::from(e.code.exit() as u8)
        }
    }
}
