#include "thread_pool.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace keisei::shogi {
namespace {

inline constexpr int kSpins = 4000;  // some tens of microseconds: shorter than falling asleep and waking up
inline constexpr int kChunkBits = 20;
inline constexpr std::uint64_t kChunkMask = (1u << kChunkBits) - 1;

std::uint64_t generation_of(std::uint64_t ticket) { return ticket >> (2 * kChunkBits); }
int chunks_of(std::uint64_t ticket) { return int(ticket >> kChunkBits & kChunkMask); }
int next_of(std::uint64_t ticket) { return int(ticket & kChunkMask); }

void relax() {
#if defined(__x86_64__)
    _mm_pause();
#else
    std::this_thread::yield();
#endif
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
    for (int i = 1; i < threads; ++i) helpers_.emplace_back([this] { help(); });
}

ThreadPool::~ThreadPool() {
    closing_ = true;
    ticket_.fetch_add(std::uint64_t(1) << (2 * kChunkBits));
    ticket_.notify_all();
    for (std::thread& helper : helpers_) helper.join();
}

void ThreadPool::run(int chunks, const Job& job) {
    if (helpers_.empty() || chunks <= 1) {
        for (int chunk = 0; chunk < chunks; ++chunk) job(chunk);
        return;
    }
    job_ = &job;
    done_.store(0, std::memory_order_relaxed);
    const std::uint64_t generation = generation_of(ticket_.load()) + 1;
    ticket_.store(generation << (2 * kChunkBits) | std::uint64_t(chunks) << kChunkBits);
    ticket_.notify_all();
    work_off(generation);
    for (int spins = 0; done_.load(std::memory_order_acquire) != chunks; ++spins)
        spins < kSpins ? relax() : std::this_thread::yield();
}

void ThreadPool::work_off(std::uint64_t generation) {
    std::uint64_t ticket = ticket_.load();
    while (generation_of(ticket) == generation && next_of(ticket) < chunks_of(ticket)) {
        if (!ticket_.compare_exchange_weak(ticket, ticket + 1)) continue;
        (*job_)(next_of(ticket));
        done_.fetch_add(1, std::memory_order_acq_rel);
        ticket = ticket_.load();
    }
}

void ThreadPool::help() {
    std::uint64_t seen = 0;
    while (!closing_) {
        for (int spins = 0; generation_of(ticket_.load(std::memory_order_relaxed)) == seen && spins < kSpins; ++spins)
            relax();
        for (std::uint64_t ticket = ticket_.load(); generation_of(ticket) == seen; ticket = ticket_.load())
            ticket_.wait(ticket);
        seen = generation_of(ticket_.load());
        work_off(seen);
    }
}

}  // namespace keisei::shogi
