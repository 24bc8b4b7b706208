//! What a model can be asked in a session, by its task.

use super::checkpoint::Checkpoint;
use super::entry::Entry;
use super::model::{ENCODE, Model, Task};
use super::registry::presets;
use crate::error::Result;
use crate::lower::LOGITS;
use alloc::vec::Vec;

impl dyn Model + '_ {
    /// What the model can be asked in a [`Session`](crate::runtime::session::Session): an encoder [`ENCODE`]; a
    /// language model [`LOGITS`], its ids to the logits behind each, over `context` positions or, without, at
    /// most [`USUAL_CONTEXT`](super::USUAL_CONTEXT).
    ///
    /// # Errors
    /// As [`module`](trait.Model.html#method.module) and [`positions`](trait.Model.html#method.positions).
    pub fn entries(&self, checkpoint: &Checkpoint<'_>, context: Option<u64>) -> Result<Vec<Entry>> {
        let facts = self.facts();
        let (name, context) = match facts.task {
            Task::Embed => (ENCODE, facts.context),
            Task::Generate => (LOGITS, self.positions(context)?),
        };
        let module = self.module(checkpoint, context)?.into();
        let profile = presets(facts.family).map(|p| p.rows.profile());
        Ok(Vec::from([Entry { name: name.into(), module, profile }]))
    }
}
