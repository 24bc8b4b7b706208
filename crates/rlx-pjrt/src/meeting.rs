//! Where ranks of a group meet for a call that is made once for all of them.

use rlx_core::runtime::device::group::Together;
use rlx_core::{Code, Error, Result};
use std::mem::replace;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Ranks of which each brings a `T`, and takes an `R` once all have come. The meeting calls them too, each on a thread
/// of its own, because they wait for each other.
pub(crate) struct Meeting<T, R> {
    /// Held by a call of all ranks: another one would meet ranks of this one.
    turn: Mutex<()>,
    inner: Mutex<Inner<T, R>>,
    changed: Condvar,
}

struct Inner<T, R> {
    ranks: Vec<Rank<T, R>>,
    /// Why a rank failed in this call.
    failed: Option<Error>,
}

/// Where a rank is.
enum Rank<T, R> {
    /// In none of the group's calls.
    Away,
    /// In a call, and may come.
    Coming,
    /// It has brought this.
    Waits(T),
    /// It may take this.
    Served(Result<R>),
}

pub(crate) fn locked<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    // No value is left half changed.
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T, R> Meeting<T, R> {
    /// A meeting of so many ranks.
    pub fn new(ranks: usize) -> Meeting<T, R> {
        let ranks = (0..ranks).map(|_| Rank::Away).collect();
        Meeting {
            turn: Mutex::new(()),
            inner: Mutex::new(Inner { ranks, failed: None }),
            changed: Condvar::new(),
        }
    }

    /// Keeps the error of a rank for others that would wait for it.
    pub fn told<X>(&self, done: Result<X>) -> Result<X> {
        done.inspect_err(|e| {
            locked(&self.inner).failed.get_or_insert_with(|| e.clone());
        })
    }

    /// Brings a rank's part. The last rank to come calls `serve` with the parts of all, in the order of the ranks; the
    /// others wait for it. This rank's result.
    ///
    /// # Errors
    /// `DeviceLost` where another rank ends its call without coming; the error of `serve`, on every rank.
    pub fn meet(
        &self,
        rank: usize,
        part: T,
        serve: impl FnOnce(&[T]) -> Result<Vec<R>>,
    ) -> Result<R> {
        let mut inner = locked(&self.inner);
        match inner.ranks.get_mut(rank) {
            Some(own) => *own = Rank::Waits(part),
            None => return Err(Error::internal(format!("a group has no rank {rank}"))),
        }
        if inner.ranks.iter().all(|r| matches!(r, Rank::Waits(_))) {
            inner.serve(serve);
            self.changed.notify_all();
        }
        loop {
            match replace(&mut inner.ranks[rank], Rank::Coming) {
                Rank::Served(result) => return result,
                other => inner.ranks[rank] = other,
            }
            if let Some(gone) = inner.ranks.iter().position(|r| matches!(r, Rank::Away)) {
                inner.ranks[rank] = Rank::Coming;
                let what = match &inner.failed {
                    Some(e) => format!("another device of the group failed: {}", e.what),
                    None => format!("device {gone} of the group did not come to a run"),
                };
                return Err(Error::new(Code::DeviceLost, what));
            }
            inner = self.changed.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<T, R> Inner<T, R> {
    /// Serves what all ranks have brought.
    fn serve(&mut self, serve: impl FnOnce(&[T]) -> Result<Vec<R>>) {
        let mut all = Vec::with_capacity(self.ranks.len());
        for rank in &mut self.ranks {
            if let Rank::Waits(part) = replace(rank, Rank::Coming) {
                all.push(part);
            }
        }
        let served = serve(&all).and_then(|results| match results.len() == self.ranks.len() {
            true => Ok(results),
            false => Err(Error::internal("a run gave results of other devices than it has")),
        });
        match served {
            Ok(results) => {
                let each = self.ranks.iter_mut().zip(results);
                each.for_each(|(rank, result)| *rank = Rank::Served(Ok(result)));
            }
            Err(e) => self.ranks.iter_mut().for_each(|rank| *rank = Rank::Served(Err(e.clone()))),
        }
    }
}

/// Ends a rank's call, even by a panic: others wait for it no longer.
struct Leaves<'a, T, R>(&'a Meeting<T, R>, usize);

impl<T, R> Drop for Leaves<'_, T, R> {
    fn drop(&mut self) {
        if let Some(rank) = locked(&self.0.inner).ranks.get_mut(self.1) {
            *rank = Rank::Away;
        }
        self.0.changed.notify_all();
    }
}

impl<T: Send, R: Send> Together for Meeting<T, R> {
    fn each(&self, ranks: usize, f: &(dyn Fn(usize) + Sync)) {
        let _turn = locked(&self.turn);
        {
            let inner = &mut *locked(&self.inner);
            inner.ranks.iter_mut().for_each(|rank| *rank = Rank::Coming);
            inner.failed = None;
        }
        let call = |rank| {
            let _leaves = Leaves(self, rank);
            f(rank);
        };
        thread::scope(|scope| {
            let call = &call;
            let others: Vec<_> = (1..ranks).map(|rank| scope.spawn(move || call(rank))).collect();
            if ranks > 0 {
                call(0);
            }
            for other in others {
                // A call that ended in a panic has left no result, which the group reports.
                let _ = other.join();
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn ranks_that_meet_are_served_once_in_their_order() {
        let meeting = Meeting::<usize, String>::new(3);
        let (calls, right) = (AtomicUsize::new(0), AtomicUsize::new(0));
        for _ in 0..4 {
            meeting.each(3, &|rank| {
                let serve = |all: &[usize]| {
                    calls.fetch_add(1, Ordering::Relaxed);
                    Ok((0..3).map(|i| format!("{i} of {all:?}")).collect())
                };
                let got = meeting.meet(rank, rank * 10, serve);
                right.fetch_add(
                    usize::from(got == Ok(format!("{rank} of [0, 10, 20]"))),
                    Ordering::Relaxed,
                );
            });
        }
        assert_eq!((calls.into_inner(), right.into_inner()), (4, 12));
    }

    #[test]
    fn an_error_of_the_call_is_every_rank_s() {
        let meeting = Meeting::<(), ()>::new(2);
        let failed = AtomicUsize::new(0);
        for results in [Err(Error::internal("no room")), Ok(vec![()])] {
            meeting.each(2, &|rank| {
                let e = meeting.meet(rank, (), |_| results.clone());
                failed.fetch_add(usize::from(e.is_err()), Ordering::Relaxed);
            });
        }
        assert_eq!(failed.into_inner(), 4);
    }

    #[test]
    fn a_rank_whose_call_ends_is_waited_for_no_longer() {
        let meeting = Meeting::<(), ()>::new(2);
        let never = |_: &[()]| -> Result<Vec<()>> { panic!("one rank is missing") };
        let waited = Mutex::new(Vec::new());
        for told in [false, true] {
            meeting.each(2, &|rank| {
                if rank == 0 {
                    let e = meeting.meet(0, (), never).expect_err("the other one does not come");
                    locked(&waited).push((e.code, e.what));
                } else if told {
                    assert!(meeting.told::<()>(Err(Error::internal("no room"))).is_err());
                }
            });
        }
        let want = [
            "device 1 of the group did not come to a run",
            "another device of the group failed: no room",
        ];
        assert_eq!(*locked(&waited), want.map(|what| (Code::DeviceLost, what.to_string())));
        // Nobody comes where the group calls nobody.
        assert!(meeting.meet(1, (), never).is_err());
        assert_eq!(meeting.meet(2, (), never).map_err(|e| e.code), Err(Code::Internal));
    }
}
