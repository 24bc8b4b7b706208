//! `rlx inspect` of what `rlx graph` opens: encoders, graphs, and a language model's entry `logits`.

use super::{SMALL, fails, folder, repository, rlx, run};
use rlx_core::reference::device::ReferenceDevice;
use rlx_core::runtime::session::TensorRef;
use rlx_core::target::CompileOptions;
use rlx_core::types::DType;
use rlx_native::devices::find;
use rlx_native::network::{self, CheckpointFiles, Network};
use serde_json::{Value, json};
use std::sync::Arc;

const BERT: &str = "tests/fixtures/bert/bert.gguf";
const NOMIC: &str = "tests/fixtures/nomic_bert/nomic-bert.gguf";
const BLOCKS: &str = "tests/fixtures/graphs/bert.hir";

#[track_caller]
fn text(args: &[&str]) -> String {
    let (code, stdout, stderr) = run(rlx(&["inspect"]).args(args));
    assert_eq!((code, stderr.as_str()), (0, ""), "{args:?}");
    stdout
}

#[track_caller]
fn said(args: &[&str]) -> Value {
    serde_json::from_str(&text(&[args, &["--json"]].concat())).unwrap()
}

#[test]
fn encoders_are_printed_at_every_stage_for_every_target() {
    for model in [BERT, NOMIC] {
        assert!(text(&[model]).starts_with(model), "the file");
        assert!(text(&[model, "--stage", "hir"]).starts_with("module @"));
        for target in ["reference", "cpu", "webgpu"] {
            let of = |more: &[&str]| text(&[&[model, "--target", target], more].concat());
            let mir = of(&["--stage", "mir"]);
            assert!(mir.starts_with("func @") && !mir.contains("SEQ"), "{mir}");
            let lir = of(&["--stage", "lir"]);
            assert!(lir.starts_with(&format!("// {target} buffer=")), "{lir}");
            assert!(lir.contains("\n// entry encode BATCH=1 SEQ="), "{lir}");
            assert!(of(&["--stage", "fusion"]).contains("0 missed"), "{target}");
            assert!(of(&["--stage", "dispatch"]).contains("matmul"), "{target}");
            assert!(of(&["--timing"]).contains("legalise"), "{target}");
            let lowered = of(&["--stop-after", "lower", "--size", "SEQ=7"]);
            assert!(lowered.starts_with("func @") && lowered.contains("1x7x"), "{lowered}");
        }
    }
}

#[test]
fn sizes_and_options_choose_the_program() {
    let lir = |more: &[&str]| said(&[&[BERT, "--stage", "lir"], more].concat());
    let usual = lir(&[]);
    assert_eq!((&usual["entry"], &usual["sizes"]["BATCH"]), (&"encode".into(), &1.into()));
    let longer = lir(&["--size", "BATCH=3", "--size", "SEQ=9"]);
    assert_eq!(longer["sizes"], json!({ "BATCH": 3, "SEQ": 9 }));
    assert_ne!(longer["fingerprint"], usual["fingerprint"]);
    assert_eq!(longer["weight_bytes"], lir(&["--size", "SEQ=9"])["weight_bytes"]);
    assert_eq!(said(&[BERT, "--stage", "hir"])["entry"], "encode");
    let mir = said(&[BERT, "--stage", "mir", "--size", "SEQ=9"]);
    assert!(mir["nodes"].as_u64() <= mir["nodes_lowered"].as_u64());
    // A language model, asked as `rlx graph` asks it.
    let logits = said(&[SMALL, "--stage", "lir", "--entry", "logits", "--size", "SEQ=5"]);
    assert_eq!((&logits["entry"], &logits["sizes"]), (&"logits".into(), &json!({ "SEQ": 5 })));
    assert!(logits["state_bytes"].as_u64().unwrap() > 0);
    let short = ["--entry", "logits", "--context", "16", "--stage", "lir"];
    assert_eq!(said(&[&[SMALL], &short[..]].concat())["sizes"]["SEQ"], 16);
}

