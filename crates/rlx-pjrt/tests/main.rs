//! Every integration test of this executor in one binary, on XLA's CPU device.

#[test]
fn a_text_runs() {
    use rlx_pjrt::pjrt::{Client, Element};
    let path = std::env::var("PJRT_PLUGIN").unwrap();
    let client = Client::open(path.as_ref()).unwrap();
    println!("{:?} {:?} {:?}", client.platform(), client.version(), client.device_kind());
    let text = "module { func.func @main(%a: tensor<2xf32> {tf.aliasing_output = 0 : i32}, %i: tensor<i32>) -> (tensor<2xf32>, tensor<i32>) {
      %c = stablehlo.constant dense<5> : tensor<i32>
      %1 = stablehlo.constant dense<1> : tensor<i32>
      %w:2 = \"stablehlo.while\"(%i, %a) ({ ^bb0(%x: tensor<i32>, %y: tensor<2xf32>):
        %2 = stablehlo.compare LT, %x, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %2 : tensor<i1>
      }, { ^bb0(%x: tensor<i32>, %y: tensor<2xf32>):
        %2 = stablehlo.add %x, %1 : tensor<i32>
        %3 = stablehlo.add %y, %a : tensor<2xf32>
        stablehlo.return %2, %3 : tensor<i32>, tensor<2xf32>
      }) : (tensor<i32>, tensor<2xf32>) -> (tensor<i32>, tensor<2xf32>)
      return %w#1, %w#0 : tensor<2xf32>, tensor<i32>
    } }";
    let t0 = std::time::Instant::now();
    let exe = client.compile(text).unwrap();
    println!("{:?} {:?}", t0.elapsed(), exe.compiled.memory());
    let bytes: Vec<u8> = [1.0f32, 2.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    let a = client.upload(Element::F32, &[2], &bytes).unwrap();
    let i = client.upload(Element::I32, &[], &0i32.to_le_bytes()).unwrap();
    let out = exe.run(&[a.clone(), i.clone()], &[0]).unwrap();
    println!("{:?} {:?}", out[0].read(1, 8).unwrap().wait(), out[1].read(0, 4).unwrap().wait());
    println!("kept {:?}", a.read(1, 8).unwrap().wait());
    let out = exe.run(&[a.clone(), i], &[]).unwrap();
    println!("{:?}", out[0].read(1, 8).unwrap().wait());
    println!("donated {:?}", a.read(1, 8).and_then(|r| r.wait()));
}
