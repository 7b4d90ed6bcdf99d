// A loop over Thrust's algorithms, each of which takes temporary memory by cudaMalloc and gives it back.
//
//   main ELEMENTS TURNS
//
// It says what it computed, and what a turn took by its own clock, without the start of the process.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thrust/device_vector.h>
#include <thrust/functional.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>
#include <thrust/transform.h>

struct scrambled {
    __host__ __device__ unsigned operator()(unsigned i) const { return i * 2654435761u >> 8; }
};

struct bucket {
    __host__ __device__ unsigned operator()(unsigned key) const { return key >> 14; }
};

// The sum of all values and how many different keys there are.
static unsigned long long turn(size_t n) {
    thrust::device_vector<unsigned> keys(n), values(n), found_keys(n), sums(n);
    thrust::sequence(values.begin(), values.end());
    thrust::transform(values.begin(), values.end(), keys.begin(), scrambled());
    thrust::sort_by_key(keys.begin(), keys.end(), values.begin());
    thrust::inclusive_scan(values.begin(), values.end(), values.begin());
    unsigned total = thrust::reduce(values.begin(), values.end(), 0u, thrust::plus<unsigned>());
    thrust::transform(keys.begin(), keys.end(), keys.begin(), bucket());
    auto ends = thrust::reduce_by_key(keys.begin(), keys.end(), values.begin(), found_keys.begin(), sums.begin());
    return (unsigned long long)total << 32 | (unsigned long long)(ends.first - found_keys.begin());
}

int main(int count, char **words) {
    size_t n = count > 1 ? strtoull(words[1], nullptr, 10) : 100000;
    int turns = count > 2 ? atoi(words[2]) : 100;
    unsigned long long first = turn(n);
    auto began = std::chrono::steady_clock::now();
    for (int i = 0; i < turns; i++)
        if (turn(n) != first) {
            printf("turn %d differs\n", i);
            return 1;
        }
    std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    printf("found %llx\n", first);
    printf("seconds a turn: %.9f\n", took.count() / turns);
    return 0;
}
