// A library that stands for AMD's libamdhip64, libhiprtc and libhipblaslt (`products.h`): it has the functions that our driver calls, notes what is
// done wrong, and runs kernels by the emulator.
//
// What is queued runs late, when somebody asks or waits: a piece of work for each question whether an event has passed.
// So memory that is freed or changed too early gives wrong results, and a note. Notes (`fake_faults`) are: handles
// that are unknown or freed, ranges outside of their memory, memory of the host that is not pinned, freeing what is
// queued or recorded, a thread with another device than a handle's, arguments too few or too many, calls in the middle
// of a recording. `fake_living` says what was never freed.
//
// `card.cpp` says which card it has: this file is compiled once for all of them. FAKE_SOURCES is the folder of the
// emulator's and this one's headers, FAKE_WORK a folder for files.
#include "../emulator/block.cpp"
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <dlfcn.h>
#include <functional>
#include <map>
#include <math.h>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unistd.h>
#include <vector>

/// The architecture's name with features.
extern "C" const char fake_arch[];

namespace {

enum Status { SUCCESS = 0, INVALID = 1, OUT_OF_MEMORY = 2, INVALID_DEVICE = 101, NOT_FOUND = 500, NOT_READY = 600 };
constexpr int DEVICES = 2;
constexpr size_t MEMORY = size_t(1) << 30, CANARY = 256;
constexpr unsigned char CANARY_BYTE = 0xa5;

std::recursive_mutex mutex;
using Guard = std::lock_guard<std::recursive_mutex>;
std::string faults;
thread_local int current = 0;
int lost = 0;
uint64_t launched = 0, submitted = 0;

/// Notes what was done wrong.
int fault(const std::string& what) {
    faults += what + "\n";
    return INVALID;
}

using emulator::Launch;
struct Module {
    int device;
    void* library;
};
struct Function {
    Module* module;
    const emulator::Kernel* kernel;
    /// A letter for each argument: a pointer or a number.
    std::string arguments;
};
struct Event {
    int device;
    bool has_time;
    unsigned pending = 0;
    /// When it passed; nothing before.
    std::chrono::steady_clock::time_point passed{};
};
/// A piece of work, and what it uses.
struct Work {
    std::function<void()> run;
    std::vector<char*> places;
    Function* function = nullptr;
    Event* event = nullptr;
    void* executable = nullptr;
};
struct Graph {
    std::vector<Work> work;
};
struct Executable {
    int device;
    std::vector<Work> work;
};
struct Stream {
    int device;
    std::deque<Work> queue;
    std::unique_ptr<Graph> recording;
};
struct Memory {
    size_t bytes;
    int device;
    bool pinned;
    void* whole;
};

std::map<char*, Memory> memories;
std::set<Module*> modules;
std::set<Function*> functions;
std::set<Event*> events;
std::set<Graph*> graphs;
std::set<Executable*> executables;
std::set<Stream*> streams;
size_t used = 0;

/// The memory that so many bytes lie in.
std::map<char*, Memory>::iterator memory_of(const void* at, size_t bytes) {
    char* p = (char*)at;
    auto found = memories.upper_bound(p);
    if (found == memories.begin()) return memories.end();
    found--;
    size_t offset = size_t(p - found->first);
    return offset <= found->second.bytes && bytes <= found->second.bytes - offset ? found : memories.end();
}

bool is_within(const void* at, size_t bytes, bool pinned, const char* what) {
    auto found = memory_of(at, bytes);
    if (found == memories.end()) return fault(std::string(what) + " outside of memory"), false;
    if (found->second.pinned != pinned) return fault(std::string(what) + " in memory of the wrong kind"), false;
    if (!pinned && found->second.device != current) return fault(std::string(what) + " of another device"), false;
    return true;
}

bool uses(const Work& work, char* from, char* end) {
    for (char* at : work.places) {
        if (at >= from && at <= end) return true;
    }
    return false;
}

/// Calls `f` with everything that is queued or recorded.
template <class F>
bool any_work(F f) {
    for (Stream* s : streams) {
        for (const Work& w : s->queue) if (f(w)) return true;
        if (s->recording) for (const Work& w : s->recording->work) if (f(w)) return true;
    }
    for (Graph* g : graphs) for (const Work& w : g->work) if (f(w)) return true;
    for (Executable* e : executables) for (const Work& w : e->work) if (f(w)) return true;
    return false;
}

bool is_recording() {
    for (Stream* s : streams) if (s->recording) return true;
    return false;
}

Stream* stream_of(void* handle) {
    Stream* s = (Stream*)handle;
    if (!streams.count(s)) return fault("a stream that is not there"), nullptr;
    if (s->device != current) return fault("a stream of another device than the thread's"), nullptr;
    return s;
}

int queue(void* handle, Work work) {
    Stream* s = stream_of(handle);
    if (!s) return INVALID;
    if (lost) return lost;
    if (s->recording) s->recording->work.push_back(std::move(work));
    else s->queue.push_back(std::move(work));
    return SUCCESS;
}

/// Runs the first piece of work.
void step(Stream* s) {
    Work work = std::move(s->queue.front());
    s->queue.pop_front();
    work.run();
}

int allocate(void** at, size_t bytes, bool pinned) {
    if (!at) return fault("memory to nowhere");
    if (is_recording()) fault("memory is made in the middle of a recording");
    if (bytes == 0) return *at = nullptr, SUCCESS;
    if (bytes > MEMORY - used) return OUT_OF_MEMORY;
    void* whole = nullptr;
    if (posix_memalign(&whole, 256, bytes + 2 * CANARY)) return OUT_OF_MEMORY;
    // What was never written is no value that anyone may count on: NaN as a float.
    memset(whole, CANARY_BYTE, bytes + 2 * CANARY);
    char* p = (char*)whole + CANARY;
    memset(p, 0xff, bytes);
    memories[p] = {bytes, current, pinned, whole};
    used += bytes;
    *at = p;
    return SUCCESS;
}

int release(void* at, bool pinned) {
    if (!at) return SUCCESS;
    auto found = memories.find((char*)at);
    if (found == memories.end()) return fault("memory is freed that is not there");
    Memory m = found->second;
    if (m.pinned != pinned) return fault("memory is freed by the wrong function");
    if (is_recording()) fault("memory is freed in the middle of a recording");
    char *from = (char*)at, *end = from + m.bytes - 1;
    if (any_work([&](const Work& w) { return uses(w, from, end); })) fault("memory is freed that work uses");
    const unsigned char* whole = (const unsigned char*)m.whole;
    for (size_t i = 0; i < CANARY; i++) {
        if (whole[i] != CANARY_BYTE || whole[CANARY + m.bytes + i] != CANARY_BYTE) {
            fault("something was written beside memory");
            break;
        }
    }
    memset(m.whole, 0xff, m.bytes + 2 * CANARY);
    free(m.whole);
    used -= m.bytes;
    memories.erase(found);
    return SUCCESS;
}

}  // namespace

