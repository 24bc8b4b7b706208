/**
 * WebGPU as Rust uses it: every object has a number that Rust chose, and every method is one call from Rust.
 *
 * A step's commands are recorded once into arrays that JavaScript owns (a view of wasm memory
 * would be detached when the memory grows) and then replayed by number. Every decode step is the same
 * list, because the control block is on the device.
 *
 * The engine requests a device of its own from the adapter. It is never destroyed, because a wrapper of
 * `gpu` may share it. Disposing destroys the buffers made here.
 */

import { RlxError } from './error.js';
import type { GpuTimes } from './gpu_times.js';
import type { GpuMemory } from './types.js';

/** Most bytes in flight to the device while weights stream. */
export const STAGING_BYTES = 16 * 1024 * 1024;
/** Bytes between two fences of the staging ring. */
const FENCE_BYTES = 4 * 1024 * 1024;
/** Largest single write. */
const PIECE_BYTES = 1024 * 1024;

/** Binding kinds of `createPipeline`. */
const BINDING_TYPES = ['uniform', 'storage', 'read-only-storage'] as const;

/** First word of a recorded command. */
export const DISPATCH = 1; // pipeline, bind group, x, y, z
export const COPY = 2; // source buffer, offset, destination buffer, offset, bytes
const COMMAND_WORDS = 6;

/** An error that an error scope caught. */
export interface ScopeError {
  kind: 'out-of-memory' | 'validation' | 'internal';
  message: string;
}

const OPTIONAL_FEATURES = ['shader-f16', 'subgroups', 'timestamp-query'] as const;
/** Limits that are requested at the adapter's maximum; the others stay at WebGPU's defaults. */
const RAISED_LIMITS = [
  'maxBufferSize', 'maxStorageBufferBindingSize', 'maxComputeWorkgroupStorageSize',
  'maxComputeInvocationsPerWorkgroup', 'maxComputeWorkgroupSizeX', 'maxComputeWorkgroupSizeY',
  'maxComputeWorkgroupSizeZ', 'maxStorageBuffersPerShaderStage', 'maxComputeWorkgroupsPerDimension',
] as const;
/** Limits that the planner reads. */
const REPORTED_LIMITS = [
  ...RAISED_LIMITS, 'maxUniformBufferBindingSize', 'maxBindGroups', 'maxBindingsPerBindGroup',
  'minStorageBufferOffsetAlignment', 'minUniformBufferOffsetAlignment',
] as const;

const SUBGROUP_HEADERS = ['enable subgroups;\n', ''] as const;
/** A shader that shuffles. */
const SHUFFLE = `var<workgroup> x: f32;
@compute @workgroup_size(32) fn main(@builtin(subgroup_size) n: u32) { x = subgroupShuffleXor(f32(n), 1u); }`;
/** Lanes that WebGPU allows, for browsers that do not say more. */
const SUBGROUP_SIZES = [4, 128] as const;

// The numbers of GPUShaderStage and GPUMapMode: npm `webgpu` defines no such globals.
const STAGE_COMPUTE = 4;
const MODE_READ = 1;

/** `describe`'s JSON. */
export interface GpuDescription {
  adapter: { vendor: string; architecture: string; device: string; description: string; fallback: boolean };
  /** Whether the processor simulates it. */
  software: boolean;
  limits: { [name: string]: number };
  features: string[];
  wgslFeatures: string[];
  /** Whether the WGSL compiler takes `enable subgroups;`: Tint requires it, naga refuses it. */
  enableSubgroups: boolean;
  /** The fewest and the most lanes of a subgroup; 0 if shaders have none. */
  subgroupMinSize: number;
  subgroupMaxSize: number;
}

