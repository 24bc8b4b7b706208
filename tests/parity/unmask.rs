//! Masked diffusion against its record: 12 masks behind a prompt, of which each pass makes the likeliest a token.

use super::{json, model, open, repository, run_wider, text};
use rlx_core::Code;
use rlx_core::compare::difference;
use rlx_core::lower::{CANVAS, CTL, PARAMS, ProgramSpec};
use rlx_core::runtime::device::{Submission, Write, WriteTo};
use rlx_core::runtime::generate::engine::{BlockOptions, GenerateOptions};
use rlx_core::runtime::model::{CompiledModel, ModelOptions};
use rlx_core::sample::canvas::{FINISHED, FIXED, Filling, IDS};
use rlx_core::sample::{Control, SampleParams};
use rlx_core::target::Activations;
use rlx_core::text::Message;
use rlx_core::types::DType;
use rlx_native::block_on::block_on;
use rlx_native::devices::DeviceRow;
use rlx_native::generate::{chat_tokens, generate, raw_tokens};
use rlx_native::load::put;
use rlx_native::network::CheckpointFiles;
use serde_json::Value;

fn ids(list: &Value) -> Vec<u32> {
    serde_json::from_value(list.clone()).unwrap()
}

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

/// Logits of the first pass, and what each pass places.
fn passes(case: &Value, row: &DeviceRow, record: &Value) {
    let source = CheckpointFiles::open(&repository(case["model"][0].as_str().unwrap())).unwrap();
    let device = open(row);
    let mut options = ModelOptions::chat(32).with_logits();
    options.context = case["context"].as_u64();
    options.compile.kv = DType::F32;
    options.activations = Activations::F32.into();
    let compiled = CompiledModel::new(&source.checkpoint(), device.target(), &options).unwrap();
    let names: Vec<&str> = compiled.specs.iter().map(|spec| spec.name.as_str()).collect();
    assert_eq!(names, [ProgramSpec::denoise(1).name, "denoise_logits".into()]);
    let (maps, keeps) = (source.maps(), row.keeps_maps);
    let session = put(&compiled, maps, device, keeps, &mut |_, _, _| {}, &mut |_, _| {}).unwrap();
    let prompt = ids(&record["prompt_ids"]);
    let masks = record["n_mask"].as_u64().unwrap() as usize;
    let model = compiled.diffusion.unwrap();
    assert_eq!(u64::from(model.mask), record["mask_token_id"].as_u64().unwrap());
    let filling = Filling { steps: None, threshold: model.threshold, editing: None, post: 0 };
    let mut canvas = filling.whole(model.mask, &prompt, masks, model.block as usize);
    let len = (prompt.len() + masks) as u32;
    let control = Control { len, limit: 99, capacity: model.block as u32, ..Control::default() };
    let state = |name: &str, words: &[u32]| Write {
        to: WriteTo::State(session.state(name).unwrap()),
        offset: 0,
        bytes: bytes(words),
    };
    let params = SampleParams::default().to_words();
    let mut writes =
        vec![state(CTL, &control.to_words()), state(PARAMS, &params), state(CANVAS, &canvas)];
    for (pass, want) in record["unmask"].as_array().unwrap().iter().enumerate() {
        let ticket = session.submit("denoise_logits", &Submission::new(&writes)).unwrap();
        let outputs = block_on(|cx| session.poll(ticket, cx)).unwrap();
        let names = session.outputs("denoise_logits").unwrap();
        let output = |name: &str| {
            let at = names.iter().position(|o| o.name == name).unwrap();
            outputs.values[at].as_chunks::<4>().0
        };
        let said: Vec<u32> = output(CANVAS).iter().map(|b| u32::from_le_bytes(*b)).collect();
        let changed: Vec<usize> = (IDS..said.len()).filter(|&i| said[i] != canvas[i]).collect();
        let at = IDS + want["position"].as_u64().unwrap() as usize;
        assert_eq!((changed, u64::from(said[at])), (vec![at], want["token"].as_u64().unwrap()));
        assert_eq!((said[FIXED], said[FINISHED]), (1, u32::from(pass + 1 == masks)));
        if pass == 0 {
            let logits = output("logits").iter().map(|b| f32::from_le_bytes(*b)).collect();
            first_step(case, row, record, &prompt, logits);
        }
        canvas = said;
        writes.clear();
    }
    assert_eq!(canvas[IDS..][..len as usize], ids(&record["final_ids"]));
}

