//! AArch64 with the dot product instructions (FEAT_DotProd: Armv8.4, and most cores since 2018): four
//! products of bytes and their sum in one instruction, where `neon_lanes.rs` widens to 16 bits and adds
//! pairs. All else is Advanced SIMD's, handed on.
//!
//! **Unsafe.** The intrinsic `vdotq_s32` is not stable in the Rust we build with, so its instruction is
//! written out: it reads and writes the three named registers and nothing else. It exists where the
//! processor has the feature, which the token proves: its field is private and `new` alone makes one.
#![allow(unsafe_code)]

use super::lanes::{Lanes, four};
use super::neon::Neon;
use super::{LANES, Simd, Task};
use core::arch::aarch64::*;

/// Advanced SIMD and its dot products.
#[derive(Clone, Copy)]
pub(crate) struct NeonDot(Neon);

impl NeonDot {
    /// The token, if this processor has the feature.
    #[inline(always)]
    pub(crate) fn new() -> Option<Self> {
        std::arch::is_aarch64_feature_detected!("dotprod").then(|| Self(Neon::new()))
    }

    /// Runs `task` compiled for the feature.
    #[inline(always)]
    pub(crate) fn run<T: Task>(self, task: T) -> T::Output {
        #[target_feature(enable = "dotprod")]
        fn inner<T: Task>(s: NeonDot, task: T) -> T::Output {
            task.run(s)
        }
        // SAFETY: `new` has detected the feature that `inner` enables.
        unsafe { inner(self, task) }
    }
}

/// `acc[i] + sum_b w[4 i + b] x[4 i + b]`, bytes with signs.
#[inline(always)]
fn sdot(_: NeonDot, acc: int32x4_t, w: uint32x4_t, x: uint32x4_t) -> int32x4_t {
    let mut sum = acc;
    // SAFETY: the token's processor has the instruction; registers only, no flags, no memory. The
    // directive tells the assembler, which sees this outside the function that enables the feature.
    unsafe {
        core::arch::asm!(
            ".arch_extension dotprod",
            "sdot {sum:v}.4s, {w:v}.16b, {x:v}.16b",
            sum = inout(vreg) sum,
            w = in(vreg) w,
            x = in(vreg) x,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sum
}

/// Methods that are Advanced SIMD's.
macro_rules! handed_on {
    ($($name:ident($($arg:ident: $ty:ty),*) $(-> $out:ty)?;)*) => {
        $(
            #[inline(always)]
            fn $name(self, $($arg: $ty),*) $(-> $out)? {
                self.0.$name($($arg),*)
            }
        )*
    };
}

type V = <Neon as Lanes>::V;
type G = <Neon as Lanes>::G;
type F = <Neon as Simd>::F;

impl Lanes for NeonDot {
    type V = V;
    type G = G;
    type A = int32x4_t;
    type AS = int32x4_t;
    const LANES: usize = Neon::LANES;
    const TILE: usize = Neon::TILE;
    const FLOATS: usize = Neon::FLOATS;

    handed_on! {
        words(x: &[u8]) -> V;
        bytes(x: &[u8]) -> V;
        signed_bytes(x: &[u8]) -> V;
        put_words(x: V, out: &mut [u8]);
        set(x: u32) -> V;
        and(a: V, b: V) -> V;
        or(a: V, b: V) -> V;
        xor(a: V, b: V) -> V;
        plus(a: V, b: V) -> V;
        minus(a: V, b: V) -> V;
        times(a: V, b: V) -> V;
        equal(a: V, b: V) -> V;
        left(a: V, n: u32) -> V;
        right(a: V, n: u32) -> V;
        signed_right(a: V, n: u32) -> V;
        minus_bytes(a: V, b: V) -> V;
        look_up(table: &[u8; 16], a: V) -> V;
        gather(table: &[u32], a: V) -> V;
        floats(a: V) -> G;
        halves(a: V) -> G;
        as_floats(a: V) -> G;
        take_f32(x: &[u8]) -> G;
        take_f16(x: &[u8]) -> G;
        take_bf16(x: &[u8]) -> G;
        take(x: &[f32]) -> G;
        put(x: G, out: &mut [f32]);
        all(x: f32) -> G;
        product(a: G, b: G) -> G;
        add_product(a: G, b: G, c: G) -> G;
    }

    #[inline(always)]
    fn start(self, sum: i32) -> int32x4_t {
        // SAFETY: Advanced SIMD is part of the target.
        unsafe { vdupq_n_s32(sum) }
    }
    // A weight of 0..=127 is the same byte with a sign.
    #[inline(always)]
    fn dot(self, acc: int32x4_t, w: V, x: &[u8]) -> int32x4_t {
        sdot(self, acc, w, self.set(four(x)))
    }
    #[inline(always)]
    fn total(self, acc: int32x4_t) -> V {
        // SAFETY: Advanced SIMD is part of the target.
        unsafe { vreinterpretq_u32_s32(acc) }
    }
    #[inline(always)]
    fn zero_signed(self, _: i32) -> int32x4_t {
        self.start(0)
    }
    #[inline(always)]
    fn dot_signed(self, acc: int32x4_t, w: V, x: &[u8]) -> int32x4_t {
        sdot(self, acc, w, self.set(four(x)))
    }
    #[inline(always)]
    fn total_signed(self, acc: int32x4_t) -> V {
        self.total(acc)
    }
}

impl Simd for NeonDot {
    type F = F;

    handed_on! {
        splat(x: f32) -> F;
        load(x: &[f32; LANES]) -> F;
        store(x: F, out: &mut [f32; LANES]);
        add(a: F, b: F) -> F;
        sub(a: F, b: F) -> F;
        mul(a: F, b: F) -> F;
        div(a: F, b: F) -> F;
        max(a: F, b: F) -> F;
        min(a: F, b: F) -> F;
        fma(a: F, b: F, c: F) -> F;
        exp2(n: F) -> F;
        store_f16(x: F, out: &mut [u8; 2 * LANES]);
    }
}
