// A hot set that every block reads again and again beside a stream that is read once: what keeps the set in the L2 cache?
//
//   hot-set             every way of hints at several sizes, timed in turns; a table, JSON in hot-set.json
//   hot-set run N MIB   N launches of the plain kernel with so large a hot set, for `apex run --fast`: median in ns
//
// Ways without a carve-out (CU_LIMIT_PERSISTING_L2_CACHE_SIZE is 0, as a program finds it):
//   plain     no hints                                  cs      ld.global.cs for the stream
//   first     evict_first policy for the stream         last    evict_last policy for the hot set
//   both      first and last                            window0 launch attribute: window over the hot set
// With the largest carve-out, and persisting lines reset before each launch that is timed:
//   plain+    no hints                                  last+   evict_last policy for the hot set
//   window    launch attribute: window over the hot set, persisting     share   the same with hitRatio 0.6
//   stream    the same window as the stream's attribute                 both+   first and last
//   after     no hints, right behind `window` without a reset: what a kernel meets that comes next
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#define CHECK(call)                                                                                     \
    do {                                                                                                \
        cudaError_t result_ = (call);                                                                   \
        if (result_ != cudaSuccess) {                                                                   \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(result_));            \
            exit(3);                                                                                    \
        }                                                                                               \
    } while (0)

enum Hint { NONE, CS, FIRST, LAST };

template <Hint HINT> __device__ uint64_t policy() {
    uint64_t made = 0;
    if (HINT == FIRST)
        asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(made));
    if (HINT == LAST)
        asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(made));
    return made;
}

