//! Products and their times.

use crate::Result;
use rlx_core::formats::activations::{encode_q8_0, encode_q8_k};
use rlx_core::types::{BlockFormat, DType};
use rlx_cpu::Level;
use rlx_cpu::products::{Activations, Matrix};
use rlx_native::tools::synth::Weights;
use std::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;

/// Decode is repeated for so many seconds between two looks at the clock.
const TIME: f64 = 0.02;
/// Random bytes that are made once and repeated: more than any table of a format could remember.
const PIECE: usize = 1 << 20;
/// Rows of a panel: threads have whole ones.
const PANEL: usize = 16;

/// Matrices of random blocks.
pub struct Product {
    pub dtype: DType,
    pub n: usize,
    pub k: usize,
    matrices: Vec<Matrix>,
    matrix_bytes: usize,
}

impl Product {
    pub fn new(dtype: DType, n: usize, k: usize, count: usize) -> Result<Product> {
        let row = dtype.row_bytes(k as u64).ok_or("blocks do not fill the rows")?;
        let matrix_bytes = n * row as usize;
        let weights = Weights::new(dtype, (k as f32).sqrt().recip(), 1, 0)?;
        let mut piece = vec![0; weights.piece(PIECE.min(matrix_bytes))];
        weights.fill(0, &mut piece);
        let rows: Vec<u8> = piece.iter().copied().cycle().take(matrix_bytes).collect();
        let matrices =
            (0..count).map(|_| Matrix::new(dtype, n, k, &rows)).collect::<rlx_core::Result<_>>()?;
        Ok(Product { dtype, n, k, matrices, matrix_bytes })
    }

    pub fn matrix_bytes(&self) -> usize {
        self.matrix_bytes
    }

    pub fn matrices(&self) -> usize {
        self.matrices.len()
    }

    /// The blocks of x that meet these weights in integers.
    pub fn int8(&self) -> Option<BlockFormat> {
        self.matrices.first().and_then(Matrix::int8)
    }
}

/// A product with `m` rows of x.
pub struct Timing<'a> {
    pub product: &'a Product,
    pub m: usize,
    x: Activations,
}

impl<'a> Timing<'a> {
    pub fn new(product: &'a Product, m: usize) -> Result<Timing<'a>> {
        let k = product.k;
        let x: Vec<f32> = (0..m * k).map(|i| (i as f32 * 0.37).sin()).collect();
        let x = match product.int8() {
            None => Activations::f32(k, &x)?,
            Some(format) => {
                let mut blocks = vec![0; m * k / format.elements() * format.bytes()];
                match format {
                    BlockFormat::Q8_0 => encode_q8_0(&x, &mut blocks)?,
                    _ => encode_q8_k(&x, &mut blocks)?,
                }
                Activations::int8(format, k, &blocks)?
            }
        };
        Ok(Timing { product, m, x })
    }

    /// Seconds for one matrix, by rows shared between threads. Decode is warmed up, so that what fits
    /// a cache is there, and repeated.
    pub fn seconds(&self, level: Level, threads: usize) -> Result<f64> {
        if self.m > 1 {
            return self.pass(level, threads, 1);
        }
        let warm = self.pass(level, threads, 1)?;
        let all = warm * self.product.matrices.len() as f64;
        let mut times = (TIME / all).ceil().max(1.0) as usize;
        if times > 1 {
            // The first pass was slow: whatever has the size for many passes is in a cache by now.
            let warmer = self.pass(level, threads, times)? * self.product.matrices.len() as f64;
            times = (TIME / warmer).ceil().max(1.0) as usize;
        }
        self.pass(level, threads, times)
    }

    fn pass(&self, level: Level, threads: usize, times: usize) -> Result<f64> {
        let n = self.product.n;
        let share = n.div_ceil(threads).next_multiple_of(PANEL);
        let barrier = Barrier::new(threads);
        let work = |part: usize| {
            let rows = (part * share).min(n)..((part + 1) * share).min(n);
            let mut y = vec![0.0; self.m * rows.len()];
            barrier.wait();
            let start = Instant::now();
            let mut done = Ok(());
            for _ in 0..times {
                for matrix in &self.product.matrices {
                    done = done.and(matrix.multiply(level, rows.clone(), &self.x, &mut y));
                    black_box(&mut y);
                }
            }
            done.map(|()| (start, Instant::now()))
        };
        let spans: Vec<_> = std::thread::scope(|scope| {
            let work = &work;
            let workers: Vec<_> =
                (0..threads).map(|part| scope.spawn(move || work(part))).collect();
            workers.into_iter().filter_map(|worker| worker.join().ok()).collect()
        });
        let spans = spans.into_iter().collect::<rlx_core::Result<Vec<_>>>()?;
        let start = spans.iter().map(|span| span.0).min().ok_or("no thread ran")?;
        let end = spans.iter().map(|span| span.1).max().ok_or("no thread ran")?;
        Ok((end - start).as_secs_f64() / (times * self.product.matrices.len()) as f64)
    }
}
