//! What the plan gives addresses to: segments, views, constants, weights in parts, runtime symbols.

use crate::targets;
use rlx_core::ir::lir::{Phase, Program};
use rlx_core::ir::mir::{Graph, ParamKind};
use rlx_core::ir::parse::{parse, parse_lir};
use rlx_core::plan::check::check;
use rlx_core::plan::replay::{ReplayMemory, replay};
use rlx_core::plan::{Origin, WeightPlan, at_run, plan, plan_bounded};
use rlx_core::reference::interpret;
use rlx_core::reference::make::make;
use rlx_core::runtime::session::load::{Destination, placements};
use rlx_core::target::{CompileOptions, Target};
use rlx_core::types::{Binding, DType, DimBinding};
use std::collections::BTreeMap;

type Data = BTreeMap<String, Vec<u8>>;

/// Bytes of every parameter: small floats, or small ids.
fn data(g: &Graph) -> Data {
    let mut n = 0u32;
    let mut number = || {
        n = n.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (n >> 16) as f32 / 65536.0 - 0.5
    };
    let mut out = Data::new();
    for p in &g.params {
        let ty = g.ty(p.value);
        let elements = ty.shape.elements().unwrap();
        let bytes = (0..elements).flat_map(|i| match ty.dtype {
            DType::U32 => (i as u32 * 37 % 90).to_le_bytes().to_vec(),
            DType::F16 => (0x3000 + (i * 77 % 0x800) as u16).to_le_bytes().to_vec(),
            _ => number().to_le_bytes().to_vec(),
        });
        out.insert(p.name.clone(), bytes.collect());
    }
    out
}

fn expected(g: &Graph, data: &Data) -> Vec<Vec<u8>> {
    let params: Vec<&[u8]> = g.params.iter().map(|p| data[&p.name].as_slice()).collect();
    interpret(g, &params).unwrap().outputs
}

/// Plans, loads from a file that holds all tensors, checks, replays.
fn planned(g: &Graph, target: &Target, options: &CompileOptions) -> (Program, WeightPlan) {
    let mut program = plan(g.clone(), &[], target, options).unwrap_or_else(|e| panic!("{e}\n{g}"));
    let weights = bound(&mut program, target);
    (program, weights)
}

fn bound(program: &mut Program, target: &Target) -> WeightPlan {
    let (_, places) = file(&program.graph);
    let weights = WeightPlan::new(&[program], &target.limits, |name| places.get(name).copied());
    let weights = weights.unwrap();
    weights.bind(program).unwrap();
    check(program, &weights, &target.limits).unwrap_or_else(|e| panic!("{e}\n{program}"));
    weights
}

/// Bytes, and where each tensor lies: shard, offset, length.
type File = (Vec<u8>, BTreeMap<String, (u32, u64, u64)>);

/// A file with every weight of a graph, and where in it each is.
fn file(g: &Graph) -> File {
    let data = data(g);
    let (mut bytes, mut places) = (vec![0; 32], BTreeMap::new());
    for p in g.params.iter().filter(|p| p.kind == ParamKind::Weight) {
        let tensor = &data[&p.name];
        places.insert(p.name.clone(), (0, bytes.len() as u64, tensor.len() as u64));
        bytes.extend(tensor);
        bytes.resize(bytes.len().next_multiple_of(32), 0);
    }
    (bytes, places)
}

/// Bytes of every entry, as a loader puts them there.
fn loaded(weights: &WeightPlan, file: &[u8]) -> Vec<Vec<u8>> {
    let mut buffers: Vec<Vec<u8>> =
        weights.buffers.iter().map(|b| vec![0xee; b.bytes as usize]).collect();
    let mut host = Data::new();
    for p in placements(weights, 0) {
        let bytes = &file[p.file_offset as usize..][..p.bytes as usize];
        match p.to {
            Destination::Device(at) => {
                buffers[at.buffer as usize][at.offset as usize..][..bytes.len()]
                    .copy_from_slice(bytes);
            }
            Destination::Host(name) => {
                host.insert(name, bytes.to_vec());
            }
            other => panic!("{other:?} is of a group"),
        }
    }
    let entries = weights.entries.iter().map(|e| match &e.origin {
        Origin::Made(recipe) => make(recipe, &|name| host.get(name).map(Vec::as_slice)).unwrap(),
        _ => buffers[e.buffer as usize][e.offset as usize..][..e.bytes as usize].to_vec(),
    });
    entries.collect()
}

