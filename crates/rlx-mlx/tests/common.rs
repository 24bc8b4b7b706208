//! MLX as tests open it, and one operator as a graph of its own.

pub use crate::step::{Buffers, Operand, Rng, floats, state};
use rlx_core::Result;
use rlx_core::compare::difference;
use rlx_core::ir::lir::Space;
use rlx_core::ir::mir::{Graph, ParamKind};
use rlx_core::ops::Op;
use rlx_core::reference::{self, View};
use rlx_core::runtime::device::graph::GraphDevice;
use rlx_core::target::Target;
use rlx_core::types::DType;
use rlx_mlx::{Installed, Mlx, Options};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, OnceLock};

/// The device of these tests.
pub type TestDevice = GraphDevice<Mlx>;

/// The MLX that `RLX_MLX` names, or the wheel; why there is none otherwise.
fn installed() -> std::result::Result<Installed, String> {
    if std::env::var_os("RLX_MLX").is_some_and(|v| !v.is_empty()) {
        return rlx_mlx::find().map_err(|e| e.to_string());
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/mlx.sh");
    let output = Command::new("sh").arg(script).output();
    let output = output.map_err(|e| format!("scripts/mlx.sh does not run: {e}"))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        let last = text.trim().lines().last().unwrap_or_default().to_string();
        return Err(format!("scripts/mlx.sh: {last}"));
    }
    let folder = String::from_utf8_lossy(&output.stdout).trim().to_string();
    rlx_mlx::find_in(Path::new(&folder)).map_err(|e| e.to_string())
}

/// A device of its own, on the CPU. Without MLX no test of this binary can do what its name says: one line tells why,
/// and the binary ends.
pub fn own_device() -> Arc<TestDevice> {
    device_with(Options { cpu: true, compile: false })
}

/// A device that is opened so.
pub fn device_with(how: Options) -> Arc<TestDevice> {
    static INSTALLED: OnceLock<Installed> = OnceLock::new();
    let installed = INSTALLED.get_or_init(|| match installed() {
        Ok(installed) => installed,
        // A machine that has been told where MLX is must have it.
        Err(why) if std::env::var_os("RLX_MLX").is_some() => panic!("{why}"),
        Err(why) => {
            crate::skip::skip("mlx: every operator and model", &why);
            std::process::exit(0);
        }
    });
    let mlx = Mlx::new(installed, how).unwrap_or_else(|e| panic!("{e}"));
    Arc::new(GraphDevice::new(mlx, rlx_mlx::target()))
}

/// One device for tests of operators.
pub fn device() -> Arc<TestDevice> {
    static DEVICE: OnceLock<Arc<TestDevice>> = OnceLock::new();
    DEVICE.get_or_init(own_device).clone()
}

/// Types of caches that tests try.
pub const CACHES: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

/// How far a function may be off where its value is nearly zero.
pub const NEAR_ZERO: f64 = 3e-7;

/// As tests that executors share ask for it.
pub fn plain_device() -> Arc<TestDevice> {
    device()
}

/// As tests that executors share ask for them.
pub fn devices() -> [Arc<TestDevice>; 1] {
    [device()]
}

/// What the executor takes.
pub fn target() -> Target {
    rlx_mlx::target()
}

/// An operator over operands, as a graph and its arguments.
pub struct Case {
    graph: Graph,
    arguments: Vec<Operand>,
}

/// The graph that runs `op` once and returns every result.
pub fn case(op: impl Into<Op>, operands: &[Operand], _: Buffers) -> Case {
    let mut graph = Graph::new("test");
    let mut values = Vec::new();
    for (i, o) in operands.iter().enumerate() {
        let kind = match o.space {
            Space::Weight => ParamKind::Weight,
            Space::State => ParamKind::State,
            _ => ParamKind::Input,
        };
        values.push(graph.param(kind, &format!("operand{i}"), o.ty.clone()));
    }
    let results = graph.push(op, &values, "test").expect("the operator accepts these types");
    for (i, v) in results.into_iter().enumerate() {
        graph.output(&format!("y{i}"), v);
    }
    Case { graph, arguments: operands.to_vec() }
}

/// Runs the graph once: its outputs.
pub fn run(d: &Arc<TestDevice>, case: &Case) -> Result<Vec<Vec<u8>>> {
    let mlx = d.backend();
    let executable = mlx.compile(&case.graph)?;
    let tensors = case.arguments.iter().map(|o| mlx.upload(&o.ty, &o.bytes));
    let tensors = tensors.collect::<Result<Vec<_>>>()?;
    let arguments: Vec<_> = tensors.iter().map(|t| (t, false)).collect();
    let results = mlx.run(&executable, &arguments)?;
    let outputs = results.iter().take(case.graph.outputs.len());
    outputs
        .map(|tensor| {
            let mut read = mlx.read(tensor)?;
            mlx.poll(&mut read, true).map(Option::unwrap_or_default)
        })
        .collect()
}

pub fn truth(op: &Op, operands: &[Operand]) -> Vec<Vec<u8>> {
    let views: Vec<View<'_>> = operands.iter().map(|o| View::new(&o.ty, &o.bytes)).collect();
    reference::run(op, &views).expect("the reference runs this")
}

/// Every result of f32, within `tolerance` of the largest number that the reference has there.
#[track_caller]
pub fn agrees(op: impl Into<Op>, operands: &[Operand], tolerance: f64) {
    let op = op.into();
    let types: Vec<String> = operands.iter().map(|o| o.ty.to_string()).collect();
    let what = format!("{}{} of {}", op.name(), op.attrs(), types.join(", "));
    let want = truth(&op, operands);
    let got =
        run(&device(), &case(op, operands, Buffers::One)).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert_eq!(got.len(), want.len(), "{what}");
    for (got, want) in got.iter().zip(&want) {
        let want: Vec<f64> = floats(want).into_iter().map(f64::from).collect();
        let found = difference(&floats(got), &want);
        assert!(found.relative() <= tolerance, "{what}: {found:?}, {tolerance:e} allowed");
    }
}

/// The bytes of every result.
pub fn run_op(d: &Arc<TestDevice>, op: impl Into<Op>, operands: &[Operand]) -> Vec<Vec<u8>> {
    run(d, &case(op, operands, Buffers::One)).unwrap_or_else(|e| panic!("{e}"))
}

pub fn f64s(bytes: &[u8]) -> Vec<f64> {
    floats(bytes).iter().map(|&x| f64::from(x)).collect()
}
