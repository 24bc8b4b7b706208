//! The road of executors that take graphs: the reference's loops as such a backend, and the contract of a device.

use crate::load::{Hand, model, wait};
use crate::{begun, blocks, held, moves, session, texts};
use rlx_core::ir::mir::Graph;
use rlx_core::reference::interpret;
use rlx_core::runtime::device::graph::{Argument, Backend, GraphDevice};
use rlx_core::runtime::device::{Device, DeviceInfo, SharedBytes, Submission};
use rlx_core::runtime::model::ModelOptions;
use rlx_core::target::Target;
use rlx_core::types::Type;
use rlx_core::{Code, Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Loops over a graph's nodes, every value in memory of its own.
#[derive(Default)]
struct Loops {
    /// Whether the next runs fail.
    broken: AtomicBool,
}

impl Backend for Loops {
    type Tensor = Vec<u8>;
    type Executable = Graph;
    type Read = Vec<u8>;

    fn info(&self) -> DeviceInfo {
        DeviceInfo { adapter: "loops over a graph".into(), ..DeviceInfo::default() }
    }

    fn upload(&self, ty: &Type, bytes: &[u8]) -> Result<Vec<u8>> {
        assert_eq!(ty.bytes(), Ok(bytes.len() as u64), "a tensor has the bytes of its type");
        Ok(bytes.to_vec())
    }

    fn compile(&self, graph: &Graph) -> Result<Graph> {
        rlx_core::ir::verify::verify(graph)?;
        Ok(graph.clone())
    }

    fn run(&self, graph: &Graph, arguments: Vec<Argument<Vec<u8>>>) -> Result<Vec<Vec<u8>>> {
        if self.broken.load(Ordering::Relaxed) {
            return Err(Error::internal("broken"));
        }
        let params: Vec<&[u8]> = arguments.iter().map(|a| a.tensor().as_slice()).collect();
        let ran = interpret(graph, &params)?;
        let states = graph.final_states().into_iter().map(|(at, _)| ran.params[at].clone());
        Ok(ran.outputs.into_iter().chain(states).collect())
    }

    fn read(&self, tensor: &Vec<u8>) -> Result<Vec<u8>> {
        Ok(tensor.clone())
    }

    fn poll(&self, read: &mut Vec<u8>, _wait: bool) -> Result<Option<Vec<u8>>> {
        Ok(Some(std::mem::take(read)))
    }
}

fn device() -> Arc<dyn Device> {
    Arc::new(GraphDevice::new(Loops::default(), Target::reference()))
}

#[test]
fn sessions_answer_for_every_size() {
    session::entries_answer_for_every_size(device());
}

#[test]
fn outputs_stay_on_the_device() {
    session::outputs_stay_on_the_device(device());
}

#[test]
fn texts_give_the_references_logits() {
    texts::a_text_gives_the_logits_behind_each_of_its_ids(device());
}

#[test]
fn tensors_stay_and_are_copied_and_read() {
    moves::tensors_stay_on_the_device_and_are_copied_and_read(&*device());
}

#[test]
fn held_answers_are_those_of_whole_steps() {
    held::answers_are_those_of_whole_steps(device());
}

#[test]
fn programs_run_in_two_parts() {
    assert!(!begun::programs_run_in_two_parts(&*device()), "all of it runs with the rest");
}

#[test]
fn vectors_of_halves_are_widened_by_no_step() {
    session::vectors_of_halves_are_widened_by_no_step(device());
}

#[test]
fn blocks_are_filled_as_recorded() {
    blocks::passes_place_the_recorded_tokens(&device());
}

#[test]
fn a_run_that_fails_loses_the_sessions_states() {
    let device = Arc::new(GraphDevice::new(Loops::default(), Target::reference()));
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/gguf/llama.gguf");
    let shards: [SharedBytes; 1] = [Arc::new(std::fs::read(file).expect("a fixture"))];
    let options = ModelOptions { context: Some(24), ..ModelOptions::chat(8) };
    let (_, _, session) = model(&shards, device.clone(), &options, Hand::Kept).expect("loaded");
    let decode = || {
        let ticket = session.submit("decode", &Submission::new(&[]))?;
        wait(|cx| session.poll(ticket, cx))
    };
    assert_eq!(decode().expect("a token").values[0].len(), 4);
    device.backend().broken.store(true, Ordering::Relaxed);
    assert_eq!(decode().expect_err("it is broken").what, "broken");
    device.backend().broken.store(false, Ordering::Relaxed);
    assert_eq!(decode().expect_err("its states are gone").code, Code::DeviceLost);
}
