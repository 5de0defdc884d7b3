// The thread's rank.
#pragma once

#include <sinter/dist/rank_state.hpp>

#include <sinter/graph/call_context.hpp>
#include <sinter/graph/tracing.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN
namespace dist {
namespace dist_detail {

inline RankState*& rank_of_thread() noexcept {
  static thread_local constinit RankState* state = nullptr;
  return state;
}

SINTER_DECL RankState& current_rank() {
  if (RankState* state = rank_of_thread(); state != nullptr) return *state;
  static thread_local RankState alone(nullptr, Mesh());
  return alone;
}

/// Compiled versions are looked up by these. Zeros for a rank alone.
inline void set_context() {
  const RankState& state = current_rank();
  std::uint64_t mesh = 14695981039346656037u;  // FNV-1a
  for (const char c : state.mesh.text()) mesh = (mesh ^ static_cast<unsigned char>(c)) * 1099511628211u;
  const bool is_alone = state.engine == nullptr;
  // Whose memory an engine takes decides what collectives are traced as.
  std::uint64_t on_devices = 0;
  if (!is_alone && state.engine->takes_device_memory()) on_devices = state.engine->enqueues() ? 3 : 1;
  CallContext& context = call_context();
  context.set(ContextKey::ranks, is_alone ? 0 : static_cast<std::uint64_t>(state.size()) | on_devices << 32);
  context.set(ContextKey::rank, is_alone ? 0 : static_cast<std::uint64_t>(state.rank() + 1));
  context.set(ContextKey::mesh, state.mesh.has_axes() ? mesh | 1 : 0);
}

SINTER_DECL RankScope::RankScope(RankState& state) : before_(std::exchange(rank_of_thread(), &state)) { set_context(); }
SINTER_DECL RankScope::~RankScope() {
  rank_of_thread() = before_;
  set_context();
}

SINTER_DECL int RankState::size_along(const Mesh& along, const Axis& axis, Location where) const {
  return axis.names.empty() ? size() : along.size(axis, where);
}
SINTER_DECL int RankState::index_along(const Mesh& along, const Axis& axis, Location where) const {
  return axis.names.empty() ? rank() : along.index(rank(), axis, where);
}

SINTER_DECL std::vector<int> RankState::ranks_along(const Mesh& along, const Axis& axis, Location where) const {
  if (!axis.names.empty()) return along.group(rank(), axis, where);
  std::vector<int> ranks;
  for (int r = 0; r < size(); ++r) ranks.push_back(r);
  return ranks;
}
SINTER_DECL Communicator* RankState::known_group_along(const Mesh& along, const Axis& axis, Location where) const {
  const auto found = groups.find(ranks_along(along, axis, where));
  return found != groups.end() ? found->second.get() : nullptr;
}
SINTER_DECL Communicator& RankState::group_along(const Mesh& along, const Axis& axis, Location where) {
  std::vector<int> ranks = ranks_along(along, axis, where);
  std::unique_ptr<Communicator>& place = groups[ranks];
  if (place == nullptr) place = engine->group(std::move(ranks), where);
  return *place;
}

}  // namespace dist_detail

SINTER_DECL int rank() {
  call_context().use(ContextKey::rank);
  return dist_detail::current_rank().rank();
}
SINTER_DECL int size() {
  call_context().use(ContextKey::ranks);
  return dist_detail::current_rank().size();
}
SINTER_DECL const Mesh& mesh() {
  const dist_detail::RankState& state = dist_detail::current_rank();
  call_context().use(state.is_mesh_of_trace ? ContextKey::ranks : ContextKey::mesh);
  return state.mesh;
}
SINTER_DECL int axis_size(const Axis& axis, Location where) {
  const dist_detail::RankState& state = dist_detail::current_rank();
  call_context().use(axis.names.empty() || state.is_mesh_of_trace ? ContextKey::ranks : ContextKey::mesh);
  return state.size_along(state.mesh, axis, where);
}
SINTER_DECL std::string_view engine_name() {
  call_context().use(ContextKey::ranks);
  const auto& engine = dist_detail::current_rank().engine;
  return engine ? engine->name() : "none";
}

SINTER_DECL MeshScope::MeshScope(Mesh mesh, Location where) {
  dist_detail::RankState& state = dist_detail::current_rank();
  if (mesh.has_axes() && mesh.size() != state.size())
    throw UserError("MeshScope",
                    "the mesh " + mesh.text() + " has " + std::to_string(mesh.size()) + " ranks, the program " +
                        std::to_string(state.size()),
                    where, "the product of its axes must be the number of ranks");
  before_ = std::exchange(state.mesh, std::move(mesh));
  was_of_trace_ = std::exchange(state.is_mesh_of_trace, Trace::current() != nullptr);
  dist_detail::set_context();
}
SINTER_DECL MeshScope::~MeshScope() {
  dist_detail::RankState& state = dist_detail::current_rank();
  state.mesh = std::move(before_);
  state.is_mesh_of_trace = was_of_trace_;
  dist_detail::set_context();
}

}  // namespace dist
SINTER_NAMESPACE_END