export class GpuHost {
  /** Resolves to the reason, as a sentence, when the device is lost. */
  readonly lost: Promise<string>;
  /** Set by who times kernels. */
  times?: GpuTimes;
  #queue: GPUQueue;
  #buffers = new Map<number, GPUBuffer>();
  /** Of the buffers that were made here. */
  #sizes = new Map<number, { size: number; label: string }>();
  /** Numbers of buffers that the page made: they are not destroyed here. */
  #adopted = new Set<number>();
  #pipelines = new Map<number, GPUComputePipeline>();
  #groups = new Map<number, GPUBindGroup>();
  #lists = new Map<number, Uint32Array>();
  #layouts = new Map<string, GPUBindGroupLayout>();
  #fences: { bytes: number; passed: Promise<unknown> }[] = [];
  #unfenced = 0;
  #error: ScopeError | undefined;
  #isLost = false;
  #disposed = false;

  private constructor(
    /** Never destroyed here. */
    readonly device: GPUDevice,
    private readonly description: GpuDescription,
  ) {
    this.#queue = device.queue;
    this.lost = device.lost.then(({ reason, message }) => {
      this.#isLost = true;
      return message || `the GPU device was lost (${reason || 'unknown'})`;
    });
    device.addEventListener?.('uncapturederror', this.#uncaptured);
  }

  readonly #uncaptured = (event: Event): void => {
    const { error } = event as GPUUncapturedErrorEvent;
    // By name: npm `webgpu` defines the class nowhere.
    const kind = error.constructor.name === 'GPUOutOfMemoryError' ? 'out-of-memory' : 'validation';
    this.#error ??= { kind, message: error.message };
  };

  /**
   * Requests a device of the best adapter, with the limits and features that RLX uses. Without `software` an adapter
   * that the processor simulates is none.
   */
  static async create(gpu: GPU | undefined, { software = true } = {}): Promise<GpuHost> {
    const unavailable = (what: string, cause?: unknown) => new RlxError('device_unavailable', what, {
      hint: "use a browser with WebGPU, or device: 'cpu'",
      cause,
    });
    if (!gpu) throw unavailable('this browser has no WebGPU');
    let adapter: GPUAdapter | null;
    try {
      adapter = await gpu.requestAdapter({ powerPreference: 'high-performance' });
    } catch (cause) {
      throw unavailable('WebGPU failed to give an adapter', cause);
    }
    if (!adapter) throw unavailable('WebGPU has no adapter for this machine');
    const info = adapter.info as Partial<GPUAdapterInfo> | undefined;
    if (!software && isSoftware(info)) {
      throw unavailable(`the GPU is simulated by the processor (${nameOf(info)}), which is faster without that`);
    }

    const requiredFeatures = OPTIONAL_FEATURES.filter((name) => adapter.features.has(name));
    const best: Record<string, number> = {};
    for (const name of RAISED_LIMITS) {
      const limit = adapter.limits[name];
      if (typeof limit === 'number') best[name] = limit;
    }
    let device: GPUDevice;
    try {
      device = await adapter.requestDevice({ requiredFeatures, requiredLimits: best });
    } catch {
      // Some drivers promise limits that they do not give: ask for the defaults, from a new adapter.
      const again = await gpu.requestAdapter({ powerPreference: 'high-performance' });
      if (!again) throw unavailable('WebGPU has no adapter for this machine');
      try {
        device = await again.requestDevice();
      } catch (cause) {
        throw unavailable('WebGPU refused a device', cause);
      }
    }
    return new GpuHost(device, await describe(gpu, adapter, device));
  }

  /** `GpuDescription` as JSON. */
  describe(): string {
    return JSON.stringify(this.description);
  }

  /** One line for people: the adapter's name. */
  adapterName(): string {
    return nameOf(this.description.adapter);
  }

  /** The error that WebGPU reported outside any error scope, once: `ScopeError` as JSON. */
  takeError(): string | undefined {
    const error = this.#error;
    this.#error = undefined;
    return error && JSON.stringify(error);
  }

  isLost(): boolean {
    return this.#isLost;
  }

  // Buffers. `usage` has WebGPU's bits.

  createBuffer(id: number, size: number, usage: number, label: string): void {
    this.#buffers.set(id, this.device.createBuffer({ size, usage, label }));
    this.#sizes.set(id, { size, label });
  }

