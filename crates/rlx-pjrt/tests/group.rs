//! Several devices that run a model together: XLA's CPU is as many as are asked for.

use crate::common::{input, path, ready};
use crate::recorded;
use rlx_core::Code;
use rlx_core::ops::{AllGather, AllReduce, Op};
use rlx_core::runtime::device::Device;
use rlx_core::runtime::device::graph::{Argument, Backend};
use rlx_core::target::Ranks;
use rlx_core::types::{DType, Scalar, Shape, Type};
use rlx_pjrt::lower::{lower_for, storage};
use rlx_pjrt::pjrt::{Buffer, Client};
use std::sync::Arc;

/// These devices as a group that splits every weight which divides.
fn group(devices: &[usize]) -> Arc<dyn Device> {
    let every = Ranks { gathered: 0, ..Ranks::ONE };
    Arc::new(rlx_pjrt::group(Some(path()), devices, every).unwrap_or_else(|e| panic!("{e}")))
}

#[test]
fn tokens_of_two_devices_are_llama_cpps() {
    if ready("group::tokens_of_two_devices_are_llama_cpps") {
        recorded::greedy_tokens_are_llama_cpps(group(&[1, 0]), 2, 48);
    }
}
