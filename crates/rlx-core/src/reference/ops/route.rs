//! The experts of each row, and their shares.

use crate::error::Result;
use crate::ops::{LEAST_SUM, Route};
use crate::reference::view::{scalar_bytes, word_bytes};
use crate::reference::{Run, View, arity};
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Ordering;

impl Run for Route {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let Some(logits) = operands.first() else { return Err(arity("route")) };
        let [m, experts] = logits.dims()?;
        let x = logits.f64s()?;
        let bias = operands.get(1).map(View::f64s).transpose()?;
        let (mut ids, mut shares) = (Vec::with_capacity(m), Vec::with_capacity(m));
        for x in x.chunks(experts.max(1)).take(m) {
            let scores = self.scores(x);
            let mut choice = if self.chooses_by_score() { scores.clone() } else { x.to_vec() };
            if let Some(bias) = &bias {
                choice.iter_mut().zip(bias).for_each(|(c, b)| *c += b);
            }
            if self.has_groups() {
                let each = experts / self.groups;
                let best =
                    |of: &[f64]| best(of, self.group_sum).into_iter().map(|i| of[i]).sum::<f64>();
                let of_groups: Vec<f64> = choice.chunks(each).map(best).collect();
                let mut kept = vec![false; self.groups];
                self::best(&of_groups, self.top_groups).into_iter().for_each(|g| kept[g] = true);
                for (choice, _) in choice.chunks_mut(each).zip(kept).filter(|(_, kept)| !kept) {
                    choice.fill(f64::NEG_INFINITY);
                }
            }
            let chosen = best(&choice, self.top_k);
            let sum: f64 = chosen.iter().map(|&e| scores[e]).sum();
            let divisor = if self.normalise { sum.max(LEAST_SUM.into()) } else { 1.0 };
            let scale = f64::from(self.scale.unwrap_or(1.0));
            shares.extend(chosen.iter().map(|&e| scores[e] / divisor * scale));
            ids.extend(chosen.iter().map(|&e| e as u32));
        }
        Ok(vec![word_bytes(&ids), scalar_bytes(logits.ty.dtype, &shares)?])
    }
}

impl Route {
    fn scores(&self, x: &[f64]) -> Vec<f64> {
        if self.sigmoid {
            return x.iter().map(|x| 1.0 / (1.0 + crate::math::exp(-x))).collect();
        }
        let largest = x.iter().fold(f64::NEG_INFINITY, |m, x| m.max(*x));
        let powers: Vec<f64> = x.iter().map(|x| crate::math::exp(x - largest)).collect();
        let sum: f64 = powers.iter().sum();
        powers.into_iter().map(|p| p / sum).collect()
    }
}

/// The places of the `n` largest, the largest first, ties to the lower place.
fn best(x: &[f64], n: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..x.len()).collect();
    // Plain comparison, which has -0 and 0 equal; NaN is above all.
    let key = |a: f64, b: f64| match (a.is_nan(), b.is_nan()) {
        (false, false) => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
        (a, b) => a.cmp(&b),
    };
    order.sort_by(|&a, &b| key(x[b], x[a]).then(a.cmp(&b)));
    order.truncate(n);
    order
}

#[cfg(test)]
mod tests {
    use crate::ops::Route;
    use crate::reference::testing::*;
    use alloc::vec;

    #[test]
    fn normalised_shares_of_a_softmax_are_the_softmax_of_the_chosen() {
        let op = Route { normalise: true, scale: Some(2.0), ..Route::softmax(2) };
        let y = run(op, &[&f32s(&[2, 4], &[0.0, 2.0, 1.0, -1.0, 3.0, 3.0, 3.0, 3.0])]);
        assert_eq!(y[0].u32s(), [1, 2, 0, 1]);
        let e = 1f64.exp();
        close(&y[1].f32s(), &[2.0 * e / (1.0 + e), 2.0 / (1.0 + e), 1.0, 1.0]);
        // Of all, they are shares of all.
        let y = run(Route::softmax(1), &[&f32s(&[1, 2], &[0.0, 1.0])]);
        close(&y[1].f32s(), &[e / (1.0 + e)]);
    }

    #[test]
    fn a_bias_counts_for_the_choice_alone() {
        let op = Route { sigmoid: true, choice_bias: true, ..Route::softmax(1) };
        let y = run(op, &[&f32s(&[1, 3], &[5.0, 0.0, 1.0]), &f32s(&[3], &[-1.0, 1.0, 0.0])]);
        assert_eq!((y[0].u32s(), y[1].f32s()), (vec![1], vec![0.5]));
    }

    #[test]
    fn experts_come_from_the_best_groups() {
        // Groups (4, 0), (3, 3), (3.5, 1): by the best, 0 and 2; by the sum of two, 1 and 2.
        let x = f32s(&[1, 6], &[4.0, 0.0, 3.0, 3.0, 3.5, 1.0]);
        let zeros = f32s(&[6], &[0.0; 6]);
        let op = Route { choice_bias: true, groups: 3, top_groups: 2, ..Route::softmax(3) };
        assert_eq!(run(op.clone(), &[&x, &zeros])[0].u32s(), [0, 4, 5]);
        // Scores of sigmoids: 0.98 + 0.5, 0.95 + 0.95, 0.97 + 0.73.
        let op = Route { sigmoid: true, group_sum: 2, ..op };
        assert_eq!(run(op, &[&x, &zeros])[0].u32s(), [4, 2, 3]);
    }

    #[test]
    fn scores_of_nothing_give_shares_of_nothing() {
        let op = Route { sigmoid: true, normalise: true, ..Route::softmax(2) };
        let y = run(op, &[&f32s(&[1, 2], &[f32::NEG_INFINITY; 2])]);
        assert_eq!((y[0].u32s(), y[1].f32s()), (vec![0, 1], vec![0.0, 0.0]));
    }

    #[test]
    fn rows_with_nan_go_to_experts_that_are_there() {
        let y = run(Route::softmax(2), &[&f32s(&[1, 3], &[f32::NAN, 1.0, f32::NAN])]);
        assert_eq!(y[0].u32s(), [0, 2]);
        assert_eq!(run(Route::softmax(2), &[&f32s(&[0, 3], &[])])[0].bytes, [0u8; 0]);
    }

    #[test]
    fn choices_that_no_groups_have_are_refused() {
        let x = f32s(&[1, 6], &[0.0; 6]);
        let with = |top_k, groups, top_groups, group_sum| Route {
            groups,
            top_groups,
            group_sum,
            ..Route::softmax(top_k)
        };
        for op in [
            with(7, 1, 1, 1),
            with(0, 1, 1, 1),
            with(1, 4, 2, 1),
            with(1, 0, 0, 1),
            with(3, 3, 1, 1),
            with(1, 3, 4, 1),
            with(1, 3, 0, 1),
            with(1, 3, 1, 3),
        ] {
            let e = fails(op.clone(), &[&x]);
            assert!(
                e.what.starts_with("route: logits is tensor<1x6xf32>; expected E"),
                "{op:?} {e}"
            );
        }
        let op = Route { choice_bias: true, ..Route::softmax(2) };
        let e = fails(op, &[&x, &f32s(&[5], &[0.0; 5])]);
        assert_eq!(e.what, "route: bias is tensor<5xf32>, expected tensor<6xf32>");
    }
}
