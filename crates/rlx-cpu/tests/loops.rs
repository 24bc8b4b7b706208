//! Operators without a kernel, and control flow: the device gives the reference's bytes, with one
//! worker, with two, and in slices.
#![cfg(feature = "reference")]

use crate::common;
use common::*;
use rlx_core::Code;
use rlx_core::ir::mir::{Graph, ParamKind, ValueId};
use rlx_core::ir::parse::parse;
use rlx_core::ops::*;
use rlx_core::passes::{Route, dispatch_report};
use rlx_core::reference::device::ReferenceDevice;
use rlx_core::reference::interpret;
use rlx_core::runtime::device::Device;
use rlx_core::target::{CompileOptions, Path};
use rlx_core::types::{DType, Shape, Type};
use rlx_cpu::{CpuDevice, CpuOptions};
use std::sync::Arc;

fn clock() -> f64 {
    // Late at every look: the device pauses as often as it may.
    use core::sync::atomic::{AtomicU32, Ordering};
    static LOOKS: AtomicU32 = AtomicU32::new(0);
    f64::from(LOOKS.fetch_add(1, Ordering::Relaxed)) * 1e3
}

fn cpus() -> Vec<Arc<dyn Device>> {
    let device = |threads, clock: Option<fn() -> f64>| -> Arc<dyn Device> {
        let options = CpuOptions { threads: Some(threads), clock, ..CpuOptions::default() };
        Arc::new(CpuDevice::new(options).unwrap())
    };
    vec![device(1, None), device(2, None), device(1, Some(clock))]
}

fn agrees(g: &Graph, params: &[Value], what: &str) {
    let all: Vec<&[u8]> = params.iter().map(|v| v.bytes.as_slice()).collect();
    let expected = interpret(g, &all).unwrap_or_else(|e| panic!("{what}: {e}\n{g}")).outputs;
    let reference: Arc<dyn Device> = Arc::new(ReferenceDevice::new());
    let reference = outputs(&reference, g, params);
    assert_eq!(reference.as_ref(), Ok(&expected), "{what} on the reference\n{g}");
    for device in cpus() {
        let got = outputs(&device, g, params);
        assert_eq!(got.as_ref(), Ok(&expected), "{what} on {}\n{g}", device.info().adapter);
    }
}

fn halfs(dims: &[u64], x: &[f32]) -> Value {
    let bytes = x.iter().flat_map(|x| half::f16::from_f32(*x).to_le_bytes()).collect();
    Value::new(Type::tensor(DType::F16, Shape::of(dims)), bytes)
}

fn doubles(dims: &[u64], x: &[f32]) -> Value {
    let bytes = x.iter().flat_map(|x| f64::from(*x).to_le_bytes()).collect();
    Value::new(Type::tensor(DType::F64, Shape::of(dims)), bytes)
}

