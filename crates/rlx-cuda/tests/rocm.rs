//! Kernels by AMD's compilers, without a card: hiprtc takes them, and clang shows what they have become.
//!
//! Both come from Debian: `libamdhip64-dev`, `libhiprtc-builtins5`, `rocm-device-libs` and `clang-19`. Each operator's
//! longest text is compiled; with `RLX_ROCM=all` every text of the models below is.

use crate::common::{Rng, control, input, run_op};
use crate::graphs::some;
use crate::hip::WORDS;
use crate::language::load;
use crate::recorder::{Text, recorder};
use crate::skip::skip;
use crate::step::cache;
use rlx_core::Code;
use rlx_core::ops::{Attention, BatchMatMul, Conv, Op, Sdpa, Window};
use rlx_core::plan::hash;
use rlx_core::runtime::model::ModelOptions;
use rlx_core::types::{BlockFormat, DType, Scalar};
use rlx_cuda::driver::Driver;
use rlx_cuda::driver::hip::{HEADER, Hip, code_for};
use std::collections::BTreeMap;
use std::env::consts::ARCH;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, thread};

/// Models that have every kernel of language models between them, and their caches.
pub const MODELS: &[(&str, DType)] = &[
    ("rustdoc-2m/rustdoc-2m-f16.gguf", DType::F32),
    ("rustdoc-2m/rustdoc-2m-q4_k_m.gguf", DType::F16),
    ("rustdoc-2m/rustdoc-2m-f16.gguf", DType::Block(BlockFormat::Q8_0)),
    ("gguf/llama.gguf", DType::F32),
    ("llama_linear/llama_linear.gguf", DType::F32),
    ("gguf/llama-q6_k.gguf", DType::F32),
    ("gguf/qwen3.gguf", DType::F16),
    ("gguf/gemma3.gguf", DType::F32),
    ("gguf/phi3.gguf", DType::F16),
    ("gguf/qwen3moe.gguf", DType::F32),
    ("gguf/qwen35.gguf", DType::F32),
];

/// The texts of the models' programs: of each kernel the longest, unless all are asked for.
fn texts() -> Vec<Text> {
    let (device, texts) = recorder(false, 0);
    for (file, kv) in MODELS {
        for chunk in [16, 7] {
            let mut options = ModelOptions::chat(chunk);
            options.compile.kv = *kv;
            options.context = Some(256);
            drop(load(device.clone(), file, &options));
        }
    }
    let all = texts.lock().unwrap().clone();
    if env::var("RLX_ROCM").is_ok_and(|which| which == "all") {
        return all.into_iter().collect();
    }
    let mut longest: BTreeMap<String, String> = BTreeMap::new();
    for (entry, text) in all {
        let kept = longest.entry(entry).or_default();
        if text.len() > kept.len() {
            *kept = text;
        }
    }
    longest.into_iter().collect()
}

/// Texts of tiles whose types and sizes ask for all that the architectures' products of matrices have.
fn tiles() -> Vec<Text> {
    let (device, texts) = recorder(false, 0);
    let mut rng = Rng(41);
    for scalar in [Scalar::F32, Scalar::F16, Scalar::Bf16] {
        let mut on = |op: Op, dims: [&[u64]; 3]| {
            let operands: Vec<_> =
                dims.iter().filter(|d| !d.is_empty()).map(|d| some(&mut rng, scalar, d)).collect();
            run_op(&device, op, &operands);
        };
        on(BatchMatMul::default().into(), [&[70, 40], &[40, 66], &[]]);
        let conv = Conv { window: Window::new(2), groups: 1, bias: false };
        on(conv.into(), [&[1, 3, 9, 11], &[66, 3, 3, 3], &[]]);
        let all = [(128u64, 128u64), (64, 64), (24, 40)];
        for (head, width) in all.into_iter().take(if scalar == Scalar::F16 { 3 } else { 1 }) {
            let op = Sdpa { v_head_dim: width as usize, ..Sdpa::new(2, head as usize) };
            on(op.into(), [&[1, 70, 2, head], &[1, 71, 2, head], &[1, 71, 2, width]]);
        }
    }
    let operands = [
        input(&[64, 256], &rng.floats(64 * 256)),
        cache(&mut rng, DType::F16, 2, 144, 128),
        cache(&mut rng, DType::F16, 2, 144, 128),
        control(3, 64, 0),
    ];
    run_op(&device, Attention::causal(128, 0.1), &operands);
    texts.lock().unwrap().clone().into_iter().collect()
}

