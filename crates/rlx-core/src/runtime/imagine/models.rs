//! The models of a pipeline that are on a device.

use super::Part;
use crate::error::{Error, Result};
use crate::runtime::session::Session;
use alloc::format;

/// The models of a pipeline that are on a device. Dropping it frees them.
#[derive(Default)]
pub struct Models([Option<Session>; 3]);

impl Models {
    /// Whether a model is there.
    pub fn has(&self, part: Part) -> bool {
        self.0[part as usize].is_some()
    }

    /// Takes a model, with the entries that [`Pipeline::entries`](super::Pipeline::entries) gives.
    pub fn put(&mut self, part: Part, session: Session) {
        self.0[part as usize] = Some(session);
    }

    /// Frees every model that is not among these.
    pub fn keep(&mut self, parts: &[Part]) {
        for part in Part::ALL {
            if !parts.contains(&part) {
                self.0[part as usize] = None;
            }
        }
    }

    /// The sessions of those that are there.
    pub fn sessions(&self) -> impl Iterator<Item = &Session> {
        self.0.iter().flatten()
    }

    pub(super) fn session(&mut self, part: Part) -> Result<&mut Session> {
        self.0[part as usize]
            .as_mut()
            .ok_or_else(|| Error::usage(format!("the {} is not loaded", part.folder())))
    }
}
