//! What a reviewer should not have to say, about every source of the repository.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Lines a source file may have, and columns a line of Rust, its longest text apart.
const LINES: usize = 700;
const COLUMNS: usize = 120;

/// Generated tables: their lines are as long as they come.
const TABLES: &[&str] = &["crates/rlx-core/src/text/unicode_tables.rs"];

/// Where `unsafe` may stand, and why. Everywhere else a lint denies it too.
const UNSAFE: &[(&str, &str)] = &[
    ("crates/rlx-cpu/src/simd/", "SIMD intrinsics"),
    ("crates/rlx-cpu/src/aligned_bytes.rs", "advice about pages"),
    ("crates/rlx-cpu/src/run.rs", "workers read and write one arena at once"),
    ("crates/rlx-cpu/src/view.rs", "a worker writes its slices of that arena"),
    ("crates/rlx-cuda/src/driver/cuda.rs", "the driver's functions, and launches"),
    ("crates/rlx-cuda/src/driver/cuda/", "the driver's functions, and its compiler"),
    ("crates/rlx-cuda/src/driver/products.rs", "cuBLASLt's functions"),
    ("crates/rlx-cuda/src/driver/hip/", "HIP's functions, and launches"),
    ("crates/rlx-cuda/tests/fake.rs", "functions of a library that stands for HIP"),
    ("crates/rlx-cuda/tests/nvrtc.rs", "NVIDIA's compiler, loaded from a wheel"),
    ("crates/rlx-mlx/src/shim/mod.rs", "functions of the shim over MLX"),
    ("crates/rlx-pjrt/src/pjrt/", "functions of PJRT plugins"),
    ("crates/rlx-metal/src/metal.rs", "Metal's calls, and bytes that a GPU shares"),
    ("benches/bandwidth/src/lib.rs", "loads as wide as the machine has"),
    ("crates/rlx-native/src/files.rs", "memory maps"),
    ("crates/rlx-native/src/main.rs", "the environment, before any thread"),
    ("crates/rlx-native/tests/allocations.rs", "an allocator that counts"),
    ("benches/compile/src/heap.rs", "an allocator that counts"),
];

/// Uses of a later module, and why they are right.
const LATER: &[(&str, &str, &str)] = &[
    ("plan/replay.rs", "reference", "a plan's proof runs it with the oracle's operators"),
    ("plan/part.rs", "reference", "the same, over part of a weight"),
    ("passes/fold.rs", "reference", "a constant is what the oracle computes"),
    ("reference/device.rs", "runtime", "the oracle behind the trait that every executor has"),
    ("models/sam/prompt.rs", "image", "what is shown of an image is in its pixels"),
];

/// Words that name an executor, a backend or what they are written in: the core asks a `Target` instead.
const EXECUTORS: [&str; 10] =
    ["cpu", "webgpu", "wgpu", "wgsl", "cuda", "metal", "rocm", "mlx", "tpu", "vulkan"];

/// Sources of the core that have such words all the same, and why.
const NAMES: &[(&str, &str)] = &[
    ("target/fusion_target.rs", "the vocabulary of profiles and command lines"),
    ("profile/toml.rs", "its tests read text in that vocabulary"),
];

/// A kernel's header, in this order, after the formula on its first line.
const HEADER: [&str; 4] = ["// shapes", "// bytes", "// launch", "// numerics"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_path_buf()
}

/// Text sources by path from the root; what tools made or downloaded is not ours.
fn sources() -> BTreeMap<String, String> {
    const KINDS: &[&str] =
        &["rs", "wgsl", "toml", "md", "ts", "js", "mjs", "html", "css", "sh", "mir", "yml", "json"];
    const SKIP: &[&str] =
        &["target", "node_modules", "dist", "pkg", "shared", "fixtures", "models"];
    let (root, mut out) = (root(), BTreeMap::new());
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            // The core's own `models` is code.
            let skip = SKIP.contains(&name.as_str()) && !folder.ends_with("src");
            if path.is_dir() && !skip && !name.starts_with('.') {
                folders.push(path);
            } else if KINDS.iter().any(|k| path.extension().is_some_and(|e| e == *k))
                && let Ok(text) = std::fs::read_to_string(&path)
            {
                let path = path.strip_prefix(&root).unwrap().to_string_lossy().replace('\\', "/");
                out.insert(path, text);
            }
        }
    }
    assert!(out.len() > 100, "the sources are there");
    out
}

fn none(wrong: Vec<String>) {
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Rust without its comments, line by line. A `//` in a string goes too, which harms no check here.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(n, l)| (n + 1, l.split("//").next().unwrap_or("")))
}

#[test]
fn a_module_of_the_core_uses_only_those_before_it() {
    let sources = sources();
    let lib = &sources["crates/rlx-core/src/lib.rs"];
    let order: Vec<&str> = lib
        .lines()
        .filter_map(|l| l.strip_prefix("pub mod ").and_then(|l| l.strip_suffix(';')))
        .collect();
    assert!(order.len() > 12, "{order:?}");
    let rank = |name: &str| order.iter().position(|m| *m == name);
    let (mut wrong, mut used) = (Vec::new(), Vec::new());
    for (path, text) in &sources {
        let Some(file) = path.strip_prefix("crates/rlx-core/src/") else { continue };
        let module = file.split(['/', '.']).next().unwrap_or("");
        let Some(mine) = rank(module) else { continue };
        // Tests stand at the foot of a file and may use anything.
        let end = text.find("\nmod tests {").unwrap_or(text.len());
        if !path.ends_with(".rs") || file.ends_with("/testing.rs") {
            continue;
        }
        for (n, line) in code(&text[..end]) {
            for name in line.split("crate::").skip(1) {
                let name = name.split(|c: char| !(c.is_alphanumeric() || c == '_')).next();
                let Some((name, theirs)) = name.and_then(|m| Some((m, rank(m)?))) else { continue };
                if theirs > mine {
                    match LATER.iter().find(|l| l.0 == file && l.1 == name) {
                        Some(allowed) => used.push(allowed.0),
                        None => wrong.push(format!("{path}:{n} uses {name}, which comes later")),
                    }
                }
            }
        }
    }
    none(wrong);
    for (file, name, _) in LATER {
        assert!(used.contains(file), "{file} no longer uses {name}: take it from the list");
    }
}

