//! What a model can be asked in a session.

use super::checkpoint::Checkpoint;
use super::entry::Entry;
use super::model::{Model, Task};
use super::registry::presets;
use super::tensors::Tensors;
use super::widen;
use crate::error::Result;
use alloc::vec::Vec;

impl dyn Model + '_ {
    /// What the model can be asked in a [`Session`](crate::runtime::session::Session): an encoder
    /// [`ENCODE`](super::ENCODE); a language model [`LOGITS`](crate::lower::LOGITS), its ids to the logits behind
    /// each, over `context` positions or, without, at most [`USUAL_CONTEXT`](super::USUAL_CONTEXT); a model of
    /// several networks each of them. Every tensor of the checkpoint is accounted for.
    ///
    /// # Errors
    /// As [`networks`](Model::networks) and [`positions`](trait.Model.html#method.positions); `Unsupported` for a
    /// tensor that no weight named.
    pub fn entries(&self, checkpoint: &Checkpoint<'_>, context: Option<u64>) -> Result<Vec<Entry>> {
        let facts = self.facts();
        let context = match facts.task {
            Task::Generate => self.positions(context)?,
            _ => facts.context,
        };
        let tensors = Tensors::new(checkpoint);
        let networks = self.networks(&tensors, context)?;
        tensors.finish()?;
        let profile = presets(facts.family).map(|p| p.rows.profile());
        let entry = |(name, mut module): (&str, crate::ir::hir::Module)| {
            // Decoders have done so.
            if facts.task != Task::Generate {
                widen::vectors(&mut module);
            }
            Entry { name: name.into(), module: module.into(), profile: profile.clone() }
        };
        Ok(networks.into_iter().map(entry).collect())
    }
}
