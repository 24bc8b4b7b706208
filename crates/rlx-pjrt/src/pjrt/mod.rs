//! PJRT, the C interface of XLA's devices, behind safe types. A plugin is a shared library that is loaded at run time:
//! libtpu on a machine with TPUs, `xla_cpu_pjrt.so` anywhere.
//!
//! Everything that a plugin gives out is destroyed on drop, and holds the plugin, which is never unloaded: plugins
//! start threads of their own.

// Calls of C functions, each with a struct that `api` lays out.
#![allow(unsafe_code)]

mod api;
mod buffer;
mod client;
mod executable;
mod options;

pub use buffer::{Buffer, Element, Read};
pub use client::{Client, Topology};
pub use executable::{Compiled, Executable, Memory};

use api::{
    Api, Args, Call, CodeArgs, ErrorArgs, EventArgs, Handle, Head, IsReadyArgs, MessageArgs,
};
use rlx_core::{Code, Error, Result};
use std::ffi::c_char;
use std::mem::offset_of;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A loaded plugin.
pub struct Plugin {
    api: *const Api,
    path: PathBuf,
}

// SAFETY: PJRT's functions may be called from any thread, and the table of functions is constant.
unsafe impl Send for Plugin {}
// SAFETY: as above.
unsafe impl Sync for Plugin {}

impl Plugin {
    /// Loads and initialises the plugin in this file.
    ///
    /// # Errors
    /// `DeviceUnavailable` if it is no plugin, has another major version or too few functions, or does not start.
    pub fn load(path: &Path) -> Result<Arc<Plugin>> {
        let unavailable = |what: String| {
            Error::new(Code::DeviceUnavailable, what)
                .at(path.display().to_string())
                .hint("name a PJRT plugin, such as libtpu.so, with PJRT_PLUGIN")
        };
        // SAFETY: the library's initialisers run; the caller names a plugin on purpose.
        let library = unsafe { libloading::Library::new(path) };
        let library = library.map_err(|e| unavailable(format!("the plugin does not load: {e}")))?;
        type Get = unsafe extern "C" fn() -> *const Api;
        // SAFETY: that is the type of every plugin's `GetPjrtApi`.
        let get = unsafe { library.get::<Get>(b"GetPjrtApi\0") };
        let get = *get.map_err(|_| unavailable("the library has no GetPjrtApi".into()))?;
        // The plugin's threads may outlive everything, so that its code stays.
        std::mem::forget(library);
        // SAFETY: a function without arguments, of code that stays.
        let api = unsafe { get() };
        if api.is_null() {
            return Err(unavailable("the plugin gives no functions".into()));
        }
        // SAFETY: the table lives as long as the plugin. Its size and version stand first in every version, and the
        // version has no field that is read before the size was compared.
        let (size, major, minor) = unsafe {
            let size = (*api).size;
            if size < offset_of!(Api, error_destroy) {
                return Err(unavailable(format!("the plugin's table has {size} bytes")));
            }
            (size, (*api).version.major, (*api).version.minor)
        };
        let (wanted, header) = api::VERSION;
        if major != wanted {
            let what =
                format!("the plugin has PJRT {major}.{minor}, this is for {wanted}.{header}");
            return Err(unavailable(what));
        }
        if size < size_of::<Api>() {
            let need = size_of::<Api>();
            let what =
                format!("PJRT {major}.{minor} of the plugin is too old: {size} bytes of {need}");
            return Err(unavailable(what));
        }
        let plugin = Arc::new(Plugin { api, path: path.to_path_buf() });
        plugin.call(plugin.api().plugin_initialize, "Plugin_Initialize", &mut Head::new())?;
        Ok(plugin)
    }

    /// The file it was loaded from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The version of its interface.
    fn version(&self) -> String {
        let version = &self.api().version;
        format!("{}.{}", version.major, version.minor)
    }

    fn api(&self) -> &Api {
        // SAFETY: `load` has checked that the table is there with all of these functions, and it stays.
        unsafe { &*self.api }
    }

    /// Calls a function of the table.
    fn call<A: Args>(&self, function: Call<A>, name: &str, args: &mut A) -> Result<()> {
        let Some(function) = function else {
            return Err(Error::new(Code::Unsupported, format!("the plugin has no PJRT_{name}")));
        };
        // SAFETY: `args` is the struct of this function. The pointers in it are valid, as every caller sees to.
        let error = unsafe { function(args) };
        if error.is_null() { Ok(()) } else { Err(self.error(error, name)) }
    }

    /// Frees what a function of the table frees, whose failure nobody could answer.
    fn destroy<A: Args>(&self, function: Call<A>, name: &str, mut args: A) {
        let _ = self.call(function, name, &mut args);
    }

    /// Reads and frees an error.
    fn error(&self, error: Handle, name: &str) -> Error {
        let mut message = MessageArgs { error, ..MessageArgs::new() };
        let mut code = CodeArgs { error, ..CodeArgs::new() };
        // SAFETY: the structs of these functions, with an error that is alive until it is destroyed at the end.
        let text = unsafe {
            if let Some(function) = self.api().error_message {
                function(&mut message);
            }
            if let Some(function) = self.api().error_get_code {
                // An error of its own would be about the arguments; the code then stays 0.
                function(&mut code);
            }
            let text = string(message.message, message.bytes);
            if let Some(function) = self.api().error_destroy {
                function(&mut ErrorArgs { error, ..ErrorArgs::new() });
            }
            text
        };
        // The codes of absl::Status.
        let code = match code.code {
            3 => Code::BadGraph,
            8 => Code::OutOfMemory,
            12 => Code::Unsupported,
            14 => Code::DeviceUnavailable,
            _ => Code::Internal,
        };
        Error::new(code, format!("PJRT_{name}: {}", text.trim_end()))
    }
}

/// A string that the plugin owns, which need not be UTF-8.
///
/// # Safety
/// `bytes` bytes are readable at `text`, unless it is null.
unsafe fn string(text: *const c_char, bytes: usize) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller says so.
    let bytes = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), bytes) };
    String::from_utf8_lossy(bytes).into_owned()
}

/// Something that is not done yet.
pub struct Event {
    plugin: Arc<Plugin>,
    handle: Handle,
}

// SAFETY: events are thread-safe in PJRT, and nothing else refers to this one.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    fn new(plugin: &Arc<Plugin>, handle: Handle) -> Option<Event> {
        (!handle.is_null()).then(|| Event { plugin: plugin.clone(), handle })
    }

    /// Whether it has happened, well or not.
    ///
    /// # Errors
    /// What made it fail.
    pub fn is_ready(&self) -> Result<bool> {
        let api = self.plugin.api();
        let mut args = IsReadyArgs { event: self.handle, ..IsReadyArgs::new() };
        self.plugin.call(api.event_is_ready, "Event_IsReady", &mut args)?;
        if args.is_ready == 0 {
            return Ok(false);
        }
        let mut args = EventArgs { event: self.handle, ..EventArgs::new() };
        self.plugin.call(api.event_error, "Event_Error", &mut args)?;
        Ok(true)
    }

    /// Waits for it.
    ///
    /// # Errors
    /// What made it fail.
    pub fn wait(&self) -> Result<()> {
        let mut args = EventArgs { event: self.handle, ..EventArgs::new() };
        self.plugin.call(self.plugin.api().event_await, "Event_Await", &mut args)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let args = EventArgs { event: self.handle, ..EventArgs::new() };
        self.plugin.destroy(self.plugin.api().event_destroy, "Event_Destroy", args);
    }
}
