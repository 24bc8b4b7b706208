//! Structs and functions of PJRT's C interface, as `pjrt_c_api.h` of version 0.81 lays them out (the header stands in
//! PyPI's wheel `xla-cpu-pjrt` 0.0.1). Every call takes one struct that begins with its own size, so that plugins of
//! other minor versions read what they know; functions are only ever added at the end of the table.

use std::ffi::{c_char, c_int, c_void};
use std::mem::size_of;

/// The major version, which must be equal, and the minor version of the header that this file follows.
pub const VERSION: (c_int, c_int) = (0, 81);

/// Anything that the plugin owns.
pub type Handle = *mut c_void;

/// A function that takes a struct of arguments and gives an error, or null.
pub type Call<A> = Option<unsafe extern "C" fn(*mut A) -> Handle>;

/// What every struct begins with.
#[repr(C)]
pub struct Head {
    pub size: usize,
    pub extensions: Handle,
}

/// A struct of arguments: C's layout, a [`Head`] first, and all zeros is a value of it.
///
/// # Safety
/// All of that must hold.
pub unsafe trait Args: Sized {
    /// The struct with its size, everything else zero.
    fn new() -> Self {
        // SAFETY: the trait promises that zeros are a value, and that a head stands first.
        unsafe {
            let mut args: Self = std::mem::zeroed();
            let head = (&raw mut args).cast::<Head>();
            (*head).size = size_of::<Self>();
            args
        }
    }
}

macro_rules! structs {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $ty:ty,)* })*) => {
        $(
            $(#[$doc])*
            #[repr(C)]
            pub struct $name {
                pub head: Head,
                $(pub $field: $ty,)*
            }
            // SAFETY: integers, pointers, functions that may be absent and structs of these behind a head.
            unsafe impl Args for $name {}
        )*
    };
}

// SAFETY: it is the head.
unsafe impl Args for Head {}

structs! {
    ErrorArgs { error: Handle, }
    MessageArgs { error: Handle, message: *const c_char, bytes: usize, }
    CodeArgs { error: Handle, code: c_int, }
    EventArgs { event: Handle, }
    IsReadyArgs { event: Handle, is_ready: u8, }
    /// An option of a client; the value's place has eight bytes, of which an integer takes all.
    NamedValue { name: *const c_char, bytes: usize, kind: c_int, value: i64, count: usize, }
    ClientCreateArgs {
        options: *const NamedValue,
        count: usize,
        get: Handle,
        get_user: Handle,
        put: Handle,
        put_user: Handle,
        client: Handle,
        try_get: Handle,
        try_get_user: Handle,
    }
    ClientArgs { client: Handle, }
    ClientNameArgs { client: Handle, name: *const c_char, bytes: usize, }
    DevicesArgs { client: Handle, devices: *const Handle, count: usize, }
    DescriptionArgs { device: Handle, description: Handle, }
    IdArgs { description: Handle, id: c_int, }
    KindArgs { description: Handle, kind: *const c_char, bytes: usize, }
    /// A program's text.
    ProgramArgs { code: *const c_char, bytes: usize, format: *const c_char, format_bytes: usize, }
    ClientCompileArgs {
        client: Handle,
        program: *const ProgramArgs,
        options: *const c_char,
        options_bytes: usize,
        executable: Handle,
    }
    FromHostArgs {
        client: Handle,
        data: *const c_void,
        element: c_int,
        dims: *const i64,
        rank: usize,
        strides: *const i64,
        strides_count: usize,
        semantics: c_int,
        device: Handle,
        memory: Handle,
        layout: Handle,
        done: Handle,
        buffer: Handle,
    }
    ExecutableArgs { executable: Handle, }
    OutputsArgs { executable: Handle, count: usize, }
    CodeSizeArgs { executable: Handle, bytes: i64, }
    LoadedArgs { executable: Handle, }
    GetExecutableArgs { loaded: Handle, executable: Handle, }
    ExecuteOptions {
        send: Handle,
        receive: Handle,
        sends: usize,
        receives: usize,
        launch: c_int,
        kept: *const i64,
        kept_count: usize,
        context: Handle,
        location: *const c_char,
        tasks: usize,
        task_ids: Handle,
        incarnations: Handle,
    }
    ExecuteArgs {
        executable: Handle,
        options: *mut ExecuteOptions,
        arguments: *const *const Handle,
        devices: usize,
        count: usize,
        outputs: *const *mut Handle,
        complete: *mut Handle,
        device: Handle,
    }
    BufferArgs { buffer: Handle, }
    SizeArgs { buffer: Handle, bytes: usize, }
    ToHostArgs { source: Handle, layout: *mut Layout, to: *mut c_void, bytes: usize, event: Handle, }
    TiledLayout {
        minor_to_major: *const i64,
        rank: usize,
        tiles: *const i64,
        tile_sizes: *const usize,
        tile_count: usize,
    }
    /// How elements lie in memory; the variant of strides is smaller and not used.
    Layout { tiled: TiledLayout, kind: c_int, }
    TopologyCreateArgs {
        name: *const c_char,
        bytes: usize,
        options: Handle,
        count: usize,
        topology: Handle,
    }
    TopologyArgs { topology: Handle, }
    CompileArgs {
        topology: Handle,
        program: *const ProgramArgs,
        options: *const c_char,
        options_bytes: usize,
        client: Handle,
        executable: Handle,
    }
    MemoryStatsArgs {
        executable: Handle,
        code: i64,
        arguments: i64,
        outputs: i64,
        aliases: i64,
        temporaries: i64,
        host_code: i64,
        host_arguments: i64,
        host_outputs: i64,
        host_aliases: i64,
        host_temporaries: i64,
        peak: i64,
    }
    /// Which version a plugin has.
    Version { major: c_int, minor: c_int, }
}

