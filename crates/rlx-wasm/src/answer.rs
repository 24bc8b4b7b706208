//! JSON as answers to JavaScript, written while it is made.

use core::fmt::Write;

/// An object of JSON on its way.
pub(crate) struct Object(String);

/// What stands in an answer.
pub(crate) trait Put {
    /// Writes it.
    fn put(&self, out: &mut String);
}

impl Object {
    /// An object without members.
    pub fn new() -> Self {
        Object("{".into())
    }

    /// The same with one more member; keys are plain words.
    pub fn with(mut self, key: &str, value: &dyn Put) -> Self {
        self.set(key, value);
        self
    }

    /// Adds a member.
    pub fn set(&mut self, key: &str, value: &dyn Put) {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        key.put(&mut self.0);
        self.0.push(':');
        value.put(&mut self.0);
    }

    /// The text.
    pub fn text(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

impl Put for Object {
    fn put(&self, out: &mut String) {
        out.push_str(&self.0);
        out.push('}');
    }
}

impl Put for &str {
    fn put(&self, out: &mut String) {
        out.push('"');
        for c in self.chars() {
            match c {
                '"' | '\\' => out.extend(['\\', c]),
                // Controls; the rest of Unicode stands for itself.
                c if c < ' ' => {
                    // A String takes all that is written.
                    let _ = write!(out, "\\u{:04x}", c as u32);
                }
                c => out.push(c),
            }
        }
        out.push('"');
    }
}

impl Put for String {
    fn put(&self, out: &mut String) {
        self.as_str().put(out);
    }
}

impl Put for bool {
    fn put(&self, out: &mut String) {
        out.push_str(if *self { "true" } else { "false" });
    }
}

impl Put for f64 {
    fn put(&self, out: &mut String) {
        if self.is_finite() {
            let _ = write!(out, "{self}");
        } else {
            out.push_str("null");
        }
    }
}

impl Put for f32 {
    fn put(&self, out: &mut String) {
        f64::from(*self).put(out);
    }
}

impl Put for u64 {
    fn put(&self, out: &mut String) {
        let _ = write!(out, "{self}");
    }
}

impl Put for u32 {
    fn put(&self, out: &mut String) {
        u64::from(*self).put(out);
    }
}

impl Put for usize {
    fn put(&self, out: &mut String) {
        (*self as u64).put(out);
    }
}

impl<T: Put> Put for Option<T> {
    fn put(&self, out: &mut String) {
        match self {
            Some(value) => value.put(out),
            None => out.push_str("null"),
        }
    }
}

impl<T: Put> Put for &[T] {
    fn put(&self, out: &mut String) {
        out.push('[');
        for (i, value) in self.iter().enumerate() {
            if i > 0 {
                out.push(',');
            }
            value.put(out);
        }
        out.push(']');
    }
}

impl<T: Put> Put for Vec<T> {
    fn put(&self, out: &mut String) {
        self.as_slice().put(out);
    }
}

/// JSON that is written already.
#[cfg(feature = "graphs")]
pub(crate) struct Written(pub String);

#[cfg(feature = "graphs")]
impl Put for Written {
    fn put(&self, out: &mut String) {
        out.push_str(&self.0);
    }
}

/// The text of a value.
#[cfg(feature = "graphs")]
pub(crate) fn text(value: &dyn Put) -> String {
    let mut out = String::new();
    value.put(&mut out);
    out
}
