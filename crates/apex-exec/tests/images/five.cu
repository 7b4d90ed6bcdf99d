// What five.cubin (nvcc -cubin -arch=sm_90) and five.fatbin (nvcc -fatbin -gencode arch=compute_80,code=compute_80
// -gencode arch=compute_90,code=sm_90) were made of, with CUDA 13.0.
extern "C" __global__ void five(int* out) { *out = 5; }
