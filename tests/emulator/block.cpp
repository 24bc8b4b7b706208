// What runs a block: every thread is a fibre, which runs until it waits or ends. The process that runs kernels includes
// this file once, so that no kernel's text compiles it.
//
// Two things make a fibre wait. At a barrier of the block it waits for all threads; in an exchange of its warp it
// waits for the lanes that its mask names, and then sees a value of each. What would be undefined on a GPU ends
// the process with a sentence: threads of one block at two different barriers, a thread that ended while others wait
// for it, a lane that reads a lane that takes no part, and a block in which nobody can go on. So does a thread that ends
// without `is_behind_previous`: on a GPU its kernel may start, and end, before the one before it has ended.
//
// Built with `-fsanitize=thread`, two accesses of one address by two threads, one of them a write, are reported if no
// barrier or exchange is between them, within a block. Built with
// `-fsanitize=address`, an access outside of a buffer or of a shared array is.
#include "block.h"
#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace emulator::process {

constexpr size_t STACK = 128 << 10, GUARD = 4096;

/// The block, and what kernels do not see of it.
struct Whole : Block {
    const Kernel* kernel;
    unsigned threads;
    Thread all[MOST_THREADS];
    /// What the lanes of each warp gave to their last exchange.
    uint64_t seen[MOST_THREADS];
    void* scheduler;
#ifdef __SANITIZE_THREAD__
    void* host;
    /// Addresses that stand for what a barrier, the beginning and the end of a block put in order.
    char at_barrier, before, after;
#endif
};

static Whole whole;

[[noreturn]] static void stop(const char* what, const Thread* t) {
    fprintf(stderr, "%s: %s", whole.kernel->name, what);
    if (t) {
        fprintf(stderr, " (thread %u %u %u of block %u %u %u, line %d)", t->index.x, t->index.y, t->index.z,
                whole.index.x, whole.index.y, whole.index.z, t->line);
    }
    fprintf(stderr, "\n");
    fflush(stderr);
    _Exit(70);
}

// Saves the registers that a call keeps on the stack, leaves its pointer in `*from` and goes on with the stack `to`.
extern "C" void rlx_switch(void** from, void* to);
#if defined(__x86_64__)
asm(".text\n.globl rlx_switch\n.hidden rlx_switch\nrlx_switch:\n"
    "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
    "movq %rsp, (%rdi)\nmovq %rsi, %rsp\n"
    "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n");
constexpr int SAVED = 6;
#elif defined(__aarch64__)
asm(".text\n.globl rlx_switch\n.hidden rlx_switch\nrlx_switch:\n"
    "sub sp, sp, #160\nstp x19, x20, [sp]\nstp x21, x22, [sp, #16]\nstp x23, x24, [sp, #32]\n"
    "stp x25, x26, [sp, #48]\nstp x27, x28, [sp, #64]\nstp x29, x30, [sp, #80]\n"
    "stp d8, d9, [sp, #96]\nstp d10, d11, [sp, #112]\nstp d12, d13, [sp, #128]\nstp d14, d15, [sp, #144]\n"
    "mov x9, sp\nstr x9, [x0]\nmov sp, x1\n"
    "ldp x19, x20, [sp]\nldp x21, x22, [sp, #16]\nldp x23, x24, [sp, #32]\n"
    "ldp x25, x26, [sp, #48]\nldp x27, x28, [sp, #64]\nldp x29, x30, [sp, #80]\n"
    "ldp d8, d9, [sp, #96]\nldp d10, d11, [sp, #112]\nldp d12, d13, [sp, #128]\nldp d14, d15, [sp, #144]\n"
    "add sp, sp, #160\nret\n");
#else
#error "the emulator switches stacks on x86-64 and AArch64"
#endif

/// Ends the exchanges of a warp whose lanes are all there; returns whether a lane can go on.
template <unsigned WARP>
RLX_UNSEEN static bool exchanged(unsigned first) {
    bool any = false;
    for (unsigned lane = 0; lane < WARP && first + lane < whole.threads; lane++) {
        Thread* t = &whole.all[first + lane];
        if (t->wait != Wait::Warp) continue;
        bool all = true;
        for (unsigned i = 0; i < WARP; i++) {
            if (!(t->mask >> i & 1)) continue;
            Thread* other = &whole.all[first + i];
            if (first + i >= whole.threads || other->wait == Wait::Ended) {
                stop("a lane waits for a lane that has ended or never was", t);
            }
            all = all && other->wait == Wait::Warp && other->mask == t->mask && other->line == t->line;
        }
        if (!all) continue;
        for (unsigned i = 0; i < WARP; i++) {
            if (t->mask >> i & 1) whole.seen[first + i] = whole.all[first + i].given;
        }
        uint64_t mask = t->mask;
        for (unsigned i = 0; i < WARP; i++) {
            if (mask >> i & 1) whole.all[first + i].wait = Wait::Nothing;
        }
        any = true;
    }
    return any;
}

