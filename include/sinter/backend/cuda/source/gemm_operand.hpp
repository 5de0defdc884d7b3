// An operand of a product on its way from memory into a tile in shared memory: a thread's share of a tile is loaded
// into registers, and, once it has arrived, what stands between memory and the product (a mask, a cast, a scale) is
// computed from them. Used by every form of generated product; knows nothing of the product itself or of how a tile is
// laid out.
#pragma once

#include <sinter/backend/cuda/source/writer.hpp>
#include <sinter/base/config.hpp>

#include <functional>
#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

/// Which value an operand is, and in what order a block's threads read it.
struct GemmOperand {
  InstId value = no_inst;  // a load, or maps of loads
  int axis = -1;           // the parallel axis of its own
  int depth_axis = -1;
  bool along_depth = true;  // neighbouring threads take neighbours along the reduced axis
  int width = 1;            // elements per access, along the axis that neighbouring threads follow
};

/// Chooses order and width. False: no product's operand, since it varies over the other operand's axis or asks for what
/// a tile cannot give (a gather).
bool choose_operand(Writer& writer, GemmOperand& operand, int other_axis);
/// Is it read as it is?
bool is_plain(const BoundKernel& bound, const GemmOperand& operand);
/// The instructions that it is made of, arguments first, immediates left out.
std::vector<InstId> instructions_of(const BoundKernel& bound, const GemmOperand& operand);

/// The tile that a block of threads takes of an operand, and the names of the text around it.
struct GemmOperandTile {
  std::string name;           // of the operand: "left"
  int extent = 0, depth = 0;  // elements along the operand's own axis, along the reduced axis
  int threads = 0;            // threads * width divides extent * depth
  std::string first;          // a variable: the tile's first index along the operand's own axis
  bool is_copied = false;     // by asynchronous copies, past registers: of a plain operand
};

/// Writes the text. The kernel has variables `t` (the tile's first index along the reduced axis) and `end` (no element
/// from there on counts), of type I. Elements of a tile that lie outside the product are 0, whatever is computed from
/// nothing.
class GemmOperandWriter {
 public:
  GemmOperandWriter(Writer& writer, const GemmOperand& operand, const GemmOperandTile& tile, const IndexNames& batch);

  /// Before the loop over tiles: registers, pointers, and what no tile changes.
  void declare();
  /// Loads this thread's share of the tile at `t`; whoever computes something before keep() hides the latency of
  /// memory.
  void fetch();
  /// For each of the thread's places i (an unrolled loop), `write` emits what stores `width` elements: names of the
  /// first element's position along depth and along the own axis, both inside the tile, and of an array of `width`
  /// values aligned to 16 bytes (or to its size). They are neighbours along depth or along the own axis:
  /// GemmOperand::along_depth.
  using Write = std::function<void(const std::string& depth, const std::string& place, const std::string& values)>;
  void keep(const Write& write);
  /// In place of both, where the tile is copied: `to` names the place of `width` elements in shared memory.
  using Place = std::function<std::string(const std::string& depth, const std::string& place)>;
  void copy(const Place& to);

  /// 4-byte registers per thread that hold what is on its way.
  int words() const;

 private:
  struct Loaded {
    InstId id = no_inst;
    bool by_place = false, by_lane = false;  // has one element for each i, for each of `width`
    bool is_fixed = false;                   // no tile changes it
  };
  static std::string str(std::int64_t number) { return std::to_string(number); }
  std::string type() const { return value_type(bound.inst(operand_.value).dtype); }
  int vector_axis() const { return operand_.along_depth ? operand_.depth_axis : operand_.axis; }
  int run() const { return (operand_.along_depth ? tile_.depth : tile_.extent) / operand_.width; }
  int step() const { return tile_.threads / run(); }
  int places() const { return tile_.extent * tile_.depth / (tile_.threads * operand_.width); }
  std::string depth_of() const { return tile_.name + "_depth" + (operand_.along_depth ? "" : " + i * " + str(step())); }
  std::string place_of() const { return tile_.name + "_place" + (operand_.along_depth ? " + i * " + str(step()) : ""); }
  bool is_once(InstId id) const { return !bound.varies(id, operand_.axis) && !bound.varies(id, operand_.depth_axis); }
  std::string suffix(InstId id) const { return is_plain_ ? std::string() : str(id); }
  std::string registers_of(InstId id) const { return tile_.name + "_next" + suffix(id); }
  std::string memory_of(InstId id) const { return tile_.name + "_from" + suffix(id); }
  std::string value(InstId id) const { return tile_.name + "_v" + str(id); }
  void read(const Loaded& load);
  void compute();

  Writer& w;
  const BoundKernel& bound;
  GemmOperand operand_;
  GemmOperandTile tile_;
  IndexNames batch_;
  bool is_plain_;
  std::vector<InstId> body_;
  std::vector<Loaded> loads_;
};

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
