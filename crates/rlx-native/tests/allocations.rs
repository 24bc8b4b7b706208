//! The CPU's memory, counted from outside by the allocator: what the plan says is what is there, a
//! decode step leaves nothing behind, and a freed model leaves nothing at all. A hostile chat
//! template takes no more than it may, and leaves nothing either.
//!
//! One test at a time, because the counter is the process's.
#![allow(unsafe_code)]

use rlx_core::models;
use rlx_core::runtime::generate::engine::Engine;
use rlx_core::runtime::generate::engine::{GenerateOptions, Progress};
use rlx_core::runtime::generate::machine::Reason;
use rlx_core::runtime::model::CompiledModel;
use rlx_core::text::{ChatTemplate, Message, RenderOptions};
use rlx_native::block_on::block_on;
use rlx_native::devices::{OpenOptions, find};
use rlx_native::files::ModelSource;
use rlx_native::load::{LoadOptions, put};
use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicIsize, Ordering};

static LIVE: AtomicIsize = AtomicIsize::new(0);
static PEAK: AtomicIsize = AtomicIsize::new(0);
static ALONE: Mutex<()> = Mutex::new(());

struct Counting;

// SAFETY: every call goes to the system's allocator with the caller's own arguments; the counter
// beside it touches no memory of theirs.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let before = LIVE.fetch_add(layout.size() as isize, Ordering::Relaxed);
        PEAK.fetch_max(before + layout.size() as isize, Ordering::Relaxed);
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
    let _alone = ALONE.lock();
    let model = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/fixtures/rustdoc-2m/rustdoc-2m-q4_k_m.gguf"
    );
    let source = ModelSource::open(Path::new(model)).unwrap();
    let row = find("cpu").unwrap();
    let device = (row.open)(&OpenOptions { threads: Some(1), ..OpenOptions::default() }).unwrap();
    let options = LoadOptions::default().model_options(row, &(row.target)());
    let compiled = CompiledModel::from_gguf(&source.files, device.target(), &options).unwrap();
    let compiled = Arc::new(compiled);
    let tokenizer = Arc::new(models::tokenizer(&source.files).unwrap());

    let cycle = || {
        let before = live();
        // Copied, not kept as maps: then every weight byte is the allocator's too.
        let session =
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

        let mut engine = Engine::new(session, compiled.clone(), tokenizer.clone()).unwrap();
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
                Progress::Prompt(..) | Progress::Control(_) => {}
            }
        }
        assert_eq!(generation.tokens().len(), 96);
        // The list of tokens grows by doubling and the texts are dropped: kilobytes at most.
        let (first, last) = (at[at.len() / 4], at[at.len() - 1]);
        assert!(last.1 - first.1 < 16 << 10, "{first:?} to {last:?}: a step leaves memory behind");
        drop((engine, generation));
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

/// The bytes a render may hold, 32 MB and a little for a short conversation, once more for a text
/// that is copied to where it has room to grow, and what values have beside their bytes.
const TEMPLATE_PEAK: isize = 72 << 20;

#[test]
fn a_hostile_template_takes_no_more_than_it_may_and_leaves_nothing() {
    let _alone = ALONE.lock();
    let model = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/fixtures/rustdoc-2m/rustdoc-2m-q4_k_m.gguf"
    );
    let source = ModelSource::open(Path::new(model)).unwrap();
    let tokenizer = models::tokenizer(&source.files).unwrap();
    let messages = [Message::new("user", "hi")];
    let many = |body: &str| {
        let set = "{% set ns = namespace(s='ab', l=[], m={}) %}";
        let each = "{% for i in range(100000) %}{% for j in range(20) %}";
        format!("{set}{each}{body}{{% endfor %}}{{% endfor %}}")
    };
    let pieces = "{% set s = 'ab ' * 10000 * 300 %}";
    for template in [
        many("{% set ns.s = ns.s ~ ns.s %}"),
        many("{% set ns.l = ns.l + ns.l + [i] %}"),
        many("{% set ns.l = [ns.l, ns.s] %}"),
        many("{% set x = namespace(a=i, b=[i], c={'d': i}) %}"),
        many("{% macro m(a=i) %}{{ a }}{% endmacro %}{{ m() }}"),
        many("{% set x %}{{ ns.s }}{{ ns.s }}{% endset %}{% set ns.s = x %}"),
        many("{{ 'a' * 1000 }}"),
        many("{% set ns.m = dict(ns.m, k=i) %}{% set ns.s = ns.s ~ ns.m %}"),
        format!("{pieces}{{% set l = s.split() %}}{{{{ l | sort }}}}"),
        format!("{pieces}{{% set l = s | list %}}{{{{ l | unique }}}}"),
        format!("{pieces}{{{{ s[::2] }}}}{{{{ s | tojson }}}}{{{{ s | upper }}}}{{{{ s.split('a') }}}}"),
        format!("{pieces}{{{{ [1] | map('string') }}}}{{{{ strftime_now(s) }}}}"),
        "{% macro m(a) %}{{ m(a ~ a) }}{% endmacro %}{{ m('ab') }}".into(),
        "{% set l = range(60000) | list %}{% for a in l %}{% for b in l %}{{ [a, b] }}{% endfor %}{% endfor %}".into(),
        "{{ ".to_owned() + &"[".repeat(200_000) + &"]".repeat(50_000) + " }}",
        "{{ x.y(1) }}".repeat(20_000),
        "{% if 1 %}1{% endif %}".repeat(10_000) + "{{ 1 // 0 }}",
    ] {
        let before = live();
        PEAK.store(before, Ordering::Relaxed);
        let shown: String = template.chars().take(100).collect();
        let rendered = ChatTemplate::new(Some(&template), &tokenizer).and_then(|template| {
            template.render(&messages, &RenderOptions { now: Some(0), ..RenderOptions::default() })
        });
        assert!(rendered.is_err(), "{shown}: it rendered");
        let peak = PEAK.load(Ordering::Relaxed) - before;
        assert!(peak < TEMPLATE_PEAK, "{shown}: {peak} bytes");
        drop(rendered);
        // What the test harness itself allocates meanwhile is kilobytes.
        let left = live() - before;
        assert!(left < 16 << 10, "{shown}: {left} bytes are left");
    }
}