/// Waits. The next thread of the warp that can go on does; if there is none, the scheduler looks at other warps.
template <unsigned WARP>
RLX_UNSEEN static void give_way(Thread* t) {
    Thread *first = &whole.all[t->first], *end = &whole.all[t->first + WARP], *next = t + 1;
    if (end > &whole.all[whole.threads]) end = &whole.all[whole.threads];
    while (next < end && next->wait != Wait::Nothing) next++;
    if (next == end && exchanged<WARP>(t->first)) {
        next = first;
        while (next->wait != Wait::Nothing) next++;
        if (next == t) return;
    }
    void* to = whole.scheduler;
    if (next < end) {
        whole.now = next;
        to = next->stack_pointer;
    }
#ifdef __SANITIZE_THREAD__
    __tsan_switch_to_fiber(next < end ? next->fiber : whole.host, 1);
#endif
    rlx_switch(&t->stack_pointer, to);
}

RLX_UNSEEN static void wait(Wait what, int line) {
    Thread* t = whole.now;
    t->wait = what;
    t->line = line;
    if (whole.kernel->warp == 64) give_way<64>(t);
    else give_way<32>(t);
}

RLX_UNSEEN static void barrier(int line) {
#ifdef __SANITIZE_THREAD__
    __tsan_release(&whole.at_barrier);
#endif
    wait(Wait::Block, line);
#ifdef __SANITIZE_THREAD__
    __tsan_acquire(&whole.at_barrier);
#endif
}

/// Gives a value to the lanes of `mask`, which all come here, and returns what each lane of the warp gave.
RLX_UNSEEN static const uint64_t* exchange(uint64_t mask, uint64_t given, int line) {
    Thread* t = whole.now;
    unsigned first = t->first;
    if (!(mask >> (t->number - first) & 1)) stop("a lane takes part in an exchange that is not for it", t);
    t->mask = mask;
    t->given = given;
#ifdef __SANITIZE_THREAD__
    __tsan_release(&whole.seen[first]);
#endif
    wait(Wait::Warp, line);
#ifdef __SANITIZE_THREAD__
    __tsan_acquire(&whole.seen[first]);
#endif
    return &whole.seen[first];
}

/// What a lane of an exchange gave.
RLX_UNSEEN static uint64_t of_lane(const uint64_t* seen, uint64_t mask, unsigned lane) {
    if (lane >= whole.kernel->warp || !(mask >> lane & 1)) stop("a lane reads a lane that takes no part", whole.now);
    return seen[lane];
}

/// Where a fibre begins and ends.
RLX_UNSEEN static void begin() {
#ifdef __SANITIZE_THREAD__
    __tsan_acquire(&whole.before);
#endif
    whole.kernel->body(whole.launch.arguments);
    if (!whole.now->is_behind) stop("a thread ends that has not waited for the kernel before", whole.now);
#ifdef __SANITIZE_THREAD__
    __tsan_release(&whole.after);
#endif
    wait(Wait::Ended, 0);
    abort();
}

