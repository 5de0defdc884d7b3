// A factor of a product on its way from memory into a tile in shared memory: a thread's share of a tile is loaded into
// registers, and, once it has arrived, what stands between memory and the product (a mask, a cast, a scale) is computed
// from them. Used by every form of generated product; knows nothing of the product itself or of how a tile is laid out.
#pragma once

#include <sinter/backend/cuda/source/writer.hpp>
#include <sinter/base/config.hpp>

#include <functional>
#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

/// Which value a factor is, and in what order a block's threads read it.
struct Factor {
  InstId value = no_inst;  // a load, or maps of loads
  int axis = -1;           // the parallel axis of its own
  int depth_axis = -1;
  bool along_depth = true;  // neighbouring threads take neighbours along the reduced axis
  int width = 1;            // elements per access, along the axis that neighbouring threads follow
};

/// Chooses order and width. False: no product's factor, since it varies over the other factor's axis or asks for what a
/// tile cannot give (a gather).
bool choose_factor(Writer& writer, Factor& factor, int other_axis);
/// Is it read as it is?
bool is_plain(const Nest& nest, const Factor& factor);
/// The instructions that it is made of, arguments first, immediates left out.
std::vector<InstId> instructions_of(const Nest& nest, const Factor& factor);

/// The tile that a block of threads takes of a factor, and the names of the text around it.
struct FactorTile {
  std::string name;           // of the factor: "left"
  int extent = 0, depth = 0;  // elements along the factor's own axis, along the reduced axis
  int threads = 0;            // threads * width divides extent * depth
  std::string first;          // a variable: the tile's first index along the factor's own axis
  bool is_copied = false;     // by asynchronous copies, past registers: of a plain factor
};

/// Writes the text. The kernel has variables `t` (the tile's first index along the reduced axis) and `end` (no element
/// from there on counts), of type I. Elements of a tile that lie outside the product are 0, whatever is computed from
/// nothing.
class FactorWriter {
 public:
  FactorWriter(Writer& writer, const Factor& factor, const FactorTile& tile, const IndexNames& batch);

  /// Before the loop over tiles: registers, pointers, and what no tile changes.
  void declare();
  /// Loads this thread's share of the tile at `t`; whoever computes something before keep() hides the way from memory.
  void fetch();
  /// For each of the thread's places i (an unrolled loop), `write` emits what stores `width` elements: names of the
  /// first element's position along depth and along the own axis, both inside the tile, and of an array of `width`
  /// values aligned to 16 bytes (or to its size). They are neighbours along depth or along the own axis:
  /// Factor::along_depth.
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
  std::string type() const { return value_type(nest.inst(factor_.value).dtype); }
  int vector_axis() const { return factor_.along_depth ? factor_.depth_axis : factor_.axis; }
  int run() const { return (factor_.along_depth ? tile_.depth : tile_.extent) / factor_.width; }
  int step() const { return tile_.threads / run(); }
  int places() const { return tile_.extent * tile_.depth / (tile_.threads * factor_.width); }
  std::string depth_of() const { return tile_.name + "_depth" + (factor_.along_depth ? "" : " + i * " + str(step())); }
  std::string place_of() const { return tile_.name + "_place" + (factor_.along_depth ? " + i * " + str(step()) : ""); }
  bool is_once(InstId id) const { return !nest.varies(id, factor_.axis) && !nest.varies(id, factor_.depth_axis); }
  std::string suffix(InstId id) const { return is_plain_ ? std::string() : str(id); }
  std::string registers_of(InstId id) const { return tile_.name + "_next" + suffix(id); }
  std::string memory_of(InstId id) const { return tile_.name + "_from" + suffix(id); }
  std::string value(InstId id) const { return tile_.name + "_v" + str(id); }
  void read(const Loaded& load);
  void compute();

  Writer& w;
  const Nest& nest;
  Factor factor_;
  FactorTile tile_;
  IndexNames batch_;
  bool is_plain_;
  std::vector<InstId> body_;
  std::vector<Loaded> loads_;
};

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