fn first_step(case: &Value, row: &DeviceRow, record: &Value, prompt: &[u32], logits: Vec<f32>) {
    let (first, vocab) = (&record["first_step"], 600);
    let of = |position: usize| &logits[position * vocab..][..vocab];
    let mut got = Vec::new();
    let mut want: Vec<f64> = Vec::new();
    let mut top = |position: usize, pairs: &Value| {
        for pair in pairs.as_array().unwrap() {
            got.push(of(position)[pair[0].as_u64().unwrap() as usize]);
            want.push(pair[1].as_f64().unwrap());
        }
    };
    let positions = ids(&first["masked_positions"]);
    assert_eq!(positions[0] as usize, prompt.len());
    for (position, pairs) in positions.iter().zip(first["top5"].as_array().unwrap()) {
        top(*position as usize, pairs);
    }
    top(0, &first["top5_first_prompt_position"]);
    let last: Vec<f64> = serde_json::from_value(first["logits_last_position"].clone()).unwrap();
    got.extend(of(*positions.last().unwrap() as usize));
    want.extend(last);
    let worst = difference(&got, &want).relative();
    let tolerance = case["tolerance"].as_f64().unwrap();
    println!("  {worst:.2e} of the largest, {tolerance:.0e} allowed");
    assert!(worst <= tolerance, "{} on {}: {worst:.3e}", text(case, "name"), row.name);
}

/// The record's passes, and the same answer of the engine: in a longer context and in one that it fills.
fn unmask(case: &Value, row: &DeviceRow) {
    let record = json(text(case, "expected"));
    passes(case, row, &record);
    let (prompt, all) = (ids(&record["prompt_ids"]), ids(&record["final_ids"]));
    let masks = all.len() - prompt.len();
    for context in [case["context"].as_u64().unwrap(), all.len() as u64] {
        let mut case = case.clone();
        case["context"] = context.into();
        let mut model = model(&case, row, false);
        assert_eq!(raw_tokens(&model, text(&record, "prompt")), prompt);
        let mut answer = |blocks: BlockOptions, max_tokens: Option<usize>| {
            let options = GenerateOptions {
                max_tokens,
                ignore_stops: true,
                blocks,
                ..GenerateOptions::default()
            };
            generate(&mut model, prompt.clone(), &options, &|| false, &mut |_| Ok(()))
        };
        let plain = BlockOptions::default();
        let got = answer(plain, Some(masks)).unwrap();
        assert_eq!(got.tokens, all[prompt.len()..], "{}", row.name);
        // Passes over all masks, spread over fewer steps.
        let spread = answer(BlockOptions { steps: Some(5), ..plain }, Some(masks)).unwrap();
        assert_eq!(spread.passes, [3, 3, 2, 2, 2]);
        let rest = context as usize - prompt.len();
        if rest == masks {
            assert_eq!(
                answer(plain, None).unwrap().tokens,
                got.tokens,
                "as many as there is room for"
            );
        }
        let e = answer(plain, Some(rest + 1)).err().unwrap();
        assert_eq!(e.code, Code::ContextFull, "{e}");
        let e = answer(BlockOptions { editing_threshold: Some(0.5), ..plain }, Some(1));
        assert_eq!(e.err().unwrap().hint, "leave editing_threshold out");
    }
    chats(&model(case, row, false), &record);
}

/// The record's renderings, as tokens.
fn chats(model: &rlx_native::load::Model, record: &Value) {
    let mut n = 0;
    for case in record["chat"]["cases"].as_array().unwrap() {
        let messages = serde_json::from_value::<Vec<Message>>(case["messages"].clone());
        // Those with options or tools are in the tests of templates.
        let plain = case["options"].as_object().is_none_or(|o| {
            o.len() == 1 && o.get("add_generation_prompt") == Some(&Value::Bool(true))
        });
        if let (Ok(messages), true, Some(_)) = (messages, plain, case.get("ids")) {
            assert_eq!(chat_tokens(model, &messages).unwrap(), ids(&case["ids"]), "{case}");
            n += 1;
        }
    }
    assert!(n > 0, "no rendering was compared");
}

#[test]
fn reference_unmasks_what_llama_cpp_unmasks() {
    run_wider("unmask", "reference", unmask);
}

#[test]
fn cpu_unmasks_what_llama_cpp_unmasks() {
    run_wider("unmask", "cpu", unmask);
}

#[test]
#[ignore = "minutes on a GPU in software: npm test -- --only wide"]
fn webgpu_unmasks_what_llama_cpp_unmasks() {
    run_wider("unmask", "webgpu", unmask);
}
