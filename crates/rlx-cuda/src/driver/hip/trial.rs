//! A small product whose numbers are whole, so that its result is exact whatever the order of its sums.

use super::handles::Card;
use super::products::{Addresses, Form, Library};
use crate::driver::Floats;
use rlx_core::Result;

const ROWS: usize = 48;
const COLUMNS: usize = 64;
const K: usize = 40;

/// Small whole numbers that no two rows have in the same order.
fn number(i: usize) -> f32 {
    (i * 7 % 11) as f32 - 5.0 + (i / 11 % 3) as f32
}

/// The bytes of whole numbers of up to eight bits in a type of 16 bits; both types have them exactly.
fn short(x: f32, floats: Floats) -> [u8; 2] {
    let bits = x.to_bits();
    let word = match floats {
        Floats::Bf16 => (bits >> 16) as u16,
        _ if x == 0.0 => 0,
        // The exponent has another middle, the fraction 13 bits less.
        _ => (bits >> 16 & 0x8000) as u16 | (((bits & 0x7fff_ffff) - (112 << 23)) >> 13) as u16,
    };
    word.to_le_bytes()
}

/// Whether the library's product is right.
///
/// # Errors
/// The library's, and the card's.
pub(super) fn is_right(library: &Library, card: &Card, floats: Floats) -> Result<bool> {
    let has_more = floats != Floats::Sums;
    let form = Form {
        rows: ROWS as u32,
        columns: COLUMNS as u32,
        k: K as u32,
        floats,
        bias: has_more,
        residual: has_more,
    };
    let of = |n: usize, from: usize| (0..n).map(|i| number(i + from)).collect::<Vec<f32>>();
    // Of short results: numbers of at most eight bits, which bf16 has exactly.
    let sparse = |n: usize, from: usize| {
        let one = |i: usize| if has_more && !i.is_multiple_of(10) { 0.0 } else { number(i + from) };
        (0..n).map(one).collect::<Vec<f32>>()
    };
    let (x, w) = (sparse(ROWS * K, 1), sparse(COLUMNS * K, 30));
    let (bias, residual) = (of(COLUMNS, 3), of(ROWS * COLUMNS, 9));
    let mut want = Vec::new();
    for m in 0..ROWS {
        for n in 0..COLUMNS {
            let pairs = x[m * K..][..K].iter().zip(&w[n * K..][..K]);
            let sum: f32 = pairs.map(|(a, b)| a * b).sum();
            let more = if has_more { bias[n] + residual[m * COLUMNS + n] } else { 0.0 };
            match floats {
                Floats::Sums => want.extend(sum.to_le_bytes()),
                _ => want.extend(short(sum + more, floats)),
            }
        }
    }
    let bytes = |x: &[f32]| -> Vec<u8> { x.iter().flat_map(|x| short(*x, floats)).collect() };
    let mut all = Vec::new();
    let mut places = Vec::new();
    for part in [bytes(&x), bytes(&w), bytes(&bias), bytes(&residual), vec![0xff; want.len()]] {
        places.push(all.len() as u64);
        all.extend(part);
        all.resize(all.len().next_multiple_of(256), 0);
    }
    let memory = card.memory(all.len() as u64)?;
    let mut pinned = card.pinned(all.len())?;
    pinned.fill(&all)?;
    let done = (|| {
        card.write((&memory, 0), &pinned, all.len())?;
        let at = |i: usize| card.address(&memory, places[i], 0);
        let more = |i: usize| if has_more { at(i).map(Some) } else { Ok(None) };
        let (x, w, y) = (at(0)?, at(1)?, at(4)?);
        let at = Addresses { x, w, y, bias: more(2)?, residual: more(3)? };
        let way = library.way(&form, at.bias)?;
        library.queue(card, &form, &way, &at)?;
        card.read(&pinned, (&memory, 0), all.len())
    })();
    // Whatever was queued uses both memories.
    card.synchronize()?;
    done?;
    Ok(pinned.filled(all.len())?[places[4] as usize..].starts_with(&want))
}
