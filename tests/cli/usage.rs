//! Options out of range, and what is asked of the wrong device: exit code 2, or 4.

use super::{SMALL, fails, folder, repository, rlx, run};

#[test]
fn an_empty_prompt_is_a_usage_error() {
    for prompt in ["", " \n"] {
        fails(&mut rlx(&["run", prompt]), 2, "the prompt is empty", "give a question in quotes");
    }
    fails(&mut rlx(&["run", "--raw", ""]), 2, "the prompt is empty", "give a question in quotes");
}

#[test]
fn a_value_out_of_range_names_its_range() {
    let cases = [
        (["--temperature", "101"], "temperature 101 is out of range: 0 to 100"),
        (["--temperature", "-1"], "temperature -1 is out of range: 0 to 100"),
        (["--top-p", "0"], "top_p 0 is out of range: above 0, at most 1"),
        (["--min-p", "1"], "min_p 1 is out of range: at least 0, below 1"),
        (["--repeat-penalty", "11"], "repetition_penalty 11 is out of range: above 0, at most 10"),
        (["--top-k", "-1"], "invalid value '-1' for '--top-k <K>': -1 is not in 0..=4294967295"),
        (
            ["--max-tokens", "0"],
            "invalid value '0' for '--max-tokens <N>': 0 is not in 1..18446744073709551615",
        ),
    ];
    for (option, what) in cases {
        let (code, stdout, stderr) = run(rlx(&["run", "hello"]).args(option));
        assert_eq!(stderr.lines().next(), Some(format!("error: {what}").as_str()));
        assert_eq!(stderr.lines().nth(1), Some("hint: see `rlx --help`"));
        assert_eq!(stderr.lines().count(), 2, "{stderr}");
        assert_eq!((code, stdout.as_str()), (2, ""));
    }
}

#[test]
fn a_context_out_of_range_names_the_models() {
    for context in ["0", "100000"] {
        fails(
            &mut rlx(&["run", "--model", SMALL, "--context", context, "hello"]),
            2,
            &format!("a context of {context} tokens: this model takes 1 to 1024"),
            "see `rlx --help`",
        );
    }
}

#[test]
fn a_prompt_longer_than_the_context_is_a_usage_error() {
    let mut command = rlx(&["run", "--model", SMALL, "--context", "8", "What does Vec::push do?"]);
    fails(
        &mut command,
        2,
        "the prompt has 19 tokens, the context holds 8",
        "shorten the prompt, start a new chat, or load with a longer context",
    );
}

#[test]
fn an_unknown_device_is_a_usage_error() {
    fails(
        &mut rlx(&["run", "--device", "gpu", "hello"]),
        2,
        "unknown device `gpu`",
        super::DEVICES_HINT,
    );
}

#[test]
fn caches_of_q8_0_are_refused_for_heads_of_other_widths() {
    let lir = ["--stage", "lir", "--kv", "q8_0"];
    fails(
        &mut rlx(&[&["inspect", "tests/fixtures/gguf/llama.gguf", "--target", "webgpu"], &lir[..]]
            .concat()),
        3,
        "the webgpu device has caches of q8_0 for heads of whole 64, and those of this model have 16 \
         elements (blk.0.k)",
        "take caches of f16: --kv f16, or kv: 'f16' for Engine.load",
    );
    fails(
        &mut rlx(&[&["inspect", "tests/fixtures/gguf/llama.gguf"], &lir[..]].concat()),
        2,
        "a cache of q8_0 holds heads of whole blocks of 32, and those of this model have 16 elements \
         (blk.0.k)",
        "take caches of f16: --kv f16, or kv: 'f16' for Engine.load",
    );
}

#[test]
fn int16_activations_are_multiplied_by_the_cpu_and_by_webgpu() {
    let lir = ["inspect", SMALL, "--stage", "lir", "--activations", "int16", "--target"];
    for target in ["cpu", "webgpu"] {
        let (code, stdout, stderr) = run(rlx(&lir).arg(target));
        assert_eq!((code, stderr.as_str()), (0, ""));
        assert!(stdout.contains("q15_0"), "{stdout}");
    }
}

#[test]
fn mixed_activations_are_refused_where_no_kernel_leaves_low_parts_out() {
    let lir = ["inspect", SMALL, "--stage", "lir", "--activations", "mixed", "--target"];
    let (code, stdout, stderr) = run(rlx(&lir).args(["cpu", "--phase", "prefill"]));
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert!(stdout.contains("only_large"), "{stdout}");
    let (code, _, stderr) = run(rlx(&lir).arg("webgpu"));
    assert_eq!(code, 3, "{stderr}");
    let first = "error: the device webgpu multiplies no mixed activations\n";
    assert!(stderr.starts_with(first), "{stderr}");
}