#define HIP extern "C" __attribute__((visibility("default"))) int

#include "products.h"

extern "C" const char* fake_faults() {
    Guard guard(mutex);
    static std::string copy;
    copy = faults;
    faults.clear();
    return copy.c_str();
}

extern "C" const char* fake_living() {
    Guard guard(mutex);
    static std::string text;
    text.clear();
    auto say = [&](size_t n, const char* what) { if (n) text += std::to_string(n) + " " + what + "\n"; };
    say(memories.size(), "memories");
    say(modules.size(), "modules");
    say(events.size(), "events");
    say(graphs.size(), "graphs");
    say(executables.size(), "executables");
    say(streams.size(), "streams");
    say(matrices.size(), "matrices");
    say(multiplications.size() + preferences.size(), "descriptions of products");
    say(multipliers.size(), "handles of products");
    return text.c_str();
}

/// Launches and submissions so far.
extern "C" uint64_t fake_launches() { return launched; }
extern "C" uint64_t fake_submissions() { return submitted; }
/// From now on, or until 0, calls that queue or wait answer so.
extern "C" void fake_lose(int status) { lost = status; }

HIP hipInit(unsigned flags) { return flags ? fault("hipInit with flags") : SUCCESS; }
HIP hipGetDeviceCount(int* n) { return *n = DEVICES, SUCCESS; }
HIP hipSetDevice(int n) { return n < 0 || n >= DEVICES ? INVALID_DEVICE : (current = n, SUCCESS); }
HIP hipDeviceGet(int* device, int n) { return n < 0 || n >= DEVICES ? INVALID_DEVICE : (*device = n, SUCCESS); }
HIP hipDeviceGetName(char* name, int bytes, int) { return snprintf(name, size_t(bytes), "fake"), SUCCESS; }
HIP hipDeviceTotalMem(size_t* bytes, int) { return *bytes = MEMORY, SUCCESS; }
HIP hipRuntimeGetVersion(int* version) { return *version = 60140093, SUCCESS; }
extern "C" const char* hipGetErrorString(int status) {
    switch (status) {
        case OUT_OF_MEMORY: return "out of memory";
        case INVALID_DEVICE: return "invalid device ordinal";
        case 719: return "unspecified launch failure";
        default: return "an error";
    }
}
/// `gcnArchName` lies where the layout has it.
extern "C" __attribute__((visibility("hidden"))) int fake_properties(void* to, int device, size_t bytes, size_t at) {
    if (device < 0 || device >= DEVICES) return INVALID_DEVICE;
    memset(to, 0x7f, bytes);
    strcpy((char*)to, "fake gfx");
    strcpy((char*)to + at, fake_arch);
    return SUCCESS;
}
HIP hipGetDeviceProperties(void* to, int device) { return fake_properties(to, device, 792, 396); }

