//! How much memory a model needs on a device, computed before any of its weights is fetched.

use crate::error::{Code, Details, Error, Result};
use crate::ir::lir::Program;
use crate::runtime::model::CompiledModel;
use crate::target::{Buffers, Target};
use crate::types::{BlockFormat, DType, Dim};
use alloc::format;
use alloc::string::String;

/// Decode submissions in flight, as in `GenerateOptions`. Each has a read-back buffer.
const AHEAD: u64 = 4;

/// Bytes by purpose. On a GPU they are the sizes of its buffers, which are rounded up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fit {
    /// Weight buffers.
    pub weights: u64,
    /// Caches, control block, counts.
    pub states: u64,
    /// Activations.
    pub arena: u64,
    /// Inputs of all programs.
    pub inputs: u64,
    /// On a GPU: constants of steps, codebooks, read-back buffers.
    pub kernels: u64,
    /// Most staging memory while loading.
    pub staging: u64,
    /// The part of `states` that grows with the context, as bytes per position.
    pub bytes_per_position: u64,
    /// Positions that the caches have.
    pub context: u64,
    /// Most positions for which every cache is within the device's binding limit.
    pub bound_context: u64,
}

impl Fit {
    /// The memory of a compiled model on its target.
    pub fn of(model: &CompiledModel, target: &Target) -> Self {
        let gpu = target.buffers;
        let rounded = |bytes: u64| match gpu {
            // An empty buffer has bytes too, so that it can be bound.
            Some(b) => bytes.div_ceil(b.multiple).max(1) * b.multiple,
            None => bytes,
        };
        let most = target.limits.binding.min(target.limits.buffer);
        let (mut bytes_per_position, mut bound_context) = (0, u64::MAX);
        for s in model.states.iter().filter(|s| s.ty.shape.rank() == 3) {
            let positions = s.ty.shape.0.get(1).and_then(Dim::as_static).unwrap_or(0).max(1);
            let bytes = s.bytes / positions;
            bytes_per_position += bytes;
            bound_context = bound_context.min(most / bytes.max(1));
        }
        let weights = model.plan.buffers.iter().map(|b| rounded(b.bytes)).sum();
        let inputs = model.programs.iter().flat_map(|p| &p.inputs);
        Fit {
            weights,
            states: model.states.iter().map(|s| rounded(s.bytes)).sum(),
            arena: rounded(model.arena_bytes()),
            inputs: inputs.map(|i| rounded(i.bytes)).sum(),
            kernels: gpu.map_or(0, |b| kernels(model, b, rounded)),
            staging: gpu.map_or(0, |b| b.staging.min(weights)),
            bytes_per_position,
            context: model.context,
            bound_context,
        }
    }

    /// The sum.
    pub fn total(&self) -> u64 {
        self.weights + self.states + self.arena + self.inputs + self.kernels + self.staging
    }

    /// The largest context that would fit `available` bytes; 0 if none does.
    pub fn largest_context(&self, available: u64) -> u64 {
        let fixed = self.total().saturating_sub(self.bytes_per_position * self.context);
        let most = self.context.min(self.bound_context);
        match available.checked_sub(fixed) {
            Some(rest) => rest.checked_div(self.bytes_per_position).map_or(most, |n| n.min(most)),
            None => 0,
        }
    }

    /// Checks that the model fits `available` bytes of `holder` ("this machine").
    ///
    /// # Errors
    /// `OutOfMemory` with the bytes by purpose, and the largest context that would fit.
    pub fn within(&self, holder: &str, available: u64) -> Result<()> {
        if self.total() <= available {
            return Ok(());
        }
        let what =
            format!("this model needs {}; {holder} has {:.1} MB", self.describe(), mb(available));
        Err(self.refused(what, Some(available), self.largest_context(available)))
    }

    /// Checks that the caches are within the device's binding limit.
    ///
    /// # Errors
    /// As [`within`](Self::within).
    pub fn bound(&self) -> Result<()> {
        if self.context <= self.bound_context {
            return Ok(());
        }
        let what = format!(
            "the caches of {} positions are larger than this device binds; this model needs {}",
            self.context,
            self.describe()
        );
        Err(self.refused(what, None, self.bound_context))
    }

    /// Adds what was asked for to a device's out-of-memory error. A device does not say how much memory
    /// it has, so the suggested context is half of this one, if caches are at least a sixteenth of it all.
    pub fn refusal(&self, error: Error) -> Error {
        if error.code != Code::OutOfMemory {
            return error;
        }
        let caches = self.bytes_per_position * self.context;
        let context = if caches >= self.total() / 16 { self.context / 2 } else { 0 };
        let what = format!("the device has no memory left; this model needs {}", self.describe());
        self.refused(what, None, context).caused_by(error)
    }

