//! Broken model files: exit code 3, what and where, what to do. Headers that do not parse are core's
//! tests; here are the faults that only loading finds.

use super::broken::{Case, as_recorded, cases};
use super::{fails, fixture, folder, repository, rlx, run};
use std::path::{Path, PathBuf};

const SHARD: &str = "rustdoc-29m-q4_k_m";

fn shard(dir: &Path, no: usize, count: usize) -> PathBuf {
    dir.join(format!("{SHARD}-{no:05}-of-{count:05}.gguf"))
}

/// A folder with copies of shards `from` under the numbers `to`.
fn shards(name: &str, copies: &[(usize, usize)]) -> PathBuf {
    let dir = folder(name);
    for &(from, to) in copies {
        let source = shard(&repository("models/rustdoc-29m"), from, 3);
        std::fs::copy(source, shard(&dir, to, 3)).unwrap();
    }
    dir
}

/// `rlx run` of a file in a folder.
fn ask(dir: &Path, file: &str) -> std::process::Command {
    let mut command = rlx(&["run", "--raw", "--max-tokens", "1", "--model", file, "hello"]);
    command.current_dir(dir);
    command
}

#[test]
fn a_file_that_is_not_there() {
    let hint = "give the path of a model file, or of its first shard";
    let dir = folder("absent");
    fails(&mut ask(&dir, "x.gguf"), 3, "there is no such file (x.gguf)", hint);
    let hint = "give a model file, or the folder of a transformers checkpoint";
    fails(&mut ask(&dir, "."), 3, "the folder has no config.json (.)", hint);
}

#[test]
fn a_missing_shard() {
    let dir = shards("missing-shard", &[(1, 1), (3, 3)]);
    for given in [1, 3] {
        fails(
            &mut ask(&dir, &format!("{SHARD}-0000{given}-of-00003.gguf")),
            3,
            &format!("missing shard 2 of 3 ({SHARD}-00001-of-00003.gguf)"),
            "give all shards of the model, in any order",
        );
    }
}

#[test]
fn a_shard_given_twice() {
    let dir = shards("shard-twice", &[(1, 1), (2, 2), (2, 3)]);
    fails(
        &mut ask(&dir, &format!("{SHARD}-00001-of-00003.gguf")),
        3,
        &format!(
            "shard 2 of 3 is given twice, also as {SHARD}-00002-of-00003.gguf \
             ({SHARD}-00003-of-00003.gguf)"
        ),
        "give each shard once",
    );
}

#[test]
fn a_whole_model_among_shards() {
    let dir = shards("other-model", &[(1, 1), (2, 2)]);
    std::fs::write(shard(&dir, 3, 3), fixture("gguf/llama.gguf")).unwrap();
    fails(
        &mut ask(&dir, &format!("{SHARD}-00001-of-00003.gguf")),
        3,
        &format!("a whole model, not a shard, is among the files ({SHARD}-00003-of-00003.gguf)"),
        "give one whole model, or the shards of one model",
    );
}

#[test]
fn a_shard_of_another_model() {
    // The same shard with another count of tensors: what a model of another size has.
    let dir = shards("other-shard", &[(1, 1), (2, 2)]);
    let mut bytes = std::fs::read(shard(&repository("models/rustdoc-29m"), 3, 3)).unwrap();
    let key = b"split.tensors.count";
    let at = bytes.windows(key.len()).position(|w| w == key).unwrap() + key.len() + 4;
    bytes[at] += 1;
    std::fs::write(shard(&dir, 3, 3), bytes).unwrap();
    let (code, _, stderr) = run(&mut ask(&dir, &format!("{SHARD}-00001-of-00003.gguf")));
    assert_eq!(code, 3);
    let want = format!(
        "they are of different models ({SHARD}-00003-of-00003.gguf)\n\
         hint: give the shards of one model\n"
    );
    assert!(
        stderr.starts_with("error: split.tensors.count is ") && stderr.ends_with(&want),
        "{stderr}"
    );
}

#[test]
fn a_truncated_shard() {
    let dir = shards("truncated", &[(1, 1), (2, 2), (3, 3)]);
    let path = shard(&dir, 2, 3);
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
    let (code, _, stderr) = run(&mut ask(&dir, &format!("{SHARD}-00001-of-00003.gguf")));
    assert_eq!(code, 3);
    let size = bytes.len() - 1;
    assert!(stderr.starts_with(&format!("error: the file ends at byte {size}, ")), "{stderr}");
    let end = format!(
        "({SHARD}-00002-of-00003.gguf, byte {size})\n\
         hint: the file is incomplete; download it again\n"
    );
    assert!(stderr.ends_with(&end), "{stderr}");
}

/// Cases of `malformed.json` that are no fault.
const LOAD: [&str; 2] = ["token-types-missing", "trailing-garbage"];

/// Every recorded way to break a file is exit code 3 with two lines; the exact ones are in
/// `malformed.txt`. `BLESS=1` rewrites it; read what changed.
#[test]
fn each_recorded_fault_gives_its_message() {
    let dir = folder("malformed");
    let mut table = String::new();
    for Case { name, file, .. } in cases(fixture) {
        std::fs::write(dir.join("llama.gguf"), file).unwrap();
        let (code, _, stderr) = run(&mut ask(&dir, "llama.gguf"));
        if LOAD.contains(&name.as_str()) {
            assert_eq!((code, stderr.as_str()), (0, ""), "{name}");
            continue;
        }
        assert_eq!(code, 3, "{name}: {stderr}");
        assert_eq!(stderr.lines().count(), 2, "{name}: {stderr}");
        assert!(stderr.contains("(llama.gguf"), "{name} names no place: {stderr}");
        table += &format!("{name}\n{stderr}");
    }
    as_recorded(&table, &repository("tests/cli/malformed.txt"));
}

#[test]
fn a_file_without_a_tokenizer() {
    let dir = folder("no-tokenizer");
    let mut file = fixture("gguf/llama.gguf");
    let key = b"tokenizer.ggml.tokens";
    let at = file.windows(key.len()).position(|w| w == key).unwrap();
    file[at + key.len() - 1] = b'x';
    std::fs::write(dir.join("llama.gguf"), file).unwrap();
    fails(
        &mut ask(&dir, "llama.gguf"),
        3,
        "the file has no tokenizer (tokenizer.ggml.tokens) (llama.gguf)",
        "use a GGUF that its converter gave a vocabulary",
    );
}
