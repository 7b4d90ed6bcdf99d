// Counts the kernels a process ran, as CUPTI reports them: the second opinion on apex.
//
// The driver loads this library inside cuInit when CUDA_INJECTION64_PATH names it. At exit
// one line of JSON is appended to the file in CUPTI_COUNT_OUT. It must never disturb the
// program: whatever fails here is said in that line and nowhere else.
//
// CUPTI is opened when the driver calls, not linked: a process can hold only one CUPTI of a
// version well, so the copy that a framework already brought is used, and only otherwise
// the one in CUPTI_COUNT_LIBRARY. The few declarations needed are written out below,
// because CUPTI's headers are often not installed; where they are, the compiler compares.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    KIND_KERNEL = 3,
    KIND_CONCURRENT_KERNEL = 10,
    ERROR_MAX_LIMIT_REACHED = 12,
    FLUSH_FORCED = 1,
    BUFFER_BYTES = 8 << 20,
    NAME_SLOTS = 1 << 14,
    NAMES_SHOWN = 40,
    NAME_SHOWN_BYTES = 200,
    LINE_BYTES = 64 << 10,
};

// The part of a kernel record that stays the same since records have a graph id.
struct kernel_record {
    uint32_t kind;
    uint8_t launch_configuration[100];
    const char *name;
    uint8_t launch_times[32];
    uint64_t graph_node_id;
    uint32_t shared_memory_limit;
    uint32_t graph_id;
};

#if defined(__has_include)
#if __has_include(<cupti.h>)
#include <cupti.h>
#if CUPTI_API_VERSION >= 130000
#define SAME_PLACE(ours, theirs)                                                           \
    _Static_assert(offsetof(struct kernel_record, ours) ==                                 \
                       offsetof(CUpti_ActivityKernel10, theirs),                           \
                   #theirs " lies elsewhere")
SAME_PLACE(kind, kind);
SAME_PLACE(name, name);
SAME_PLACE(graph_node_id, graphNodeId);
SAME_PLACE(graph_id, graphId);
_Static_assert((int)KIND_KERNEL == (int)CUPTI_ACTIVITY_KIND_KERNEL, "kind");
_Static_assert((int)KIND_CONCURRENT_KERNEL == (int)CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, "kind");
_Static_assert((int)ERROR_MAX_LIMIT_REACHED == (int)CUPTI_ERROR_MAX_LIMIT_REACHED, "error");
_Static_assert((int)FLUSH_FORCED == (int)CUPTI_ACTIVITY_FLAG_FLUSH_FORCED, "flag");
#endif
#endif
#endif

typedef void (*buffer_requested)(uint8_t **buffer, size_t *size, size_t *max_records);
typedef void (*buffer_completed)(void *context, uint32_t stream, uint8_t *buffer, size_t size,
                                 size_t valid_size);

static struct {
    uint32_t (*enable)(uint32_t kind);
    uint32_t (*register_callbacks)(buffer_requested, buffer_completed);
    uint32_t (*next_record)(uint8_t *buffer, size_t valid_size, struct kernel_record **record);
    uint32_t (*dropped_records)(void *context, uint32_t stream, size_t *dropped);
    uint32_t (*flush_all)(uint32_t flag);
} cupti;

static struct {
    pthread_mutex_t lock;
    pid_t process; // A forked child inherits the counts, but they are not its own.
    unsigned long long kernels, graph_kernels, dropped;
    struct {
        char *name;
        unsigned long long count;
    } names[NAME_SLOTS];
    const char *error;
} counts = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void count_name(const char *name) {
    uint64_t hash = 14695981039346656037ull;
    for (const char *next = name; *next; next++) hash = (hash ^ (uint8_t)*next) * 1099511628211ull;
    for (size_t tried = 0; tried < NAME_SLOTS; tried++) {
        size_t slot = (hash + tried) % NAME_SLOTS;
        if (!counts.names[slot].name) counts.names[slot].name = strdup(name);
        if (!counts.names[slot].name) return;
        if (strcmp(counts.names[slot].name, name) == 0) {
            counts.names[slot].count++;
            return;
        }
    }
}

static void request_buffer(uint8_t **buffer, size_t *size, size_t *max_records) {
    *buffer = aligned_alloc(8, BUFFER_BYTES);
    *size = *buffer ? BUFFER_BYTES : 0;
    *max_records = 0; // As many as fit.
}

static void take_dropped(void *context, uint32_t stream) {
    size_t dropped = 0;
    if (cupti.dropped_records(context, stream, &dropped) == 0) counts.dropped += dropped;
}

static void complete_buffer(void *context, uint32_t stream, uint8_t *buffer, size_t size,
                            size_t valid_size) {
    (void)size;
    pthread_mutex_lock(&counts.lock);
    struct kernel_record *record = NULL;
    uint32_t status;
    while (valid_size && (status = cupti.next_record(buffer, valid_size, &record)) == 0) {
        if (record->kind != KIND_KERNEL && record->kind != KIND_CONCURRENT_KERNEL) continue;
        counts.kernels++;
        if (record->graph_id || record->graph_node_id) counts.graph_kernels++;
        count_name(record->name ? record->name : "");
    }
    if (valid_size && status != ERROR_MAX_LIMIT_REACHED) counts.error = "a buffer was not readable";
    take_dropped(context, stream);
    pthread_mutex_unlock(&counts.lock);
    free(buffer);
}

// Writes a string as JSON. Kernel names are plain text, so anything unusual may be lost.
static size_t write_string(char *line, size_t at, const char *text) {
    line[at++] = '"';
    for (size_t index = 0; text[index] && index < NAME_SHOWN_BYTES; index++) {
        unsigned char next = (unsigned char)text[index];
        if (next == '"' || next == '\\') line[at++] = '\\';
        line[at++] = next < 0x20 || next > 0x7e ? '?' : (char)next;
    }
    line[at++] = '"';
    return at;
}

static size_t write_most_frequent(char *line, size_t at) {
    line[at++] = '{';
    for (int shown = 0; shown < NAMES_SHOWN; shown++) {
        size_t most = 0;
        for (size_t slot = 1; slot < NAME_SLOTS; slot++) {
            if (counts.names[slot].count > counts.names[most].count) most = slot;
        }
        if (!counts.names[most].count) break;
        if (shown) line[at++] = ',';
        at = write_string(line, at, counts.names[most].name);
        at += (size_t)sprintf(line + at, ":%llu", counts.names[most].count);
        counts.names[most].count = 0;
    }
    line[at++] = '}';
    return at;
}

static void write_counts(void) {
    if (getpid() != counts.process) return;
    if (cupti.flush_all) {
        cupti.flush_all(0);
        cupti.flush_all(FLUSH_FORCED);
    }
    const char *path = getenv("CUPTI_COUNT_OUT");
    int file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644) : -1;
    char *line = malloc(LINE_BYTES);
    if (file < 0 || !line) return;

    pthread_mutex_lock(&counts.lock);
    if (cupti.dropped_records) take_dropped(NULL, 0);
    size_t at = (size_t)sprintf(
        line, "{\"pid\":%d,\"kernels\":%llu,\"graph_kernels\":%llu,\"dropped\":%llu,\"by_name\":",
        (int)counts.process, counts.kernels, counts.graph_kernels, counts.dropped);
    at = write_most_frequent(line, at);
    if (counts.error) {
        at += (size_t)sprintf(line + at, ",\"error\":");
        at = write_string(line, at, counts.error);
    }
    at += (size_t)sprintf(line + at, "}\n");
    // One write, so that lines of processes which end together do not mix.
    if (write(file, line, at) != (ssize_t)at) perror("cupti_count");
    pthread_mutex_unlock(&counts.lock);
    close(file);
    free(line);
}

