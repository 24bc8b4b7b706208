//! Variants of a model, compiled once each and kept while they are used.

use super::pipeline::bind;
use super::{
    BindingManifest, CompilePipeline, CompileResult, ModelExecutionConfig, options_for_device,
};
use crate::error::Result;
use crate::ir::GraphModule;
use crate::ir::mir::Graph;
use crate::plan::Hasher;
use crate::target::{CompileOptions, Target};
use crate::types::{BATCH, Binding, SEQ};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Variants that a cache holds unless told otherwise.
const CAPACITY: usize = 8;

/// Compiles variants of models for one device and keeps the last few.
///
/// A model's graph is built and lowered once for each set of options, with its symbols unbound;
/// a variant binds them, so that passes see its sizes. What is handed out are cheap handles on
/// programs, which say which weights they read and hold none.
#[derive(Debug)]
pub struct ModelCompilePipeline {
    target: Target,
    capacity: usize,
    /// Lowered graphs with symbols unbound, by model and options.
    templates: BTreeMap<u64, Arc<Graph>>,
    /// Compiled variants, the least recently used first.
    variants: Vec<Variant>,
}

#[derive(Debug)]
struct Variant {
    template: u64,
    binding: Binding,
    result: CompileResult,
}

impl ModelCompilePipeline {
    /// A cache for a device of 8 variants.
    pub fn new(target: Target) -> Self {
        Self::with_capacity(target, CAPACITY)
    }

    /// A cache of so many variants, at least 1.
    pub fn with_capacity(target: Target, capacity: usize) -> Self {
        ModelCompilePipeline {
            target,
            capacity: capacity.max(1),
            templates: BTreeMap::new(),
            variants: Vec::new(),
        }
    }

    /// The device.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Variants it keeps at most.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Variants it has.
    pub fn len(&self) -> usize {
        self.variants.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.variants.is_empty()
    }

    fn template_key(&self, key: u64, options: &CompileOptions) -> u64 {
        let mut hasher = Hasher::new();
        hasher.text(&format!("{key:016x}"));
        hasher.text(&self.target.name);
        hasher.text(&format!("{options:?}"));
        hasher.finish()
    }

    /// Whether this variant is compiled.
    pub fn contains(&self, key: u64, binding: &Binding, options: &CompileOptions) -> bool {
        let template = self.template_key(key, options);
        self.variants.iter().any(|v| v.template == template && v.binding == *binding)
    }

    /// The variant, compiled if it is not there. `key` says which graph `build` makes: equal keys
    /// must mean equal graphs. `build` runs once for each key and options.
    ///
    /// # Errors
    /// As `build` and the compiler; nothing is kept then but the template.
    pub fn get_or_compile(
        &mut self,
        key: u64,
        binding: &Binding,
        options: &CompileOptions,
        build: impl FnOnce() -> Result<GraphModule>,
    ) -> Result<CompileResult> {
        let key = self.template_key(key, options);
        if let Some(at) =
            self.variants.iter().position(|v| v.template == key && v.binding == *binding)
        {
            // To the end: it is the most recently used one now.
            let variant = self.variants.remove(at);
            let result = variant.result.clone();
            self.variants.push(variant);
            return Ok(result);
        }
        let pipeline = CompilePipeline::new(self.target.clone()).with_options(options.clone());
        let template = match self.templates.get(&key) {
            Some(template) => template.clone(),
            None => {
                let g = match build()? {
                    GraphModule::Hir(module) => pipeline.lower_hir(&module)?,
                    GraphModule::Mir(g) => *g,
                    // A program is compiled already; its graph can be bound and planned again.
                    GraphModule::Lir(program) => program.graph,
                };
                let template = Arc::new(pipeline.preprocess_mir(g)?);
                self.templates.insert(key, template.clone());
                template
            }
        };
        let result = pipeline.compile_mir(bind(&template, &applicable(&template, binding))?)?;
        if self.variants.len() >= self.capacity {
            self.variants.remove(0);
        }
        self.variants.push(Variant {
            template: key,
            binding: binding.clone(),
            result: result.clone(),
        });
        // A template without a variant would stay for ever.
        self.templates.retain(|key, _| self.variants.iter().any(|v| v.template == *key));
        Ok(result)
    }

