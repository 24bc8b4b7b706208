//! The pipeline: `RECIPE` is the compiler between lowering and planning.

#[cfg(feature = "control_flow")]
use super::control_flow;
use super::{
    Context, DispatchReport, FusionReport, Traffic, bake, cse, dce, elementwise_region, fold,
    fuse_attention, fuse_bias, fuse_glu, fuse_head_norm, fuse_map, fuse_norm_add,
    fuse_norm_prologue, fuse_residual, fuse_residual_norm, fuse_rope_kv_write, fuse_rope_split,
    fuse_segments, legalise, precision, simplify, split_attention,
};
use crate::error::{Error, Result};
use crate::ir::mir::Graph;
use crate::ir::verify::verify;
use crate::nearest::did_you_mean;
use crate::target::{CompileOptions, Fusions, Target};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// A pass: changes the graph, returns how much.
type Pass = fn(&mut Graph, &mut Context<'_>) -> Result<usize>;

/// When a pass runs.
#[derive(Clone, Copy)]
enum When {
    Always,
    /// If the options ask for it.
    Option(fn(&CompileOptions) -> bool),
    /// If it makes the target faster, and the options allow fusions.
    Fusion(fn(&Fusions) -> bool),
    /// If the target asks for it.
    Target(fn(&Target) -> bool),
}

/// Passes that run once, in order, or repeatedly until none of them changes anything.
enum Group {
    Once(&'static [(&'static str, When, Pass)]),
    FixedPoint(&'static [(&'static str, When, Pass)]),
}

use Group::{FixedPoint, Once};
use When::{Always, Fusion, Option as If, Target as For};

/// Most rounds of a fixed-point group. Few groups need three.
const ROUNDS: usize = 64;

/// Each pass makes work for the others: a fold makes the constant that an identity or a loop's counter
/// looks for, an identity makes two nodes equal, a merge leaves one of them dead, and a removed reader
/// lets data movement be simplified.
const CLEANUP: Group = FixedPoint(&[
    #[cfg(feature = "control_flow")]
    ("control_flow", Always, control_flow::resolve), // first: others see into straight lines only
    ("simplify", Always, simplify::simplify),
    ("fold", If(|o| o.constant_folding), fold::fold),
    ("cse", Always, cse::cse),
    ("dce", If(|o| o.dce), dce::dce),
]);

/// Every pass, in order. A comment stands where the order matters.
const RECIPE: &[Group] = &[
    Once(&[
        ("bake", Always, bake::bake), // before control flow: a baked predicate decides a branch
    ]),
    CLEANUP,
    Once(&[
        #[cfg(feature = "control_flow")]
        ("control_flow", Always, control_flow::control_flow), // an error for what is left
        ("auto_mixed_precision", Always, precision::auto_mixed_precision),
        ("matmul_bias", Fusion(|f| f.matmul_epilogue), fuse_bias::fuse_bias), // others carry it on
        ("glu", Fusion(|f| f.glu), fuse_glu::fuse_glu),
        ("matmul_map", Fusion(|f| f.matmul_epilogue), fuse_map::fuse_map), // what glu left
        ("segments", Fusion(|f| f.segments), fuse_segments::fuse_segments), // what glu left
        ("residual", Fusion(|f| f.residual), fuse_residual::fuse_residual),
        ("norm_prologue", Fusion(|f| f.norm_prologue), fuse_norm_prologue::fuse_norm_prologue),
        ("residual_norm", Fusion(|f| f.residual_norm), fuse_residual_norm::fuse_residual_norm), // left sums
        ("norm_add", Fusion(|f| f.norm_add), fuse_norm_add::fuse_norm_add), // sums that have no norm behind
        ("attention", Fusion(|f| f.attention), fuse_attention::fuse_attention),
        ("rope_kv_write", Fusion(|f| f.rope_kv_write), fuse_rope_kv_write::fuse_rope_kv_write),
        // After the fusions that make and read attention.
        (
            "split_attention",
            For(|t| t.attention_splits.is_some()),
            split_attention::split_attention,
        ),
        (
            "rope_attention_split",
            Fusion(|f| f.rope_attention_split),
            fuse_rope_split::fuse_rope_split,
        ),
        ("head_norm", Fusion(|f| f.head_norm), fuse_head_norm::fuse_head_norm), // of rotating splits
        // After the matmul's epilogues, which take operators from its chains.
        ("elementwise_region", If(|o| !o.skip_fusion), elementwise_region::elementwise_region),
        ("legalise", Always, legalise::legalise),
        ("dce", If(|o| o.dce), dce::dce), // takes the norms that prologues replaced
    ]),
];

