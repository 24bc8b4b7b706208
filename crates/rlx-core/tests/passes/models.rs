//! What the passes do to the programs of real models: nothing that changes them.

use rlx_core::gguf::{HeaderReader, ModelFiles};
use rlx_core::ir::mir::Graph;
use rlx_core::lower::{ProgramSpec, lower};
use rlx_core::models;
use rlx_core::passes::{
    Context, FusionReport, cleanup, control_flow, cse, elementwise_region, fold, simplify,
};
use rlx_core::target::{CompileOptions, RegionLimits, Target};
use rlx_core::types::DType;