HIP hipMalloc(void** at, size_t bytes) { Guard guard(mutex); return allocate(at, bytes, false); }
HIP hipFree(void* at) { Guard guard(mutex); return release(at, false); }
HIP hipHostMalloc(void** at, size_t bytes, unsigned flags) {
    Guard guard(mutex);
    return flags ? fault("hipHostMalloc with flags") : allocate(at, bytes, true);
}
HIP hipHostFree(void* at) { Guard guard(mutex); return release(at, true); }
HIP hipMemsetAsync(void* to, int value, size_t bytes, void* stream) {
    Guard guard(mutex);
    if (!is_within(to, bytes, false, "bytes are set")) return INVALID;
    return queue(stream, {[=] { memset(to, value, bytes); }, {(char*)to}});
}
HIP hipMemcpyAsync(void* to, const void* from, size_t bytes, int kind, void* stream) {
    Guard guard(mutex);
    if (kind < 1 || kind > 3) return fault("a copy of an unknown kind");
    bool from_host = kind == 1, to_host = kind == 2;
    if (!is_within(from, bytes, from_host, "a copy reads")) return INVALID;
    if (!is_within(to, bytes, to_host, "a copy writes")) return INVALID;
    const char *a = (const char*)from, *b = (const char*)to;
    if (a < b + bytes && b < a + bytes) return fault("a copy onto itself");
    return queue(stream, {[=] { memcpy(to, from, bytes); }, {(char*)to, (char*)from}});
}

HIP hipStreamCreateWithFlags(void** stream, unsigned flags) {
    Guard guard(mutex);
    if (flags != 1) fault("a stream with other flags");
    *stream = *streams.insert(new Stream{current, {}, nullptr}).first;
    return SUCCESS;
}
HIP hipStreamDestroy(void* stream) {
    Guard guard(mutex);
    Stream* s = (Stream*)stream;
    if (!streams.count(s)) return fault("a stream is freed that is not there");
    if (!s->queue.empty() || s->recording) fault("a stream is freed that has work");
    streams.erase(s);
    delete s;
    return SUCCESS;
}
HIP hipStreamSynchronize(void* stream) {
    Guard guard(mutex);
    Stream* s = stream_of(stream);
    if (!s) return INVALID;
    if (s->recording) return fault("somebody waits for a stream that records");
    while (!s->queue.empty()) step(s);
    return lost;
}

