//! First guesses: the tuning of a report from another machine with the same device. A wrong guess costs speed, never
//! an answer, and what this machine measures itself is used in its place.

use super::{Host, Report};
use rlx_core::runtime::device::DeviceInfo;
use rlx_webgpu::Tuning;
use rlx_webgpu::gpu::GpuInfo;
use rlx_webgpu::tuning::KERNELS;

/// The reports of `profiles/devices/`: names of files and texts.
pub const REPORTS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/devices.rs"));

/// The tuning of the first report that is of this device, and the report's name. `gpu` is what the host says, and
/// `info` what the executor uses of it, after its probes.
pub fn first_guess(gpu: &GpuInfo, info: &DeviceInfo) -> Option<(&'static str, Tuning)> {
    guess_of(REPORTS, gpu, info)
}

/// As [`first_guess`], of these reports. One that cannot be read is none.
pub fn guess_of<'a>(
    reports: &[(&'a str, &str)],
    gpu: &GpuInfo,
    info: &DeviceInfo,
) -> Option<(&'a str, Tuning)> {
    let tuning = |(name, text): &(&'a str, &str)| {
        let report = Report::parse(text, name).ok()?;
        let tuning = matches(&report, gpu, info).then_some(report.tuning)?;
        Some((*name, Tuning::parse(&tuning, gpu.wgsl).ok()?))
    };
    reports.iter().find_map(tuning)
}

/// Whether a report is of a device like this one: measured natively on hardware, the same name and maker's driver,
/// the same features and lanes, the same kernels.
fn matches(report: &Report, gpu: &GpuInfo, info: &DeviceInfo) -> bool {
    report.from == Host::Terminal
        && !report.software
        && !gpu.software
        && report.kernels == KERNELS
        && report.adapter == gpu.adapter
        && driver(&report.driver) == driver(&gpu.driver)
        && report.features == info.features
        && report.subgroups == info.subgroups
}

/// A driver's name, without its version: what comes before the first digit.
fn driver(text: &str) -> &str {
    text.split(|c: char| c.is_ascii_digit()).next().unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use super::super::tests::GPU;
    use super::*;
    use rlx_core::Result;
    use rlx_webgpu::gpu::{Wgsl, Width};

    fn device() -> (GpuInfo, DeviceInfo) {
        let wgsl =
            Wgsl { packed_dot: true, subgroup: Some(32), enable_subgroups: false, f16: true };
        let gpu = GpuInfo {
            adapter: "Fixture GPU".into(),
            driver: "Fixture 999.1 of another week".into(),
            wgsl,
            width: Width::Fixed(32),
            ..GpuInfo::default()
        };
        let info = DeviceInfo {
            kind: "webgpu".into(),
            adapter: gpu.adapter.clone(),
            features: vec!["subgroups".into(), "packed_4x8_integer_dot_product".into()],
            demoted: Vec::new(),
            subgroups: Some("32 lanes".into()),
            tuning: Some(Tuning::usual(wgsl).to_string()),
        };
        (gpu, info)
    }

    fn guess(change: impl FnOnce(&mut GpuInfo, &mut DeviceInfo)) -> Option<(&'static str, Tuning)> {
        let (mut gpu, mut info) = device();
        change(&mut gpu, &mut info);
        guess_of(&[("broken.json", "{"), ("gpu.json", GPU)], &gpu, &info)
    }

    #[test]
    fn a_report_of_the_same_device_is_the_first_guess() {
        let (name, tuning) = guess(|_, _| {}).unwrap();
        assert_eq!(name, "gpu.json");
        let text = "short=128x2 long=256x1 gated=256x2 head=256x4 parts=128";
        assert_eq!(tuning.to_string(), text);
        assert_ne!(tuning, Tuning::usual(device().0.wgsl), "it would say nothing");
    }

    #[test]
    fn another_device_gets_none() {
        assert_eq!(guess(|gpu, _| gpu.adapter = "Fixture GPU 2".into()), None);
        assert_eq!(guess(|gpu, _| gpu.driver = "Other 555.42".into()), None);
        assert_eq!(guess(|gpu, _| gpu.software = true), None);
        assert_eq!(guess(|_, info| drop(info.features.pop())), None);
        assert_eq!(guess(|_, info| info.subgroups = Some("16 lanes".into())), None);
        assert_eq!(guess(|_, info| info.subgroups = None), None);
    }

    #[test]
    fn a_report_of_software_of_a_page_or_of_other_kernels_is_none() {
        let (gpu, info) = device();
        for (from, to) in [
            ("\"software\": false", "\"software\": true"),
            ("\"terminal\"", "\"page\""),
            ("\"kernels\": 1", "\"kernels\": 0"),
            ("short=128x2", "short=128x3"),
        ] {
            let other = GPU.replacen(from, to, 1);
            assert_ne!(other, GPU);
            assert_eq!(guess_of(&[("gpu.json", &other)], &gpu, &info), None, "{to}");
        }
    }

    #[test]
    fn every_report_of_the_repository_is_whole_and_of_hardware() -> Result<()> {
        for (name, text) in REPORTS {
            let report = Report::parse(text, name)?;
            assert!(!report.software, "{name}: software is no first guess for a GPU");
        }
        Ok(())
    }
}
