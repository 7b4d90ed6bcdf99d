/* apex for programs that want to talk to it: optional, and nothing to link with.
 *
 * Every function looks for apex in the running process. Under `apex run` it is there; elsewhere each function
 * does nothing and answers 0, and what would be a number is a NaN: a program that uses this header runs the
 * same with and without apex.
 */
#ifndef APEX_H
#define APEX_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* RTLD_DEFAULT */
#endif
#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a program wants. */
typedef struct apex_config {
    /* A burst (from its input copy or first launch until it has been waited for) shall end within so many
     * milliseconds in 95 of 100 cases. 0: nothing is promised. Counts for programs of the class latency. */
    float latency_critical_threshold_ms;
    /* 1: others may run beside this program's bursts as far as that promise allows. 0: nothing beside them. */
    int throughput_optimization;
    /* 1 asks for preemption below the launch, which apex does not have: the answer says so. Between launches
     * others are held in any case. */
    int enable_preemption;
} apex_config;

/* What is known of this program. A double that is not known is a NaN. */
typedef struct apex_metrics {
    /* Of this structure, in bytes: a newer apex has more fields, and fills in those that are here. */
    uint64_t size;
    /* Mean time that one launch of this program was held at the gate, in milliseconds. */
    double avg_queue_wait_ms;
    /* Part of the GPU's multiprocessors that the launches of all scheduled programs fill, in per cent: their
     * measured times, each weighed by its blocks, over the time since each program began. An estimate; NVML
     * has the hardware's own figure. */
    double sm_utilization_percent;
    /* 1 less the mean relative error of predicted against measured times of this program's launches. */
    double prediction_accuracy;
    /* Launches; those that were held; how long altogether; predicted time of all launches; of those not known
     * to be done; bursts that ended. */
    uint64_t launches, holds, waited_ns, admitted_ns, in_flight_ns, bursts;
} apex_metrics;

/* A bit of apex_configure's answer. */
enum { APEX_PREEMPTION_REFUSED = 1 };
/* How much is said on standard error. */
enum { APEX_LOG_ERROR = 0, APEX_LOG_WARNING = 1, APEX_LOG_INFO = 2, APEX_LOG_DEBUG = 3 };

static inline void *apex_find_(const char *name) {
    return dlsym(RTLD_DEFAULT, name);
}

/* The address is copied into the pointer: C has no conversion between the two. */
#define APEX_CALL_(type, name, otherwise, ...)                                                             \
    do {                                                                                                   \
        void *address_ = apex_find_(name);                                                                 \
        type function_;                                                                                    \
        if (address_ == 0)                                                                                 \
            return otherwise;                                                                              \
        memcpy(&function_, &address_, sizeof function_);                                                   \
        return function_(__VA_ARGS__);                                                                     \
    } while (0)

/* 1 if apex is in this process and switched on. */
static inline int apex_is_active(void) {
    typedef int (*type)(void);
    APEX_CALL_(type, "apex_active", 0);
}

/* 1 takes part in scheduling from the next launch on, 0 no longer. Answers whether it takes part. */
static inline int apex_schedule(int on) {
    typedef int (*type)(int);
    APEX_CALL_(type, "apex_enable_scheduling", 0, on);
}

/* Says what the program wants; answers bits for what it cannot have. */
static inline int apex_set_config(const apex_config *config) {
    typedef int (*type)(const apex_config *);
    APEX_CALL_(type, "apex_configure", 0, config);
}

/* A sentence for such an answer; empty for none. */
static inline const char *apex_why(int refused) {
    typedef const char *(*type)(int);
    APEX_CALL_(type, "apex_reason", "", refused);
}

static inline int apex_ask_metrics_(apex_metrics *metrics) {
    typedef int (*type)(apex_metrics *);
    APEX_CALL_(type, "apex_fill_metrics", 0, metrics);
}

/* Fills in what is known; answers 1 if the program takes part in scheduling. */
static inline int apex_read_metrics(apex_metrics *metrics) {
    memset(metrics, 0, sizeof *metrics);
    metrics->size = sizeof *metrics;
    metrics->avg_queue_wait_ms = metrics->sm_utilization_percent = metrics->prediction_accuracy = (double)NAN;
    return apex_ask_metrics_(metrics);
}

static inline int apex_log_level_(int level) {
    typedef void (*type)(int);
    void *address = apex_find_("apex_set_log_level");
    type function;
    if (address == 0)
        return 0;
    memcpy(&function, &address, sizeof function);
    function(level);
    return 1;
}

/* How much apex says. */
static inline void apex_log(int level) {
    (void)apex_log_level_(level);
}

/* Times launches, or not; answers 1 if this program is recorded. */
static inline int apex_profile(int on) {
    typedef int (*type)(int);
    APEX_CALL_(type, "apex_enable_profiling", 0, on);
}

#ifdef __cplusplus
}
#endif
#endif
