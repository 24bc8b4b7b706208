//! GB/s of weights for a 4096 x 4096 matrix times a vector, by format, activations and threads.
//!
//! `cargo run --release -p rlx-cpu --example kernels [LEVEL]`. Rows are shared between threads as
//! in a decode step. Fresh matrices are walked in turn, so that every byte comes from memory.

use rlx_core::formats::activations::{encode_q8_0, encode_q8_k};
use rlx_core::types::{BlockFormat as B, DType};
use rlx_cpu::Level;
use rlx_cpu::kernels::{MatVecX, mat_vec};
use std::time::Instant;

const N: usize = 4096;
/// Bytes that no cache holds.
const FOOTPRINT: usize = 256 << 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let level = match std::env::args().nth(1) {
        Some(name) => Level::ALL.into_iter().find(|l| l.name() == name).ok_or("unknown level")?,
        None => Level::detect(),
    };
    if !level.is_available() {
        return Err("this processor lacks that level".into());
    }
    println!("{N} x {N} times a vector, {}: GB/s of weights read", level.name());
    println!("{:<6} {:>5} {:>10} {:>10}", "weight", "x", "1 thread", "2 threads");
    let x: Vec<f32> = (0..N).map(|i| (i as f32 * 0.37).sin()).collect();
    let (mut q8_0, mut q8_k) = (vec![0; N / 32 * 34], vec![0; N / 256 * 292]);
    encode_q8_0(&x, &mut q8_0)?;
    encode_q8_k(&x, &mut q8_k)?;
    let blocks = [B::Q4_0, B::Q8_0, B::Q4K, B::Q5K, B::Q6K].map(DType::Block);
    for dtype in [DType::F32, DType::F16, DType::BF16].into_iter().chain(blocks) {
        let row = dtype.row_bytes(N as u64).ok_or("whole blocks")? as usize;
        let count = FOOTPRINT / (row * N) + 1;
        // 0x11 everywhere: an f16 scale of 6e-4, an f32 of 1e-28, no subnormals.
        let weights: Vec<Vec<u8>> = vec![vec![0x11; row * N]; count];
        let mut kinds = vec![("f32", MatVecX::F32(&x))];
        match dtype.block_elements() {
            32 => kinds.push(("int8", MatVecX::Q8_0(&q8_0))),
            256 => kinds.push(("int8", MatVecX::Q8K(&q8_k))),
            _ => {}
        }
        for (name, x) in kinds {
            let speed = |threads: usize| {
                let start = Instant::now();
                let mut passes = 0;
                while passes < 2 || start.elapsed().as_secs_f64() < 0.4 {
                    std::thread::scope(|scope| {
                        for part in 0..threads {
                            let weights = &weights;
                            scope.spawn(move || {
                                let mut y = vec![0.0; N / threads];
                                for w in weights {
                                    let share = w.len() / threads;
                                    let w = &w[part * share..][..share];
                                    let done = mat_vec(level, dtype, w, x, &mut y);
                                    assert_eq!(done, Ok(()), "every type here has kernels");
                                    std::hint::black_box(&mut y);
                                }
                            });
                        }
                    });
                    passes += 1;
                }
                (passes * count * row * N) as f64 / start.elapsed().as_secs_f64() / 1e9
            };
            println!("{dtype:<6} {name:>5} {:>10.1} {:>10.1}", speed(1), speed(2));
        }
    }
    Ok(())
}