#[test]
fn amds_own_compiler_takes_every_kernel() {
    let (texts, tiles) = (texts(), tiles());
    assert!(texts.len() >= 16, "{} texts", texts.len());
    for (arch, tiles) in [("gfx90a", tiles.as_slice()), ("gfx1030", &[])] {
        let words = ("words".to_owned(), WORDS.to_owned());
        for (entry, text) in texts.iter().chain(tiles).chain([&words]) {
            let code = match code_for(arch, text, entry) {
                Err(e) if e.code == Code::DeviceUnavailable => {
                    return skip("rocm: hiprtc takes the kernels", &e.what);
                }
                code => code.unwrap_or_else(|e| panic!("{arch} {entry}: {e}")),
            };
            let has = |what: &str| code.windows(what.len()).any(|w| w == what.as_bytes());
            assert!(code.starts_with(b"\x7fELF") && has(&format!("{entry}.kd")), "{arch} {entry}");
        }
    }
    let e = code_for("gfx90a", "nonsense;", "k").unwrap_err();
    assert!(e.code == Code::Internal && e.what.contains("nonsense"), "{e}");
    let e = code_for("gfx803", "", "k").unwrap_err();
    assert_eq!((e.code, e.what.as_str()), (Code::Unsupported, "there are no kernels for gfx803"));
}

/// AMD's runtime where it is installed has the functions that the driver looks for; without a card it says so.
#[test]
fn a_machine_without_a_card_says_so() {
    match Hip::new(0, None) {
        Ok(card) => assert!(card.info().arch.starts_with("gfx"), "{:?}", card.info()),
        Err(e) => {
            assert_eq!(e.code, Code::DeviceUnavailable, "{e}");
            let known = ["ROCm finds no AMD card", "ROCm did not start", "was not found"];
            assert!(known.iter().any(|what| e.what.contains(what)), "{e}");
            assert_eq!(
                e.hint,
                "install ROCm and its driver, or use another device: `rlx devices` lists them"
            );
        }
    }
}

/// Lanes of each architecture, and which tables of AMD's device libraries stand for its own: those of HIP 5.2 are older
/// than some.
const ARCHITECTURES: [(&str, u32, &str); 5] = [
    ("gfx90a", 64, "90a"),
    ("gfx942", 64, "90a"),
    ("gfx1030", 32, "1030"),
    ("gfx1100", 32, "1036"),
    ("gfx1201", 32, "1036"),
];

/// AMD's compiler as hiprtc calls it, for one architecture.
fn clang((arch, lanes, _): (&str, u32, &str)) -> Command {
    let mut clang = Command::new("clang-19");
    clang.args(["-x", "hip", "--cuda-device-only", "-nogpulib", "-nogpuinc", "-Werror", "-S"]);
    clang.args(["-O3", "-std=c++17", "-ffp-contract=off", "-D__HIPCC_RTC__"]);
    clang.arg("-D__HIP_PLATFORM_AMD__").arg(format!("-DRLX_WARP={lanes}"));
    clang.arg(format!("--offload-arch={arch}"));
    clang
}

fn done(mut clang: Command, what: &str) {
    let done = clang.output().expect("clang-19");
    assert!(done.status.success(), "{what}: {}", String::from_utf8_lossy(&done.stderr));
}

/// The headers that hiprtc puts in front of a text, which take longer to read than most texts to compile: once for all
/// texts.
fn headers(folder: &Path, of: (&str, u32, &str)) -> PathBuf {
    let source = folder.join(format!("headers-{}.hip", of.0));
    let names = ["stddef.h", "climits", "limits", "hip/hip_runtime.h"];
    fs::write(&source, names.map(|name| format!("#include <{name}>\n")).concat()).unwrap();
    let compiled = source.with_extension("pch");
    let mut clang = clang(of);
    clang.args(["-Xclang", "-emit-pch"]).arg(&source).arg("-o").arg(&compiled);
    done(clang, of.0);
    compiled
}

/// The assembly of a text, behind these headers.
fn assembly(
    folder: &Path,
    libraries: &Path,
    (of, headers): ((&str, u32, &str), &Path),
    (entry, text): &Text,
) -> String {
    let (arch, lanes, table) = of;
    let key = hash([text.as_str()].into_iter());
    let source = folder.join(format!("{entry}-{arch}-{key:016x}.hip"));
    fs::write(&source, [HEADER, text].concat()).unwrap();
    let mut clang = clang(of);
    clang.args(["-Xclang", "-include-pch", "-Xclang"]).arg(headers);
    let wavefront = if lanes == 64 { "on" } else { "off" };
    for library in [
        "hip",
        "ocml",
        "ockl",
        &format!("oclc_wavefrontsize64_{wavefront}"),
        &format!("oclc_isa_version_{table}"),
        "oclc_finite_only_off",
        "oclc_unsafe_math_off",
        "oclc_correctly_rounded_sqrt_on",
        "oclc_daz_opt_off",
        "oclc_abi_version_400",
    ] {
        clang.args(["-Xclang", "-mlink-builtin-bitcode", "-Xclang"]);
        clang.arg(libraries.join(format!("{library}.bc")));
    }
    let output = source.with_extension("s");
    clang.arg(&source).arg("-o").arg(&output);
    done(clang, &format!("{arch} {entry}"));
    fs::read_to_string(output).unwrap()
}

/// The number behind the first of these words.
fn number(assembly: &str, word: &str) -> u64 {
    let at = assembly.find(word).unwrap_or_else(|| panic!("no {word}")) + word.len();
    let digits = assembly[at..].trim_start();
    digits[..digits.find(|c: char| !c.is_ascii_digit()).unwrap()].parse().unwrap()
}