/// 6 to 20 nodes over f64 `[2, 4, 4]` values, for which there is no kernel.
fn random_graph(r: &mut Random) -> (Graph, Vec<Value>) {
    let mut g = Graph::new("random");
    let dims = [2, 4, 4];
    let ty = Type::tensor(DType::F64, Shape::of(&dims));
    let mut below = |n: u64| r.bits() % n;
    let mut values = vec![g.param(ParamKind::Input, "x", ty.clone())];
    values.push(g.param(ParamKind::Input, "z", ty.clone()));
    let w = g.param(ParamKind::Weight, "w", Type::tensor(DType::F32, Shape::of(&[4, 4])));
    for i in 0..6 + below(15) {
        let label = format!("n{i}");
        // Late values more often, so that operands die and their memory is taken over.
        let late = values.len() - 1 - (below(2) as usize).min(values.len() - 1);
        let x = values[if below(4) > 0 { late } else { below(values.len() as u64) as usize }];
        let b = values[below(values.len() as u64) as usize];
        let mut push = |op: Op, inputs: &[ValueId]| g.push1(op, inputs, &label).unwrap();
        let y = match below(13) {
            0 => push(Map { f: Unary::ALL[below(7) as usize].0 }.into(), &[x]),
            1 => push(Zip { f: Binary::Add }.into(), &[x, b]),
            2 => push(Zip { f: Binary::Mul }.into(), &[x, b]),
            3 => push(Softmax { axis: below(3) as usize }.into(), &[x]),
            4 => {
                let f = Reduction::Max;
                let most =
                    push(Reduce { f, axes: vec![below(3) as usize], keep: true }.into(), &[x]);
                push(Zip { f: Binary::Sub }.into(), &[b, most])
            }
            5 => push(Transpose { perm: vec![0, 2, 1] }.into(), &[x]),
            6 => {
                let both = push(Concat { axis: 1 }.into(), &[x, b]);
                let start = below(5).into();
                push(Slice { axis: 1, start, len: 4u64.into(), step: 1 }.into(), &[both])
            }
            7 => {
                let less = push(Compare { f: Comparison::Lt }.into(), &[x, b]);
                push(Select.into(), &[less, b, x])
            }
            8 => push(BatchMatMul { transpose_b: below(2) == 0 }.into(), &[x, b]),
            9 => push(Clamp { min: -0.5, max: 0.75 }.into(), &[x]),
            10 => {
                let narrow = push(Cast { to: DType::F16 }.into(), &[x]);
                push(Cast { to: DType::F64 }.into(), &[narrow])
            }
            11 => push(MatMul::plain().into(), &[x, w]),
            _ => push(Sdpa { mask: Mask::Causal, ..Sdpa::new(2, 2) }.into(), &[x, b, x]),
        };
        values.push(y);
    }
    g.output("y", values[values.len() - 1]);
    let other = values[below(values.len() as u64) as usize];
    if g.params.iter().all(|p| p.value != other) && other != values[values.len() - 1] {
        g.output("z", other);
    }
    let params = vec![
        doubles(&dims, &r.floats(32)),
        doubles(&dims, &r.floats(32)),
        f32s(&[4, 4], &r.floats(16)).weight(),
    ];
    (g, params)
}

#[test]
fn random_graphs_of_operators_without_kernels_give_the_references_bytes() {
    for seed in 0..200 {
        let (g, params) = random_graph(&mut Random(seed));
        agrees(&g, &params, &format!("seed {seed}"));
    }
}

#[test]
fn the_device_says_which_operators_have_kernels_and_which_run_on_loops() {
    let device = &cpus()[0];
    let (wide, half) = (f32s(&[2, 4], &[0.0; 8]).ty, halfs(&[2, 4], &[0.0; 8]).ty);
    let double = doubles(&[2, 4], &[0.0; 8]).ty;
    let silu = Op::from(Map { f: Unary::Silu });
    assert_eq!(device.target().path(&silu, &[&wide]), Ok(Path::Native));
    assert_eq!(device.target().path(&silu, &[&double]), Ok(Path::Loops));
    let windowed = Op::from(Attention { window: Some(4), ..Attention::causal(4, 1.0) });
    let cache = cache(DType::F32, &[1, 8, 4], &[0.0; 32]).ty;
    let ctl = control(0, 1, 0).ty;
    let operands = [&wide, &cache, &cache, &ctl];
    assert_eq!(device.target().path(&windowed, &operands), Ok(Path::Native));
    let operands = [&half, &cache, &cache, &ctl];
    assert_eq!(device.target().path(&windowed, &operands), Ok(Path::Loops));
}

#[test]
fn attention_of_half_floats_with_a_window_and_a_softcap_runs_on_loops() {
    let mut r = Random(1);
    let mut g = Graph::new("window");
    let q = g.param(ParamKind::Input, "q", halfs(&[3, 8], &[0.0; 24]).ty);
    let kv = cache(DType::F16, &[1, 9, 4], &[0.0; 36]).ty;
    let k = g.param(ParamKind::State, "k", kv.clone());
    let v = g.param(ParamKind::State, "v", kv);
    let ctl = g.param(ParamKind::State, "ctl", control(0, 1, 0).ty);
    let op = Attention { window: Some(2), softcap: Some(0.5), ..Attention::causal(4, 0.7) };
    let y = g.push1(op, &[q, k, v, ctl], "attend").unwrap();
    g.output("y", y);
    let params = [
        halfs(&[3, 8], &r.floats(24)),
        cache(DType::F16, &[1, 9, 4], &r.floats(36)),
        cache(DType::F16, &[1, 9, 4], &r.floats(36)),
        control(5, 3, 0),
    ];
    agrees(&g, &params, "window");
}

