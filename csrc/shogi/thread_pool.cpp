#include "thread_pool.hpp"

#include <algorithm>

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

ThreadPool::ThreadPool(int threads) : rows_(std::size_t(std::max(threads, 1))) {
    for (int row = 1; row < threads; ++row) helpers_.emplace_back([this, row] { help(row); });
}

ThreadPool::~ThreadPool() {
    closing_ = true;
    for (Row& row : rows_) {
        row.ticket.fetch_add(std::uint64_t(1) << (2 * kChunkBits));
        row.ticket.notify_all();
    }
    for (std::thread& helper : helpers_) helper.join();
}

void ThreadPool::run(int chunks, const Job& job) {
    if (helpers_.empty()) {
        for (int chunk = 0; chunk < chunks; ++chunk) job(0, chunk);
        return;
    }
    job_ = &job;
    left_.store(chunks * threads(), std::memory_order_relaxed);
    const std::uint64_t generation = generation_of(rows_[0].ticket.load()) + 1;
    for (Row& row : rows_) {
        row.ticket.store(generation << (2 * kChunkBits) | std::uint64_t(chunks) << kChunkBits);
        row.ticket.notify_all();
    }
    work_off(0, generation);
    for (int spins = 0; left_.load(std::memory_order_acquire) > 0; ++spins)
        spins < kSpins ? relax() : std::this_thread::yield();
}

void ThreadPool::work_off(int own_row, std::uint64_t generation) {
    for (int i = 0; i < threads(); ++i) work_off_row((own_row + i) % threads(), generation);
}

void ThreadPool::work_off_row(int row, std::uint64_t generation) {
    std::atomic<std::uint64_t>& shared = rows_[std::size_t(row)].ticket;
    std::uint64_t ticket = shared.load();
    while (generation_of(ticket) == generation && next_of(ticket) < chunks_of(ticket)) {
        if (!shared.compare_exchange_weak(ticket, ticket + 1)) continue;
        (*job_)(row, next_of(ticket));
        left_.fetch_sub(1, std::memory_order_acq_rel);
        ticket = shared.load();
    }
}

void ThreadPool::help(int row) {
    std::atomic<std::uint64_t>& shared = rows_[std::size_t(row)].ticket;
    std::uint64_t seen = 0;
    while (!closing_) {
        for (int spins = 0; generation_of(shared.load(std::memory_order_relaxed)) == seen && spins < kSpins; ++spins)
            relax();
        for (std::uint64_t ticket = shared.load(); generation_of(ticket) == seen; ticket = shared.load())
            shared.wait(ticket);
        seen = generation_of(shared.load());
        work_off(row, seen);
    }
}

}  // namespace keisei::shogi