fn replayed(program: &Program, weights: &WeightPlan, data: &Data, file: &[u8]) -> Vec<Vec<u8>> {
    let bytes = loaded(weights, file);
    let bytes: Vec<&[u8]> = bytes.iter().map(Vec::as_slice).collect();
    let mut memory = ReplayMemory::of(program);
    for (i, input) in program.inputs.iter().enumerate() {
        memory.inputs[i] = data[&input.name][..input.bytes as usize].to_vec();
    }
    replay(program, &bytes, &mut memory).unwrap_or_else(|e| panic!("{e}\n{program}"))
}

/// Plans and replays, and proves the outputs those of the graph.
fn proven(g: &Graph, target: &Target, options: &CompileOptions) -> (Program, WeightPlan) {
    let (program, weights) = planned(g, target, options);
    let data = data(g);
    let got = replayed(&program, &weights, &data, &file(g).0);
    assert!(got == expected(g, &data), "replayed outputs differ\n{program}");
    (program, weights)
}

fn reference(binding: u64) -> Target {
    let mut target = Target::reference();
    target.limits.binding = binding;
    target
}

fn text(g: &str) -> Graph {
    parse(g).unwrap_or_else(|e| panic!("{e}\n{g}"))
}

/// Sums of sums, many alive at once.
fn sums(nodes: usize) -> Graph {
    let mut lines = String::new();
    for i in 0..nodes {
        let (a, b) = (i.saturating_sub(1), i.saturating_sub(9));
        let a = if i == 0 { "x".into() } else { format!("{a}") };
        let b = if i == 0 { "x".into() } else { format!("{b}") };
        lines += &format!("  %{i} = zip %{a}, %{b} {{f = add}} -> tensor<16x64xf32> // n{i}\n");
    }
    text(&format!(
        "func @f {{\n  input %x : tensor<16x64xf32>\n{lines}  return y = %{}\n}}\n",
        nodes - 1
    ))
}

#[test]
fn an_arena_above_the_binding_limit_is_segments_that_no_value_crosses() {
    let g = sums(40);
    let (whole, _) = proven(&g, &Target::reference(), &CompileOptions::default());
    assert_eq!(whole.arena_segments, [whole.arena_bytes]);
    let (program, _) = proven(&g, &reference(10_000), &CompileOptions::default());
    assert!(program.arena_segments.len() > 2, "{:?}", program.arena_segments);
    assert!(program.arena_segments.iter().all(|&s| s <= 10_000));
    assert!(program.arena_bytes >= whole.arena_bytes);
    let again = parse_lir(&format!("{program:#}")).unwrap();
    assert_eq!((again.arena_segments, again.steps), (program.arena_segments, program.steps));
}

#[test]
fn an_arena_that_cannot_be_segments_names_the_largest_live_set() {
    let mut target = reference(10_000);
    target.arena_segments = false;
    let e = plan(sums(40), &[], &target, &CompileOptions::default()).unwrap_err();
    let start = "@f: the arena has 40960 bytes, 40960 of them in use at once at n9";
    assert!(e.what.starts_with(start), "{e}");
    let e = plan(sums(40), &[], &reference(4000), &CompileOptions::default()).unwrap_err();
    let start = "@f: the tensor<16x64xf32> of n0 has 4096 bytes, the reference device binds";
    assert!(e.what.starts_with(start), "{e}");
}

#[test]
fn slots_keep_the_alignment_that_options_ask_for() {
    let g = text(
        "func @f {
  input %x : tensor<5xf32>
  %0 = map %x {f = exp} -> tensor<5xf32>
  %1 = map %x {f = tanh} -> tensor<5xf32>
  %2 = zip %0, %1 {f = add} -> tensor<5xf32>
  return y = %2, z = %1
}
",
    );
    let options = |alignment| CompileOptions { alignment, ..CompileOptions::default() };
    let (program, _) = proven(&g, &Target::reference(), &options(4096));
    assert_eq!((program.alignment, program.arena_bytes), (4096, 8192));
    let arena = program.steps.iter().flat_map(|s| &s.results);
    assert!(arena.clone().all(|s| s.offset % 4096 == 0));
    for wrong in [0, 32, 96] {
        let e = plan(g.clone(), &[], &Target::reference(), &options(wrong)).unwrap_err();
        let what = format!("an arena alignment of {wrong} bytes: it is a power of two, 64 or more");
        assert_eq!(e.what, what);
    }
}

