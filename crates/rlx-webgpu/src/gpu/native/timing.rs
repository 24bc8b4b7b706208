//! When a submission's dispatches began and ended, by the device's clock.

use super::{FAILED, MAPPED, MAPPING};
use rlx_core::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// Two timestamps for each dispatch, on their way to the host.
pub(super) struct Times {
    queries: wgpu::QuerySet,
    resolved: wgpu::Buffer,
    readback: wgpu::Buffer,
    /// Timestamps that passes were given so far.
    used: u32,
    state: Arc<AtomicU8>,
}

impl Times {
    /// Room for that many dispatches.
    ///
    /// # Errors
    /// `Internal` for more than a query set holds.
    pub fn new(device: &wgpu::Device, dispatches: usize) -> Result<Times> {
        let most = wgpu::QUERY_SET_MAX_QUERIES;
        let count = u32::try_from(2 * dispatches).ok().filter(|n| (1..=most).contains(n));
        let Some(count) = count else {
            let what = format!("{dispatches} dispatches cannot be timed, 1 to {} can", most / 2);
            return Err(Error::internal(what));
        };
        let buffer = |usage| {
            device.create_buffer(&wgpu::BufferDescriptor {
                label: Some("timestamps"),
                size: 8 * u64::from(count),
                usage,
                mapped_at_creation: false,
            })
        };
        Ok(Times {
            queries: device.create_query_set(&wgpu::QuerySetDescriptor {
                label: Some("timestamps"),
                ty: wgpu::QueryType::Timestamp,
                count,
            }),
            resolved: buffer(wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC),
            readback: buffer(wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST),
            used: 0,
            state: Arc::new(AtomicU8::new(MAPPING)),
        })
    }

    /// The next pass's two timestamps.
    pub fn next_pass(&mut self) -> wgpu::ComputePassTimestampWrites<'_> {
        let first = self.used;
        self.used += 2;
        wgpu::ComputePassTimestampWrites {
            query_set: &self.queries,
            beginning_of_pass_write_index: Some(first),
            end_of_pass_write_index: Some(first + 1),
        }
    }

    /// Copies them to where the host reads, behind all passes.
    pub fn resolve(&self, encoder: &mut wgpu::CommandEncoder) {
        encoder.resolve_query_set(&self.queries, 0..self.used, &self.resolved, 0);
        let bytes = 8 * u64::from(self.used);
        encoder.copy_buffer_to_buffer(&self.resolved, 0, &self.readback, 0, bytes);
    }

    /// Asks for the bytes, once submitted.
    pub fn map(&self) {
        let state = self.state.clone();
        self.readback.map_async(wgpu::MapMode::Read, .., move |result| {
            state.store(if result.is_ok() { MAPPED } else { FAILED }, Ordering::Release);
        });
    }

    /// Whether the host has them, or never will.
    pub fn is_there(&self) -> bool {
        self.state.load(Ordering::Acquire) != MAPPING
    }

    /// Begin and end of each pass in nanoseconds; `period` is a tick's.
    ///
    /// # Errors
    /// `Internal` where they could not be mapped.
    pub fn read(&self, period: f32) -> Result<Vec<[u64; 2]>> {
        if self.state.load(Ordering::Acquire) == FAILED {
            return Err(Error::internal("timestamps could not be mapped"));
        }
        let view = self.readback.get_mapped_range(..);
        let view = view.map_err(|e| Error::internal(format!("timestamps are not mapped: {e}")))?;
        let ns = |ticks: [u8; 8]| match u64::from_le_bytes(ticks) {
            // A clock that counts from 1970 has more nanoseconds than an f64 tells apart.
            ticks if period == 1.0 => ticks,
            ticks => (ticks as f64 * f64::from(period)) as u64,
        };
        let ticks = view.as_chunks::<8>().0.as_chunks::<2>().0;
        Ok(ticks.iter().map(|&[begin, end]| [ns(begin), ns(end)]).collect())
    }
}
