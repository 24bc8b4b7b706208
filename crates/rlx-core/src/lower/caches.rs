//! Which element types a model's caches may have.

use crate::error::{Code, Error, Result};
use crate::ir::hir::{BlockNode, Caches, Module};
use crate::ops::is_cache_type;
use crate::target::Target;
use crate::types::{DType, Kind, Type};
use alloc::format;
use alloc::vec::Vec;

/// What the caller can do about a type that does not fit.
const ASK_F16: &str = "take caches of f16: --kv f16, or kv: 'f16' for Engine.load";

/// Checks that caches of the type `kv` can hold the heads of every block of a module.
///
/// # Errors
/// `Usage` for a type that no cache has, or whose blocks a head does not fill.
pub fn check_caches(module: &Module, caches: impl Into<Caches>) -> Result<()> {
    let caches = caches.into();
    let kv = caches.kv;
    if !is_cache_type(kv) {
        return Err(Error::usage(format!("caches of {kv}: they are f32, f16, q8_0 or q4_0")).hint(
            "take caches of q4_0 for the least memory, of q8_0, f16 or f32 for more exact answers",
        ));
    }
    let per = kv.block_elements() as u64;
    for node in &module.nodes {
        for (name, ty) in node.block.states(module.context, caches) {
            let head = ty.shape.last().as_static();
            if ty.kind == Kind::State && ty.dtype == kv && head.is_some_and(|e| e % per != 0) {
                let what = format!(
                    "a cache of {kv} holds heads of whole blocks of {per}, and those of this model have {} \
                     elements",
                    ty.shape.last()
                );
                return Err(Error::usage(what).at(name).hint(ASK_F16));
            }
        }
    }
    Ok(())
}

/// Checks that a target has kernels for caches of the type `kv` with the heads of a module, if the
/// module has caches.
///
/// # Errors
/// `Unsupported` with the types, or the heads, that it has kernels for.
pub fn check_target(module: &Module, kv: DType, target: &Target) -> Result<()> {
    let Some(types) = target.caches.map(|c| c.types) else { return Ok(()) };
    let states = |node: &BlockNode| node.block.states(module.context, kv.into());
    let mut caches = module.nodes.iter().flat_map(states).filter(|(_, ty)| ty.dtype == kv);
    let refused = |what| Err(Error::new(Code::Unsupported, what).hint(ASK_F16));
    if !types.contains(&kv) {
        if caches.next().is_none() {
            return Ok(());
        }
        let names: Vec<&str> = types.iter().map(|t| t.name()).collect();
        let has = names.join(", ");
        return refused(format!("the {} device has no caches of {kv}, it has {has}", target.name));
    }
    let per = target.cache_heads(kv);
    let whole = |ty: &Type| ty.shape.last().as_static().is_some_and(|e| e.is_multiple_of(per));
    match caches.find(|(_, ty)| !whole(ty)) {
        None => Ok(()),
        Some((name, ty)) => {
            let (device, head) = (&target.name, ty.shape.last());
            let what = format!(
                "the {device} device has caches of {kv} for heads of whole {per}, and those of this model have \
                 {head} elements"
            );
            refused(what).map_err(|e| e.at(name))
        }
    }
}
