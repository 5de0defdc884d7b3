// Interpreter: runs a Program over bound extents, one instruction at a time over blocks of up to 256 points, in typed
// buffers that it owns (nothing is allocated while it runs). Which axes make up a block is chosen from the extents:
// the parallel ones (each lane has its own sums) or the reduced ones (a long row per outer point).
#pragma once

#include <sinter/backend/reference/program.hpp>
#include <sinter/backend/reference/space.hpp>
#include <sinter/base/config.hpp>
#include <sinter/kernel/fold_lanes.hpp>
#include <sinter/runtime/backend.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace reference_detail {

class Product;

inline constexpr std::int64_t block_size = 256;

/// Up to block_size successive points of the lanes.
struct Block {
  Position start{};
  std::int64_t count = 0;
};

class Interpreter final : public Launch {
 public:
  Interpreter(std::shared_ptr<const Program> program, const BoundGeometry& geometry);
  ~Interpreter() override;
  void run(void* const* operands) override;

 private:
  void allocate_values();
  void fill_immediates();
  void run_with_parallel_lanes();
  void run_with_reduced_lanes();
  void run_product();
  void run_scatter();
  void run_product_rows(const Position& batch, std::int64_t row, std::int64_t column, std::int64_t rows,
                        std::int64_t columns);

  void evaluate(std::span<const InstId> list, const Block& block);
  void evaluate_one(InstId id, const Block& block);
  void load(InstId id, const Block& block);
  void gather(InstId id, const Block& block);
  void guarded_load(InstId id, const Block& block);
  void read_index(InstId id, const Block& block);
  void finish_reduction(InstId id, std::int64_t count);
  void make_folds();
  InstId holder(InstId id) const;
  void feed_fold(InstId id, std::int64_t count);
  void finish_fold(InstId id, std::int64_t count);
  void start_reductions(const Pass& pass, std::int64_t count);
  void feed_reductions(const Pass& pass, std::int64_t count);
  void store(const std::vector<Store>& stores, const Block& block);
  void update(const Store& store, const Block& block);
  void note_bad_index(std::int64_t index, std::int64_t extent);
  void spread(const std::vector<InstId>& list);
  void set_loop_offsets();
  DType dtype_in_memory(std::uint16_t access) const { return sinter::dtype_in_memory(program_->kernel, access); }
  /// Calls visit(first lane, lanes, base address, stride in elements) for each run of the block along its innermost
  /// axis.
  template <class Visit>
  void for_each_run(std::uint16_t access, const Block& block, Visit&& visit) const;

  std::shared_ptr<const Program> program_;
  BoundGeometry geometry_;
  bool reduced_lanes_ = false;
  Space lanes_, loop_;
  std::unique_ptr<Product> product_;  // contractions that are matrix products
  Position loop_position_{};
  std::vector<std::int64_t> loop_offset_;  // per access, geometry's offset included
  std::unique_ptr<std::byte[]> memory_;
  std::vector<void*> value_;  // per instruction: block_size elements of its dtype
  std::vector<void*> sums_;   // per instruction: block_size accumulators; reductions and scans only
  /// Per instruction: the lanes of a fold with state, and its arguments as wide cells. Empty where an earlier result of
  /// the same fold has them.
  struct FoldRun {
    std::unique_ptr<kernel_detail::FoldLanes<true>> lanes;
    std::vector<std::vector<kernel_detail::CellRoom>> arguments;
    bool is_put_together = false;
  };
  std::vector<FoldRun> folds_;
  // Of the run in progress.
  void* const* operands_ = nullptr;
  bool index_out_of_range_ = false;
  bool only_checks_ = false;  // scatters: the walk before the one that writes
  std::int64_t bad_index_ = 0, bad_extent_ = 0;
};

}  // namespace reference_detail
SINTER_NAMESPACE_END
