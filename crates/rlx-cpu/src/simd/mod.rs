//! SIMD levels, and the vector operations that kernels are written in.
//!
//! A kernel is one generic, safe function over [`Simd`], whose vectors are 8 floats of one row, or over
//! [`Lanes`], whose lanes are rows of a weight; a level is one implementation of both. The
//! implementing types are tokens: a value exists only where the processor has the features, so
//! their methods are safe to call. [`dispatch`] picks the token of a [`Level`] and runs a
//! [`Task`] inside a function compiled for its features; everything below that function is
//! `#[inline(always)]`, because code that is not inlined there would be compiled without them.
//!
//! `Simd` has 8 lanes at every level, so its sums have one order everywhere; `Lanes` has 16, 8 or 4, and
//! sums across lanes only in attention. Products of a weight's rows have one order at every level, in
//! which levels differ where one has fused multiply-add.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx2_lanes;
#[cfg(target_arch = "x86_64")]
mod avx512_bytes;
#[cfg(target_arch = "x86_64")]
mod avx512_lanes;
mod books;
mod lanes;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "aarch64")]
mod neon_dot;
#[cfg(target_arch = "aarch64")]
mod neon_lanes;
#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
mod scalar;
#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
mod scalar_lanes;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod wasm;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod wasm_lanes;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
#[cfg_attr(not(target_feature = "relaxed-simd"), path = "wasm_halves.rs")]
#[cfg_attr(all(target_feature = "relaxed-simd", not(feature = "dot")), path = "wasm_pairs.rs")]
#[cfg_attr(all(target_feature = "relaxed-simd", feature = "dot"), path = "wasm_dot.rs")]
mod wasm_sums;

pub(crate) use books::{Eights, Fours};
pub(crate) use lanes::{Lanes, byte, head, high, low};

/// f32 in a vector.
pub(crate) const LANES: usize = 8;

/// A set of instructions that kernels exist for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Plain loops; the oracle of the others.
    Scalar,
    /// x86-64 with AVX2, FMA and F16C.
    Avx2,
    /// AVX-512 with its integer dot products (VNNI).
    Avx512Vnni,
    /// The same with its permutations of bytes (VBMI: Ice Lake, Zen 4 and later), which read codebooks.
    Avx512Vbmi,
    /// AArch64's Advanced SIMD.
    Neon,
    /// The same with its integer dot products.
    NeonDot,
    /// WebAssembly's 128-bit SIMD, with its relaxed instructions where the build has them: both
    /// chosen when compiling.
    Simd128,
}

impl Level {
    /// Every level, slowest first.
    pub const ALL: [Level; 7] = [
        Level::Scalar,
        Level::Avx2,
        Level::Avx512Vnni,
        Level::Avx512Vbmi,
        Level::Neon,
        Level::NeonDot,
        Level::Simd128,
    ];

    /// The name in `info()`: `avx2`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Avx2 => "avx2",
            Self::Avx512Vnni => "avx512vnni",
            Self::Avx512Vbmi => "avx512vbmi",
            Self::Neon => "neon",
            Self::NeonDot => "neon-dotprod",
            Self::Simd128 if cfg!(all(target_feature = "relaxed-simd", feature = "dot")) => {
                "relaxed-simd-dot"
            }
            Self::Simd128 if cfg!(target_feature = "relaxed-simd") => "relaxed-simd",
            Self::Simd128 => "simd128",
        }
    }

    /// Whether this build and this processor have it.
    pub fn is_available(self) -> bool {
        match self {
            #[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
            Self::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => avx2::Avx2::new().is_some(),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Vnni => avx2::Vnni::new().is_some(),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Vbmi => avx2::Vbmi::new().is_some(),
            #[cfg(target_arch = "aarch64")]
            Self::Neon => true,
            #[cfg(target_arch = "aarch64")]
            Self::NeonDot => neon_dot::NeonDot::new().is_some(),
            #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
            Self::Simd128 => true,
            _ => false,
        }
    }

    /// The best level there is.
    pub fn detect() -> Level {
        Self::ALL.iter().rev().copied().find(|l| l.is_available()).unwrap_or(Self::Scalar)
    }
}

/// Work that is compiled once for each level.
pub(crate) trait Task {
    /// What it answers.
    type Output;
    /// The work. Implementations are `#[inline(always)]`.
    fn run<S: Simd>(self, s: S) -> Self::Output;
}

