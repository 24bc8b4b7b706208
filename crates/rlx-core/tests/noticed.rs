//! What small defects went through every other test: found by `npm run mutants`, noticed here.

use crate::load::{Hand, fill};
use rlx_core::gguf::{self, Array, HeaderReader, ModelFiles, TensorSpec, Value, Writer};
use rlx_core::ir::hir::{LinearWeights, Module, Weight};
use rlx_core::ir::mir::Graph;
use rlx_core::ir::parse::parse;
use rlx_core::models::{self, Checkpoint};
use rlx_core::passes::{Context, fold, simplify};
use rlx_core::plan::check::check;
use rlx_core::plan::replay::{ReplayMemory, replay};
use rlx_core::plan::{WeightPlan, at_run, plan, plan_bounded};
use rlx_core::reference::device::ReferenceDevice;
use rlx_core::reference::interpret;
use rlx_core::runtime::device::{Bytes, Device, Ticket};
use rlx_core::runtime::generate::engine::{Engine, GenerateOptions, Generation, Progress};
use rlx_core::runtime::generate::machine::{Action, Event, Machine, Reason, Request};
use rlx_core::runtime::model::{CompiledModel, ModelOptions};
use rlx_core::runtime::session::Opening;
use rlx_core::runtime::session::load::placements;
use rlx_core::sample::{Control, Likely, LogProb, SampleParams, Scratch, params, philox, sample};
use rlx_core::target::{CompileOptions, Target};
use rlx_core::text::{ChatTemplate, Message, RenderOptions, Special, Tokenizer, VocabData, words};
use rlx_core::types::{Binding, BlockFormat, DType, Dim, DimBinding, Scalar, Shape, Type};
use rlx_core::{Result, formats, safetensors};
use std::sync::Arc;
use std::task::{Context as Waiting, Poll, Waker};

// Sampling.

fn hot() -> SampleParams {
    SampleParams { temperature: 1.0, seed: 7, ..SampleParams::default() }
}

fn sample_at(logits: &[f32], params: &SampleParams, past: u32) -> u32 {
    let mut control = Control { past, limit: 1 << 30, capacity: u32::MAX, ..Control::default() };
    sample(logits, &params.to_words(), &mut [], &mut control, &mut Scratch::default())
}

