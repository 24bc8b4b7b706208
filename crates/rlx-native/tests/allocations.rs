//! The CPU's memory, counted from outside by the allocator: what the plan says is what is there, a
//! decode step leaves nothing behind, and a freed model leaves nothing at all.
//!
//! One test, because the counter is the process's.
#![allow(unsafe_code)]

use rlx_core::models;
use rlx_core::runtime::engine::Engine;
use rlx_core::runtime::engine::{GenerateOptions, Progress};
use rlx_core::runtime::generate::Reason;
use rlx_core::runtime::model::CompiledModel;
use rlx_native::block_on::block_on;
use rlx_native::devices::{OpenOptions, find};
use rlx_native::files::ModelSource;
use rlx_native::load::{LoadOptions, put};
use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::{AtomicIsize, Ordering};

static LIVE: AtomicIsize = AtomicIsize::new(0);

struct Counting;

// SAFETY: every call goes to the system's allocator with the caller's own arguments; the counter
// beside it touches no memory of theirs.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size() as isize, Ordering::Relaxed);
        // SAFETY: the caller's debts are the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size() as isize, Ordering::Relaxed);
        // SAFETY: the caller's debts are the system allocator's.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn live() -> isize {
    LIVE.load(Ordering::Relaxed)
}

#[test]
fn the_allocator_agrees_with_the_plan_and_a_step_leaves_nothing_behind() {
    let model = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/fixtures/rustdoc-2m/rustdoc-2m-q4_k_m.gguf"
    );
    let source = ModelSource::open(Path::new(model)).unwrap();
    let row = find("cpu").unwrap();
    let device = (row.open)(&OpenOptions { threads: Some(1), adapter: None }).unwrap();
    let options = LoadOptions::default().model_options(row);
    let compiled = CompiledModel::from_gguf(&source.files, device.target(), &options).unwrap();
    let compiled = Rc::new(compiled);
    let tokenizer = Rc::new(models::tokenizer(&source.files).unwrap());

    let cycle = || {
        let before = live();
        // Copied, not kept as maps: then every weight byte is the allocator's too.
        let loaded =
            put(&compiled, &source.maps, device.clone(), false, &mut |_, _, _| {}, &mut |_, _| {})
                .unwrap();
        let planned = compiled.plan.bytes() + compiled.state_bytes() + compiled.arena_bytes();
        let grown = live() - before;
        // Besides the planned bytes: the programs' steps, a few hundred kB.
        let books = grown - planned as isize;
        assert!((0..1 << 20).contains(&books), "{grown} bytes live, {planned} planned");
        let counted = device.counters().live_bytes as isize;
        assert!(
            (counted - planned as isize).abs() < 64 << 10,
            "{counted} counted, {planned} planned"
        );

        let mut engine = Engine::new(loaded, compiled.clone(), tokenizer.clone()).unwrap();
        let options = GenerateOptions {
            max_tokens: Some(96),
            ignore_stops: true,
            ..GenerateOptions::default()
        };
        let mut generation = engine.start(vec![1, 2, 3], &options).unwrap();
        let mut at = Vec::new();
        while let Some(progress) = block_on(|cx| generation.poll_next(&mut engine, cx)) {
            match progress {
                Progress::Done(reason) => assert_eq!(reason, Reason::Length),
                Progress::Text(_) => at.push((generation.tokens().len(), live())),
                Progress::Prompt(..) => {}
            }
        }
        assert_eq!(generation.tokens().len(), 96);
        // The list of tokens grows by doubling and the texts are dropped: kilobytes at most.
        let (first, last) = (at[at.len() / 4], at[at.len() - 1]);
        assert!(last.1 - first.1 < 16 << 10, "{first:?} to {last:?}: a step leaves memory behind");
        engine.dispose();
        drop(generation);
    };
    cycle();
    let rest = live();
    for _ in 0..20 {
        cycle();
    }
    let left = live() - rest;
    assert!(left.abs() < 16 << 10, "{left} bytes are left of 20 loads");
    assert_eq!(device.counters().live_bytes, 0);
}
