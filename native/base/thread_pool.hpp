// Threads that are reused by later calls, since starting one takes as long as a phase of a filter.
//
// Concurrent calls use different threads. A forked process starts its own. Threads run on the processors that the
// caller may use.
#pragma once

#include <vector>

namespace densefield {

class PoolThread;

// Up to `most` pool threads for one call, fewer if the system refuses some; returned to the pool by the destructor.
class Team {
 public:
  using Task = void (*)(const void* context, int index);

  explicit Team(int most);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int size() const { return static_cast<int>(threads_.size()); }

  // Each thread calls task(context, index) with index 1 … size().
  void start(Task task, const void* context);
  // Returns when all threads have finished the task.
  void wait();

 private:
  std::vector<PoolThread*> threads_;
};

}  // namespace densefield
