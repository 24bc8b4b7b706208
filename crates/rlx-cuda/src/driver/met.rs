//! Ranks of a group that meet in this process: tensors that they exchange pass through the host. It is the definition
//! of an exchange for any driver: for the emulator, and for cards of which two ranks share one.

use super::{At, Driver, DriverInfo, Exchange, Exchanged, Floats, Work};
use rlx_core::ops::{AllGather, AllReduce, Op};
use rlx_core::runtime::device::group::Meeting;
use rlx_core::runtime::device::shared::Lock;
use rlx_core::runtime::device::table::Table;
use rlx_core::types::DType;
use rlx_core::{Code, Error, Result};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::yield_now;
use std::time::{Duration, Instant};

/// Where ranks wait for each other.
pub struct Hall {
    ranks: usize,
    meeting: Meeting,
    patience: Duration,
    /// Why nobody comes any more, once a rank has failed.
    closed: Mutex<Option<Error>>,
    came: Condvar,
}

impl Hall {
    /// A hall for so many ranks, of which each waits for the others so long at most.
    pub fn new(ranks: usize, patience: Duration) -> Hall {
        let (meeting, closed, came) = (Meeting::new(ranks), Mutex::new(None), Condvar::new());
        Hall { ranks, meeting, patience, closed, came }
    }

    /// Gives a rank's tensor, and waits for what becomes of all of them.
    fn exchange(&self, rank: usize, what: Exchanged, x: &[u8]) -> Result<Vec<u8>> {
        let ranks = self.ranks as u64;
        let (op, dtype): (Op, DType) = match what {
            Exchanged::Sum(dtype) => (AllReduce { ranks }.into(), dtype),
            Exchanged::All => (AllGather { ranks }.into(), DType::U32),
        };
        let end = Instant::now() + self.patience;
        let mut closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(why) = &*closed {
                return Err(why.clone());
            }
            if let Some(result) = self.meeting.exchange(rank, &op, dtype, x)? {
                self.came.notify_all();
                return Ok(result);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let what = format!(
                    "device {rank} of a group waited {} ms for another one, which did not come",
                    self.patience.as_millis()
                );
                return Err(Error::new(Code::DeviceLost, what));
            }
            let woken = self.came.wait_timeout(closed, left);
            closed = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Has nobody wait any longer: a rank has failed.
    fn close(&self, why: &Error) {
        let mut closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        let what = format!("another device of the group failed: {}", why.what);
        closed.get_or_insert(Error::new(Code::DeviceLost, what));
        self.came.notify_all();
    }
}

/// A piece of a list.
enum Piece {
    /// A list of the driver's own.
    List(u32),
    Exchange(Exchange),
}

/// A driver as a rank of a group.
pub struct Met<D> {
    driver: D,
    rank: usize,
    hall: Arc<Hall>,
    lists: Lock<Table<u32, Arc<Vec<Piece>>>>,
    /// Numbers of its own lists and reads, downwards: the executor's begin at 1.
    next: AtomicU32,
}

impl<D: Driver> Met<D> {
    /// The driver of a rank, which meets the others in `hall`.
    pub fn new(driver: D, rank: usize, hall: Arc<Hall>) -> Met<D> {
        Met { driver, rank, hall, lists: Lock::default(), next: AtomicU32::new(u32::MAX) }
    }

    fn number(&self) -> u32 {
        self.next.fetch_sub(1, Ordering::Relaxed)
    }

    fn exchange(&self, e: &Exchange) -> Result<()> {
        let read = self.number();
        self.driver.read(read, &[(e.x, e.bytes)])?;
        let x = loop {
            match self.driver.poll_read(read)? {
                Some(x) => break x,
                None => yield_now(),
            }
        };
        let y = self.hall.exchange(self.rank, e.what, &x)?;
        self.driver.write(e.y, &y)
    }

    /// What others need not wait for if it fails.
    fn or_close<T>(&self, done: Result<T>) -> Result<T> {
        done.inspect_err(|e| self.hall.close(e))
    }
}

impl<D: Driver> Driver for Met<D> {
    fn info(&self) -> &DriverInfo {
        self.driver.info()
    }
    fn create(&self, buffer: u32, bytes: u64) -> Result<()> {
        self.driver.create(buffer, bytes)
    }
    fn destroy(&self, buffer: u32) {
        self.driver.destroy(buffer);
    }
    fn write(&self, at: At, bytes: &[u8]) -> Result<()> {
        self.driver.write(at, bytes)
    }
    fn copy(&self, from: At, to: At, bytes: u64) -> Result<()> {
        self.driver.copy(from, to, bytes)
    }
    fn read(&self, read: u32, from: &[(At, u64)]) -> Result<()> {
        self.driver.read(read, from)
    }
    fn poll_read(&self, read: u32) -> Result<Option<Vec<u8>>> {
        self.driver.poll_read(read)
    }
    fn has_products(&self) -> bool {
        self.driver.has_products()
    }
    fn multiplies(&self, floats: Floats) -> bool {
        self.driver.multiplies(floats)
    }
    fn compile(&self, function: u32, source: &str, entry: &str) -> Result<()> {
        self.driver.compile(function, source, entry)
    }
    fn fills(&self) -> bool {
        self.driver.fills()
    }
    fn fill(&self, source: &str, entry: &str) -> Result<()> {
        self.driver.fill(source, entry)
    }
    fn forget(&self, function: u32) {
        self.driver.forget(function);
    }

    fn record(&self, list: u32, work: &[Work]) -> Result<()> {
        let mut pieces = Vec::new();
        let parts = work.split_inclusive(|work| matches!(work, Work::Exchange(_)));
        for part in parts {
            let (own, exchange) = match part.split_last() {
                Some((Work::Exchange(e), own)) => (own, Some(*e)),
                _ => (part, None),
            };
            if !own.is_empty() {
                let id = self.number();
                self.driver.record(id, own)?;
                pieces.push(Piece::List(id));
            }
            pieces.extend(exchange.map(Piece::Exchange));
        }
        self.lists.lock().insert(list, Arc::new(pieces));
        Ok(())
    }

    fn submit(&self, list: u32) -> Result<()> {
        let pieces = self.lists.lock().get(&list).cloned();
        let pieces =
            pieces.ok_or_else(|| Error::internal(format!("the driver has no list {list}")))?;
        let each = |piece: &Piece| match piece {
            Piece::List(id) => self.driver.submit(*id),
            Piece::Exchange(e) => self.exchange(e),
        };
        self.or_close(pieces.iter().try_for_each(each))
    }

    fn drop_list(&self, list: u32) {
        let pieces = self.lists.lock().remove(&list);
        for piece in pieces.iter().flat_map(|p| p.iter()) {
            if let Piece::List(id) = piece {
                self.driver.drop_list(*id);
            }
        }
    }

    fn submit_timed(&self, _: u32, _: &[Work]) -> Result<()> {
        Err(Error::new(Code::Unsupported, "launches of a group of devices are not timed"))
    }
    fn poll_times(&self, times: u32) -> Result<Option<Vec<[u64; 2]>>> {
        self.driver.poll_times(times)
    }
}