/// Every id that some positions give, in order.
fn support(logits: &[f32], params: &SampleParams) -> Vec<u32> {
    let mut ids: Vec<u32> = (0..300).map(|p| sample_at(logits, params, p)).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

#[test]
fn a_token_of_exactly_the_least_probability_is_kept() {
    // Half a step of distance beyond an octave: the weight is exactly half of the best one's.
    let logits = [0.0, -0.693_152];
    let params = SampleParams { min_p: 0.5, ..hot() };
    assert_eq!(params.to_words()[params::MIN_P], 1 << 30);
    assert_eq!(support(&logits, &params), [0, 1]);
}

#[test]
fn logits_of_infinity_are_drawn_from() {
    let logits = [f32::INFINITY, 1.0, f32::INFINITY];
    assert_eq!(support(&logits, &hot()), [0, 2]);
}

#[test]
fn a_draw_takes_the_first_token_whose_sum_exceeds_its_share() {
    // 2^21 equal tokens of weight 2^31: the share is the random word times 2^20, so that every 2^11th
    // word is a sum of whole tokens.
    let logits = vec![0.0f32; 1 << 21];
    let params = hot();
    let key = [params.seed as u32, (params.seed >> 32) as u32];
    let word = |position: u32| philox::philox4x32_10([position, 0, 0, 0], key)[0];
    let position = (1..).find(|&p| word(p).is_multiple_of(1 << 11)).unwrap();
    assert_eq!(sample_at(&logits, &params, position), word(position) >> 11);
}

#[test]
fn probabilities_are_rounded_to_31_bits() {
    for p in [0.001f32, 0.0013, 0.0027, 1e-5] {
        let exact = f64::from(p) * f64::from(1u32 << 31);
        let words = SampleParams { top_p: p, min_p: p, ..hot() }.to_words();
        assert_eq!(words[params::TOP_P], exact.round() as u32, "{p}");
        assert_eq!(words[params::MIN_P], exact.round() as u32, "{p}");
    }
    let cut = |p: f32| (f64::from(p) * f64::from(1u32 << 31)).fract() > 0.5;
    assert!(cut(0.001) || cut(0.0013) || cut(0.0027), "none of them is rounded up");
}

// Text.

/// A tokenizer of these tokens; those in angle brackets, and `§`, are control tokens.
fn tokenizer(
    pre: &str,
    tokens: &[&str],
    merges: &[&str],
    change: impl Fn(&mut VocabData),
) -> Tokenizer {
    let control = |t: &&str| t.starts_with('<') || **t == *"§";
    let mut data = VocabData {
        model: "gpt2".into(),
        pre: pre.into(),
        tokens: tokens.iter().map(|t| t.to_string()).collect(),
        token_types: Some(tokens.iter().map(|t| if control(t) { 3 } else { 1 }).collect()),
        merges: merges.iter().map(|m| m.to_string()).collect(),
        ..VocabData::default()
    };
    change(&mut data);
    Tokenizer::new(data).unwrap()
}

#[test]
fn a_family_says_whether_texts_begin_with_a_begin_token_where_the_file_does_not() {
    for (pre, begins) in [("llama-bpe", true), ("gpt-2", false)] {
        let t = tokenizer(pre, &["a", "<s>"], &[], |data| data.bos = Some(1));
        assert_eq!(t.encode_document("a", Special::Parse).len(), 1 + usize::from(begins), "{pre}");
        for said in [true, false] {
            let t = tokenizer(pre, &["a", "<s>"], &[], |data| {
                (data.bos, data.add_bos) = (Some(1), Some(said));
            });
            assert_eq!(t.add_bos(), said, "{pre}");
        }
    }
}

#[test]
fn a_word_that_is_a_token_is_that_token_where_the_family_ignores_merges() {
    let tokens = ["a", "b", "ab"];
    let of = |pre| tokenizer(pre, &tokens, &[], |_| {}).encode("ab", Special::Parse);
    assert_eq!(of("llama-bpe"), [2]);
    assert_eq!(of("gpt-2"), [0, 1]);
}

#[test]
fn of_special_tokens_that_begin_alike_the_longest_is_found() {
    for tokens in [["<x", "<xy>", ">"], ["<xy>", "<x", ">"]] {
        let t = tokenizer("gpt-2", &tokens, &[], |_| {});
        let whole = tokens.iter().position(|t| *t == "<xy>").unwrap() as u32;
        assert_eq!(t.encode("<xy>", Special::Parse), [whole]);
        let template = ChatTemplate::new(Some("{{ '<xy>' }}"), &t).unwrap();
        let rendered = template.render(&[], &RenderOptions::default()).unwrap();
        assert_eq!(rendered.segments.len(), 1, "{:?}", rendered.segments);
        assert_eq!((rendered.text().as_str(), rendered.segments[0].literal), ("<xy>", false));
    }
}

#[test]
fn a_control_token_of_one_character_in_content_is_text() {
    let t = tokenizer("gpt-2", &["a", "§"], &[], |_| {});
    let template = ChatTemplate::new(Some("§{{ messages[0].content }}§"), &t).unwrap();
    for content in ["a§a", "§", "a§", "§§a"] {
        let turn = [Message::new("user", content)];
        let rendered = template.render(&turn, &RenderOptions::default()).unwrap();
        assert_eq!(rendered.text(), format!("§{content}§"));
        let controls = rendered.segments.iter().filter(|s| !s.literal).count();
        assert_eq!(controls, 2, "{content}: {:?}", rendered.segments);
    }
}

#[test]
fn a_few_bytes_of_a_control_token_in_content_are_never_completed() {
    let t = tokenizer("gpt-2", &["a", "<|im_end|>"], &[], |_| {});
    for (content, source) in [
        // Three bytes, cut out of the middle.
        ("a<|ib", "{{ messages[0].content.split('b')[0] }}m_end|>"),
        // Two and one at the end, behind which there were blanks.
        ("a<| \n ", "{{ messages[0].content | trim }}im_end|>"),
        ("a<\t", "{{ messages[0].content | trim }}|im_end|>"),
    ] {
        let template = ChatTemplate::new(Some(source), &t).unwrap();
        let turn = [Message::new("user", content)];
        let rendered = template.render(&turn, &RenderOptions::default()).unwrap();
        assert_eq!(rendered.text(), "a<|im_end|>", "{source}");
        assert!(rendered.segments.iter().all(|s| s.literal), "{source}: {:?}", rendered.segments);
    }
}

#[test]
fn the_end_of_a_message_ends_an_answer() {
    let t = tokenizer("gpt-2", &["a", "<end>", "<turn>", "<message>"], &[], |data| {
        (data.eos, data.eot, data.eom) = (Some(1), Some(2), Some(3));
    });
    assert_eq!(t.eog(), [1, 2, 3]);
    assert!((1..4).all(|id| t.is_eog(id)) && !t.is_eog(0));
}

#[test]
fn a_contraction_is_cut_in_any_case_of_either_letter() {
    for ll in ["'ll", "'LL", "'lL", "'Ll"] {
        assert_eq!(words("llama-bpe", &format!("we{ll}ama")).unwrap(), ["we", ll, "ama"]);
    }
}

// Files.

fn pair(key: &str, value: Value) -> (String, Value) {
    (key.to_string(), value)
}

/// What reading these bytes says, for a file that is said to have `size`.
fn refusal(bytes: &[u8], size: usize) -> String {
    let mut reader = HeaderReader::new("f", Some(size as u64));
    let end = reader.push(&bytes[..size.min(bytes.len())]).and_then(|_| reader.eof());
    end.unwrap_err().to_string()
}

#[test]
fn an_array_or_a_string_that_ends_a_byte_past_the_file_is_named() {
    let array = Value::Array(Array::U32(vec![1, 2, 3]));
    let file = Writer::new(&[pair("a", array)], &[]).unwrap();
    // Magic, version, counts; the key; types of the value and of elements, their number; elements.
    let end = 24 + 9 + 4 + 12 + 12;
    let said = refusal(file.header(), end - 1);
    assert!(said.contains("the 3 elements of array a run past the end of the file"), "{said}");
    let file = Writer::new(&[pair("s", Value::String("abc".into()))], &[]).unwrap();
    let said = refusal(file.header(), 24 + 9 + 4 + 8 + 3 - 1);
    assert!(said.contains("the string s has 3 bytes and runs past the end of the file"), "{said}");
}

#[test]
fn tensors_that_share_one_byte_are_named() {
    let tensor = |name: &str, scalar, n| TensorSpec {
        name: name.into(),
        dtype: DType::Scalar(scalar),
        dims: vec![n],
    };
    let specs = [tensor("a", Scalar::I8, 33), tensor("b", Scalar::F32, 8)];
    let file = Writer::new(&[], &specs).unwrap();
    let mut bytes = file.header().to_vec();
    bytes.resize(file.file_bytes() as usize, 0);
    let mut reader = HeaderReader::new("f", Some(bytes.len() as u64));
    assert_eq!(reader.push(&bytes).unwrap(), gguf::Progress::Done);
    let at = reader.header().unwrap().tensor("b").unwrap().offset_at() as usize;
    // Where the aligned 33 bytes of `a` have one byte left.
    bytes[at..at + 8].copy_from_slice(&32u64.to_le_bytes());
    let said = refusal(&bytes, bytes.len());
    assert!(said.contains("the data of b overlaps the data of a"), "{said}");
}

#[test]
fn a_safetensors_tensor_of_more_bytes_than_its_shape_is_named() {
    for (end, what) in [(1, "its data has 1 bytes"), (3, "its data has 3 bytes")] {
        let json = format!(r#"{{"a":{{"dtype":"U8","shape":[2],"data_offsets":[0,{end}]}}}}"#);
        let mut bytes = (json.len() as u64).to_le_bytes().to_vec();
        bytes.extend(json.bytes());
        bytes.resize(bytes.len() + end, 0);
        let mut reader = safetensors::HeaderReader::new("f", Some(bytes.len() as u64));
        let said = reader.push(&bytes).unwrap_err().to_string();
        assert!(said.contains(what), "{said}");
    }
}

#[test]
fn key_heads_that_do_not_divide_the_query_heads_are_refused() {
    let numbers = [
        ("llama.attention.head_count", 4),
        ("llama.attention.head_count_kv", 3),
        ("llama.embedding_length", 32),
        ("llama.block_count", 1),
        ("llama.feed_forward_length", 64),
        ("llama.context_length", 128),
    ];
    let mut pairs = vec![pair("general.architecture", Value::String("llama".into()))];
    pairs.extend(numbers.map(|(key, n)| pair(key, Value::U32(n))));
    pairs.push(pair("llama.attention.layer_norm_rms_epsilon", Value::F32(1e-5)));
    let table =
        TensorSpec { name: "token_embd.weight".into(), dtype: DType::F32, dims: vec![8, 32] };
    let file = Writer::new(&pairs, &[table]).unwrap();
    let mut reader = HeaderReader::new("f", Some(file.file_bytes()));
    reader.push(file.header()).unwrap();
    let files = ModelFiles::new(vec![reader.into_header().unwrap()]).unwrap();
    let opened = models::open(&Checkpoint::gguf(&files)).map(|_| ());
    let said = opened.unwrap_err().to_string();
    assert!(said.contains("3 key heads do not divide 4 query heads"), "{said}");
}

// Formats.

#[test]
fn of_two_largest_magnitudes_the_first_decides_the_sign() {
    for first in [3.0f32, -3.0] {
        let mut x = [0.5f32; 256];
        (x[7], x[200]) = (first, -first);
        let mut block = [0u8; 292];
        formats::activations::encode_q8_k(&x, &mut block).unwrap();
        let d = f32::from_le_bytes(block[..4].try_into().unwrap());
        assert_eq!(d.is_sign_negative(), first > 0.0, "the first becomes -127");
        assert_eq!((block[4 + 7] as i8, block[4 + 200] as i8), (-127, 127));
        assert_eq!(BlockFormat::Q8K.bytes(), block.len());
    }
}

// Sizes and plans.

#[test]
fn a_difference_that_leaves_nothing_is_an_error() {
    let size = Dim::parse("SEQ-2").unwrap();
    let bind = |n| size.bind(&Binding::from_pairs(&[("SEQ", n)]));
    assert_eq!(bind(3).unwrap().as_static(), Some(1));
    for n in [2, 1] {
        let said = bind(n).unwrap_err().to_string();
        assert!(said.contains("a size of SEQ-2"), "{said}");
    }
}

fn graph(text: &str) -> Graph {
    parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn weights_of(text: &str, places: &[(&str, u64, u64)]) -> WeightPlan {
    let (target, options) = (Target::reference(), CompileOptions::default());
    let program = plan(graph(text), &[], &target, &options).unwrap();
    let find = |name: &str| places.iter().find(|p| p.0 == name).map(|p| (0, p.1, p.2));
    WeightPlan::new(&[&program], &target.limits, find).unwrap()
}

#[test]
fn buffers_of_weights_are_whole_words() {
    let plan = weights_of(
        "func @f {
  weight %w : tensor<1x32xq8_0>
  input %x : tensor<1x32xf32>
  %0 = matmul %x, %w -> tensor<1x1xf32>
  return y = %0
}
",
        &[("w", 64, 34)],
    );
    assert_eq!(plan.buffers.iter().map(|b| b.bytes).collect::<Vec<_>>(), [36]);
}

#[test]
fn a_tensor_inside_another_has_a_place_of_its_own_where_it_does_not_lie_at_a_multiple_of_8() {
    for (n, own) in [(3, true), (4, false)] {
        let text = format!(
            "func @f {{
  weight %a : tensor<{n}xf32>
  weight %b : tensor<{n}xf32>
  input %x : tensor<{two}xf32>
  input %z : tensor<{n}xf32>
  %0 = concat %a, %b {{axis = 0}} -> tensor<{two}xf32>
  %1 = zip %x, %0 {{f = add}} -> tensor<{two}xf32>
  %2 = zip %z, %b {{f = add}} -> tensor<{n}xf32>
  return y = %1, u = %2
}}
",
            two = 2 * n
        );
        let bytes = 4 * n;
        let plan = weights_of(&text, &[("a", 64, bytes), ("b", 1024, bytes)]);
        let (entry, offset) = plan.locate("b").unwrap();
        assert_eq!(plan.entry("b").is_some(), own, "{:?}", plan.entries);
        assert_eq!(offset, if own { 0 } else { bytes });
        assert_eq!(plan.entries[entry].bytes, if own { bytes } else { 2 * bytes });
    }
}