#[test]
fn contiguous_rows_are_views_and_rows_off_a_word_are_a_step() {
    let g = text(
        "func @f {
  input %x : tensor<4x3xf16>
  %0 = map %x {f = exp} -> tensor<4x3xf16> // all
  %1 = slice %0 {axis = 0, start = 2, len = 2} -> tensor<2x3xf16> // words
  %2 = slice %0 {axis = 0, start = 1, len = 2} -> tensor<2x3xf16> // odd
  %3 = reshape %1 {dims = [6]} -> tensor<6xf16> // flat
  %4 = map %3 {f = neg} -> tensor<6xf16>
  %5 = map %2 {f = neg} -> tensor<2x3xf16>
  return a = %4, b = %5, c = %0
}
",
    );
    let (program, _) = proven(&g, &Target::reference(), &CompileOptions::default());
    let labels: Vec<&str> = program.steps.iter().map(|s| s.label.as_str()).collect();
    assert_eq!(labels, ["all", "odd", "", ""]);
    let flat = &program.steps[2].operands[0];
    assert_eq!(flat.offset, program.steps[0].results[0].offset + 12, "a view of a view");
}

/// A tied embedding, a bias, a residual: everything that a weight in parts meets.
const TIED: &str = "func @f {
  input %ids : tensor<3xu32>
  weight %table : tensor<90x64xf32>
  weight %bias : tensor<90xf32>
  weight %other : tensor<90x64xf32>
  %0 = gather %table, %ids -> tensor<3x64xf32> // embed
  %1 = matmul %0, %table, %bias {bias = true} -> tensor<3x90xf32> // head
  %2 = matmul %0, %other, %1 {epilogue = add} -> tensor<3x90xf32> // more
  return logits = %2
}
";

#[test]
fn a_weight_above_the_binding_limit_is_read_in_parts_of_whole_tiles() {
    let g = text(TIED);
    let (program, weights) = proven(&g, &reference(40 * 256), &CompileOptions::default());
    let parts: Vec<(String, u64, u64)> = program
        .steps
        .iter()
        .filter_map(|s| s.part.map(|p| (s.label.clone(), p.first, p.rows)))
        .collect();
    let of = |label: &str| [(0, 40), (40, 40), (80, 10)].map(|(a, n)| (label.to_string(), a, n));
    assert_eq!(parts, [of("embed"), of("head"), of("more")].concat());
    // A part is a range of the file, and both readers of a tensor share it.
    assert_eq!(weights.entries.len(), 7, "{:?}", weights.entries);
    assert!(weights.entries.iter().all(|e| e.transforms() == ["copy"]));
    assert!(weights.buffers.iter().all(|b| b.bytes <= 40 * 256));
    let again = parse_lir(&format!("{program:#}")).unwrap();
    assert_eq!(again.steps, program.steps);
}

#[test]
fn a_weight_above_the_limit_is_named_where_there_are_no_parts() {
    let mut target = reference(40 * 256);
    target.row_parts = None;
    let e = plan(text(TIED), &[], &target, &CompileOptions::default()).unwrap_err();
    assert_eq!(e.what, "tensor table has 23040 bytes, this device binds at most 10240");
    let e = plan(text(TIED), &[], &reference(2000), &CompileOptions::default()).unwrap_err();
    assert!(e.what.ends_with(", less than 8 rows of 256"), "{e}");
}

