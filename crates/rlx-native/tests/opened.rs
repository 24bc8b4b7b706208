//! Every device that this machine has.

use crate::skip::skip;
use rlx_core::Code;
use rlx_core::runtime::device::Device;
use rlx_native::devices::{DEVICES, DeviceRow, OpenOptions};
use std::sync::Arc;

/// The devices, opened. Where there is no NVIDIA or AMD card and no Apple GPU, that is a skip of `test`; any other device must be there.
pub fn opened(test: &str) -> Vec<(&'static DeviceRow, Arc<dyn Device>)> {
    let mut all = Vec::new();
    for row in DEVICES {
        match (row.open)(&OpenOptions::default()) {
            Ok(device) => {
                assert_eq!(device.info().kind, row.name);
                all.push((row, device));
            }
            Err(e) if row.name == "cuda" && e.code == Code::DeviceUnavailable => {
                skip(test, "no CUDA device");
            }
            Err(e) if row.name == "rocm" && e.code == Code::DeviceUnavailable => {
                skip(test, "no ROCm device");
            }
            Err(e) if row.name == "metal" && e.code == Code::DeviceUnavailable => {
                skip(test, "no Metal device");
            }
            Err(e) => panic!("the {} device is absent: {e}", row.name),
        }
    }
    all
}