HIP hipEventCreateWithFlags(void** event, unsigned flags) {
    Guard guard(mutex);
    if (flags != 0 && flags != 2) fault("an event with other flags");
    *event = *events.insert(new Event{current, flags == 0}).first;
    return SUCCESS;
}
HIP hipEventDestroy(void* event) {
    Guard guard(mutex);
    Event* e = (Event*)event;
    if (!events.count(e)) return fault("an event is freed that is not there");
    if (any_work([&](const Work& w) { return w.event == e; })) fault("an event is freed that is queued");
    events.erase(e);
    delete e;
    return SUCCESS;
}
HIP hipEventRecord(void* event, void* stream) {
    Guard guard(mutex);
    Event* e = (Event*)event;
    if (!events.count(e) || e->device != current) return fault("an event that is not there, or of another device");
    Stream* s = stream_of(stream);
    if (s && s->recording) return fault("an event in the middle of a recording");
    e->pending++;
    return queue(stream, {[=] {
        e->pending--;
        e->passed = std::chrono::steady_clock::now();
    }, {}, nullptr, e});
}
/// Runs one piece of work for each question.
HIP hipEventQuery(void* event) {
    Guard guard(mutex);
    Event* e = (Event*)event;
    if (!events.count(e) || e->device != current) return fault("an event that is not there, or of another device");
    if (lost) return lost;
    if (e->pending == 0) return SUCCESS;
    for (Stream* s : streams) {
        if (!s->queue.empty()) step(s);
    }
    return NOT_READY;
}
HIP hipEventElapsedTime(float* ms, void* from, void* to) {
    Guard guard(mutex);
    for (void* event : {from, to}) {
        Event* e = (Event*)event;
        if (!events.count(e) || e->device != current) return fault("an event that is not there, or of another device");
        if (!e->has_time || e->pending || e->passed.time_since_epoch().count() == 0) return fault("times of events without");
    }
    using Ms = std::chrono::duration<float, std::milli>;
    return *ms = Ms(((Event*)to)->passed - ((Event*)from)->passed).count(), SUCCESS;
}
HIP hipEventSynchronize(void* event) {
    int status;
    while ((status = hipEventQuery(event)) == NOT_READY) {}
    return status;
}

HIP hipStreamBeginCapture(void* stream, int mode) {
    Guard guard(mutex);
    Stream* s = stream_of(stream);
    if (!s) return INVALID;
    if (mode != 2) fault("a recording in another mode");
    if (s->recording) return fault("a recording in a recording");
    s->recording.reset(new Graph);
    return SUCCESS;
}
HIP hipStreamEndCapture(void* stream, void** graph) {
    Guard guard(mutex);
    Stream* s = stream_of(stream);
    if (!s) return INVALID;
    if (!s->recording) return fault("the end of no recording");
    *graph = *graphs.insert(s->recording.release()).first;
    return SUCCESS;
}
HIP hipGraphInstantiate(void** executable, void* graph, void** node, char*, size_t bytes) {
    Guard guard(mutex);
    Graph* g = (Graph*)graph;
    if (!graphs.count(g)) return fault("a graph that is not there");
    if (node || bytes) fault("instantiating with more than is known");
    *executable = *executables.insert(new Executable{current, g->work}).first;
    return SUCCESS;
}
HIP hipGraphDestroy(void* graph) {
    Guard guard(mutex);
    Graph* g = (Graph*)graph;
    if (!graphs.erase(g)) return fault("a graph is freed that is not there");
    delete g;
    return SUCCESS;
}
HIP hipGraphLaunch(void* executable, void* stream) {
    Guard guard(mutex);
    Executable* e = (Executable*)executable;
    if (!executables.count(e)) return fault("a list that is not there");
    if (e->device != current) return fault("a list of another device than the thread's");
    submitted++;
    for (const Work& w : e->work) {
        Work copy = w;
        copy.executable = e;
        if (int status = queue(stream, std::move(copy))) return status;
    }
    return SUCCESS;
}
HIP hipGraphExecDestroy(void* executable) {
    Guard guard(mutex);
    Executable* e = (Executable*)executable;
    if (!executables.erase(e)) return fault("a list is freed that is not there");
    if (any_work([&](const Work& w) { return w.executable == e; })) fault("a list is freed that is queued");
    delete e;
    return SUCCESS;
}

/// Code: a word, a size, and a shared library of so many bytes.
static const char MAGIC[8] = {'f', 'a', 'k', 'e', 'c', 'o', 'd', 'e'};