template <Hint HINT> __device__ float4 load(const float4 *at, uint64_t policy) {
    float4 v;
    if (HINT == NONE)
        asm("ld.global.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(at));
    else if (HINT == CS)
        asm("ld.global.cs.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(at));
    else
        asm("ld.global.L2::cache_hint.v4.f32 {%0,%1,%2,%3}, [%4], %5;"
            : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
            : "l"(at), "l"(policy));
    return v;
}

// Each thread reads its own part of the stream, and after every `each` of its loads one of the hot set: 512 bytes a warp, at
// a place that no prefetcher guesses.
template <Hint STREAM, Hint HOT>
__global__ void work(const float4 *stream, const float4 *hot, float4 *out, unsigned rows, unsigned hot_rows, unsigned each) {
    uint64_t first = policy<STREAM>(), last = policy<HOT>();
    unsigned lane = threadIdx.x % 32, step = gridDim.x * blockDim.x / 32;
    float4 sum = {0, 0, 0, 0};
    for (unsigned row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, nth = 0; row < rows; row += step, nth++) {
        float4 v = load<STREAM>(stream + (size_t)row * 32 + lane, first);
        if (nth % each == 0) {
            unsigned at = (row * 2654435761u >> 7) % hot_rows;
            float4 h = load<HOT>(hot + (size_t)at * 32 + lane, last);
            v.x *= h.x, v.y *= h.y, v.z *= h.z, v.w *= h.w;
        }
        sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

typedef void (*Work)(const float4 *, const float4 *, float4 *, unsigned, unsigned, unsigned);

static const unsigned THREADS = 512;
static unsigned blocks;
static float4 *streamed, *hot, *out;
static cudaEvent_t begin, end;
static cudaStream_t lane;

static cudaAccessPolicyWindow window(size_t bytes, float share) {
    cudaAccessPolicyWindow made = {};
    made.base_ptr = hot;
    made.num_bytes = bytes;
    made.hitRatio = share;
    made.hitProp = cudaAccessPropertyPersisting;
    made.missProp = cudaAccessPropertyStreaming;
    return made;
}

static float timed(Work kernel, unsigned rows, unsigned hot_rows, unsigned each, const cudaAccessPolicyWindow *of_launch) {
    cudaLaunchConfig_t config = {};
    cudaLaunchAttribute attribute = {};
    config.gridDim = dim3(blocks), config.blockDim = dim3(THREADS), config.stream = lane;
    if (of_launch) {
        attribute.id = cudaLaunchAttributeAccessPolicyWindow;
        attribute.val.accessPolicyWindow = *of_launch;
        config.attrs = &attribute, config.numAttrs = 1;
    }
    float millis;
    CHECK(cudaEventRecord(begin, lane));
    CHECK(cudaLaunchKernelEx(&config, kernel, (const float4 *)streamed, (const float4 *)hot, out, rows, hot_rows, each));
    CHECK(cudaEventRecord(end, lane));
    CHECK(cudaEventSynchronize(end));
    CHECK(cudaEventElapsedTime(&millis, begin, end));
    return millis * 1e6f;
}

static float median(std::vector<float> times) {
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
}

static double now() {
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Microseconds of the host for a call, at the median of 51.
template <typename Call> static double host_micros(Call call) {
    std::vector<float> times;
    for (int turn = 0; turn < 51; turn++) {
        double since = now();
        call();
        times.push_back((float)(now() - since));
        CHECK(cudaDeviceSynchronize());
    }
    return median(times);
}

int main(int count, char **words) {
    cudaDeviceProp device;
    CHECK(cudaGetDeviceProperties(&device, 0));
    size_t largest = device.persistingL2CacheMaxSize;
    blocks = device.multiProcessorCount * 4;
    bool is_run = count == 4 && !strcmp(words[1], "run");
    size_t stream_bytes = (size_t)atoi(getenv("HOT_SET_STREAM_MIB") ? getenv("HOT_SET_STREAM_MIB") : "512") << 20;
    size_t most_hot = is_run ? (size_t)atoi(words[3]) << 20 : (size_t)40 << 20;
    CHECK(cudaMalloc(&streamed, stream_bytes));
    CHECK(cudaMalloc(&hot, most_hot));
    CHECK(cudaMalloc(&out, (size_t)blocks * THREADS * sizeof(float4)));
    CHECK(cudaMemset(streamed, 0, stream_bytes));
    CHECK(cudaMemset(hot, 0, most_hot));
    CHECK(cudaStreamCreate(&lane));
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    unsigned rows = stream_bytes / 512;
    if (is_run) {
        std::vector<float> times;
        for (int launch = 0; launch < atoi(words[2]); launch++) {
            CHECK(cudaEventRecord(begin, lane));
            work<NONE, NONE><<<blocks, THREADS, 0, lane>>>(streamed, hot, out, rows, most_hot / 512, 2);
            CHECK(cudaEventRecord(end, lane));
            CHECK(cudaEventSynchronize(end));
            float millis;
            CHECK(cudaEventElapsedTime(&millis, begin, end));
            times.push_back(millis * 1e6f);
        }
        // What came last is what stays.
        printf("median_ns %.0f\n", median(std::vector<float>(times.begin() + times.size() / 2, times.end())));
        return 0;
    }
    struct Way {
        const char *name;
        Work kernel;
        bool is_carved;
        int window; // 1: of the launch; 2: of the launch, share 0.6; 3: of the stream; 4: none, and no reset before
    };
    const Way ways[] = {
        {"plain", work<NONE, NONE>, false, 0}, {"cs", work<CS, NONE>, false, 0},
        {"first", work<FIRST, NONE>, false, 0}, {"last", work<NONE, LAST>, false, 0},
        {"both", work<FIRST, LAST>, false, 0}, {"window0", work<NONE, NONE>, false, 1}, {"plain+", work<NONE, NONE>, true, 0},
        {"last+", work<NONE, LAST>, true, 0}, {"both+", work<FIRST, LAST>, true, 0},
        {"share", work<NONE, NONE>, true, 2}, {"stream", work<NONE, NONE>, true, 3},
        {"window", work<NONE, NONE>, true, 1}, {"after", work<NONE, NONE>, true, 4},
    };
    FILE *json = fopen("hot-set.json", "w");
    fprintf(json, "{\"device\": \"%s\", \"l2_bytes\": %d, \"largest_carve_out\": %zu, \"largest_window\": %d, \"rows\": [",
            device.name, device.l2CacheSize, largest, device.accessPolicyMaxWindowSize);
    printf("%s: L2 %d MiB, carve-out at most %.1f MiB, window at most %d MiB\n", device.name, device.l2CacheSize >> 20,
           largest / 1048576.0, device.accessPolicyMaxWindowSize >> 20);
    printf("%-14s", "hot MiB/each");
    for (const Way &way : ways)
        printf("%8s", way.name);
    printf("\n");
    const char *comma = "";
    for (unsigned each : {1u, 2u, 4u, 8u})
        for (size_t mib : {5, 10, 20, 30, 40}) {
            if (mib << 20 > most_hot)
                continue;
            std::map<std::string, std::vector<float>> times;
            for (bool is_carved : {false, true}) {
                if (is_carved && largest == 0)
                    continue;
                CHECK(cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, is_carved ? largest : 0));
                for (int turn = 0; turn < 13; turn++)
                    for (const Way &way : ways) {
                        if (way.is_carved != is_carved)
                            continue;
                        if (is_carved && way.window != 4)
                            CHECK(cudaCtxResetPersistingL2Cache());
                        cudaAccessPolicyWindow set = window(mib << 20, way.window == 2 ? 0.6f : 1.0f);
                        cudaStreamAttrValue value = {};
                        if (way.window == 3) {
                            value.accessPolicyWindow = set;
                            CHECK(cudaStreamSetAttribute(lane, cudaStreamAttributeAccessPolicyWindow, &value));
                        }
                        bool is_of_launch = way.window == 1 || way.window == 2;
                        float took = timed(way.kernel, rows, (mib << 20) / 512, each, is_of_launch ? &set : nullptr);
                        if (way.window == 3) {
                            value.accessPolicyWindow.num_bytes = 0;
                            CHECK(cudaStreamSetAttribute(lane, cudaStreamAttributeAccessPolicyWindow, &value));
                        }
                        // The first turns load code.
                        if (turn > 1)
                            times[way.name].push_back(took);
                    }
            }
            float plain = median(times["plain"]);
            printf("%4zu / %-7u", mib, each);
            for (const Way &way : ways) {
                float took = times[way.name].empty() ? 0 : median(times[way.name]);
                if (&way == ways)
                    printf("%6.0fus", took / 1000);
                else
                    printf("%8.3f", took ? plain / took : 0);
                fprintf(json, "%s\n {\"hot_mib\": %zu, \"loads_of_stream_for_one_hot\": %u, \"way\": \"%s\", \"ns\": %.0f}", comma,
                        mib, each, way.name, took);
                comma = ",";
            }
            printf("\n");
            fflush(stdout);
        }
    if (largest) {
        CHECK(cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, largest));
        cudaAccessPolicyWindow set = window((size_t)20 << 20, 1.0f);
        cudaStreamAttrValue value = {};
        value.accessPolicyWindow = set;
        double reset = host_micros([] { CHECK(cudaCtxResetPersistingL2Cache()); });
        double limit = host_micros([=] { CHECK(cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, largest)); });
        double of_stream = host_micros(
            [&] { CHECK(cudaStreamSetAttribute(lane, cudaStreamAttributeAccessPolicyWindow, &value)); });
        value.accessPolicyWindow.num_bytes = 0;
        CHECK(cudaStreamSetAttribute(lane, cudaStreamAttributeAccessPolicyWindow, &value));
        cudaLaunchConfig_t config = {};
        cudaLaunchAttribute attribute = {};
        attribute.id = cudaLaunchAttributeAccessPolicyWindow;
        attribute.val.accessPolicyWindow = set;
        config.gridDim = dim3(1), config.blockDim = dim3(32), config.stream = lane;
        auto launch = [&] {
            CHECK(cudaLaunchKernelEx(&config, work<NONE, NONE>, (const float4 *)streamed, (const float4 *)hot, out, 1u, 1u, 1u));
        };
        double bare = host_micros(launch);
        config.attrs = &attribute, config.numAttrs = 1;
        double with = host_micros(launch);
        printf("host us: reset %.1f, limit %.1f, stream attribute %.1f, launch %.1f, launch with window %.1f\n", reset, limit,
               of_stream, bare, with);
        fprintf(json, "],\n\"host_us\": {\"reset\": %.2f, \"limit\": %.2f, \"stream_attribute\": %.2f, \"launch\": %.2f, "
                      "\"launch_with_window\": %.2f}}\n",
                reset, limit, of_stream, bare, with);
    } else {
        fprintf(json, "]}\n");
    }
    fclose(json);
    return 0;
}
