//! A [self-test](crate::runtime::selftest) that runs while a model loads. The host stores its verdict, so that the
//! same kernels on the same driver are tested once.

use crate::error::Result;
use crate::runtime::model::CompiledModel;
use crate::runtime::selftest::{SelfTest, Verdict};
use crate::runtime::session::Opening;
use alloc::string::String;
use core::task::{Context, Poll};

/// A check that has still to run, if any.
pub struct Check {
    test: Option<(String, SelfTest)>,
}

impl Check {
    /// Decides whether the device needs a test. `kept` is the stored verdict on these kernels; if there is
    /// none, `test` starts the self-test, whose kernels compile while weights arrive.
    ///
    /// # Errors
    /// From `test`, and errors that the device returns at once.
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

    /// Whether the check has still to run.
    pub fn is_open(&self) -> bool {
        self.test.is_some()
    }

    /// Continues the check. Answers once, with the verdict and its cache key, for the host to store; the model's
    /// programs are then built without the features that compute wrong values.
    ///
    /// # Errors
    /// As [`SelfTest::poll`], and errors of the device.
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
        // From here on no program uses the features that were given up.
        opening.weights().device().forget_kernels();
        Poll::Ready(Ok(found))
    }
}
