//! Sharing between threads: natively a session may be made on one thread and used on another; a page's objects
//! belong to its one thread.

#[cfg(not(feature = "std"))]
use core::cell::RefCell;
use core::ops::DerefMut;
#[cfg(feature = "std")]
use std::sync::{Mutex, PoisonError};

/// What may go to another thread: natively `Send` and `Sync`, in a page anything.
#[cfg(all(feature = "std", not(target_family = "wasm")))]
pub trait Anywhere: Send + Sync {}
#[cfg(all(feature = "std", not(target_family = "wasm")))]
impl<T: Send + Sync + ?Sized> Anywhere for T {}

/// What may go to another thread: natively `Send` and `Sync`, in a page anything.
#[cfg(not(all(feature = "std", not(target_family = "wasm"))))]
pub trait Anywhere {}
#[cfg(not(all(feature = "std", not(target_family = "wasm"))))]
impl<T: ?Sized> Anywhere for T {}

/// A value behind a lock. Nobody waits long: executors hold the lock only during a call.
#[derive(Debug, Default)]
pub struct Lock<T> {
    #[cfg(feature = "std")]
    inner: Mutex<T>,
    #[cfg(not(feature = "std"))]
    inner: RefCell<T>,
}

impl<T> Lock<T> {
    /// A lock around a value.
    pub const fn new(value: T) -> Self {
        #[cfg(feature = "std")]
        return Lock { inner: Mutex::new(value) };
        #[cfg(not(feature = "std"))]
        return Lock { inner: RefCell::new(value) };
    }

    /// Locks the value until the guard is dropped. A thread must not lock it twice at a time.
    pub fn lock(&self) -> impl DerefMut<Target = T> + '_ {
        // A value is consistent even if its holder panicked: no executor can panic in the middle of a change.
        #[cfg(feature = "std")]
        return self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        #[cfg(not(feature = "std"))]
        return self.inner.borrow_mut();
    }

    /// Replaces the value.
    pub fn set(&self, value: T) {
        *self.lock() = value;
    }
}

impl<T: Copy> Lock<T> {
    /// A copy of the value.
    pub fn get(&self) -> T {
        *self.lock()
    }
}