#[test]
fn what_weights_make_is_laid_out_once_while_loading() {
    let g = text(
        "func @f {
  input %x : tensor<2x8xf32>
  weight %a : tensor<3x8xf32>
  weight %b : tensor<5x8xf32>
  weight %t : tensor<8x4xf32>
  weight %n : tensor<8xf16>
  %0 = concat %a, %b {axis = 0} -> tensor<8x8xf32> // ab
  %1 = matmul %x, %0 -> tensor<2x8xf32> // by_ab
  %2 = matmul %x, %a -> tensor<2x3xf32> // by_a
  %3 = transpose %t {perm = [1, 0]} -> tensor<4x8xf32> // turn
  %4 = matmul %1, %3 -> tensor<2x4xf32> // by_t
  %5 = cast %n {to = f32} -> tensor<8xf32> // wide
  %6 = constant {ty = f32, dims = [1], values = [1.0]} -> tensor<1xf32> // one
  %7 = zip %5, %6 {f = add} -> tensor<8xf32> // plus
  %8 = zip %1, %7 {f = mul} -> tensor<2x8xf32> // scaled
  %9 = slice %b {axis = 0, start = 2, len = 2} -> tensor<2x8xf32> // rows
  %10 = zip %8, %9 {f = sub} -> tensor<2x8xf32> // less
  return y = %10, z = %2, w = %4
}
"
        .replace("{ty = f32, dims = [1], values = [1.0]}", &one())
        .as_str(),
    );
    let (program, weights) = proven(&g, &Target::reference(), &CompileOptions::default());
    let labels: Vec<&str> = program.steps.iter().map(|s| s.label.as_str()).collect();
    assert_eq!(labels, ["by_ab", "by_a", "by_t", "scaled", "less"]);
    let made: Vec<_> = weights.entries.iter().map(|e| e.transforms().join(", ")).collect();
    assert_eq!(made, ["rows", "rows", "cast, add constant"], "a and b lie in the first");
    assert_eq!(weights.locate("a"), Some((0, 0)));
    assert_eq!(weights.locate("b"), Some((0, 96)));
    let e = planned_with_large_cast();
    assert_eq!(e, ["wide", ""], "from a large tensor it stays a step");
    let again = parse_lir(&format!("{program:#}")).unwrap();
    assert_eq!(again.weights, program.weights);
}

/// A constant's attributes, as they print.
fn one() -> String {
    let op = rlx_core::ops::Op::from(rlx_core::ops::Constant::f32s(&[1], &[1.0]).unwrap());
    op.attrs().to_string().trim().to_string()
}

fn planned_with_large_cast() -> Vec<String> {
    let g = text(
        "func @f {
  weight %n : tensor<300x200xf16>
  %0 = cast %n {to = f32} -> tensor<300x200xf32> // wide
  %1 = map %0 {f = exp} -> tensor<300x200xf32>
  return y = %1
}
",
    );
    let (program, _) = proven(&g, &Target::reference(), &CompileOptions::default());
    program.steps.iter().map(|s| s.label.clone()).collect()
}

#[test]
fn a_constant_s_bytes_are_part_of_the_fingerprint() {
    let print = |x: f32| {
        let mut g = Graph::new("f");
        let c = rlx_core::ops::Constant::f32s(&[100], &[x; 100]).unwrap();
        let c = g.push1(c, &[], "c").unwrap();
        let y = g.push1(rlx_core::ops::Map { f: rlx_core::ops::Unary::Exp }, &[c], "y").unwrap();
        g.output("y", y);
        proven(&g, &Target::reference(), &CompileOptions::default()).0.fingerprint
    };
    assert_eq!(print(1.0), print(1.0));
    assert_ne!(print(1.0), print(2.0));
}

#[test]
fn phases_are_what_loading_makes_the_model_and_what_follows_it() {
    let g = text(
        "func @f {
  input %x : tensor<2x8xf32>
  weight %w : tensor<4x8xf32>
  %0 = map %x {f = exp} -> tensor<2x8xf32> // before
  %1 = matmul %0, %w -> tensor<2x4xf32> // last
  %2 = reshape %1 {dims = [8]} -> tensor<8xf32> // view
  %3 = map %2 {f = tanh} -> tensor<8xf32> // after
  return y = %3
}
",
    );
    let (program, _) = proven(&g, &Target::reference(), &CompileOptions::default());
    let value = |name: &str| g.params.iter().find(|p| p.name == name).unwrap().value;
    let node = |n: usize| g.nodes[n].outputs[0];
    assert_eq!(program.values_of(Phase::Prologue), [value("x"), value("w")]);
    assert_eq!(program.values_of(Phase::Steady), [node(0), node(1), node(2)]);
    assert_eq!(program.values_of(Phase::Epilogue), [node(3)]);
    assert!(program.is_fully_static() && program.dynamic_symbols().is_empty());
    assert_eq!(program.bytes_saved(), program.unshared_bytes.saturating_sub(program.arena_bytes));
    assert_eq!(program.clone().into_graph(), g);
}