#[test]
fn a_graphs_text_is_printed_and_its_arena_drawn() {
    let folder = folder("inspect-graph");
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    assert!(text(&[BLOCKS, "--stage", "hir"]).starts_with("module @bert "));
    let svg = path("plan.svg");
    assert_eq!(text(&[BLOCKS, "--plan", &svg]), "", "only the picture");
    assert!(std::fs::read_to_string(&svg).unwrap().starts_with("<svg"));
    let mir = text(&[BLOCKS, "--stage", "mir", "--size", "SEQ=4"]);
    assert!(mir.contains("1x4"), "{mir}");
    // What it prints is a graph again, now of one size.
    let graph = path("bert.mir");
    std::fs::write(&graph, &mir).unwrap();
    assert!(text(&[&graph, "--stage", "mir"]).starts_with("func @bert {"));
    fails(
        &mut rlx(&["inspect", &graph, "--stage", "hir"]),
        2,
        "this graph is written in operators: it has no blocks",
        "take --stage mir",
    );
}

#[test]
fn a_transformers_folder_is_printed() {
    let file = said(&["tests/fixtures/llama32"]);
    assert_eq!(file["files"], json!(["tests/fixtures/llama32/model.safetensors"]));
    assert!(file["tensors"].as_array().unwrap().len() > 3);
    assert_eq!(file["metadata"]["model_type"], "llama");
    assert!(text(&["tests/fixtures/llama32"]).contains("\nmodel_type = \"llama\"\n"));
    assert!(text(&["tests/fixtures/llama32", "--stage", "lir"]).contains("// needs "));
    let lir = said(&["tests/fixtures/llama32", "--stage", "lir", "--entry", "logits"]);
    assert_eq!(lir["entry"], "logits");
}

/// A transformers folder of a BERT of one layer, whose weights are 0; it takes texts of 12 tokens.
fn bert_folder(name: &str) -> String {
    let mut tensors: Vec<(String, Vec<u64>)> = Vec::new();
    let mut add = |name: String, dims: &[u64]| tensors.push((name, dims.to_vec()));
    for (table, rows) in [("word", 30), ("position", 12), ("token_type", 2)] {
        add(format!("embeddings.{table}_embeddings.weight"), &[rows, 16]);
    }
    for (part, dims) in [
        ("encoder.layer.0.attention.self.query", &[16, 16]),
        ("encoder.layer.0.attention.self.key", &[16, 16]),
        ("encoder.layer.0.attention.self.value", &[16, 16]),
        ("encoder.layer.0.attention.output.dense", &[16, 16]),
        ("encoder.layer.0.intermediate.dense", &[24, 16]),
        ("encoder.layer.0.output.dense", &[16, 24]),
        ("pooler.dense", &[16, 16]),
    ] {
        add(format!("{part}.weight"), dims);
        add(format!("{part}.bias"), &dims[..1]);
    }
    for part in ["embeddings", "encoder.layer.0.attention.output", "encoder.layer.0.output"] {
        add(format!("{part}.LayerNorm.weight"), &[16]);
        add(format!("{part}.LayerNorm.bias"), &[16]);
    }
    let (mut header, mut at) = (serde_json::Map::new(), 0);
    for (name, dims) in tensors {
        let end = at + 4 * dims.iter().product::<u64>();
        let row = json!({ "dtype": "F32", "shape": dims, "data_offsets": [at, end] });
        header.insert(name, row);
        at = end;
    }
    let header = Value::from(header).to_string();
    let head = (header.len() as u64).to_le_bytes();
    let config = json!({
        "model_type": "bert", "architectures": ["BertModel"], "hidden_act": "gelu",
        "hidden_size": 16, "intermediate_size": 24, "layer_norm_eps": 1e-12,
        "max_position_embeddings": 12, "num_attention_heads": 2, "num_hidden_layers": 1,
        "type_vocab_size": 2, "vocab_size": 30,
    });
    let folder = folder(name);
    let file = [&head[..], header.as_bytes(), &vec![0; at as usize]].concat();
    std::fs::write(folder.join("model.safetensors"), file).unwrap();
    std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
    folder.to_str().unwrap().to_owned()
}

#[test]
fn a_transformers_folder_of_an_encoder_is_printed() {
    let bert = bert_folder("inspect-bert");
    let file = said(&[&bert]);
    assert_eq!(file["metadata"]["max_position_embeddings"], 12);
    assert_eq!(file["types"]["f32"]["tensors"], 23);
    let lir = said(&[&bert, "--stage", "lir"]);
    assert_eq!(
        (&lir["entry"], &lir["sizes"]),
        (&"encode".into(), &json!({ "BATCH": 1, "SEQ": 12 }))
    );
    assert!(text(&[&bert, "--stage", "hir"]).starts_with("module @bert"));
}