    /// The error for a model that does not fit, with the context that would; 0 means none would.
    fn refused(&self, what: String, available: Option<u64>, context: u64) -> Error {
        let (needed, context) = (self.total(), Some(context).filter(|&n| n > 0));
        let hint = match context {
            None => "use a smaller model".into(),
            Some(n) => {
                format!("load with a context of {n} tokens or less (--context, contextLength)")
            }
        };
        let details = Details::Memory { needed, available, context };
        Error::new(Code::OutOfMemory, what).hint(hint).details(details)
    }

    /// One sentence for people.
    pub fn describe(&self) -> String {
        format!(
            "{:.1} MB: weights {:.1}, {} positions of cache and state {:.1}, activations {:.1}, staging {:.1}",
            mb(self.total()),
            mb(self.weights),
            self.context,
            mb(self.states),
            mb(self.arena + self.inputs + self.kernels),
            mb(self.staging)
        )
    }
}

fn mb(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// Bytes of the buffers that a GPU executor adds for programs.
fn kernels(model: &CompiledModel, buffers: Buffers, rounded: impl Fn(u64) -> u64) -> u64 {
    let program = |p: &Program| {
        let read = p.readback_bytes();
        // Decode steps need no input from the host, so several are in flight.
        let in_flight = if p.inputs.is_empty() { AHEAD } else { 1 };
        rounded(p.steps.len() as u64 * buffers.step)
            + if read > 0 { rounded(read) * in_flight } else { 0 }
    };
    let has = |formats: &[BlockFormat]| {
        let any = |dtype: DType| formats.iter().any(|&f| dtype == DType::Block(f));
        model.plan.entries.iter().any(|e| any(e.ty.dtype))
    };
    let books: u64 = CODEBOOKS.iter().filter(|b| has(b.0)).map(|b| rounded(b.1)).sum();
    model.programs.iter().map(program).sum::<u64>() + books
}

/// Formats that share a codebook, and the codebook's bytes on a GPU: one per value.
pub const CODEBOOKS: [(&[BlockFormat], u64); 6] = [
    (&[BlockFormat::Iq1S, BlockFormat::Iq1M], 8 * 2048),
    (&[BlockFormat::Iq2Xxs], 8 * 256),
    (&[BlockFormat::Iq2Xs], 8 * 512),
    (&[BlockFormat::Iq2S], 8 * 1024),
    (&[BlockFormat::Iq3Xxs], 4 * 256),
    (&[BlockFormat::Iq3S], 4 * 512),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn fit() -> Fit {
        Fit {
            weights: 1000,
            states: 10 * 64,
            arena: 100,
            bytes_per_position: 10,
            context: 64,
            bound_context: 1 << 20,
            ..Fit::default()
        }
    }

    #[test]
    fn the_largest_context_is_what_the_rest_holds() {
        assert_eq!(fit().total(), 1740);
        assert_eq!(fit().largest_context(1740), 64);
        assert_eq!(fit().largest_context(1739), 63);
        assert_eq!(fit().largest_context(1099), 0);
        assert_eq!(Fit { bound_context: 50, ..fit() }.largest_context(1740), 50);
    }

    #[test]
    fn what_does_not_fit_says_why_and_what_would() {
        assert_eq!(fit().within("it", 1740), Ok(()));
        let e = fit().within("this machine", 1_500).unwrap_err();
        assert_eq!(e.code, Code::OutOfMemory);
        assert!(e.what.starts_with("this model needs 0.0 MB: weights 0.0, 64 positions of cache"));
        assert!(e.what.ends_with("; this machine has 0.0 MB"), "{e}");
        assert_eq!(e.hint, "load with a context of 40 tokens or less (--context, contextLength)");
        let memory = |available, context| Details::Memory { needed: 1740, available, context };
        assert_eq!(e.details.as_deref(), Some(&memory(Some(1_500), Some(40))));
        let e = fit().within("it", 1_099).unwrap_err();
        assert_eq!(e.hint, "use a smaller model");
        assert_eq!(e.details.as_deref(), Some(&memory(Some(1_099), None)));
    }

    #[test]
    fn caches_above_a_binding_name_the_context_that_is_within() {
        assert_eq!(fit().bound(), Ok(()));
        let e = Fit { bound_context: 48, ..fit() }.bound().unwrap_err();
        assert_eq!(e.code, Code::OutOfMemory);
        assert!(e.what.starts_with("the caches of 64 positions are larger than this device binds"));
        assert_eq!(e.hint, "load with a context of 48 tokens or less (--context, contextLength)");
    }

    #[test]
    fn a_device_s_refusal_is_explained_and_kept() {
        let out = || Error::new(Code::OutOfMemory, "the driver's words");
        let e = fit().refusal(out());
        assert_eq!(e.code, Code::OutOfMemory);
        assert_eq!(e.hint, "load with a context of 32 tokens or less (--context, contextLength)");
        assert_eq!(e.cause.as_deref(), Some(&out()));
        let small = Fit { weights: 1 << 20, ..fit() };
        assert_eq!(small.refusal(out()).hint, "use a smaller model");
        assert_eq!(fit().refusal(Error::internal("other")), Error::internal("other"));
    }
}
