//! What the passes do to the programs of a real model: a frontend of ours leaves nothing to clean.

use crate::targets;
use rlx_core::error::Result;
use rlx_core::gguf::{HeaderReader, ModelFiles};
use rlx_core::ir::mir::Graph;
use rlx_core::lower::{ProgramSpec, lower};
use rlx_core::passes::{Context, control_flow, cse, fold, simplify};
use rlx_core::runtime::model::{CompiledModel, ModelOptions};
use rlx_core::target::{CompileOptions, Target};
use rlx_core::types::DType;

type Pass = fn(&mut Graph, &mut Context<'_>) -> Result<usize>;

/// Every program of the small Llama, as lowered.
fn programs() -> Vec<Graph> {
    let file = "tests/fixtures/rustdoc-2m/rustdoc-2m-q4_k_m.gguf";
    let path = format!("{}/../../{file}", env!("CARGO_MANIFEST_DIR"));
    let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{file}: {e}"));
    let mut reader = HeaderReader::new(file, Some(bytes.len() as u64));
    reader.push(&bytes).unwrap();
    let files = ModelFiles::new(vec![reader.into_header().unwrap()]).unwrap();
    let mut options = ModelOptions::chat(64).with_logits();
    options.programs.push(ProgramSpec::verify(32, true));
    let model = CompiledModel::from_gguf(&files, &Target::reference(), &options).unwrap();
    let lowered = model.specs.iter().map(|spec| lower(&model.module, spec, DType::F32).unwrap());
    lowered.collect()
}

fn changes(pass: Pass) -> usize {
    let target = targets::gpu();
    let options = CompileOptions::default();
    let run = |mut g: Graph| pass(&mut g, &mut Context::new(&target, &options)).unwrap();
    programs().into_iter().map(run).sum()
}

#[test]
fn a_llama_has_nothing_to_fold_so_a_build_without_the_oracle_loses_nothing() {
    assert_eq!(changes(fold), 0);
}

#[test]
fn a_llama_has_nothing_to_simplify_and_computes_nothing_twice() {
    assert_eq!(changes(simplify), 0);
    assert_eq!(changes(cse), 0);
    assert_eq!(changes(control_flow), 0);
}