#[test]
fn what_makes_no_sense_for_a_network_is_said_with_what_to_do() {
    let refused = |args: &[&str], what: &str, hint: &str| {
        fails(rlx(&["inspect"]).args(args), 2, what, hint);
    };
    refused(
        &[BERT, "--stage", "lir", "--phase", "decode"],
        "--phase is for the programs in which a language model generates text",
        "an entry has a program for every set of sizes: give them with --size, as in --size SEQ=64",
    );
    refused(
        &[SMALL, "--stage", "lir", "--phase", "decode", "--entry", "logits"],
        "--phase is for the programs in which a language model generates text",
        "give either --entry or --phase",
    );
    for option in [["--kv", "f16"], ["--context", "64"]] {
        refused(
            &[&[BERT, "--stage", "lir"], &option[..]].concat(),
            "it has no caches: --kv and --context are for language models",
            "what it reads has sizes, as in --size SEQ=64",
        );
    }
    refused(
        &[SMALL, "--stage", "lir", "--size", "SEQ=4"],
        "--size is for an entry; a program of --phase has its sizes",
        "name the entry: --entry logits",
    );
    refused(
        &[BERT, "--stage", "lir", "--size", "SEQQ=4"],
        "the entry encode has no size SEQQ",
        "its sizes: BATCH, SEQ",
    );
    for size in ["SEQ", "SEQ=", "SEQ=0", "SEQ=-1"] {
        refused(
            &[BERT, "--stage", "lir", "--size", size],
            &format!("--size {size} is no name and number"),
            "write --size NAME=N, as in --size SEQ=64",
        );
    }
    refused(
        &[BERT, "--stage", "lir", "--entry", "logits"],
        "the model has no entry logits",
        "entries: encode",
    );
    refused(
        &[BLOCKS],
        "a graph's text has no metadata and no tensors of its own",
        "choose a stage: --stage hir, mir, lir, fusion or dispatch",
    );
    refused(
        &[BERT, "--weights", SMALL],
        "--weights is for a graph's text; a model has its own",
        "see `rlx --help`",
    );
    fails(
        &mut rlx(&["inspect", BLOCKS, "--stage", "lir", "--size", "SEQ=4"]),
        3,
        "tensor tokens is missing",
        "give the file that has it with --weights",
    );
    let graph = folder("inspect-sizes").join("a.mir");
    let rows = "func @rows {\n  input %x : tensor<ROWSxCOLUMNSxf32>\n  %0 = map %x {f = relu} -> \
                tensor<ROWSxCOLUMNSxf32> // y\n  return y = %0\n}\n";
    std::fs::write(&graph, rows).unwrap();
    refused(
        &[graph.to_str().unwrap(), "--stage", "lir", "--size", "ROWS=3"],
        "the entry rows has sizes without a usual value",
        "give them: --size COLUMNS=N",
    );
}

#[test]
fn the_program_is_the_one_that_a_session_runs() {
    let files = CheckpointFiles::open(&repository(BERT)).unwrap();
    let (bert, _) = Network::of(files.checkpoint(), files.maps(), None).unwrap();
    let device = Arc::new(ReferenceDevice::new());
    let options = CompileOptions::default();
    let row = find("reference").unwrap();
    let mut session = bert.open(row, device, &options, &mut |_, _| {}).unwrap();
    let (zeros, ones) = (vec![0; 16], 1u32.to_le_bytes().repeat(4));
    let tensor = |bytes| TensorRef { dtype: DType::U32, dims: &[1, 4], bytes };
    let inputs = [
        ("input_ids", tensor(&zeros)),
        ("attention_mask", tensor(&ones)),
        ("token_type_ids", tensor(&zeros)),
    ];
    network::run(&mut session, "encode", &inputs).unwrap();
    let ran = session.programs().next().unwrap().1;
    let args = [BERT, "--stage", "lir", "--target", "reference", "--size", "SEQ=4"];
    assert_eq!(said(&args)["fingerprint"], format!("{:016x}", ran.fingerprint));
    let printed = text(&args);
    assert!(printed.ends_with(&ran.to_string()), "with the weights' places");
}