#[test]
fn what_a_region_captures_lives_until_the_node_that_has_it() {
    let g = text(
        "func @f {
  input %x : tensor<64xf32>
  input %c : tensor<1xbool>
  %0 = map %x {f = exp} -> tensor<64xf32> // early
  %1 = map %x {f = tanh} -> tensor<64xf32>
  %2 = map %1 {f = neg} -> tensor<64xf32>
  %3 = if %c, %0, %2 -> tensor<64xf32> [ // choose
    func @then {
      input %a : tensor<64xf32>
      input %b : tensor<64xf32>
      %0 = zip %a, %b {f = add} -> tensor<64xf32>
      return r = %0
    }
    func @else {
      input %a : tensor<64xf32>
      input %b : tensor<64xf32>
      return r = %b
    }
  ]
  return y = %3
}
",
    );
    let (program, _) = planned(&g, &Target::reference(), &CompileOptions::default());
    let choose = program.steps.last().unwrap();
    assert_ne!(choose.operands[1].offset, choose.operands[2].offset);
    let mut data = data(&g);
    for c in [0u8, 1] {
        data.insert("c".into(), vec![c]);
        let got = replayed(&program, &WeightPlan::default(), &data, &[]);
        assert!(got == expected(&g, &data), "{c}");
    }
}

const DYNAMIC: &str = "func @f {
  input %x : tensor<SEQx8xf32>
  weight %w : tensor<6x8xf32>
  %0 = matmul %x, %w -> tensor<SEQx6xf32> // product
  %1 = map %0 {f = tanh} -> tensor<SEQx6xf32> // tanh
  %2 = reshape %1 {dims = [6*SEQ]} -> tensor<6*SEQxf32> // flat
  %3 = map %2 {f = neg} -> tensor<6*SEQxf32> // neg
  return y = %3
}
";

#[test]
fn a_runtime_symbol_is_planned_at_its_bound_and_bound_at_run() {
    let (g, target) = (text(DYNAMIC), Target::reference());
    let bounds = Binding::from_pairs(&[("SEQ", 7)]);
    let options = CompileOptions::default();
    let mut program = plan_bounded(g.clone(), &bounds, &[], &target, &options).unwrap();
    assert!(program.has_dynamic_dims());
    assert_eq!(program.dynamic_symbols(), ["SEQ"]);
    assert_eq!(program.inputs[0].bytes, 7 * 8 * 4);
    let weights = bound(&mut program, &target);
    for seq in [7, 3, 1, 0] {
        let sizes = Binding::from_pairs(&[("SEQ", seq)]);
        let now = at_run(&program, &sizes).unwrap();
        assert!(now.is_fully_static());
        assert_eq!(now.arena_bytes, program.arena_bytes);
        check(&now, &weights, &target.limits).unwrap_or_else(|e| panic!("{seq}: {e}"));
        let g = g.specialize("f", &sizes).unwrap();
        let all = data(&g);
        let file = file(&program.graph).0;
        // The file's weights are those that `data` gives for the bound.
        let mut all_with_weights = all.clone();
        all_with_weights.insert("w".into(), data(&program.graph)["w"].clone());
        let got = replayed(&now, &weights, &all, &file);
        assert!(got == expected(&g, &all_with_weights), "{seq}");
    }
    let fails = |pairs: &[(&str, u64)]| {
        at_run(&program, &Binding::from_pairs(pairs)).unwrap_err().to_string()
    };
    assert_eq!(fails(&[("SEQ", 8)]), "SEQ is 8, the program is planned for at most 7 (@f)");
    assert_eq!(fails(&[]), "SEQ is not bound (@f)");
    assert_eq!(fails(&[("SEQS", 8)]), "the graph has no symbol SEQS (@f); did you mean SEQ?");
}

#[test]
fn symbols_that_nothing_binds_are_errors_that_say_so() {
    let (target, options) = (Target::reference(), CompileOptions::default());
    let e = plan(text(DYNAMIC), &[], &target, &options).unwrap_err();
    let what =
        "tensor<SEQx8xf32> has the unbound size SEQ; bind every symbol with `specialize` first";
    assert_eq!(e.to_string(), what);
    let e = plan_bounded(text(DYNAMIC), &Binding::new(), &[], &target, &options).unwrap_err();
    assert!(e.what.starts_with("the symbol SEQ of the size SEQ has no bound"), "{e}");
}

