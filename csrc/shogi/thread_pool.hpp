// A few threads that share the chunks of one job at a time with the caller.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace keisei::shogi {

// Every thread has a row of chunks of its own, the same in each job, so that it finds in its cache what it left there.
// Whoever is done with them takes what is left of the others' rows.
class ThreadPool {
  public:
    using Job = std::function<void(int row, int chunk)>;

    explicit ThreadPool(int threads);  // the caller's own thread is one of them
    ~ThreadPool();
    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;

    int threads() const { return int(rows_.size()); }
    // Calls job(row, 0) .. job(row, chunks - 1) for the row of each thread, each once, and returns when all are done.
    // The job must not throw.
    void run(int chunks, const Job& job);

  private:
    // Generation, number of chunks and next chunk in one word: who is late cannot take a chunk of another job.
    struct alignas(64) Row {
        std::atomic<std::uint64_t> ticket{0};
    };

    void help(int row);
    void work_off(int own_row, std::uint64_t generation);
    void work_off_row(int row, std::uint64_t generation);

    std::vector<Row> rows_;
    alignas(64) std::atomic<int> left_{0};  // chunks that are not done
    std::atomic<bool> closing_{false};
    const Job* job_ = nullptr;
    std::vector<std::thread> helpers_;
};

}  // namespace keisei::shogi
