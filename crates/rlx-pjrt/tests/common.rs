//! XLA's CPU device as tests open it, and one operator on it.
#![allow(dead_code)] // two test binaries use parts of it

#[allow(unused_imports)] // two test binaries use parts of it
pub use crate::step::{
    Buffers, Operand, Rng, assert_close, control, f32_bytes, floats, input, random_weights, state,
    u32_bytes, weight, words,
};
use rlx_core::ir::lir::Space;
use rlx_core::ir::mir::{Graph, ParamKind};
use rlx_core::ops::Op;
use rlx_core::reference::{self, View};
use rlx_core::runtime::device::graph::GraphDevice;
use rlx_core::target::Target;
use rlx_core::types::{Kind, Type, ValueId};
use rlx_core::{Error, Result};
use rlx_pjrt::Pjrt;
use rlx_pjrt::lower::{lower, storage};
use rlx_pjrt::pjrt::{Client, Executable};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};

/// The device of these tests.
pub type TestDevice = Client;

/// The plugin: `PJRT_PLUGIN`, or XLA's CPU device, which `scripts/plugins.mjs` fetches where it is not there yet.
fn plugin() -> Result<PathBuf, String> {
    if let Some(named) = std::env::var_os("PJRT_PLUGIN") {
        return Ok(named.into());
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let usual = root.join("target/plugins/xla_cpu_pjrt.so");
    if usual.exists() {
        return Ok(usual);
    }
    let fetched =
        Command::new("node").arg(root.join("scripts/plugins.mjs")).arg("xla-cpu-pjrt").output();
    match fetched {
        Ok(made) if made.status.success() => Ok(usual),
        Ok(made) => Err(String::from_utf8_lossy(&made.stderr).trim().to_string()),
        Err(e) => Err(format!("node scripts/plugins.mjs: {e}")),
    }
}

fn found() -> &'static Result<PathBuf, String> {
    static PLUGIN: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    PLUGIN.get_or_init(plugin)
}

/// Whether there is a plugin; where there is none the test is skipped, and says so.
pub fn ready(test: &str) -> bool {
    if let Err(why) = found() {
        crate::skip::skip("xla", &format!("{test}: no XLA plugin: {why}"));
    }
    found().is_ok()
}

/// The plugin's path.
pub fn path() -> &'static Path {
    found().as_ref().unwrap_or_else(|e| panic!("no XLA plugin: {e}"))
}

/// One device for all tests.
pub fn device() -> Arc<TestDevice> {
    static DEVICE: OnceLock<Arc<TestDevice>> = OnceLock::new();
    DEVICE.get_or_init(|| Arc::new(Client::open(path()).unwrap_or_else(|e| panic!("{e}")))).clone()
}

/// What the lowerings take.
pub fn target() -> Target {
    rlx_pjrt::cpu_target()
}

/// A graph of one operator, and the bytes of its parameters.
pub struct Case {
    pub graph: Graph,
    pub bytes: Vec<Vec<u8>>,
}

/// Builds the graph that runs `op` once.
pub fn case(op: impl Into<Op>, operands: &[Operand], _: Buffers) -> Case {
    let mut graph = Graph::new("test");
    let kind = |o: &Operand| match (o.ty.kind, o.space) {
        (Kind::State, _) => ParamKind::State,
        (_, Space::Weight) => ParamKind::Weight,
        _ => ParamKind::Input,
    };
    let params: Vec<_> = operands
        .iter()
        .enumerate()
        .map(|(i, o)| graph.param(kind(o), &format!("operand{i}"), o.ty.clone()))
        .collect();
    let results = graph.push(op, &params, "test").expect("the operator accepts these types");
    for (i, v) in results.into_iter().enumerate() {
        if graph.ty(v).kind == Kind::Tensor {
            graph.output(&format!("y{i}"), v);
        }
    }
    Case { graph, bytes: operands.iter().map(|o| o.bytes.clone()).collect() }
}

