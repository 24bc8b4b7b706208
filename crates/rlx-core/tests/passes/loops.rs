//! Control flow that has a straight form only once its constants are folded.

use crate::targets;
use rlx_core::Code;
use rlx_core::ir::mir::Graph;
use rlx_core::ir::parse::parse;
use rlx_core::ir::verify::verify;
use rlx_core::passes::{Context, cleanup, control_flow};
use rlx_core::reference::interpret;
use rlx_core::target::CompileOptions;

/// Starts at 5 - 4, ends at 2 + 2; the inner loop runs as often as the outer counter says.
const TRIANGLE: &str = "\
func @f {
  input %x : tensor<f32>
  %0 = constant {type = i32, dims = [], values = [5]} -> tensor<i32>
  %1 = constant {type = i32, dims = [], values = [4]} -> tensor<i32>
  %2 = zip %0, %1 {f = sub} -> tensor<i32>
  %3 = constant {type = i32, dims = [], values = [2]} -> tensor<i32>
  %4 = zip %3, %3 {f = add} -> tensor<i32>
  %5, %6 = while %2, %x, %4 {carried = 2} -> tensor<i32>, tensor<f32> [ // outer
    func @cond {
      input %i : tensor<i32>
      input %v : tensor<f32>
      input %end : tensor<i32>
      %0 = compare %i, %end {f = lt} -> tensor<bool>
      return r = %0
    }
    func @body {
      input %i : tensor<i32>
      input %v : tensor<f32>
      input %end : tensor<i32>
      %0 = constant {type = i32, dims = [], values = [0]} -> tensor<i32>
      %1, %2 = while %0, %v, %i {carried = 2} -> tensor<i32>, tensor<f32> [ // inner
        func @cond {
          input %j : tensor<i32>
          input %v : tensor<f32>
          input %n : tensor<i32>
          %0 = compare %j, %n {f = lt} -> tensor<bool>
          return r = %0
        }
        func @body {
          input %j : tensor<i32>
          input %v : tensor<f32>
          input %n : tensor<i32>
          %0 = constant {type = i32, dims = [], values = [1]} -> tensor<i32>
          %1 = zip %j, %0 {f = add} -> tensor<i32>
          %2 = map %v {f = tanh} -> tensor<f32> // step
          return j = %1, v = %2
        }
      ]
      %3 = constant {type = i32, dims = [], values = [1]} -> tensor<i32>
      %4 = zip %i, %3 {f = add} -> tensor<i32>
      return i = %4, v = %2
    }
  ]
  return out = %6
}
";

/// The branch that is not taken divides integers, so both may not run.
const BRANCH: &str = "\
func @f {
  input %x : tensor<2xi32>
  %0 = constant {type = i32, dims = [], values = [5]} -> tensor<i32>
  %1 = constant {type = i32, dims = [], values = [4]} -> tensor<i32>
  %2 = compare %0, %1 {f = lt} -> tensor<bool>
  %3 = if %2, %x -> tensor<2xi32> [ // choice
    func @then {
      input %x : tensor<2xi32>
      %0 = zip %x, %x {f = div} -> tensor<2xi32>
      return y = %0
    }
    func @else {
      input %x : tensor<2xi32>
      %0 = zip %x, %x {f = add} -> tensor<2xi32>
      return y = %0
    }
  ]
  return y = %3
}
";

/// The graph as a target without control flow gets it, and the verdict on what is left.
fn straight(text: &str, options: &CompileOptions) -> (Graph, Result<usize, rlx_core::Error>) {
    let target = targets::gpu();
    let mut g = parse(text).unwrap();
    let mut cx = Context::new(&target, options);
    cleanup(&mut g, &mut cx).unwrap();
    verify(&g).unwrap();
    let left = control_flow(&mut g, &mut cx);
    (g, left)
}

#[test]
fn loops_whose_counters_fold_are_unrolled_from_outside_in() {
    let (g, left) = straight(TRIANGLE, &CompileOptions::default());
    assert_eq!(left, Ok(0), "{g}");
    let names: Vec<&str> = g.nodes.iter().map(|n| n.op.name()).collect();
    assert_eq!(names, ["map"; 1 + 2 + 3], "{g}");
    let x = 0.75f32.to_le_bytes();
    let written = interpret(&parse(TRIANGLE).unwrap(), &[&x]).unwrap().outputs;
    assert_eq!(interpret(&g, &[&x]).unwrap().outputs, written);
}

#[test]
fn a_branch_whose_predicate_folds_is_decided_though_the_other_may_fail() {
    let (g, left) = straight(BRANCH, &CompileOptions::default());
    assert_eq!(left, Ok(0), "{g}");
    assert!(g.nodes.iter().all(|n| n.op.name() == "zip") && g.nodes.len() == 1, "{g}");
}

#[test]
fn what_does_not_fold_is_an_error_that_names_the_node() {
    let options = CompileOptions { constant_folding: false, ..CompileOptions::default() };
    for (text, label, name) in [(TRIANGLE, "inner", "while"), (BRANCH, "choice", "if")] {
        let e = straight(text, &options).1.unwrap_err();
        assert_eq!((e.code, e.at.as_str()), (Code::Unsupported, label), "{e}");
        assert!(e.what.starts_with(&format!("the target runs no {name},")), "{e}");
    }
}
