//! Rotary positions of a grid.

use crate::error::{Error, Result};
use crate::ops::AxialRope2d;
use crate::reference::view::scalar_bytes;
use crate::reference::{Run, View, arity};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

impl Run for AxialRope2d {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [x] = operands else { return Err(arity("axial_rope_2d")) };
        let (mut y, dims) = (x.f64s()?, x.sizes()?);
        let [.., rows, width] = dims.as_slice() else { return Err(arity("axial_rope_2d")) };
        let tokens = self.tokens().unwrap_or(u64::MAX);
        // A symbolic size may have become too small.
        if (*rows as u64) < tokens {
            return Err(Error::bad_graph(format!(
                "axial_rope_2d: {rows} tokens, expected {tokens}"
            )));
        }
        let turns: Vec<Vec<(f64, f64)>> =
            (0..self.end_x * self.end_y).map(|token| self.turns(token)).collect();
        for (i, row) in y.chunks_exact_mut(*width).enumerate() {
            let token = i % rows;
            if token as u64 >= tokens {
                continue;
            }
            for head in row.chunks_exact_mut(self.head_dim as usize) {
                let pairs = head.as_chunks_mut::<2>().0;
                for ([a, b], (cos, sin)) in pairs.iter_mut().zip(&turns[token % turns.len()]) {
                    (*a, *b) = (*a * cos - *b * sin, *a * sin + *b * cos);
                }
            }
        }
        Ok(vec![scalar_bytes(x.ty.dtype, &y)?])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::AxialRope2d;
    use crate::reference::testing::*;

    const GRID: AxialRope2d = AxialRope2d {
        end_x: 2,
        end_y: 3,
        head_dim: 8,
        heads: 2,
        theta: 100.0,
        repeat: 1,
        scale: 1.0,
    };

    #[test]
    fn columns_turn_the_first_half_of_a_head_and_rows_the_second() {
        // Every pair is (1, 0), so the result is (cos, sin) of each angle.
        let x: alloc::vec::Vec<f32> = (0..6 * 16).map(|i| (1 - i % 2) as f32).collect();
        let y = run1(GRID, &[&f32s(&[6, 16], &x)]);
        for token in 0..6 {
            let (column, row) = ((token % 2) as f64, (token / 2) as f64);
            // Frequencies 100^0 and 100^(-4/8).
            let angles = [column, column * 0.1, row, row * 0.1];
            for head in 0..2 {
                let pairs = &y[token * 16 + head * 8..][..8];
                let expected: alloc::vec::Vec<f64> =
                    angles.iter().flat_map(|a| [a.cos(), a.sin()]).collect();
                close(pairs, &expected);
            }
        }
    }

    #[test]
    fn a_repeated_grid_starts_again_and_tokens_past_it_stay() {
        let x = noise(15 * 16, 3);
        let y = run1(AxialRope2d { repeat: 2, scale: 0.5, ..GRID }, &[&f32s(&[1, 15, 16], &x)]);
        let one = |from: usize| {
            let part = f32s(&[6, 16], &x[from * 16..][..6 * 16]);
            run1(AxialRope2d { scale: 0.5, ..GRID }, &[&part])
        };
        assert_eq!(y[..96], one(0));
        assert_eq!(y[96..192], one(6));
        assert_eq!(y[192..], x[192..]);
    }

    #[test]
    fn heads_and_tokens_must_fit() {
        let x = f32s(&[5, 16], &[0.0; 80]);
        assert_eq!(
            fails(GRID, &[&x]).what,
            "axial_rope_2d: x is tensor<5x16xf32>, expected [.., S, 16] with S of 6 or more"
        );
        assert_eq!(
            fails(AxialRope2d { head_dim: 6, ..GRID }, &[&x]).what,
            "axial_rope_2d: a grid of 2 x 3, 1 times, with 2 heads of 6 and theta 100; expected sizes of 1 or more, heads in fours"
        );
        let huge = AxialRope2d { end_x: u64::MAX, end_y: 2, ..GRID };
        assert!(fails(huge, &[&x]).what.starts_with("axial_rope_2d: a grid of"));
    }
}