/// Runs `task` at `level`. A level that is not available runs the slowest one there is.
///
/// In a page's build for networks it is a call, not a copy of the task for each place that wants one: there are many,
/// and pages download each. Natively, levels with features of their own have no copies either.
#[cfg_attr(all(target_family = "wasm", feature = "graphs"), inline(never))]
#[cfg_attr(not(all(target_family = "wasm", feature = "graphs")), inline)]
pub(crate) fn dispatch<T: Task>(level: Level, task: T) -> T::Output {
    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
    {
        let _ = level;
        task.run(wasm::Simd128::new())
    }
    #[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
    match level {
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => match avx2::Avx2::new() {
            Some(s) => s.run(task),
            None => task.run(scalar::Portable),
        },
        #[cfg(target_arch = "x86_64")]
        Level::Avx512Vnni => match avx2::Vnni::new() {
            Some(s) => s.run(task),
            None => task.run(scalar::Portable),
        },
        #[cfg(target_arch = "x86_64")]
        Level::Avx512Vbmi => match avx2::Vbmi::new() {
            Some(s) => s.run(task),
            None => task.run(scalar::Portable),
        },
        #[cfg(target_arch = "aarch64")]
        Level::Neon => task.run(neon::Neon::new()),
        #[cfg(target_arch = "aarch64")]
        Level::NeonDot => match neon_dot::NeonDot::new() {
            Some(s) => s.run(task),
            None => task.run(neon::Neon::new()),
        },
        _ => task.run(scalar::Portable),
    }
}

/// Vector operations on 8 f32.
pub(crate) trait Simd: Lanes {
    /// 8 f32.
    type F: Copy;

    fn splat(self, x: f32) -> Self::F;
    fn load(self, x: &[f32; LANES]) -> Self::F;
    fn store(self, x: Self::F, out: &mut [f32; LANES]);
    fn add(self, a: Self::F, b: Self::F) -> Self::F;
    fn sub(self, a: Self::F, b: Self::F) -> Self::F;
    fn mul(self, a: Self::F, b: Self::F) -> Self::F;
    fn div(self, a: Self::F, b: Self::F) -> Self::F;
    /// The larger; `b` where one is NaN.
    fn max(self, a: Self::F, b: Self::F) -> Self::F;
    /// The smaller; `b` where one is NaN.
    fn min(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a b + c`, rounded once where the level can.
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// `2^n` for whole `n` in -126..=127.
    fn exp2(self, n: Self::F) -> Self::F;
    /// To f16, halves to even.
    fn store_f16(self, x: Self::F, out: &mut [u8; 2 * LANES]);

    // Derived, in one order for every level.

    /// The sum of the lanes, pairwise.
    #[inline(always)]
    fn sum(self, a: Self::F) -> f32 {
        let mut v = [0.0; LANES];
        self.store(a, &mut v);
        ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]))
    }

    /// `e^x` within 2 ulp; 0 below -104, infinity above 88.8, NaN stays.
    ///
    /// `x = n ln 2 + r`, `|r| <= 0.347`: Taylor's series to `r^7` is off by less than 6e-9.
    #[inline(always)]
    fn exp(self, x: Self::F) -> Self::F {
        const ROUND: f32 = 12_582_912.0; // 1.5 * 2^23: adding it leaves no bits for a fraction
        const LN2_HIGH: f32 = 0.693_359_4; // 12 bits of ln 2: n times it is exact
        const LN2_LOW: f32 = -2.121_944_4e-4;
        let s = self;
        let x = s.min(s.splat(89.0), s.max(s.splat(-105.0), x));
        let magic = s.splat(ROUND);
        let n = s.sub(s.fma(x, s.splat(core::f32::consts::LOG2_E), magic), magic);
        let r = s.fma(n, s.splat(-LN2_HIGH), x);
        let r = s.fma(n, s.splat(-LN2_LOW), r);
        let mut y = s.splat(1.0 / 5040.0);
        for c in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
            y = s.fma(y, r, s.splat(c));
        }
        // n reaches -152 and 129: two factors, so that both ends are rounded by the product.
        let half = s.sub(s.fma(n, s.splat(0.5), magic), magic);
        s.mul(s.mul(y, s.exp2(half)), s.exp2(s.sub(n, half)))
    }
}

/// f16 to f32 without a branch on subnormals, and without a subnormal f32 on the way, which some processors are slow
/// with: an exponent moved by 113 doubles a normal number and adds 2^-14 to a subnormal one.
#[inline(always)]
pub(crate) fn f16_to_f32(bits: u16) -> f32 {
    let magnitude = u32::from(bits & 0x7fff);
    let moved = f32::from_bits((magnitude << 13) + 0x3880_0000);
    let (normal, subnormal) = (moved * 0.5, moved - f32::from_bits(0x3880_0000));
    let finite = if normal < subnormal { normal } else { subnormal };
    let special = if magnitude > 0x7bff { 0x7f80_0000 } else { 0 };
    f32::from_bits(finite.to_bits() | special | (u32::from(bits & 0x8000) << 16))
}
