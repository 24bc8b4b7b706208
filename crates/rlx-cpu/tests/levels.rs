//! Which SIMD levels the other tests have tried on this machine, and which nobody has.

use crate::common::devices;
use crate::skip::skip;
use rlx_cpu::Level;
use std::collections::BTreeSet;

/// What a level needs, as the processor says it, and how a reader knows it.
struct Need {
    level: Level,
    machine: &'static str,
    /// Names in `/proc/cpuinfo`.
    features: &'static [&'static str],
    absent: &'static str,
}

const NEEDS: [Need; 6] = [
    Need { level: Level::Scalar, machine: std::env::consts::ARCH, features: &[], absent: "" },
    Need {
        level: Level::Avx2,
        machine: "x86_64",
        features: &["avx2", "fma", "f16c"],
        absent: "this processor has no AVX2",
    },
    Need {
        level: Level::Avx512Vnni,
        machine: "x86_64",
        features: &["avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512vl", "avx512_vnni"],
        absent: "this processor has no AVX-512 VNNI",
    },
    Need {
        level: Level::Avx512Vbmi,
        machine: "x86_64",
        features: &[
            "avx2",
            "fma",
            "f16c",
            "avx512f",
            "avx512bw",
            "avx512vl",
            "avx512_vnni",
            "avx512vbmi",
        ],
        absent: "this processor has no AVX-512 VBMI",
    },
    Need {
        level: Level::Neon,
        machine: "aarch64",
        features: &["asimd"],
        absent: "this processor has no Advanced SIMD",
    },
    Need {
        level: Level::NeonDot,
        machine: "aarch64",
        features: &["asimd", "asimddp"],
        absent: "this processor has no dot products",
    },
];

/// What the operating system says of the processor, which is not what the executor asks.
fn features() -> BTreeSet<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").expect("the tests run on Linux");
    let line = |l: &&str| l.starts_with("flags") || l.starts_with("Features");
    let line = text.lines().find(line).expect("a line of features");
    line.split_whitespace().map(String::from).collect()
}

#[test]
#[cfg_attr(miri, ignore = "Miri interprets the plain loops alone")]
fn every_level_of_this_processor_is_tried() {
    let features = features();
    // `devices` is what tests of operators run on: names are "avx2, 3 threads".
    let names = devices().into_iter().map(|d| d.info().adapter);
    let tried: BTreeSet<String> =
        names.map(|name| name.split(',').next().unwrap_or_default().to_owned()).collect();
    let mut expected = BTreeSet::new();
    for need in NEEDS {
        let test = format!("simd levels: {}", need.level.name());
        if need.machine != std::env::consts::ARCH {
            skip(&test, &format!("this machine is {}", std::env::consts::ARCH));
        } else if need.features.iter().all(|f| features.contains(*f)) {
            expected.insert(need.level.name().to_owned());
        } else {
            skip(&test, need.absent);
        }
    }
    // What the processor has and was left out, and what it lacks and ran all the same, show here.
    assert_eq!(tried, expected);
    // A new level needs a line above; the one that is left is of wasm, and a page's tests run it.
    assert_eq!(Level::ALL.len(), NEEDS.len() + 1);
}
