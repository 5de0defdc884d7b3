// What the thread of a rank knows: its engine, its mesh, and a communicator for each group that it has talked to.
#pragma once

#include <sinter/dist/engine.hpp>
#include <sinter/dist/world.hpp>

#include <map>
#include <memory>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace dist::dist_detail {

struct RankState {
  explicit RankState(std::unique_ptr<Engine> of, Mesh in) : engine(std::move(of)), mesh(std::move(in)) {}
  std::unique_ptr<Engine> engine;  // null: one rank alone
  Mesh mesh;
  bool is_worker = false;         // of map_shards: what it runs is not the process's rank
  bool is_mesh_of_trace = false;  // the mesh was given inside of what is being traced
  std::map<std::vector<int>, std::unique_ptr<Communicator>> groups{};
  std::vector<int> ranks_along(const Mesh& along, const Axis& axis, Location where) const;

  int rank() const { return engine ? engine->rank() : 0; }
  int size() const { return engine ? engine->size() : 1; }
  /// Number of ranks along the axis of a mesh, and this rank's place among them.
  int size_along(const Mesh& along, const Axis& axis, Location where) const;
  int index_along(const Mesh& along, const Axis& axis, Location where) const;
  Communicator& group_along(const Mesh& along, const Axis& axis, Location where);
  /// Null: there was no collective of the group yet.
  Communicator* known_group_along(const Mesh& along, const Axis& axis, Location where) const;
};

/// That of this thread. One of a rank alone where run() has started none.
RankState& current_rank();
/// Makes the thread a rank while it lives.
class RankScope {
 public:
  explicit RankScope(RankState& state);
  ~RankScope();
  RankScope(const RankScope&) = delete;
  RankScope& operator=(const RankScope&) = delete;

 private:
  RankState* before_;
};

}  // namespace dist::dist_detail
SINTER_NAMESPACE_END
