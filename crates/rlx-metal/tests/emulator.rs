//! The emulator of `tests/emulator`: MSL compiled as C++ by the machine's compiler, and run by a process of its own.
//!
//! `metal.h` has MSL's words. Two things of a text are written anew: `.xy` of a vector becomes `.xy()`, and behind the
//! text stands a function that calls the kernel with what is bound. `host.cpp` says what the process is told.

use rlx_core::plan::hash;
use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const COMPILER: &str = "g++";
const FLAGS: [&str; 9] = [
    // A value of a class as a parameter of a template.
    "-std=c++20",
    "-O1",
    "-g1",
    "-fPIC",
    "-fno-strict-aliasing",
    "-ffp-contract=off",
    // What is 1.0 in MSL is a float.
    "-fsingle-precision-constant",
    // Attributes such as [[buffer(0)]].
    "-w",
    "-DRLX_WARP=32",
];

/// Orders of a vector's elements that `metal.h` has functions for.
const ORDERS: [&str; 8] = ["xxyy", "xyz", "yzw", "xy", "yz", "zw", "xz", "yw"];

/// What is watched while kernels run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    /// Barriers, exchanges, threads that ended.
    Nothing,
    /// Accesses outside of buffers, too.
    Addresses,
    /// Two threads of a threadgroup at one address without a barrier between them, too.
    Races,
}

impl Watch {
    fn flags(self) -> &'static [&'static str] {
        match self {
            Watch::Nothing => &[],
            Watch::Addresses => &["-fsanitize=address"],
            Watch::Races => &["-fsanitize=thread"],
        }
    }
}

/// What a kernel's parameter is bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parameter {
    Buffer(u32),
    Threadgroup(u32),
    BuiltIn(&'static str),
}

/// A kernel's parameters, read off its text.
pub struct Signature {
    pub parameters: Vec<Parameter>,
}

impl Signature {
    /// # Panics
    /// For what no kernel of ours has.
    pub fn of(text: &str, entry: &str) -> Signature {
        let head = format!("kernel void {entry}(");
        let (_, rest) =
            text.split_once(&head).unwrap_or_else(|| panic!("no kernel {entry}:\n{text}"));
        let (list, _) = rest.split_once("\n) {").unwrap_or_else(|| panic!("{entry} has no body"));
        let mut memories = 0;
        let parameters = list.split(',').map(str::trim).filter(|p| !p.is_empty()).map(|p| {
            let Some((_, attribute)) = p.split_once("[[") else {
                // naga's variables of a threadgroup count from 0 in their order.
                assert!(p.starts_with("threadgroup "), "{entry}: {p}");
                memories += 1;
                return Parameter::Threadgroup(memories - 1);
            };
            let attribute = attribute.trim_end_matches("]]").trim();
            if let Some(n) = attribute.strip_prefix("buffer(") {
                return Parameter::Buffer(n.trim_end_matches(')').parse().expect("a number"));
            }
            if let Some(n) = attribute.strip_prefix("threadgroup(") {
                return Parameter::Threadgroup(n.trim_end_matches(')').parse().expect("a number"));
            }
            Parameter::BuiltIn(match attribute {
                "threadgroup_position_in_grid" => "emulator::threadgroup_position()",
                "threadgroups_per_grid" => "emulator::threadgroups()",
                "thread_index_in_threadgroup" => "emulator::block->now->number",
                "thread_index_in_simdgroup" => "metal::emulated_lane()",
                "simdgroup_index_in_threadgroup" => "(emulator::block->now->number / RLX_WARP)",
                "threads_per_simdgroup" => "RLX_WARP",
                other => panic!("{entry} has a parameter [[{other}]]"),
            })
        });
        Signature { parameters: parameters.collect() }
    }
}

/// The process and what it needs.
pub struct Emulator {
    cache: PathBuf,
    headers: PathBuf,
    version: u64,
    watch: Watch,
    child: Child,
    to: ChildStdin,
    from: ChildStdout,
}

