//! Branches and loops: their text, their type rules, and what the reference makes of them.

use rlx_core::ir::mir::Graph;
use rlx_core::ir::parse::parse;
use rlx_core::ir::verify::verify;
use rlx_core::reference::interpret;
use rlx_core::{Code, Error};

/// Doubles or negates, as `p` says.
const IF: &str = "\
func @f {
  input %p : tensor<bool>
  input %x : tensor<2xf32>
  %0 = if %p, %x -> tensor<2xf32> [ // choose
    func @then {
      input %a : tensor<2xf32>
      %0 = zip %a, %a {f = add} -> tensor<2xf32>
      return y = %0
    }
    func @else {
      input %a : tensor<2xf32>
      %0 = map %a {f = neg} -> tensor<2xf32>
      return y = %0
    }
  ]
  return y = %0
}
";

/// Adds `step` to `x` as long as it is below `most`; counts the runs.
const WHILE: &str = "\
func @f {
  input %x : tensor<f32>
  input %n : tensor<u32>
  input %step : tensor<f32>
  input %most : tensor<f32>
  %0, %1 = while %x, %n, %step, %most {carried = 2, max = 100} -> tensor<f32>, tensor<u32> [ // grow
    func @cond {
      input %x : tensor<f32>
      input %n : tensor<u32>
      input %step : tensor<f32>
      input %most : tensor<f32>
      %0 = compare %x, %most {f = lt} -> tensor<bool>
      return holds = %0
    }
    func @body {
      input %x : tensor<f32>
      input %n : tensor<u32>
      input %step : tensor<f32>
      input %most : tensor<f32>
      %0 = zip %x, %step {f = add} -> tensor<f32>
      %1 = constant {type = u32, dims = [], values = [1]} -> tensor<u32>
      %2 = zip %n, %1 {f = add} -> tensor<u32>
      return x = %0, n = %2
    }
  ]
  return x = %0, n = %1
}
";

/// Running sums of rows times a factor; the carried sum and every one of them.
const SCAN: &str = "\
func @f {
  input %sum : tensor<2xf32>
  input %rows : tensor<3x2xf32>
  input %factor : tensor<f32>
  %0, %1 = scan %sum, %rows, %factor {carried = 1, xs = 1, length = 3} -> tensor<2xf32>, tensor<3x2xf32> [ // sums
    func @body {
      input %sum : tensor<2xf32>
      input %row : tensor<2xf32>
      input %factor : tensor<f32>
      %0 = zip %row, %factor {f = mul} -> tensor<2xf32>
      %1 = zip %sum, %0 {f = add} -> tensor<2xf32>
      return sum = %1, each = %1
    }
  ]
  return last = %0, each = %1
}
";

/// A loop in a branch: sums a row or leaves zero.
const NESTED: &str = "\
func @f {
  input %p : tensor<1xbool>
  input %x : tensor<4xf32>
  input %zero : tensor<f32>
  %0 = if %p, %x, %zero -> tensor<f32> [ // maybe
    func @then {
      input %x : tensor<4xf32>
      input %zero : tensor<f32>
      %0 = scan %zero, %x {carried = 1, xs = 1, length = 4} -> tensor<f32> [ // sum
        func @body {
          input %sum : tensor<f32>
          input %one : tensor<f32>
          %0 = zip %sum, %one {f = add} -> tensor<f32>
          return sum = %0
        }
      ]
      return y = %0
    }
    func @else {
      input %x : tensor<4xf32>
      input %zero : tensor<f32>
      return y = %zero
    }
  ]
  return y = %0
}
";