RLX_UNSEEN static void prepare(Thread* t, unsigned number) {
    Dim b = whole.launch.block;
    t->number = number;
    t->first = number - number % whole.kernel->warp;
    t->index = {number % b.x, number / b.x % b.y, number / b.x / b.y};
    t->wait = Wait::Nothing;
    t->line = 0;
    t->is_behind = false;
    if (!t->stack) {
        void* at = mmap(nullptr, STACK + GUARD, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (at == MAP_FAILED || mprotect(at, GUARD, PROT_NONE)) stop("no memory for the stack of a thread", nullptr);
        t->stack = (char*)at + GUARD;
#ifdef __SANITIZE_THREAD__
        t->fiber = __tsan_create_fiber(0);
#endif
    }
    void** top = (void**)(t->stack + STACK) - 4;
#if defined(__x86_64__)
    // A function begins with a stack that is 8 bytes off a multiple of 16: the address that it would return to.
    *--top = nullptr;
    *--top = (void*)begin;
    for (int i = 0; i < SAVED; i++) *--top = nullptr;
#else
    top -= 20;
    memset(top, 0, 160);
    top[11] = (void*)begin;
#endif
    t->stack_pointer = top;
}

/// Lets a thread run until it waits.
RLX_UNSEEN static void resume(Thread* t) {
    t->wait = Wait::Nothing;
    whole.now = t;
#ifdef __SANITIZE_THREAD__
    __tsan_switch_to_fiber(t->fiber, 1);
#endif
    rlx_switch(&whole.scheduler, t->stack_pointer);
}

/// All threads of the block, from their beginning to their end.
RLX_UNSEEN static void run_block() {
    for (unsigned i = 0; i < whole.threads; i++) prepare(&whole.all[i], i);
    for (;;) {
        bool ran = false;
        for (unsigned first = 0; first < whole.threads; first += whole.kernel->warp) {
            // A warp goes on as long as it can: its exchanges need nobody else.
            do {
                for (unsigned i = first; i < first + whole.kernel->warp && i < whole.threads; i++) {
                    if (whole.all[i].wait == Wait::Nothing) {
                        resume(&whole.all[i]);
                        ran = true;
                    }
                }
            } while (whole.kernel->warp == 64 ? exchanged<64>(first) : exchanged<32>(first));
        }
        unsigned ended = 0, waiting = 0;
        Thread* one = nullptr;
        for (unsigned i = 0; i < whole.threads; i++) {
            Thread* t = &whole.all[i];
            if (t->wait == Wait::Ended) ended++;
            if (t->wait != Wait::Block) continue;
            waiting++;
            if (one && one->line != t->line) stop("threads of one block wait at two different barriers", t);
            one = t;
        }
        if (ended == whole.threads) return;
        if (waiting == whole.threads) {
            for (unsigned i = 0; i < whole.threads; i++) whole.all[i].wait = Wait::Nothing;
        } else if (waiting > 0 && waiting + ended == whole.threads) {
            stop("a barrier waits for threads that have ended", one);
        } else if (!ran) {
            for (unsigned i = 0; i < whole.threads; i++) {
                if (whole.all[i].wait == Wait::Warp) stop("no thread can go on: this one waits for its warp", &whole.all[i]);
            }
            stop("no thread can go on", one);
        }
    }
}

/// Runs a kernel: block after block.
RLX_UNSEEN static void run(const Kernel* kernel, const Launch* launch) {
    whole.launch = *launch;
    whole.kernel = kernel;
    if (kernel->warp != 32 && kernel->warp != 64) stop("a warp has 32 or 64 lanes", nullptr);
    Dim b = launch->block, g = launch->grid;
    uint64_t threads = uint64_t(b.x) * b.y * b.z;
    if (threads == 0 || threads > MOST_THREADS) stop("a block has 1 to 1024 threads", nullptr);
    if (g.x == 0 || g.y == 0 || g.z == 0 || g.y > 65535 || g.z > 65535) stop("a grid of this size is not possible", nullptr);
    whole.threads = unsigned(threads);
#ifdef __SANITIZE_THREAD__
    whole.host = __tsan_get_current_fiber();
#endif
    for (unsigned z = 0; z < g.z; z++) {
        for (unsigned y = 0; y < g.y; y++) {
            for (unsigned x = 0; x < g.x; x++) {
                whole.index = {x, y, z};
                // What a block before has left is no value that anyone may count on: NaN as a float.
                for (unsigned i = 0; i < kernel->memory_bytes; i++) kernel->memory[i] = char(0xff);
                // Blocks have one shared memory here, so that each begins behind the end of the one before.
#ifdef __SANITIZE_THREAD__
                __tsan_release(&whole.before);
#endif
                run_block();
#ifdef __SANITIZE_THREAD__
                __tsan_acquire(&whole.after);
#endif
            }
        }
    }
}

/// The block, which libraries of kernels are given.
static Block* shared() {
    whole.barrier = barrier;
    whole.exchange = exchange;
    whole.of_lane = of_lane;
    whole.fail = stop;
    return &whole;
}

}  // namespace emulator::process
