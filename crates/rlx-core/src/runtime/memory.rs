//! What a model needs on a device, before a byte of it is fetched.

use super::model::CompiledModel;
use alloc::format;
use alloc::string::String;

/// Bytes of the staging ring on a GPU.
pub const STAGING_BYTES: u64 = 16 << 20;

/// Bytes by purpose.
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
    /// Staging while loading, at most.
    pub staging: u64,
    /// Of `states`, what grows with the context: bytes a position.
    pub bytes_per_position: u64,
    /// Positions planned for.
    pub context: u64,
}

impl Fit {
    /// The needs of a compiled model. `staging` is false where weights are read in place.
    pub fn of(model: &CompiledModel, staging: bool) -> Self {
        let caches: u64 =
            model.states.iter().filter(|s| s.ty.shape.rank() == 3).map(|s| s.bytes).sum();
        let weights = model.plan.bytes();
        Fit {
            weights,
            states: model.state_bytes(),
            arena: model.arena_bytes(),
            inputs: model.programs.iter().flat_map(|p| &p.inputs).map(|i| i.bytes).sum(),
            staging: if staging { STAGING_BYTES.min(weights) } else { 0 },
            bytes_per_position: caches / model.context.max(1),
            context: model.context,
        }
    }

    /// All of it.
    pub fn total(&self) -> u64 {
        self.weights + self.states + self.arena + self.inputs + self.staging
    }

    /// The largest context that would fit `available` bytes; 0 if none does.
    pub fn largest_context(&self, available: u64) -> u64 {
        let fixed = self.total() - self.bytes_per_position * self.context;
        match available.checked_sub(fixed) {
            Some(_) if self.bytes_per_position == 0 => self.context,
            Some(rest) => (rest / self.bytes_per_position).min(self.context),
            None => 0,
        }
    }

    /// One sentence for people.
    pub fn describe(&self) -> String {
        let mb = |n: u64| n as f64 / 1e6;
        format!(
            "{:.1} MB: weights {:.1}, {} positions of cache and state {:.1}, activations {:.1}, staging {:.1}",
            mb(self.total()),
            mb(self.weights),
            self.context,
            mb(self.states),
            mb(self.arena),
            mb(self.staging)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_context_is_what_the_rest_holds() {
        let fit = Fit {
            weights: 1000,
            states: 10 * 64,
            arena: 100,
            inputs: 0,
            staging: 0,
            bytes_per_position: 10,
            context: 64,
        };
        assert_eq!(fit.total(), 1740);
        assert_eq!(fit.largest_context(1740), 64);
        assert_eq!(fit.largest_context(1739), 63);
        assert_eq!(fit.largest_context(1099), 0);
    }
}