#[test]
fn webgpu_without_an_adapter_is_error_4_and_never_the_cpu() {
    let nowhere = repository("tests/fixtures/no-such-driver.json");
    for command in ["run", "bench", "chat"] {
        let mut command = match command {
            "run" => rlx(&["run", "--device", "webgpu", "--json", "hello"]),
            "chat" => rlx(&["chat", "--device", "webgpu", "--json"]),
            _ => rlx(&["bench", "--device", "webgpu", "--prompt-tokens", "1", "--tokens", "1"]),
        };
        command.env("VK_DRIVER_FILES", &nowhere).env("VK_ICD_FILENAMES", &nowhere);
        fails(
            &mut command,
            4,
            "this machine has no WebGPU adapter",
            "install a Vulkan driver (on Debian: apt-get install mesa-vulkan-drivers libvulkan1), \
             or use --device cpu",
        );
    }
}

#[test]
fn cards_are_chosen_by_number_where_a_device_has_numbers() {
    let bench = |args: &[&str]| {
        let mut command = rlx(&["bench", "--prompt-tokens", "1", "--tokens", "1"]);
        command.args(args);
        command
    };
    for (args, device) in
        [(["--devices", "0,1"].as_slice(), "auto"), (&["--device", "cpu:1"], "cpu")]
    {
        let what = format!("cards are chosen by number, and the device {device} has no numbers");
        fails(&mut bench(args), 2, &what, "add --device cuda, or leave the numbers out");
    }
    let what = "`one` is no number of a card";
    let hint = "cards are numbered from 0: --device cuda:1 is the second";
    fails(&mut bench(&["--device", "cuda:one"]), 2, what, hint);
    let what = "--device cuda:1 names a card, --devices others";
    let both = ["--device", "cuda:1", "--devices", "0,1"];
    fails(&mut bench(&both), 2, what, "leave one of them out");
    let twice = ["--device", "cuda", "--devices", "1,1"];
    let hint = "a group has every card once, such as --devices 0,1";
    fails(&mut bench(&twice), 2, "card 1 is named twice", hint);
}

#[test]
fn missing_arguments_and_commands_are_usage_errors() {
    let (code, stdout, stderr) = run(&mut rlx(&["run"]));
    assert_eq!((code, stdout.as_str()), (2, ""));
    assert!(stderr.starts_with("error: the following required arguments were not provided:"));
    assert_eq!(stderr.lines().count(), 2);
    fails(&mut rlx(&[]), 2, "no command is given", "see `rlx --help`");
    let (code, stdout, stderr) = run(&mut rlx(&["--help"]));
    assert_eq!((code, stderr.as_str()), (0, ""));
    for command in [
        "run", "chat", "inspect", "devices", "bench", "fidelity", "verify", "synth", "split",
        "merge",
    ] {
        assert!(stdout.contains(&format!("  {command} ")), "{stdout}");
    }
}

/// A profile of this text in a folder of its own, as a command line takes it.
fn profile(name: &str, text: &str) -> String {
    let path = folder(name).join("a.rlx.toml");
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().into()
}

#[test]
fn a_profile_with_an_unknown_key_is_told_the_line_and_the_nearest() {
    let path = profile("profile_key", "[fusion]\nskpi = true\n");
    let what = format!("unknown key fusion.skpi ({path}, line 2)");
    let mut command = rlx(&["run", "--model", SMALL, "--compile-profile", &path, "hello"]);
    fails(&mut command, 3, &what, "did you mean `skip`?");
}

#[test]
fn inspect_reads_its_profile_at_every_stage() {
    let path = profile("profile_inspect", "[fusion]\nskpi = true\n");
    let what = format!("unknown key fusion.skpi ({path}, line 2)");
    fails(&mut rlx(&["inspect", "--compile-profile", &path]), 3, &what, "did you mean `skip`?");
}

#[test]
fn a_profile_for_another_backend_names_its_device() {
    let path = profile("profile_backend", "[fusion]\ntarget = \"mlx\"\n");
    let mut command = rlx(&["run", "--model", SMALL, "--compile-profile", &path, "hello"]);
    fails(
        &mut command,
        2,
        "the profile compiles for mlx, the device is cpu",
        "use --device mlx, or target = \"auto\"",
    );
}

#[test]
fn inspect_shows_what_a_profile_asks_for() {
    let lir = |profile: &str| {
        let path = format!("profiles/{profile}.rlx.toml");
        let path = repository(&path).to_string_lossy().into_owned();
        let (code, stdout, stderr) =
            run(&mut rlx(&["inspect", SMALL, "--stage", "lir", "--compile-profile", &path]));
        assert_eq!((code, stderr.as_str()), (0, ""));
        stdout
    };
    let (plain, fused) = (lir("llada2_diffusion"), lir("llama32_decode"));
    assert!(plain.contains("// options target=cpu policy=direct fusions=false"), "{plain}");
    assert!(fused.contains("// options target=cpu policy=fusable fusions=true"), "{fused}");
    assert!(plain.lines().count() > fused.lines().count(), "fewer steps when fused");
}