fn bytes(x: &[f32]) -> Vec<u8> {
    x.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn floats(x: &[u8]) -> Vec<f32> {
    x.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
}

fn run(text: &str, params: &[&[u8]]) -> Result<Vec<Vec<u8>>, Error> {
    Ok(interpret(&parse(text)?, params)?.outputs)
}

#[test]
fn regions_print_and_read_back_nested_too() {
    for text in [IF, WHILE, SCAN, NESTED] {
        assert_eq!(parse(text).unwrap_or_else(|e| panic!("{e}\n{text}")).to_string(), text);
    }
}

#[test]
fn a_branch_runs_the_region_that_its_condition_says() {
    let x = bytes(&[1.0, -3.0]);
    assert_eq!(floats(&run(IF, &[&[1], &x]).unwrap()[0]), [2.0, -6.0]);
    assert_eq!(floats(&run(IF, &[&[0], &x]).unwrap()[0]), [-1.0, 3.0]);
}

#[test]
fn a_loop_runs_until_its_condition_fails_and_not_at_all_if_it_never_holds() {
    let grow = |x: f32, most: f32| {
        let params = [bytes(&[x]), vec![7, 0, 0, 0], bytes(&[1.5]), bytes(&[most])];
        run(WHILE, &params.each_ref().map(|p| p.as_slice())).map(|y| (floats(&y[0])[0], y[1][0]))
    };
    assert_eq!(grow(0.0, 4.0), Ok((4.5, 10)));
    assert_eq!(grow(4.0, 4.0), Ok((4.0, 7)));
    let e = grow(0.0, f32::INFINITY).unwrap_err();
    assert_eq!(e.what, "while: its condition still holds after 100 runs of its body");
    assert_eq!((e.code, e.at.as_str()), (Code::BadGraph, "grow"), "the node is named");
}

#[test]
fn a_scan_carries_and_stacks_forwards_and_backwards() {
    let (zero, factor) = (bytes(&[0.0, 100.0]), bytes(&[2.0]));
    let rows = bytes(&[1.0, 10.0, 2.0, 20.0, 3.0, 30.0]);
    let y = run(SCAN, &[&zero, &rows, &factor]).unwrap();
    assert_eq!(floats(&y[0]), [12.0, 220.0]);
    assert_eq!(floats(&y[1]), [2.0, 120.0, 6.0, 160.0, 12.0, 220.0]);
    let reverse = SCAN.replace("length = 3}", "length = 3, reverse = true}");
    let y = run(&reverse, &[&zero, &rows, &factor]).unwrap();
    assert_eq!(floats(&y[0]), [12.0, 220.0]);
    assert_eq!(floats(&y[1]), [12.0, 220.0, 10.0, 200.0, 6.0, 160.0], "of the last first");
}

#[test]
fn a_scan_of_nothing_gives_what_it_carries() {
    let none = SCAN.replace("3x2x", "0x2x").replace("length = 3", "length = 0");
    let y = run(&none, &[&bytes(&[5.0, 6.0]), &[], &bytes(&[2.0])]).unwrap();
    assert_eq!((floats(&y[0]), y[1].len()), (vec![5.0, 6.0], 0));
}

#[test]
fn regions_in_regions_run() {
    let (x, zero) = (bytes(&[1.0, 2.0, 3.0, 4.0]), bytes(&[0.0]));
    assert_eq!(floats(&run(NESTED, &[&[1], &x, &zero]).unwrap()[0]), [10.0]);
    assert_eq!(floats(&run(NESTED, &[&[0], &x, &zero]).unwrap()[0]), [0.0]);
}

#[test]
fn a_symbolic_length_is_bound_in_the_operator_and_its_body() {
    let text = SCAN.replace("3x2x", "Nx2x").replace("length = 3", "length = N");
    let g = parse(&text).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(g.to_string(), text);
    let bound = g.specialize("f", &[("N".into(), 3)].into()).unwrap();
    assert_eq!(bound.to_string(), SCAN);
}

/// What the parser or the verifier says of a text.
fn refused(text: &str) -> String {
    parse(text).unwrap_err().what
}

#[test]
fn a_body_sees_its_captures_and_no_name_outside() {
    let outer = IF.replace("%0 = zip %a, %a", "%0 = zip %a, %x");
    let e = parse(&outer).unwrap_err();
    assert_eq!((e.what.as_str(), e.at.as_str()), ("%x is not defined", "line 7, column 21"));
}

#[test]
fn regions_are_as_many_as_the_operator_has() {
    let start = IF.find("    func @else").unwrap();
    let end = IF.find("  ]").unwrap();
    assert_eq!(refused(&[&IF[..start], &IF[end..]].concat()), "if has 2 regions, got 1");
    let plain = "func @f {\n  input %x : tensor<f32>\n  %0 = map %x {f = neg} -> tensor<f32> [\n    \
                 func @then {\n      return\n    }\n  ]\n  return y = %0\n}\n";
    assert_eq!(refused(plain), "map has 0 regions, got 1");
}

#[test]
fn what_regions_take_and_give_must_fit_and_both_types_are_said() {
    // The else region gives another shape.
    let other = IF.replace(
        "%0 = map %a {f = neg} -> tensor<2xf32>",
        "%0 = slice %a {axis = 0, start = 0, len = 1} -> tensor<1xf32>",
    );
    assert_eq!(refused(&other), "if: else gives (tensor<1xf32>), then gives (tensor<2xf32>)");
    // A capture of another type.
    let capture = IF.replace(
        "func @then {\n      input %a : tensor<2xf32>",
        "func @then {\n      input %a : tensor<3xf32>",
    );
    let capture = capture.replacen("{f = add} -> tensor<2xf32>", "{f = add} -> tensor<3xf32>", 1);
    assert_eq!(
        refused(&capture),
        "if: then takes (tensor<3xf32>), its operands are (tensor<2xf32>)"
    );
    // A condition that is no bool.
    let pred = IF.replace("input %p : tensor<bool>", "input %p : tensor<u32>");
    assert_eq!(refused(&pred), "if: pred is tensor<u32>, expected one bool");
    let cond = WHILE.replace(
        "%0 = compare %x, %most {f = lt} -> tensor<bool>",
        "%0 = zip %x, %most {f = sub} -> tensor<f32>",
    );
    assert_eq!(refused(&cond), "while: the result of cond is tensor<f32>, expected one bool");
    // A body that gives one value too few.
    let body = WHILE.replace("return x = %0, n = %2", "return x = %0");
    assert_eq!(
        refused(&body),
        "while: body gives (tensor<f32>), carried are (tensor<f32>, tensor<u32>)"
    );
    let short = SCAN.replace("length = 3}", "length = 4}");
    assert_eq!(refused(&short), "scan: xs 0 is tensor<3x2xf32>, expected an axis 0 of 4");
    let scan = SCAN.replace("return sum = %1, each = %1", "return sum = %1");
    let e = parse(&scan).unwrap_err();
    assert_eq!(e.what, "scan gives 1 results; 2 names and 2 types stand here");
}

#[test]
fn states_do_not_enter_a_region() {
    let text = IF.replace("input %x : tensor<2xf32>", "state %x : state<2xf32>");
    let e = parse(&text).unwrap_err();
    assert_eq!(e.what, "if: an operand is state<2xf32>, regions take tensors");
    // Nor has a region a weight, however the graph was made.
    let mut g: Graph = parse(IF).unwrap();
    g.nodes[0].regions[0].params[0].kind = rlx_core::ir::mir::ParamKind::Weight;
    assert_eq!(verify(&g).unwrap_err().what, "region @then has a, not an input");
}
