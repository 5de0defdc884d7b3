// Meshes: ranks in a grid with named axes. Which ranks form a group along an axis is arithmetic; nothing here
// communicates.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/error.hpp>

#include <initializer_list>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace dist {

/// The ranks that a collective is over: along an axis of the mesh ("data"), along several ({"data", "model"}), or all.
struct Axis {
  Axis() = default;
  Axis(const char* name) : names{name} {}
  Axis(std::string name) : names{std::move(name)} {}
  Axis(std::initializer_list<std::string> list) : names(list) {}

  std::vector<std::string> names{};  // none: all ranks

  bool operator==(const Axis&) const = default;
  /// "all ranks", "'data'", "'data' and 'model'".
  std::string text() const;
};

/// An axis of a mesh.
struct MeshAxis {
  std::string name;
  int size = 1;

  bool operator==(const MeshAxis&) const = default;
};

/// Ranks 0, 1, ... in a grid, the last axis fastest. Without axes: ranks in a row, as many as there are.
///   Mesh mesh({{"data", 4}, {"model", 2}});   // rank 3 is at data 1, model 1
class Mesh {
 public:
  Mesh() = default;
  explicit Mesh(std::vector<MeshAxis> axes, Location where = std::source_location::current());
  explicit Mesh(std::initializer_list<MeshAxis> axes, Location where = std::source_location::current())
      : Mesh(std::vector<MeshAxis>(axes), where) {}

  const std::vector<MeshAxis>& axes() const { return axes_; }
  bool has_axes() const { return !axes_.empty(); }
  /// Number of ranks.
  int size() const;
  /// Ranks along these axes. Throws UserError for a name that it does not have.
  int size(const Axis& axis, Location where = std::source_location::current()) const;
  /// Where a rank is along these axes.
  int index(int rank, const Axis& axis, Location where = std::source_location::current()) const;
  /// The ranks that differ from `rank` in these axes alone, itself included, in order.
  std::vector<int> group(int rank, const Axis& axis, Location where = std::source_location::current()) const;
  /// "(data 4, model 2)".
  std::string text() const;
  bool operator==(const Mesh&) const = default;

 private:
  std::vector<bool> chosen(const Axis& axis, Location where) const;
  std::vector<MeshAxis> axes_;
};

}  // namespace dist
SINTER_NAMESPACE_END
