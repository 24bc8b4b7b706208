//! Random numbers, the same on every device.

use super::sample::philox;
use super::takes::{Taken, knows};
use super::{Call, refused};
use crate::tape::{Code, Kind, Reg, Tape};
use rlx_core::Result;
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::{DType, Type};

pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    knows(op, &["dims"])?;
    match operands {
        [key] if key.dtype == DType::U32 => Ok(()),
        _ => Err("its kernel takes a key of u32".into()),
    }
}

/// The upper 24 bits of as many words as there are elements, rounded up to whole blocks of four: f32.
fn words(t: &mut Tape, key: Reg, n: i64) -> Reg {
    let blocks = n.div_euclid(4) + i64::from(n % 4 != 0);
    let [low, half, eight] = [0xffff_ffff, 32, 8].map(|n| t.integer(Kind::U64, n));
    let word = |t: &mut Tape, i: i64| {
        let word = t.element(key, 4, i);
        t.cast(word, Kind::U64)
    };
    let seed = [word(t, 0), word(t, 1)];
    let (offset, high) = (word(t, 2), word(t, 3));
    let high = t.shl(high, half);
    let offset = t.bit_or(high, offset);
    let numbers = t.arange(Kind::U64, blocks);
    let at = t.add(numbers, offset);
    let (first, second) = (t.bit_and(at, low), t.shr(at, half));
    let zero = t.integer(Kind::U64, 0);
    let four = philox(t, [first, second, zero, zero], seed);
    let columns = four.map(|x| t.reshape(x, &[blocks, 1]));
    let all = t.concat(&columns, 1);
    let all = t.shr(all, eight);
    let all = t.cast(all, Kind::U32);
    let all = t.cast(all, Kind::F32);
    t.reshape(all, &[4 * blocks])
}

pub(super) fn random(c: &mut Call<'_>) -> Result<Vec<Reg>> {
    let normal = match c.op {
        Op::RandomUniform(_) => false,
        Op::RandomNormal(_) => true,
        _ => return Err(refused("no random numbers".into())),
    };
    let (key, dims) = (c.x(0)?, c.out_dims(0)?);
    let n: i64 = dims.iter().product();
    let t = &mut *c.t;
    if n == 0 {
        let zero = t.float(0.0);
        return Ok(vec![t.broadcast(zero, &dims)]);
    }
    let all = words(t, key, n);
    let (count, unit) = (4 * (n.div_euclid(4) + i64::from(n % 4 != 0)), t.float(2f32.powi(-24)));
    let y = if normal {
        let pairs = t.reshape(all, &[count / 2, 2]);
        let [a, b] = [0, 1].map(|i| t.slice(pairs, &[count / 2, 2], 1, i, i + 1));
        let (one, less) = (t.float(1.0), t.float(-2.0));
        let a = t.add(a, one);
        let a = t.mul(a, unit);
        let log = t.op(Code::Log, &[a]);
        let square = t.mul(log, less);
        let radius = t.op(Code::Sqrt, &[square]);
        let turn = t.float((2.0 * std::f64::consts::PI * f64::from(2f32.powi(-24))) as f32);
        let angle = t.mul(b, turn);
        let parts = [Code::Cos, Code::Sin].map(|f| {
            let x = t.op(f, &[angle]);
            t.mul(radius, x)
        });
        t.concat(&parts, 1)
    } else {
        t.mul(all, unit)
    };
    let y = t.reshape(y, &[count]);
    let y = t.slice(y, &[count], 0, 0, n);
    Ok(vec![t.reshape(y, &dims)])
}