static void *open_cupti(void) {
    const char *path = getenv("CUPTI_COUNT_LIBRARY");
    if (!path || !*path) path = "libcupti.so.13";
    const char *slash = strrchr(path, '/');
    void *present = dlopen(slash ? slash + 1 : path, RTLD_LAZY | RTLD_NOLOAD);
    return present ? present : dlopen(path, RTLD_LAZY);
}

static const char *start_counting(void) {
    void *library = open_cupti();
    if (!library) return dlerror();
    *(void **)&cupti.enable = dlsym(library, "cuptiActivityEnable");
    *(void **)&cupti.register_callbacks = dlsym(library, "cuptiActivityRegisterCallbacks");
    *(void **)&cupti.next_record = dlsym(library, "cuptiActivityGetNextRecord");
    *(void **)&cupti.dropped_records = dlsym(library, "cuptiActivityGetNumDroppedRecords");
    *(void **)&cupti.flush_all = dlsym(library, "cuptiActivityFlushAll");
    if (!cupti.enable || !cupti.register_callbacks || !cupti.next_record ||
        !cupti.dropped_records || !cupti.flush_all) {
        return "the library lacks a function of CUPTI";
    }
    if (cupti.register_callbacks(request_buffer, complete_buffer)) {
        return "CUPTI refused the buffer callbacks";
    }
    if (cupti.enable(KIND_CONCURRENT_KERNEL)) return "CUPTI refused to record kernels";
    return NULL;
}

// Called by the driver, possibly again by a child that initialises CUDA after a fork.
__attribute__((visibility("default"))) int InitializeInjection(void) {
    if (counts.process == getpid()) return 1;
    counts.process = getpid();
    const char *error = start_counting();
    counts.error = error ? strdup(error) : NULL;
    atexit(write_counts);
    return 1;
}