HIP hipModuleLoadData(void** module, const void* image) {
    Guard guard(mutex);
    if (memcmp(image, MAGIC, 8)) return fault("code of another compiler");
    if (is_recording()) fault("a kernel is loaded in the middle of a recording");
    uint64_t bytes;
    memcpy(&bytes, (const char*)image + 8, 8);
    // A name that no other has, of this library or of another that stands for AMD's in the process: libraries of one
    // name are one library.
    static unsigned number = 0;
    std::string path = FAKE_WORK "/" + std::to_string(getpid()) + "-" + std::to_string(uintptr_t(&number)) + "-" +
                       std::to_string(number++) + ".so";
    FILE* file = fopen(path.c_str(), "wb");
    if (!file || fwrite((const char*)image + 16, 1, bytes, file) != bytes || fclose(file)) {
        return fault("no room for a kernel");
    }
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    remove(path.c_str());
    if (!library) return fault(dlerror());
    *module = *modules.insert(new Module{current, library}).first;
    return SUCCESS;
}
HIP hipModuleGetFunction(void** function, void* module, const char* name) {
    Guard guard(mutex);
    Module* m = (Module*)module;
    if (!modules.count(m)) return fault("a module that is not there");
    auto find = (const emulator::Kernel* (*)(emulator::Block*))dlsym(m->library, (std::string(name) + "_kernel").c_str());
    auto arguments = (const char* (*)())dlsym(m->library, (std::string(name) + "_arguments").c_str());
    if (!find || !arguments) return fault(std::string("no ") + name + " in a module: " + (dlerror() ?: "")), NOT_FOUND;
    *function = *functions.insert(new Function{m, find(emulator::process::shared()), arguments()}).first;
    return SUCCESS;
}
HIP hipModuleUnload(void* module) {
    Guard guard(mutex);
    Module* m = (Module*)module;
    if (!modules.erase(m)) return fault("a module is freed that is not there");
    auto has = [&](const Work& w) { return w.function && w.function->module == m; };
    if (any_work(has)) fault("a kernel is freed that work uses");
    for (auto f = functions.begin(); f != functions.end();) {
        Function* one = *f;
        f = one->module == m ? (delete one, functions.erase(f)) : std::next(f);
    }
    // Libraries stay: what one has in common with others may live in it.
    delete m;
    return SUCCESS;
}
HIP hipModuleLaunchKernel(void* function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned threads_y,
                          unsigned threads_z, unsigned shared, void* stream, void** list, void** extra) {
    Guard guard(mutex);
    Function* f = (Function*)function;
    if (!functions.count(f)) return fault("a kernel that is not there");
    if (f->module->device != current) return fault("a kernel of another device than the thread's");
    if (threads_y != 1 || threads_z != 1 || shared || extra) return fault("a launch with more than kernels have");
    if (!x || !y || !z || y > 65535 || z > 65535 || !threads || threads > 1024 || uint64_t(x) * threads > UINT32_MAX) {
        return fault("a launch that no card takes");
    }
    std::vector<char*> places, values;
    for (unsigned i = 0; i < f->arguments.size(); i++) {
        if (!list[i]) return fault("a launch with too few arguments");
        // A number is one of the values, of eight bytes as well.
        char* at = *(char**)list[i];
        values.push_back(at);
        if (f->arguments[i] != 'p') continue;
        if (!is_within(at, 0, false, "an argument")) return INVALID;
        places.push_back(at);
    }
    if (list[f->arguments.size()]) return fault("a launch with too many arguments");
    auto run = [=] {
        std::vector<char*> copies = values;
        std::vector<void*> arguments;
        for (char*& at : copies) arguments.push_back(&at);
        Launch what{{x, y, z}, {threads, 1, 1}, arguments.data()};
        launched++;
        emulator::process::run(f->kernel, &what);
    };
    return queue(stream, {run, places, f});
}

// hiprtc.