/// Grows `x` while it is below `most`, for `max` runs at most.
fn grow(max: u64) -> Graph {
    let params =
        "input %x : tensor<2xf32>\n input %step : tensor<f32>\n input %most : tensor<1xf32>\n";
    let text = format!(
        "func @grow {{
{params}
  %0 = while %x, %step, %most {{carried = 1, max = {max}}} -> tensor<2xf32> [ // loop
    func @cond {{
{params}
      %0 = slice %x {{axis = 0, start = 0, len = 1}} -> tensor<1xf32>
      %1 = compare %0, %most {{f = lt}} -> tensor<1xbool>
      return holds = %1
    }}
    func @body {{
{params}
      %0 = zip %x, %step {{f = add}} -> tensor<2xf32>
      return x = %0
    }}
  ]
  %1 = map %0 {{f = neg}} -> tensor<2xf32>
  return y = %1
}}
"
    );
    parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

#[test]
fn loops_run_on_the_device() {
    let params = [f32s(&[2], &[0.5, 9.0]), f32s(&[], &[1.5]), f32s(&[1], &[20.0])];
    agrees(&grow(100), &params, "while");
}

#[test]
fn a_loop_without_end_is_an_error_that_names_it_and_the_session_goes_on() {
    let endless = [f32s(&[2], &[0.5, 9.0]), f32s(&[], &[0.0]), f32s(&[1], &[20.0])];
    for device in cpus() {
        let e = outputs(&device, &grow(50), &endless).unwrap_err();
        assert_eq!(e.code, Code::BadGraph);
        assert_eq!(e.what, "while: its condition still holds after 50 runs of its body");
        assert_eq!(e.at, "@grow, loop");
        let mut short = endless.clone();
        short[1] = f32s(&[], &[30.0]);
        assert_eq!(to_f32s(&outputs(&device, &grow(50), &short).unwrap()[0]), [-30.5, -39.0]);
    }
}

#[test]
fn a_branch_with_more_captures_and_results_than_any_kernel_has() {
    let inputs: String = (0..15).map(|i| format!("input %x{i} : tensor<2xf32>\n")).collect();
    let names: Vec<String> = (0..15).map(|i| format!("%x{i}")).collect();
    let body = |name: &str, order: &dyn Fn(usize) -> usize| {
        let results: Vec<String> = (0..9).map(|i| format!("y{i} = %x{}", order(i))).collect();
        format!("func @{name} {{\n{inputs}return {}\n}}\n", results.join(", "))
    };
    let results: Vec<String> = (0..9).map(|i| format!("%r{i}")).collect();
    let outputs: Vec<String> = (0..9).map(|i| format!("y{i} = %r{i}")).collect();
    let text = format!(
        "func @f {{\ninput %p : tensor<1xf32>\n{inputs}\
         %c = compare %p, %p {{f = eq}} -> tensor<1xbool>\n\
         {} = if %c, {} -> {} [ // choose\n{}{}]\nreturn {}\n}}\n",
        results.join(", "),
        names.join(", "),
        ["tensor<2xf32>"; 9].join(", "),
        body("then", &|i| i),
        body("else", &|i| 14 - i),
        outputs.join(", ")
    );
    let g = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    // A NaN is not equal to itself.
    for p in [f32::NAN, 1.0] {
        let mut params = vec![f32s(&[1], &[p])];
        params.extend((0..15).map(|i| f32s(&[2], &[i as f32, 100.0 + i as f32])));
        agrees(&g, &params, "if");
    }
}