/// Plans `text` for `SEQ` of at most `most`, and proves the runs of all of `sizes`.
fn proven(text: &str, most: u64, sizes: &[u64]) {
    let (g, target, options) = (graph(text), Target::reference(), CompileOptions::default());
    let bounds = Binding::from_pairs(&[("SEQ", most)]);
    let mut program = plan_bounded(g.clone(), &bounds, &[], &target, &options).unwrap();
    let weights =
        WeightPlan::new(&[&program], &target.limits, |_| None::<(u32, u64, u64)>).unwrap();
    weights.bind(&mut program).unwrap();
    for &seq in sizes {
        let size = Binding::from_pairs(&[("SEQ", seq)]);
        let now = at_run(&program, &size).unwrap();
        check(&now, &weights, &target.limits).unwrap_or_else(|e| panic!("{seq}: {e}\n{now}"));
        let g = g.specialize("f", &size).unwrap();
        let bytes = g.ty(g.params[0].value).bytes().unwrap();
        let x: Vec<u8> = (0..bytes / 4).flat_map(|i| (i as f32 / 9.0).to_le_bytes()).collect();
        let mut memory = ReplayMemory::of(&now);
        memory.inputs[0].clone_from(&x);
        let got = replay(&now, &[], &mut memory).unwrap_or_else(|e| panic!("{seq}: {e}\n{now}"));
        assert!(got == interpret(&g, &[&x]).unwrap().outputs, "{seq}\n{now}");
    }
}