namespace {

struct Program {
    std::string source, entry, log, code;
};

std::string contents(const std::string& path) {
    std::string all;
    if (FILE* file = fopen(path.c_str(), "rb")) {
        char part[4096];
        for (size_t n; (n = fread(part, 1, sizeof part, file)) > 0;) all.append(part, n);
        fclose(file);
    }
    return all;
}

bool runs(const std::string& command) { return system(command.c_str()) == 0; }

/// The compiler with its options; headers are compiled once.
std::string compiler(const std::string& lanes) {
    static std::mutex once;
    std::lock_guard<std::mutex> guard(once);
    std::string options = "g++ -std=c++17 -O1 -g1 -fno-strict-aliasing -ffp-contract=off -Wno-unknown-pragmas -fPIC "
                          "-I" FAKE_SOURCES "/emulator -DRLX_WARP=" + lanes;
    std::string folder = FAKE_WORK "/gcn-" + lanes, ready = folder + "/gcn.h.gch";
    if (access(ready.c_str(), R_OK)) {
        std::string unfinished = folder + "/" + std::to_string(getpid()) + ".gch";
        runs("mkdir -p " + folder + " && " + options + " -x c++-header " FAKE_SOURCES "/hip/gcn.h -o " + unfinished +
             " && mv " + unfinished + " " + ready);
    }
    return options + " -I" + folder + " -I" FAKE_SOURCES "/hip";
}

}  // namespace

HIP hiprtcVersion(int* major, int* minor) { return *major = 9, *minor = 0, SUCCESS; }
extern "C" const char* hiprtcGetErrorString(int) { return "an error"; }
HIP hiprtcCreateProgram(void** program, const char* source, const char* name, int headers, const char**, const char**) {
    if (headers) return 3;
    std::string entry = name;
    entry.resize(entry.rfind('.'));
    *program = new Program{source, entry, "", ""};
    return SUCCESS;
}
HIP hiprtcCompileProgram(void* program, int count, const char** options) {
    Program* p = (Program*)program;
    std::string arch = fake_arch, lanes;
    arch.resize(std::min(arch.find(':'), arch.size()));
    bool fits = false;
    for (int i = 0; i < count; i++) {
        std::string option = options[i];
        if (option == "--offload-arch=" + arch) fits = true;
        if (option.rfind("-DRLX_WARP=", 0) == 0) lanes = option.substr(11);
    }
    if (!fits || lanes != (arch.rfind("gfx9", 0) == 0 ? "64" : "32")) return p->log = "other options are needed", 5;
    static std::atomic<unsigned> number{0};
    std::string base = FAKE_WORK "/" + std::to_string(getpid()) + "-" + std::to_string(number++);
    FILE* file = fopen((base + ".cpp").c_str(), "wb");
    if (!file) return 1;
    // The compiler's words for an architecture and for its generation.
    std::string generation = arch.substr(3, arch.size() - 5);
    fprintf(file, "#include \"gcn.h\"\n#define __%s__ 1\n#define __GFX%s__ 1\n#define GCN_FLUSHES %d\n", arch.c_str(),
            generation.c_str(), arch == "gfx90a");
    fprintf(file, "namespace {\n%s\n}\nRLX_KERNEL(%s)\n", p->source.c_str(), p->entry.c_str());
    fclose(file);
    // What a kernel needs of C++'s libraries this one has.
    bool done = runs(compiler(lanes) + " -shared -nostdlib " + base + ".cpp -o " + base + ".so -lm -lgcc -lc 2> " + base + ".log");
    std::string library = contents(base + ".so");
    p->log = contents(base + ".log");
    for (const char* end : {".cpp", ".so", ".log"}) remove((base + end).c_str());
    if (!done) return 6;
    uint64_t bytes = library.size();
    p->code = std::string(MAGIC, 8) + std::string((const char*)&bytes, 8) + library;
    return SUCCESS;
}
HIP hiprtcGetProgramLogSize(void* program, size_t* bytes) {
    return *bytes = ((Program*)program)->log.size() + 1, SUCCESS;
}
HIP hiprtcGetProgramLog(void* program, char* log) { return strcpy(log, ((Program*)program)->log.c_str()), SUCCESS; }
HIP hiprtcGetCodeSize(void* program, size_t* bytes) { return *bytes = ((Program*)program)->code.size(), SUCCESS; }
HIP hiprtcGetCode(void* program, char* code) {
    const std::string& all = ((Program*)program)->code;
    return memcpy(code, all.data(), all.size()), SUCCESS;
}
HIP hiprtcDestroyProgram(void** program) { return delete (Program*)*program, *program = nullptr, SUCCESS; }
