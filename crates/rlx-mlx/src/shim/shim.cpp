// What RLX asks of MLX, as functions with C's calling convention. MLX has a C++ interface without a stable binary form,
// so this file is compiled against the headers of the MLX that is installed. `enum class Code` is written in front of
// it, by the list in src/tape/code.rs.
//
// A program is a tape: instructions that each make one array of earlier ones. It arrives as words of 64 bits:
//   [parameters, instructions, results, then for each instruction:
//    code, inputs, integers, numbers, dropped, then the registers of the inputs, the integers, the bits of the numbers
//    as doubles, and the registers that nothing reads afterwards; at the end the registers of the results]
// Registers 0 .. parameters are the arguments, the others the instructions' arrays.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "mlx/mlx.h"
#include "mlx/version.h"

namespace mx = mlx::core;
using mx::array;

namespace {

// The numbers of element types, as src/tape/dtype.rs has them.
mx::Dtype dtype_of(int64_t n) {
  switch (n) {
    case 0: return mx::bool_;
    case 1: return mx::uint8;
    case 2: return mx::uint16;
    case 3: return mx::uint32;
    case 4: return mx::uint64;
    case 5: return mx::int8;
    case 6: return mx::int16;
    case 7: return mx::int32;
    case 8: return mx::int64;
    case 9: return mx::float16;
    case 10: return mx::float32;
    case 11: return mx::float64;
    case 12: return mx::bfloat16;
    default: throw std::invalid_argument("unknown element type " + std::to_string(n));
  }
}

struct Instruction {
  Code code;
  std::vector<uint32_t> inputs;
  std::vector<int64_t> ints;
  std::vector<double> numbers;
  std::vector<uint32_t> dropped;
};

struct Tape {
  size_t parameters = 0;
  std::vector<Instruction> instructions;
  std::vector<uint32_t> results;
};

// Reads words and fails at the end of them.
struct Words {
  const int64_t* at;
  const int64_t* end;

  int64_t next() {
    if (at == end) throw std::invalid_argument("the tape ends early");
    return *at++;
  }
  size_t count() {
    int64_t n = next();
    if (n < 0 || n > end - at) throw std::invalid_argument("a tape's list is longer than the tape");
    return static_cast<size_t>(n);
  }
  uint32_t below(size_t bound) {
    int64_t n = next();
    if (n < 0 || static_cast<uint64_t>(n) >= bound) throw std::invalid_argument("no such register");
    return static_cast<uint32_t>(n);
  }
};

Tape parse(const int64_t* words, size_t length) {
  Words w{words, words + length};
  Tape tape;
  int64_t parameters = w.next();
  if (parameters < 0 || parameters > 1 << 24) throw std::invalid_argument("too many parameters");
  tape.parameters = static_cast<size_t>(parameters);
  size_t n = w.count(), results = w.count();
  for (size_t i = 0; i < n; i++) {
    Instruction in;
    int64_t code = w.next();
    if (code < 0 || code >= CODES) throw std::invalid_argument("no such instruction");
    in.code = static_cast<Code>(code);
    size_t inputs = w.count(), ints = w.count(), numbers = w.count(), dropped = w.count();
    size_t known = tape.parameters + i;
    for (size_t j = 0; j < inputs; j++) in.inputs.push_back(w.below(known));
    for (size_t j = 0; j < ints; j++) in.ints.push_back(w.next());
    for (size_t j = 0; j < numbers; j++) {
      int64_t bits = w.next();
      double x;
      std::memcpy(&x, &bits, sizeof x);
      in.numbers.push_back(x);
    }
    for (size_t j = 0; j < dropped; j++) in.dropped.push_back(w.below(known + 1));
    tape.instructions.push_back(std::move(in));
  }
  for (size_t j = 0; j < results; j++) tape.results.push_back(w.below(tape.parameters + n));
  return tape;
}

// An instruction with its arrays.
struct Call {
  const Instruction& of;
  std::vector<std::optional<array>>& registers;

