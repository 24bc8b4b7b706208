//! Awaits the core's poll functions without blocking the page.
//!
//! A GPU's answers arrive as promises, which wake the task. The CPU executor works inside `poll`,
//! in slices: the page gets its turn between them.

use core::future::poll_fn;
use core::task::{Context, Poll, Waker};
use js_sys::Promise;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;

#[wasm_bindgen]
extern "C" {
    /// The page's clock and scheduler.
    pub type Platform;

    /// Milliseconds, monotonic.
    #[wasm_bindgen(method)]
    pub(crate) fn now(this: &Platform) -> f64;

    /// Resolves after the page has had its turn.
    #[wasm_bindgen(method, js_name = yieldToPage)]
    fn yield_to_page(this: &Platform) -> Promise;
}

/// What wakes a pending poll.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// A promise of the device.
    Promises,
    /// Nothing: the poll itself does the work.
    Slices,
}

/// Polls until the answer is there.
pub(crate) async fn wait<T>(
    platform: &Platform,
    pace: Pace,
    mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
) -> T {
    if pace == Pace::Promises {
        return poll_fn(poll).await;
    }
    loop {
        let mut cx = Context::from_waker(Waker::noop());
        if let Poll::Ready(answer) = poll(&mut cx) {
            return answer;
        }
        // A rejected promise means only that the turn is over.
        let _ = JsFuture::from(platform.yield_to_page()).await;
    }
}
