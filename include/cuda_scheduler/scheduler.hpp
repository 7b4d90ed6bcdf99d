// The scheduler of apex for C++ programs. Header only; without apex everything does nothing.
//
//     auto scheduler = CUDAScheduler::create();
//     scheduler.enableAIScheduling(true);
//     SchedulerConfig config;
//     config.latency_critical_threshold = 10.0f;
//     scheduler.configure(config);
//     auto metrics = scheduler.getMetrics();
//
// What each thing means stands in apex.h.
#ifndef CUDA_SCHEDULER_SCHEDULER_HPP
#define CUDA_SCHEDULER_SCHEDULER_HPP

#include "../apex.h"

#include <cstdint>
#include <string>

// Ordered as apex_log takes them. The name DEBUG is used as a macro in many builds; it must not be one here.
enum class LogLevel : int { ERROR = APEX_LOG_ERROR, WARNING = APEX_LOG_WARNING, INFO = APEX_LOG_INFO, DEBUG = APEX_LOG_DEBUG };

// What a program wants.
struct SchedulerConfig {
    // Milliseconds within which 95 of 100 bursts shall end; 0 promises nothing.
    float latency_critical_threshold = 0.0f;
    // Others may run beside this program's bursts as far as that allows.
    bool throughput_optimization = true;
    // Preemption below the launch: not to be had, see ConfigResult.
    bool enable_preemption = false;
};

// What came of a configuration.
struct ConfigResult {
    bool preemption_refused = false;
    std::string reason;
    explicit operator bool() const { return !preemption_refused; }
};

// What is known of this program; a NaN where it is not.
struct SchedulerMetrics {
    double avg_queue_wait_ms, sm_utilization_percent, prediction_accuracy;
    std::uint64_t launches, holds, waited_ns, admitted_ns, in_flight_ns, bursts;
    // The program takes part in scheduling.
    bool active;
};

class CUDAScheduler {
public:
    // The scheduler of this process.
    static CUDAScheduler create() { return CUDAScheduler(); }

    // Whether apex is here at all.
    bool active() const { return apex_is_active() != 0; }

    // Takes part in scheduling from the next launch on, or no longer. Answers whether it takes part.
    bool enableAIScheduling(bool on) { return apex_schedule(on ? 1 : 0) != 0; }

    ConfigResult configure(const SchedulerConfig &config) {
        apex_config plain;
        plain.latency_critical_threshold_ms = config.latency_critical_threshold;
        plain.throughput_optimization = config.throughput_optimization ? 1 : 0;
        plain.enable_preemption = config.enable_preemption ? 1 : 0;
        int refused = apex_set_config(&plain);
        ConfigResult result;
        result.preemption_refused = (refused & APEX_PREEMPTION_REFUSED) != 0;
        result.reason = apex_why(refused);
        return result;
    }

    SchedulerMetrics getMetrics() const {
        apex_metrics plain;
        bool active = apex_read_metrics(&plain) != 0;
        return SchedulerMetrics{plain.avg_queue_wait_ms, plain.sm_utilization_percent, plain.prediction_accuracy,
                                plain.launches, plain.holds, plain.waited_ns, plain.admitted_ns,
                                plain.in_flight_ns, plain.bursts, active};
    }

    void setLogLevel(LogLevel level) { apex_log(static_cast<int>(level)); }

    // Times launches, or not. Answers whether this program is recorded.
    bool enableProfiling(bool on) { return apex_profile(on ? 1 : 0) != 0; }

private:
    CUDAScheduler() = default;
};

#endif
