// The emulator's process: it has the buffers and runs the kernels. `crates/rlx-cuda/src/driver/emulator.rs` asks.
//
// A command is 64-bit words, little-endian: what to do, how many words follow, these, how many bytes follow, these.
// An answer is a number of bytes and these.
//
//   1 create   buffer, bytes                      answers 1, or nothing without memory
//   2 destroy  buffer
//   3 write    buffer, offset; the bytes
//   4 copy     buffer, offset, buffer, offset, bytes
//   5 read     buffer, offset, bytes              answers the bytes
//   6 load     function; a library's path and the name of what gives the kernel in it, a line each
//   7 forget   function
//   8 launch   function, grid x y z, threads, then of each argument 1, buffer and offset, or 0, 0 and a number
#include "block.cpp"
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <map>
#include <string>
#include <unistd.h>
#include <vector>

namespace {

using emulator::Launch;
using Find = const emulator::Kernel* (*)(emulator::Block*);

struct Buffer {
    char* at;
    uint64_t bytes;
};

std::map<uint64_t, Buffer> buffers;
std::map<uint64_t, const emulator::Kernel*> functions;

[[noreturn]] void end(const std::string& what) {
    fprintf(stderr, "%s\n", what.c_str());
    fflush(stderr);
    _Exit(70);
}

void take(void* to, size_t bytes) {
    char* at = static_cast<char*>(to);
    while (bytes > 0) {
        ssize_t n = read(0, at, bytes);
        // The one who asks is gone.
        if (n <= 0) _Exit(0);
        at += n;
        bytes -= size_t(n);
    }
}

void give(const void* from, size_t bytes) {
    const char* at = static_cast<const char*>(from);
    while (bytes > 0) {
        ssize_t n = write(1, at, bytes);
        if (n <= 0) _Exit(0);
        at += n;
        bytes -= size_t(n);
    }
}

char* place(uint64_t buffer, uint64_t offset, uint64_t bytes) {
    auto found = buffers.find(buffer);
    if (found == buffers.end()) end("there is no buffer " + std::to_string(buffer));
    if (offset > found->second.bytes || bytes > found->second.bytes - offset) {
        end(std::to_string(bytes) + " bytes at " + std::to_string(offset) + " of a buffer of " +
            std::to_string(found->second.bytes));
    }
    return found->second.at + offset;
}

void load(uint64_t function, const std::string& names) {
    size_t line = names.find('\n');
    void* library = dlopen(names.substr(0, line).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) end(dlerror());
    void* found = dlsym(library, names.substr(line + 1).c_str());
    if (!found) end(dlerror());
    functions[function] = reinterpret_cast<Find>(found)(emulator::process::shared());
}

void launch(const std::vector<uint64_t>& words) {
    auto found = functions.find(words[0]);
    if (found == functions.end()) end("there is no function " + std::to_string(words[0]));
    std::vector<uint64_t> values;
    std::vector<void*> arguments;
    for (size_t i = 5; i + 2 < words.size(); i += 3) {
        values.push_back(words[i] ? uint64_t(place(words[i + 1], words[i + 2], 0)) : words[i + 2]);
    }
    for (uint64_t& value : values) arguments.push_back(&value);
    Launch what{{unsigned(words[1]), unsigned(words[2]), unsigned(words[3])}, {unsigned(words[4]), 1, 1}, arguments.data()};
    emulator::process::run(found->second, &what);
}

}  // namespace

int main() {
    for (;;) {
        uint64_t head[2];
        take(head, sizeof head);
        std::vector<uint64_t> words(head[1]);
        take(words.data(), 8 * words.size());
        uint64_t size;
        take(&size, sizeof size);
        std::vector<char> bytes(size);
        take(bytes.data(), size);
        const char* answer = nullptr;
        uint64_t answered = 0;
        switch (head[0]) {
            case 1: {
                // The last element of an array of 16 bytes fits as a whole, and no buffer is empty.
                char* at = static_cast<char*>(calloc(words[1] ? words[1] : 1, 1));
                if (at) {
                    buffers[words[0]] = {at, words[1]};
                    answer = "\1";
                    answered = 1;
                }
                break;
            }
            case 2: {
                auto found = buffers.find(words[0]);
                if (found != buffers.end()) {
                    free(found->second.at);
                    buffers.erase(found);
                }
                break;
            }
            case 3:
                memcpy(place(words[0], words[1], size), bytes.data(), size);
                break;
            case 4:
                memmove(place(words[2], words[3], words[4]), place(words[0], words[1], words[4]), words[4]);
                break;
            case 5:
                answer = place(words[0], words[1], words[2]);
                answered = words[2];
                break;
            case 6:
                load(words[0], std::string(bytes.begin(), bytes.end()));
                break;
            case 7:
                functions.erase(words[0]);
                break;
            case 8:
                launch(words);
                break;
            default:
                end("there is no command " + std::to_string(head[0]));
        }
        give(&answered, 8);
        give(answer, answered);
    }
}
