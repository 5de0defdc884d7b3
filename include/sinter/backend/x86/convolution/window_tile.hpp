// Micro-kernels of convolutions with outputs in lanes: elements of an image, broadcast from where they lie, by vectors
// of factors. Where a row's elements are seen from is part of the code. Positions are those of what is added up: of
// results for a gradient by the weight, of taps for a convolution. Knows nothing of images or launches.
#pragma once

#include <sinter/backend/x86/machine/isa.hpp>
#include <sinter/base/config.hpp>
#include <sinter/tensor/dtype.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace x86 {

class CodeBlock;

/// What one kernel is emitted for. Rows are elements that are seen from each position.
struct WindowTileShape {
  DType dtype = DType::f32;  // f32, f64
  Isa isa = Isa::avx2;
  std::int32_t vectors = 1;
  std::int32_t step = 0;              // from a position to the next one in the image, bytes
  std::vector<std::int32_t> offsets;  // of each row from the first, bytes
  std::int32_t together = 1;          // so many positions are often successive
  bool looks_ahead = false;           // asks for the lines of the next segment, which is there behind the last one
  friend bool operator==(const WindowTileShape&, const WindowTileShape&) = default;
};
/// Most rows that leave registers for the vectors and one element.
constexpr int most_window_rows(Isa isa, int vectors) {
  return ((isa == Isa::avx512 ? 32 : 16) - vectors - 1) / vectors;
}

/// Successive positions, `step` apart in the image.
struct WindowSegment {
  std::int64_t from = 0;  // bytes from WindowTileArgs::image
  std::int64_t count = 0;
};
/// Adds up one block of a sum. `sums` are [row, vector].
struct WindowTileArgs {
  const void* image = nullptr;    // what the first row sees
  const void* factors = nullptr;  // of each position in turn, as many vectors as the shape says
  const WindowSegment* segments = nullptr;
  std::int64_t count = 0;  // of segments, 1 or more
  void* sums = nullptr;
  std::int64_t adds = 0;  // else the sums are only written
};
/// The code of a shape. Any number of threads run it at once.
class WindowTile {
 public:
  explicit WindowTile(std::shared_ptr<const CodeBlock> code);
  void operator()(WindowTileArgs& args) const { function_(&args); }

 private:
  std::shared_ptr<const CodeBlock> code_;
  void (*function_)(WindowTileArgs*);
};
/// Emits what the process has not lately used.
std::shared_ptr<const WindowTile> find_window_tile(const WindowTileShape& shape);

}  // namespace x86
SINTER_NAMESPACE_END