  size_t inputs() const { return of.inputs.size(); }
  const array& in(size_t i) const {
    if (i >= of.inputs.size()) throw std::invalid_argument("an instruction lacks an input");
    const auto& r = registers[of.inputs[i]];
    if (!r) throw std::invalid_argument("a register is read after its last use");
    return *r;
  }
  int64_t integer(size_t i) const {
    if (i >= of.ints.size()) throw std::invalid_argument("an instruction lacks an integer");
    return of.ints[i];
  }
  int small(size_t i) const {
    int64_t n = integer(i);
    if (n < INT32_MIN || n > INT32_MAX) throw std::invalid_argument("a size of 2^31 or more");
    return static_cast<int>(n);
  }
  double number(size_t i) const {
    if (i >= of.numbers.size()) throw std::invalid_argument("an instruction lacks a number");
    return of.numbers[i];
  }
  float single(size_t i) const { return static_cast<float>(number(i)); }
  mx::Dtype dtype(size_t i) const { return dtype_of(integer(i)); }
  // The integers from `first` on, `count` of them or all.
  template <typename T>
  T list(size_t first, size_t count = SIZE_MAX) const {
    T out;
    for (size_t i = first; i < of.ints.size() && i - first < count; i++) out.push_back(small(i));
    return out;
  }
  mx::Shape shape(size_t first, size_t count = SIZE_MAX) const { return list<mx::Shape>(first, count); }
  std::vector<int> axes(size_t first, size_t count = SIZE_MAX) const {
    return list<std::vector<int>>(first, count);
  }
  std::optional<array> optional(size_t i) const {
    return i < inputs() ? std::optional<array>(in(i)) : std::nullopt;
  }
};

// Integers of a type: a list of numbers in a row.
array integers(const Call& c) {
  mx::Dtype type = c.dtype(0);
  std::vector<int64_t> all;
  for (size_t i = 1; i < c.of.ints.size(); i++) all.push_back(c.of.ints[i]);
  int n = static_cast<int>(all.size());
  return mx::astype(array(all.data(), mx::Shape{n}, mx::int64), type);
}

array scalar(const Call& c) {
  mx::Dtype type = c.dtype(0);
  if (c.of.numbers.empty()) return mx::astype(array(c.integer(1), mx::int64), type);
  if (type == mx::float64) return array(c.number(0), mx::float64);
  return mx::astype(array(c.single(0), mx::float32), type);
}

// Integers: rank, then starts, ends and steps.
array slice(const Call& c) {
  size_t rank = static_cast<size_t>(c.integer(0));
  return mx::slice(c.in(0), c.shape(1, rank), c.shape(1 + rank, rank), c.shape(1 + 2 * rank, rank));
}

// Integers: rank, low pads, high pads.
array pad(const Call& c) {
  size_t rank = static_cast<size_t>(c.integer(0));
  std::vector<int> all;
  for (size_t i = 0; i < rank; i++) all.push_back(static_cast<int>(i));
  return mx::pad(c.in(0), all, c.shape(1, rank), c.shape(1 + rank, rank), c.in(1));
}

// Integers: spatial rank, groups, flip, then strides, low pads, high pads, kernel's and input's dilations.
array conv(const Call& c) {
  size_t rank = static_cast<size_t>(c.integer(0));
  auto part = [&](size_t i) { return c.axes(3 + i * rank, rank); };
  return mx::conv_general(
      c.in(0), c.in(1), part(0), part(1), part(2), part(3), part(4), c.small(1), c.integer(2) != 0);
}

// Inputs: q, k, v, then a mask if integer 0 says so, then sinks if integer 1 says so.
array attention(const Call& c) {
  size_t at = 3;
  std::optional<array> mask, sinks;
  if (c.integer(0)) mask = c.in(at++);
  if (c.integer(1)) sinks = c.in(at++);
  std::string mode = mask ? "array" : "";
  return mx::fast::scaled_dot_product_attention(
      c.in(0), c.in(1), c.in(2), c.single(0), mode, mask, sinks);
}

array call(const Call& c) {
  switch (c.of.code) {
    case Code::Scalar: return scalar(c);
    case Code::Integers: return integers(c);
    case Code::Arange: return mx::astype(mx::arange(c.small(1)), c.dtype(0));
    case Code::AsType: return mx::astype(c.in(0), c.dtype(0));
    case Code::View: return mx::view(c.in(0), c.dtype(0));
    case Code::Reshape: return mx::reshape(c.in(0), c.shape(0));
    case Code::Broadcast: return mx::broadcast_to(c.in(0), c.shape(0));
    case Code::Transpose: return mx::transpose(c.in(0), c.axes(0));
    case Code::Slice: return slice(c);
    case Code::SliceUpdateAt: return mx::slice_update(c.in(0), c.in(1), c.in(2), c.axes(0));
    case Code::Concat: {
      std::vector<array> all;
      for (size_t i = 0; i < c.inputs(); i++) all.push_back(c.in(i));
      return mx::concatenate(std::move(all), c.small(0));
    }
    case Code::Take: return mx::take(c.in(0), c.in(1), c.small(0));
    case Code::TakeAlong: return mx::take_along_axis(c.in(0), c.in(1), c.small(0));
    case Code::Scatter: return mx::scatter(c.in(0), c.in(1), c.in(2), c.small(0));
    case Code::ScatterAdd: return mx::scatter_add(c.in(0), c.in(1), c.in(2), c.small(0));
    case Code::Pad: return pad(c);
    case Code::Flip: return mx::flip(c.in(0), c.axes(0));
    case Code::Roll: return mx::roll(c.in(0), c.small(0), c.small(1));
    case Code::Add: return mx::add(c.in(0), c.in(1));
    case Code::Sub: return mx::subtract(c.in(0), c.in(1));
    case Code::Mul: return mx::multiply(c.in(0), c.in(1));
    case Code::Div: return mx::divide(c.in(0), c.in(1));
    case Code::FloorDiv: return mx::floor_divide(c.in(0), c.in(1));
    case Code::Remainder: return mx::remainder(c.in(0), c.in(1));
    case Code::Power: return mx::power(c.in(0), c.in(1));
    case Code::Maximum: return mx::maximum(c.in(0), c.in(1));
    case Code::Minimum: return mx::minimum(c.in(0), c.in(1));
    case Code::Eq: return mx::equal(c.in(0), c.in(1));
    case Code::Ne: return mx::not_equal(c.in(0), c.in(1));
    case Code::Lt: return mx::less(c.in(0), c.in(1));
    case Code::Le: return mx::less_equal(c.in(0), c.in(1));
    case Code::Gt: return mx::greater(c.in(0), c.in(1));
    case Code::Ge: return mx::greater_equal(c.in(0), c.in(1));
    case Code::LogicalAnd: return mx::logical_and(c.in(0), c.in(1));
    case Code::LogicalOr: return mx::logical_or(c.in(0), c.in(1));
    case Code::BitAnd: return mx::bitwise_and(c.in(0), c.in(1));
    case Code::BitOr: return mx::bitwise_or(c.in(0), c.in(1));
    case Code::BitXor: return mx::bitwise_xor(c.in(0), c.in(1));
    case Code::ShiftLeft: return mx::left_shift(c.in(0), c.in(1));
    case Code::ShiftRight: return mx::right_shift(c.in(0), c.in(1));
    case Code::Where: return mx::where(c.in(0), c.in(1), c.in(2));
    case Code::Negative: return mx::negative(c.in(0));
    case Code::Exp: return mx::exp(c.in(0));
    case Code::Expm1: return mx::expm1(c.in(0));
    case Code::Log: return mx::log(c.in(0));
    case Code::Log1p: return mx::log1p(c.in(0));
    case Code::Sqrt: return mx::sqrt(c.in(0));
    case Code::Rsqrt: return mx::rsqrt(c.in(0));
    case Code::Abs: return mx::abs(c.in(0));
    case Code::Sin: return mx::sin(c.in(0));
    case Code::Cos: return mx::cos(c.in(0));
    case Code::Tan: return mx::tan(c.in(0));
    case Code::Arctan: return mx::arctan(c.in(0));
    case Code::Reciprocal: return mx::reciprocal(c.in(0));
    case Code::Round: return mx::round(c.in(0));
    case Code::Floor: return mx::floor(c.in(0));
    case Code::Ceil: return mx::ceil(c.in(0));
    case Code::Tanh: return mx::tanh(c.in(0));
    case Code::Sigmoid: return mx::sigmoid(c.in(0));
    case Code::Erf: return mx::erf(c.in(0));
    case Code::IsNan: return mx::isnan(c.in(0));
    case Code::IsFinite: return mx::isfinite(c.in(0));
    // Integer 0 says whether axes of one element stay.
    case Code::Sum: return mx::sum(c.in(0), c.axes(1), c.integer(0) != 0);
    case Code::Max: return mx::max(c.in(0), c.axes(1), c.integer(0) != 0);
    case Code::Min: return mx::min(c.in(0), c.axes(1), c.integer(0) != 0);
    case Code::Prod: return mx::prod(c.in(0), c.axes(1), c.integer(0) != 0);
    case Code::Any: return mx::any(c.in(0), c.axes(1), c.integer(0) != 0);
    case Code::ArgMax: return mx::argmax(c.in(0), c.small(0), true);
    case Code::ArgSort: return mx::argsort(c.in(0), c.small(0));
    case Code::Sort: return mx::sort(c.in(0), c.small(0));
    case Code::CumSum: return mx::cumsum(c.in(0), c.small(0), c.integer(1) != 0, c.integer(2) != 0);
    case Code::Softmax: return mx::softmax(c.in(0), std::vector<int>{c.small(0)}, true);
    case Code::MatMul: return mx::matmul(c.in(0), c.in(1));
    case Code::QuantizedMatMul:
      return mx::quantized_matmul(c.in(0), c.in(1), c.in(2), c.in(3), true, c.small(0), c.small(1));
    // Inputs: x, weights, scales, biases, the matrix of each row.
    case Code::GatherQuantizedMatMul:
      return mx::gather_qmm(
          c.in(0), c.in(1), c.in(2), c.in(3), std::nullopt, c.in(4), true, c.small(0), c.small(1));
    case Code::GatherMatMul: return mx::gather_mm(c.in(0), c.in(1), std::nullopt, c.in(2));
    case Code::Dequantize: return mx::dequantize(c.in(0), c.in(1), c.in(2), c.small(0), c.small(1));
    case Code::RmsNorm: return mx::fast::rms_norm(c.in(0), c.in(1), c.single(0));
    case Code::Attention: return attention(c);
    case Code::Conv: return conv(c);
  }
  throw std::invalid_argument("an instruction without a meaning");
}

// Runs a tape: nothing is computed yet, MLX has a graph of arrays afterwards.
std::vector<array> run(const Tape& tape, std::vector<array> arguments) {
  if (arguments.size() != tape.parameters) throw std::invalid_argument("another number of arguments");
  std::vector<std::optional<array>> registers;
  registers.reserve(tape.parameters + tape.instructions.size());
  for (auto& a : arguments) registers.emplace_back(std::move(a));
  arguments.clear();
  for (const auto& in : tape.instructions) {
    registers.emplace_back(call(Call{in, registers}));
    for (uint32_t r : in.dropped) registers[r].reset();
  }
  std::vector<array> results;
  for (uint32_t r : tape.results) {
    if (!registers[r]) throw std::invalid_argument("a result was dropped");
    results.push_back(*registers[r]);
  }
  return results;
}

struct Program {
  std::function<std::vector<array>(const std::vector<array>&)> compiled;
  Tape tape;
};

// Runs `f`; an exception's text goes to `error`, cut off at `room` bytes with a zero behind it.
template <typename F>
int guarded(char* error, size_t room, F f) {
  const char* what = "an unknown exception";
  std::string text;
  try {
    f();
    return 0;
  } catch (const std::exception& e) {
    text = e.what();
    what = text.c_str();
  } catch (...) {
  }
  if (room > 0) {
    size_t n = std::min(std::strlen(what), room - 1);
    std::memcpy(error, what, n);
    error[n] = 0;
  }
  return 1;
}

} // namespace

