// Threads that are kept from one call to the next: to start one takes as long as a phase of a filter does.
//
// Calls from several Python threads borrow different helpers. A forked process has none of its parent's, and starts its
// own. Helpers run where their borrower may run.
#pragma once

#include <vector>

namespace densefield {

class PoolThread;

// Up to `most` helpers, fewer where the system refuses threads, given back at the end.
class Team {
 public:
  using Task = void (*)(const void* context, int index);

  explicit Team(int most);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int size() const { return static_cast<int>(threads_.size()); }

  // Has every helper call task(context, index), index being 1 … size().
  void start(Task task, const void* context);
  // Returns when all have done so.
  void wait();

 private:
  std::vector<PoolThread*> threads_;
};

}  // namespace densefield