    /// The variant of a module, addressed by its content: equal modules are one template, whoever
    /// made them.
    ///
    /// # Errors
    /// As [`get_or_compile`](Self::get_or_compile).
    pub fn get_or_compile_module(
        &mut self,
        module: &GraphModule,
        binding: &Binding,
        options: &CompileOptions,
    ) -> Result<CompileResult> {
        self.get_or_compile(content_key(module), binding, options, || Ok(module.clone()))
    }

    /// The variant of a config on this cache's device, with what a host binds. `model` says which
    /// model `build` makes.
    ///
    /// # Errors
    /// As [`get_or_compile`](Self::get_or_compile).
    pub fn get_or_compile_config(
        &mut self,
        model: u64,
        config: &ModelExecutionConfig,
        build: impl FnOnce() -> Result<GraphModule>,
    ) -> Result<(CompileResult, BindingManifest)> {
        let mut options = options_for_device(config, &self.target.name)?;
        let binding = core::mem::take(&mut options.binding);
        let mut hasher = Hasher::new();
        hasher.text(&format!("{model:016x} {:016x}", config.component().template_key()));
        let result = self.get_or_compile(hasher.finish(), &binding, &options, build)?;
        let manifest = BindingManifest::of(&result.lir);
        Ok((result, manifest))
    }
}

/// Hash of a module's text, which says all of it; the same in every process and on every platform.
pub fn content_key(module: &GraphModule) -> u64 {
    let mut hasher = Hasher::new();
    hasher.text(module.stage().name());
    hasher.text(&module.inspect());
    hasher.finish()
}