extern "C" {

// The version of the headers that this was compiled with, and whether the library's own is the same.
int rlx_mlx_version(char* text, size_t room) {
  std::string headers = std::to_string(MLX_VERSION_MAJOR) + "." + std::to_string(MLX_VERSION_MINOR) + "." +
      std::to_string(MLX_VERSION_PATCH);
  std::string library = mx::version();
  if (room > 0) {
    size_t n = std::min(library.size(), room - 1);
    std::memcpy(text, library.data(), n);
    text[n] = 0;
  }
  return library.rfind(headers, 0) == 0;
}

// Chooses the device, the CPU or else a GPU if there is one, and names it.
int rlx_mlx_device(int cpu, char* name, size_t room) {
  return guarded(name, room, [&] {
    // On NVIDIA's cards MLX rounds factors of f32 to TF32, unless it is told before its first product. Who has asked for
    // it keeps it.
    setenv("MLX_ENABLE_TF32", "0", 0);
    mx::Device gpu(mx::Device::gpu), host(mx::Device::cpu);
    mx::Device device = !cpu && mx::is_available(gpu) ? gpu : host;
    mx::set_default_device(device);
    std::string text = device == mx::Device::gpu ? "GPU" : "CPU";
    const auto& info = mx::device_info(device);
    auto found = info.find("device_name");
    if (found != info.end()) {
      if (auto* s = std::get_if<std::string>(&found->second)) text += " " + *s;
    }
    if (room > 0) {
      size_t n = std::min(text.size(), room - 1);
      std::memcpy(name, text.data(), n);
      name[n] = 0;
    }
  });
}

// Makes an array of bytes, which are copied.
int rlx_mlx_upload(int64_t dtype, const int64_t* dims, size_t rank, const void* bytes, size_t length, void** out,
                   char* error, size_t room) {
  return guarded(error, room, [&] {
    mx::Dtype type = dtype_of(dtype);
    mx::Shape shape;
    uint64_t elements = 1;
    for (size_t i = 0; i < rank; i++) {
      if (dims[i] < 0 || dims[i] > INT32_MAX) throw std::invalid_argument("a size of 2^31 or more");
      if (__builtin_mul_overflow(elements, static_cast<uint64_t>(dims[i]), &elements))
        throw std::invalid_argument("a shape of 2^64 elements or more");
      shape.push_back(static_cast<int>(dims[i]));
    }
    if (elements != length / type.size() || length % type.size() != 0)
      throw std::invalid_argument("the bytes do not fit the shape");
    auto data = mx::allocator::malloc(length > 0 ? length : 1);
    if (length > 0) std::memcpy(data.buffer().raw_ptr(), bytes, length);
    *out = new array(std::move(data), std::move(shape), type);
  });
}

void rlx_mlx_free(void* a) { delete static_cast<array*>(a); }

int rlx_mlx_program(const int64_t* words, size_t length, int compile, void** out, char* error, size_t room) {
  return guarded(error, room, [&] {
    auto program = std::make_unique<Program>();
    program->tape = parse(words, length);
    if (compile) {
      const Tape* tape = &program->tape;
      program->compiled = mx::compile([tape](const std::vector<array>& a) { return run(*tape, a); });
    }
    *out = program.release();
  });
}

void rlx_mlx_program_free(void* p) { delete static_cast<Program*>(p); }

// Queues a program. An argument that is given is gone afterwards, whatever happens.
int rlx_mlx_run(void* program, void** arguments, const uint8_t* given, size_t count, void** results, size_t expected,
                char* error, size_t room) {
  return guarded(error, room, [&] {
    auto* p = static_cast<Program*>(program);
    std::vector<array> all;
    all.reserve(count);
    for (size_t i = 0; i < count; i++) all.push_back(*static_cast<array*>(arguments[i]));
    for (size_t i = 0; i < count; i++) {
      if (given[i]) {
        delete static_cast<array*>(arguments[i]);
        arguments[i] = nullptr;
      }
    }
    std::vector<array> made;
    if (p->compiled) {
      made = p->compiled(all);
      all.clear();
    } else {
      made = run(p->tape, std::move(all));
    }
    if (made.size() != expected) throw std::invalid_argument("another number of results");
    mx::async_eval(made);
    std::vector<std::unique_ptr<array>> boxes;
    for (auto& a : made) boxes.push_back(std::make_unique<array>(std::move(a)));
    for (size_t i = 0; i < expected; i++) results[i] = boxes[i].release();
  });
}

// Begins to bring an array into the order of its rows; a new array, which `rlx_mlx_bytes` takes.
int rlx_mlx_read(void* a, void** out, char* error, size_t room) {
  return guarded(error, room, [&] {
    auto rows = mx::contiguous(*static_cast<array*>(a));
    mx::async_eval(std::vector<array>{rows});
    *out = new array(std::move(rows));
  });
}

// The bytes of such an array: 2 if they are not there yet and `wait` is 0.
int rlx_mlx_bytes(void* a, int wait, const void** bytes, size_t* length, char* error, size_t room) {
  auto* rows = static_cast<array*>(a);
  int pending = 0;
  int failed = guarded(error, room, [&] {
    if (!wait && !rows->is_available()) {
      pending = 2;
      return;
    }
    rows->wait();
    *bytes = rows->nbytes() > 0 ? rows->data<char>() : nullptr;
    *length = rows->nbytes();
  });
  return failed ? failed : pending;
}

} // extern "C"