/// Runs it: all results of the operator, states among them.
pub fn run(d: &Arc<TestDevice>, case: &Case) -> Result<Vec<Vec<u8>>> {
    let graph = &case.graph;
    let module = lower(graph)?;
    let executable = compiled(d, &module.text)?;
    let arguments = graph.params.iter().zip(&case.bytes).map(|(p, bytes)| {
        let (el, dims) = storage(graph.ty(p.value))?;
        d.upload(el.element(), &dims, bytes)
    });
    let arguments = arguments.collect::<Result<Vec<_>>>()?;
    let made = executable.run(&arguments, &[])?;
    let values: Vec<_> = graph
        .outputs
        .iter()
        .map(|o| o.value)
        .chain(graph.final_states().into_iter().map(|f| f.1))
        .collect();
    let node = graph.nodes.last().expect("one operator");
    let read = |v: &ValueId| {
        let at = values.iter().position(|x| x == v).expect("a result of the graph");
        let ty: &Type = graph.ty(*v);
        let (_, dims) = storage(ty)?;
        let mut read = made[at].read(dims.len(), ty.bytes()? as usize)?;
        read.wait()?;
        Ok(read.poll()?.expect("the bytes are there"))
    };
    node.outputs.iter().map(read).collect()
}

/// Compiles a text once: operators differ in less than their tests' numbers.
fn compiled(d: &Arc<TestDevice>, text: &str) -> Result<Arc<Executable>> {
    static MADE: Mutex<BTreeMap<String, Arc<Executable>>> = Mutex::new(BTreeMap::new());
    let made = MADE.lock().unwrap().get(text).cloned();
    if let Some(executable) = made {
        return Ok(executable);
    }
    let executable =
        d.compile(text).map_err(|e| e.at(text.chars().take(4000).collect::<String>()))?;
    let executable = Arc::new(executable);
    MADE.lock().unwrap().insert(text.into(), executable.clone());
    Ok(executable)
}

/// `case` and `run`.
pub fn run_op(d: &Arc<TestDevice>, op: impl Into<Op>, operands: &[Operand]) -> Vec<Vec<u8>> {
    run(d, &case(op, operands, Buffers::One)).unwrap_or_else(|e: Error| panic!("{e}"))
}

pub fn truth(op: &Op, operands: &[Operand]) -> Vec<Vec<u8>> {
    let views: Vec<View<'_>> = operands.iter().map(|o| View::new(&o.ty, &o.bytes)).collect();
    reference::run(op, &views).expect("the reference runs this")
}

pub fn f64s(bytes: &[u8]) -> Vec<f64> {
    floats(bytes).iter().map(|&x| f64::from(x)).collect()
}

/// Every result is the reference's within `tolerance` of its largest number; at 0 in every bit.
#[track_caller]
pub fn agrees(op: impl Into<Op>, operands: &[Operand], tolerance: f64) {
    let op = op.into();
    let types: Vec<&Type> = operands.iter().map(|o| &o.ty).collect();
    let names: Vec<String> = types.iter().map(|t| t.to_string()).collect();
    let what = format!("{}{} of {}", op.name(), op.attrs(), names.join(", "));
    target().claims(&op, &types).unwrap_or_else(|why| panic!("{what}: {why}"));
    let want = truth(&op, operands);
    let got = run_op(&device(), op, operands);
    assert_eq!(got.len(), want.len(), "{what}");
    for (got, want) in got.iter().zip(&want) {
        if got == want {
            continue;
        }
        if tolerance == 0.0 {
            let at = got.iter().zip(want).position(|(a, b)| a != b);
            panic!("{what}: byte {at:?} differs");
        }
        assert_close(&what, &floats(got), &f64s(want), tolerance);
    }
}

/// The executor.
pub fn executor() -> Arc<GraphDevice<Pjrt>> {
    Arc::new(rlx_pjrt::open(Some(path())).unwrap_or_else(|e| panic!("{e}")))
}
