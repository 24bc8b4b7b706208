//! Every text of WebGPU's catalogue becomes MSL.

use rlx_webgpu::kernels::catalog;

#[test]
fn naga_writes_every_kernel() {
    let all = catalog::all(false).expect("every operator has a kernel");
    assert!(all.len() > 100, "{} kernels", all.len());
    // Fifty of them, far apart; all in the wide suite.
    let step = if cfg!(feature = "wide") { 1 } else { all.len() / 50 };
    for (name, kernel) in all.iter().step_by(step) {
        let bindings = kernel.memory.len() as u32 + 1;
        let text = rlx_metal::msl::translate(&kernel.wgsl, kernel.entry, bindings);
        let text = text.unwrap_or_else(|e| panic!("{name}: {e}"));
        let memory: u32 = text.memory.iter().sum();
        assert!(memory <= 16_384, "{name}: {memory} bytes of a threadgroup");
        assert!(text.text.contains(&format!("kernel void {}(", text.entry)), "{name}");
        // No buffer is bound that its length does not guard, but for step constants.
        assert!(text.sizes.len() < bindings as usize, "{name}: {:?}", text.sizes);
    }
}
