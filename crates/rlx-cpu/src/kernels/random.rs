//! random_uniform   y[i] = a word's upper 24 bits * 2^-24
//! random_normal    y[2 p], y[2 p + 1] = r cos(t), r sin(t) of two words (Box and Muller 1958)
//! shapes      key u32[4]: a seed, and the block of four words that y begins with    y f32, any
//! bytes       y once
//! shares      runs of y's elements, from whole blocks of words on
//! numerics    the words are every device's; f64 inside, rounded once: the reference's bits

use super::{Kernel, Planned};
use crate::place::Split;
use crate::view::Cx;
use core::f64::consts::TAU;
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::math::{cos, log, sin, sqrt};
use rlx_core::ops;
use rlx_core::sample::philox::philox4x32_10;
use rlx_core::target::Target;
use rlx_core::types::Type;

/// 2^-24: a word's upper 24 bits become a number below 1.
const UNIT: f64 = 1.0 / 16_777_216.0;
/// Bytes of a share's least run: four blocks of words.
const RUN: usize = 64;

/// What four numbers are made of a block of words.
struct Random(fn([u32; 4]) -> [f32; 4]);

pub(super) fn takes(_: &ops::RandomUniform, _: &[&Type], _: &Target) -> Result<(), String> {
    Ok(())
}

pub(super) fn takes_normal(_: &ops::RandomNormal, _: &[&Type], _: &Target) -> Result<(), String> {
    Ok(())
}

pub(super) fn plan(_: &ops::RandomUniform, step: &Step) -> Result<Planned> {
    Ok(planned(uniform, step))
}

pub(super) fn plan_normal(_: &ops::RandomNormal, step: &Step) -> Result<Planned> {
    Ok(planned(normal, step))
}

fn planned(make: fn([u32; 4]) -> [f32; 4], step: &Step) -> Planned {
    // Ten rounds of two products for a block, and what is made of it.
    let work = 10 * step.results[0].bytes as usize;
    Planned::new(Random(make), &[Split::Flat(RUN)], work)
}

/// An upper part of a word as a number from 0 on, below 1.
fn unit(word: u32) -> f64 {
    f64::from(word >> 8) * UNIT
}

fn uniform(words: [u32; 4]) -> [f32; 4] {
    words.map(|word| unit(word) as f32)
}

fn normal([a, b, c, d]: [u32; 4]) -> [f32; 4] {
    let polar = |first: u32, second: u32| {
        let radius = sqrt(-2.0 * log(unit(first) + UNIT));
        let angle = TAU * unit(second);
        [(radius * cos(angle)) as f32, (radius * sin(angle)) as f32]
    };
    let ([x, y], [z, w]) = (polar(a, b), polar(c, d));
    [x, y, z, w]
}

impl Kernel for Random {
    fn run(&self, cx: &mut Cx<'_>) {
        let &[seed_low, seed_high, low, high] = cx.slice::<u32>(0) else { return };
        let offset = u64::from(high) << 32 | u64::from(low);
        let first = cx.result(0).columns::<f32>().start / 4;
        for (k, y) in cx.result(0).row::<f32>(0).chunks_mut(4).enumerate() {
            let at = offset.wrapping_add((first + k) as u64);
            let counter = [at as u32, (at >> 32) as u32, 0, 0];
            let four = (self.0)(philox4x32_10(counter, [seed_low, seed_high]));
            y.copy_from_slice(&four[..y.len()]);
        }
    }
}