/// Names of the stages around the recipe, for a [`Watch`].
pub(crate) const LOWER: &str = "lower";
pub(crate) const PLAN: &str = "plan";

/// The record of one run of a pass.
#[derive(Clone, Debug, PartialEq)]
pub struct PassTrace {
    /// Its name; `lower` and `plan` for the stages around the passes.
    pub pass: &'static str,
    /// How much it changed, by its own count; for `lower` the nodes, for `plan` the steps.
    pub changes: usize,
    /// Nodes after it.
    pub nodes: usize,
    /// Milliseconds, if the watch has a clock.
    pub ms: Option<f64>,
    /// The text of the graph after it, if requested.
    pub text: Option<String>,
}

/// Observes the compilation of a program. The core reads no clock, so a caller that wants times brings one.
#[derive(Default)]
pub struct Watch<'a> {
    /// Called after every pass.
    pub each: Option<&'a mut dyn FnMut(PassTrace)>,
    /// A clock: milliseconds since any fixed moment.
    pub clock: Option<&'a dyn Fn() -> f64>,
    /// The compilation ends after the first run of this pass.
    pub stop_after: Option<&'a str>,
    /// The trace has the graph's text after every run of this pass.
    pub print_after: Option<&'a str>,
}

impl Watch<'_> {
    pub(crate) fn now(&self) -> Option<f64> {
        self.clock.map(|clock| clock())
    }

    /// Reports a pass; true if compilation ends here.
    pub(crate) fn seen(
        &mut self,
        pass: &'static str,
        changes: usize,
        start: Option<f64>,
        nodes: usize,
        text: &dyn Fn() -> String,
    ) -> bool {
        let ms = self.now().zip(start).map(|(end, start)| end - start);
        let text = (self.print_after == Some(pass)).then(text);
        if let Some(each) = &mut self.each {
            each(PassTrace { pass, changes, nodes, ms, text });
        }
        self.stop_after == Some(pass)
    }
}

/// An optimised graph with its reports.
#[derive(Clone, Debug)]
pub struct Optimised {
    /// The graph.
    pub graph: Graph,
    /// The fusion report.
    pub fusion: FusionReport,
    /// How the target runs the operators.
    pub dispatch: DispatchReport,
    /// Whether every pass ran; false if a watch's `stop_after` ended the compilation.
    pub finished: bool,
}

/// Prepares a graph as a template: resolves control flow where it can, and removes nodes that nothing
/// reads.
///
/// # Errors
/// As the passes.
pub fn preprocess(mut g: Graph, target: &Target, options: &CompileOptions) -> Result<Graph> {
    let mut cx = Context::new(target, options);
    #[cfg(feature = "control_flow")]
    control_flow::resolve(&mut g, &mut cx)?;
    dce::dce(&mut g, &mut cx)?;
    Ok(g)
}

/// Runs every pass that the options and the target ask for.
///
/// # Errors
/// As [`CompilePipeline::compile_program`](crate::compile::CompilePipeline::compile_program).
pub fn optimise(
    g: Graph,
    target: &Target,
    options: &CompileOptions,
) -> Result<(Graph, FusionReport)> {
    let done = optimise_watched(g, target, options, &mut Watch::default())?;
    Ok((done.graph, done.fusion))
}

/// [`optimise`] under a watch, with both reports.
///
/// # Errors
/// As [`optimise`]; `Usage` for a pass of the watch that nobody knows.
pub fn optimise_watched(
    mut g: Graph,
    target: &Target,
    options: &CompileOptions,
    watch: &mut Watch<'_>,
) -> Result<Optimised> {
    check_names(options, watch)?;
    let mut cx = Context::new(target, options);
    cx.report.nodes = (g.nodes.len(), g.nodes.len());
    let before = Traffic::of(&g, &cx);
    if cfg!(debug_assertions) {
        verify(&g)?;
    }
    let finished = run(RECIPE, &mut g, &mut cx, watch)?;
    cx.report.nodes.1 = g.nodes.len();
    cx.report.traffic = before.zip(Traffic::of(&g, &cx));
    if options.assert_clean {
        cx.report.assert_clean()?;
    }
    Ok(Optimised { graph: g, fusion: cx.report, dispatch: cx.dispatch, finished })
}

