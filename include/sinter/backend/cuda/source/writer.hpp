// Writer: what all forms of kernels write alike: the parameter and its numbers, positions taken apart into indices,
// offsets, loads and stores of one element or a vector, and instructions. A form (pointwise.hpp, transpose.hpp,
// reduction.hpp, product.hpp) writes its kernels with one, and adds its steps.
#pragma once

#include <sinter/backend/cuda/device/launch.hpp>
#include <sinter/backend/cuda/source/bound_kernel.hpp>
#include <sinter/backend/cuda/source/scalar.hpp>
#include <sinter/base/config.hpp>

#include <optional>
#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

using cuda::GpuLaunch;
using cuda::LaunchList;
using cuda::ParameterPatch;
using cuda::Target;

/// How an access lies along the vector axis.
enum class Along : std::uint8_t { constant, packed, spread };

/// Names of axes' indices ("x3"), empty where an axis has none at this place.
using IndexNames = std::array<std::string, max_axes>;

class Writer {
 public:
  Writer(const BoundKernel& bound, const Target& device, std::uint64_t by_value, bool is_aligned);

  const BoundKernel& bound;
  const Target& device;

  // ---- text
  void line(const std::string& text);
  /// A line that opens a block, and its end.
  void open(const std::string& text) { line(text + " {"), ++indent_; }
  void close(const char* after = "") { --indent_, line(std::string("}") + after); }
  void unroll(const std::string& loop) { line("#pragma unroll"), open(loop); }
  static std::string str(std::int64_t number) { return std::to_string(number); }

  // ---- the parameter
  /// A number of the parameter, by name; the same name has the same value.
  std::string number(const std::string& name, std::int64_t value);
  /// "I": the type of indices, 32 bits where every offset fits.
  bool is_wide() const { return is_wide_; }
  std::string pointer(std::uint16_t access);
  /// A tensor map of the parameter, of the operand of this access.
  std::string tensor_map(std::uint16_t access, const cuda::TensorMap& map);
  std::string extent(int axis) { return number("e" + str(axis), bound.extent(axis)); }
  /// Begins a kernel. `blocks`: so many per processor must find room in its registers. `cluster`: so many run at once
  /// and reach each other's shared memory, one on a processor, where it is not 0.
  std::string entry(const std::string& suffix, int threads, int blocks = 1, int cluster = 0);
  void add_step(const std::string& entry, std::int64_t blocks, std::int64_t blocks_y, int threads,
                unsigned shared_bytes = 0);
  /// All blocks of the last step run at once.
  void set_cooperative() { launches_.back().is_cooperative = true; }
  void add_workspace(std::int64_t bytes) { workspace_bytes_ += bytes; }
  void set_call(std::unique_ptr<cuda::LibraryCall> call) { call_ = std::move(call); }
  void set_algorithm(cuda::GemmAlgorithm algorithm) { algorithm_ = algorithm; }
  bool is_aligned() const { return is_aligned_; }
  /// Something is read or written in vectors outside set_vector.
  void require_alignment() { needs_alignment_ = true; }
  LaunchList finish();

  // ---- positions
  std::string divided(const std::string& dividend, const std::string& name, std::int64_t divisor);
  /// Declares the indices of `axes` at a row-major position. `packs`: the innermost axis counts vectors of that many.
  IndexNames decode(const std::string& position, const AxisList& axes, int packs = 1);
  /// The indices of a place with those of the reduced axes at a row-major position.
  IndexNames decode_reduced(const IndexNames& place, const std::string& position);
  /// Elements from the pointer's place, over the axes that have a name.
  std::string offset(std::uint16_t access, const IndexNames& index);

  // ---- the vector axis
  void set_vector(int axis, int width);
  /// Whether vectors that are loaded and stored from here on are used once: caches then keep others.
  enum class Use : std::uint8_t { again, once };
  void set_use(Use use) { use_ = use; }
  int vector_axis() const { return vector_axis_; }
  int width() const { return width_; }
  Along along(std::uint16_t access) const;
  /// Is this access a whole vector of `width` elements along the axis, in alignment, at every multiple of `width`?
  bool packs(std::uint16_t access, int axis, int width) const;

  // ---- values
  std::vector<std::string> name;  // of each instruction's value at this place
  void name_immediates();
  std::string declaration(InstId id) const { return value_type(bound.inst(id).dtype) + " v" + str(id); }
  /// A map, or the index of an axis (`index`), or a gather or guarded load at these indices plus `j` along the vector
  /// axis.
  std::string value_of(InstId id, const IndexNames& index, const std::string& j);
  std::string element(std::uint16_t access, const std::string& offset, const std::string& j);
  /// One element at `offset` as a value.
  std::string loaded(std::uint16_t access, const std::string& place) const;
  /// Fills target[first + 0 ... width): `first` is an expression.
  void load_vector(InstId id, const std::string& target, const std::string& first, const IndexNames& index);
  /// The load is done by load_vector, or (constant along the vector axis) once.
  void store_vector(const Store& store, const std::string& source, const IndexNames& index);
  void store_one(const Store& store, const std::string& value, const IndexNames& index, const std::string& j);
  /// The elements of a vector: instructions that vary along it, then s0[j], s1[j], ..., what is stored. `holds`: a
  /// condition on element j; empty where all are inside.
  void compute_elements(const std::vector<InstId>& elementwise, const IndexNames& index, const std::string& holds = {});
  /// From there to memory.
  void store_elements(const IndexNames& index);
  bool is_along(InstId id) const { return vector_axis_ >= 0 && bound.varies(id, vector_axis_); }

 private:
  struct Number {
    std::string name;
    std::int64_t value;
  };
  std::uint16_t first_with_strides(std::uint16_t access) const;
  bool is_value(std::uint16_t access) const { return (by_value_ >> bound.kernel.accesses[access].operand & 1) != 0; }

  std::uint64_t by_value_;
  bool is_aligned_, is_wide_ = false, needs_alignment_ = false;
  int indent_ = 0, vector_axis_ = -1, width_ = 1;
  Use use_ = Use::again;
  std::string body_;
  std::vector<Number> numbers_;
  std::vector<std::uint16_t> accesses_;  // that have a pointer
  std::vector<Along> along_;
  struct MappedAccess {
    std::uint16_t access;
    cuda::TensorMap map;
  };
  std::vector<MappedAccess> maps_;
  std::vector<GpuLaunch> launches_;
  std::vector<std::string> entries_;
  std::int64_t workspace_bytes_ = 0;
  std::unique_ptr<cuda::LibraryCall> call_;
  std::optional<cuda::GemmAlgorithm> algorithm_;
};

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