#[test]
fn a_view_of_a_smaller_run_begins_where_its_rows_end() {
    proven(
        "func @f {
  input %x : tensor<SEQx8xf32>
  %0 = map %x {f = tanh} -> tensor<SEQx8xf32>
  %1 = slice %0 {axis = 0, start = SEQ-1, len = 1} -> tensor<1x8xf32>
  %2 = map %1 {f = exp} -> tensor<1x8xf32>
  return y = %2
}
",
        7,
        &[7, 3, 2],
    );
}

#[test]
fn a_size_that_is_larger_below_the_bound_has_its_room() {
    // At the bound it is one row, at 9 four.
    proven(
        "func @f {
  input %x : tensor<SEQx16xf32>
  %0 = slice %x {axis = 0, start = 0, len = mod(SEQ,5)} -> tensor<mod(SEQ,5)x16xf32>
  %1 = map %0 {f = tanh} -> tensor<mod(SEQ,5)x16xf32>
  %2 = map %x {f = exp} -> tensor<SEQx16xf32>
  return y = %1, z = %2
}
",
        11,
        &[11, 9, 4],
    );
}

// Passes.

fn passed(pass: fn(&mut Graph, &mut Context<'_>) -> Result<usize>, g: &mut Graph) -> usize {
    let (target, options) = (Target::reference(), CompileOptions::default());
    pass(g, &mut Context::new(&target, &options)).unwrap()
}

#[test]
fn constants_that_folding_used_up_do_not_count_towards_the_most_bytes() {
    // 80 times a mebibyte that a sum makes one number of: never more than one at a time.
    let mut text = String::from(
        "func @f {\n  %c = constant {type = f32, dims = [1], values = [1.0]} -> tensor<1xf32>\n",
    );
    let mut returned = Vec::new();
    for i in 0..80 {
        text += &format!("  %e{i} = expand %c {{dims = [262144]}} -> tensor<262144xf32>\n");
        text += &format!(
            "  %s{i} = reduce %e{i} {{f = sum, axes = [0], keep = false}} -> tensor<f32>\n"
        );
        returned.push(format!("y{i} = %s{i}"));
    }
    text += &format!("  return {}\n}}\n", returned.join(", "));
    let mut g = graph(&text);
    assert_eq!(passed(fold, &mut g), 160);
}

#[test]
fn two_different_turns_are_the_second_of_the_first() {
    let text = "func @f {
  input %x : tensor<2x3x4xf32>
  %0 = transpose %x {perm = [1, 0, 2]} -> tensor<3x2x4xf32>
  %1 = transpose %0 {perm = [0, 2, 1]} -> tensor<3x4x2xf32>
  return y = %1
}
";
    let mut g = graph(text);
    assert!(passed(simplify, &mut g) > 0);
    assert!(g.to_string().contains("transpose %x {perm = [1, 2, 0]} -> tensor<3x4x2xf32>"), "{g}");
}