/// How the operators of a graph would run, whether or not all of them do.
///
/// # Errors
/// As [`optimise`], but not for nodes that the target does not run: the report lists them.
pub fn dispatch_report(
    mut g: Graph,
    target: &Target,
    options: &CompileOptions,
) -> Result<DispatchReport> {
    let mut cx = Context::new(target, options);
    legalise::lower(&mut g, &mut cx)?;
    Ok(cx.dispatch)
}

/// Resolves control flow, simplifies, folds, and removes common subexpressions and dead nodes until nothing changes;
/// returns the number of changes. A second run changes nothing.
///
/// # Errors
/// `Internal` if the passes do not come to an end.
pub fn cleanup(g: &mut Graph, cx: &mut Context<'_>) -> Result<usize> {
    let before = cx.report.fused.len();
    run(&[CLEANUP], g, cx, &mut Watch::default())?;
    Ok(cx.report.fused[before..].iter().map(|f| f.1).sum())
}

/// Runs a recipe; false if the watch ended it.
fn run(
    recipe: &[Group],
    g: &mut Graph,
    cx: &mut Context<'_>,
    watch: &mut Watch<'_>,
) -> Result<bool> {
    for group in recipe {
        let (passes, rounds) = match group {
            Once(passes) => (passes, 1),
            FixedPoint(passes) => (passes, ROUNDS),
        };
        let first = cx.report.fused.len();
        let mut changed = 0;
        for _ in 0..rounds {
            changed = 0;
            for &(name, when, pass) in *passes {
                if !wanted(name, when, cx) {
                    continue;
                }
                let start = watch.now();
                let n = pass(g, cx)?;
                changed += n;
                match cx.report.fused[first..].iter_mut().find(|f| f.0 == name && rounds > 1) {
                    Some(row) => row.1 += n,
                    None => cx.report.fused.push((name, n)),
                }
                if cfg!(debug_assertions) {
                    verify(g).map_err(|e| e.hint(format!("after pass {name}")))?;
                }
                if watch.seen(name, n, start, g.nodes.len(), &|| g.to_string()) {
                    return Ok(false);
                }
            }
            if changed == 0 {
                break;
            }
        }
        if rounds > 1 && changed > 0 {
            return Err(Error::internal(format!(
                "@{}: {rounds} rounds of passes do not end",
                g.name
            )));
        }
    }
    Ok(true)
}

fn wanted(name: &str, when: When, cx: &Context<'_>) -> bool {
    let asked = match when {
        Always => true,
        If(asked) => asked(cx.options),
        Fusion(gains) => !cx.options.skip_fusion && gains(&cx.target.fusions),
        For(asks) => asks(cx.target),
    };
    asked && !cx.options.without.iter().any(|w| w == name)
}

/// Names of all passes, in the order they first run.
pub fn pass_names() -> Vec<&'static str> {
    let mut names = Vec::new();
    for group in RECIPE {
        let (Once(passes) | FixedPoint(passes)) = group;
        for (name, ..) in *passes {
            if !names.contains(name) {
                names.push(*name);
            }
        }
    }
    names
}

/// Fails for an unknown pass, with the nearest name.
pub(crate) fn check_names(options: &CompileOptions, watch: &Watch<'_>) -> Result<()> {
    let passes = pass_names();
    let mut stages = alloc::vec![LOWER];
    stages.extend(&passes);
    stages.push(PLAN);
    let check = |name: &str, known: &[&str]| {
        if known.contains(&name) {
            return Ok(());
        }
        Err(Error::usage(format!("there is no pass {name}"))
            .hint(did_you_mean(name, "passes", known)))
    };
    options.without.iter().try_for_each(|name| check(name, &passes))?;
    watch.stop_after.iter().chain(&watch.print_after).try_for_each(|name| check(name, &stages))
}