#[test]
fn the_core_names_no_executor() {
    let (mut wrong, mut used) = (Vec::new(), Vec::new());
    for (path, text) in &sources() {
        let Some(file) = path.strip_prefix("crates/rlx-core/src/") else { continue };
        // Goldens of passes say for which of the tests' targets they were recorded.
        if file.ends_with(".mir") {
            continue;
        }
        let named = |line: &str| {
            let line = line.to_ascii_lowercase();
            let mut words = line.split(|c: char| !c.is_ascii_alphanumeric());
            words.any(|word| EXECUTORS.contains(&word))
        };
        // A file's name is a line too.
        let lines = [file].into_iter().chain(text.lines()).enumerate();
        for (n, line) in lines.filter(|(_, line)| named(line)) {
            match NAMES.iter().find(|allowed| allowed.0 == file) {
                Some(allowed) => used.push(allowed.0),
                None => wrong.push(format!("{path}:{n} names an executor: {}", line.trim())),
            }
        }
    }
    none(wrong);
    for (file, _) in NAMES {
        assert!(used.contains(file), "{file} names no executor: take it from the list");
    }
}

#[test]
fn no_source_is_longer_than_a_reader_bears() {
    let kinds = [".rs", ".wgsl", ".ts", ".js", ".mjs", ".css"];
    let long = sources().into_iter().filter(|(p, _)| kinds.iter().any(|k| p.ends_with(k)));
    let long = long.map(|(path, text)| (path, text.lines().count())).filter(|(_, n)| *n > LINES);
    none(long.map(|(path, n)| format!("{path} has {n} lines, {LINES} is the most")).collect());
}

#[test]
fn no_line_of_rust_is_too_wide() {
    let mut wrong = Vec::new();
    for (path, text) in sources().iter().filter(|(p, _)| p.ends_with(".rs")) {
        if TABLES.contains(&path.as_str()) {
            continue;
        }
        for (n, line) in text.lines().enumerate() {
            // A message is searched for whole: a text may run on, from its first quote to its last.
            let text = line.find('"').zip(line.rfind('"')).map_or(0, |(a, b)| b - a);
            let continues = line.contains("\\n") && line.ends_with('\\');
            let columns = line.chars().count().saturating_sub(text);
            if columns > COLUMNS && !continues {
                wrong
                    .push(format!("{path}:{} has {columns} columns, {COLUMNS} is the most", n + 1));
            }
        }
    }
    none(wrong);
}

#[test]
fn a_kernel_opens_with_formula_shapes_bytes_launch_and_numerics() {
    let (mut wrong, mut kernels) = (Vec::new(), 0);
    for (path, text) in
        sources().iter().filter(|(p, t)| p.ends_with(".wgsl") && t.contains("@compute"))
    {
        kernels += 1;
        let header: Vec<&str> = text.lines().take_while(|l| l.starts_with("//")).collect();
        let formula = header.first().is_some_and(|l| {
            !HEADER.iter().any(|h| l.starts_with(h)) && l.contains(['=', '<', ':'])
        });
        if !formula {
            wrong.push(format!("{path}: the first line is no formula"));
        }
        let mut at = 0;
        for part in HEADER {
            match header.iter().position(|l| l.starts_with(part)) {
                Some(n) if n > at => at = n,
                Some(_) => wrong.push(format!("{path}: `{part}` is out of order")),
                None => wrong.push(format!("{path}: `{part}` is missing")),
            }
        }
    }
    assert!(kernels > 0, "there are kernels");
    none(wrong);
}

#[test]
fn unsafe_stands_where_it_may() {
    let mut wrong = Vec::new();
    for (path, text) in sources().iter().filter(|(p, _)| p.ends_with(".rs")) {
        if UNSAFE.iter().any(|u| path.starts_with(u.0)) || path.ends_with("tests/tidy.rs") {
            continue;
        }
        for (n, line) in code(text) {
            let words = ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern", "unsafe trait"];
            if words.iter().any(|w| line.contains(w)) {
                wrong
                    .push(format!("{path}:{n}: unsafe outside its modules; see UNSAFE in tidy.rs"));
            }
        }
    }
    none(wrong);
}

#[test]
fn no_source_knows_the_machine_it_was_written_on() {
    let paths = ["work", "root", "home", "Users"].map(|folder| format!("/{folder}/"));
    let mut wrong = Vec::new();
    for (path, text) in &sources() {
        for (n, line) in text.lines().enumerate() {
            if let Some(found) = paths.iter().find(|p| line.contains(p.as_str())) {
                wrong.push(format!("{path}:{}: the path {found}…", n + 1));
            }
        }
    }
    none(wrong);
}
