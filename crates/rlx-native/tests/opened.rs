//! Every device that this machine has.

use crate::skip::skip;
use rlx_core::Code;
use rlx_core::runtime::device::Device;
use rlx_native::devices::{DEVICES, DeviceRow, OpenOptions};
use std::sync::Arc;

/// Devices that a machine may lack, and what a skip says then. Their kernels and graphs have tests of their own, in
/// emulators and on plugins that are fetched.
const MAY_LACK: [(&str, &str); 7] = [
    ("cuda", "no CUDA device"),
    ("rocm", "no ROCm device"),
    ("metal", "no Metal device"),
    ("mlx", "no MLX"),
    ("tpu", "no TPU"),
    ("xla-cpu", "no PJRT plugin of xla-cpu"),
    ("xla-cuda", "no PJRT plugin of xla-cuda"),
];

/// The devices, opened. One that a machine may lack is a skip of `test`; any other must be there.
pub fn opened(test: &str) -> Vec<(&'static DeviceRow, Arc<dyn Device>)> {
    let mut all = Vec::new();
    for row in DEVICES {
        match (row.open)(&OpenOptions::default()) {
            Ok(device) => {
                assert_eq!(device.info().kind, row.name);
                all.push((row, device));
            }
            Err(e) => match MAY_LACK.iter().find(|lack| lack.0 == row.name) {
                Some((_, why)) if e.code == Code::DeviceUnavailable => skip(test, why),
                _ => panic!("the {} device is absent: {e}", row.name),
            },
        }
    }
    all
}