/// A binding without the well-known sizes of a step that a graph does not have: an encoder without
/// a batch axis has no `BATCH`. Any other name must be the graph's own.
fn applicable(g: &Graph, binding: &Binding) -> Binding {
    let symbols = g.symbols();
    let known = [BATCH, SEQ];
    let keep = |name: &String| symbols.contains(name) || !known.contains(&name.as_str());
    binding.iter().filter(|(name, _)| keep(name)).map(|(name, n)| (name.clone(), *n)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::ir::mir::ParamKind;
    use crate::ops::{Binary, MatMul, Zip};
    use crate::targets;
    use crate::types::{DType, Dim, Shape, Type};
    use alloc::boxed::Box;
    use core::cell::Cell;

    /// `x[SEQ, 64] w^T + x`.
    fn layer() -> GraphModule {
        let mut g = Graph::new("layer");
        let rows = Shape(Vec::from([Dim::symbol(SEQ), Dim::from(64u64)]));
        let x = g.param(ParamKind::Input, "x", Type::tensor(DType::F32, rows));
        let w = Type::tensor(DType::F32, Shape::of(&[64, 64]));
        let w = g.param(ParamKind::Weight, "w", w);
        let y = g.push1(MatMul::plain(), &[x, w], "y").unwrap();
        let z = g.push1(Zip { f: Binary::Add }, &[y, x], "z").unwrap();
        g.output("z", z);
        GraphModule::Mir(Box::new(g))
    }

    fn seq(n: u64) -> Binding {
        Binding::from([(SEQ.into(), n)])
    }

    #[test]
    fn one_build_serves_every_variant_and_a_cached_one_is_the_same_program() {
        let builds = Cell::new(0);
        let build = || {
            builds.set(builds.get() + 1);
            Ok(layer())
        };
        let options = CompileOptions::default();
        let mut cache = ModelCompilePipeline::new(targets::host());
        let four = cache.get_or_compile(1, &seq(4), &options, build).unwrap();
        let eight = cache.get_or_compile(1, &seq(8), &options, build).unwrap();
        let again = cache.get_or_compile(1, &seq(4), &options, build).unwrap();
        assert_eq!(builds.get(), 1, "the graph is built once");
        assert!(Arc::ptr_eq(&four.lir, &again.lir), "a cached variant is a handle");
        assert_ne!(four.lir.fingerprint, eight.lir.fingerprint);
        assert_eq!((four.lir.inputs[0].bytes, eight.lir.inputs[0].bytes), (4 * 256, 8 * 256));
        assert_eq!(four.lir.weights, eight.lir.weights, "both name the same weights");
        // Other options are another template.
        let other = CompileOptions { alignment: 256, ..CompileOptions::default() };
        cache.get_or_compile(1, &seq(4), &other, build).unwrap();
        cache.get_or_compile(2, &seq(4), &options, build).unwrap();
        assert_eq!(builds.get(), 3);
    }

    #[test]
    fn the_least_recently_used_variant_goes_first() {
        let options = CompileOptions::default();
        let mut cache = ModelCompilePipeline::with_capacity(targets::host(), 2);
        let mut get = |n: u64| {
            cache.get_or_compile(1, &seq(n), &options, || Ok(layer())).unwrap();
            [1, 2, 3].map(|n| cache.contains(1, &seq(n), &options))
        };
        assert_eq!(get(1), [true, false, false]);
        assert_eq!(get(2), [true, true, false]);
        assert_eq!(get(1), [true, true, false]);
        assert_eq!(get(3), [true, false, true], "2 was used before 1");
        assert_eq!((cache.len(), cache.capacity()), (2, 2));
        assert_eq!(ModelCompilePipeline::with_capacity(targets::host(), 0).capacity(), 1);
        assert_eq!(ModelCompilePipeline::new(targets::host()).capacity(), 8);
    }

    #[test]
    fn equal_modules_are_one_template_and_others_are_not() {
        let options = CompileOptions::default();
        let mut cache = ModelCompilePipeline::new(targets::host());
        let first = cache.get_or_compile_module(&layer(), &seq(4), &options).unwrap();
        let again = cache.get_or_compile_module(&layer(), &seq(4), &options).unwrap();
        assert!(Arc::ptr_eq(&first.lir, &again.lir));
        let GraphModule::Mir(mut g) = layer() else { panic!("a graph") };
        g.nodes[1].op = Zip { f: Binary::Sub }.into();
        let other = GraphModule::Mir(g);
        assert_ne!(content_key(&other), content_key(&layer()));
        cache.get_or_compile_module(&other, &seq(4), &options).unwrap();
        assert_eq!(cache.len(), 2);
    }

    #[test]
    fn what_cannot_be_compiled_is_an_error_and_is_not_kept() {
        let options = CompileOptions::default();
        let mut cache = ModelCompilePipeline::new(targets::host());
        let failed =
            cache.get_or_compile(1, &seq(4), &options, || Err(Error::bad_graph("no graph")));
        assert_eq!(failed.unwrap_err().what, "no graph");
        let odd = Binding::from([("SEQQ".into(), 4)]);
        let e = cache.get_or_compile(1, &odd, &options, || Ok(layer())).unwrap_err();
        assert_eq!(e.what, "the graph has no symbol SEQQ");
        assert_eq!(e.hint, "did you mean SEQ?");
        assert!(cache.is_empty());
        assert!(!cache.contains(1, &odd, &options));
    }

    #[test]
    fn a_config_leaves_out_the_sizes_a_model_does_not_have_and_its_position() {
        let mut cache = ModelCompilePipeline::new(targets::host());
        let builds = Cell::new(0);
        let mut get = |config: &ModelExecutionConfig| {
            let build = || {
                builds.set(builds.get() + 1);
                Ok(layer())
            };
            cache.get_or_compile_config(7, config, build).unwrap()
        };
        let (at_9, manifest) = get(&ModelExecutionConfig::decode(1, 9, 1));
        let (at_10, _) = get(&ModelExecutionConfig::decode(1, 10, 1));
        assert!(Arc::ptr_eq(&at_9.lir, &at_10.lir), "one program serves every position");
        assert_eq!(builds.get(), 1);
        assert_eq!(manifest.weight_bytes, 64 * 64 * 4);
        let names = |entries: &[super::super::BindingEntry]| -> Vec<String> {
            entries.iter().map(|e| e.name.clone()).collect()
        };
        assert_eq!(names(&manifest.inputs), ["x"]);
        assert_eq!(names(&manifest.outputs), ["z"]);
        assert!(!manifest.outputs[0].is_view);
    }
}