// Generation.

fn machine(prompt: usize, chunk: usize, ahead: usize, max_tokens: usize) -> Machine {
    let t = tokenizer("gpt-2", &["a", "b"], &[], |_| {});
    let request = Request {
        block: None,
        prompt: vec![0; prompt],
        cached: 0,
        chunk,
        capacity: 100,
        slide: None,
        max_tokens,
        stop_ids: vec![],
        stops: vec![],
        controls: false,
        ahead,
    };
    Machine::new(request, Arc::new(t))
}

/// Submits until the machine waits; how many submissions that were.
fn submissions(m: &mut Machine, next: &mut u32) -> usize {
    let mut n = 0;
    loop {
        match m.next_action() {
            Action::Prefill { .. } | Action::Decode | Action::Denoise { .. } => {
                m.submitted(Ticket(*next));
                *next += 1;
                n += 1;
                assert!(n < 50, "it never waits");
            }
            Action::Emit(_) | Action::Control(_) => {}
            Action::Slide | Action::Await | Action::Done(_) => return n,
        }
    }
}

#[test]
fn no_more_submissions_are_in_flight_than_the_window_has() {
    for ahead in [1, 2, 3] {
        let mut m = machine(20, 1, ahead, 20);
        assert_eq!(submissions(&mut m, &mut 0), ahead, "chunks");
    }
    for window in [1, 2, 5] {
        let (mut m, mut next) = (machine(1, 4, 1, 20), 0);
        m.set_window(window);
        assert_eq!(submissions(&mut m, &mut next), window, "the prompt and steps behind it");
        m.feed(Event::Read { ticket: Ticket(0), id: Some(0) });
        assert_eq!(submissions(&mut m, &mut next), 1, "one step for each that answered");
    }
}

