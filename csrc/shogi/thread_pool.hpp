// A few threads that share the chunks of one job at a time with the caller.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace keisei::shogi {

class ThreadPool {
  public:
    using Job = std::function<void(int chunk)>;

    explicit ThreadPool(int threads);  // the caller's own thread is one of them
    ~ThreadPool();
    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;

    int threads() const { return int(helpers_.size()) + 1; }
    // Calls job(0) .. job(chunks - 1), each once, and returns when all are done. The job must not throw.
    void run(int chunks, const Job& job);

  private:
    void help();
    void work_off(std::uint64_t generation);

    // Generation, number of chunks and next chunk in one word: a late helper cannot take a chunk of another job.
    std::atomic<std::uint64_t> ticket_{0};
    std::atomic<int> done_{0};
    std::atomic<bool> closing_{false};
    const Job* job_ = nullptr;
    std::vector<std::thread> helpers_;
};

}  // namespace keisei::shogi
