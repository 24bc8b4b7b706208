//! What a ticket waits for, and its answer.

use super::{Pending, WebGpuDevice, disposed, run};
use crate::gpu::Gpu;
use core::task::{Context, Poll};
use rlx_core::Result;
use rlx_core::runtime::device::Outputs;

impl<G: Gpu> WebGpuDevice<G> {
    pub(super) fn poll_pending(
        &self,
        pending: &mut Pending,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Outputs>> {
        match pending {
            Pending::Scopes(id) => self.gpu.poll_scopes(*id, cx).map_ok(|()| Outputs::default()),
            Pending::Failed(error) => Poll::Ready(Err(error.clone())),
            Pending::Copied { buffer, read, bytes } => {
                let Poll::Ready(answer) = self.gpu.poll_read(*read, cx) else {
                    return Poll::Pending;
                };
                let mut s = self.state.lock();
                self.destroy(&mut s, [*buffer]);
                Poll::Ready(answer.and_then(|mut value| {
                    value.truncate(*bytes as usize);
                    s.counters.readback_bytes += value.len() as u64;
                    self.finished()?;
                    Ok(Outputs { values: vec![value] })
                }))
            }
            Pending::Fence { fence, outputs } => self.gpu.poll_fence(*fence, cx).map(|()| {
                let values = vec![Vec::new(); *outputs];
                self.finished().map(|_| Outputs { values })
            }),
            Pending::Build(p, scopes) => {
                if let Some(id) = *scopes {
                    match self.gpu.poll_scopes(id, cx) {
                        Poll::Ready(Ok(())) => *scopes = None,
                        Poll::Ready(Err(e)) => return Poll::Ready(Err(e)),
                        Poll::Pending => return Poll::Pending,
                    }
                }
                let s = self.state.lock();
                let Some(built) = s.programs.get(p) else {
                    return Poll::Ready(Err(disposed()));
                };
                for launch in &built.launches {
                    match self.gpu.poll_pipeline(launch.pipeline, cx) {
                        Poll::Ready(Ok(())) => {}
                        Poll::Ready(Err(e)) => return Poll::Ready(Err(e)),
                        Poll::Pending => return Poll::Pending,
                    }
                }
                Poll::Ready(self.finished())
            }
            Pending::Read { key, slot, read } => {
                let Poll::Ready(bytes) = self.gpu.poll_read(*read, cx) else {
                    return Poll::Pending;
                };
                let mut s = self.state.lock();
                let s = &mut *s;
                let (Some(run), Some(built)) = (s.runs.get_mut(key), s.programs.get(&key.1)) else {
                    return Poll::Ready(Err(disposed()));
                };
                // A buffer that could not be read is not used again.
                run.slots[*slot].busy = bytes.is_err();
                Poll::Ready(bytes.and_then(|bytes| {
                    s.counters.readback_bytes += bytes.len() as u64;
                    self.finished()?;
                    Ok(run::outputs(&built.program, &bytes))
                }))
            }
        }
    }

    /// No outputs, unless the GPU has complained since.
    fn finished(&self) -> Result<Outputs> {
        match self.gpu.take_error() {
            Some(error) => Err(error),
            None => Ok(Outputs::default()),
        }
    }
}
