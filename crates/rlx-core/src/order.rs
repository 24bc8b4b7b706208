//! Stable sorting with one copy of the sort.
//!
//! `slice::sort_by` is compiled anew for each type, 3.5 kB of a page's download every time. Here only the
//! permutation of numbers is sorted, by that function; what a type has of its own are its comparison and a
//! swap. It costs a call for each comparison, so what sorts in an inner loop does not use it.

use alloc::vec::Vec;
use core::cmp::Ordering;

/// Sorts by a comparison; equal items stay in their order.
pub fn sort_by<T>(items: &mut [T], compare: impl Fn(&T, &T) -> Ordering) {
    if items.len() < 2 {
        return;
    }
    let order = sorted(items.len(), &|a, b| compare(&items[a], &items[b]));
    arrange(items, order);
}

/// Sorts items by their own order.
pub fn sort<T: Ord>(items: &mut [T]) {
    sort_by(items, T::cmp);
}

/// Sorts by a key, which is computed at each comparison; equal items stay in their order.
pub fn sort_by_key<T, K: Ord>(items: &mut [T], key: impl Fn(&T) -> K) {
    sort_by(items, |a, b| key(a).cmp(&key(b)));
}

/// The numbers of `n` items, sorted.
#[inline(never)]
fn sorted(n: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order = Vec::from_iter(0..n);
    order.sort_by(|&a, &b| compare(a, b));
    order
}

/// Puts the item `order[i]` at `i`, along each cycle of the permutation.
fn arrange<T>(items: &mut [T], mut order: Vec<usize>) {
    for first in 0..order.len() {
        let mut at = first;
        loop {
            let from = core::mem::replace(&mut order[at], at);
            if from == first {
                break;
            }
            items.swap(at, from);
            at = from;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{sort_by, sort_by_key};
    use alloc::vec::Vec;

    #[test]
    fn sorts_as_the_standard_library_does() {
        let mut seed = 1u64;
        for n in [0, 1, 2, 3, 10, 100, 1000] {
            let items = Vec::from_iter((0..n).map(|i| {
                seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                ((seed >> 33) % 17, i)
            }));
            let (mut ours, mut theirs) = (items.clone(), items);
            sort_by_key(&mut ours, |item| item.0);
            theirs.sort_by_key(|item| item.0);
            assert_eq!(ours, theirs);
            sort_by(&mut ours, |a, b| b.cmp(a));
            theirs.sort_by(|a, b| b.cmp(a));
            assert_eq!(ours, theirs);
        }
    }
}
