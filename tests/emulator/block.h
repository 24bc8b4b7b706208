// A block of a GPU's threads on one thread of a CPU, as kernels see it: every thread is a fibre, which runs until it waits
// or ends. `block.cpp` is what runs them; kernels are libraries of their own, which have a pointer to the block.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifndef RLX_WARP
#define RLX_WARP 32
#endif

#ifdef __SANITIZE_THREAD__
#define RLX_UNSEEN __attribute__((no_sanitize("thread")))
#else
#define RLX_UNSEEN
#endif

namespace emulator {

struct Dim {
    unsigned x, y, z;
};

/// What a launch says: blocks, and threads of a block.
struct Launch {
    Dim grid, block;
    void** arguments;
};

enum class Wait { Nothing, Block, Warp, Ended };

struct Thread {
    Dim index;
    /// Of the block; the first one of its warp.
    unsigned number, first;
    Wait wait;
    /// The line of the source that waits.
    int line;
    /// Lanes that an exchange is for, and what this lane gives to it.
    uint64_t mask, given;
    /// Whether it has waited for the kernel before this one.
    bool is_behind;
    void* stack_pointer;
    char* stack;
#ifdef __SANITIZE_THREAD__
    void* fiber;
#endif
};

constexpr unsigned MOST_THREADS = 1024;

struct Block {
    /// The thread that runs.
    Thread* now;
    Dim index;
    Launch launch;
    /// What a kernel asks of the block: see the functions below.
    void (*barrier)(int line);
    const uint64_t* (*exchange)(uint64_t mask, uint64_t given, int line);
    uint64_t (*of_lane)(const uint64_t* seen, uint64_t mask, unsigned lane);
    void (*fail)(const char* what, const Thread* t);
};

/// A function of a library: its name, its body, and lanes of the warps that it was compiled for; and memory of a block
/// that its library has for it, where no variables of its own are that.
struct Kernel {
    const char* name;
    void (*body)(void** arguments);
    unsigned warp;
    char* memory = nullptr;
    unsigned memory_bytes = 0;
};

/// The block, which a library is told when it is loaded.
static Block* block;

/// Waits for all threads of the block.
RLX_UNSEEN inline void barrier(int line) { block->barrier(line); }

/// Gives a value to the lanes of `mask`, which all come here, and returns what each lane of the warp gave.
RLX_UNSEEN inline const uint64_t* exchange(uint64_t mask, uint64_t given, int line) {
    return block->exchange(mask, given, line);
}

/// What a lane of an exchange gave.
RLX_UNSEEN inline uint64_t of_lane(const uint64_t* seen, uint64_t mask, unsigned lane) {
    return block->of_lane(seen, mask, lane);
}

/// Ends the process with a sentence.
inline void fail(const char* what) { block->fail(what, block->now); }

/// The thread waits for the kernel before this one, which has ended here.
RLX_UNSEEN inline void is_behind_previous() { block->now->is_behind = true; }

}  // namespace emulator
