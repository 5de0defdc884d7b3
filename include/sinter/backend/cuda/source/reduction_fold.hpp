// Folds with state in CUDA C: the variables of a state, and the lines that step, merge and finish it. Where threads
// meet and what is cut into pieces is the business of reduction.ipp. Knows one fold at a time; no walks.
#pragma once

#include <sinter/backend/cuda/source/gpu_shape.hpp>
#include <sinter/backend/cuda/source/writer.hpp>
#include <sinter/base/config.hpp>
#include <sinter/ops/scalar_fold.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

class FoldText {
 public:
  /// The fold of reduction `id`, whose state is named after it.
  FoldText(Writer& writer, const ThreadShape& shape, InstId id);

  std::size_t numbers() const { return fold_.states.size(); }
  DType dtype(std::size_t number) const { return fold_.states[number].dtype; }
  std::string type(std::size_t number) const { return value_type(dtype(number)); }
  std::string sum(std::size_t number) const;
  std::string neutral(std::size_t number) const;

  /// Declares the state, in columns one for each of the vector, and starts it.
  void declare(bool is_array);
  /// Takes in the point at hand. `place` is "[j]" in columns, or nothing.
  void feed(const std::string& place);
  /// The state named `older` (with its place) takes in another, and is named `to` then.
  void merge(const std::vector<std::string>& older, const std::vector<std::string>& newer,
             const std::vector<std::string>& to);
  /// Neighbours among `lanes` threads exchange states until all have that of all. A rolled loop is shorter to compile.
  void shuffle(const std::vector<std::string>& state, int lanes, bool is_rolled);
  /// The state of a row's threads, in all of them.
  void put_row_together(bool is_rolled);
  void put_columns_together();
  /// Declares v<result> for a result of this fold, from the state that is put together.
  void declare_result(InstId result, bool is_array);

  // Pieces of a cut range: the states lie one after the other in the workspace.
  std::int64_t partial_bytes(std::int64_t pieces) const;
  void write_partial(std::int64_t place, std::int64_t outputs);
  /// Takes in every piece that belongs to this lane of `lanes`, and puts lanes together.
  void read_partials(std::int64_t place, std::int64_t outputs, int lanes);

 private:
  static std::string str(std::int64_t number) { return std::to_string(number); }
  std::vector<std::string> sums(const std::string& place) const;
  std::vector<std::string> values_of(const ScalarProgram& program, const std::vector<std::string>& arguments);
  void run(const ScalarProgram& program, const std::vector<std::string>& arguments,
           const std::vector<std::string>& targets);
  std::string partials(std::size_t number, std::int64_t place);
  void put_cluster_together(bool is_rolled);

  Writer& w;
  const ThreadShape& shape;
  InstId id_;
  const ScalarFold& fold_;
};

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
