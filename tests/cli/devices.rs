//! `rlx devices`: what is there, and reports of it.

use super::{fails, folder, rlx, run};
use rlx_native::report::{Host, Report};

#[test]
fn a_device_is_measured_into_a_report_and_keeps_its_tuning() {
    let dir = folder("device-report");
    let path = dir.join("report.json");
    let measured = ["devices", "--tune", "--report", "report.json"];
    let cache = dir.join("cache");
    let mut command = rlx(&measured);
    let (code, stdout, stderr) = run(command.current_dir(&dir).env("RLX_CACHE_DIR", &cache));
    assert_eq!(code, 0, "{stderr}");
    let text = std::fs::read_to_string(&path).unwrap();
    let report = Report::parse(&text, "report.json").unwrap();
    assert_eq!((report.from, report.software, report.forms.len()), (Host::Terminal, true, 0));
    let kernels = format!("kernels {} (as measured here)", report.tuning);
    assert!(stdout.contains(&report.adapter) && stdout.contains(&kernels), "{stdout}");
    assert!(stdout.contains(&report.target), "{stdout}");
    assert!(report.copy_bytes_per_second > 1e6);
    // Each class that was measured names the choice that the tuning has.
    assert!(report.choices.contains_key("parts"), "{text}");
    for (name, tried) in &report.choices {
        let chosen = report.tuning.split(' ').find_map(|w| w.strip_prefix(name)?.strip_prefix('='));
        assert!(tried.contains_key(chosen.unwrap()), "{name}: {text}");
    }
    let here = dir.display().to_string();
    assert!(!text.contains(&here), "no path of this machine");
    let names: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(
        names.len(),
        2,
        "a report and the cache, and nothing left of the writing: {names:?}"
    );

    let taken = "there is a file of this name already (report.json)";
    let hint = "give another name, or --force to replace it";
    fails(rlx(&measured).current_dir(&dir).env("RLX_CACHE_DIR", &cache), 2, taken, hint);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn without_a_device_there_is_no_report_and_one_wants_a_measurement() {
    let dir = folder("no-device-report");
    let mut command = rlx(&["devices", "--tune", "--report", "report.json"]);
    let nowhere = dir.join("no-such-driver.json");
    command.current_dir(&dir).env("VK_DRIVER_FILES", &nowhere).env("VK_ICD_FILENAMES", &nowhere);
    let (code, _, stderr) = run(&mut command);
    assert_ne!(code, 0);
    assert!(stderr.starts_with("error: this machine has no WebGPU adapter\nhint: "), "{stderr}");
    assert!(!dir.join("report.json").exists());
    let (code, _, stderr) = run(rlx(&["devices", "--report", "report.json"]).current_dir(&dir));
    assert!(code == 2 && stderr.contains("--tune"), "{stderr}");
    let (code, stdout, _) = run(&mut rlx(&["devices", "--json"]));
    assert!(code == 0 && stdout.contains("\"tuning_from\":"), "{stdout}");
}
