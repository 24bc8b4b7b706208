/** Typed arrays and the element types of tensors. */

import { usage } from './error.js';
import type { BufferInput, ElementType, TensorData, TensorInput } from './session_types.js';

type ArrayClass = new (buffer: ArrayBuffer) => TensorData;

const ARRAYS: { [type in ElementType]: ArrayClass } = {
  f64: Float64Array, f32: Float32Array, f16: Uint16Array, bf16: Uint16Array, i64: BigInt64Array, i32: Int32Array,
  i16: Int16Array, i8: Int8Array, u32: Uint32Array, u8: Uint8Array, bool: Uint8Array, c64: Float32Array,
};

/** A tensor in the form of the wasm module. */
export interface RawTensor {
  name: string;
  type: ElementType;
  dims: Float64Array;
  bytes: Uint8Array;
}

/** A tensor in a buffer of the page. */
export interface RawBuffer {
  name: string;
  type: ElementType;
  dims: Float64Array;
  buffer: GPUBuffer;
}

/** The number of GPUBufferUsage.COPY_SRC: npm `webgpu` defines no such global. */
const COPY_SRC = 4;

/** The element type of an array: the wanted one if the array can have it, else the first that it can have. */
function typeOf(name: string, { data, type }: TensorInput, wanted: ElementType | undefined): ElementType {
  const own = (Object.keys(ARRAYS) as ElementType[]).filter((t) => data instanceof ARRAYS[t]);
  if (own.length === 0) {
    throw usage(`the data of input ${name} is no typed array of a tensor's elements`, name, 'give a Float32Array, Uint32Array, …: see ElementType');
  }
  if (type !== undefined) {
    if (own.includes(type)) return type;
    throw usage(`input ${name} is said to be ${String(type)}, and its data is a ${data.constructor.name}`, name, `such an array has ${own.join(' or ')}`);
  }
  return wanted !== undefined && own.includes(wanted) ? wanted : own.find((t) => t !== 'c64')!;
}

function sizes(name: string, dims: readonly number[]): Float64Array {
  if (!Array.isArray(dims) || !dims.every((n) => Number.isSafeInteger(n) && n >= 0)) {
    throw usage(`the dims of input ${name} are no array of whole numbers from 0 on`, name);
  }
  return Float64Array.from(dims);
}

/** Checks a tensor in a buffer. WebGPU would report errors later, and without the input's name. */
export function toBuffer(name: string, { buffer, dims, type = undefined }: BufferInput, wanted: ElementType | undefined): RawBuffer {
  const of = type ?? wanted ?? 'f32';
  const ArrayOf = ARRAYS[of] as (ArrayClass & { BYTES_PER_ELEMENT: number }) | undefined;
  if (!ArrayOf) throw usage(`input ${name} is said to be ${String(of)}, which is no element type`, name);
  const elements = sizes(name, dims);
  const bytes = elements.reduce((n, d) => n * d, ArrayOf.BYTES_PER_ELEMENT * (of === 'c64' ? 2 : 1));
  const need = Math.ceil(bytes / 4) * 4;
  if (!(buffer.size >= need)) throw usage(`the buffer of input ${name} has ${buffer.size} bytes, ${of} of these dims needs ${need}`, name);
  if ((buffer.usage & COPY_SRC) === 0) throw usage(`the buffer of input ${name} cannot be copied`, name, 'make it with GPUBufferUsage.COPY_SRC');
  return { name, type: of, dims: elements, buffer };
}

/** Checks a tensor without its input's type; the module compares the two. */
export function toRaw(name: string, tensor: TensorInput, wanted: ElementType | undefined): RawTensor {
  if (typeof tensor !== 'object' || tensor === null || !ArrayBuffer.isView(tensor.data)) {
    throw usage(`input ${name} is no tensor`, name, 'give { data: a typed array, dims: its sizes }, { buffer: a GPUBuffer, dims }, or a DeviceTensor');
  }
  const type = typeOf(name, tensor, wanted);
  const { data } = tensor;
  const dims = sizes(name, tensor.dims);
  return { name, type, dims, bytes: new Uint8Array(data.buffer, data.byteOffset, data.byteLength) };
}

/** A typed array over bytes that nobody else uses. */
export function toData(type: ElementType, bytes: Uint8Array): TensorData {
  // Types without a typed array, such as blocks of packed elements, stay bytes.
  const ArrayOf: ArrayClass = ARRAYS[type] ?? Uint8Array;
  const whole = bytes.byteLength === bytes.buffer.byteLength ? bytes.buffer : bytes.slice().buffer;
  return new ArrayOf(whole as ArrayBuffer);
}
