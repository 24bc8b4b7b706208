//! Profiles as TOML: unknown keys and wrong values are errors with the line, the key and what
//! would be right.

use super::{BackendHints, CompileProfile, FusionPolicy, FusionTarget, Mixed};
use crate::error::{Error, Result};
use crate::nearest::did_you_mean;
use crate::target::Precision;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

const POLICIES: [(&str, FusionPolicy); 2] =
    [("direct", FusionPolicy::Direct), ("fusable", FusionPolicy::Fusable)];
const PRECISIONS: [(&str, Precision); 3] =
    [("f32", Precision::F32), ("f16", Precision::F16), ("bf16", Precision::Bf16)];
const MIXED: [(&str, Mixed); 2] = [("none", Mixed::None), ("auto", Mixed::Auto)];

/// The name of a value in its list.
fn name_of<T: PartialEq>(list: &[(&'static str, T)], value: &T) -> &'static str {
    // Every list above has every value; the test below reads each back.
    list.iter().find(|row| row.1 == *value).map_or("", |row| row.0)
}

/// The text that is read: places become lines.
struct Source<'a>(&'a str);

type Value<'a> = Spanned<DeValue<'a>>;

impl Source<'_> {
    /// `line 3`, counted from 1.
    fn line(&self, byte: usize) -> String {
        let before = self.0.as_bytes().iter().take(byte);
        format!("line {}", before.filter(|&&b| b == b'\n').count() + 1)
    }

    fn wrong(&self, value: &Value<'_>, key: &str, expected: &str) -> Error {
        let got = self.0.get(value.span()).unwrap_or_default();
        let got = got.lines().next().unwrap_or_default();
        Error::bad_file(format!("{key} is {got}"))
            .at(self.line(value.span().start))
            .hint(format!("allowed: {expected}"))
    }

    fn table<'v, 'a>(&self, value: &'v Value<'a>, key: &str) -> Result<&'v DeTable<'a>> {
        match value.get_ref() {
            DeValue::Table(table) => Ok(table),
            _ => Err(self.wrong(value, key, &format!("a table, [{key}]"))),
        }
    }

    fn bool(&self, value: &Value<'_>, key: &str) -> Result<bool> {
        match value.get_ref() {
            DeValue::Boolean(b) => Ok(*b),
            _ => Err(self.wrong(value, key, "true, false")),
        }
    }

    fn one_of<T: Copy>(&self, value: &Value<'_>, key: &str, list: &[(&str, T)]) -> Result<T> {
        let found = match value.get_ref() {
            DeValue::String(s) => list.iter().find(|row| row.0 == s.as_ref()),
            _ => None,
        };
        found.map(|row| row.1).ok_or_else(|| {
            let names: Vec<String> = list.iter().map(|row| format!("\"{}\"", row.0)).collect();
            self.wrong(value, key, &names.join(", "))
        })
    }

    fn unknown(&self, key: &Spanned<DeString<'_>>, table: &str, known: &[&str]) -> Error {
        let dot = if table.is_empty() { "" } else { "." };
        Error::bad_file(format!("unknown key {table}{dot}{}", key.get_ref()))
            .at(self.line(key.span().start))
            .hint(did_you_mean(key.get_ref(), "keys", known))
    }
}

impl CompileProfile {
    /// The profile that a TOML text says; what it leaves out is as in the default.
    ///
    /// # Errors
    /// `BadFile` for text that is no TOML, an unknown key (with the nearest known one), or a value
    /// that is not allowed (with those that are); each with the line.
    pub fn from_toml_str(text: &str) -> Result<Self> {
        let src = Source(text);
        let document = DeTable::parse(text).map_err(|e| {
            let what = e.message().lines().next().unwrap_or("the text is no TOML");
            let at = e.span().map_or(0, |s| s.start);
            Error::bad_file(format!("not TOML: {what}")).at(src.line(at))
        })?;
        let mut out = CompileProfile::default();
        for (key, value) in document.get_ref() {
            match key.get_ref().as_ref() {
                "fusion" => fusion(&src, src.table(value, "fusion")?, &mut out)?,
                "passes" => passes(&src, src.table(value, "passes")?, &mut out)?,
                "precision" => precision(&src, src.table(value, "precision")?, &mut out)?,
                "backend" => backend(&src, src.table(value, "backend")?, &mut out)?,
                _ => {
                    let known = ["fusion", "passes", "precision", "backend"];
                    return Err(src.unknown(key, "", &known));
                }
            }
        }
        Ok(out)
    }

    /// The profile as TOML, every key but the backends' that are false. Reads back as the same
    /// profile.
    pub fn to_toml_string(&self) -> String {
        let (f, p) = (&self.fusion, &self.passes);
        let mut out = format!(
            "[fusion]\npolicy = \"{}\"\ntarget = \"{}\"\nassert_clean = {}\nskip = {}\n\n\
             [passes]\ndce = {}\nconstant_folding = {}\nverbose = {}\n\n\
             [precision]\ncompute = \"{}\"\nmixed = \"{}\"\n",
            name_of(&POLICIES, &f.policy),
            f.target.name(),
            f.assert_clean,
            f.skip,
            p.dce,
            p.constant_folding,
            p.verbose,
            name_of(&PRECISIONS, &self.precision.compute),
            name_of(&MIXED, &self.precision.mixed),
        );
        for target in FusionTarget::ALL {
            let hints = self.backend.of(target);
            if hints == BackendHints::default() {
                continue;
            }
            // Writing to a String cannot fail.
            let _ = write!(out, "\n[backend.{}]\n", target.name());
            if hints.skip_fusion {
                out.push_str("skip_fusion = true\n");
            }
            if hints.unfuse_regions {
                out.push_str("unfuse_regions = true\n");
            }
        }
        out
    }
}

fn fusion(src: &Source<'_>, table: &DeTable<'_>, out: &mut CompileProfile) -> Result<()> {
    let targets = FusionTarget::ALL.map(|t| (t.name(), t));
    for (key, value) in table {
        match key.get_ref().as_ref() {
            "policy" => out.fusion.policy = src.one_of(value, "fusion.policy", &POLICIES)?,
            "target" => out.fusion.target = src.one_of(value, "fusion.target", &targets)?,
            "assert_clean" => out.fusion.assert_clean = src.bool(value, "fusion.assert_clean")?,
            "skip" => out.fusion.skip = src.bool(value, "fusion.skip")?,
            _ => {
                let known = ["policy", "target", "assert_clean", "skip"];
                return Err(src.unknown(key, "fusion", &known));
            }
        }
    }
    Ok(())
}

fn passes(src: &Source<'_>, table: &DeTable<'_>, out: &mut CompileProfile) -> Result<()> {
    for (key, value) in table {
        match key.get_ref().as_ref() {
            "dce" => out.passes.dce = src.bool(value, "passes.dce")?,
            "constant_folding" => {
                out.passes.constant_folding = src.bool(value, "passes.constant_folding")?;
            }
            "verbose" => out.passes.verbose = src.bool(value, "passes.verbose")?,
            _ => {
                let known = ["dce", "constant_folding", "verbose"];
                return Err(src.unknown(key, "passes", &known));
            }
        }
    }
    Ok(())
}

fn precision(src: &Source<'_>, table: &DeTable<'_>, out: &mut CompileProfile) -> Result<()> {
    for (key, value) in table {
        match key.get_ref().as_ref() {
            "compute" => {
                out.precision.compute = src.one_of(value, "precision.compute", &PRECISIONS)?;
            }
            "mixed" => out.precision.mixed = src.one_of(value, "precision.mixed", &MIXED)?,
            _ => return Err(src.unknown(key, "precision", &["compute", "mixed"])),
        }
    }
    Ok(())
}

fn backend(src: &Source<'_>, table: &DeTable<'_>, out: &mut CompileProfile) -> Result<()> {
    for (name, value) in table {
        let target = FusionTarget::from_name(name.get_ref());
        let Some(hints) = target.and_then(|t| out.backend.of_mut(t)) else {
            let known: Vec<&str> =
                FusionTarget::ALL.iter().filter_map(|t| Some(t.explicit()?.name())).collect();
            return Err(src.unknown(name, "backend", &known));
        };
        let path = format!("backend.{}", name.get_ref());
        for (key, value) in src.table(value, &path)? {
            let path = |key: &str| format!("{path}.{key}");
            match key.get_ref().as_ref() {
                "skip_fusion" => hints.skip_fusion = src.bool(value, &path("skip_fusion"))?,
                "unfuse_regions" => {
                    hints.unfuse_regions = src.bool(value, &path("unfuse_regions"))?;
                }
                _ => {
                    let known = ["skip_fusion", "unfuse_regions"];
                    let table = format!("backend.{}", name.get_ref());
                    return Err(src.unknown(key, &table, &known));
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use alloc::string::ToString;

    fn error(text: &str) -> String {
        let e = CompileProfile::from_toml_str(text).expect_err("a wrong profile");
        assert_eq!(e.code, Code::BadFile);
        e.to_string()
    }

    #[test]
    fn an_unknown_key_is_told_the_nearest_and_its_line() {
        assert_eq!(
            error("[fusion]\nskip = true\npolcy = \"direct\"\n"),
            "unknown key fusion.polcy (line 3); did you mean `policy`?"
        );
        assert_eq!(error("[pases]\n"), "unknown key pases (line 1); did you mean `passes`?");
        assert_eq!(
            error("\n[backend.metall]\nskip_fusion = true"),
            "unknown key backend.metall (line 2); did you mean `metal`?"
        );
        assert_eq!(
            error("[backend.cpu]\nunfuse_region = true"),
            "unknown key backend.cpu.unfuse_region (line 2); did you mean `unfuse_regions`?"
        );
        assert_eq!(
            error("[precision]\nx = 1"),
            "unknown key precision.x (line 2); keys: compute, mixed"
        );
        assert_eq!(
            error("[backend.auto]\nskip_fusion = true"),
            "unknown key backend.auto (line 1); keys: cpu, metal, mlx, cuda, rocm, wgpu, tpu"
        );
    }

    #[test]
    fn a_wrong_value_is_told_what_is_allowed_and_its_line() {
        assert_eq!(
            error("[fusion]\npolicy = \"Direct\""),
            "fusion.policy is \"Direct\" (line 2); allowed: \"direct\", \"fusable\""
        );
        assert_eq!(
            error("[precision]\n\ncompute = 16"),
            "precision.compute is 16 (line 3); allowed: \"f32\", \"f16\", \"bf16\""
        );
        assert_eq!(
            error("passes.dce = \"yes\""),
            "passes.dce is \"yes\" (line 1); allowed: true, false"
        );
        assert_eq!(error("fusion = 1"), "fusion is 1 (line 1); allowed: a table, [fusion]");
        assert_eq!(
            error("backend.cpu = true"),
            "backend.cpu is true (line 1); allowed: a table, [backend.cpu]"
        );
    }

    #[test]
    fn text_that_is_no_toml_is_told_the_line() {
        let e = error("[fusion]\npolicy = \n");
        assert!(e.starts_with("not TOML: ") && e.ends_with("(line 2)"), "{e}");
        let e = error("[fusion]\nskip = true\nskip = false\n");
        assert!(e.contains("duplicate") && e.ends_with("(line 3)"), "{e}");
    }

    #[test]
    fn a_backend_may_set_one_key_of_its_table() {
        let p = CompileProfile::from_toml_str("[backend.metal]\nskip_fusion = true\n").unwrap();
        assert_eq!(
            p.backend.of(FusionTarget::Metal),
            BackendHints { skip_fusion: true, unfuse_regions: false }
        );
        assert_eq!(p.backend.of(FusionTarget::Cpu), BackendHints::default());
    }
}