  /** Gives a number to a buffer that the page made on this device. `destroyBuffer` frees the number. */
  adoptBuffer(id: number, buffer: GPUBuffer): void {
    this.#buffers.set(id, buffer);
    this.#adopted.add(id);
  }

  destroyBuffer(id: number): void {
    if (!this.#adopted.delete(id)) this.#buffers.get(id)?.destroy();
    this.#buffers.delete(id);
    this.#sizes.delete(id);
  }

  /** Bytes of the buffers that were made here, by use. */
  memory(): GpuMemory {
    const memory = { weights: 0, arena: 0, other: 0 };
    for (const { size, label } of this.#sizes.values()) memory[label === 'weights' || label === 'arena' ? label : 'other'] += size;
    return memory;
  }

  /** The buffer with this number. */
  buffer(id: number): GPUBuffer {
    return this.#buffer(id);
  }

  /** `offset` and the length are multiples of 4; the bytes are copied before this returns. */
  writeBuffer(id: number, offset: number, bytes: Uint8Array): void {
    this.#queue.writeBuffer(this.#buffer(id), offset, bytes as Uint8Array<ArrayBuffer>);
  }

  /** `writeBuffer` through the staging ring: waits while 16 MiB are in flight. */
  async stream(id: number, offset: number, bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.byteLength; at += PIECE_BYTES) {
      const piece = bytes.subarray(at, at + PIECE_BYTES);
      await this.#reserve(piece.byteLength);
      this.writeBuffer(id, offset + at, piece);
      if (this.#unfenced >= FENCE_BYTES) this.#fence();
    }
  }

  /** Reserves `bytes` in the staging ring; resolves once they fit. */
  async #reserve(bytes: number): Promise<void> {
    const inFlight = () => this.#fences.reduce((sum, fence) => sum + fence.bytes, this.#unfenced);
    while (inFlight() > 0 && inFlight() + bytes > STAGING_BYTES) {
      if (this.#fences.length === 0) this.#fence();
      const oldest = this.#fences[0]!;
      await oldest.passed;
      if (this.#fences[0] === oldest) this.#fences.shift();
    }
    this.#unfenced += bytes;
  }

  #fence(): void {
    this.#queue.submit([]); // flushes the writes; some implementations hold them until a submit
    const passed = this.#queue.onSubmittedWorkDone();
    // Some browsers reject it when the device is lost. Callers that wait for room are told, if there are any.
    passed.catch(() => {});
    this.#fences.push({ bytes: this.#unfenced, passed });
    this.#unfenced = 0;
  }

  /** Resolves when everything submitted so far has run. */
  async workDone(): Promise<void> {
    await this.#queue.onSubmittedWorkDone();
  }

  // Pipelines.

  /**
   * Compiles `wgsl`; `kinds[i]` is the kind of binding i of group 0: 0 uniform, 1 storage,
   * 2 storage that is only read. Pipelines with equal kinds share a layout.
   */
  async createPipeline(id: number, wgsl: string, entry: string, kinds: Uint32Array): Promise<void> {
    const layout = this.#layout(kinds);
    // This promise reports a rejected shader, not the page: a kernel may have other forms.
    this.device.pushErrorScope('validation');
    const module = this.device.createShaderModule({ code: wgsl, label: entry });
    void this.device.popErrorScope().catch(() => null);
    try {
      const pipeline = await this.device.createComputePipelineAsync({
        label: entry,
        layout: this.device.createPipelineLayout({ bindGroupLayouts: [layout] }),
        compute: { module, entryPoint: entry },
      });
      if (!this.#disposed) this.#pipelines.set(id, pipeline);
    } catch (cause) {
      const info = await module.getCompilationInfo?.().catch(() => undefined);
      const told = info?.messages.filter(({ type }) => type === 'error')
        .map(({ lineNum, linePos, message }) => `${lineNum}:${linePos} ${message}`) ?? [];
      const why = told.length > 0 ? told.join('; ') : cause instanceof Error ? cause.message : String(cause);
      // Rust reads the same JSON that it throws.
      throw JSON.stringify({ code: 'internal', what: `the GPU driver refused a kernel: ${why}`, at: entry, hint: "use device: 'cpu', and please report it" });
    }
  }

  #layout(kinds: Uint32Array): GPUBindGroupLayout {
    const key = kinds.join();
    let layout = this.#layouts.get(key);
    if (!layout) {
      layout = this.device.createBindGroupLayout({
        entries: Array.from(kinds, (kind, binding) => ({
          binding,
          visibility: STAGE_COMPUTE,
          buffer: { type: BINDING_TYPES[kind] ?? 'storage' },
        })),
      });
      this.#layouts.set(key, layout);
    }
    return layout;
  }

  freePipeline(id: number): void {
    this.#pipelines.delete(id);
  }

  /** `entries` has rows of binding, buffer, offset, size; `kinds` are those of the pipelines. */
  createBindGroup(id: number, kinds: Uint32Array, entries: Float64Array): void {
    const list: GPUBindGroupEntry[] = [];
    for (let i = 0; i + 4 <= entries.length; i += 4) {
      const [binding, buffer, offset, size] = entries.subarray(i, i + 4) as unknown as [number, number, number, number];
      list.push({ binding, resource: { buffer: this.#buffer(buffer), offset, size } });
    }
    this.#groups.set(id, this.device.createBindGroup({ layout: this.#layout(kinds), entries: list }));
  }

  freeBindGroup(id: number): void {
    this.#groups.delete(id);
  }

  // Commands.

  /** Keeps a list of commands, six words each; see `DISPATCH` and `COPY`. */
  record(list: number, words: Uint32Array): void {
    this.#lists.set(list, words.slice());
  }

  freeList(list: number): void {
    this.#lists.delete(list);
  }

  /** Encodes the lists in order and submits them, once. */
  submit(lists: Uint32Array): void {
    const encoder = this.device.createCommandEncoder();
    this.encode(encoder, lists);
    this.#queue.submit([encoder.finish()]);
  }

  /**
   * The first `size` bytes of a buffer made for mapping, after everything submitted so far; the
   * buffer is unmapped again when this resolves. Any number of reads may be in flight.
   * Rejects with an error as JSON: the loss of the device, or an error that it reported before.
   */
  async map(buffer: number, size: number): Promise<Uint8Array> {
    const source = this.#buffer(buffer);
    try {
      await source.mapAsync(MODE_READ, 0, size);
    } catch (cause) {
      // A buffer without memory cannot be mapped either; a lost device reports nothing.
      const error = this.#isLost ? undefined : this.takeError();
      if (error) throw error;
      const what = this.#isLost ? await this.lost
        : `reading from the GPU failed: ${cause instanceof Error ? cause.message : String(cause)}`;
      throw JSON.stringify({ code: 'device_lost', what, at: '', hint: 'load the model again' });
    }
    const bytes = new Uint8Array(source.getMappedRange(0, size)).slice();
    source.unmap();
    return bytes;
  }

  /** Encodes the lists in order. With `timed`, the descriptor of the next pass, each dispatch has a pass of its own. */
  encode(encoder: GPUCommandEncoder, lists: Uint32Array, timed?: () => GPUComputePassDescriptor): void {
    let pass: GPUComputePassEncoder | undefined;
    let pipeline = -1;
    for (const list of lists) {
      const words = this.#lists.get(list);
      if (!words) throw new RlxError('internal', `no command list ${list}`);
      for (let i = 0; i + COMMAND_WORDS <= words.length; i += COMMAND_WORDS) {
        // Read one by one: an array for each command would take longer than all else here.
        const a = words[i + 1]!, b = words[i + 2]!, c = words[i + 3]!, d = words[i + 4]!, e = words[i + 5]!;
        if (words[i] === COPY) {
          pass?.end();
          pass = undefined;
          encoder.copyBufferToBuffer(this.#buffer(a), b, this.#buffer(c), d, e);
          continue;
        }
        if (!pass || timed) {
          pass?.end();
          pass = encoder.beginComputePass(timed?.());
          pipeline = -1;
        }
        if (pipeline !== a) pass.setPipeline(this.#pipelines.get(a)!);
        pipeline = a;
        pass.setBindGroup(0, this.#groups.get(b)!);
        pass.dispatchWorkgroups(c, d, e);
      }
    }
    pass?.end();
  }

  // Errors.

  /** Catches errors of the calls up to `popErrorScopes`. */
  pushErrorScopes(): void {
    for (const kind of ['internal', 'validation', 'out-of-memory'] as const) this.device.pushErrorScope(kind);
  }

  /** `ScopeError` as JSON, memory first; null when nothing went wrong. */
  async popErrorScopes(): Promise<string | null> {
    const kinds = ['out-of-memory', 'validation', 'internal'] as const;
    // All three are popped at once, so that no other scope comes between them.
    const errors = await Promise.all(kinds.map(() => this.device.popErrorScope()));
    for (const [i, error] of errors.entries()) {
      if (error) return JSON.stringify({ kind: kinds[i]!, message: error.message } satisfies ScopeError);
    }
    return null;
  }

  /** Destroys the buffers made here and forgets the rest. */
  dispose(): void {
    if (this.#disposed) return;
    this.#disposed = true;
    // The device may be shared, and live longer.
    this.device.removeEventListener?.('uncapturederror', this.#uncaptured);
    for (const id of [...this.#buffers.keys()]) this.destroyBuffer(id);
    for (const map of [this.#buffers, this.#pipelines, this.#groups, this.#lists, this.#layouts]) map.clear();
  }

  #buffer(id: number): GPUBuffer {
    const buffer = this.#buffers.get(id);
    if (!buffer) throw new RlxError('internal', `no GPU buffer ${id}`);
    return buffer;
  }
}

function nameOf({ vendor, architecture, device, description }: Partial<GPUAdapterInfo> = {}): string {
  return description || [vendor, architecture, device].filter(Boolean).join(' ') || 'unknown adapter';
}

/** Whether an adapter says that it is one in software. Not all of them say so but by name: Mesa's and Windows' do not. */
function isSoftware(info: Partial<GPUAdapterInfo> = {}): boolean {
  const names = [info.vendor, info.architecture, info.device, info.description].join(' ');
  return info.isFallbackAdapter === true || /swiftshader|llvmpipe|lavapipe|softpipe|basic render/i.test(names);
}

async function describe(gpu: GPU, adapter: GPUAdapter, device: GPUDevice): Promise<GpuDescription> {
  const info = adapter.info as Partial<GPUAdapterInfo> | undefined;
  const limits: { [name: string]: number } = {};
  for (const name of REPORTED_LIMITS) {
    const limit = device.limits[name];
    if (typeof limit === 'number') limits[name] = limit;
  }
  const header = await subgroupHeader(device);
  return {
    adapter: {
      vendor: info?.vendor ?? '',
      architecture: info?.architecture ?? '',
      device: info?.device ?? '',
      description: info?.description ?? '',
      fallback: info?.isFallbackAdapter ?? false,
    },
    software: isSoftware(info),
    limits,
    features: OPTIONAL_FEATURES.filter((name) => device.features.has(name)),
    wgslFeatures: [...(gpu.wgslLanguageFeatures ?? [])].sort(),
    enableSubgroups: header === SUBGROUP_HEADERS[0],
    subgroupMinSize: header === undefined ? 0 : info?.subgroupMinSize ?? SUBGROUP_SIZES[0],
    subgroupMaxSize: header === undefined ? 0 : info?.subgroupMaxSize ?? SUBGROUP_SIZES[1],
  };
}

/** What a shader with subgroups begins with, where its compiler has them: not every one knows the directive. */
async function subgroupHeader(device: GPUDevice): Promise<string | undefined> {
  for (const header of SUBGROUP_HEADERS) {
    device.pushErrorScope('validation');
    device.createShaderModule({ code: header + SHUFFLE });
    if ((await device.popErrorScope()) === null) return header;
  }
  return undefined;
}
