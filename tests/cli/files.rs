//! Commands that write model files: `split`, `merge`, `synth`.

use super::{SMALL, fails, fixture, folder, repository, rlx, run};
use rlx_core::gguf::{Header, HeaderReader};
use rlx_native::tools::mix::Quant;
use rlx_native::tools::synth::{Experts, Llada2, Shape, synth, synth_folder};
use std::path::Path;
use std::process::Command;

/// Runs a command that must succeed; what it printed.
#[track_caller]
fn ok(command: &mut Command) -> String {
    let (code, stdout, stderr) = run(command);
    assert_eq!((code, stderr.as_str()), (0, ""));
    stdout
}

fn header(bytes: &[u8]) -> Header {
    let mut reader = HeaderReader::new("file", Some(bytes.len() as u64));
    reader.push(bytes).unwrap();
    reader.into_header().unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_split_file_merges_to_the_same_bytes() {
    let folder = folder("split");
    let whole = fixture("gguf/llama.gguf");
    let (prefix, back) = (folder.join("llama"), folder.join("back.gguf"));
    let (prefix, back) = (prefix.to_str().unwrap(), back.to_str().unwrap());
    for limit in [["--max-size", "100K"], ["--max-tensors", "7"], ["--max-size", "1G"]] {
        let mut split = rlx(&["split", "tests/fixtures/gguf/llama.gguf", prefix, "--force"]);
        let shards = ok(split.args(limit));
        let shards: Vec<&str> = shards.lines().collect();
        ok(&mut rlx(&["merge", shards[0], back, "--force"]));
        assert!(std::fs::read(back).unwrap() == whole, "{limit:?}: {} shards", shards.len());
    }
}

#[test]
fn shards_have_the_names_and_keys_that_llama_cpp_gives_them() {
    let folder = folder("shards");
    let prefix = folder.join("m");
    let input = "tests/fixtures/gguf/llama.gguf";
    ok(&mut rlx(&["split", input, prefix.to_str().unwrap(), "--max-size", "150K"]));
    let files = names(&folder);
    let n = files.len();
    assert!(n > 1);
    let whole = header(&fixture("gguf/llama.gguf"));
    let mut tensors = Vec::new();
    for (no, name) in files.iter().enumerate() {
        assert_eq!(*name, format!("m-{:05}-of-{n:05}.gguf", no + 1));
        let shard = header(&std::fs::read(folder.join(name)).unwrap());
        let mut keys: Vec<_> = shard.metadata.iter().map(|(k, e)| (e.at, k.to_owned())).collect();
        keys.sort();
        let split: Vec<_> = keys.split_off(keys.len() - 3).into_iter().map(|(_, k)| k).collect();
        assert_eq!(split, ["split.no", "split.tensors.count", "split.count"]);
        let types = ["split.no", "split.tensors.count", "split.count"]
            .map(|key| shard.metadata.get(key).unwrap().value.type_name());
        assert_eq!(types, ["u16", "i32", "u16"]);
        assert_eq!(shard.metadata.u32("split.no"), Ok(no as u32));
        assert_eq!(shard.metadata.u32("split.count"), Ok(n as u32));
        assert_eq!(shard.metadata.u32("split.tensors.count"), Ok(whole.tensors.len() as u32));
        assert_eq!(keys.len(), if no == 0 { whole.metadata.iter().count() } else { 0 });
        let padded = |bytes: u64| bytes.next_multiple_of(32);
        let bytes: u64 = shard.tensors.iter().map(|t| padded(t.bytes)).sum();
        assert!(bytes <= 150_000 || shard.tensors.len() == 1, "{bytes}");
        tensors.extend(shard.tensors.iter().map(|t| t.name.clone()));
    }
    assert_eq!(tensors, whole.tensors.iter().map(|t| t.name.clone()).collect::<Vec<_>>());
}

/// What llama.cpp's own tool made of a file is recorded beside it.
#[test]
fn llama_cpps_own_shards_are_ours_byte_for_byte() {
    let recorded = repository("tests/fixtures/gguf");
    let folder = folder("recorded");
    let (whole, prefix) = (recorded.join("qwen2.gguf"), folder.join("qwen2"));
    let (whole, prefix) = (whole.to_str().unwrap(), prefix.to_str().unwrap());
    ok(&mut rlx(&["split", whole, prefix, "--max-tensors", "10"]));
    let files = names(&folder);
    assert_eq!(files.len(), 3);
    for name in &files {
        let theirs = std::fs::read(recorded.join("split").join(name)).unwrap();
        assert!(std::fs::read(folder.join(name)).unwrap() == theirs, "{name}");
    }
    let back = folder.join("back.gguf");
    let first = recorded.join("split").join(&files[0]);
    ok(&mut rlx(&["merge", first.to_str().unwrap(), back.to_str().unwrap()]));
    assert!(std::fs::read(back).unwrap() == std::fs::read(whole).unwrap());
}

#[test]
fn what_is_in_the_way_is_not_replaced() {
    let folder = folder("way");
    let path = folder.join("a.gguf");
    std::fs::write(&path, "mine").unwrap();
    let out = path.to_str().unwrap();
    let error = format!("there is a file of this name already ({out})");
    let hint = "give another name, or --force to replace it";
    fails(&mut rlx(&["merge", SMALL, out]), 2, &error, hint);
    fails(&mut rlx(&["synth", out, "--shape", "llama-tiny", "--quant", "f16"]), 2, &error, hint);
    let shard = folder.join("a-00001-of-00001.gguf");
    std::fs::write(&shard, "mine").unwrap();
    let prefix = folder.join("a");
    fails(
        &mut rlx(&["split", SMALL, prefix.to_str().unwrap(), "--max-size", "1G"]),
        2,
        &format!("there is a file of this name already ({})", shard.display()),
        hint,
    );
    assert_eq!(names(&folder), ["a-00001-of-00001.gguf", "a.gguf"]);
    assert_eq!(std::fs::read(path).unwrap(), b"mine");
}

#[test]
fn wrong_shapes_quants_and_sizes_name_the_right_ones() {
    let cut = ["synth", "x.gguf", "--shape", "llama-tiny", "--quant", "f16", "--layers", "3"];
    fails(&mut rlx(&cut), 2, "llama-tiny has no 3 layers", "give 1 to 2");
    fails(
        &mut rlx(&["synth", "x.gguf", "--shape", "llama-9b", "--quant", "f16"]),
        2,
        "there is no shape llama-9b",
        "give one of llama-3.2-1b, llama-3.1-8b, qwen3-0.6b, qwen3-4b, qwen3-30b-a3b, qwen35-0.8b, \
         gemma-3-1b, gemma-3-270m, lfm2-350m, smollm3-3b, phi-4-mini, gpt-oss-20b, moe-1b-7b, llama-0.6b, \
         llama-125m, llama-tiny, llada2-mini",
    );
    fails(
        &mut rlx(&["synth", "x.gguf", "--shape", "llama-tiny"]),
        2,
        "llama-tiny is written as a GGUF file, whose format is not said",
        "give --quant, such as --quant q4_k_m",
    );
    for option in [&["--quant", "bf16"][..], &["--pure"], &["--force"]] {
        let name = option[0];
        fails(
            &mut rlx(&[&["synth", "x", "--shape", "llada2-mini"], option].concat()),
            2,
            &format!("llada2-mini is written as a folder in bf16, and {name} is for GGUF files"),
            &format!("leave {name} out"),
        );
    }
    let cut = ["synth", "x", "--shape", "llada2-mini", "--layers", "21"];
    fails(&mut rlx(&cut), 2, "llada2-mini has no 21 layers", "give 1 to 20");
    let cut = ["synth", "tests", "--shape", "llada2-mini", "--layers", "1"];
    fails(
        &mut rlx(&cut),
        2,
        "there is a file or folder of this name already (tests)",
        "give another name, or remove it; a folder is not replaced",
    );
    let (code, _, stderr) =
        run(&mut rlx(&["synth", "x.gguf", "--shape", "llama-tiny", "--quant", "q8_k"]));
    assert_eq!(code, 2);
    assert!(stderr.starts_with("error: there is no quant q8_k\nhint: give one of f32, f16, "));
    fails(
        &mut rlx(&["split", SMALL, "x", "--max-size", "1T"]),
        2,
        "1T is no size",
        "give bytes, or a number with K, M or G",
    );
    let shard = "models/rustdoc-29m/rustdoc-29m-q4_k_m-00001-of-00003.gguf";
    let (code, _, stderr) = run(&mut rlx(&["split", shard, "x", "--max-size", "1G"]));
    assert_eq!(code, 2);
    assert!(stderr.starts_with("error: the model is already in 3 shards ("), "{stderr}");
}

/// Every family's blocks in a few layers, so that each kind of block is there, with few tokens and experts.
#[test]
fn a_file_of_every_family_opens_and_answers() {
    let folder = folder("synth-families");
    for (name, layers) in [
        ("qwen3-0.6b", 1),
        ("qwen3-30b-a3b", 1),
        ("qwen35-0.8b", 4),
        ("gemma-3-270m", 6),
        ("lfm2-350m", 3),
        ("smollm3-3b", 4),
        ("phi-4-mini", 1),
        ("gpt-oss-20b", 2),
    ] {
        let mut shape =
            Shape { vocab: 320, ..Shape::find(name).unwrap().cut(Some(layers)).unwrap() };
        // Rows of a whole block of the format, and no wider than that takes.
        shape.feed_forward = 512;
        if let Some(experts) = &mut shape.experts {
            (experts.count, experts.width) = (16, 256);
        }
        let path = folder.join(format!("{name}.gguf"));
        let quant = Quant::parse("q4_k_m", false).unwrap();
        synth(&shape, quant, 1, &path, false, &mut |_, _| {}).unwrap();
        let model = path.to_str().unwrap();
        let args =
            ["run", "--json", "--max-tokens", "3", "--context", "64", "--model", model, "hi"];
        let (code, stdout, stderr) = run(&mut rlx(&args));
        assert_eq!((code, stderr.as_str()), (0, ""), "{name}");
        let answer: serde_json::Value = serde_json::from_str(&stdout).unwrap();
        assert!(!answer["tokens"].as_array().unwrap().is_empty(), "{name}: {stdout}");
        std::fs::remove_file(&path).unwrap();
    }
}

/// LLaDA 2's two kinds of layers, with few tokens and small experts.
#[test]
fn a_folder_of_llada_2_opens_and_answers() {
    let shape = Llada2::find("llada2-mini").unwrap().cut(Some(2)).unwrap();
    let experts = Experts { width: 32, ..shape.experts };
    let shape = Llada2 { width: 256, feed_forward: 512, vocab: 320, mask: 258, experts, ..shape };
    let path = folder("synth-folder").join("llada2");
    synth_folder(&shape, 1, &path, &mut |_, _| {}).unwrap();
    let small = ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"];
    assert_eq!(names(&path), small);
    let model = path.to_str().unwrap();
    let args = ["run", "--json", "--max-tokens", "40", "--context", "128", "--model", model, "hi"];
    let (code, stdout, stderr) = run(&mut rlx(&args));
    assert_eq!((code, stderr.as_str()), (0, ""));
    let answer: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    let tokens = answer["tokens"].as_array().unwrap();
    assert!(!tokens.is_empty() && !tokens.iter().any(|id| *id == 258), "{stdout}");
}

#[test]
fn a_synthesised_model_answers_the_same_whole_and_in_shards() {
    let folder = folder("synth");
    let path = folder.join("tiny.gguf");
    let model = path.to_str().unwrap();
    let told = ok(&mut rlx(&[
        "synth",
        model,
        "--shape",
        "llama-tiny",
        "--quant",
        "q4_k_m",
        "--seed",
        "5",
    ]));
    assert_eq!(told, format!("{model}: llama-tiny in q4_k_m, 1.3 M parameters, 0.8 MB\n"));
    let answer = |model: &str| {
        ok(rlx(&["run", "--model", model, "--device", "cpu", "--max-tokens", "12", "--json", "Hi"])
            .env("RUST_BACKTRACE", "0"))
    };
    let prefix = folder.join("tiny");
    let shards = ok(&mut rlx(&["split", model, prefix.to_str().unwrap(), "--max-size", "300K"]));
    let first = shards.lines().next().unwrap();
    let text = |json: &str| {
        let value: serde_json::Value = serde_json::from_str(json).unwrap();
        value["text"].as_str().unwrap().to_owned()
    };
    let whole = text(&answer(model));
    assert!(!whole.is_empty());
    assert_eq!(whole, text(&answer(first)));
}

/// The most memory, in bytes, that a command had while it ran, as the system counts it.
#[cfg(target_os = "linux")]
fn most_memory(mut command: std::process::Command) -> u64 {
    let mut child = command.stdout(std::process::Stdio::null()).spawn().unwrap();
    let (mut most, mut seen) = (0, 0);
    let status = loop {
        let path = format!("/proc/{}/status", child.id());
        let text = std::fs::read_to_string(path).unwrap_or_default();
        // Once it has ended, and before it is waited for, it has no such line.
        if let Some(line) = text.lines().find_map(|l| l.strip_prefix("VmHWM:")) {
            let kib: u64 = line.trim().trim_end_matches(" kB").parse().unwrap();
            (most, seen) = (most.max(kib * 1024), seen + 1);
        }
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    };
    assert!(status.success() && seen > 10, "{status}, seen {seen} times");
    most
}

/// Tensors are made and written in pieces: a file of 248 MB takes no more memory than one of 84 MB, and
/// both little more than the program and the vocabulary.
#[test]
#[cfg(target_os = "linux")]
fn synth_needs_as_little_memory_for_large_tensors_as_for_small_ones() {
    let folder = folder("synth-memory");
    let path = folder.join("m.gguf");
    let memory = ["q4_k_m", "f16"].map(|quant| {
        let args = ["synth", path.to_str().unwrap(), "--shape", "llama-125m", "--quant", quant];
        let most = most_memory(rlx(&[&args[..], &["--force"]].concat()));
        println!("{quant}: {:.1} MB", most as f64 / 1e6);
        most
    });
    std::fs::remove_file(path).unwrap();
    assert!(memory.iter().all(|&m| m < 16_000_000), "{memory:?}");
    assert!(memory[0].abs_diff(memory[1]) < 3_000_000, "{memory:?}");
}
