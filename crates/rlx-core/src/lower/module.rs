//! The way down from one stage of a [`GraphModule`] to the next that needs no target.

use super::lower_module;
use crate::error::Result;
use crate::ir::GraphModule;
use crate::types::DType;

impl GraphModule {
    /// Blocks become operators, symbols stay unbound, caches are f32; a module of operators stays
    /// what it is.
    ///
    /// # Errors
    /// `BadGraph` with the label of the block whose shapes do not fit; `WrongStage` for a program.
    pub fn lower(self) -> Result<GraphModule> {
        self.lower_with(DType::F32)
    }

    /// [`lower`](Self::lower) with caches of this element type.
    ///
    /// # Errors
    /// As `lower`.
    pub fn lower_with(self, kv: DType) -> Result<GraphModule> {
        match self {
            Self::Hir(m) => lower_module(&m, kv).map(GraphModule::from),
            Self::Mir(_) => Ok(self),
            Self::Lir(_) => Err(self.wrong(crate::ir::Stage::Mir)),
        }
    }
}