/// Nothing is in memory that registers should have; wide loads, fused products and exchanges are instructions.
fn check(arch: &str, lanes: u32, (entry, text): &Text, assembly: &str) {
    let what = format!("{arch} {entry}");
    for (word, want) in [
        ("; ScratchSize:", 0),
        (".vgpr_spill_count:", 0),
        (".private_segment_fixed_size:", 0),
        (".wavefront_size:", lanes.into()),
        (".max_flat_workgroup_size:", number(text, "#define BLOCK_THREADS")),
    ] {
        assert_eq!(number(assembly, word), want, "{what}: {word}");
    }
    let has = |words: &[&str]| words.iter().any(|word| assembly.contains(word));
    assert!(!has(&["s_swappc", "flat_load", "flat_store"]), "{what}: calls, or memory of any kind");
    let wide = ["global_load_dwordx4", "global_load_b128"];
    let fused = ["v_fma_f32", "v_fmac_f32", "v_pk_fma_f32", "v_dual_fmac_f32", "v_fma_mix_f32"];
    if entry == "words" {
        for word in ["v_dot4", "v_perm_b32", "v_alignbit_b32", "ds_bpermute_b32", "v_cmp_ne_u32"] {
            assert!(has(&[word]), "{what}: {word}");
        }
    }
    // Products of matrices: of what an architecture has them for.
    let of_short = text.contains("#define KIND F16") || text.contains("#define KIND Bf16");
    let of_halves = entry.ends_with("_halves");
    let (of_tensors, of_rows) = (
        ["batch_matmul", "conv"].contains(&entry.as_str()),
        ["matmul_tile", "grouped_tile"].contains(&entry.as_str()),
    );
    let matrix = match arch {
        "gfx1030" => None,
        "gfx1100" | "gfx1201" => {
            let attends = ["attention_tile", "sdpa_tile"].contains(&entry.as_str());
            (attends || of_halves || of_tensors && of_short).then_some("v_wmma_f32_16x16x16_")
        }
        _ => {
            let is_tile = entry.ends_with("_tile") || of_halves || of_tensors;
            is_tile.then_some("v_mfma_f32_16x16x")
        }
    };
    for word in ["v_mfma_", "v_wmma_"] {
        let is_there = matrix.is_some_and(|m| m.starts_with(word));
        assert_eq!(has(&[word]), is_there, "{what}: {word}");
    }
    assert!(matrix.is_none_or(|m| has(&[m])), "{what}: {matrix:?}");
    if entry.starts_with("matmul") {
        assert!(has(&wide), "{what}: wide loads");
        assert!(has(&fused) || of_rows && matrix.is_some(), "{what}: products with sums");
    }
    if ["rms_norm", "matmul_one", "matmul_vector", "attention_one"].contains(&entry.as_str()) {
        assert!(has(&["ds_bpermute_b32"]), "{what}: exchanges between lanes");
        // Bytes become floats by one instruction.
        let packed = text.contains("Q4K") && entry == "matmul_one";
        assert!(!packed || has(&["v_perm_b32"]), "{what}: bytes");
    }
}

#[test]
fn kernels_have_registers_and_instructions_of_every_architecture() {
    let test = "rocm: kernels have registers and instructions";
    let libraries = PathBuf::from(format!("/usr/lib/{ARCH}-linux-gnu/amdgcn/bitcode"));
    if !libraries.join("ocml.bc").exists() || !Path::new("/usr/include/hip/hip_runtime.h").exists()
    {
        return skip(test, "no rocm-device-libs or no libamdhip64-dev");
    }
    if Command::new("clang-19").arg("--version").output().is_err() {
        return skip(test, "no clang-19");
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("rocm");
    fs::create_dir_all(&folder).unwrap();
    let mut texts = texts();
    let tiles = tiles();
    assert_eq!(tiles.len(), 3 * 2 + 5 + 1, "texts of tiles");
    for entry in ["grouped_halves", "matmul_tile", "attention_tile"] {
        assert!(texts.iter().any(|(name, _)| name == entry), "no text of {entry}");
    }
    texts.push(("words".into(), format!("#define BLOCK_THREADS 128\n{WORDS}")));
    let behind = ARCHITECTURES.map(|of| (of, headers(&folder, of)));
    let each: Vec<_> =
        behind.iter().flat_map(|a| texts.iter().map(move |text| (a, text))).collect();
    // Without such products tiles are those of the models.
    let with = behind.iter().filter(|((arch, ..), _)| *arch != "gfx1030");
    let each: Vec<_> =
        with.flat_map(|a| tiles.iter().map(move |text| (a, text))).chain(each).collect();
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for part in each.chunks(each.len().div_ceil(threads)) {
            let (folder, libraries) = (&folder, &libraries);
            scope.spawn(move || {
                for &((of, headers), text) in part {
                    let assembly = assembly(folder, libraries, (*of, headers), text);
                    check(of.0, of.1, text, &assembly);
                }
            });
        }
    });
}