#[test]
fn no_step_is_submitted_whose_token_nobody_asked_for() {
    for max_tokens in [1, 2, 5] {
        let (mut m, mut next) = (machine(1, 4, 16, max_tokens), 0);
        submissions(&mut m, &mut next);
        m.feed(Event::Read { ticket: Ticket(0), id: Some(0) });
        submissions(&mut m, &mut next);
        assert_eq!(next as usize, max_tokens, "the prompt's last chunk samples the first");
    }
}

#[test]
fn control_tokens_are_told_by_name_and_release_the_text_before_them() {
    let t = Arc::new(tokenizer("gpt-2", &["a", "b", "<call>", "<end>"], &[], |d| d.eos = Some(3)));
    let actions = |controls: bool| {
        let request = Request {
            block: None,
            prompt: vec![0],
            cached: 0,
            chunk: 4,
            capacity: 100,
            slide: None,
            max_tokens: 9,
            stop_ids: vec![3],
            stops: vec!["ab".into()],
            controls,
            ahead: 1,
        };
        let (mut m, mut next, mut told) = (Machine::new(request, t.clone()), 0, Vec::new());
        submissions(&mut m, &mut next);
        for id in [0, 2, 1, 2, 3] {
            m.feed(Event::Read { ticket: Ticket(next - 1), id: Some(id) });
            loop {
                match m.next_action() {
                    action @ (Action::Emit(_) | Action::Control(_)) => told.push(action),
                    Action::Decode => {
                        m.submitted(Ticket(next));
                        next += 1;
                    }
                    Action::Done(reason) => return (told, reason),
                    _ => break,
                }
            }
        }
        panic!("it goes on");
    };
    let (text, name) = (|t: &str| Action::Emit(t.into()), || Action::Control("<call>".into()));
    assert_eq!(actions(true), (vec![text("a"), name(), text("b"), name()], Reason::Stop));
    // Where nobody asks for them, a stop string reaches across.
    assert_eq!(actions(false), (vec![], Reason::Stop));
}