/// Every byte of host memory may be forgotten once the call is over.
pub const ONLY_DURING_CALL: c_int = 0;

/// `PJRT_NamedValue_kInt64`.
pub const INTEGER: c_int = 1;

/// `PJRT_Buffer_MemoryLayout_Type_Tiled`.
pub const TILED: c_int = 0;

/// The table of a plugin's functions, as far as they are used.
#[repr(C)]
pub struct Api {
    pub size: usize,
    pub extensions: Handle,
    pub version: Version,
    pub error_destroy: Option<unsafe extern "C" fn(*mut ErrorArgs)>,
    pub error_message: Option<unsafe extern "C" fn(*mut MessageArgs)>,
    pub error_get_code: Call<CodeArgs>,
    pub plugin_initialize: Call<Head>,
    unused0: [*const c_void; 1],
    pub event_destroy: Call<EventArgs>,
    pub event_is_ready: Call<IsReadyArgs>,
    pub event_error: Call<EventArgs>,
    pub event_await: Call<EventArgs>,
    unused1: [*const c_void; 1],
    pub client_create: Call<ClientCreateArgs>,
    pub client_destroy: Call<ClientArgs>,
    pub client_platform_name: Call<ClientNameArgs>,
    unused2: [*const c_void; 1],
    pub client_platform_version: Call<ClientNameArgs>,
    unused3: [*const c_void; 1],
    pub client_addressable_devices: Call<DevicesArgs>,
    unused4: [*const c_void; 3],
    pub client_compile: Call<ClientCompileArgs>,
    unused5: [*const c_void; 1],
    pub client_buffer_from_host_buffer: Call<FromHostArgs>,
    pub device_description_id: Call<IdArgs>,
    unused6: [*const c_void; 2],
    pub device_description_kind: Call<KindArgs>,
    unused7: [*const c_void; 2],
    pub device_get_description: Call<DescriptionArgs>,
    unused8: [*const c_void; 10],
    pub executable_destroy: Call<ExecutableArgs>,
    unused9: [*const c_void; 3],
    pub executable_num_outputs: Call<OutputsArgs>,
    pub executable_size_of_generated_code_in_bytes: Call<CodeSizeArgs>,
    unused10: [*const c_void; 4],
    pub loaded_executable_destroy: Call<LoadedArgs>,
    pub loaded_executable_get_executable: Call<GetExecutableArgs>,
    unused11: [*const c_void; 3],
    pub loaded_executable_execute: Call<ExecuteArgs>,
    unused12: [*const c_void; 2],
    pub buffer_destroy: Call<BufferArgs>,
    unused13: [*const c_void; 5],
    pub buffer_on_device_size_in_bytes: Call<SizeArgs>,
    unused14: [*const c_void; 5],
    pub buffer_to_host_buffer: Call<ToHostArgs>,
    unused15: [*const c_void; 11],
    pub topology_description_create: Call<TopologyCreateArgs>,
    pub topology_description_destroy: Call<TopologyArgs>,
    unused16: [*const c_void; 5],
    pub compile: Call<CompileArgs>,
    unused17: [*const c_void; 6],
    pub executable_get_compiled_memory_stats: Call<MemoryStatsArgs>,
}
