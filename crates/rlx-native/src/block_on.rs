//! Drives core's poll functions on this thread: it parks until the waker is called.
//!
//! Some devices make progress only while they are polled (wgpu), and nobody wakes us for them: so a
//! park is short, and grows from 50 µs to 1 ms while nothing happens.

use core::task::{Context, Poll};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

const PARK_FIRST: Duration = Duration::from_micros(50);
const PARK_LONGEST: Duration = Duration::from_millis(1);

struct Unpark {
    thread: Thread,
    woken: AtomicBool,
}

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// Polls until the answer is there.
pub fn block_on<T>(mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
    let unpark = Arc::new(Unpark { thread: std::thread::current(), woken: AtomicBool::new(false) });
    let waker = Waker::from(unpark.clone());
    let mut cx = Context::from_waker(&waker);
    let mut park = PARK_FIRST;
    loop {
        if let Poll::Ready(answer) = poll(&mut cx) {
            return answer;
        }
        // Woken during the poll: an executor that works in slices wants its next one.
        if unpark.woken.swap(false, Ordering::Acquire) {
            park = PARK_FIRST;
            continue;
        }
        std::thread::park_timeout(park);
        park = (park * 2).min(PARK_LONGEST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_poll_that_wakes_itself_is_polled_again_at_once() {
        let mut left = 10_000;
        let answer = block_on(|cx| {
            if left == 0 {
                return Poll::Ready("done");
            }
            left -= 1;
            cx.waker().wake_by_ref();
            Poll::Pending
        });
        assert_eq!(answer, "done");
    }

    #[test]
    fn an_answer_that_nobody_announces_is_still_found() {
        let start = std::time::Instant::now();
        let late = Duration::from_millis(5);
        block_on(|_| if start.elapsed() > late { Poll::Ready(()) } else { Poll::Pending });
        assert!(start.elapsed() >= late);
    }

    #[test]
    fn another_thread_can_wake_it() {
        let flag = Arc::new(AtomicBool::new(false));
        let mut started = false;
        block_on(|cx| {
            if flag.load(Ordering::Acquire) {
                return Poll::Ready(());
            }
            if !started {
                started = true;
                let (flag, waker) = (flag.clone(), cx.waker().clone());
                std::thread::spawn(move || {
                    flag.store(true, Ordering::Release);
                    waker.wake();
                });
            }
            Poll::Pending
        });
    }
}