/// Begins to load a model that is its embeddings onto the oracle.
fn opening() -> (Opening, CompiledModel) {
    let ty = Type::tensor(DType::F32, Shape::of(&[5, 4]));
    let table = Weight { name: "table".into(), ty };
    let mut m = Module::new("small", 16, 5);
    let ids = m.ids();
    let x = m.embedding(ids, table.clone());
    let x = m.out_rows(x);
    m.lm_head(x, LinearWeights { weight: table, bias: None });
    let device: Arc<dyn Device> = Arc::new(ReferenceDevice::new());
    let options = ModelOptions::chat(4);
    let locate = |_: &str| Some((0, 0, 80));
    let compiled = CompiledModel::from_module(m, device.target(), &options, locate).unwrap();
    (Opening::programs(device, &compiled).unwrap(), compiled)
}

fn engine() -> Engine {
    engine_with(&[0.0; 20])
}

fn engine_with(table: &[f32]) -> Engine {
    let tokens = ["a", "b", "c", "d", "<end>"];
    let t = tokenizer("gpt-2", &tokens, &[], |data| data.eos = Some(4));
    let (opening, compiled) = opening();
    let bytes: Vec<u8> = table.iter().flat_map(|x| x.to_le_bytes()).collect();
    let session = fill(opening, &[Arc::new(bytes)], Hand::Kept).unwrap();
    Engine::new(session, Arc::new(compiled), Arc::new(t)).unwrap()
}

