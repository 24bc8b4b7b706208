// WGSL's tanh may be 1e-5 off, of which a cap of 50 makes 5e-4.
fn capped(score: f32) -> f32 {
    let u = clamp(score / step.softcap, -15.0, 15.0);
    return step.softcap * (1.0 - 2.0 / (exp(2.0 * u) + 1.0));
}