impl Drop for Emulator {
    fn drop(&mut self) {
        // One that is gone already is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A name beside the final one: another process may compile the same.
fn unfinished(path: &Path) -> PathBuf {
    let thread = format!("{:?}", std::thread::current().id()).replace(['(', ')'], "");
    path.with_extension(format!("{}-{thread}", std::process::id()))
}

fn compile(command: &mut Command) {
    let done = command.output().expect("these tests need g++");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{COMPILER} does not take a kernel: {said}");
}

/// A text with functions in place of orders of elements.
fn with_functions(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 16);
    let mut rest = text;
    while let Some(at) = rest.find('.') {
        out += &rest[..=at];
        rest = &rest[at + 1..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let name = &rest[..end];
        out += name;
        if ORDERS.contains(&name) {
            out += "()";
        }
        rest = &rest[end..];
    }
    out + rest
}

impl Emulator {
    pub fn start(watch: Watch) -> Emulator {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/emulator");
        let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("metal");
        fs::create_dir_all(&cache).unwrap();
        let read = |name: &str| fs::read_to_string(sources.join(name)).unwrap();
        let of = |texts: &[&str]| hash(texts.iter().copied());
        let process = ["host.cpp", "block.cpp", "block.h"].map(read);
        let host = of(&[&process[0], &process[1], &process[2]]);
        let host = cache.join(format!("host-{host:016x}-{watch:?}"));
        if !host.exists() {
            let unfinished = unfinished(&host);
            let mut command = Command::new(COMPILER);
            command.args(["-std=c++17", "-O1", "-g1", "-rdynamic"]).args(watch.flags());
            compile(command.arg(sources.join("host.cpp")).arg("-o").arg(&unfinished).arg("-ldl"));
            fs::rename(&unfinished, &host).unwrap();
        }
        let texts = ["block.h", "tensors.h", "metal.h"].map(|name| (name, read(name)));
        let version = of(&[&texts[0].1, &texts[1].1, &texts[2].1, &FLAGS.join(" ")]);
        let headers = cache.join(format!("headers-{version:016x}-{watch:?}"));
        if !headers.exists() {
            let unfinished = unfinished(&headers);
            fs::create_dir_all(&unfinished).unwrap();
            for (name, text) in &texts {
                fs::write(unfinished.join(name), text).unwrap();
            }
            let mut command = Command::new(COMPILER);
            command.args(FLAGS).args(watch.flags()).args(["-x", "c++-header"]);
            compile(command.arg(unfinished.join("metal.h")));
            // Another process may have been faster.
            assert!(fs::rename(&unfinished, &headers).is_ok() || headers.exists());
        }
        let mut child = Command::new(&host)
            .env("ASAN_OPTIONS", "detect_leaks=0")
            .env("TSAN_OPTIONS", "halt_on_error=1 exitcode=70 report_thread_leaks=0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the emulator starts");
        let (to, from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Emulator { cache, headers, version, watch, child, to, from }
    }

    /// Compiles a kernel if that was not done before, and loads it as function `number`.
    pub fn load(&mut self, number: u32, text: &str, entry: &str, memory: &[u32]) {
        let signature = Signature::of(text, entry);
        let mut program = String::from("#include \"metal.h\"\nnamespace kernels {\n");
        for line in with_functions(text).lines().filter(|line| !line.starts_with("#include")) {
            // `threadgroup` is no word in C++, and neither is this attribute, which the signature has.
            program += line.split(" [[threadgroup(").next().unwrap_or(line);
            program.push('\n');
        }
        let starts: Vec<u32> = memory
            .iter()
            .scan(0, |at, n| {
                *at += n;
                Some(*at - n)
            })
            .collect();
        let mut arguments = Vec::new();
        for (i, parameter) in signature.parameters.iter().enumerate() {
            arguments.push(match parameter {
                Parameter::Buffer(n) => format!("emulator::buffer<P::type<{i}>>(at, {n})"),
                Parameter::Threadgroup(n) => {
                    let start = starts[*n as usize];
                    format!("emulator::memory<P::type<{i}>>(emulated_memory + {start})")
                }
                Parameter::BuiltIn(text) => (*text).into(),
            });
        }
        let (arguments, bytes) = (arguments.join(", "), memory.iter().sum::<u32>());
        write!(
            program,
            "}}\nalignas(128) static char emulated_memory[{bytes} + 1];\n\
             extern \"C\" const emulator::Kernel* {entry}_kernel(emulator::Block* of) {{\n    \
             static const emulator::Kernel made = {{\"{entry}\", [](void** at) {{\n        \
             using P = emulator::parameters<decltype(&kernels::{entry})>;\n        \
             emulator::is_behind_previous();\n        kernels::{entry}({arguments});\n    \
             }}, RLX_WARP, emulated_memory, {bytes}}};\n    \
             emulator::block = of;\n    return &made;\n}}\n"
        )
        .unwrap();
        let key = hash([program.as_str(), &self.version.to_string()].into_iter());
        let library = self.cache.join(format!("{entry}-{key:016x}-{:?}.so", self.watch));
        if !library.exists() {
            let unfinished = unfinished(&library);
            // Whole: with another extension two threads would have one name.
            let source = PathBuf::from(format!("{}.cpp", unfinished.display()));
            fs::write(&source, program).unwrap();
            let mut command = Command::new(COMPILER);
            command.args(FLAGS).args(self.watch.flags()).args(["-shared", "-I"]);
            compile(command.arg(&self.headers).arg(&source).arg("-o").arg(&unfinished));
            fs::remove_file(&source).unwrap();
            fs::rename(&unfinished, &library).unwrap();
        }
        let names = format!("{}\n{entry}_kernel", library.display());
        self.ask(6, &[number.into()], names.as_bytes());
    }

    /// Sends a command and waits for its answer.
    ///
    /// # Panics
    /// With what the process said before it ended: what a kernel did wrong.
    pub fn ask(&mut self, command: u64, words: &[u64], bytes: &[u8]) -> Vec<u8> {
        self.try_ask(command, words, bytes).unwrap_or_else(|_| {
            let _ = self.child.kill();
            // It says why once; behind that a test only cleans up.
            let Some(mut from) = self.child.stderr.take() else { return Vec::new() };
            let mut said = String::new();
            from.read_to_string(&mut said).unwrap();
            panic!("the emulator ended: {said}")
        })
    }

    fn try_ask(&mut self, command: u64, words: &[u64], bytes: &[u8]) -> std::io::Result<Vec<u8>> {
        let mut message: Vec<u8> = Vec::with_capacity(8 * (words.len() + 3) + bytes.len());
        for word in [command, words.len() as u64].iter().chain(words) {
            message.extend(word.to_le_bytes());
        }
        message.extend((bytes.len() as u64).to_le_bytes());
        message.extend(bytes);
        self.to.write_all(&message)?;
        self.to.flush()?;
        let mut size = [0; 8];
        self.from.read_exact(&mut size)?;
        let mut answer = vec![0; u64::from_le_bytes(size) as usize];
        self.from.read_exact(&mut answer)?;
        Ok(answer)
    }
}
