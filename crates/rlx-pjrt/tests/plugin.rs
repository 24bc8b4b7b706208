//! The plugin's interface by itself: texts, donated memory, errors.

use crate::common::{device, path, ready};
use rlx_core::Code;
use rlx_pjrt::pjrt::{Buffer, Client, Element, Plugin, Topology};

/// Doubles a state until it was doubled `times` times; the state gives its memory to the first result.
const DOUBLED: &str = "module {
  func.func @main(%x: tensor<2xf32> {tf.aliasing_output = 0 : i32}, %times: tensor<i32>)
      -> (tensor<2xf32>, tensor<i32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %all:2 = \"stablehlo.while\"(%zero, %x) ({
    ^bb0(%i: tensor<i32>, %y: tensor<2xf32>):
      %more = stablehlo.compare LT, %i, %times : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    }, {
    ^bb0(%i: tensor<i32>, %y: tensor<2xf32>):
      %next = stablehlo.add %i, %one : tensor<i32>
      %twice = stablehlo.add %y, %y : tensor<2xf32>
      stablehlo.return %next, %twice : tensor<i32>, tensor<2xf32>
    }) : (tensor<i32>, tensor<2xf32>) -> (tensor<i32>, tensor<2xf32>)
    return %all#1, %all#0 : tensor<2xf32>, tensor<i32>
  }
}";

fn floats(buffer: &Buffer) -> rlx_core::Result<Vec<f32>> {
    let mut read = buffer.read(1, 8)?;
    read.wait()?;
    let bytes = read.poll()?.expect("the bytes are there");
    Ok(crate::step::floats(&bytes))
}

#[test]
fn arguments_are_kept_or_given_away() {
    if !ready("plugin::arguments_are_kept_or_given_away") {
        return;
    }
    let d = device();
    let executable = d.compile(DOUBLED).unwrap();
    assert_eq!(executable.outputs(), 2);
    let memory = executable.compiled.memory().unwrap();
    assert_eq!((memory.arguments, memory.aliases), (12, 8), "{memory:?}");
    let bytes: Vec<u8> = [1.5f32, -2.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    let x = d.upload(Element::F32, &[2], &bytes).unwrap();
    let times = d.upload(Element::I32, &[], &3i32.to_le_bytes()).unwrap();
    let kept = executable.run(&[x.clone(), times.clone()], &[0]).unwrap();
    assert_eq!(floats(&kept[0]), Ok(vec![12.0, -16.0]));
    assert_eq!(floats(&x), Ok(vec![1.5, -2.0]), "it was kept");
    let given = executable.run(&[x.clone(), times], &[]).unwrap();
    assert_eq!(floats(&given[0]), Ok(vec![12.0, -16.0]));
    let gone = floats(&x).expect_err("it was given away");
    assert!(gone.what.contains("donated"), "{gone}");
}

#[test]
fn what_a_plugin_refuses_is_an_error() {
    if !ready("plugin::what_a_plugin_refuses_is_an_error") {
        return;
    }
    let d = device();
    let error = |e: Option<rlx_core::Error>| e.expect("an error");
    let e = error(d.compile("module { func.func @main() { return %x : tensor<f32> } }").err());
    assert!(e.what.starts_with("PJRT_Client_Compile: "), "{e}");
    let e = error(d.upload(Element::F32, &[2, 3], &[0; 20]).err());
    assert_eq!(e.what, "20 bytes for a tensor of [2, 3] F32");
    let e = error(d.upload(Element::F32, &[u64::MAX, 4], &[]).err());
    assert_eq!(e.code, Code::Internal);
    let x = d.upload(Element::F32, &[2], &[0; 8]).unwrap();
    let e = error(x.read(1, 4).err());
    assert_eq!(e.what, "a tensor of 8 bytes is read as 4");
    let executable = d.compile(DOUBLED).unwrap();
    assert!(executable.run(&[x], &[]).is_err(), "an argument is missing");
    assert!(Topology::new(path(), "no such topology").is_err());
}

#[test]
fn a_file_that_is_no_plugin_is_refused() {
    for path in ["/nowhere/plugin.so", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")] {
        let e = Plugin::load(path.as_ref()).err().expect("no plugin");
        assert_eq!((e.code, e.at.as_str()), (Code::DeviceUnavailable, path), "{e}");
        assert!(Client::open(path.as_ref()).is_err());
        assert!(rlx_pjrt::open(Some(path.as_ref())).is_err());
    }
}