#[test]
fn scans_of_a_recurrence_carry_its_state_and_heed_the_control_block() {
    let (s, h, n, v) = (5, 2, 3, 4);
    let mut r = Random(3);
    let tensor = |dims: &[u64], x: Vec<f32>| f32s(dims, &x);
    let q = tensor(&[s, h, n], r.floats((s * h * n) as usize));
    let k = tensor(&[s, h, n], r.floats((s * h * n) as usize));
    let values = tensor(&[s, h, v], r.floats((s * h * v) as usize));
    let gate = tensor(&[s, h], r.floats((s * h) as usize).iter().map(|x| -x.abs()).collect());
    let beta = tensor(&[s, h], r.floats((s * h) as usize));
    let m = state(tensor(&[h, n, v], r.floats((h * n * v) as usize)));
    let mut g = Graph::new("net");
    let op = GatedDeltaNet { state_size: n as usize, carry: true, tiled: false };
    let mut operands = Vec::new();
    for (i, value) in [&q, &k, &values, &gate, &beta].into_iter().enumerate() {
        operands.push(g.param(ParamKind::Input, &format!("x{i}"), value.ty.clone()));
    }
    operands.push(g.param(ParamKind::State, "m", m.ty.clone()));
    operands.push(g.param(ParamKind::State, "ctl", control(0, 1, 0).ty));
    let results = g.push(op, &operands, "net").unwrap();
    g.output("y", results[0]);
    g.output("m", results[1]);
    for ctl in [control(0, 5, 0), control(0, 2, 0), control(0, 5, 1)] {
        let params = [&q, &k, &values, &gate, &beta, &m, &ctl].map(Clone::clone);
        agrees(&g, &params, "gated_delta_net");
    }
}

#[test]
fn states_without_a_control_block_are_written_by_every_submission() {
    let mut g = Graph::new("ring");
    let ring = g.param(ParamKind::State, "ring", cache(DType::F16, &[2, 4], &[0.0; 8]).ty);
    let ctl = g.param(ParamKind::State, "ctl", control(0, 1, 0).ty);
    let x = g.param(ParamKind::Input, "x", f32s(&[2, 1], &[0.0; 2]).ty);
    let at = g.param(ParamKind::Input, "at", u32s(&[1], &[0]).ty);
    let next = g.push1(StateWrite { axis: 1 }, &[ring, x, at], "write").unwrap();
    // Something that reads a control block which is done: the ring is written nevertheless.
    let rows = g.param(ParamKind::Input, "rows", f32s(&[1, 2], &[0.0; 2]).ty);
    let taken = g.push1(TakeRows { rows: 1u64.into() }, &[rows, ctl], "take").unwrap();
    let _ = taken;
    g.output("ring", next);
    let params = [
        cache(DType::F16, &[2, 4], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]),
        control(0, 1, 1),
        f32s(&[2, 1], &[-1.0, -2.0]),
        u32s(&[1], &[2]),
        f32s(&[1, 2], &[0.0; 2]),
    ];
    agrees(&g, &params, "state_write");
}

/// Columns of so many places: their parts copy a window of 4 KiB for each.
#[cfg(feature = "graphs")]
fn columns(places: u64) -> Route {
    let mut g = Graph::new("columns");
    let ty = |dims: &[u64]| Type::tensor(DType::F32, Shape::of(dims));
    let x = g.param(ParamKind::Input, "x", ty(&[1, 64, places + 15]));
    let columns = Im2Col { kernel: vec![16], window: Window::new(1) };
    let y = g.push1(columns, &[x], "columns").unwrap();
    g.output("y", y);
    let target = cpus()[0].target().clone();
    dispatch_report(g, &target, &CompileOptions::default()).unwrap().kinds[0].route
}

#[cfg(feature = "graphs")]
#[test]
fn parts_that_are_as_large_as_a_file_are_left_to_loops() {
    assert_eq!(columns(16), Route::Common);
    // 256 MiB are the windows of 65,536 places.
    assert_eq!(columns(65_536), Route::Common);
    assert_eq!(columns(65_537), Route::Claimed(Path::Loops));
}
