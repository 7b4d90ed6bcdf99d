// The dearest case for a layer under the driver: nothing but launches of an empty kernel.
//
// Each repeat launches `--steps` kernels by the runtime API and as many by the driver API
// and waits for the device at the end. Standard error gets one line of JSON with the
// nanoseconds per launch of every repeat; standard output depends only on the arguments.
//
// With `--paired`, under apex, blocks of launches straight into the real driver alternate with blocks
// through apex in the same process: what else happens on the machine then hits both alike.
#include <cuda.h>
#include <cuda_runtime.h>

#include <dlfcn.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CHECK(call)                                                                        \
    do {                                                                                   \
        int status = static_cast<int>(call);                                               \
        if (status != 0) {                                                                 \
            fprintf(stderr, "line %d: error %d\n", __LINE__, status);                      \
            exit(1);                                                                       \
        }                                                                                  \
    } while (0)

__global__ void null_kernel() {}

using Clock = std::chrono::steady_clock;

static double nanoseconds_since(Clock::time_point begin) {
    return std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
}

static double by_runtime(int launches) {
    Clock::time_point begin = Clock::now();
    for (int launch = 0; launch < launches; launch++) null_kernel<<<1, 1>>>();
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    return nanoseconds_since(begin) / launches;
}

using Launch = decltype(&cuLaunchKernel);

static double by_driver(CUfunction function, int launches, Launch launch_kernel = cuLaunchKernel) {
    Clock::time_point begin = Clock::now();
    for (int launch = 0; launch < launches; launch++) {
        CHECK(launch_kernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
    }
    CHECK(cuCtxSynchronize());
    return nanoseconds_since(begin) / launches;
}

static void print_list(const char* name, const std::vector<double>& values, const char* after) {
    fprintf(stderr, "\"%s\": [", name);
    for (size_t index = 0; index < values.size(); index++) {
        fprintf(stderr, "%s%.1f", index ? ", " : "", values[index]);
    }
    fprintf(stderr, "]%s", after);
}

static int paired(CUfunction function, int launches, int repeats) {
    const char* path = getenv("APEX_REAL_LIBCUDA");
    // dlmopen, because dlopen of a libcuda is answered with apex.
    void* real = path ? dlmopen(LM_ID_BASE, path, RTLD_NOW) : nullptr;
    Launch direct = real ? reinterpret_cast<Launch>(dlsym(real, "cuLaunchKernel")) : nullptr;
    if (!direct || direct == cuLaunchKernel) {
        fprintf(stderr, "--paired needs to run under apex\n");
        return 1;
    }
    std::vector<double> by_direct, by_apex;
    for (int repeat = 0; repeat < repeats; repeat++) {
        by_direct.push_back(by_driver(function, launches, direct));
        by_apex.push_back(by_driver(function, launches));
    }
    fprintf(stderr, "{\"launches\": %d, ", launches);
    print_list("direct_ns", by_direct, ", ");
    print_list("apex_ns", by_apex, "}\n");
    return 0;
}

int main(int argc, char** argv) {
    int launches = 100000, repeats = 5;
    bool is_paired = false;
    for (int index = 1; index < argc; index++) {
        if (strcmp(argv[index], "--paired") == 0) is_paired = true;
    }
    for (int index = 1; index + 1 < argc; index++) {
        if (strcmp(argv[index], "--steps") == 0) launches = atoi(argv[index + 1]);
        if (strcmp(argv[index], "--repeats") == 0) repeats = atoi(argv[index + 1]);
    }

    by_runtime(1000);
    cudaFunction_t function;
    CHECK(cudaGetFuncBySymbol(&function, reinterpret_cast<const void*>(null_kernel)));
    by_driver(function, 1000);
    if (is_paired) return paired(function, launches, repeats);

    std::vector<double> runtime, driver;
    for (int repeat = 0; repeat < repeats; repeat++) {
        runtime.push_back(by_runtime(launches));
        driver.push_back(by_driver(function, launches));
    }
    fprintf(stderr, "{\"launches\": %d, ", launches);
    print_list("runtime_ns", runtime, ", ");
    print_list("driver_ns", driver, "}\n");
    printf("launched %d times %d by both interfaces\n", launches, repeats);
    return 0;
}