#[test]
fn how_likely_each_token_was_is_told_to_who_asks() {
    // Logits are products of rows: the one with the next one and with itself, so that the last wins.
    let mut table = [0.0; 20];
    for row in 0..5 {
        (table[4 * row], table[4 * row + 1]) = (1.0 + row as f32, -(row as f32));
    }
    let asked = |logprobs| GenerateOptions {
        max_tokens: Some(3),
        ignore_stops: true,
        logprobs,
        params: SampleParams { logit_bias: vec![(4, -100.0)], ..SampleParams::default() },
        ..GenerateOptions::default()
    };
    let mut engine = engine_with(&table);
    for asked in [asked(Some(2)), asked(Some(0)), asked(None)] {
        let mut generation = engine.start(vec![1, 2], &asked).unwrap();
        let mut cx = Waiting::from_waker(Waker::noop());
        while !matches!(generation.poll_next(&mut engine, &mut cx), Poll::Ready(None)) {}
        assert_eq!(generation.tokens(), [3, 3, 3]);
        let mut fed = 2;
        for i in 0..3 {
            let Some(n) = asked.logprobs else {
                assert_eq!(generation.likely(i), None);
                continue;
            };
            let logits: Vec<f64> =
                (0..5).map(|id| f64::from((1 + id) * (1 + fed) + id * fed)).collect();
            let all = logits.iter().map(|l| l.exp()).sum::<f64>().ln();
            let Likely { chosen, top } = generation.likely(i).unwrap();
            let near = |got: &LogProb| {
                (f64::from(got.logprob) - (logits[got.id as usize] - all)).abs() < 1e-4
            };
            assert!(chosen.id == 3 && near(chosen), "{chosen:?}");
            // Before biases token 4 is the likeliest.
            assert_eq!(top.iter().map(|t| t.id).collect::<Vec<_>>(), [4, 3][..n]);
            assert!(top.iter().all(near), "{top:?}");
            fed = 3;
        }
    }
    let added = ["prefill_last_logits", "decode_logits"];
    let programs: Vec<&str> = engine.entries().collect();
    assert!(added.iter().all(|name| programs.iter().filter(|p| *p == name).count() == 1));
    assert!(self::engine().entries().all(|name| !added.contains(&name)), "nobody asked");
}

#[test]
fn a_source_that_ends_early_is_an_error_with_the_bytes_that_are_missing() {
    let (mut opening, compiled) = opening();
    let loader = opening.loader();
    let mut cx = Waiting::from_waker(Waker::noop());
    let [p] = placements(&compiled.plan, 0).try_into().unwrap();
    assert!(loader.poll_put(&p.to, 0, Bytes::Slice(&[0; 76]), &mut cx).is_ready());
    let Poll::Ready(Err(e)) = loader.poll_finish(&mut cx) else { panic!("4 bytes are missing") };
    assert_eq!(e.what, "4 bytes of weights never arrived");
    assert!(loader.poll_put(&p.to, 76, Bytes::Slice(&[0; 4]), &mut cx).is_ready());
    assert!(matches!(loader.poll_finish(&mut cx), Poll::Ready(Ok(()))));
}

fn finished(engine: &mut Engine, mut generation: Generation) {
    let mut cx = Waiting::from_waker(Waker::noop());
    while !matches!(generation.poll_next(engine, &mut cx), Poll::Ready(Some(Progress::Done(_)))) {}
}

#[test]
fn a_prompt_that_was_begun_leaves_only_the_rows_that_it_shares() {
    let mut engine = engine();
    let one = GenerateOptions { max_tokens: Some(1), ..GenerateOptions::default() };
    let first = engine.start(vec![0, 1, 2, 3], &one).unwrap();
    finished(&mut engine, first);
    assert_eq!(engine.cached_tokens(), [0, 1, 2, 3]);
    // Dropped before it is polled: its rows may be written or not, the old ones count no more.
    drop(engine.start(vec![0, 3, 2, 1], &one).unwrap());
    assert_eq!(engine.cached_tokens(), [0]);
}

#[test]
fn restoring_nothing_forgets_what_the_caches_held() {
    let mut engine = engine();
    let one = GenerateOptions { max_tokens: Some(1), ..GenerateOptions::default() };
    let first = engine.start(vec![0, 1, 2], &one).unwrap();
    finished(&mut engine, first);
    assert!(engine.restore(vec![]).is_ok());
    assert!(engine.cached_tokens().is_empty());
}
