//! Going on after a device was lost: the model is loaded again and its caches filled as they were.

use crate::block_on::block_on;
use crate::generate::{Answer, generate};
use crate::load::Model;
use rlx_core::runtime::generate::engine::GenerateOptions;
use rlx_core::{Code, Result};

/// Puts `fresh`, the same model on another device, in the place of one whose device was lost, and
/// reads what that one's caches held. Everything on the lost device is freed.
///
/// # Errors
/// What the other device refuses; `model` is then the fresh one with nothing in its caches.
pub fn replace(model: &mut Model, mut fresh: Model) -> Result<()> {
    let held = model.engine.cached_tokens().to_vec();
    let restore = fresh.engine.restore(held);
    fresh.form = model.form.take();
    *model = fresh;
    let mut restore = restore?;
    block_on(|cx| restore.poll(&mut model.engine, cx))
}

/// As [`generate`]; where the device is lost meanwhile, `reopen` loads the model on another one and
/// the answer begins anew, once: `show` is given its text from the start.
///
/// # Errors
/// As [`generate`], [`replace`] and `reopen`; `DeviceLost` when the second device is lost too.
pub fn generate_again(
    model: &mut Model,
    prompt: Vec<u32>,
    options: &GenerateOptions,
    reopen: &mut dyn FnMut() -> Result<Model>,
    cancelled: &dyn Fn() -> bool,
    show: &mut dyn FnMut(&str) -> Result<()>,
) -> Result<Answer> {
    match generate(model, prompt.clone(), options, cancelled, show) {
        Err(e) if e.code == Code::DeviceLost => {}
        other => return other,
    }
    let fresh = reopen()?;
    replace(model, fresh)?;
    generate(model, prompt, options, cancelled, show)
}
