//! A [self-test](crate::runtime::selftest) beside a load, made once: what was found of the same kernels on the same
//! driver is remembered by the host and holds at once.

use crate::error::Result;
use crate::runtime::model::CompiledModel;
use crate::runtime::selftest::{SelfTest, Verdict};
use crate::runtime::session::Opening;
use alloc::string::String;
use core::task::{Context, Poll};

/// A check that is still to be made, if one is.
pub struct Check {
    test: Option<(String, SelfTest)>,
}

impl Check {
    /// Looks at what the model is about to run on. `kept` says what was found of such kernels before;
    /// where that is nothing, `test` is begun, whose kernels compile while weights arrive.
    ///
    /// # Errors
    /// From `test`, and what the device refuses at once.
    pub fn new(
        opening: &mut Opening,
        compiled: &CompiledModel,
        kept: impl FnOnce(&str) -> Option<Verdict>,
        test: impl FnOnce() -> Result<SelfTest>,
    ) -> Result<Self> {
        let device = opening.weights().device().clone();
        let Some(kernels) = device.kernels(opening.weights().model()) else {
            return Ok(Check { test: None });
        };
        let test = match kept(&kernels).and_then(|found| found.apply(&*device)) {
            Some(false) => None,
            Some(true) => {
                opening.build(compiled)?;
                None
            }
            None => Some((kernels, test()?)),
        };
        Ok(Check { test })
    }

    /// Whether something is still to be found out.
    pub fn is_open(&self) -> bool {
        self.test.is_some()
    }

    /// Goes on. Once: what was found, and of what, to be kept; the model's programs are built without
    /// what is wrong.
    ///
    /// # Errors
    /// As [`SelfTest::poll`], and what the device refuses.
    pub fn poll(
        &mut self,
        opening: &mut Opening,
        compiled: &CompiledModel,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<(String, Verdict)>>> {
        let Some((_, test)) = &mut self.test else { return Poll::Ready(Ok(None)) };
        match test.poll(cx) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Err(e)) => return Poll::Ready(Err(e)),
            Poll::Ready(Ok(false)) => {}
            Poll::Ready(Ok(true)) => {
                if let Err(e) = opening.build(compiled) {
                    return Poll::Ready(Err(e));
                }
            }
        }
        let found = self.test.take().map(|(kernels, test)| (kernels, test.verdict()));
        // Only now does nothing use the features that were given up.
        opening.weights().device().forget_kernels();
        Poll::Ready(Ok(found))
    }
}