#[test]
fn a_binding_that_contradicts_a_shape_names_both_and_what_was_bound() {
    let g = text(
        "func @f {
  input %x : tensor<2xNxf32>
  weight %w : tensor<6x8xf32>
  %0 = reshape %x {dims = [2, N]} -> tensor<2xNxf32>
  return y = %0
}
",
    );
    let mut with = g.clone();
    with.nodes.clear();
    let x = with.params[0].value;
    let w = with.params[1].value;
    with.outputs.clear();
    let v =
        with.value(rlx_core::types::Type::tensor(DType::F32, rlx_core::types::Shape::of(&[2, 6])));
    with.nodes.push(rlx_core::ir::mir::Node::new(
        rlx_core::ops::MatMul::plain(),
        &[x, w],
        &[v],
        "product",
    ));
    with.output("y", v);
    let e = with.specialize("f", &Binding::from_pairs(&[("N", 9)])).unwrap_err().to_string();
    for part in ["tensor<2x9xf32>", "tensor<6x8xf32>", "product", "with N = 9"] {
        assert!(e.contains(part), "{e} lacks {part}");
    }
    assert!(with.specialize("f", &Binding::from_pairs(&[("N", 8)])).is_ok());
}

#[test]
fn sizes_that_overflow_and_sizes_of_nothing_are_no_panic() {
    let huge = |n: u64| {
        text(&format!(
            "func @f {{
  input %x : tensor<{n}x{n}xf32>
  %0 = map %x {{f = exp}} -> tensor<{n}x{n}xf32>
  return y = %0
}}
"
        ))
    };
    let (target, options) = (Target::reference(), CompileOptions::default());
    let e = plan(huge(1 << 32), &[], &target, &options).unwrap_err();
    assert_eq!(e.what, "the bytes of tensor<4294967296x4294967296xf32> overflow 64 bits");
    let e = plan(huge((1 << 30) - 1), &[], &target, &options).unwrap_err();
    assert!(e.what.contains("binds at most") || e.what.contains("overflow"), "{e}");
    let (program, _) = proven(&huge(0), &target, &options);
    assert_eq!((program.steps.len(), program.arena_bytes), (0, 0));
}

#[test]
fn the_cpu_refuses_no_tensor_for_its_size_and_cuts_none_into_parts() {
    // 3 GiB and 1.5 GiB of weights, 20 MB, and 2 GiB between two steps.
    let program = |target: &Target| {
        let g = text(
            "func @f {
  input %x : tensor<131072x4096xf32>
  weight %big : tensor<4096x196608xf32>
  weight %w : tensor<98304x4096xf32>
  weight %n : tensor<5242880xf32>
  input %r : tensor<1x196608xf32>
  %0 = map %x {f = exp} -> tensor<131072x4096xf32>
  %1 = map %0 {f = relu} -> tensor<131072x4096xf32>
  %2 = matmul %r, %big -> tensor<1x4096xf32>
  %3 = matmul %2, %w -> tensor<1x98304xf32>
  %4 = map %n {f = exp} -> tensor<5242880xf32>
  return a = %1, b = %3, c = %4
}
",
        );
        plan(g, &[], target, &CompileOptions::default())
    };
    let cpu = targets::host();
    let program_of_cpu = program(&cpu).unwrap();
    assert!(program_of_cpu.steps.iter().all(|s| s.part.is_none()));
    assert_eq!(program_of_cpu.arena_segments.len(), 1);
    let sizes: Vec<u64> = program_of_cpu.weights.iter().map(|w| w.ty.bytes().unwrap()).collect();
    let weights = WeightPlan::new(&[&program_of_cpu], &cpu.limits, |name| {
        let at = program_of_cpu.weights.iter().position(|w| w.name == name)?;
        Some((0, (at as u64) << 40, sizes[at]))
    })
    .unwrap();
    // Each of the large ones has its own buffer; none is filled above 1 GiB with several.
    let buffers: Vec<u64> = weights.buffers.iter().map(|b| b.bytes).collect();
    assert_eq!(buffers, [3 << 30, 3 << 29, 20 << 20]);
    let e = program(&targets::gpu()).unwrap_err();
    assert!(e.what.contains("binds at most"), "{e}");
}
